"""The folder of evaluation data: datasets, ground truths and results, found by their ids and published safely.

What counts is the id and version in a file, not its name. An id may carry its version (`personal_rag_eval_v1.0.0`), a
version may carry a `v`, and neither is ever made into a path or a pattern. A published version never changes unless
asked for: saving other content under it is an error that names the difference.
Source: Evaluation Data Formats 3.2, 4.1, 4.2.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pydantic

from rag_eval_pipeline.errors import InputError, excerpt
from rag_eval_pipeline.formats.dataset import ENDINGS, EvaluationDataset, dataset_stem, read_evaluation_dataset
from rag_eval_pipeline.formats.fields import PLAIN_NAME, UNVERSIONED, newest_versions, parse_version, split_version
from rag_eval_pipeline.formats.ground_truth import GROUND_TRUTH_ENDINGS, GroundTruth, read_annotation_file
from rag_eval_pipeline.formats.io import JSON, read_bytes, read_plain_bytes
from rag_eval_pipeline.formats.model import Finding, decoding_error, listed
from rag_eval_pipeline.formats.results import EvaluationResults, Metric
from rag_eval_pipeline.formats.yaml import YAML, read_yaml_data

DATASET_ENDINGS = tuple(f".eval{ending}" for ending in ENDINGS)
RESULTS_ENDINGS = tuple(f".results{ending}" for ending in JSON + YAML)
SEMANTIC = "a semantic version such as 1.2.0"
WEEKLY = "benchmark_weekly_"  # how names of results files of several evaluations begin
AB_TEST = "ab_test_"

Values = dict[str, dict[str, float | None]]


class DatasetRef(NamedTuple):
    """Id and version that a file states."""

    path: Path
    dataset_id: str
    version: str


class DatasetHeader(NamedTuple):
    """A dataset with the number of its questions instead of the questions; its name is the id if the file has none."""

    dataset_id: str
    name: str
    version: str
    description: str | None
    size: int
    path: Path


class AvailableDatasets(NamedTuple):
    """The datasets of a folder by id and version, the oldest first; unreadable files are findings."""

    datasets: tuple[DatasetHeader, ...]
    findings: tuple[Finding, ...]


class ResultsHeader(msgspec.Struct, frozen=True):
    """A results file without its scores."""

    evaluation_id: str
    timestamp: datetime
    benchmark: str
    system: str
    system_version: str
    dataset_id: str
    dataset_version: str


class PublishedResults(NamedTuple):
    """A header and its file."""

    header: ResultsHeader
    path: Path


class ListedResults(NamedTuple):
    """The evaluations of a folder from the oldest to the newest; unreadable files are findings."""

    results: tuple[PublishedResults, ...]
    findings: tuple[Finding, ...]


class ResultsComparison(NamedTuple):
    """Values of several evaluations side by side, by name and evaluation: None where it has none.

    With `dataset`, `corpus` or `metrics` among the fingerprints that differ, the values do not compare.
    """

    evaluations: tuple[str, ...]
    metrics: Values
    metric_deltas: Values  # from the first evaluation
    performance: Values  # such as `latency_stats.p50`, in milliseconds
    performance_deltas: Values
    differing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DatasetStore:
    """Evaluation data under one folder, such as `data/evaluation`, which need not exist before something is saved."""

    root: Path

    @property
    def datasets(self) -> Path:
        """The folder of `*.eval.json` and its other forms."""
        return self.root / "datasets"

    @property
    def ground_truth(self) -> Path:
        """The folder of `*.gt.json` and its other forms."""
        return self.root / "ground_truth"

    @property
    def results(self) -> Path:
        """The folder of `*.results.json` and its other forms."""
        return self.root / "results"

    def dataset_file(self, dataset_id: str, version: str | None = None) -> Path:
        """Return the file of a dataset's version, or of its highest.

        The id may end in `_v<version>` or be the file's exact name; the version may begin with `v`.
        """
        return _require_file(self.datasets, DATASET_ENDINGS, _dataset_ref, "no_dataset", dataset_id, version)

    def load_dataset(self, dataset_id: str, version: str | None = None) -> EvaluationDataset:
        """Return a dataset's version, or its highest; arguments as `dataset_file`."""
        return EvaluationDataset.read(self.dataset_file(dataset_id, version))

    def load_ground_truth(self, dataset_id: str, version: str | None = None) -> GroundTruth:
        """Return the annotations of a dataset's version, or of the highest that has some."""
        code = "no_ground_truth"
        path = _require_file(self.ground_truth, GROUND_TRUTH_ENDINGS, _truth_ref, code, dataset_id, version)
        ref = _truth_ref(path)
        return GroundTruth.read(path, dataset_id=ref.dataset_id, version=ref.version)

    def get_available_datasets(self) -> AvailableDatasets:
        """Return the headers of all datasets; an unreadable file is a finding and hides no other."""
        headers, findings = [], []
        for path in _files_in(self.datasets, DATASET_ENDINGS):
            try:
                headers.append(read_dataset_header(path))
            except InputError as error:
                findings.append(Finding.from_error(error))
        headers.sort(key=lambda header: (header.dataset_id, parse_version(header.version), header.path.name))
        return AvailableDatasets(tuple(headers), tuple(findings))

    def save_dataset(self, dataset: EvaluationDataset, *, overwrite: bool = False) -> Path:
        """Publish a dataset as `<id>_v<version>.eval.json`, or in the file that holds this version already."""
        _check_identifier(dataset.dataset_id, "dataset_id")
        name = split_version(dataset.dataset_id).dataset_id
        target = self.datasets / f"{name}_v{dataset.version}.eval.json"
        files = _files_in(self.datasets, DATASET_ENDINGS)
        if not (overwrite and target in files):
            target = _find_file(files, _dataset_ref, dataset.dataset_id, dataset.version) or target
        if target.exists() and not overwrite:
            difference = _difference(EvaluationDataset.read(target), dataset)
            if difference is None:
                return target
            expected = f"no change under version {dataset.version}, but {difference}"
            hint = "Raise the version, or overwrite the published one."
            raise InputError("version_conflict", target, expected, hint=hint)
        dataset.write(target)
        return target

    def save_evaluation_results(self, results: EvaluationResults, *, overwrite: bool = False) -> Path:
        """Publish results as `<evaluation_id>.results.json`; nothing is written if the file has the same content."""
        _check_identifier(results.evaluation_id, "evaluation_id")
        target = self._results_file(results.evaluation_id) or self.results / f"{results.evaluation_id}.results.json"
        if target.exists() and not overwrite:
            published = EvaluationResults.read(target)
            if published == results:
                return target
            differing = [name for name, value in results if value != getattr(published, name)]
            expected = f"the published results, but they differ in {', '.join(differing)}"
            hint = "Give the evaluation another id, or overwrite the published one."
            raise InputError("results_conflict", target, expected, hint=hint)
        results.write(target)
        return target

    def load_evaluation_results(self, evaluation_id: str) -> EvaluationResults:
        """Return published results."""
        path = self._results_file(evaluation_id)
        if path is None:
            ids = [dataset_stem(file) for file in _files_in(self.results, RESULTS_ENDINGS)]
            hint = f"Known: {listed(ids)}." if ids else "The folder has none."
            raise InputError("no_results", self.results, f"results of evaluation {evaluation_id!r}", hint=hint)
        return EvaluationResults.read(path)

    def list_evaluation_results(self) -> ListedResults:
        """Return the published evaluations."""
        found, findings = [], []
        for path in _files_in(self.results, RESULTS_ENDINGS):
            try:
                found.append(PublishedResults(read_results_header(path), path))
            except InputError as error:
                findings.append(Finding.from_error(error))
        found.sort(key=lambda one: (one.header.timestamp, one.header.evaluation_id))
        return ListedResults(tuple(found), tuple(findings))

    def compare(self, evaluation_ids: Sequence[str]) -> ResultsComparison:
        """Return the values of published evaluations side by side; errors as `load_evaluation_results`."""
        return compare_results([self.load_evaluation_results(one) for one in evaluation_ids])

    def _results_file(self, evaluation_id: str) -> Path | None:
        files = _files_in(self.results, RESULTS_ENDINGS)
        found = [path for path in files if dataset_stem(path) == evaluation_id]
        if len(found) > 1:
            expected, names = f"one file of evaluation {evaluation_id!r}", [path.name for path in found]
            raise InputError("ambiguous_results", self.results, expected, found=names, hint="Remove all but one.")
        return found[0] if found else None


class _Item(msgspec.Struct):
    """An object of which nothing is wanted."""


class _DatasetFields(msgspec.Struct):
    dataset_id: str
    queries: list[_Item]
    name: str | None = None
    version: str | None = None
    description: str | None = None


def read_dataset_header(path: Path) -> DatasetHeader:
    """Return the header of an evaluation dataset; of JSON no question is built."""
    if path.name.endswith(JSON):
        fields = _decode(path, _DatasetFields)
        version = fields.version or split_version(dataset_stem(path)).version or UNVERSIONED
        name = fields.name or fields.dataset_id
    else:
        fields = read_evaluation_dataset(path).dataset
        version, name = fields.version, fields.name
    if parse_version(version) is None:
        raise InputError("bad_version", path, SEMANTIC, field="version", found=version)
    return DatasetHeader(fields.dataset_id, name, version, fields.description, len(fields.queries), path)


def read_results_header(path: Path) -> ResultsHeader:
    """Return the header of a results file."""
    header: ResultsHeader = _decode(path, ResultsHeader)
    if header.timestamp.tzinfo is None:
        raise InputError("bad_format", path, "a time with its zone", field="timestamp", found=str(header.timestamp))
    return header


def _decode(path: Path, record_type: Any) -> Any:
    """Return the fields of a JSON or YAML file that a msgspec type asks for; others are ignored."""
    try:
        if path.name.endswith(YAML):
            return msgspec.convert(read_yaml_data(path), record_type)
        return msgspec.json.decode(read_plain_bytes(path), type=record_type)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise decoding_error(error, path) from None


def _dataset_ref(path: Path) -> DatasetRef:
    header = read_dataset_header(path)
    return DatasetRef(path, header.dataset_id, header.version)


def _truth_ref(path: Path) -> DatasetRef:
    name = split_version(dataset_stem(path))
    truth = read_annotation_file(path, dataset_id=name.dataset_id, version=name.version).truth
    return DatasetRef(path, truth.dataset_id, truth.version)


def _read_refs(
    files: Sequence[Path], ref_of: Callable[[Path], DatasetRef]
) -> tuple[list[DatasetRef], list[tuple[Path, InputError]]]:
    """Return what the readable files state, and the errors of the others."""
    refs, unreadable = [], []
    for path in files:
        try:
            refs.append(ref_of(path))
        except InputError as error:
            unreadable.append((path, error))
    return refs, unreadable


def _find_file(
    files: Sequence[Path], ref_of: Callable[[Path], DatasetRef], dataset_id: str, version: str | None
) -> Path | None:
    """Return the file of a dataset's version, or of its newest; None if there is none."""
    if version is None and (exact := [path for path in files if path.name == dataset_id]):
        return exact[0]
    asked = split_version(dataset_id)
    if version is not None:
        asked = asked._replace(version=version.removeprefix("v"))
        if parse_version(asked.version or "") is None:
            raise InputError("bad_version", dataset_id, SEMANTIC, field="version", found=version)
    refs, unreadable = _read_refs(files, ref_of)
    same = [ref for ref in refs if split_version(ref.dataset_id).dataset_id == asked.dataset_id]
    found = _newest(same) if asked.version is None else [ref for ref in same if ref.version == asked.version]
    if not found and version is None:  # an id that ends like a version and has another one
        found = _newest([ref for ref in refs if ref.dataset_id == dataset_id])
    if not found:
        for path, fault in unreadable:
            named = split_version(dataset_stem(path))
            if named.dataset_id == asked.dataset_id and (None in asked or named.version in (None, asked.version)):
                raise fault
        return None
    # Of files that state the same, the one whose name is exactly the id that was asked for.
    found = [ref for ref in found if dataset_stem(ref.path) == dataset_id] or found
    if len(found) > 1:
        expected = f"one file of {_shown(asked.dataset_id, asked.version)}"
        names, hint = [ref.path.name for ref in found], "Remove all but one, or give the exact name of a file."
        raise InputError("ambiguous_dataset", found[0].path.parent, expected, found=names, hint=hint)
    return found[0].path


def _newest(refs: Sequence[DatasetRef]) -> list[DatasetRef]:
    """Return the files of the highest version: several if they differ in their build only."""
    highest = newest_versions(ref.version for ref in refs)
    return [ref for ref in refs if ref.version in highest]


def _require_file(
    folder: Path, endings: tuple[str, ...], ref_of: Callable[[Path], DatasetRef], code: str, dataset_id: str,
    version: str | None,
) -> Path:  # fmt: skip
    files = _files_in(folder, endings)
    path = _find_file(files, ref_of, dataset_id, version)
    if path is not None:
        return path
    refs, _ = _read_refs(files, ref_of)
    names = listed(f"{ref.dataset_id} {ref.version}" for ref in refs)
    hint = f"There is {names}." if refs else "There is none."
    raise InputError(code, folder, f"dataset {_shown(dataset_id, version)}", hint=hint)


def _shown(dataset_id: str, version: str | None) -> str:
    return f"{dataset_id!r}" + ("" if version is None else f" version {version}")


def _files_in(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """Return the files with these endings, by name; hidden ones are being written."""
    if not folder.is_dir():
        return []
    return sorted(file for file in folder.iterdir() if file.name.endswith(endings) and not file.name.startswith("."))


def _check_identifier(text: str, field: str) -> None:
    if not PLAIN_NAME.fullmatch(text):
        expected = "letters, digits, `.`, `_` and `-`, at most 128, a letter or digit first"
        raise InputError("bad_identifier", field, expected, found=text, hint="It becomes a file name.")


def version_difference(old: Path, new: Path) -> str | None:
    """Return what changed from one evaluation dataset to another; None if both have the same content.

    The order of keys, fields without value, the schema version and the form of the file are no change; the order of the
    questions is one.
    """
    if read_bytes(old) == read_bytes(new):
        return None
    return _difference(EvaluationDataset.read(old), EvaluationDataset.read(new))


def _difference(old: EvaluationDataset, new: EvaluationDataset) -> str | None:
    changes = _item_changes("query", "queries", old.queries, new.queries)
    changes += _item_changes("document", "documents", old.documents or (), new.documents or ())
    rest = {"schema_version", "queries", "documents"}
    before, after = (json.loads(one.model_dump_json(exclude=rest, exclude_none=True)) for one in (old, new))
    for name in sorted(before.keys() | after.keys()):
        first, second = before.get(name) or None, after.get(name) or None
        if first != second:
            changes.append(f"{name} was {excerpt(first)} and is {excerpt(second)}")
    return "; ".join(changes) or None


def _item_changes(
    kind: str, kinds: str, old: Sequence[pydantic.BaseModel], new: Sequence[pydantic.BaseModel]
) -> list[str]:
    """Return what changed in a list whose items have ids."""
    before = {getattr(item, f"{kind}_id"): item for item in old}
    after = {getattr(item, f"{kind}_id"): item for item in new}
    changed = {one: fields for one in after if one in before and (fields := _changed_fields(before[one], after[one]))}
    names = ", ".join(sorted({name for fields in changed.values() for name in fields}))
    found = (
        ([one for one in after if one not in before], "added"),
        ([one for one in before if one not in after], "removed"),
        (list(changed), f"changed in {names}"),
    )
    changes = [f"{len(ids)} {kind if len(ids) == 1 else kinds} {verb}: {listed(ids)}" for ids, verb in found if ids]
    if before.keys() == after.keys() and list(before) != list(after):
        changes.append(f"{kinds} are in another order")
    return changes


def _changed_fields(old: pydantic.BaseModel, new: pydantic.BaseModel) -> list[str]:
    before, after = (json.loads(item.model_dump_json(exclude_none=True)) for item in (old, new))
    return [
        name
        for name in before.keys() | after.keys()
        # As text, because Python finds 1 equal to true.
        if json.dumps(before.get(name), sort_keys=True) != json.dumps(after.get(name), sort_keys=True)
    ]


def compare_results(results: Sequence[EvaluationResults]) -> ResultsComparison:
    """Return the values of several evaluations side by side; the others are compared with the first."""
    metrics = _by_name((one.evaluation_id, _metrics(one)) for one in results)
    performance = _by_name((one.evaluation_id, _performance(one)) for one in results)
    prints = [one.fingerprints.model_dump() for one in results]
    ids = tuple(one.evaluation_id for one in results)
    differing = tuple(name for name in (prints[0] if prints else ()) if len({one[name] for one in prints}) > 1)
    return ResultsComparison(ids, metrics, _deltas(metrics, ids), performance, _deltas(performance, ids), differing)


def _metrics(results: EvaluationResults) -> Iterator[tuple[str, float | None]]:
    """Yield every mean: of retrieval by the specification's names, others by their path."""
    for name, metric in results.retrieval_metrics.items():
        yield name, metric.value
    for name, metric in results.page_retrieval_metrics.items():
        yield f"page_retrieval_metrics.{name}", metric.value
    spans = results.citation_metrics.span_accuracy
    yield "citation_metrics.span_accuracy.mean_exact_jaccard", spans.mean_exact_jaccard
    yield "citation_metrics.span_accuracy.mean_tolerance_jaccard", spans.mean_tolerance_jaccard
    yield "citation_metrics.citation_completeness", results.citation_metrics.citation_completeness.value
    yield "citation_metrics.citation_correctness", results.citation_metrics.citation_correctness.value
    quality = results.answer_quality_metrics
    yield "answer_quality_metrics.factual_consistency", quality.factual_consistency.value
    yield "answer_quality_metrics.hallucination_rate", quality.hallucination_rate.value
    for prefix, part in (
        ("answer_quality_metrics", quality),
        ("answer_quality_metrics.abstention", quality.abstention),
    ):
        for name, metric in part:
            if isinstance(metric, Metric):
                yield f"{prefix}.{name}", metric.value


def _performance(results: EvaluationResults) -> Iterator[tuple[str, float | None]]:
    performance = results.performance_metrics
    for name, value in performance.latency_stats.items():
        yield f"latency_stats.{name}", value
    for resource, usage in performance.resource_usage.items():
        for part in ("mean", "peak", "std"):
            yield f"resource_usage.{resource}.{part}", getattr(usage, part)


def _by_name(evaluations: Iterable[tuple[str, Iterable[tuple[str, float | None]]]]) -> Values:
    values: Values = {}
    for evaluation_id, named in evaluations:
        for name, value in named:
            values.setdefault(name, {})[evaluation_id] = value
    return values


def _deltas(values: Values, ids: Sequence[str]) -> Values:
    """Return the differences from the first evaluation; None where either has no value."""

    def delta(one: float | None, base: float | None) -> float | None:
        return None if one is None or base is None else one - base

    return {
        name: {one: delta(value, by_id.get(ids[0])) for one, value in by_id.items() if one != ids[0]}
        for name, by_id in values.items()
    }
