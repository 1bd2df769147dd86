"""The folder of evaluation data: datasets, ground truths and results, found by their ids and published safely.

`<root>/datasets`, `<root>/ground_truth`, `<root>/results`, as the specification lays them out. A version that is
published never changes unless asked for: saving other content under it is an error that names the difference.
Source: Evaluation Data Formats 3.2, 4.1, 4.2.
"""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset_files import stem
from rag_eval_pipeline.formats.dataset_headers import (
    DATASET_ENDINGS,
    GROUND_TRUTH_ENDINGS,
    DatasetHeader,
    read_dataset_header,
    read_ground_truth_claim,
)
from rag_eval_pipeline.formats.dataset_names import Claim, files_in, find_file, require_file
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset
from rag_eval_pipeline.formats.file_kinds import RESULTS_ENDINGS
from rag_eval_pipeline.formats.findings import Finding, listed
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.results_files import (
    PublishedResults,
    ResultsComparison,
    ResultsFilter,
    compare_results,
    read_results_header,
)
from rag_eval_pipeline.formats.version_difference import version_difference
from rag_eval_pipeline.formats.versions import parse_version, split_version

IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # ids that become file names
ALL = ResultsFilter()


@dataclass(frozen=True, slots=True)
class AvailableDatasets:
    """The datasets of a folder by id and version, the oldest first; files without a header are findings."""

    datasets: tuple[DatasetHeader, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class ListedResults:
    """The evaluations of a folder from the oldest to the newest; files without a header are findings."""

    results: tuple[PublishedResults, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class DatasetStore:
    """Evaluation data in one folder, which need not exist before something is saved.

    Args:
        root: `data/evaluation`.
    """

    root: Path

    @property
    def datasets(self) -> Path:
        """`*.eval.json` and its other forms."""
        return self.root / "datasets"

    @property
    def ground_truth(self) -> Path:
        """`*.gt.json` and its other forms."""
        return self.root / "ground_truth"

    @property
    def results(self) -> Path:
        """`*.results.json` and its other forms."""
        return self.root / "results"

    def dataset_file(self, dataset_id: str, version: str | None = None) -> Path:
        """The file of a dataset's version, or of its highest.

        Args:
            dataset_id: The id that the file states, with or without `_v<version>`, or the file's exact name.
            version: With or without `v`.

        Raises:
            InputError: `no_dataset` listing what there is, `ambiguous_dataset`, `bad_version`, or the fault of the
                file that has the dataset's name.
        """
        return require_file(self.datasets, DATASET_ENDINGS, _dataset_claim, "no_dataset", dataset_id, version)

    def load_dataset(self, dataset_id: str, version: str | None = None) -> EvaluationDataset:
        """A dataset's version, or its highest.

        Raises:
            InputError: As `dataset_file`, and whatever is wrong with the file.
        """
        return EvaluationDataset.read(self.dataset_file(dataset_id, version))

    def load_ground_truth(self, dataset_id: str, version: str | None = None) -> GroundTruth:
        """The annotations of a dataset's version, or of the highest that has some.

        Raises:
            InputError: `no_ground_truth`, and as for datasets.
        """
        endings, code = GROUND_TRUTH_ENDINGS, "no_ground_truth"
        path = require_file(self.ground_truth, endings, read_ground_truth_claim, code, dataset_id, version)
        claim = read_ground_truth_claim(path)
        return GroundTruth.read(path, dataset_id=claim.dataset_id, version=claim.version)

    def get_available_datasets(self) -> AvailableDatasets:
        """What there is to load. A file that cannot be read is a finding and hides no other."""
        headers, findings = [], []
        for path in files_in(self.datasets, DATASET_ENDINGS):
            try:
                headers.append(read_dataset_header(path))
            except InputError as error:
                findings.append(Finding.of(error))
        return AvailableDatasets(tuple(sorted(headers, key=_by_version)), tuple(findings))

    def save_dataset(self, dataset: EvaluationDataset, *, overwrite: bool = False) -> Path:
        """Publishes a dataset as `<id>_v<version>.eval.json`, or in the file that already holds this version.

        Args:
            dataset: To publish. When the version's file says the same, nothing is written.
            overwrite: Replace other content under the version.

        Returns:
            The file.

        Raises:
            InputError: `version_conflict` naming the difference; `bad_identifier` for an id that can be no file name;
                `ambiguous_dataset`.
        """
        _check_identifier(dataset.dataset_id, "dataset_id")
        name = split_version(dataset.dataset_id).dataset_id
        target = self.datasets / f"{name}_v{dataset.version}.eval.json"
        files = files_in(self.datasets, DATASET_ENDINGS)
        if not (overwrite and target in files):
            target = find_file(files, _dataset_claim, dataset.dataset_id, dataset.version) or target
        if target.exists() and not overwrite:
            with tempfile.TemporaryDirectory() as folder:
                candidate = Path(folder) / target.name
                dataset.write(candidate)
                difference = version_difference(target, candidate)
            if difference is None:
                return target
            raise InputError(
                "version_conflict", target, f"no change under version {dataset.version}, but {difference}",
                hint="Raise the version, or overwrite the published one.",
            )  # fmt: skip
        dataset.write(target)
        return target

    def save_evaluation_results(self, results: EvaluationResults, *, overwrite: bool = False) -> Path:
        """Publishes results as `<evaluation_id>.results.json`; when the file says the same, nothing is written.

        Raises:
            InputError: `results_conflict`, when an evaluation of this id with other results is published;
                `bad_identifier`.
        """
        _check_identifier(results.evaluation_id, "evaluation_id")
        target = self._results_file(results.evaluation_id) or self.results / f"{results.evaluation_id}.results.json"
        if target.exists() and not overwrite:
            published = EvaluationResults.read(target)
            if published == results:
                return target
            differing = [name for name, value in results if value != getattr(published, name)]
            raise InputError(
                "results_conflict", target, f"the published results, but they differ in {', '.join(differing)}",
                hint="Give the evaluation another id, or overwrite the published one.",
            )  # fmt: skip
        results.write(target)
        return target

    def load_evaluation_results(self, evaluation_id: str) -> EvaluationResults:
        """Published results.

        Raises:
            InputError: `no_results` listing what there is, `ambiguous_results`, or whatever is wrong with the file.
        """
        path = self._results_file(evaluation_id)
        if path is None:
            ids = [stem(file) for file in files_in(self.results, RESULTS_ENDINGS)]
            hint = f"Known: {listed(ids)}." if ids else "The folder has none."
            raise InputError("no_results", self.results, f"results of evaluation {evaluation_id!r}", hint=hint)
        return EvaluationResults.read(path)

    def list_evaluation_results(self, wanted: ResultsFilter = ALL) -> ListedResults:
        """The published evaluations that a filter takes."""
        found, findings = [], []
        for path in files_in(self.results, RESULTS_ENDINGS):
            try:
                header = read_results_header(path)
            except InputError as error:
                findings.append(Finding.of(error))
                continue
            if wanted.takes(header):
                found.append(PublishedResults(header, path))
        found.sort(key=lambda one: (one.header.timestamp, one.header.evaluation_id))
        return ListedResults(tuple(found), tuple(findings))

    def compare(self, evaluation_ids: Sequence[str]) -> ResultsComparison:
        """The figures of published evaluations side by side, the first as the one to measure against.

        Raises:
            InputError: As `load_evaluation_results`.
        """
        return compare_results([self.load_evaluation_results(one) for one in evaluation_ids])

    def _results_file(self, evaluation_id: str) -> Path | None:
        found = [path for path in files_in(self.results, RESULTS_ENDINGS) if stem(path) == evaluation_id]
        if len(found) > 1:
            raise InputError(
                "ambiguous_results", self.results, f"one file of evaluation {evaluation_id!r}",
                found=[path.name for path in found], hint="Remove all but one.",
            )  # fmt: skip
        return found[0] if found else None


def _dataset_claim(path: Path) -> Claim:
    return read_dataset_header(path).claim


def _by_version(header: DatasetHeader) -> tuple[str, object, str]:
    version = parse_version(header.version)
    assert version is not None  # the header was read
    return header.dataset_id, version.precedence, header.path.name


def _check_identifier(text: str, field: str) -> None:
    if not IDENTIFIER.fullmatch(text):
        raise InputError(
            "bad_identifier", field, "letters, digits, `.`, `_` and `-`, at most 128, a letter or digit first",
            found=text, hint="It becomes a file name.",
        )  # fmt: skip
