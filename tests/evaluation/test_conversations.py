"""Turns asked with the system's own earlier answers, over HTTP; a server may use the messages before a question or not.

Settings and commands are those of docs/how-to/conversations.md.
"""

import re
from collections import Counter

import pytest
import yaml

from rag_eval_pipeline.cli import main
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.asking import ask, ask_in_batches
from rag_eval_pipeline.evaluation.conversations import own_history
from rag_eval_pipeline.evaluation.evaluation_folders import newest_evaluation
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.monitoring.comparison import compare_named
from tests.evaluation.conftest import NIGHT
from tests.json_server import json_server
from tests.talks import PAGE, answer_with_count, make_talks, question_of, set_chat


@pytest.fixture
def talks(tmp_path):
    return make_talks(tmp_path / "talks")


def asked_of(server):
    """The messages of each question that was asked, by question."""
    found = {question_of(body): [one["content"] for one in body["messages"]] for body in server.bodies}
    assert len(found) == len(server.bodies)
    server.bodies.clear()
    return found


def codes(talks):
    """Why each question of the newest evaluation failed; None for an answer."""
    return {row.query_id: row.error_code for row in newest_evaluation(talks, "chats", "chat").answers}


def scores_of(published):
    return [row.individual_metrics for row in EvaluationResults.read(published.path).query_results]


def test_follow_up_questions_have_the_own_or_the_gold_answers_before_them_and_a_system_without_memory_the_same_scores(
    talks,
):
    found, sent = {}, {}
    with json_server(lambda path, body: {"answer": f"gold {question_of(body).split()[-1][:-1]}"}) as server:
        for history in ("gold", "own"):
            set_chat(talks, server, history)
            _, published = evaluate(talks, load_pair(talks, "chats", "chat"))
            newest = newest_evaluation(talks, "chats", "chat")
            sent[history] = asked_of(server)
            found[history] = newest.record.evaluation_id, scores_of(published)
        server.answer = answer_with_count
        set_chat(talks, server, timeout_seconds=20)
        evaluate(talks, load_pair(talks, "chats", "chat"), which="all")
        own = asked_of(server)

    assert found["gold"][1] == found["own"][1]
    assert all(scores["exact_match"] == 1.0 for scores in found["own"][1])
    assert sent["gold"] == sent["own"]  # as it answers with the gold answers
    assert own["c2 4?"] == ["c2 1?", "own 1", "c2 2?", "own 3", "c2 3?", "own 5", "c2 4?"]
    with pytest.raises(InputError, match="different_history") as error:
        compare_named(talks, found["gold"][0], found["own"][0])
    assert error.value.code == "not_comparable"


def test_failed_turn_fails_the_later_ones_and_is_no_new_failure_of_the_system(talks):
    def answer(path, body):
        return (500, {}) if question_of(body) in failing else answer_with_count(path, body)

    failing = {"c1 1?", "c2 2?"}
    with json_server(answer) as server:
        set_chat(talks, server, concurrency=1)
        pair = load_pair(talks, "chats", "chat")
        ask(talks, pair, now=NIGHT)
        first = Counter(codes(talks).values())
        n_asked = len(asked_of(server))
        failing.clear()
        evaluate(talks, pair)
        evaluate(talks, pair, which="failed")

        assert first == {"http_500": 2, "earlier_turn_failed": 4, None: 4}
        assert n_asked == 6
        assert set(asked_of(server)) == {"c1 1?", "c1 2?", "c1 3?", "c2 2?", "c2 3?", "c2 4?"}
        assert set(codes(talks).values()) == {None}


def test_interrupted_conversation_goes_on_with_its_answers(talks):
    def answer(path, body):
        return (500, {}) if len(server.bodies) in down else answer_with_count(path, body)

    with json_server(answer) as server:
        set_chat(talks, server, concurrency=1)
        pair = load_pair(talks, "chats", "chat")
        down = range(3, 100)  # the third request and all after it: it is down
        with pytest.raises(ServiceError) as error:
            ask(talks, pair, now=NIGHT)
        before = asked_of(server)
        down = ()
        report = ask(talks, pair, now=NIGHT)
        after = asked_of(server)

    assert error.value.code == "failing"
    assert [*before][:3] == ["c1 1?", "c1 2?", "c1 3?"]
    assert after["c1 3?"] == ["c1 1?", "own 1", "c1 2?", "own 3", "c1 3?"]
    assert "c1 2?" not in after
    assert (report.resumed, report.asked, report.failed) == (2, 8, 0)


def test_limit_takes_whole_conversations_and_single_turns_are_refused(talks):
    with json_server(answer_with_count) as server:
        set_chat(talks, server)
        assert [len(load_pair(talks, "chats", "chat", limit=n).queries) for n in (1, 8, 9)] == [8, 8, 9]
        pair = load_pair(talks, "chats", "chat", limit=3)
        evaluate(talks, pair)
        with pytest.raises(InputError) as error:
            ask_in_batches(talks, pair.only([3]), lambda answers: True, now=NIGHT)
    assert error.value.code == "whole_conversations"


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
    messages = [
        {"role": "user" if one.startswith("u:") else "assistant", "content": one.removeprefix("u:")}
        for one in history.split(" / ")
    ]

    def query(text, **metadata):
        return EvaluationQuery(query_id=text, query_text=text, relevant_documents=(), metadata=metadata)

    turns = [query(text) for text in earlier.split()]
    found = own_history(query("Q?", history=messages), turns, {turn.query_id: f"own {turn.query_id}" for turn in turns})

    assert [one.content for one in found] == expected.split(" / ")


def test_commands_of_the_page_ask_a_failed_conversation_again(talks, monkeypatch, capsys):
    failing = ["c2 2?"]  # once
    outputs = []
    monkeypatch.chdir(talks.root)

    def answer(path, body):
        if question_of(body) in failing:
            return 500, failing.remove(question_of(body))
        return answer_with_count(path, body)

    with json_server(answer) as server:
        set_chat(talks, server)
        for command in re.findall(r"^ *\$ rag-eval (.+)$", PAGE, re.MULTILINE):
            monkeypatch.setattr("sys.argv", ["rag-eval", *command.split()])
            with pytest.raises(SystemExit):
                main()
            outputs.append("".join(capsys.readouterr()))

    assert len(outputs) == 2
    assert "earlier_turn_failed" in outputs[0]
    assert set(codes(talks).values()) == {None}


FOLLOW_UPS = 5


@pytest.mark.parametrize(
    ("kind", "settings", "warning"),
    [
        ("http", {"path": "/", "body": {"q": "{question}"}, "answer": "answer"}, f"takes no history: {FOLLOW_UPS} follow-up"),
        ("openai", {"chat": {"model": "m"}, "retrieval": {"k": 1}}, f"finds the passages of {FOLLOW_UPS} follow-up"),
        ("openai", {"chat": {"model": "m"}}, None),
    ],
)  # fmt: skip
def test_warning_names_follow_up_questions_that_are_asked_or_looked_up_alone(talks, kind, settings, warning):
    reply = {"answer": "x", "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}
    with json_server(lambda path, body: reply) as server:
        file = {"kind": kind, "settings": {"endpoint": {"base_url": server.url}, **settings}}
        talks.system_file("other").parent.mkdir(parents=True)
        talks.system_file("other").write_text(yaml.safe_dump(file))
        ask(talks, load_pair(talks, "chats", "other"), now=NIGHT)

    found = [one for one in newest_evaluation(talks, "chats", "other").record.warnings if "follow-up" in one]
    assert [warning in one for one in found] == [True] * (warning is not None)
