"""An evaluation asks each question once, resumes after a kill, reuses what cannot have changed, and adds up."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest
import yaml

from rag_eval_pipeline.conversion.steps import convert
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.asking import ask, run_queries
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import ask_pair, evaluate, publish_pair, score_pair
from rag_eval_pipeline.evaluation.results import results_path
from rag_eval_pipeline.evaluation.runs import SCORE_FILES, load_evaluation, newest_evaluation
from rag_eval_pipeline.evaluation.storage import read_scores
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.validation import validate
from rag_eval_pipeline.storage.journal import JournalWriter, read_journal
from rag_eval_pipeline.systems.base import Query, RagAnswer

RAILWAY = "skarn-railway"
NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)


def pair_of(workspace, system="embedded", benchmark=RAILWAY):
    return load_pair(workspace, benchmark, system)


def results_of(workspace, published):
    return EvaluationResults.read(results_path(workspace, published.evaluation_id))


def test_evaluate_counts_add_up(workspace):
    answered, published = evaluate(workspace, pair_of(workspace))
    results = results_of(workspace, published)

    assert validate(published.path) == []
    assert (answered.report.questions, answered.report.asked, answered.report.failed) == (40, 40, 0)
    assert [row.query_id for row in results.query_results] == [str(number) for number in range(40)]
    for metric in [*results.retrieval_metrics.values(), results.answer_quality_metrics.f1]:
        assert metric.n_scored + metric.n_failed + metric.n_skipped == 40
    hits = [row.individual_metrics["hit@1"] for row in results.query_results if "hit@1" in row.individual_metrics]
    assert results.retrieval_metrics["hit@1"].value == sum(hits) / len(hits)
    assert len(hits) == 32  # eight of the forty are impossible
    assert results.performance_metrics.latency_stats["p50"] > 0
    assert results.performance_metrics.resource_usage["memory_mb"].peak > 10


def test_results_without_judge_or_baseline_are_null_with_a_reason(workspace):
    without_judge = yaml.safe_load(workspace.defaults_config.read_text()) | {"judge": {"kind": "none"}}
    workspace.defaults_config.write_text(yaml.safe_dump(without_judge))
    _, published = evaluate(workspace, pair_of(workspace))
    results = results_of(workspace, published)

    claims = [
        results.citation_metrics.citation_completeness,
        results.citation_metrics.citation_correctness,
        results.answer_quality_metrics.factual_consistency,
        results.answer_quality_metrics.hallucination_rate,
        results.answer_quality_metrics.hallucination_rate_retrieved,
    ]
    assert {(claim.value, claim.reason) for claim in claims} == {(None, "no_judge")}
    assert (results.judge, results.judge_metrics, results.performance_metrics.judge_usage) == (None, {}, {})
    tests = results.statistical_analysis.significance_tests
    assert {test.reason for test in tests.values()} == {"no_baseline"}


def test_evaluation_ids_follow_the_specification(workspace):
    first = ask(workspace, pair_of(workspace), now=NIGHT)
    second = ask(workspace, pair_of(workspace, "embedded-weak"), now=NIGHT)

    assert (first.evaluation_id, second.evaluation_id) == ("eval_run_20261121_001", "eval_run_20261121_002")


def test_evaluation_resumes_after_sigkill_from_its_journal(workspace):
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from rag_eval_pipeline.evaluation.pair import load_pair\n"
        "from rag_eval_pipeline.evaluation.pipeline import ask_pair\n"
        "from rag_eval_pipeline.workspace import Workspace\n"
        "root = Workspace(Path(sys.argv[1]))\n"
        "die = lambda done, total: os.kill(os.getpid(), signal.SIGKILL) if done == 30 else None\n"
        f"ask_pair(root, load_pair(root, {RAILWAY!r}, 'embedded'), die)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(workspace.root)], check=False, env=os.environ)
    assert killed.returncode == -signal.SIGKILL
    evaluation = newest_evaluation(workspace, RAILWAY, "embedded")
    kept = len(list(read_journal(evaluation.journal)))

    report = ask_pair(workspace, pair_of(workspace)).report

    assert kept >= 20  # a group of twenty was committed
    assert (report.evaluation_id, report.resumed, report.asked) == (evaluation.folder.name, kept, 40 - kept)


def test_deterministic_system_is_not_asked_again(workspace):
    _, first = evaluate(workspace, pair_of(workspace))
    answered, second = evaluate(workspace, pair_of(workspace))
    _, third = evaluate(workspace, pair_of(workspace))

    old, new, newest = (results_of(workspace, published) for published in (first, second, third))
    assert (answered.report.asked, answered.report.reused) == (0, 40)
    assert first.evaluation_id != second.evaluation_id
    assert {newest.performance_metrics.reused_from, new.performance_metrics.reused_from} == {first.evaluation_id}
    for part in ("retrieval_metrics", "citation_metrics", "answer_quality_metrics", "query_results"):
        assert getattr(new, part) == getattr(old, part)
    assert new.performance_metrics.latency_stats == old.performance_metrics.latency_stats


def test_failed_answer_is_counted_and_not_scored(workspace):
    pair = pair_of(workspace)
    evaluation = load_evaluation(workspace, ask(workspace, pair, now=NIGHT).evaluation_id)
    break_answers(evaluation, {"0", "2"})
    report = ask(workspace, pair, now=NIGHT)
    for kind in SCORE_FILES:
        score_pair(workspace, pair, kind)
    results = results_of(workspace, publish_pair(workspace, pair))

    assert (report.failed, report.coverage) == (2, 0.95)
    assert (results.summary.successful_queries, results.summary.failed_queries) == (38, 2)
    failed = {row.query_id: row for row in results.query_results if row.status != "ok"}
    assert failed.keys() == {"0", "2"}
    assert all(row.individual_metrics["f1"] is None for row in failed.values())
    for kind in SCORE_FILES:
        assert {r.query_id for r in read_scores(evaluation.scores(kind)) if r.outcome == "failed"} == {"0", "2"}
    f1 = results.answer_quality_metrics.f1
    assert (f1.n_scored, f1.n_failed, f1.coverage) == (38, 2, 0.95)


def break_answers(evaluation, query_ids):
    """Rewrites the journal as a server that refused some questions would have left it."""
    records = list(read_journal(evaluation.journal))
    evaluation.journal.unlink()
    with JournalWriter(evaluation.journal) as journal:
        for record in records:
            if record["query_id"] in query_ids:
                record = RagAnswer(record["query_id"], "error", None, False, (), (), 5.0, error="connection refused")
            journal.append(record)
    evaluation.save(state="open")


REFUSED = {
    "a benchmark that is not there": ("nowhere", "embedded", "no_benchmark"),
    "a system that is not there": (RAILWAY, "nobody", "no_system"),
    "a name that is no name": ("../etc", "embedded", "bad_name"),
}


@pytest.mark.parametrize(("benchmark", "system", "code"), REFUSED.values(), ids=REFUSED)
def test_load_pair_refuses_unknown_names(benchmark, system, code, workspace):
    with pytest.raises(InputError) as error:
        load_pair(workspace, benchmark, system)

    assert error.value.code == code


def test_load_pair_refuses_a_stale_conversion(workspace):
    spec = workspace.benchmark(RAILWAY).spec
    spec.write_text(spec.read_text() + "\n# edited\n")

    with pytest.raises(InputError) as edited:
        pair_of(workspace)
    workspace.benchmark(RAILWAY).stamp.unlink()
    with pytest.raises(InputError) as unconverted:
        pair_of(workspace)

    assert (edited.value.code, unconverted.value.code) == ("stale_conversion", "not_converted")
    assert "rag-eval convert skarn-railway" in str(unconverted.value)


def test_load_pair_refuses_an_edited_dataset(workspace):
    path = next(workspace.evaluation_datasets.glob("skarn-railway_*"))
    path.write_text(path.read_text().replace("Skarn", "Skurn", 1))

    with pytest.raises(InputError) as error:
        pair_of(workspace)

    assert error.value.code == "changed_dataset"


def test_publish_needs_all_score_files_of_one_evaluation(workspace):
    pair = pair_of(workspace)
    ask_pair(workspace, pair)
    score_pair(workspace, pair, "retrieval_scores")

    with pytest.raises(InputError) as error:
        publish_pair(workspace, pair)

    assert error.value.code == "missing_scores"
    assert "citation_scores" in str(error.value)


def test_score_refuses_answers_of_an_edited_system(workspace):
    ask_pair(workspace, pair_of(workspace))
    workspace.system_file("embedded").write_text("kind: embedded\nversion: '2'\n")

    with pytest.raises(InputError) as error:
        score_pair(workspace, pair_of(workspace), "answer_scores")

    assert error.value.code == "changed_pair"


def test_load_pair_refuses_edited_tables(workspace):
    paths = workspace.benchmark(RAILWAY)
    other = workspace.benchmark("cairnmoor-observatory")
    paths.pages.write_bytes(other.pages.read_bytes())

    with pytest.raises(InputError) as error:
        pair_of(workspace)

    assert error.value.code == "changed_dataset"
    assert "pages.parquet" in str(error.value)


def test_evaluation_ends_if_the_benchmark_is_converted_meanwhile(workspace):
    pair = pair_of(workspace)
    ask_pair(workspace, pair)
    spec = workspace.benchmark(RAILWAY).spec
    spec.write_text(spec.read_text().replace("version: 1.1.0", "version: 1.1.1"))
    convert(workspace, RAILWAY)

    for going_on in (lambda: ask_pair(workspace, pair), lambda: score_pair(workspace, pair, "answer_scores")):
        with pytest.raises(InputError) as error:
            going_on()
        assert error.value.code == "changed_pair"


def test_ask_repeats_all_questions_after_no_answers(workspace):
    pair = pair_of(workspace)
    evaluation = load_evaluation(workspace, ask(workspace, pair, now=NIGHT).evaluation_id)
    break_answers(evaluation, {str(number) for number in range(40)})
    with pytest.raises(ServiceError, match="embedded answered none of 40 questions: connection refused") as error:
        ask(workspace, pair, now=NIGHT)

    report = ask(workspace, pair, now=NIGHT)

    assert error.value.code == "no_answers"
    assert (report.evaluation_id, report.asked, report.failed) == (evaluation.record.evaluation_id, 40, 0)


def test_retrieval_skips_failed_impossible_questions(workspace):
    pair = pair_of(workspace)
    evaluation = load_evaluation(workspace, ask(workspace, pair, now=NIGHT).evaluation_id)
    break_answers(evaluation, {query.query_id for query in pair.queries if query.is_impossible})
    ask(workspace, pair, now=NIGHT)
    for kind in SCORE_FILES:
        score_pair(workspace, pair, kind)
    results = results_of(workspace, publish_pair(workspace, pair))

    assert results.summary.failed_queries == 8
    for metric in (results.retrieval_metrics["mrr"], results.page_retrieval_metrics["mrr"]):
        assert (metric.n_scored, metric.n_failed, metric.n_skipped, metric.coverage) == (32, 0, 8, 1.0)
    assert results.answer_quality_metrics.unanswerable_exact_match.n_failed == 8


def test_evaluation_ids_of_removed_runs_are_not_used_again(workspace):
    _, first = evaluate(workspace, pair_of(workspace))
    shutil.rmtree(workspace.runs / first.evaluation_id)

    answered, second = evaluate(workspace, pair_of(workspace))

    assert answered.report.asked == 40
    assert second.evaluation_id > first.evaluation_id
    assert first.path.exists()


def test_answers_are_reused_after_their_run_was_removed(workspace):
    first, second = (evaluate(workspace, pair_of(workspace))[1] for _ in range(2))
    shutil.rmtree(workspace.runs / first.evaluation_id)

    answered, third = evaluate(workspace, pair_of(workspace))
    results = results_of(workspace, third)

    assert answered.report.reused == 40
    assert results.performance_metrics.reused_from == first.evaluation_id
    assert results.performance_metrics.latency_stats == results_of(workspace, second).performance_metrics.latency_stats
    assert results.performance_metrics.resource_usage["memory_mb"].peak is None


class Slow:
    """A server that does not answer one question in time."""

    async def answer(self, query):
        if query.query_id == "1":
            await asyncio.sleep(3600)
        return RagAnswer(query.query_id, "ok", "x", False, (), (), 1.0)


def test_run_queries_times_out_one_question_alone():
    answers = []
    queries = [Query(str(number), "?") for number in range(4)]

    asyncio.run(run_queries(Slow(), queries, answers.append, in_flight=2, timeout_s=0.05))

    assert {answer.query_id: answer.status for answer in answers} == {"0": "ok", "1": "timeout", "2": "ok", "3": "ok"}


@pytest.mark.parametrize("measures", ["[foo@3]", "[]", "[mrr, mrr]"])
def test_load_pair_refuses_bad_measures(measures, workspace):
    workspace.defaults_config.write_text(f"measures: {measures}\n")

    with pytest.raises(InputError) as error:
        pair_of(workspace)

    assert (error.value.code, error.value.field) == ("bad_setting", "measures")
