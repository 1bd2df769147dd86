"""Runs with scores that a test writes down: one metric, so that what is counted can be counted by hand."""

from datetime import UTC, datetime, timedelta

from rag_eval_pipeline.evaluation.compared_runs import Column, ScoredRun
from rag_eval_pipeline.evaluation.evaluation_folders import create_evaluation, make_newest
from rag_eval_pipeline.evaluation.evaluation_settings import EvaluationSettings
from rag_eval_pipeline.formats.results import Fingerprints
from rag_eval_pipeline.metrics.verdict_rules import FAILURE_RATE
from rag_eval_pipeline.monitoring.nightly import BaselineRuns, add_run
from rag_eval_pipeline.monitoring.verdict_settings import VerdictSettings

START = datetime(2026, 9, 7, 2, tzinfo=UTC)
N = 200  # one point is two questions
PRINTS = Fingerprints(dataset="d", corpus="c", system="s", metrics="m", judge="j")


def made_run(name, wrong=(), *, hours=0, failed=(), deterministic=False, prints=PRINTS, n=N):
    """A run in which every question is answered right, but for those that are wrong or failed."""
    opened = START + timedelta(hours=hours)
    exact = tuple(None if q in failed else float(q not in wrong) for q in range(n))
    failures = tuple(float(q in failed) for q in range(n))
    return ScoredRun(
        evaluation_id=name,
        benchmark="b",
        system="s",
        fingerprints=prints,
        is_deterministic=deterministic,
        is_by_page=False,
        opened_at=opened,
        ended_at=opened + timedelta(minutes=10),
        query_ids=tuple(str(q) for q in range(n)),
        columns={
            "exact_match": Column(exact, (True,) * n),
            FAILURE_RATE: Column(failures, (True,) * n),
        },
    )


def five_runs(**options):
    """A steady baseline."""
    return [made_run(f"base{number}", **options) for number in range(5)]


def made_history(*runs, pinned=None, settings=VerdictSettings(), **options):  # noqa: B008  # frozen
    """The nights of a pair whose evaluations are these runs, oldest first; `pinned` are its baseline."""
    pinned = five_runs() if pinned is None else pinned
    known = {run.evaluation_id: run for run in (*pinned, *runs)}
    baseline = BaselineRuns(pinned, settings, known.__getitem__, **options)
    found = ()
    for run in runs:
        found = add_run(found, run, baseline)
    return found


def made_evaluation(
    workspace, day, *, system="s", state="published", prints=PRINTS, deterministic=False, size=1000, coverage=1.0
):
    """An evaluation's folder and results file as far as retention and pinning look at them."""
    opened = START + timedelta(days=day)
    evaluation = create_evaluation(
        workspace,
        opened,
        benchmark="b",
        system=system,
        system_version="1",
        dataset_id="d",
        dataset_version="1.0.0",
        fingerprints=prints,
        settings=EvaluationSettings(),
        configuration={},
        deterministic=deterministic,
    )
    make_newest(workspace, evaluation)
    evaluation.save(state=state, coverage=coverage)
    evaluation.journal.write_bytes(b"x" * size)
    results = workspace.results / f"{evaluation.folder.name}.results.json"
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text('{"performance_metrics": {"reused_from": null}}')
    return evaluation.folder.name
