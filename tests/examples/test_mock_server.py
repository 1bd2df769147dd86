"""The mock server speaks the documented interfaces, answers from documents, fails as scripted and ends with its parent."""

import json
import subprocess
import sys

import httpx
import psutil
import pytest

from examples.mock_server.faults import FaultScript
from examples.mock_server.process import mock_rag_server
from examples.mock_server.server import INGESTOR, RAG, make_app
from examples.mock_server.site import Options, Site
from rag_eval_pipeline.web.sse import json_values, parse_events
from tests.examples import plain_http
from tests.examples.papers import BELL, HARBOUR, LIGHT, paper, write_papers
from tests.patience import PATIENCE_S

BREAKWATER = "How long is the breakwater of the harbour?"
QUESTIONS = [f"question {number}" for number in range(2000)]


def chat(server, question=BREAKWATER, **parameters):
    body = {"model": "mock", "messages": [{"role": "user", "content": question}]} | parameters
    return plain_http.post(f"{server.openai}/chat/completions", json=body)


def content(reply):
    return reply.json()["choices"][0]["message"]["content"]


def generate(server, question, *, timeout=PATIENCE_S, **parameters):
    body = {"messages": [{"role": "user", "content": question}]} | parameters
    return plain_http.post(f"{server.rag}/v1/generate", json=body, timeout=timeout)


def events(reply):
    return [value for event in parse_events(reply.content) for value in json_values(event.data)]


def text(reply):
    return "".join(event["choices"][0]["delta"]["content"] for event in events(reply) if event["choices"])


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    return write_papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module")
def server(papers):
    with mock_rag_server(corpus=papers, media_every=2) as running:
        yield running


@pytest.fixture(scope="module")
def canned():
    with mock_rag_server(canned=True) as running:
        yield running


# OpenAI


def test_chat_fills_a_json_schema(server):
    schema = {
        "type": "object",
        "properties": {
            "rationale": {"type": "string"},
            "verdict": {"enum": ["yes", "no"]},
            "claims": {"type": "array", "items": {"$ref": "#/$defs/claim"}, "minItems": 1},
            "count": {"type": "integer", "minimum": 1},
            "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        },
        "$defs": {"claim": {"type": "object", "properties": {"kind": {"const": "claim"}}}},
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "v", "schema": schema}}

    filled = json.loads(content(chat(server, response_format=wanted)))

    assert filled.pop("rationale").startswith("240 metres")
    assert filled == {"verdict": "yes", "claims": [{"kind": "claim"}], "count": 1, "note": None}


ASKED = [{"role": "user", "content": "Why?"}]
JSON_FORM = {"type": "json_schema", "json_schema": {"name": "v"}}
# The message has more than what is here.
REFUSALS = {
    #                       parameters                                            param                            code                          message
    "unknown model":        ({"model": "gpt"},                                    "model",                         "model_not_found",            "The model `gpt` does not exist"),
    "any JSON":             ({"model": "mock-plain", "response_format": {"type": "json_object"}, "messages": [{"role": "user", "content": "As JSON: why?"}]},
                                                                                  "response_format",               "unsupported_parameter",      "Unsupported parameter"),
    "old parameter":        ({"model": "mock-reasoning", "max_tokens": 5},        "max_tokens",                    "unsupported_parameter",      "Unsupported parameter: 'max_tokens'"),
    "logprobs":             ({"logprobs": True},                                  "logprobs",                      "unsupported_parameter",      "Unsupported parameter: 'logprobs'"),
    "no model":             ({"model": None},                                     "model",                         "invalid_type",               "Invalid type for 'model': expected a string, but got null instead."),
    "unknown field":        ({"top_k": 3},                                        None,                            None,                         "Unrecognized request argument supplied: top_k"),
    "unknown fields":       ({"top_k": 3, "min_p": 0},                            None,                            None,                         "Unrecognized request arguments supplied: top_k, min_p"),
    "no messages":          ({"messages": []},                                    "messages",                      "empty_array",                "Invalid 'messages': empty array."),
    "unknown role":         ({"messages": [{"role": "robot", "content": "a"}]},   "messages[0].role",              "invalid_value",              "Invalid value: 'robot'. Supported values are: 'system', "),
    "no role":              ({"messages": [*ASKED, {"content": "a"}]},            "messages[1].role",              "missing_required_parameter", "Missing required parameter: 'messages[1].role'."),
    "no content":           ({"messages": [{"role": "user"}]},                    "messages[0].content",           None,                         "Invalid value for 'content': expected a string, got null."),
    "content is a number":  ({"messages": [{"role": "user", "content": 1}]},      "messages[0].content",           "invalid_type",               "Invalid type for 'messages[0].content': expected a string, but got an integer"),
    "field of a message":   ({"messages": [{**ASKED[0], "mood": "glad"}]},        "messages[0].mood",              "unknown_parameter",          "Unknown parameter: 'messages[0].mood'."),
    "a text as number":     ({"temperature": "0.5"},                              "temperature",                   "invalid_type",               "Invalid type for 'temperature': expected a decimal, but got a string instead."),
    "too hot":              ({"temperature": 3},                                  "temperature",                   "decimal_above_max_value",    "decimal above maximum value. Expected a value <= 2, but got 3"),
    "no tokens":            ({"max_tokens": 0},                                   "max_tokens",                    "integer_below_min_value",    "integer below minimum value. Expected a value >= 1, but got 0 instead."),
    "no choices":           ({"n": 0},                                            "n",                             "integer_below_min_value",    "Invalid 'n': integer below minimum value."),
    "no form":              ({"response_format": {}},                             "response_format.type",          "missing_required_parameter", "Missing required parameter"),
    "no schema":            ({"response_format": JSON_FORM},                      "response_format.json_schema.schema", "missing_required_parameter", "Missing required parameter"),
    "JSON unasked":         ({"response_format": {"type": "json_object"}},        "messages",                      None,                         "must contain the word 'json'"),
    "usage of no stream":   ({"stream_options": {"include_usage": True}},         "stream_options",                None,                         "only allowed when 'stream' is enabled"),
    "a tool":               ({"tools": [{}], "tool_choice": "required"},          "tool_choice",                   "unsupported_value",          "'tool_choice' supports only"),
}  # fmt: skip


@pytest.mark.parametrize(("parameters", "param", "code", "message"), REFUSALS.values(), ids=REFUSALS)
def test_chat_refuses_as_openai_does(canned, parameters, param, code, message):
    reply = chat(canned, **parameters)

    error = reply.json()["error"]
    assert (reply.status_code, error["type"]) == (
        404 if param == "model" and code == "model_not_found" else 400,
        "invalid_request_error",
    )
    assert (error["param"], error["code"]) == (param, code)
    assert message in error["message"]


def test_chat_refuses_what_is_no_json_and_unknown_addresses(canned):
    reply = plain_http.request("POST", f"{canned.openai}/chat/completions", content=b"{")
    other = plain_http.post(f"{canned.openai}/embeddings", json={})

    assert (reply.status_code, reply.json()["error"]["message"]) == (
        400, "We could not parse the JSON body of your request."
    )  # fmt: skip
    assert (other.status_code, other.json()["error"]["code"]) == (404, "unknown_url")


def test_chat_gives_several_choices_and_stops_before_a_text(server):
    reply = chat(server, n=2, stop="[tollan").json()

    assert [choice["message"]["content"] for choice in reply["choices"]] == ["240 metres "] * 2
    assert reply["usage"]["completion_tokens"] == 6


def test_chat_judge_repeats_the_nonce_and_its_attempts_are_one_question(canned):
    prompts = [f'Judge this.\nDATA {nonce}\n{{"answer": "a }} b"}}\nEND {nonce}' for nonce in ("a1", "b2")]
    canned.reset()
    replies = [json.loads(content(chat(canned, prompt, model="mock-judge"))) for prompt in prompts]

    assert [reply["nonce"] for reply in replies] == ["a1", "b2"]
    assert list(canned.counts()["attempts_by_question"]["chat"].values()) == [2]


# NVIDIA and JSON


def test_generate_streams_citations_first_and_usage_last(server):
    body = {"messages": [{"role": "user", "content": "When was the Marsh Point light first lit?"}]}
    reply = plain_http.post(f"{server.url}/v1/generate", json=body)  # as behind a port of its own, without /rag

    first, *middle, last = events(reply)
    assert text(reply) == "3 May 1887 [light.pdf:1:0-64]"
    assert first["citations"]["results"][0]["metadata"]["page_number"] == 1
    assert {chunk["citations"]["total_results"] for chunk in [*middle, last]} == {0}
    assert (last["choices"][0]["finish_reason"], last["usage"]["total_tokens"] > 0) == ("stop", True)
    assert b"[DONE]" not in reply.content


BAD_PROMPTS = {
    "more passages than allowed":    {"reranker_top_k": 26},
    "misspelt field":                {"rerank_top_k": 3},
    "last message not the user's":   {"messages": [{"role": "assistant", "content": "Hello"}]},
}  # fmt: skip


@pytest.mark.parametrize("parameters", BAD_PROMPTS.values(), ids=BAD_PROMPTS)
def test_generate_refuses_what_is_not_documented(server, parameters):
    assert generate(server, "Why?", **parameters).status_code == 422


def test_ingestor_reads_lists_and_deletes_documents(server):
    def upload(*files, method="POST"):
        parts = [("documents", (name, body, "application/pdf")) for name, body in files]
        data = {"data": json.dumps({"collection_name": "new", "blocking": True})}
        return plain_http.request(method, f"{server.ingestor}/v1/documents", files=parts, data=data).json()

    def listed(**params):
        params = {"collection_name": "new"} | params
        found = plain_http.get(f"{server.ingestor}/v1/documents", params=params).json()
        return [document["document_name"] for document in found["documents"]], found["total_documents"]

    assert "does not exist" in upload(("bell.pdf", paper(BELL)))["message"]
    plain_http.post(f"{server.ingestor}/v1/collection", json={"collection_name": "new"})
    first = upload(("bell.pdf", paper(BELL)), ("bell.pdf", paper(LIGHT)), ("torn.pdf", b"%PDF-"), ("a.exe", b""))
    again = upload(("bell.pdf", paper(HARBOUR)))

    assert [document["document_name"] for document in first["documents"]] == ["bell.pdf"]
    assert [document["document_name"] for document in first["failed_documents"]] == ["torn.pdf", "a.exe"]
    assert "is given twice" in first["validation_errors"][0]["error"]
    assert "already exists" in again["failed_documents"][0]["error_message"]
    upload(("bell.pdf", paper(HARBOUR)), ("tollan.pdf", paper(HARBOUR)), method="PATCH")
    assert text(generate(server, BREAKWATER, collection_names=["new"])).startswith("240 metres")
    assert listed(max_results=1) == (["bell.pdf"], 2)
    plain_http.request("DELETE", f"{server.ingestor}/v1/documents?collection_name=new", json=["bell.pdf"])
    assert listed() == (["tollan.pdf"], 1)
    plain_http.request("DELETE", f"{server.ingestor}/v1/collections", json=["new"])


async def test_ports_of_their_own_serve_one_nvidia_server_each_without_a_prefix():
    app = make_app(Site(Options(canned=True)), {8081: RAG, 8082: INGESTOR})
    paths = ("/v1/configuration", "/v1/collections", "/rag/v1/configuration")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
        found = {
            port: [(await client.get(f"http://127.0.0.1:{port}{path}")).status_code for path in paths]
            for port in (8080, 8081, 8082)
        }

    assert found == {8080: [200, 200, 200], 8081: [200, 404, 404], 8082: [404, 200, 404]}


def test_json_endpoint_answers_with_its_sources(server):
    result = plain_http.post(f"{server.url}/ask", json={"question": BREAKWATER, "top_k": 10}).json()["result"]

    assert result["text"].startswith("240 metres")
    assert (result["sources"][0]["file"], result["sources"][0]["page"]) == ("tollan.pdf", 2)


# Faults


def test_fault_rate_follows_from_seed_question_and_attempt():
    def draw(seed, attempt, **script):
        return [FaultScript.model_validate(script).draw(question, attempt, seed) for question in QUESTIONS]

    first = draw(7, 1, rate=0.1)

    assert 150 <= sum(fault is not None for fault in first) <= 250  # 200 expected, standard deviation 13.4
    assert {fault.name for fault in first if fault} == {"http_429", "http_500", "http_502", "http_503", "reset"}
    assert draw(7, 1, rate=0.1) == first
    assert first not in (draw(8, 1, rate=0.1), draw(7, 2, rate=0.1))
    assert None not in draw(0, 2, rate=1)
    assert set(draw(0, 3, rate=1)) == {None}


@pytest.mark.parametrize(("status", "after"), [(429, None), (500, "1"), (503, "soon")])
def test_fault_status_has_its_retry_after(canned, status, after):
    mark = f"[[fault http_{status}{f' after={after}' if after else ''}]]"

    for reply in (generate(canned, mark), chat(canned, mark)):
        assert (reply.status_code, reply.headers.get("retry-after")) == (status, after)


ENDS = {
    "reset":       httpx.ReadError,
    "broken_off":  httpx.RemoteProtocolError,
    "half_open":   httpx.ReadTimeout,
}  # fmt: skip


@pytest.mark.parametrize(("fault", "error"), ENDS.items(), ids=ENDS)
def test_fault_breaks_the_connection(canned, fault, error):
    with pytest.raises(error):
        generate(
            canned,
            f"[[fault {fault}]]",
            timeout=httpx.Timeout(PATIENCE_S, read=0.5 if fault == "half_open" else PATIENCE_S),
        )


# The process

PARENT = """
import sys
from examples.mock_server.process import mock_rag_server

with mock_rag_server(canned=True) as server:
    print(server.process_id, flush=True)
    sys.stdin.read()
"""


def test_server_ends_with_a_killed_parent():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    child.wait(timeout=PATIENCE_S)


def test_server_requires_its_key_and_gets_no_other_secret(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "canary-in-environment")
    with mock_rag_server(canned=True, api_key="canary-key") as server:
        headers = ({}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer canary-key"})
        statuses = [plain_http.get(f"{server.openai}/models", headers=given).status_code for given in headers]
        process = psutil.Process(server.process_id)
        shown = " ".join([*process.cmdline(), *process.environ()])

    assert not psutil.pid_exists(server.process_id)
    assert statuses == [401, 401, 200]
    assert "canary-key" not in shown
    assert "SOME_API_KEY" not in shown
