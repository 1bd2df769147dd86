"""The three steps of an evaluation: ask, score, publish. Each continues from the state of the pair's files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_eval_pipeline import clock
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.asking import AskingReport, Progress, ask_questions
from rag_eval_pipeline.evaluation.evaluation_folders import SCORE_FILES, Evaluation, locked_pair, required_evaluation
from rag_eval_pipeline.evaluation.evaluation_start import Which, evaluation_to_score, same_answers
from rag_eval_pipeline.evaluation.judging import JudgingReport
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.publishing import Scores, publish, read_all_scores
from rag_eval_pipeline.evaluation.scoring import SCORERS, ScoringReport
from rag_eval_pipeline.formats.results import CorrectedRate, EvaluationResults, Level, Metric
from rag_eval_pipeline.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Published:
    """The published results: their file and the headline metrics.

    Args:
        partial: Headline metrics that not all questions have -> questions scored, and questions asked.
        is_in_sentences: No answer equals a gold answer, though some share words with one; right refusals do equal it.
    """

    evaluation_id: str
    title: str
    path: Path
    headline: dict[str, float | None]
    retrieval_level: Level
    metrics: dict[str, Metric]
    preview: list[dict[str, Any]]
    partial: dict[str, tuple[int, int]]
    is_in_sentences: bool
    judging: JudgingReport
    corrected: CorrectedRate | None
    rescored_from: str | None
    faults: list[str]
    warnings: tuple[str, ...]


def score_pair(workspace: Workspace, pair: Pair, kind: str) -> ScoringReport:
    """Score the pair's newest evaluation; answers scored with other settings are scored again, without asking."""
    with locked_pair(workspace, pair):
        return SCORERS[kind](workspace, evaluation_to_score(workspace, pair), pair, None)


def publish_pair(workspace: Workspace, pair: Pair) -> Published:
    """Publish the results of the pair's newest evaluation."""
    with locked_pair(workspace, pair):
        evaluation = _scored(workspace, pair)
        return _publish(workspace, evaluation, pair, read_all_scores(evaluation))


def evaluate(
    workspace: Workspace,
    pair: Pair,
    begin: Callable[[str], Progress | None] = lambda phase: None,
    *,
    which: Which = "missing",
) -> tuple[AskingReport, Published]:
    """Ask, score and publish.

    Args:
        begin: Called with the name of each phase; what it returns is called with the numbers done and total.
    """
    with locked_pair(workspace, pair):
        asked, evaluation = ask_questions(workspace, pair, now=clock.now(), progress=begin("asking"), which=which)
        scores = score_all(workspace, evaluation, pair, begin)
        begin("publishing")
        return asked, _publish(workspace, evaluation, pair, scores)


def score_all(
    workspace: Workspace,
    evaluation: Evaluation,
    pair: Pair,
    begin: Callable[[str], Progress | None] = lambda phase: None,
) -> Scores:
    """Score an evaluation in every way."""
    reports = {
        kind: score(workspace, evaluation, pair, begin("judging" if kind == "judge_scores" else "scoring"))
        for kind, score in SCORERS.items()
    }
    judgements = reports["judge_scores"].judgements
    assert judgements is not None
    return Scores({kind: report.rows for kind, report in reports.items()}, judgements)


def _publish(workspace: Workspace, evaluation: Evaluation, pair: Pair, scores: Scores) -> Published:
    results, first, judgements = publish(workspace, evaluation, pair, scores, now=clock.now())
    preview = [
        {
            "question": query.query_text, "answer": query.generated_answer or query.error or "",
            "f1": query.individual_metrics.get("f1"), "ndcg@10": query.individual_metrics.get("ndcg@10"),
        }
        for query in first
    ]  # fmt: skip
    return Published(
        evaluation_id=results.evaluation_id,
        title=f"{results.system} on {results.benchmark}, retrieval by {results.retrieval_level}, 95 % intervals",
        path=workspace.results_file(results.evaluation_id),
        headline=headline(results),
        retrieval_level=results.retrieval_level,
        metrics=_shares(results),
        preview=preview,
        partial=_partial(results),
        is_in_sentences=_is_in_sentences(results),
        judging=judgements.report,
        corrected=judged.corrected if (judged := results.judge_metrics.get("judged_correct")) else None,
        rescored_from=evaluation.record.rescored_from,
        faults=[fault.message for fault in results.metric_faults],
        warnings=results.warnings,
    )


def headline(results: EvaluationResults) -> dict[str, float | None]:
    """Return the metrics shown on one line of the leaderboard."""
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
        "strict_vital_score": _judged(results, "strict_vital_score"),
        "faithfulness": _judged(results, "faithfulness"),
        "latency_p50_ms": results.performance_metrics.latency_stats["p50"],
        "queries": results.summary.total_queries,
        "failed": results.summary.failed_queries,
    }


def _is_in_sentences(results: EvaluationResults) -> bool:
    """Whether no answer equals a gold answer, and some share words with one; right refusals equal it too."""
    quality = results.answer_quality_metrics
    return quality.answerable_exact_match.value == 0 and bool(quality.answerable_f1.value)


def _partial(results: EvaluationResults) -> dict[str, tuple[int, int]]:
    means = {
        **_shares(results),
        "abstention_f1": results.answer_quality_metrics.abstention.f1,
        "citation_jaccard": results.citation_metrics.span_accuracy.recall,
        **results.judge_metrics,
    }
    shown, asked = headline(results), results.summary.total_queries
    return {
        name: (mean.n_scored, asked)
        for name, mean in means.items()
        if mean is not None and mean.n_scored != asked and shown.get(name) is not None
    }


def _judged(results: EvaluationResults, name: str) -> float | None:
    return results.judge_metrics[name].value if name in results.judge_metrics else None


def _retrieval(results: EvaluationResults) -> dict[str, Metric]:
    return results.page_retrieval_metrics if results.retrieval_level == "page" else results.retrieval_metrics


def _shares(results: EvaluationResults) -> dict[str, Metric]:
    quality = results.answer_quality_metrics
    return {**_retrieval(results), "exact_match": quality.exact_match, "f1": quality.f1}


def _scored(workspace: Workspace, pair: Pair) -> Evaluation:
    """Return the pair's newest evaluation; raises `changed_pair` if it was made under other fingerprints."""
    evaluation = required_evaluation(workspace, pair)
    if not evaluation.has_fingerprints(pair.fingerprints):
        again = same_answers(evaluation.record.fingerprints, pair.fingerprints)
        expected = "scores of" if again else "an evaluation of the present dataset, corpus and system with"
        assets = ", ".join(SCORE_FILES) if again else "responses"
        raise InputError(
            "changed_pair", evaluation.folder, f"{expected} the present metrics and judge",
            hint=f"Materialize {assets} of {pair.paths.name} x {pair.system}.",
        )  # fmt: skip
    return evaluation
