"""Checking files that people hand in: `rag-eval validate` and the pipeline's own checks.

The form is recognised by the file's name, Evret's by its content. A file's findings come back as values or lines;
nothing is raised for bad content.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.annotation_files import read_annotation_file
from rag_eval_pipeline.formats.csv_table import read_csv_table
from rag_eval_pipeline.formats.dataset_checks import check_dataset
from rag_eval_pipeline.formats.dataset_csv import DATASET_ID
from rag_eval_pipeline.formats.dataset_files import CSV, dataset_findings, has_key, parse_evaluation_dataset
from rag_eval_pipeline.formats.dataset_headers import DATASET_ENDINGS, GROUND_TRUTH_ENDINGS
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset
from rag_eval_pipeline.formats.evret import is_evret_csv, parse_evret_csv, parse_evret_json
from rag_eval_pipeline.formats.file_kinds import KINDS, RESULTS_ENDINGS, FileKind, kind_of_file, version_note
from rag_eval_pipeline.formats.findings import Finding, errors_in, finding, model_findings
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.json_text import read_json_text
from rag_eval_pipeline.formats.model_files import JSON, parse_file
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.train_checks import check_train_json

KNOWN = (
    "train.json, *.eval.json, *.gt.json, *.results.json (or .json.gz, .yaml, .eval.csv), *.benchmark.json, "
    "regressions.json, or Evret's JSON or CSV"
)
FORMS = (
    (DATASET_ENDINGS, EvaluationDataset.form),
    (GROUND_TRUTH_ENDINGS, GroundTruth.form),
    (RESULTS_ENDINGS, EvaluationResults.form),
)


def validate(path: Path, *, corpus: Path | None = None, strict: bool = False) -> list[str]:
    """Errors in a file of any of the known forms, a line each; none when it is good.

    Args:
        path: The file.
        corpus: As for `examine`.
        strict: As for `examine`.

    Raises:
        InputError: As `examine`.
    """
    return [str(found) for found in errors_in(examine(path, corpus=corpus, strict=strict))]


def examine(
    path: Path, *, corpus: Path | None = None, strict: bool = False, kinds: Sequence[FileKind] = ()
) -> list[Finding]:
    """Everything found in a file of any of the known forms: errors, warnings, and what was not checked.

    Args:
        path: The file.
        corpus: A folder of documents, in which references are looked up; without, a dataset's inline documents, and
            for `train.json` the folder `corpus` beside it.
        strict: Evret's queries may not have both document labels and expected answers.
        kinds: Of other rooms' files.

    Raises:
        InputError: `unknown_form`, for a file that neither name nor content says anything about; `missing_file`.
    """
    name = path.name
    check: Callable[[], list[Finding]]
    if kind := kind_of_file(path, (*KINDS, *kinds)):
        check = partial(kind.examine, path)
    elif name == "train.json":
        check = partial(check_train_json, path, corpus=corpus)
    elif name.endswith(DATASET_ENDINGS):
        check = partial(_dataset, path, corpus)
    elif name.endswith(GROUND_TRUTH_ENDINGS):
        check = partial(_ground_truth, path)
    elif name.endswith(RESULTS_ENDINGS):
        check = partial(_results, path)
    elif name.endswith(JSON + CSV):
        check = partial(_by_content, path, corpus, strict=strict)
    else:
        raise InputError("unknown_form", path, KNOWN)
    return _guarded(check)


def version_of(path: Path, kinds: Sequence[FileKind] = ()) -> str | None:
    """Which version of its form a file is of, for people; None for files that have none: train.json, CSV, Evret's.

    Args:
        path: A file that `examine` has read.
        kinds: As for `examine`.
    """
    kind = kind_of_file(path, (*KINDS, *kinds))
    form = kind.form if kind else next((form for endings, form in FORMS if path.name.endswith(endings)), None)
    return None if form is None or path.name.endswith(CSV) else version_note(path, form)


def validate_evaluation_dataset(path: Path, *, corpus: Path | None = None) -> list[str]:
    """Errors in an evaluation dataset, a line each."""
    return [str(found) for found in errors_in(_guarded(partial(_dataset, path, corpus)))]


def validate_ground_truth(path: Path) -> list[str]:
    """Errors in a file of annotations, a line each."""
    return [str(found) for found in errors_in(_guarded(partial(_ground_truth, path)))]


def validate_evaluation_results(path: Path) -> list[str]:
    """Errors in a results file, a line each."""
    return [str(found) for found in errors_in(_guarded(partial(_results, path)))]


def _guarded(check: Callable[[], list[Finding]]) -> list[Finding]:
    """What a check finds; a file that cannot be read at all is one finding."""
    try:
        return check()
    except InputError as error:
        if error.code in ("missing_file", "unknown_form"):
            raise
        return [Finding.of(error)]


def _by_content(path: Path, corpus: Path | None, *, strict: bool) -> list[Finding]:
    """A JSON or CSV file whose name says nothing: an evaluation dataset or Evret's."""
    if path.name.endswith(CSV):
        columns = read_csv_table(path).columns
        is_dataset, is_evret = DATASET_ID in columns, is_evret_csv(columns)
    else:
        text = read_json_text(path)
        is_evret = has_key(text, "queries")
        is_dataset = is_evret and has_key(text, "dataset_id")
    if is_dataset:
        return _dataset(path, corpus)
    if not is_evret:
        raise InputError("unknown_form", path, KNOWN, hint="Its content is none of them either.")
    parse = parse_evret_csv if path.name.endswith(CSV) else parse_evret_json
    dataset, findings = parse(path, strict=strict)
    return [*findings, *check_dataset(dataset, path, corpus=corpus)]


def _dataset(path: Path, corpus: Path | None) -> list[Finding]:
    try:
        dataset, findings = parse_evaluation_dataset(path)
    except pydantic.ValidationError as error:
        return dataset_findings(path, error)
    return [*findings, *check_dataset(dataset, path, corpus=corpus)]


def _ground_truth(path: Path) -> list[Finding]:
    file = read_annotation_file(path)
    findings = [Finding.of(fault) for fault in file.faults]
    counts = Counter((one.annotator_id, one.annotation_id) for one in file.annotations)
    for (annotator, annotation), count in counts.items():
        if count > 1:
            expected = f"ids that an annotator uses once, but {annotator!r} has this one {count} times"
            findings.append(
                finding("error", "duplicate_id", path, expected, field="annotations.annotation_id", found=annotation)
            )
    return findings


def _results(path: Path) -> list[Finding]:
    """Faults of a results file; its counts must agree with its rows."""
    try:
        results = parse_file(EvaluationResults, path)
    except pydantic.ValidationError as error:
        return model_findings(path, error, schema="evaluation_results")
    summary, rows = results.summary, len(results.query_results)
    findings = []
    if summary.total_queries != rows:
        expected = f"the number of query_results, {rows}"
        findings.append(
            finding("error", "counts", path, expected, field="summary.total_queries", found=summary.total_queries)
        )
    if summary.successful_queries + summary.failed_queries != summary.total_queries:
        expected = f"with failed_queries, {summary.failed_queries}, the sum total_queries, {summary.total_queries}"
        found = summary.successful_queries
        findings.append(finding("error", "counts", path, expected, field="summary.successful_queries", found=found))
    twice = [query for query, count in Counter(row.query_id for row in results.query_results).items() if count > 1]
    findings += [
        finding("error", "duplicate_id", path, "each query once", field="query_results.query_id", found=query)
        for query in twice
    ]
    return findings
