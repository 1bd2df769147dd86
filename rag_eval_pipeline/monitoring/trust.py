"""How far a pair's verdicts can be trusted: each reference run is tried as if it were tonight's."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rag_eval_pipeline.errors import InputError, counted
from rag_eval_pipeline.evaluation.baseline_files import read_baseline
from rag_eval_pipeline.evaluation.compared_runs import ScoredRun
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.formats.dataset import open_dataset
from rag_eval_pipeline.metrics.registry import metric_label
from rag_eval_pipeline.metrics.run_labels import PairedRuns
from rag_eval_pipeline.metrics.verdict_rules import FIRST_LOOK, ROUNDING
from rag_eval_pipeline.metrics.verdicts import flip_share
from rag_eval_pipeline.monitoring.history import read_history
from rag_eval_pipeline.monitoring.night_records import read_nights
from rag_eval_pipeline.monitoring.nightly import BaselineRuns, read_baseline_runs
from rag_eval_pipeline.monitoring.power import FIRST_METRIC, Power, power_of_runs
from rag_eval_pipeline.monitoring.regressions import nightly_pairs
from rag_eval_pipeline.monitoring.verdict_settings import read_verdict_settings
from rag_eval_pipeline.workspace import Workspace

WAVERING_SHOWN = 20
CHANCE = 0.001  # level of the test that whole runs share noise, of one metric


class MetricTrust(NamedTuple):
    """What the reference runs say of one metric."""

    metric: str
    # Of each run as if it were tonight's: one-sided, in its own direction, after the correction over the metrics.
    p_values: tuple[float, ...]
    flip_share: float  # of the questions, whose score differs between two runs
    document_correlation: float | None  # of two questions of a document within a run; None if none share a document
    run_factor: float | None  # variance of the runs' means over that of independent documents; None without noise
    is_shared_by_runs: bool  # the factor is larger than chance explains


class Trust(NamedTuple):
    """What the reference runs of a pair say of its noise."""

    runs: tuple[str, ...]
    flagged: tuple[str, ...]  # runs that a first look would have flagged
    expected: float  # how many at most, if all is as assumed
    metrics: tuple[MetricTrust, ...]
    metric: str  # that of the questions
    n_wavering: int
    # The least steady first: `query_id`, `question`, and `mean`, the share of the runs that were right.
    wavering: tuple[dict[str, Any], ...]

    def record(self) -> dict[str, Any]:
        """Return it as JSON."""
        metrics = [one._asdict() for one in self.metrics]
        return self._asdict() | {"metrics": metrics, "sentences": list(self.sentences())}

    def sentences(self) -> Iterator[str]:
        """Yield what the figures mean."""
        flagged = f"{len(self.flagged)} ({', '.join(self.flagged)})" if self.flagged else "none"
        yield f"Of {len(self.runs)} reference runs {flagged} would have been flagged; {self.expected:.1g} are expected."
        if not any(one.flip_share for one in self.metrics):
            yield "No score differs between two runs."
        elif shared := [one for one in self.metrics if one.is_shared_by_runs]:
            names = ", ".join(f"{metric_label(one.metric)} {one.run_factor:.1f} times" for one in shared)
            yield (
                f"Run means vary more than questions explain ({names}): whole runs share noise, as in a bad hour of "
                "the server, and raise more false alarms than the budget allows."
            )
        else:
            yield "Run means vary no more than questions explain."

    def lines(self) -> Iterator[str]:
        """Yield the sentences, the figures and the questions as lines for a terminal."""
        yield from self.sentences()
        yield f"\n{'':20}{'smallest p':>12}{'differ':>9}{'in documents':>15}{'run means':>12}"
        for one in self.metrics:
            figures = min(one.p_values, default=None), one.document_correlation, one.run_factor
            p_value, shared, factor = ("none" if x is None else f"{round(x, 4):.2g}" for x in figures)
            share = f"{100 * one.flip_share:.1f} %"
            yield f"{metric_label(one.metric):20}{p_value:>12}{share:>9}{shared:>15}{factor:>12}"
        if self.wavering:
            most = f"; the {WAVERING_SHOWN} least steady" if self.n_wavering > WAVERING_SHOWN else ""
            yield (
                f"\n{metric_label(self.metric)} wavers in "
                f"{counted(self.n_wavering, 'question')}{most}, each with its mean:"
            )
        yield from ("  {mean:.2f}  {query_id}  {question}".format(**one) for one in self.wavering)


def reference_runs(workspace: Workspace, benchmark: str, system: str) -> tuple[BaselineRuns, list[ScoredRun]]:
    """Return the runs that a pair's next night is compared with.

    Raises:
        InputError: `no_baseline`, also if a single run is pinned, which says nothing of the noise.
    """
    workspace.existing_benchmark(benchmark)
    workspace.existing_system_file(system)
    baseline = read_baseline(workspace, benchmark, system)
    if baseline is not None:
        known = read_nights(workspace, benchmark, system)
        pinned = read_baseline_runs(
            workspace,
            load_evaluation(workspace, baseline.evaluations[-1]),
            baseline.evaluations,
            read_verdict_settings(workspace),
            n_pairs=nightly_pairs(workspace, read_history(workspace)),
        )
        runs = pinned.reference(known.nights if known is not None else ())
        if len(runs) > 1 or runs[0].is_deterministic:
            return pinned, runs
    hint = f"Pin one: rag-eval pin {benchmark} {system} --ask"
    raise InputError("no_baseline", f"{benchmark} x {system}", "a pinned baseline of several runs", hint=hint)


def power_of_pair(workspace: Workspace, benchmark: str, system: str) -> Power:
    """Return what a pair can find, from its reference runs."""
    pinned, runs = reference_runs(workspace, benchmark, system)
    found = pinned.gather_evidence(runs[-1:], runs[:-1] or runs).compared
    return power_of_runs(
        {name: one.paired for name, one in found.items()},
        pinned.settings,
        pinned.budget,
        n_metrics=len(found),
        clusters=pinned.clusters,
        is_deterministic=runs[0].is_deterministic,
    )


def trust(workspace: Workspace, benchmark: str, system: str) -> Trust:
    """Try each reference run of a pair as if it were tonight's, against the others."""
    pinned, runs = reference_runs(workspace, benchmark, system)
    tried = [pinned.gather_evidence([run], [*runs[:n], *runs[n + 1 :]] or runs) for n, run in enumerate(runs)]
    corrected = [{name: one.p_corrected for name, one in found.evidence.items()} for found in tried]
    compared = {name: one.paired for name, one in tried[-1].compared.items()}
    metric = FIRST_METRIC if FIRST_METRIC in compared else next(iter(compared))
    places = np.flatnonzero(compared[metric].is_pair)
    scores = compared[metric].runs[:, places]
    means, spread = np.nanmean(scores, axis=0).tolist(), np.nanstd(scores, axis=0)
    n_wavering = int(np.count_nonzero(spread))
    record = load_evaluation(workspace, runs[-1].evaluation_id).record
    dataset = open_dataset(workspace.eval_json(record.dataset_id, record.dataset_version))
    queries = {query.query_id: query for query in dataset.queries}
    least_steady = [
        (queries[runs[-1].query_ids[places[n]]], means[n])
        for n in np.argsort(-spread, kind="stable")[: min(WAVERING_SHOWN, n_wavering)].tolist()
    ]
    return Trust(
        runs=tuple(run.evaluation_id for run in runs),
        flagged=tuple(
            run.evaluation_id
            for run, found in zip(runs, corrected, strict=True)
            if any(p is not None and p <= FIRST_LOOK for p in found.values())
        ),
        expected=2 * FIRST_LOOK * len(runs),
        metrics=tuple(
            metric_trust(name, paired, [p for found in corrected if (p := found.get(name)) is not None])
            for name, paired in compared.items()
        ),
        metric=metric,
        n_wavering=n_wavering,
        wavering=tuple(
            {"query_id": query.display_id, "question": query.query_text, "mean": mean} for query, mean in least_steady
        ),
    )


def metric_trust(metric: str, paired: PairedRuns, p_values: Sequence[float]) -> MetricTrust:
    """Return what the reference runs say of one metric; shared noise only from questions that have all scores.

    Source: Kish 1965, 5.4, for the correlation in clusters; the chi-squared test of a variance.
    """
    from scipy.special import chdtrc

    counted = ~np.isnan(paired.runs).any(axis=0)
    scores, units = paired.runs[:, counted], paired.units[counted]
    residuals = scores - scores.mean(axis=0)
    sums = np.stack([np.bincount(units, run) for run in residuals])
    squares, by_document = float((residuals**2).sum()), float((sums**2).sum())
    possible = float((residuals**2 @ (np.bincount(units)[units] - 1)).sum())
    freedom = len(scores) - 1
    factor = float((sums.sum(axis=1) ** 2).sum()) / by_document if by_document > ROUNDING else None
    return MetricTrust(
        metric=metric,
        p_values=tuple(p_values),
        flip_share=flip_share(paired.runs.tolist()) or 0.0,
        document_correlation=(by_document - squares) / possible if possible > ROUNDING else None,
        run_factor=factor,
        is_shared_by_runs=factor is not None and float(chdtrc(freedom, freedom * factor)) < CHANCE,
    )
