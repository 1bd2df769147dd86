"""`regressions.json`: the newest evaluation of each pair against its baseline, and the systems against each other.

While no baseline is pinned, a night is compared with those before it, and its verdict is provisional.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from itertools import combinations, groupby
from pathlib import Path
from typing import Any, Literal

import msgspec

from rag_eval_pipeline.conversion.stamp import Check
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import (
    REGRESSIONS,
    Baseline,
    nights_file,
    read_baseline,
    required_baseline,
)
from rag_eval_pipeline.evaluation.compared_runs import (
    DIFFERENT,
    ScoredRun,
    calibrated_measures,
    dataset_clusters,
    run_of_evaluation,
)
from rag_eval_pipeline.evaluation.evaluation_folders import (
    Evaluation,
    EvaluationRecord,
    load_evaluation,
    published_evaluations,
)
from rag_eval_pipeline.evaluation.expected_pairs import is_evaluated, read_registry
from rag_eval_pipeline.evaluation.quality_thresholds import check_thresholds
from rag_eval_pipeline.judges.judge_changes import JudgeCheck
from rag_eval_pipeline.metrics.verdict_rules import QualityThresholds
from rag_eval_pipeline.monitoring.alert_files import last_published, late_pairs, read_alert_settings
from rag_eval_pipeline.monitoring.baselines import earlier_runs, pin_first_nights
from rag_eval_pipeline.monitoring.comparison import ComparedRun, compare_runs, compared_run, not_comparable, pin_again
from rag_eval_pipeline.monitoring.comparison_files import comparison_cells
from rag_eval_pipeline.monitoring.history import History, ResultsHeader, read_history
from rag_eval_pipeline.monitoring.incidents import declines, headline_order, means_text
from rag_eval_pipeline.monitoring.leaderboard import Trust
from rag_eval_pipeline.monitoring.night_records import Night, Nights, nights_since, read_nights
from rag_eval_pipeline.monitoring.nightly import new_night, read_baseline_runs, update_nights
from rag_eval_pipeline.monitoring.prometheus import write_metrics
from rag_eval_pipeline.monitoring.verdict_records import (
    Comparison,
    Verdict,
    leading,
    read_comparison_rows,
)
from rag_eval_pipeline.monitoring.verdict_settings import VerdictSettings, read_verdict_settings
from rag_eval_pipeline.monitoring.workspace_states import config_faults
from rag_eval_pipeline.storage.atomic_files import atomic_write_json
from rag_eval_pipeline.workspace import Workspace

NO_REGRESSION = "nothing_has_regressed"


@dataclass(frozen=True, slots=True)
class Comparisons:
    """All comparisons, those against baselines first, the nights of each pair with a baseline, and the history."""

    rows: Sequence[Comparison]
    path: Path
    nights: Sequence[Nights]
    history: History

    @property
    def compared(self) -> list[Comparison]:
        """Those of a pair's newest evaluation with its baseline; a pair that is its baseline has none."""
        return [row for row in self.rows if row.kind == "baseline" and row.verdicts]

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
            for cell in comparison_cells(row.model_dump())
        ]

    def declines(self) -> list[dict[str, str]]:
        """Return a table row for each pair: the strongest evidence that one of its metrics declines over nights."""
        return [
            {"who": f"{row.benchmark}: {row.new}", "evidence": row.declines[0].sentence}
            for row in self.rows
            if row.declines
        ]


def write_comparisons(workspace: Workspace, history: History | None = None) -> Comparisons:
    """Compare the newest evaluations, write their nights, `regressions.json` and `metrics.prom`.

    Pairs whose first nights are complete get their baseline. A damaged evaluation costs its own comparisons only.

    Args:
        history: Of the workspace as it is now; read when left out.
    """
    history = history or read_history(workspace)
    settings = read_verdict_settings(workspace)
    n_pairs = nightly_pairs(workspace, history)
    rows: list[Comparison] = []
    nights: list[Nights] = []
    for header in history.newest():
        evaluations = history.published.get((header.benchmark, header.system), ())
        pin_first_nights(workspace, header.benchmark, header.system, evaluations)
        row = _open_row("baseline", "baseline", header)
        try:
            rows.append(_against_baseline(workspace, row, evaluations, settings, nights, n_pairs))
        except InputError as error:
            rows.append(row.model_copy(update={"reason": str(error)}))
    for pair in nights:
        history = replace(history, reruns={**history.reruns, **pair.reruns})
    rows = [
        row.model_copy(update={"newest": (header.evaluation_id,)})
        for row, header in zip(rows, history.newest(), strict=True)
    ]
    for _, group in groupby(history.newest(), key=lambda header: header.benchmark):
        read = cache(partial(_read_run, workspace))
        for old, new in combinations(group, 2):
            row = _open_row("systems", old.system, new, old)
            try:
                rows.append(_between(workspace, row, read(old.evaluation_id), read(new.evaluation_id), settings))
            except InputError as error:
                rows.append(row.model_copy(update={"reason": str(error)}))
    path = workspace.reports / REGRESSIONS
    atomic_write_json(path, [row.model_dump() for row in rows])
    write_metrics(workspace, history.newest(), rows)
    return Comparisons(rows, path, nights, history)


def nightly_pairs(workspace: Workspace, history: History) -> int:
    """Return how many pairs are evaluated every night; at least those that have nights, and one."""
    expected = {(one.benchmark, one.system) for one in read_registry(workspace).expected_pairs(history.by_pair)}
    return max(1, len(expected))


def read_comparisons(workspace: Workspace) -> Comparisons:
    """Read what was compared last; newer evaluations are not compared yet."""
    history = read_history(workspace)
    path = workspace.reports / REGRESSIONS
    known = {(row.kind, row.benchmark, row.old, row.new): row for row in read_comparison_rows(path)}
    wanted = [_open_row("baseline", "baseline", header) for header in history.newest()]
    wanted += [
        _open_row("systems", old.system, new, old)
        for old, new in combinations(history.newest(), 2)
        if old.benchmark == new.benchmark
    ]
    rows = []
    for row in wanted:
        found = known.get((row.kind, row.benchmark, row.old, row.new))
        is_current = found is not None and found.newest == row.newest
        rows.append(found if found and is_current else row.model_copy(update={"reason": "not_compared_yet"}))
    nights = [pair for names in history.nights if (pair := read_nights(workspace, *names)) is not None]
    return Comparisons(rows, path, nights, history)


def compare_with_baseline(workspace: Workspace, benchmark: str, system: str) -> Comparison:
    """Return what the next report will say of a pair's newest evaluation; if it is a rerun, of its night.

    Raises:
        InputError: `no_baseline`, `no_evaluations`, `is_baseline`, `not_comparable` with the reason.
    """
    baseline = required_baseline(workspace, benchmark, system)
    place, again = f"{benchmark} x {system}", f"rag-eval evaluate {benchmark} --system {system}"
    evaluations = published_evaluations(workspace, benchmark, system)
    if not evaluations:
        raise InputError("no_evaluations", place, "a published evaluation", hint=f"Evaluate it: {again}")
    newest = evaluations[-1]
    if newest.record.evaluation_id in baseline.evaluations:
        found = newest.record.evaluation_id
        raise InputError("is_baseline", place, "an evaluation after the baseline", found=found, hint=f"Next: {again}")
    settings, n_pairs = read_verdict_settings(workspace), nightly_pairs(workspace, read_history(workspace))
    row = Comparison(kind="baseline", benchmark=benchmark, old="baseline", new=system)
    known = nights_since(workspace, benchmark, system, baseline)
    nights = update_nights(workspace, evaluations, baseline, known, settings, n_pairs=n_pairs)
    night = _last_night(workspace, nights, evaluations, baseline, settings)
    row = _with_night(row, night, night.metrics, note=nights.note)
    if row.reason:
        raise _other_state(workspace, row, baseline, newest)
    return row


def _other_state(workspace: Workspace, row: Comparison, baseline: Baseline, newest: Evaluation) -> InputError:
    """Return why a pair's newest evaluation is not compared with its baseline, and what to do."""
    before = compared_run(load_evaluation(workspace, baseline.evaluations[-1]))
    reason = row.reason or ""
    hint = pin_again(reason, row.benchmark, row.new, baseline.evaluations)
    return not_comparable(f"{row.benchmark} x {row.new}", reason, before, compared_run(newest), hint)


def _open_row(
    kind: Literal["baseline", "systems"], side: str, header: ResultsHeader, other: ResultsHeader | None = None
) -> Comparison:
    newest = [one.evaluation_id for one in (other, header) if one is not None]
    return Comparison(kind=kind, benchmark=header.benchmark, old=side, new=header.system, newest=tuple(newest))


def _read_run(workspace: Workspace, evaluation_id: str) -> tuple[ScoredRun, EvaluationRecord]:
    evaluation = load_evaluation(workspace, evaluation_id)
    return run_of_evaluation(evaluation), evaluation.record


def _against_baseline(
    workspace: Workspace,
    row: Comparison,
    evaluations: Sequence[Evaluation],
    settings: VerdictSettings,
    nights: list[Nights],
    n_pairs: int,
) -> Comparison:
    """Compare the last of a pair's evaluations, and add the pair's nights to `nights`."""
    [newest] = row.newest
    load_evaluation(workspace, newest)  # results whose scores are gone have no verdict
    if not evaluations:
        return row.model_copy(update={"reason": "not_published"})
    baseline = read_baseline(workspace, row.benchmark, row.new)
    if baseline is None:
        return _provisional(workspace, row, evaluations, settings)
    known = nights_since(workspace, row.benchmark, row.new, baseline)
    found = update_nights(workspace, evaluations, baseline, known, settings, n_pairs=n_pairs)
    if found is not known:
        found.write(nights_file(workspace, row.benchmark, row.new, baseline))
    nights.append(found)
    if not found.nights and newest in baseline.evaluations:
        return row.model_copy(update={"reason": "is_baseline"})
    night = _last_night(workspace, found, evaluations, baseline, settings)
    row = row.model_copy(update={"declines": tuple(declines(found.nights))})
    row = _with_night(row, night, night.metrics, note=found.note)
    if row.reason in DIFFERENT:
        row = row.model_copy(update={"note": str(_other_state(workspace, row, baseline, evaluations[-1]))})
    return row


def _last_night(
    workspace: Workspace,
    found: Nights,
    evaluations: Sequence[Evaluation],
    baseline: Baseline,
    settings: VerdictSettings,
) -> Night:
    if found.nights:
        return found.nights[-1]
    # The newest evaluation came before the baseline was pinned.
    runs = read_baseline_runs(workspace, evaluations[-1], baseline.evaluations, settings)
    return new_night((), run_of_evaluation(evaluations[-1]), runs)


def _provisional(
    workspace: Workspace, row: Comparison, evaluations: Sequence[Evaluation], settings: VerdictSettings
) -> Comparison:
    newest, earlier = evaluations[-1], earlier_runs(evaluations)
    if not earlier:
        return row.model_copy(update={"reason": "no_baseline"})
    runs = read_baseline_runs(workspace, newest, [one.record.evaluation_id for one in earlier], settings)
    run = run_of_evaluation(newest)
    night, found = new_night((), run, runs), runs.test_night([run], runs.runs)
    # These nights are not kept, so changes that were not flagged show their questions as well.
    metrics = {name: one.model_copy(update={"questions": found.moved(name)}) for name, one in night.metrics.items()}
    return _with_night(row, night, metrics)


def _with_night(
    row: Comparison, night: Night, metrics: Mapping[str, Verdict], *, note: str | None = None
) -> Comparison:
    return row.model_copy(
        update={
            "verdicts": metrics,
            "reason": night.reason,
            "evaluation_id": night.evaluation_id,
            "rerun": night.rerun,
            "note": _note(night.judge, note),
        }
    )


def _note(judge: JudgeCheck | None, note: str | None) -> str | None:
    return " ".join(filter(None, [judge.sentence if judge else None, note])) or None


def _between(
    workspace: Workspace,
    row: Comparison,
    old: tuple[ScoredRun, EvaluationRecord],
    new: tuple[ScoredRun, EvaluationRecord],
    settings: VerdictSettings,
) -> Comparison:
    run, record = new
    found = compare_runs(
        "systems", run, [old[0]], old=row.old, new=row.new, settings=settings,
        judged=calibrated_measures(workspace, row.benchmark, record.fingerprints.judge),
        clusters=dataset_clusters(workspace, record.dataset_id, record.dataset_version),
    )  # fmt: skip
    if found.reason in DIFFERENT:
        before, now = (ComparedRun(one, of.dataset_id, of.dataset_version) for one, of in (old, new))
        refused = not_comparable(f"{row.new} against {row.old} on {row.benchmark}", found.reason or "", before, now)
        found = found.model_copy(update={"note": str(refused)})
    return found.model_copy(update={"newest": row.newest})


def workspace_checks(workspace: Workspace, history: History, *, now: datetime) -> list[Check]:
    """Return the checks of what should be there; a failed one is a warning."""
    registry = read_registry(workspace)
    invalid = config_faults(workspace, registry)
    published = last_published(registry, history.by_pair)
    late = [pair.sentence for pair in late_pairs(now, published, read_alert_settings(workspace).settings)]
    pairs = list(registry.expected_pairs(history.by_pair))
    missing = [
        f"{one} x {other}{f' ({obstacle})' if obstacle else ''}"
        for one, other, obstacle in pairs
        if obstacle or not is_evaluated(workspace, registry, one, other)
    ]
    return [
        _check("all_configs_valid", invalid),
        _check("no_night_is_late", late, expected=len(published)),
        _check("every_pair_is_evaluated", missing, expected=len(pairs), present=len(pairs) - len(missing)),
        _check("no_result_is_damaged", history.damaged),
    ]


def verdict_checks(workspace: Workspace, comparisons: Comparisons) -> list[Check]:
    """Return the checks of how good it is; of these, only a confirmed regression may block."""
    settings = read_verdict_settings(workspace)
    regressed = list(_regressed(comparisons))
    broken = list(_broken(settings.quality_thresholds, comparisons.history.newest(), Trust.of(workspace)))
    return [
        _check(NO_REGRESSION, regressed, blocking=settings.blocking, compared=len(comparisons.compared)),
        _check("quality_thresholds_are_met", broken),
    ]


def _regressed(comparisons: Comparisons) -> Iterator[str]:
    """Yield a line for each pair whose newest night is worse than its baseline, confirmed by a rerun."""
    for pair in comparisons.nights:
        metrics = pair.nights[-1].metrics if pair.nights else {}
        names = headline_order(leading([name for name, metric in metrics.items() if metric.state == "regressed"]))
        if names:
            changes = ", ".join(means_text(name, metrics[name]) for name in names)
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
