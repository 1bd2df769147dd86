"""The three calls that make an evaluation: ask, score, publish; each picks up where the files say the pair stands."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.asking import AskingReport, Progress, ask
from rag_eval_pipeline.evaluation.judging import JudgingReport, judging_report
from rag_eval_pipeline.evaluation.pair import Pair, holding
from rag_eval_pipeline.evaluation.publishing import publish, results_path
from rag_eval_pipeline.evaluation.responses_file import iter_responses
from rag_eval_pipeline.evaluation.runs import SCORE_FILES, Evaluation, load_evaluation, newest_evaluation
from rag_eval_pipeline.evaluation.score_rows import ScoringReport
from rag_eval_pipeline.evaluation.scoring import SCORERS
from rag_eval_pipeline.evaluation.taking_over import Which, same_answers, to_score
from rag_eval_pipeline.formats.results import EvaluationResults, Metric
from rag_eval_pipeline.formats.validation import validate
from rag_eval_pipeline.workspace import Workspace

PREVIEW_ROWS = 5


@dataclass(frozen=True, slots=True)
class Answered:
    """What asking came to, for people."""

    report: AskingReport
    min_coverage: float
    preview: list[dict[str, Any]]

    @property
    def evaluation_id(self) -> str:
        """Of the evaluation that was opened or resumed."""
        return self.report.evaluation_id

    @property
    def coverage(self) -> float:
        """Share of the questions that were answered."""
        return self.report.coverage

    @property
    def is_covered(self) -> bool:
        """Whether enough were, for a verdict."""
        return self.report.coverage >= self.min_coverage

    @property
    def counts(self) -> dict[str, float]:
        """Numbers of the report."""
        r = self.report
        return {
            "questions": r.questions, "asked": r.asked, "reused": r.reused, "resumed": r.resumed, "failed": r.failed,
            "abstained": r.abstained, "coverage": r.coverage,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Published:
    """Where the results are, what was found in them, and the figures people look at first.

    Args:
        partial: Figure of the headline that some questions are missing from -> questions in it, and in all.
        judging: How the judge went.
    """

    evaluation_id: str
    title: str
    path: Path
    findings: list[str]
    headline: dict[str, float | None]
    metrics: dict[str, Metric]
    preview: list[dict[str, Any]]
    partial: dict[str, tuple[int, int]]
    judging: JudgingReport
    rescored_from: str | None = None
    faults: list[str] = field(default_factory=list)  # the first of each metric of one's own, in a line
    warnings: tuple[str, ...] = ()  # as in the results


def ask_pair(
    workspace: Workspace, pair: Pair, progress: Progress | None = None, *, which: Which = "missing"
) -> Answered:
    """Opens or resumes the pair's evaluation and asks what is missing, or what failed."""
    report = ask(workspace, pair, now=datetime.now(UTC), progress=progress, which=which)
    answers = islice(iter_responses(load_evaluation(workspace, report.evaluation_id).responses), PREVIEW_ROWS)
    texts = {query.query_id: query.query_text for query in pair.queries}
    preview = [{"question": texts[a.query_id], "answer": a.answer or a.error, "status": a.status} for a in answers]
    return Answered(report, pair.settings.min_coverage, preview)


def score_pair(workspace: Workspace, pair: Pair, kind: str) -> ScoringReport:
    """Scores the pair's newest evaluation; answers that were scored otherwise are scored again, and nobody is asked.

    Args:
        workspace: Where.
        pair: What.
        kind: One of `SCORE_FILES`.
    """
    with holding(workspace, pair):
        return SCORERS[kind](workspace, to_score(workspace, pair), pair)


def publish_pair(workspace: Workspace, pair: Pair) -> Published:
    """Publishes the pair's newest evaluation."""
    with holding(workspace, pair):
        evaluation = _scored(workspace, pair)
        results = publish(workspace, evaluation, pair, now=datetime.now(UTC))
    path = results_path(workspace, results.evaluation_id)
    figures = headline(results)
    preview = [
        {
            "question": query.query_text, "answer": query.generated_answer or query.error or "",
            "f1": query.individual_metrics.get("f1"), "ndcg@10": query.individual_metrics.get("ndcg@10"),
        }
        for query in results.query_results[:PREVIEW_ROWS]
    ]  # fmt: skip
    title = f"{results.system} on {results.benchmark}, retrieval by {results.retrieval_level}, 95 % intervals"
    faults = [fault.message for fault in results.metric_faults]
    return Published(
        evaluation_id=results.evaluation_id,
        title=title,
        path=path,
        findings=validate(path),
        headline=figures,
        metrics=_shares(results),
        preview=preview,
        partial=_partial(results),
        judging=judging_report(evaluation),
        rescored_from=evaluation.record.rescored_from,
        faults=faults,
        warnings=results.warnings,
    )


def evaluate(
    workspace: Workspace, pair: Pair, progress: Progress | None = None, *, which: Which = "missing"
) -> tuple[Answered, Published]:
    """One whole evaluation."""
    answered = ask_pair(workspace, pair, progress, which=which)
    for kind in SCORE_FILES:
        score_pair(workspace, pair, kind)
    return answered, publish_pair(workspace, pair)


def headline(results: EvaluationResults) -> dict[str, float | None]:
    """The figures that a line of the leaderboard has room for."""
    quality = results.answer_quality_metrics
    retrieval = {name: metric.value for name, metric in _retrieval(results).items()}
    return {
        "hit@1": retrieval.get("hit@1"),
        "hit@5": retrieval.get("hit@5"),
        "ndcg@10": retrieval.get("ndcg@10"),
        "mrr": retrieval.get("mrr"),
        "exact_match": quality.exact_match.value,
        "f1": quality.f1.value,
        "abstention_f1": quality.abstention.f1.value,
        "citation_jaccard": results.citation_metrics.span_accuracy.mean_tolerance_jaccard,
        "judged_correct": _judged(results, "judged_correct"),
        "faithfulness": _judged(results, "faithfulness"),
        "latency_p50_ms": results.performance_metrics.latency_stats["p50"],
        "queries": float(results.summary.total_queries),
        "failed": float(results.summary.failed_queries),
    }


def _partial(results: EvaluationResults) -> dict[str, tuple[int, int]]:
    """The means of the headline that questions are missing from because they failed."""
    quality = results.answer_quality_metrics
    answers = {"exact_match": quality.exact_match, "f1": quality.f1, "abstention_f1": quality.abstention.f1}
    means = {**_retrieval(results), **answers, **results.judge_metrics}
    shown = headline(results)
    return {
        name: (mean.n_scored, mean.n_scored + mean.n_failed)
        for name, mean in means.items()
        if mean.n_failed and shown.get(name) is not None
    }


def _judged(results: EvaluationResults, name: str) -> float | None:
    return results.judge_metrics[name].value if name in results.judge_metrics else None


def _retrieval(results: EvaluationResults) -> dict[str, Metric]:
    return results.page_retrieval_metrics if results.retrieval_level == "page" else results.retrieval_metrics


def _shares(results: EvaluationResults) -> dict[str, Metric]:
    """What a chart from 0 to 1 can show."""
    quality = results.answer_quality_metrics
    return {**_retrieval(results), "exact_match": quality.exact_match, "f1": quality.f1}


def _scored(workspace: Workspace, pair: Pair) -> Evaluation:
    """The pair's newest evaluation, whose scores are those of today's metrics and judge.

    Raises:
        InputError: `not_answered` when there is none, `changed_pair` when it was made under other fingerprints.
    """
    evaluation = newest_evaluation(workspace, pair.paths.name, pair.system)
    of = f"{pair.paths.name} x {pair.system}"
    if evaluation is None:
        hint = f"Materialize responses of {of}."
        raise InputError("not_answered", workspace.runs, f"an evaluation of {of}", hint=hint)
    if not evaluation.is_of(pair.fingerprints):
        again = same_answers(evaluation.record.fingerprints, pair.fingerprints)
        expected = "scores of" if again else "an evaluation of the present dataset, corpus and system with"
        raise InputError(
            "changed_pair", evaluation.folder, f"{expected} the present metrics and judge",
            hint=f"Materialize {', '.join(SCORE_FILES) if again else 'responses'} of {of}.",
        )  # fmt: skip
    return evaluation
