"""Faults follow from seed, question and attempt, and each is what its name says."""

import json
import time

import httpx
import pytest

from rag_eval_pipeline.endpoints.events import json_values, parse_events
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.loopback.breaking import HUGE_BYTES
from rag_eval_pipeline.loopback.faults import Fault, FaultPlan, FaultScript, MarkedQuestion, parse_faults, read_mark
from rag_eval_pipeline.loopback.launch import loopback_server
from tests.loopback import plain_http


def drawn(script, seed, questions, attempt):
    plan = FaultPlan(script, seed)
    return [plan.of_question(MarkedQuestion(text, None, None), attempt=attempt, number=0) for text in questions]


QUESTIONS = [f"question {number}" for number in range(2000)]


def test_a_rate_fails_that_share_and_equally_every_time():
    script = FaultScript(rate=0.1)

    first = drawn(script, 7, QUESTIONS, 1)

    failed = sum(fault is not None for fault in first)
    assert 150 <= failed <= 250  # 200 expected, standard deviation 13.4
    assert {fault.name for fault in first if fault} == {"http_429", "http_500", "http_502", "http_503", "reset"}
    assert drawn(script, 7, QUESTIONS, 1) == first
    assert drawn(script, 8, QUESTIONS, 1) != first
    assert drawn(script, 7, QUESTIONS, 2) != first


def test_later_attempts_are_answered_even_at_a_rate_of_one():
    script = FaultScript(rate=1, attempts=2)

    assert None not in drawn(script, 0, QUESTIONS, 2)
    assert set(drawn(script, 0, QUESTIONS, 3)) == {None}


def test_a_script_names_the_attempts_of_a_question():
    plan = FaultPlan(FaultScript(questions={"harbour": ("reset", "ok", "http_500")}), 0)
    asked = [plan.of_question(MarkedQuestion("The harbour?", None, None), attempt=n, number=n) for n in (1, 2, 3, 4)]

    assert asked == [Fault("reset"), None, Fault("http_500"), None]


def test_a_script_names_requests_by_their_number():
    plan = FaultPlan(FaultScript(requests={2: "cut"}), 0)

    assert [plan.of_question(MarkedQuestion("q", None, None), attempt=1, number=n) for n in (1, 2, 3)] == [
        None, Fault("cut"), None,
    ]  # fmt: skip


MARKS = {
    "no mark":              ("Why?", ("Why?", None, None)),
    "every attempt":        ("Why? [[fault reset]]", ("Why?", Fault("reset"), None)),
    "so many attempts":     ("[[fault http_503 times=2]] Why?", (" Why?", Fault("http_503"), 2)),
    "when to come back":    ("Why? [[fault http_429 after=99999]]", ("Why?", Fault("http_429", "99999"), None)),
    "all of it":            ("Why? [[fault http_429 after=-1 times=1]]", ("Why?", Fault("http_429", "-1"), 1)),
    "something else":       ("Why [[not a fault]]?", ("Why [[not a fault]]?", None, None)),
}  # fmt: skip


@pytest.mark.parametrize(("question", "expected"), MARKS.values(), ids=MARKS)
def test_a_mark_in_the_question(question, expected):
    assert read_mark(question) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("often", "bad_faults"),
        ("2", "bad_format"),
        ('{"rates": 1}', "bad_format"),
        ('{"kinds": ["fire"]}', "bad_format"),
    ],
)
def test_faults_that_there_are_not(text, code):
    with pytest.raises(InputError) as raised:
        parse_faults(text)

    assert raised.value.code == code


def ask(server, question, *, path="/v1/generate", timeout=30):
    body = {"messages": [{"role": "user", "content": question}], "query": question}
    body = {key: body[key] for key in (["query"] if path == "/v1/search" else ["messages"])}
    return plain_http.post(f"{server.rag}{path}", json=body, timeout=timeout)


def said(reply):
    values = [value for event in parse_events(reply.content) for value in json_values(event.data)]
    return values, "".join(value["choices"][0]["delta"]["content"] for value in values if value["choices"])


STATUSES = {
    "a busy server":            ("http_429", None),
    "come back in a second":    ("http_429 after=1", "1"),
    "come back tomorrow":       ("http_429 after=99999", "99999"),
    "come back yesterday":      ("http_429 after=-5", "-5"),
    "come back soon":           ("http_429 after=soon", "soon"),
    "a broken server":          ("http_500", None),
    "a broken gateway":         ("http_502", None),
    "a server that starts":     ("http_503 after=0", "0"),
}  # fmt: skip


@pytest.mark.parametrize(("fault", "after"), STATUSES.values(), ids=STATUSES)
@pytest.mark.parametrize("path", ["/v1/generate", "/v1/search"])
def test_statuses(canned, fault, after, path):
    reply = ask(canned, f"[[fault {fault}]]", path=path)

    assert (reply.status_code, reply.headers.get("retry-after")) == (int(fault[5:8]), after)


def test_retry_after_as_a_date(canned):
    assert ask(canned, "[[fault http_429 after=date]]").headers["retry-after"].endswith(" GMT")


@pytest.mark.parametrize(
    ("fault", "error"),
    [("reset", httpx.ReadError), ("close", httpx.RemoteProtocolError), ("broken_off", httpx.RemoteProtocolError)],
)
def test_connections_that_end(canned, fault, error):
    with pytest.raises(error):
        ask(canned, f"[[fault {fault}]]")


@pytest.mark.parametrize("fault", ["half_open", "drip"])
def test_answers_that_never_end(canned, fault):
    with (
        pytest.raises(httpx.ReadTimeout),
        plain_http.stream(
            "POST",
            f"{canned.rag}/v1/generate",
            json={"messages": [{"role": "user", "content": f"[[fault {fault}]]"}]},
            timeout=httpx.Timeout(5, read=0.05),  # a drop falls every tenth of a second
        ) as reply,
    ):
        reply.read()


def test_an_answer_is_given_up_when_its_client_has_gone():
    with loopback_server(canned=True) as server:
        with pytest.raises(httpx.ReadTimeout):
            ask(server, "[[fault half_open]]", timeout=httpx.Timeout(5, read=0.05))

        deadline = time.monotonic() + 60
        while server.counts()["in_flight"]:
            assert time.monotonic() < deadline


BODIES = {
    "html":           lambda body: body.startswith(b"<!doctype html>"),
    "not_json":       lambda body: body == b"upstream said: OK",
    "truncated_json": lambda body: body.startswith(b'{"choices"') and not body.endswith(b"}"),
    "empty":          lambda body: body == b"",
}  # fmt: skip


@pytest.mark.parametrize("fault", BODIES)
@pytest.mark.parametrize("path", ["/v1/generate", "/v1/search"])
def test_bodies_that_are_no_answer(canned, fault, path):
    reply = ask(canned, f"[[fault {fault}]]", path=path)

    assert (reply.status_code, BODIES[fault](reply.content)) == (200, True)


def test_a_huge_body_is_streamed(canned):
    size = 0
    body = {"messages": [{"role": "user", "content": "[[fault huge]]"}]}
    with plain_http.stream("POST", f"{canned.rag}/v1/generate", json=body) as reply:
        for chunk in reply.iter_raw():
            size += len(chunk)

    assert HUGE_BYTES * 0.999 < size <= HUGE_BYTES
    assert "content-length" not in reply.headers


@pytest.mark.parametrize("disguise", ["split_utf8", "multi_line", "raw_lines", "keep_alives"])
def test_a_disguised_answer_is_the_same_answer(canned, disguise):
    plain, disguised = (said(ask(canned, question)) for question in ("naïve?", f"naïve? [[fault {disguise}]]"))

    assert disguised[1] == plain[1]
    assert "naïve &amp;" in plain[1]


def test_a_cut_stream_ends_in_good_order_before_its_answer_does(canned):
    values, text = said(ask(canned, "[[fault cut]]"))

    assert {value["choices"][0]["finish_reason"] for value in values} == {None}
    assert text.startswith("Answer ")


def test_an_error_text_comes_with_status_200(canned):
    reply = ask(canned, "[[fault error_text]]")

    assert (reply.status_code, said(reply)[1]) == (
        200, "Error from rag-server. Please check rag-server logs for more details.",
    )  # fmt: skip


def test_an_error_event_follows_some_of_the_answer(canned):
    values, _ = said(ask(canned, "[[fault error_event]]"))

    assert [value["event_type"] for value in values][-2:] == ["error", None]
    assert values[0]["choices"][0]["delta"]["content"] == "Answer "


def test_a_stream_without_choices(canned):
    values, _ = said(ask(canned, "[[fault no_generator]]"))

    assert [value["choices"] for value in values] == [[]]


CHAT_FAULTS = {
    #                 ends with
    "cut":          (b"}\n\n",),
    "error_event":  (b"data: [DONE]\n\n",),
    "no_generator": (b"data: [DONE]\n\n",),
}  # fmt: skip


@pytest.mark.parametrize("fault", CHAT_FAULTS)
def test_chats_fail_in_their_own_form(canned, fault):
    body = {"model": "loopback", "stream": True, "messages": [{"role": "user", "content": f"[[fault {fault}]]"}]}
    reply = plain_http.post(f"{canned.openai}/chat/completions", json=body)

    events = [event.data for event in parse_events(reply.content)]
    assert reply.content.endswith(CHAT_FAULTS[fault])
    assert any("error" in json.loads(event) for event in events if event != "[DONE]") == (fault == "error_event")


def test_a_chats_error_has_the_documented_body(canned):
    body = {"model": "loopback", "messages": [{"role": "user", "content": "[[fault http_429 after=1]]"}]}
    reply = plain_http.post(f"{canned.openai}/chat/completions", json=body)

    assert (reply.status_code, reply.json()["error"]["type"]) == (429, "rate_limit_error")


def test_an_unknown_fault_is_said_so(canned):
    reply = ask(canned, "[[fault fire]]")

    assert (reply.status_code, "half_open" in reply.json()["message"]) == (400, True)


def test_a_client_that_asks_again_gets_every_answer_once():
    questions = [f"question {number}" for number in range(60)]
    with loopback_server(canned=True, seed=3, faults=0.5) as server, plain_http.Client() as client:
        for question in questions:
            body = {"messages": [{"role": "user", "content": question}]}
            for _ in range(3):
                try:
                    if client.post(f"{server.rag}/v1/generate", json=body).status_code == 200:
                        break
                except httpx.ReadError:
                    continue
        counts = server.counts()

    assert counts["answered_by_question"]["generate"] == dict.fromkeys(questions, 1)
    assert (counts["answered"], counts["answered_twice"]) == (60, 0)
    assert sum(counts["faults"].values()) == counts["attempts"] - 60 > 0


def test_paths_have_faults_of_their_own():
    with loopback_server(canned=True, faults={"paths": {"GET /rag/v1/health": ["http_503", "ok", "html"]}}) as server:
        replies = [plain_http.get(f"{server.rag}/v1/health") for _ in range(4)]

    assert [reply.status_code for reply in replies] == [503, 200, 200, 200]
    assert [reply.content[:1] for reply in replies[1:]] == [b"{", b"<", b"{"]
