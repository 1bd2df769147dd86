"""Answers are kept for as long as dataset, corpus and system are as they were: other scores ask nobody."""

import pytest
import yaml

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.evaluation.budget import estimate
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import ask_pair, evaluate, publish_pair, score_pair
from rag_eval_pipeline.evaluation.runs import SCORE_FILES, newest_evaluation
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.systems.config import parse_system
from tests.evaluation.test_asking import NIGHT
from tests.paid_server import set_system

OBSERVATORY = "cairnmoor-observatory"  # 16 questions
METRICS = {"tolerance_chars": 3}
JUDGE = {"judge": {"kind": "none"}}


@pytest.fixture
def paid(workspace, server):
    """The workspace with the server as the system `paid`."""
    set_system(workspace, server)
    return workspace


def set_defaults(workspace, **changes):
    path = workspace.defaults_config
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))


def pair(workspace):
    return load_pair(workspace, OBSERVATORY, "paid")


def results(published):
    return EvaluationResults.read(published.path)


CHANGES = pytest.mark.parametrize("change", [METRICS, JUDGE], ids=["metrics", "judge"])


@CHANGES
def test_published_answers_are_scored_again_and_the_server_is_not_asked(change, paid, server):
    _, first = evaluate(paid, pair(paid))
    set_defaults(paid, **change)
    assert estimate(paid, pair(paid), now=NIGHT).to_ask == 0

    answered, second = evaluate(paid, pair(paid))

    assert server.asked.total() == 16
    assert (answered.report.asked, answered.report.reused, answered.report.failed) == (0, 16, 0)
    old, new = results(first), results(second)
    assert new.evaluation_id != old.evaluation_id
    assert new.timestamp == old.timestamp  # what the system did then, not a night of its own
    assert new.performance_metrics.reused_from == old.evaluation_id
    assert new.performance_metrics.latency_stats == old.performance_metrics.latency_stats
    assert (new.fingerprints.metrics, new.fingerprints.judge) == (
        pair(paid).fingerprints.metrics, pair(paid).fingerprints.judge,
    )  # fmt: skip


def test_once_they_are_scored_as_today_an_evaluation_asks_anew(paid, server):
    evaluate(paid, pair(paid))
    set_defaults(paid, **METRICS)
    evaluate(paid, pair(paid))

    answered, _ = evaluate(paid, pair(paid))

    assert (answered.report.asked, server.asked.total()) == (16, 32)


def test_a_night_asks_every_question_whatever_has_changed(paid, server):
    evaluate(paid, pair(paid))
    set_defaults(paid, **METRICS)
    score_pair(paid, pair(paid), "answer_scores")  # somebody has begun to score the old answers again

    answered, _ = evaluate(paid, pair(paid), which="all")

    assert (answered.report.asked, answered.report.reused, server.asked.total()) == (16, 0, 32)


@CHANGES
def test_an_unfinished_evaluation_is_resumed(change, paid, server):
    set_system(paid, server, budget={"requests": 4})
    with pytest.raises(ServiceError):
        ask_pair(paid, pair(paid))
    set_system(paid, server)
    set_defaults(paid, **change)

    answered, published = evaluate(paid, pair(paid))

    assert (answered.report.resumed, answered.report.asked, server.asked.total()) == (4, 12, 16)
    assert results(published).fingerprints.metrics == pair(paid).fingerprints.metrics


@CHANGES
def test_scores_made_before_the_change_are_not_published_with_later_ones(change, paid):
    ask_pair(paid, pair(paid))
    for kind in SCORE_FILES:
        score_pair(paid, pair(paid), kind)
    set_defaults(paid, **change)
    with pytest.raises(InputError) as unscored:
        publish_pair(paid, pair(paid))
    score_pair(paid, pair(paid), "retrieval_scores")
    with pytest.raises(InputError) as partly:
        publish_pair(paid, pair(paid))

    assert (unscored.value.code, partly.value.code) == ("changed_pair", "missing_scores")
    assert "Materialize citation_scores, answer_scores, judge_scores of" in str(partly.value)
    for kind in SCORE_FILES:
        score_pair(paid, pair(paid), kind)
    assert results(publish_pair(paid, pair(paid))).fingerprints.judge == pair(paid).fingerprints.judge


@CHANGES
def test_a_score_asset_alone_scores_the_published_answers_again(change, paid, server):
    _, first = evaluate(paid, pair(paid))
    before = first.path.read_bytes()
    set_defaults(paid, **change)

    reports = [score_pair(paid, pair(paid), kind) for kind in SCORE_FILES]
    second = publish_pair(paid, pair(paid))

    assert {report.evaluation_id for report in reports} == {second.evaluation_id}
    assert second.evaluation_id != first.evaluation_id
    assert (first.path.read_bytes(), server.asked.total()) == (before, 16)


def test_failed_questions_of_answers_scored_again_can_be_asked_again(paid, server):
    server.refused = {3, 5}
    evaluate(paid, pair(paid))
    set_defaults(paid, **METRICS)
    again, _ = evaluate(paid, pair(paid))
    server.refused = set()

    retried, _ = evaluate(paid, pair(paid), which="failed")

    assert (again.report.failed, again.report.asked) == (2, 0)
    assert (retried.report.asked, retried.report.failed, server.asked.total()) == (2, 0, 18)


def test_warnings_of_kept_answers_stay_when_failed_questions_are_asked_again(paid, server):
    file = yaml.safe_load(paid.system_file("paid").read_text())
    file["settings"]["contexts"] = {"path": "hits"}
    paid.system_file("paid").write_text(yaml.safe_dump(file))
    server.refused = {16}
    _, first = evaluate(paid, pair(paid))

    retried, second = evaluate(paid, pair(paid), which="failed")  # refused again, so no reply is read

    assert (retried.report.asked, retried.report.failed) == (1, 1)
    assert "found nothing in any of 15 replies" in first.warnings[0]
    assert second.warnings[0] == first.warnings[0]


def test_failed_questions_are_asked_in_an_evaluation_of_their_own_while_old_answers_are_scored_again(paid, server):
    server.refused = {3}
    _, first = evaluate(paid, pair(paid))
    set_defaults(paid, **METRICS)
    score_pair(paid, pair(paid), "answer_scores")
    server.refused = set()

    retried, published = evaluate(paid, pair(paid), which="failed")

    assert (retried.report.asked, retried.report.reused, retried.report.failed) == (1, 15, 0)
    assert results(published).timestamp > results(first).timestamp


def test_answers_that_cannot_be_copied_leave_no_newest_evaluation_that_lacks_them(paid, server):
    server.refused = {3}
    evaluate(paid, pair(paid))
    newest = newest_evaluation(paid, OBSERVATORY, "paid")
    newest.responses.rename(newest.responses.with_suffix(".away"))
    with pytest.raises(InputError) as error:
        ask(paid, pair(paid), now=NIGHT, which="failed")
    newest.responses.with_suffix(".away").rename(newest.responses)
    server.refused = set()

    report = ask(paid, pair(paid), now=NIGHT, which="failed")

    assert error.value.code == "bad_responses"
    assert (report.asked, report.reused, server.asked.total()) == (1, 15, 17)


def test_answers_that_were_lost_are_asked_for_again(paid, server):
    evaluate(paid, pair(paid))
    newest_evaluation(paid, OBSERVATORY, "paid").responses.unlink()
    set_defaults(paid, **METRICS)

    answered, _ = evaluate(paid, pair(paid))

    assert (answered.report.asked, server.asked.total()) == (16, 32)


RAISED = {
    "a time limit": {"endpoint": {"total_seconds": 600}},
    "retries": {"endpoint": {"max_retries": 9, "backoff_seconds": 1}},
    "requests at once": {"endpoint": {"in_flight": 2, "requests_per_minute": 10_000}},
    "what the secret's variable is called": {"endpoint": {"api_key_env": "OTHER_NAME"}},
    "what a day may cost": {"budget": {"requests": 1000}},
    "whether nights ask it": {"nightly": False},
    "how many questions are asked at once": {"evaluation": {"concurrency": 3, "timeout_seconds": 99}},
}


@pytest.mark.parametrize("change", RAISED.values(), ids=RAISED)
def test_an_operational_setting_neither_ends_a_resumable_run_nor_forgets_what_failed(change, paid, server, monkeypatch):
    monkeypatch.setenv("OTHER_NAME", "x")
    set_system(paid, server, budget={"requests": 4})
    server.refused = {2}
    with pytest.raises(ServiceError):
        ask_pair(paid, pair(paid))
    set_system(paid, server, **change)
    server.refused = set()

    resumed = ask_pair(paid, pair(paid)).report
    retried = ask_pair(paid, pair(paid), which="failed").report

    assert (resumed.resumed, resumed.asked, resumed.failed) == (4, 12, 1)
    assert (retried.asked, retried.failed, server.asked.total()) == (1, 0, 17)


ENDPOINT = {"base_url": "http://127.0.0.1:1/v1"}
SETTINGS = {
    "http": {"endpoint": ENDPOINT, "body": {"q": "{question}"}, "answer": "answer"},
    "openai": {"endpoint": ENDPOINT, "chat": {"model": "m"}},
    "nvidia": {"rag": ENDPOINT},
    "python": {"callable": "m:answer"},
    "replay": {"path": "answers.jsonl"},
    "embedded": {},
}
OTHER_ANSWERS = {
    ("http", "the URL"): {"endpoint": {"base_url": "http://127.0.0.1:2"}},
    ("http", "what is sent"): {"body": {"q": "{question}", "k": 5}},
    ("http", "where the answer stands"): {"answer": "text"},
    ("http", "the model it is said to be"): {"configuration": {"model": "other"}},
    ("openai", "the model"): {"chat": {"model": "other"}},
    ("openai", "the temperature"): {"chat": {"model": "m", "temperature": 1}},
    ("openai", "the prompt"): {"system_prompt": "Be brief."},
    ("openai", "the retrieval"): {"retrieval": {"k": 3}},
    ("nvidia", "the passages read"): {"generate": {"reranker_top_k": 3}},
    ("nvidia", "the chunks"): {"upload": {"chunk_size": 100, "chunk_overlap": 10}},
    ("python", "the arguments"): {"arguments": {"k": 3}},
    ("replay", "the file"): {"path": "others.jsonl"},
    ("embedded", "the passages"): {"k": 3},
}
SAME_ANSWERS = {
    ("http", "prices and where usage stands"): {"prices": {"usd_per_request": 1}, "cost": "cost", "prompt_tokens": "p"},
    ("http", "names of variables"): {"endpoint": ENDPOINT | {"headers_env": {"x-key": "KEY"}, "api_key_env": "KEY"}},
    ("openai", "prices"): {"chat": {"model": "m", "prices": {"usd_per_request": 1}}},
    ("openai", "limits"): {"endpoint": ENDPOINT | {"attempt_seconds": 9, "body_mb_max": 1, "ca_file": "ca.pem"}},
    ("nvidia", "limits"): {"rag": ENDPOINT | {"max_retries": 0, "in_flight": 1}},
    ("nvidia", "how the corpus is sent"): {"upload": {"batch_documents": 3, "total_seconds": 9, "poll_seconds": 1}},
    ("nvidia", "prices and readiness"): {"prices": {"usd_per_request": 1}, "check_dependencies": False},
}


def fingerprint(workspace, kind, **more):
    file = {"kind": kind, "settings": SETTINGS[kind] | more}
    parse_system(file, "a test")
    workspace.system_file("s").write_text(yaml.safe_dump(file))
    return load_pair(workspace, OBSERVATORY, "s").fingerprints.system


@pytest.mark.parametrize(
    ("kind", "change", "is_same"),
    [(kind, change, same) for same, table in ((False, OTHER_ANSWERS), (True, SAME_ANSWERS))
     for (kind, _), change in table.items()],
    ids=[f"{kind}: {what}" for table in (OTHER_ANSWERS, SAME_ANSWERS) for kind, what in table],
)  # fmt: skip
def test_the_fingerprint_of_a_system_is_what_can_change_its_answers(kind, change, is_same, workspace):
    assert (fingerprint(workspace, kind, **change) == fingerprint(workspace, kind)) is is_same
