"""A results file of one question, as a value that tests change."""

from typing import Any


def metric(value: float | None, **fields: Any) -> dict[str, Any]:
    return {"value": value, "n_scored": 0 if value is None else 1, **fields}


def results_value(evaluation_id: str = "eval_run_20250830_001", **change: Any) -> dict[str, Any]:
    usage = {"mean": 1.0, "peak": 2.0, "std": 0.5}
    value = {
        "evaluation_id": evaluation_id,
        "timestamp": "2025-08-30T13:00:00Z",
        "benchmark": "x",
        "system": "embedded",
        "system_version": "1",
        "dataset_id": "x",
        "dataset_version": "1.0.0",
        "configuration": {"retrieval_k": 5},
        "fingerprints": {"dataset": "d", "corpus": "c", "system": "s", "metrics": "m"},
        "summary": {
            "total_queries": 1, "successful_queries": 1, "failed_queries": 0, "average_latency_ms": 4.0,
            "total_evaluation_time_seconds": 0.5,
        },
        "retrieval_level": "document",
        "retrieval_metrics": {"hit@1": metric(1.0), "mrr": metric(0.5)},
        "page_retrieval_metrics": {"hit@1": metric(None, reason="nothing_to_score")},
        "citation_metrics": {
            "span_accuracy": {"mean_exact_jaccard": 0.25, "mean_tolerance_jaccard": 0.5},
            "citation_completeness": {"reason": "no_judge"},
            "citation_correctness": {"reason": "no_judge"},
            "overall_citation_accuracy": metric(0.5), "overall_coverage": metric(0.3),
        },
        "answer_quality_metrics": {
            "exact_match": metric(0.0), "f1": metric(0.5), "answerable_exact_match": metric(0.0),
            "answerable_f1": metric(0.5), "unanswerable_exact_match": metric(None, reason="nothing_to_score"),
            "abstention": {
                "answerable_answered": 1, "answerable_abstained": 0, "unanswerable_answered": 0,
                "unanswerable_abstained": 0, "precision": metric(None), "recall": metric(None), "f1": metric(None),
                "over_refusal_rate": metric(0.0), "false_answer_rate": metric(None), "abstention_rate": metric(0.0),
                "accuracy": metric(1.0),
            },
            "factual_consistency": {"reason": "no_judge"},
            "hallucination_rate": {"reason": "no_judge"},
        },
        "performance_metrics": {
            "latency_stats": {"mean": 4.0, "p50": 4.0, "p95": 4.0, "p99": 4.0, "min": 4.0, "max": 4.0},
            "resource_usage": {"memory_mb": usage, "cpu_percent": usage},
            "api_usage": {"total_tokens": None, "total_requests": 1, "estimated_cost_usd": None},
        },
        "query_results": [
            {
                "query_id": "0", "query_text": "Who?", "status": "ok", "latency_ms": 4.0,
                "retrieval_results": {
                    "retrieved_docs": ["a.pdf"], "relevance_scores": [0.5], "ground_truth_relevant": ["a.pdf"],
                },
                "generated_answer": "She.", "abstained": False,
                "citations": [{"file_name": "a.pdf", "start_char": 0, "end_char": 4}],
                "individual_metrics": {"hit@1": 1.0, "f1": None},
            }
        ],
        "statistical_analysis": {
            "significance_tests": {"retrieval": {"reason": "no_baseline"}},
            "confidence_intervals": {"confidence_level": 0.95},
        },
        "metadata": {
            "evaluation_environment": {"software": "3.11"},
            "evaluation_parameters": {"random_seed": 42},
            "quality_assurance": {"data_validation": "passed"},
        },
    }  # fmt: skip
    return value | change
