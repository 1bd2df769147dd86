"""Everything that the pages of one report are made from, read once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.evaluation.runs import Evaluation
from rag_eval_pipeline.reporting.comparison import Comparison, Comparisons, read_comparisons
from rag_eval_pipeline.reporting.history import ResultsHeader, read_history
from rag_eval_pipeline.reporting.leaderboard import COLUMNS
from rag_eval_pipeline.reporting.published import all_published
from rag_eval_pipeline.reporting.site.night_charts import Point
from rag_eval_pipeline.reporting.site.provisional import Provisional, provisional_of
from rag_eval_pipeline.reporting.trust import Trust
from rag_eval_pipeline.workspace import Workspace

Pair = tuple[str, str]

# A verdict's metric -> the figure in whose trend it is marked, where they have different names.
_FIGURES = {"tolerance_jaccard": "citation_jaccard"}


@dataclass(frozen=True)
class Morning:
    """The state of the workspace that a report shows.

    Args:
        workspace: Whose.
        by_pair: (benchmark, system) -> its evaluations, oldest first.
        nights: The same without reruns.
        reruns: A rerun's evaluation id -> the night's that it looked at again.
        damaged: A line for each results file that cannot be read.
        trust: Of judges.
        comparisons: Of the newest evaluations.
        marks: Evaluation -> figure -> `regressed` or `improved`.
        stamps: Benchmark -> its conversion, where there is one.
    """

    workspace: Workspace
    by_pair: Mapping[Pair, Sequence[ResultsHeader]]
    nights: Mapping[Pair, Sequence[ResultsHeader]]
    reruns: Mapping[str, str]
    damaged: Sequence[str]
    trust: Trust
    comparisons: Sequence[Comparison]
    marks: Mapping[str, Mapping[str, str]] = field(repr=False)
    stamps: Mapping[str, Stamp] = field(repr=False)

    @cached_property
    def newest(self) -> Sequence[ResultsHeader]:
        """The last night of each pair, by benchmark and system."""
        return [self.nights[pair][-1] for pair in sorted(self.nights)]

    @cached_property
    def n_days(self) -> int:
        """Days on which anything was evaluated: a rerun belongs to its night."""
        return len({header.timestamp.date() for nights in self.by_pair.values() for header in nights})

    @cached_property
    def published(self) -> Mapping[Pair, Sequence[Evaluation]]:
        """Evaluations whose scores are still there, by pair; read when first asked for."""
        return all_published(self.workspace)

    def provisional(self, row: Comparison) -> Provisional | None:
        """How far the pair of a comparison is on the way to its baseline; None for one that has its baseline."""
        if row.kind != "baseline" or not row.verdicts:
            return None
        try:
            if read_baseline(self.workspace, row.benchmark, row.new) is not None:
                return None
        except InputError:
            return None
        return provisional_of(self.published.get((row.benchmark, row.new), ()))

    @cached_property
    def benchmarks(self) -> Sequence[str]:
        """Benchmarks with results, sorted."""
        return sorted({benchmark for benchmark, _ in self.by_pair})

    @cached_property
    def systems(self) -> Sequence[str]:
        """Systems with results, sorted; the place is a system's colour on every page."""
        return sorted({system for _, system in self.by_pair})

    @cached_property
    def _series(self) -> Mapping[Pair, Mapping[str, list[Point]]]:
        """Every figure's nights: headers are unpacked when they are looked at, so each is looked at once."""
        found: dict[Pair, dict[str, list[Point]]] = {}
        for pair, nights in self.nights.items():
            series = found[pair] = {name: [] for name in COLUMNS}
            for header in nights:
                marks = self.marks.get(header.evaluation_id, {})
                for name, points in series.items():
                    metric = header.metric(name)
                    points.append(Point(metric.value, metric.confidence_interval, marks.get(name)))
        return found

    def points(self, pair: Pair, figure: str) -> list[Point]:
        """The nights of a figure of the leaderboard, with what regressed or improved marked."""
        return self._series[pair][figure]


def read_morning(workspace: Workspace, comparisons: Comparisons | None = None) -> Morning:
    """The workspace as it is now; nothing is written.

    Args:
        workspace: Which.
        comparisons: Of the workspace as it is now; made when left out.
    """
    history = read_history(workspace)
    if comparisons is None:
        comparisons = read_comparisons(workspace)
    marks: dict[str, dict[str, str]] = {}
    for nights in comparisons.nights:
        for night in nights.nights:
            kinds = {name: found.kind for name, found in night.metrics.items()}
            _mark(marks, night.evaluation_id, kinds)
    for row in comparisons.rows:
        if row.kind == "baseline":
            kinds = {name: found.kind for name, found in row.verdicts.items()}
            _mark(marks, row.evaluation_id, kinds)
    stamps = {}
    for name in {benchmark for benchmark, _ in history.by_pair}:
        try:
            stamps[name] = Stamp.read(workspace.benchmark(name).stamp)
        except InputError:
            continue  # converted before and edited since: its results are still the newest there are
    return Morning(
        workspace, history.by_pair, history.nights, history.reruns, history.damaged, Trust.of(workspace),
        comparisons.rows, marks, stamps,
    )  # fmt: skip


def figure_name(metric: str) -> str:
    """The figure on the leaderboard that a compared metric is."""
    return _FIGURES.get(metric.removeprefix("page/"), metric.removeprefix("page/"))


def _mark(marks: dict[str, dict[str, str]], evaluation_id: str | None, kinds: Mapping[str, str]) -> None:
    """Keeps what changed of a night."""
    if evaluation_id is None:
        return
    found = {figure_name(name): kind for name, kind in kinds.items() if kind in ("regressed", "improved")}
    if found:
        marks.setdefault(evaluation_id, {}).update(found)
