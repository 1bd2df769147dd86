"""Validate files that people hand in: `rag-eval validate` and the pipeline's own checks.

A file is recognised by its name, Evret's by its content. Everything found comes back as findings or lines; bad content
raises nothing.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.csv import read_csv_table
from rag_eval_pipeline.formats.dataset import (
    CSV,
    EvaluationDataset,
    dataset_findings,
    has_key,
    parse_evaluation_dataset,
    parse_evret_dataset,
)
from rag_eval_pipeline.formats.dataset_checks import check_dataset
from rag_eval_pipeline.formats.evret import is_evret_csv
from rag_eval_pipeline.formats.findings import Finding, errors_in, finding, model_findings
from rag_eval_pipeline.formats.ground_truth import GroundTruth, read_annotation_file
from rag_eval_pipeline.formats.io import JSON, read_json_bytes
from rag_eval_pipeline.formats.model import FileModel, parse_file
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.store import AB_TEST, DATASET_ENDINGS, GROUND_TRUTH_ENDINGS, RESULTS_ENDINGS, WEEKLY
from rag_eval_pipeline.formats.train_json import check_train_json

KNOWN = "train.json, *.eval.json, *.gt.json, *.results.json (or .json.gz, .yaml, .eval.csv), or Evret's JSON or CSV"


def validate(path: Path, *, corpus: Path | None = None, strict: bool = False) -> list[str]:
    """Return the errors in a file, one line each; arguments and errors as `examine`."""
    return [str(found) for found in errors_in(examine(path, corpus=corpus, strict=strict))]


def examine(path: Path, *, corpus: Path | None = None, strict: bool = False) -> list[Finding]:
    """Return everything found in a file: errors, warnings, and what was not checked.

    Args:
        path: The file.
        corpus: A folder of documents in which references are looked up; without it, in a dataset's inline documents,
            and for `train.json` in the folder `corpus` beside it.
        strict: Evret's queries may not have both document labels and expected answers.

    Raises:
        InputError: `unknown_form` if neither name nor content is known, or `missing_file`.
    """
    name = path.name
    check: Callable[[], list[Finding]]
    if name == "train.json":
        check = partial(check_train_json, path, corpus=corpus)
    elif name.endswith(DATASET_ENDINGS):
        check = partial(_dataset, path, corpus)
    elif name.endswith(GROUND_TRUTH_ENDINGS):
        check = partial(_ground_truth, path)
    elif name.endswith(RESULTS_ENDINGS) and not name.startswith((WEEKLY, AB_TEST)):
        check = partial(_results, path)
    elif name.endswith(JSON + CSV) and not name.endswith(RESULTS_ENDINGS):
        check = partial(_by_content, path, corpus, strict=strict)
    else:
        raise InputError("unknown_form", path, KNOWN)
    return _guarded(check)


def schema_version_of(path: Path) -> str | None:
    """Return type and schema version of a valid file for people; None for train.json, CSV and Evret's, without one."""
    types: tuple[tuple[tuple[str, ...], type[FileModel]], ...] = (
        (DATASET_ENDINGS, EvaluationDataset),
        (GROUND_TRUTH_ENDINGS, GroundTruth),
        (RESULTS_ENDINGS, EvaluationResults),
    )
    model = next((model for endings, model in types if path.name.endswith(endings)), None)
    return None if model is None or path.name.endswith(CSV) else f"{model.file_type} {model.current_version}"


def validate_evaluation_dataset(path: Path, *, corpus: Path | None = None) -> list[str]:
    """Return the errors in an evaluation dataset, one line each."""
    return [str(found) for found in errors_in(_guarded(partial(_dataset, path, corpus)))]


def validate_ground_truth(path: Path) -> list[str]:
    """Return the errors in a file of annotations, one line each."""
    return [str(found) for found in errors_in(_guarded(partial(_ground_truth, path)))]


def validate_evaluation_results(path: Path) -> list[str]:
    """Return the errors in a results file, one line each."""
    return [str(found) for found in errors_in(_guarded(partial(_results, path)))]


def _guarded(check: Callable[[], list[Finding]]) -> list[Finding]:
    """Return what a check finds; a file that cannot be read at all is one finding."""
    try:
        return check()
    except InputError as error:
        if error.code in ("missing_file", "unknown_form"):
            raise
        return [Finding.from_error(error)]


def _by_content(path: Path, corpus: Path | None, *, strict: bool) -> list[Finding]:
    """Check a JSON or CSV file whose name says nothing: an evaluation dataset or Evret's."""
    if path.name.endswith(CSV):
        columns = read_csv_table(path).columns
        is_dataset, is_evret = "dataset_id" in columns, is_evret_csv(columns)
    else:
        text = read_json_bytes(path)
        is_evret = has_key(text, "queries")
        is_dataset = is_evret and has_key(text, "dataset_id")
    if is_dataset:
        return _dataset(path, corpus)
    if not is_evret:
        raise InputError("unknown_form", path, KNOWN, hint="Its content is none of them either.")
    dataset, findings = parse_evret_dataset(path, strict=strict)
    return [*findings, *check_dataset(dataset, path, corpus=corpus)]


def _dataset(path: Path, corpus: Path | None) -> list[Finding]:
    try:
        dataset, findings = parse_evaluation_dataset(path)
    except pydantic.ValidationError as error:
        return dataset_findings(path, error)
    return [*findings, *check_dataset(dataset, path, corpus=corpus)]


def _ground_truth(path: Path) -> list[Finding]:
    file = read_annotation_file(path)
    findings = [Finding.from_error(error) for error in file.errors]
    counts = Counter((one.annotator_id, one.annotation_id) for one in file.annotations)
    for (annotator, annotation), count in counts.items():
        if count > 1:
            expected = f"ids that an annotator uses once, but {annotator!r} has this one {count} times"
            findings.append(
                finding("error", "duplicate_id", path, expected, field="annotations.annotation_id", found=annotation)
            )
    return findings


def _results(path: Path) -> list[Finding]:
    """Check a results file; its counts must agree with its rows."""
    try:
        results = parse_file(EvaluationResults, path)
    except pydantic.ValidationError as error:
        return model_findings(path, error)
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
    repeated = [query for query, count in Counter(row.query_id for row in results.query_results).items() if count > 1]
    findings += [
        finding("error", "duplicate_id", path, "each query once", field="query_results.query_id", found=query)
        for query in repeated
    ]
    return findings
