"""The nights of each pair in files: what was there is kept, what is new is added.

`data/evaluation/nights/<benchmark>/<system>/<baseline>.json`, a file a pinned baseline: nights stay when their
evaluations are removed, and a new baseline begins anew beside the old nights.
"""

from collections.abc import Sequence

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import Baseline, nights_file
from rag_eval_pipeline.evaluation.runs import Evaluation, load_evaluation
from rag_eval_pipeline.judges.calibration_card import is_calibrated, read_trust_cards
from rag_eval_pipeline.metrics.evidence import PROCEDURE
from rag_eval_pipeline.reporting.baselines import flip_share_of
from rag_eval_pipeline.reporting.looks import dataset_clusters
from rag_eval_pipeline.reporting.nights import Night, Nights, Yardstick, with_run
from rag_eval_pipeline.reporting.scored_runs import run_of_evaluation
from rag_eval_pipeline.reporting.trust import TASKS
from rag_eval_pipeline.reporting.verdict_settings import VerdictSettings
from rag_eval_pipeline.workspace import Workspace


def nights_of(
    workspace: Workspace, evaluations: Sequence[Evaluation], baseline: Baseline, settings: VerdictSettings
) -> Nights:
    """The nights of a pair, those on file and what has been published since; nothing is written.

    Args:
        workspace: Where.
        evaluations: The pair's published evaluations, oldest first; one or more.
        baseline: The pair's.
        settings: The numbers of the procedure.

    Raises:
        InputError: The file or a run of the baseline cannot be read; an evaluation that cannot is a night that says so.
    """
    record = evaluations[-1].record
    path = nights_file(workspace, record.benchmark, record.system, baseline)
    known = Nights.read(path) if path.exists() else None
    new = nights_since(evaluations, baseline)
    if known is not None:
        new = [one for one in new if one.record.evaluation_id not in known.seen]
        if not new:
            return known
    yardstick = yardstick_of(workspace, evaluations[-1], baseline.evaluations, settings)
    nights = known.nights if known is not None else ()
    for evaluation in new:
        try:
            nights = with_run(nights, run_of_evaluation(evaluation), yardstick)
        except InputError as error:
            nights = (*nights, _unreadable(evaluation, error))
    return Nights(
        benchmark=record.benchmark,
        system=record.system,
        baseline=baseline.evaluations,
        flip_share=flip_share_of(yardstick.baseline),
        nights=nights,
    )


def nights_since(evaluations: Sequence[Evaluation], baseline: Baseline) -> list[Evaluation]:
    """The evaluations of a pair that came after its baseline, oldest first: nights and reruns."""
    return [one for one in evaluations if _is_night(one, evaluations, baseline)]


def write_nights(workspace: Workspace, baseline: Baseline, nights: Nights) -> None:
    """Publishes a pair's nights; equal nights are not written again."""
    path = nights_file(workspace, nights.benchmark, nights.system, baseline)
    if not path.exists() or Nights.read(path) != nights:
        nights.write(path)


def yardstick_of(
    workspace: Workspace, evaluation: Evaluation, baseline: Sequence[str], settings: VerdictSettings
) -> Yardstick:
    """What an evaluation is compared with.

    Raises:
        InputError: A run of the baseline, or the dataset, cannot be read.
    """
    record = evaluation.record
    return Yardstick(
        baseline=[run_of_evaluation(load_evaluation(workspace, name)) for name in baseline],
        settings=settings,
        judged=calibrated_measures(workspace, record.benchmark, record.fingerprints.judge),
        clusters=dataset_clusters(workspace, record.dataset_id, record.dataset_version, settings),
    )


def calibrated_measures(workspace: Workspace, benchmark: str, fingerprint: str | None) -> frozenset[str]:
    """The judge's measures that people's labels vouch for; the others are shown and gate nothing."""
    cards = read_trust_cards(workspace.trust_cards)
    return frozenset(
        measure
        for measure, task in TASKS.items()
        if is_calibrated(cards, benchmark=benchmark, fingerprint=fingerprint, task=task)
    )


def _unreadable(evaluation: Evaluation, error: InputError) -> Night:
    """A night of which nothing is known: it holds up no other."""
    record = evaluation.record
    return Night(
        procedure=PROCEDURE,
        evaluation_id=record.evaluation_id,
        opened_at=record.opened_at,
        ended_at=record.answered_at or record.opened_at,
        fingerprints=record.fingerprints,
        reason=str(error),
    )


def _is_night(evaluation: Evaluation, evaluations: Sequence[Evaluation], baseline: Baseline) -> bool:
    """Whether it came after the baseline: after it was pinned, or else after the last of its runs."""
    if evaluation.record.evaluation_id in baseline.evaluations:
        return False
    if baseline.pinned_at is not None:
        return evaluation.record.opened_at > baseline.pinned_at
    order = [one.record.evaluation_id for one in evaluations]
    places = [order.index(name) for name in baseline.evaluations if name in order]
    return order.index(evaluation.record.evaluation_id) > max(places, default=-1)
