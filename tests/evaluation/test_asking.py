"""Each question is asked once: runs resume, failed questions are asked on request, and known answers are reused."""

import asyncio
import json
import shutil
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.asking import ask, run_queries
from rag_eval_pipeline.evaluation.budget import Usage, estimate, spent_today
from rag_eval_pipeline.evaluation.evaluation_folders import SCORE_FILES, load_evaluation, newest_evaluation
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate, publish_pair, score_pair
from rag_eval_pipeline.evaluation.score_tables import read_responses
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.storage.journal import JournalWriter, read_journal
from rag_eval_pipeline.systems.base import Query, RagAnswer
from tests.evaluation.conftest import NIGHT, OBSERVATORY, RAILWAY, change_defaults, failed
from tests.paid_server import set_system

METRICS = {"tolerance_chars": 3}
JUDGE = {"judge": {"kind": "none"}}


def results(published):
    return EvaluationResults.read(published.path)


def railway(workspace, system="embedded"):
    return load_pair(workspace, RAILWAY, system)


@pytest.mark.fault(69)
def test_evaluation_ends_if_the_benchmark_is_converted_meanwhile(workspace, pair):
    ask(workspace, pair, now=NIGHT)
    spec = workspace.benchmark(RAILWAY).spec
    spec.write_text(spec.read_text().replace("version: 1.1.0", "version: 1.1.1"))
    convert(workspace, RAILWAY)

    steps = (
        lambda: ask(workspace, pair, now=NIGHT),
        lambda: score_pair(workspace, pair, "answer_scores"),
        lambda: score_pair(workspace, railway(workspace), "answer_scores"),  # of another dataset
    )
    for step in steps:
        with pytest.raises(InputError) as error:
            step()
        assert error.value.code == "changed_pair"


class Slow:
    """A server that does not answer one question in time."""

    async def answer(self, query):
        if query.query_id == "1":
            await asyncio.sleep(3600)
        return RagAnswer(query.query_id, "ok", "x", False, (), (), 1.0)


def test_run_queries_times_out_one_question_alone():
    answers = []
    queries = [[Query(str(number), "?")] for number in range(4)]

    asyncio.run(run_queries(Slow(), queries, answers.append, in_flight=2, timeout_s=0.05))

    assert {answer.query_id: answer.status for answer in answers} == {"0": "ok", "1": "timeout", "2": "ok", "3": "ok"}


# --- a deterministic system


def test_deterministic_system_is_not_asked_again(workspace):
    (asked, first), (again, second), (_, third) = (evaluate(workspace, railway(workspace)) for _ in range(3))

    old, new, newest = map(results, (first, second, third))
    assert [(one.asked, one.reused) for one in (asked, again)] == [(40, 0), (0, 40)]
    assert first.evaluation_id != second.evaluation_id
    assert {newest.performance_metrics.reused_from, new.performance_metrics.reused_from} == {first.evaluation_id}
    for part in ("retrieval_metrics", "citation_metrics", "answer_quality_metrics", "query_results"):
        assert getattr(new, part) == getattr(old, part)
    assert new.performance_metrics.latency_stats == old.performance_metrics.latency_stats

    # Its answers are reused after the run that measured them was removed; only its samples of memory are lost.
    shutil.rmtree(workspace.runs / first.evaluation_id)
    fourth = evaluate(workspace, railway(workspace))[1]
    # Ids of removed runs are not used again.
    ids = [one.evaluation_id for one in (first, second, third, fourth)]
    assert [name.rpartition("_")[2] for name in ids] == ["001", "002", "003", "004"]
    measured = results(fourth).performance_metrics
    assert (measured.reused_from, measured.latency_stats) == (
        first.evaluation_id,
        old.performance_metrics.latency_stats,
    )
    assert measured.resource_usage["memory_mb"].peak is None


def rewrite_journal(evaluation, query_ids):
    """Leave the journal as a server that refused some questions would have left it."""
    records = [failed(r["query_id"]) if r["query_id"] in query_ids else r for r in read_journal(evaluation.journal)]
    evaluation.journal.unlink()
    with JournalWriter(evaluation.journal) as journal:
        journal.extend(records)
    evaluation.save(state="open")


def test_failed_answers_of_a_deterministic_system_are_asked_anew(workspace, evaluation, pair):
    rewrite_journal(evaluation, {"0", "7"})
    first, _ = evaluate(workspace, pair)

    report = ask(workspace, pair, now=NIGHT)

    assert (first.failed, first.coverage) == (2, 0.95)
    assert (report.asked, report.reused, report.failed) == (2, 38, 0)
    answers = read_responses(load_evaluation(workspace, report.evaluation_id).responses)
    assert {answer.query_id for answer in answers if answer.reused_from is None} == {"0", "7"}
    assert {answer.reused_from for answer in answers} == {None, first.evaluation_id}


def test_questions_are_asked_again_after_no_answers(workspace, evaluation, pair):
    rewrite_journal(evaluation, {query.query_id for query in pair.queries})
    with pytest.raises(ServiceError, match="embedded answered none of 40 questions: connection refused") as error:
        ask(workspace, pair, now=NIGHT)

    report = ask(workspace, pair, now=NIGHT)

    assert error.value.code == "no_answers"
    assert (report.evaluation_id, report.asked, report.failed) == (evaluation.record.evaluation_id, 40, 0)


# --- a system that fails and spends

CODE = """
import pathlib

HERE = pathlib.Path(__file__).parent

def answer(query):
    with (HERE / "asked.txt").open("a") as log:
        log.write(query.query_id + "\\n")
    if query.query_id in (HERE / "failing.txt").read_text().split():
        raise ConnectionError("connection refused")
    return {"answer": "It is 4.", "usage": {"total_tokens": 10, "estimated_cost_usd": 0.5}}
"""


@pytest.fixture
def scripted(workspace):
    """The workspace with a system that fails on the questions of a file and writes down what it was asked."""
    folder = workspace.config / "systems"
    (folder / "scripted_system.py").write_text(CODE)
    (folder / "failing.txt").write_text("")
    write_system(workspace)
    return workspace


def write_system(workspace, more="", *, at_once=1):
    workspace.system_file("scripted").write_text(
        "kind: python\nsettings:\n  callable: scripted_system:answer\n  path: [.]\n"
        f"evaluation: {{concurrency: {at_once}}}\n" + more
    )


def fail_on(workspace, *query_ids):
    (workspace.config / "systems" / "failing.txt").write_text("\n".join(query_ids))


def asked(workspace):
    """What was asked since the last call."""
    path = workspace.config / "systems" / "asked.txt"
    lines = path.read_text().split() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


def pair_of(workspace):
    return load_pair(workspace, OBSERVATORY, "scripted")


def test_failed_answers_are_terminal_until_they_are_asked_for(scripted):
    fail_on(scripted, "3", "5")
    first = ask(scripted, pair_of(scripted), now=NIGHT)
    assert [(cause.code, cause.questions) for cause in first.causes] == [("python_error", 2)]
    asked(scripted)

    again = ask(scripted, pair_of(scripted), now=NIGHT)
    assert asked(scripted) == []
    assert (again.evaluation_id, again.resumed, again.failed) == (first.evaluation_id, 16, 2)

    fail_on(scripted, "5")
    again = ask(scripted, pair_of(scripted), now=NIGHT, which="failed")
    assert sorted(asked(scripted)) == ["3", "5"]
    assert (again.evaluation_id, again.asked, again.failed) == (first.evaluation_id, 2, 1)
    answers = read_responses(load_evaluation(scripted, again.evaluation_id).responses)
    assert [answer.query_id for answer in answers if answer.status != "ok"] == ["5"]


def test_failed_questions_of_a_published_evaluation_are_asked_in_a_new_one(scripted):
    with pytest.raises(InputError) as never_asked:
        ask(scripted, pair_of(scripted), now=NIGHT, which="failed")
    fail_on(scripted, "3")
    _, first = evaluate(scripted, pair_of(scripted))
    published = first.path.read_bytes()
    asked(scripted)
    fail_on(scripted)

    answered, second = evaluate(scripted, pair_of(scripted), which="failed")
    with pytest.raises(InputError) as all_good:
        ask(scripted, pair_of(scripted), now=NIGHT, which="failed")

    assert asked(scripted) == ["3"]
    assert (answered.asked, answered.reused, answered.failed) == (1, 15, 0)
    assert second.evaluation_id != first.evaluation_id
    assert first.path.read_bytes() == published
    assert (never_asked.value.code, all_good.value.code) == ("nothing_failed", "nothing_failed")


@pytest.mark.fault(45)
def test_budget_that_is_used_up_keeps_what_was_answered(scripted):
    write_system(scripted, "budget: {usd: 2.0}\n")  # half a dollar a question

    with pytest.raises(ServiceError, match="system scripted has used 2 of 2 US dollars") as error:
        ask(scripted, pair_of(scripted), now=NIGHT)
    assert asked(scripted) == ["0", "1", "2", "3"]
    write_system(scripted)
    left = estimate(scripted, pair_of(scripted), now=NIGHT).to_ask
    report = ask(scripted, pair_of(scripted), now=NIGHT + timedelta(days=1))

    assert (error.value.code, left) == ("budget_spent", 12)
    assert (report.resumed, report.asked) == (4, 12)
    [warning] = load_evaluation(scripted, report.evaluation_id).record.warnings
    assert warning.startswith(f"answers of two nights: 4 of 16 from {NIGHT:%Y-%m-%d} on, the others from ")
    assert spent_today(scripted.spending, "system-scripted", datetime.now(UTC)) == Usage(16, 160, 8.0)


def test_service_that_fails_in_a_row_is_not_asked_the_rest_and_later_asked_again(scripted):
    limit = "evaluation: {concurrency: 1, stop_after_failures: %s}\n"
    path = scripted.system_file("scripted")
    file = path.read_text().rpartition("evaluation:")[0]
    path.write_text(file + limit % 5)
    fail_on(scripted, "1", "2", *map(str, range(4, 12)))

    with pytest.raises(ServiceError, match="5 questions in a row failed with python_error: .*refused") as error:
        ask(scripted, pair_of(scripted), now=NIGHT)
    stopped = asked(scripted)
    fail_on(scripted)
    report = ask(scripted, pair_of(scripted), now=NIGHT)

    assert error.value.code == "failing"
    assert stopped == [str(number) for number in range(9)]
    assert asked(scripted) == ["1", "2", *(str(number) for number in range(4, 16))]
    assert (report.resumed, report.asked, report.failed) == (2, 14, 0)

    path.write_text("version: '2'\n" + file + limit % "null")
    fail_on(scripted, *map(str, range(1, 16)))
    assert ask(scripted, pair_of(scripted), now=NIGHT).failed == 15


@pytest.mark.fault(69)
def test_answers_of_changed_code_are_never_mixed(scripted):
    write_system(scripted, "budget: {usd: 2.0}\n")
    with pytest.raises(ServiceError):
        ask(scripted, pair_of(scripted), now=NIGHT)
    asked(scripted)
    write_system(scripted)
    code = scripted.config / "systems" / "scripted_system.py"
    code.write_text(code.read_text().replace("It is 4.", "It is five."))

    report = ask(scripted, pair_of(scripted), now=NIGHT)

    answers = read_responses(load_evaluation(scripted, report.evaluation_id).responses)
    assert {answer.answer for answer in answers} == {"It is five."}
    assert (report.asked, report.resumed, len(asked(scripted))) == (16, 0, 16)


def test_estimate_is_by_measured_answers_and_spends_nothing(scripted):
    before = estimate(scripted, pair_of(scripted), now=NIGHT)
    evaluate(scripted, pair_of(scripted))
    asked(scripted)
    write_system(scripted, "budget: {usd: 10}\n")

    after = estimate(scripted, pair_of(scripted), now=datetime.now(UTC))

    assert (before.to_ask, before.requests, before.tokens, before.basis) == (16, 16.0, None, None)
    assert (after.to_ask, after.requests, after.tokens, after.usd) == (16, 16.0, 160.0, 8.0)
    assert (after.spent.usd, after.exceeds) == (8.0, ("usd",))
    # With a model judge: verdicts and two calls of a rating for each of 16 answers, which are scored again.
    server = {"endpoint": {"base_url": "http://127.0.0.1:9/v1"}, "chat": {"model": "m"}}
    change_defaults(scripted, judge={"kind": "openai", "settings": {**server, "ratings": ["answer_accuracy"]}})
    judged = estimate(scripted, pair_of(scripted), now=NIGHT)
    assert (before.judge_requests, judged.judge_requests, judged.to_ask) == (0, 3 * 16, 0)
    assert asked(scripted) == []


# --- answers that are scored again: other metrics or another judge ask no system


@pytest.fixture
def paid(workspace, server):
    """The workspace with the server as the system `paid`."""
    set_system(workspace, server)
    return workspace


def paid_pair(workspace):
    return load_pair(workspace, OBSERVATORY, "paid")


def test_recording_that_was_replaced_is_read_again(workspace):
    recording = workspace.root / "a.jsonl"
    workspace.system_file("recorded").write_text(f"kind: replay\nsettings: {{path: {recording}}}\n")
    queries = load_pair(workspace, OBSERVATORY, "recorded").queries
    exact = []
    for answers in (["Yes."] * 16, ["Yes."] * 16, [query.ground_truth_answer or "unanswerable" for query in queries]):
        rows = zip(queries, answers, strict=True)
        recording.write_text("\n".join(json.dumps({"id": one.display_id, "answer": answer}) for one, answer in rows))
        report, published = evaluate(workspace, load_pair(workspace, OBSERVATORY, "recorded"))
        exact.append((report.asked, report.reused, results(published).answer_quality_metrics.exact_match.value))

    assert exact == [(16, 0, 0.0), (0, 16, 0.0), (16, 0, 1.0)]


def test_ids_of_a_system_are_read_by_its_map_and_a_changed_map_is_read_again(workspace):
    file = workspace.system_file("recorded")
    recording, names = file.parent / "own.jsonl", file.parent / f"{OBSERVATORY}.csv"
    file.write_text('kind: replay\nsettings: {path: own.jsonl, contexts: {names: "{benchmark}.csv"}}\n')
    queries = load_pair(workspace, OBSERVATORY, "recorded").queries
    files = sorted({name for query in queries for name in query.relevant_documents})
    ids = {name: f"KB-{number:04}" for number, name in enumerate(files)}
    rows = [
        {"query_id": q.query_id, "answer": "x", "contexts": [{"document": f"{ids[n]}#3"} for n in q.relevant_documents]}
        for q in queries
    ]
    recording.write_text("\n".join(map(json.dumps, rows)))
    hits = []
    for means in (files, files, files[1:] + files[:1]):
        names.write_text("id,file\n" + "".join(f"{ids[own]},{file}\n" for own, file in zip(files, means, strict=True)))
        report, published = evaluate(workspace, load_pair(workspace, OBSERVATORY, "recorded"))
        hits.append((report.asked, results(published).retrieval_metrics["recall@5"].value))

    assert hits[:2] == [(16, 1.0), (0, 1.0)]
    assert hits[2][0] == 16
    assert hits[2][1] < 1.0


def test_published_answers_are_scored_again_without_asking(paid, server):
    _, first = evaluate(paid, paid_pair(paid))
    before = first.path.read_bytes()
    change_defaults(paid, **METRICS, **JUDGE)
    pair = paid_pair(paid)
    assert estimate(paid, pair, now=NIGHT).to_ask == 0

    answered, second = evaluate(paid, pair)

    assert server.asked.total() == 16
    assert (answered.asked, answered.reused, answered.failed) == (0, 16, 0)
    old, new = results(first), results(second)
    assert new.evaluation_id != old.evaluation_id
    assert new.timestamp == old.timestamp
    assert new.performance_metrics.reused_from == old.evaluation_id
    assert new.performance_metrics.latency_stats == old.performance_metrics.latency_stats
    assert new.fingerprints == pair.fingerprints.model_copy(update={"server": new.fingerprints.server})
    assert first.path.read_bytes() == before

    # Once they are scored as today, an evaluation asks anew.
    assert evaluate(paid, pair)[0].asked == 16


def test_night_asks_every_question_whatever_has_changed(paid, server):
    _, first = evaluate(paid, paid_pair(paid))
    change_defaults(paid, **METRICS)
    reports = [score_pair(paid, paid_pair(paid), kind) for kind in SCORE_FILES[:2]]
    assert len({report.evaluation_id for report in reports} - {first.evaluation_id}) == 1  # a copy, scored again

    answered, _ = evaluate(paid, paid_pair(paid), which="all")

    assert (answered.asked, answered.reused, server.asked.total()) == (16, 0, 32)


@pytest.mark.fault(69)
def test_unfinished_evaluation_is_resumed_under_new_settings(paid, server):
    set_system(paid, server, budget={"requests": 4})
    with pytest.raises(ServiceError):
        ask(paid, paid_pair(paid), now=NIGHT)
    set_system(paid, server, endpoint={"max_retries": 9})
    change_defaults(paid, **METRICS, **JUDGE)

    answered, published = evaluate(paid, paid_pair(paid))

    assert (answered.resumed, answered.asked, server.asked.total()) == (4, 12, 16)
    assert results(published).fingerprints.metrics == paid_pair(paid).fingerprints.metrics


@pytest.mark.fault(69)
def test_scores_made_before_a_change_are_not_published_with_later_ones(workspace, evaluation, pair):
    with pytest.raises(
        InputError, match="Materialize retrieval_scores, citation_scores, answer_scores, judge_scores of"
    ) as nothing:
        publish_pair(workspace, pair)
    for kind in SCORE_FILES:
        score_pair(workspace, pair, kind)
    change_defaults(workspace, **METRICS)
    pair = railway(workspace)
    with pytest.raises(InputError) as unscored:
        publish_pair(workspace, pair)
    for kind in SCORE_FILES[:-1]:
        score_pair(workspace, pair, kind)
    with pytest.raises(InputError, match="Materialize judge_scores of") as partly:
        publish_pair(workspace, pair)

    codes = [one.value.code for one in (nothing, unscored, partly)]
    assert codes == ["missing_scores", "changed_pair", "missing_scores"]
    score_pair(workspace, pair, "judge_scores")
    assert results(publish_pair(workspace, pair)).fingerprints.metrics == pair.fingerprints.metrics


def test_failed_questions_are_asked_while_old_answers_are_scored_again(paid, server):
    server.refused = {3, 5}
    _, first = evaluate(paid, paid_pair(paid))
    change_defaults(paid, **METRICS)
    score_pair(paid, paid_pair(paid), "answer_scores")
    server.refused = set()

    retried, published = evaluate(paid, paid_pair(paid), which="failed")

    assert (retried.asked, retried.reused, retried.failed) == (2, 14, 0)
    assert (server.asked.total(), results(published).timestamp > results(first).timestamp) == (18, True)


def test_warnings_of_kept_answers_stay_when_failed_questions_are_asked_again(paid, server):
    file = yaml.safe_load(paid.system_file("paid").read_text())
    file["settings"]["contexts"] = {"path": "hits"}
    paid.system_file("paid").write_text(yaml.safe_dump(file))
    server.refused = {16}
    _, first = evaluate(paid, paid_pair(paid))

    retried, second = evaluate(paid, paid_pair(paid), which="failed")  # refused again, so no reply is read

    assert (retried.asked, retried.failed) == (1, 1)
    assert "found nothing in any of 15 replies" in first.warnings[0]
    assert second.warnings[0] == first.warnings[0]


def test_retry_that_cannot_copy_answers_leaves_no_newest_evaluation_without_them(paid, server):
    server.refused = {3}
    evaluate(paid, paid_pair(paid))
    newest = newest_evaluation(paid, OBSERVATORY, "paid")
    newest.responses.rename(newest.responses.with_suffix(".away"))
    with pytest.raises(InputError) as error:
        ask(paid, paid_pair(paid), now=NIGHT, which="failed")
    newest.responses.with_suffix(".away").rename(newest.responses)
    server.refused = set()

    report = ask(paid, paid_pair(paid), now=NIGHT, which="failed")

    assert error.value.code == "bad_responses"
    assert (report.asked, report.reused, server.asked.total()) == (1, 15, 17)
