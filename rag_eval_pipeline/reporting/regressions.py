"""`regressions.json`: the newest evaluation of each pair against its baseline, and the systems against each other.

While no baseline is pinned, a night is compared with those before it, and its verdict is provisional.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.conversion.stamp import Check
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import REGRESSIONS, read_baseline
from rag_eval_pipeline.evaluation.registry import is_evaluated, read_registry
from rag_eval_pipeline.evaluation.results import QualityThresholds, check_thresholds
from rag_eval_pipeline.evaluation.runs import Evaluation, load_evaluation
from rag_eval_pipeline.metrics.verdicts import PROCEDURE, flip_sentence
from rag_eval_pipeline.reporting.baselines import (
    all_published,
    earlier_runs,
    flip_share_of,
    pin_first_nights,
    published_evaluations,
)
from rag_eval_pipeline.reporting.comparison import (
    COMPARED,
    Comparison,
    VerdictSettings,
    calibrated_measures,
    compare_runs,
    dataset_clusters,
    read_verdict_settings,
    run_of_evaluation,
)
from rag_eval_pipeline.reporting.comparison_files import (
    ComparisonRow,
    comparison_cells,
    comparison_of,
    comparison_record,
    read_comparison_rows,
)
from rag_eval_pipeline.reporting.history import ResultsHeader, read_history
from rag_eval_pipeline.reporting.incidents import headline_order, means_text
from rag_eval_pipeline.reporting.leaderboard import Trust
from rag_eval_pipeline.reporting.nightly import (
    Night,
    Nights,
    new_night,
    read_baseline_runs,
    update_nights,
    write_nights,
)
from rag_eval_pipeline.storage.files import atomic_write_json
from rag_eval_pipeline.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Comparisons:
    """All comparisons, those against baselines first, and the nights of each pair with a baseline."""

    rows: Sequence[Comparison]
    path: Path
    nights: Sequence[Nights] = ()

    @property
    def counts(self) -> dict[str, float]:
        """Pairs, and how many of them have no baseline, regressed or improved against it."""
        against = [row for row in self.rows if row.kind == "baseline"]
        kinds = [{found.kind for found in row.verdicts.values()} for row in against]
        return {
            "pairs": len(against),
            "no_baseline": sum(row.reason == "no_baseline" for row in against),
            "regressed": sum("regressed" in found for found in kinds),
            "improved": sum("improved" in found for found in kinds),
        }

    def cells(self) -> list[dict[str, Any]]:
        """Return a table row for each verdict."""
        return [
            {"benchmark": row.benchmark, "comparison": f"{row.new} against {row.old}", **cell}
            for row in self.rows
            for cell in comparison_cells(comparison_record(row))
        ]


def write_comparisons(workspace: Workspace) -> Comparisons:
    """Compare the newest evaluations, write their nights and `regressions.json`.

    Pairs whose first nights are complete get their baseline.
    """
    for header in read_history(workspace).newest():
        pin_first_nights(workspace, header.benchmark, header.system)
    found = read_comparisons(workspace)
    for nights in found.nights:
        baseline = read_baseline(workspace, nights.benchmark, nights.system)
        if baseline is not None:
            write_nights(workspace, baseline, nights)
    atomic_write_json(found.path, [comparison_record(row) for row in found.rows])
    return found


def read_comparisons(workspace: Workspace) -> Comparisons:
    """Compare the newest evaluations without writing; a damaged evaluation costs its own comparisons only."""
    headers = read_history(workspace).newest()
    comparer = _Comparer(workspace)
    rows = []
    for one in headers:
        row = Comparison("baseline", one.benchmark, "baseline", one.system, {})
        rows.append(_or_error(row, partial(comparer.against_baseline, row, one)))
    for old, new in combinations(headers, 2):
        if old.benchmark == new.benchmark:
            row = Comparison("systems", new.benchmark, old.system, new.system, {})
            rows.append(_or_error(row, partial(comparer.between, row, old, new)))
    return Comparisons(rows, workspace.reports / REGRESSIONS, comparer.nights)


def compare_with_baseline(workspace: Workspace, benchmark: str, system: str) -> Comparison:
    """Compare a pair's newest evaluation with its pinned baseline, by itself and without a rerun.

    Raises:
        InputError: `no_baseline`, `no_evaluations`, `is_baseline`, `not_comparable` with the reason.
    """
    baseline = read_baseline(workspace, benchmark, system)
    place, again = f"{benchmark} x {system}", f"rag-eval evaluate {benchmark} --system {system}"
    if baseline is None:
        hint = f"Pin one: rag-eval pin {benchmark} {system} --ask"
        raise InputError("no_baseline", place, "a pinned baseline", hint=hint)
    evaluations = published_evaluations(workspace, benchmark, system)
    if not evaluations:
        raise InputError("no_evaluations", place, "a published evaluation", hint=f"Evaluate it: {again}")
    newest = evaluations[-1]
    if newest.record.evaluation_id in baseline.evaluations:
        found = newest.record.evaluation_id
        raise InputError("is_baseline", place, "an evaluation after the baseline", found=found, hint=f"Next: {again}")
    settings = read_verdict_settings(workspace)
    runs = read_baseline_runs(workspace, newest, baseline.evaluations, settings)
    row = compare_runs(
        "baseline", run_of_evaluation(newest), runs.runs, old="baseline", new=system, settings=settings,
        judged=frozenset(runs.judged), clusters=runs.clusters,
    )  # fmt: skip
    if row.reason:
        raise InputError("not_comparable", place, "the questions of the baseline", found=row.reason)
    return replace(row, note=flip_sentence(flip_share_of(runs.runs)))


def _or_error(row: Comparison, compare: Callable[[], Comparison]) -> Comparison:
    try:
        return compare()
    except InputError as error:
        return replace(row, reason=str(error))


class _Comparer:
    """Compares newest evaluations; rows of `regressions.json` that were made from the same inputs are reused."""

    def __init__(self, workspace: Workspace) -> None:
        self.nights: list[Nights] = []
        self._workspace = workspace
        self._settings = read_verdict_settings(workspace)
        self._published = all_published(workspace)
        self._known = _known_rows(workspace.reports / REGRESSIONS)
        self._clusters = cache(partial(dataset_clusters, workspace, settings=self._settings))

    def against_baseline(self, row: Comparison, header: ResultsHeader) -> Comparison:
        load_evaluation(self._workspace, header.evaluation_id)  # results whose scores are gone have no verdict
        evaluations = self._published.get((row.benchmark, row.new), ())
        if not evaluations:
            return replace(row, reason="not_published")
        baseline = read_baseline(self._workspace, row.benchmark, row.new)
        if baseline is None:
            return self._provisional(row, evaluations)
        found = update_nights(self._workspace, evaluations, baseline, self._settings)
        self.nights.append(found)
        if found.nights:
            night = found.nights[-1]
        elif header.evaluation_id in baseline.evaluations:
            return replace(row, reason="is_baseline")
        else:  # the newest evaluation came before the baseline was pinned
            runs = read_baseline_runs(self._workspace, evaluations[-1], baseline.evaluations, self._settings)
            night = new_night((), run_of_evaluation(evaluations[-1]), runs)
        return replace(_with_night(row, night), note=flip_sentence(found.flip_share))

    def _provisional(self, row: Comparison, evaluations: Sequence[Evaluation]) -> Comparison:
        newest, earlier = evaluations[-1], earlier_runs(evaluations)
        if not earlier:
            return replace(row, reason="no_baseline")
        judged = calibrated_measures(self._workspace, row.benchmark, newest.record.fingerprints.judge)
        made_from = _made_from("provisional", (*earlier, newest), self._settings, judged)
        if made_from in self._known:
            return comparison_of(self._known[made_from])
        names = [one.record.evaluation_id for one in earlier]
        runs = read_baseline_runs(self._workspace, newest, names, self._settings)
        run = run_of_evaluation(newest)
        found = runs.gather_evidence(run)
        # These nights are not kept, so changes that were not flagged show their questions as well.
        moved = {name: questions for name, questions in found.moved.items() if questions}
        return replace(_with_night(row, new_night((), run, runs, found)), moved=moved, made_from=made_from)

    def between(self, row: Comparison, old: ResultsHeader, new: ResultsHeader) -> Comparison:
        evaluations = [load_evaluation(self._workspace, one.evaluation_id) for one in (old, new)]
        judged = calibrated_measures(self._workspace, row.benchmark, new.fingerprints.get("judge"))
        made_from = _made_from("systems", evaluations, self._settings, judged)
        if made_from in self._known:
            return comparison_of(self._known[made_from])
        first, second = (run_of_evaluation(one) for one in evaluations)
        record = evaluations[1].record
        clusters = self._clusters(record.dataset_id, record.dataset_version)
        found = compare_runs(
            "systems", second, [first], old=row.old, new=row.new, settings=self._settings, judged=judged,
            clusters=clusters,
        )  # fmt: skip
        return replace(found, made_from=made_from)


def _with_night(row: Comparison, night: Night) -> Comparison:
    return replace(
        row,
        verdicts={name: metric.verdict(name) for name, metric in night.metrics.items()},
        reason=night.reason,
        moved={name: metric.moved for name, metric in night.metrics.items() if metric.moved},
        evaluation_id=night.evaluation_id,
        rerun=night.rerun,
    )


def _known_rows(path: Path) -> Mapping[str, ComparisonRow]:
    """Return rows by the digest of their inputs."""
    return {row.made_from: row for row in read_comparison_rows(path) if row.made_from is not None}


def _made_from(key: str, evaluations: Iterable[Evaluation], settings: VerdictSettings, judged: Iterable[str]) -> str:
    """Return a digest of everything that a comparison is made from, without reading the scores."""
    parts = [key, PROCEDURE, settings.model_dump_json(), sorted(judged)]
    for evaluation in evaluations:
        files = [evaluation.scores(kind) for kind in COMPARED]
        stats = [(stat.st_mtime_ns, stat.st_size) for path in files if path.exists() for stat in [path.stat()]]
        parts += [evaluation.record.model_dump_json(), stats]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]


def aggregation_checks(workspace: Workspace, comparisons: Comparisons) -> list[Check]:
    """Return the checks of the report asset; one that does not block is a warning."""
    settings = read_verdict_settings(workspace)
    history = read_history(workspace)
    registry = read_registry(workspace)
    pairs = list(registry.automatic_pairs())
    missing = [f"{one} x {other}" for one, other in pairs if not is_evaluated(workspace, registry, one, other)]
    regressed = list(_regressed(comparisons))
    broken = list(_broken(settings.quality_thresholds, history.newest(), Trust.of(workspace)))
    return [
        _check("every_pair_is_evaluated", missing, expected=len(pairs), present=len(pairs) - len(missing)),
        _check("no_result_is_damaged", history.damaged),
        _check("nothing_has_regressed", regressed, blocking=settings.blocking, compared=len(comparisons.nights)),
        _check("quality_thresholds_are_met", broken),
    ]


def _regressed(comparisons: Comparisons) -> Iterator[str]:
    """Yield a line for each pair whose newest night is worse than its baseline, confirmed by a rerun."""
    for pair in comparisons.nights:
        metrics = pair.nights[-1].metrics if pair.nights else {}
        names = headline_order(name for name, metric in metrics.items() if metric.state == "regressed")
        if names:
            changes = ", ".join(means_text(name, metrics[name].verdict(name)) for name in names)
            yield f"{pair.system} on {pair.benchmark}: {changes}"


def _check(name: str, offenders: Sequence[str], *, blocking: bool = False, **numbers: int) -> Check:
    found: dict[str, Any] = {**numbers, "offenders": len(offenders), "which": list(offenders)}
    return Check(name=name, passed=not offenders, blocking=blocking, numbers=found)


def _broken(thresholds: QualityThresholds, rows: Sequence[ResultsHeader], trust: Trust) -> Iterator[str]:
    """Yield a line for each metric beyond its threshold; without a value, or of an uncalibrated judge, it passes."""
    for row in rows:
        values = {
            "span_accuracy": row.citation_metrics["span_accuracy"]["mean_tolerance_jaccard"],
            "citation_validity": _value(row.citation_metrics["citation_correctness"]),
            "answer_consistency": _value(row.answer_quality_metrics["factual_consistency"]),
            "hallucination_tolerance": _value(row.answer_quality_metrics["hallucination_rate"]),
        }
        is_calibrated = trust.doubt(row, "faithfulness") is None
        for name, held in check_thresholds(thresholds, values, is_calibrated=is_calibrated).items():
            if held.is_broken:
                yield f"{row.benchmark} x {row.system}: {name} {held.value:.3f}, at {held.bound} {held.limit:g}"


def _value(metric: Any) -> float | None:
    if metric is None:
        return None
    value: float | None = msgspec.convert(metric["value"], float | None)
    return value
