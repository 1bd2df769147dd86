"""Published evaluations with made-up numbers, written by the project's own writers: as many nights as a test wants."""

import random
from datetime import UTC, datetime, timedelta

from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, EvaluationRecord
from rag_eval_pipeline.evaluation.evaluation_settings import EvaluationSettings
from rag_eval_pipeline.evaluation.means import metric_of
from rag_eval_pipeline.evaluation.score_tables import QueryScores, write_scores
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.dataset import EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.metrics.intervals import Scores, summarise_all
from rag_eval_pipeline.metrics.performance import latency_intervals
from rag_eval_pipeline.systems.base import RagAnswer, RetrievedPassage, Usage
from rag_eval_pipeline.workspace import Workspace

FIRST = datetime(2026, 10, 1, 2, tzinfo=UTC)
WORDS = [
    "harbour",
    "granite",
    "ledger",
    "copper",
    "viaduct",
    "winter",
    "signal",
    "railway",
    "lantern",
    "archive",
    "ferry",
]
MEASURES = ("hit@1", "hit@5", "ndcg@10", "mrr")


def register(workspace: Workspace, benchmarks: list[str], systems: list[str]) -> None:
    """The folders and files by which the workspace knows benchmarks and systems; nothing is converted."""
    for name in benchmarks:
        folder = workspace.sources / name
        folder.mkdir(parents=True)
        (folder / "benchmark.yaml").write_text(f"name: {name}\n")
    for name in systems:
        path = workspace.system_file(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("kind: embedded\n")


def publish_night(
    workspace: Workspace,
    benchmark: str,
    system: str,
    night: int,
    *,
    questions: int,
    skill: float,
    number: int,
    texts: dict[int, str] | None = None,
    with_responses: bool = True,
    failing: float = 0.001,
) -> str:
    """Publishes one evaluation and returns its id.

    Args:
        workspace: Where.
        benchmark: Registered.
        system: Registered.
        night: From 0.
        questions: How many.
        skill: Share of right answers.
        number: Of the run on its day, from 1.
        texts: What stands for question, answer and the first passage of a question, by place.
        with_responses: Whether the run's folder is written too, by which it can be compared.
        failing: Share of questions without an answer.
    """
    date = FIRST + timedelta(days=night)
    evaluation_id = f"eval_run_{date:%Y%m%d}_{number:03d}"
    draw = random.Random(f"{benchmark}/{system}/{night}")
    fixed = random.Random(benchmark)  # the same questions every night
    answers, rows = [], []
    for place in range(questions):
        foreign = (texts or {}).get(place)
        question = foreign or f"Which {fixed.choice(WORDS)} stood by the {fixed.choice(WORDS)} in {1800 + place % 200}?"
        # What a system can answer it answers every night, but for three in a hundred.
        exact = float((fixed.random() < skill) != (draw.random() < 0.03))
        f1 = 1.0 if exact else round(draw.random() * 0.8, 4) * (draw.random() < 0.6)
        rank = draw.choice((1.0, 1.0, 0.6309, 0.5, 0.0))
        failed = draw.random() < failing
        text = foreign or f"The {draw.choice(WORDS)} of the {draw.choice(WORDS)}."
        documents = tuple(f"{draw.choice(WORDS)}-{place % 40}.pdf" for _ in range(5))
        scores = {
            "hit@1": float(rank == 1), "hit@5": float(rank > 0), "ndcg@10": rank, "mrr": rank,
            "citation_span_accuracy": round(draw.random(), 4), "exact_match": exact, "f1": f1,
        }  # fmt: skip
        latency = round(draw.lognormvariate(5.5, 0.6), 3)
        if with_responses:
            answers.append(
                RagAnswer(
                    query_id=str(place), status="timeout" if failed else "ok", answer=None if failed else text,
                    abstained=False,
                    contexts=tuple(
                        RetrievedPassage(name, 1, foreign or " ".join(draw.choices(WORDS, k=60)), 1.0 / rank_, rank_)
                        for rank_, name in enumerate(documents, 1)
                    ),
                    citations=(), latency_ms=latency, usage=Usage(900, 0.0011, 1, 800, 100),
                    error="no answer within 30 s" if failed else None, error_code="total_timeout" if failed else None,
                )
            )  # fmt: skip
        rows.append(
            form.QueryResult(
                query_id=str(place), query_text=question, status="timeout" if failed else "ok", latency_ms=latency,
                retrieval_results=form.RetrievalResults(
                    retrieved_docs=documents, relevance_scores=(1.0, 0.5, 0.3, 0.2, 0.1),
                    ground_truth_relevant=documents[:1],
                ),
                generated_answer=None if failed else text, abstained=False, citations=(),
                individual_metrics=dict.fromkeys(scores) if failed else scores,
                error="no answer within 30 s" if failed else None,
            )
        )  # fmt: skip
    _write_dataset(workspace, benchmark, rows)
    results = _results(evaluation_id, date, benchmark, system, rows)
    results.write(workspace.results / f"{evaluation_id}.results.json")
    if with_responses:
        _write_folder(workspace, results, answers, rows)
    return evaluation_id


def _write_dataset(workspace: Workspace, benchmark: str, rows: list[form.QueryResult]) -> None:
    """The questions, once; no two share a document, so verdicts count questions."""
    path = workspace.eval_json(benchmark, "1.0.0")
    if path.exists():
        return
    queries = tuple(
        EvaluationQuery(query_id=row.query_id, query_text=row.query_text, relevant_documents=()) for row in rows
    )
    EvaluationDataset(dataset_id=benchmark, name=benchmark, version="1.0.0", queries=queries).write(path)


def _metrics(rows: list[form.QueryResult]) -> dict[str, form.Metric]:
    names = (*MEASURES, "citation_span_accuracy", "exact_match", "f1")
    scores = {name: Scores([row.individual_metrics[name] for row in rows]) for name in names}
    return {name: metric_of(found) for name, found in summarise_all(scores, seed=42).items()}


def _results(
    evaluation_id: str, date: datetime, benchmark: str, system: str, rows: list[form.QueryResult]
) -> form.EvaluationResults:
    none, metrics = form.Metric(value=None, reason="nothing_to_score"), _metrics(rows)
    latencies = sorted(row.latency_ms or 0.0 for row in rows)
    at = {
        name: latencies[int(share * (len(latencies) - 1))]
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    }
    failed = sum(row.status != "ok" for row in rows)
    usage = form.ResourceUsage(mean=100.0, peak=120.0, std=3.0)
    return form.EvaluationResults(
        evaluation_id=evaluation_id, timestamp=date, benchmark=benchmark, system=system, system_version="1",
        dataset_id=benchmark, dataset_version="1.0.0", configuration={"model": "made-up", "retrieval_k": 5},
        fingerprints=form.Fingerprints(dataset=f"dataset {benchmark}", corpus="c", system=system, metrics="m"),
        summary=form.Summary(
            total_queries=len(rows), successful_queries=len(rows) - failed, failed_queries=failed,
            average_latency_ms=sum(latencies) / len(latencies), total_evaluation_time_seconds=60.0,
        ),
        retrieval_level="document",
        retrieval_metrics={name: metrics[name] for name in MEASURES},
        page_retrieval_metrics={name: none for name in MEASURES},
        citation_metrics=form.CitationMetrics(
            span_accuracy=form.SpanAccuracy(
                mean_exact_jaccard=0.4, mean_tolerance_jaccard=metrics["citation_span_accuracy"].value
            ),
            citation_completeness=form.ClaimShare(reason="no_judge"),
            citation_correctness=form.ClaimShare(reason="no_judge"),
            overall_citation_accuracy=none, overall_coverage=none,
        ),
        answer_quality_metrics=form.AnswerQualityMetrics(
            exact_match=metrics["exact_match"], f1=metrics["f1"],
            answerable_exact_match=metrics["exact_match"], answerable_f1=metrics["f1"],
            unanswerable_exact_match=none,
            abstention=form.Abstention(
                answerable_answered=len(rows) - failed, answerable_abstained=0, unanswerable_answered=0,
                unanswerable_abstained=0, precision=none, recall=none, f1=none, over_refusal_rate=form.Metric(value=0.0),
                false_answer_rate=none, abstention_rate=form.Metric(value=0.0), accuracy=none,
            ),
            factual_consistency=form.ClaimShare(reason="no_judge"),
            hallucination_rate=form.ClaimShare(reason="no_judge"),
        ),
        performance_metrics=form.PerformanceMetrics(
            latency_stats={"mean": sum(latencies) / len(latencies), **at, "min": latencies[0], "max": latencies[-1]},
            latency_intervals=latency_intervals(latencies),
            resource_usage={"memory_mb": usage, "cpu_percent": usage},
            api_usage={
                "total_tokens": 900.0 * len(rows), "total_requests": float(len(rows)),
                "estimated_cost_usd": 0.0011 * len(rows),
            },
        ),
        query_results=tuple(rows),
        statistical_analysis=form.StatisticalAnalysis(significance_tests={}, confidence_intervals={}),
        metadata=form.ResultsMetadata(evaluation_environment={}, evaluation_parameters={}, quality_assurance={}),
    )  # fmt: skip


def _write_folder(
    workspace: Workspace, results: form.EvaluationResults, answers: list[RagAnswer], rows: list[form.QueryResult]
) -> None:
    folder = workspace.runs / results.evaluation_id
    folder.mkdir(parents=True)
    evaluation = Evaluation(
        folder,
        EvaluationRecord(
            evaluation_id=results.evaluation_id, benchmark=results.benchmark, system=results.system, system_version="1",
            dataset_id=results.benchmark, dataset_version="1.0.0", fingerprints=results.fingerprints,
            settings=EvaluationSettings(), configuration={}, state="published", opened_at=results.timestamp,
            answered_at=results.timestamp + timedelta(minutes=10),
        ),
    )  # fmt: skip
    evaluation.record.write(folder / "evaluation.json")
    evaluation.write_answers(answers)
    kinds = {
        "retrieval_scores": MEASURES,
        "citation_scores": ("tolerance_jaccard",),
        "answer_scores": ("exact_match", "f1", "abstained"),
        "judge_scores": (),
    }
    for kind, measures in kinds.items():
        scored = []
        for row in rows:
            found = {
                **row.individual_metrics,
                "tolerance_jaccard": row.individual_metrics["citation_span_accuracy"],
                "abstained": 0.0,
            }
            is_ok = row.status == "ok"
            outcome = "skipped" if kind == "judge_scores" else "scored" if is_ok else "failed"
            values = {name: found[name] for name in measures} if is_ok else {}
            scored.append(QueryScores(row.query_id, outcome, None, {n: v for n, v in values.items() if v is not None}))
        write_scores(evaluation.scores(kind), scored, measures, evaluation_id=results.evaluation_id)
