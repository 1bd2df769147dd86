"""Turns asked over HTTP with the system's own earlier answers, by what docs/how-to/conversations.md shows."""

import re
import shutil
from collections import Counter

import pytest
import yaml

from rag_eval_pipeline.cli import main
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.asking import ask, ask_in_batches
from rag_eval_pipeline.evaluation.conversations import own_history
from rag_eval_pipeline.evaluation.evaluation_folders import newest_evaluation
from rag_eval_pipeline.evaluation.expected_pairs import pending_evaluation, read_registry
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.probing import probe
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.monitoring.comparison import compare_named
from rag_eval_pipeline.workspace import Workspace
from tests.evaluation.conftest import NIGHT, OBSERVATORY, change_defaults
from tests.json_server import json_server
from tests.talks import PAGE, answer_with_count, make_talks, question_of, set_chat


@pytest.fixture
def talks(made_once, tmp_path):
    shutil.copytree(made_once("talks", make_talks), tmp_path / "talks", symlinks=True)
    return Workspace(tmp_path / "talks")


def asked_of(server):
    """The messages of each question that was asked, by question."""
    found = {question_of(body): [one["content"] for one in body["messages"]] for body in server.bodies}
    assert len(found) == len(server.bodies)
    server.bodies.clear()
    return found


def test_own_answers_are_sent_and_a_system_without_memory_has_the_same_scores_with_both_histories(talks):
    found, sent, pair = {}, {}, None
    with json_server(lambda path, body: {"answer": f"gold {question_of(body).split()[-1][:-1]}"}) as server:
        for history in ("gold", "own"):
            set_chat(talks, server, history)
            pair = load_pair(talks, "chats", "chat")
            found[history] = EvaluationResults.read(evaluate(talks, pair)[1].path)
            sent[history] = asked_of(server)
        server.answer = answer_with_count
        evaluate(talks, pair, which="all")
        own = asked_of(server)

    scores = {name: [row.individual_metrics for row in one.query_results] for name, one in found.items()}
    assert scores["gold"] == scores["own"]
    assert {one["exact_match"] for one in scores["own"]} == {1.0}
    assert sent["gold"] == sent["own"]  # as its answers are the gold ones
    assert own["c2 4?"] == ["c2 1?", "own 1", "c2 2?", "own 3", "c2 3?", "own 5", "c2 4?"]
    with pytest.raises(InputError, match="different_history"):
        compare_named(talks, *(one.evaluation_id for one in found.values()))


def test_failed_turn_fails_the_later_ones_and_the_commands_of_the_page_ask_them_again(talks, monkeypatch):
    failing, found = ["c2 2?"], []  # once
    monkeypatch.chdir(talks.root)

    def answer(path, body):
        return (500, failing.clear()) if question_of(body) in failing else answer_with_count(path, body)

    with json_server(answer) as server:
        set_chat(talks, server)
        for command in re.findall(r"^ *\$ rag-eval (.+)$", PAGE, re.MULTILINE):
            monkeypatch.setattr("sys.argv", ["rag-eval", *command.split()])
            with pytest.raises(SystemExit):
                main()
            answers = newest_evaluation(talks, "chats", "chat").answers
            found.append((Counter(answer.error_code for answer in answers), {*asked_of(server)}))

    assert found[0][0] == {"http_500": 1, "earlier_turn_failed": 2, None: 7}
    assert not found[0][1] & {"c2 3?", "c2 4?"}
    assert found[1:] == [({None: 10}, {"c2 2?", "c2 3?", "c2 4?"})]


def test_interrupted_conversation_goes_on_with_its_answers_and_turns_not_asked_are_no_failures_in_a_row(talks):
    down = range(3, 100)  # the third request and all after it

    def answer(path, body):
        return (500, {}) if len(server.bodies) in down else answer_with_count(path, body)

    with json_server(answer) as server:
        set_chat(talks, server, concurrency=1)
        pair = load_pair(talks, "chats", "chat")
        with pytest.raises(ServiceError, match="3 questions in a row failed with http_500"):
            ask(talks, pair, now=NIGHT)
        assert [*asked_of(server)] == ["c1 1?", "c1 2?", "c1 3?", "c2 1?", "c3 1?"]
        down = ()
        report = ask(talks, pair, now=NIGHT)
        after = asked_of(server)

    assert after["c1 3?"] == ["c1 1?", "own 1", "c1 2?", "own 3", "c1 3?"]
    assert (report.resumed, report.asked, len(after), report.failed) == (2, 8, 8, 0)


def test_probe_asks_the_first_conversations_with_the_answers_of_the_system(talks):
    failing = []
    with json_server(lambda *of: (500, {}) if question_of(of[1]) in failing else answer_with_count(*of)) as server:
        set_chat(talks, server)
        found = [probe(talks, "chat", "chats", questions=4)]
        sent = asked_of(server)
        failing.append("c1 2?")
        found.append(probe(talks, "chat", "chats", questions=4))

    assert [[one["question"] for one in each["questions"]] for each in found] == [
        ["c1 1?", "c1 2?", "c1 3?", "c2 1?"]
    ] * 2
    assert sent["c1 3?"] == ["c1 1?", "own 1", "c1 2?", "own 3", "c1 3?"]
    assert [one["error_code"] for one in found[1]["questions"]] == [None, "http_500", "earlier_turn_failed", None]


def test_history_of_its_own_changes_nothing_where_there_are_no_conversations(workspace):
    def state():
        registry = read_registry(workspace)
        pending = [pending_evaluation(workspace, registry, OBSERVATORY, "embedded")]
        return load_pair(workspace, OBSERVATORY, "embedded").fingerprints, pending

    evaluate(workspace, load_pair(workspace, OBSERVATORY, "embedded"))
    before = state()
    change_defaults(workspace, history="own")

    assert state() == before
    assert before[1] == [None]


def test_limit_takes_whole_conversations_and_single_turns_are_refused(talks):
    with json_server(answer_with_count) as server:
        set_chat(talks, server)
        assert [len(load_pair(talks, "chats", "chat", limit=n).queries) for n in (1, 8, 9)] == [8, 8, 9]
        with pytest.raises(InputError, match="whole_conversations"):
            ask_in_batches(talks, load_pair(talks, "chats", "chat").only([3]), lambda answers: True, now=NIGHT)


@pytest.mark.parametrize(
    ("history", "earlier", "expected"),
    [
        ("Hello / u:A? / a / B", "A?", "Hello / A? / own A?"),
        ("u:A? / a / u:A? / b", "A?", "A? / a / A? / own A?"),  # the first is no question of the benchmark
        ("u:rewritten / a / more", "A?", "rewritten / own A?"),  # as many, in other words
        ("u:B? / b", "A? B?", "B? / own B?"),  # cut at its beginning
        ("u:A? / u:B? / b", "A? B?", "A? / own A? / B? / own B?"),  # a turn without a gold answer
        ("u:A? / a / u:B? / b", "", "A? / a / B? / b"),
    ],
)  # fmt: skip
def test_own_answers_stand_for_those_to_the_earlier_turns(history, earlier, expected):
    parts = [(one[:2] == "u:", one.removeprefix("u:")) for one in history.split(" / ")]
    messages = [{"role": "user" if is_user else "assistant", "content": text} for is_user, text in parts]
    one = EvaluationQuery(query_id="Q", query_text="Q?", relevant_documents=(), metadata={"history": messages})
    turns = [one.model_copy(update={"query_id": text, "query_text": text}) for text in earlier.split()]

    found = own_history(one, turns, {turn.query_id: f"own {turn.query_id}" for turn in turns})

    assert [message.content for message in found] == expected.split(" / ")


@pytest.mark.parametrize(
    ("kind", "settings", "warning"),
    [
        ("http", {"path": "/", "body": {"q": "{question}"}, "answer": "answer"}, "takes no history: 5 follow-up"),
        ("openai", {"chat": {"model": "m"}, "retrieval": {"k": 1}}, "finds the passages of 5 follow-up"),
        ("openai", {"chat": {"model": "m"}}, None),
    ],
)
def test_warning_names_follow_up_questions_that_are_asked_or_looked_up_alone(talks, kind, settings, warning):
    reply = {"answer": "x", "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}
    with json_server(lambda path, body: reply) as server:
        file = {"kind": kind, "settings": {"endpoint": {"base_url": server.url}, **settings}}
        talks.system_file("other").parent.mkdir(parents=True)
        talks.system_file("other").write_text(yaml.safe_dump(file))
        ask(talks, load_pair(talks, "chats", "other"), now=NIGHT)

    found = [one for one in newest_evaluation(talks, "chats", "other").record.warnings if "follow-up" in one]
    assert [warning in one for one in found] == [True] * (warning is not None)
