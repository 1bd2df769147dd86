"""Any JSON server is asked by a template and read by JMESPaths; a reply that does not fit names the path and what it has."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.systems.base import Citation, Query
from rag_eval_pipeline.systems.http import fill_template, open_http
from rag_eval_pipeline.systems.kind_settings import HttpSettings
from tests.systems.conftest import HARBOUR, corpus_in
from tests.web.scripted_server import reply, serving, stream

ASKED = Query("7", 'Who said "{query_id}" \\ and {benchmark}?')
BODY = {"q": "{question}", "k": 3, "tags": ["{benchmark}/{query_id}", "{other}"]}


@contextlib.asynccontextmanager
async def opened(tmp_path, *steps, **settings):
    """The system over a server's script, and the server."""
    async with serving(*steps) as server:
        endpoint = {"base_url": server.base_url, "backoff_seconds": 0.001, "max_retries": 1}
        given = {"endpoint": endpoint, "path": "/ask", "body": BODY, "answer": "data.answer", **settings}
        async with open_http(HttpSettings.model_validate(given), corpus_in(tmp_path)) as system:
            yield system, server


async def asked(tmp_path, *steps, **settings):
    """Return the answer over a server's script, and the server."""
    async with opened(tmp_path, *steps, **settings) as (system, server):
        return await system.answer(ASKED), server


def answering(answer="In 1901.", **more):
    return reply(200, {"data": {"answer": answer, **more}})


async def test_question_is_inserted_into_the_texts_of_the_template(tmp_path):
    _, server = await asked(tmp_path, answering(), headers={"X-Team": "qa"})

    [request] = server.asked
    assert request.json == {"q": ASKED.text, "k": 3, "tags": ["coast/7", "{other}"]}
    assert (request.method, request.target, request.headers["x-team"]) == ("POST", "/v1/ask", "qa")


async def test_question_may_be_in_the_url(tmp_path):
    _, server = await asked(tmp_path, answering(), method="GET", body=None, params={"q": "{question}"})

    assert (server.asked[0].method, server.asked[0].body) == ("GET", b"")
    assert server.asked[0].target.startswith("/v1/ask?q=Who+said")


RANKS = {
    "each another one": ([2, 1], ["b", "a"]), "from 0, as text": (["1", "0"], ["b", "a"]),
    "one twice": ([1, 1], ["a", "b"]), "one without": ([2, None], ["a", "b"]),
}  # fmt: skip


@pytest.mark.parametrize(("ranks", "order"), RANKS.values(), ids=RANKS)
async def test_passages_are_in_the_order_of_their_ranks(ranks, order, tmp_path):
    hits = [{"id": name, "rank": rank} for name, rank in zip("ab", ranks, strict=True)]

    answer, _ = await asked(tmp_path, answering(hits=hits), contexts={"path": "data.hits"})

    assert [(one.document, one.rank) for one in answer.contexts] == [(order[0], 1), (order[1], 2)]


async def test_messages_of_a_conversation_are_inserted_as_a_list_or_as_text(tmp_path):
    said = ({"role": "user", "content": "How deep?"}, {"role": "assistant", "content": "31 {question}"})
    body = {"messages": "{messages}", "history": "{history}", "prompt": "{history}\nuser: {question}"}
    async with opened(tmp_path, answering(), body=body) as (system, server):
        await system.answer(Query("7", "Who?", said))

    last = {"role": "user", "content": "Who?"}
    text = "user: How deep?\nassistant: 31 {question}\nuser: Who?"
    assert server.asked[0].json == {"messages": [*said, last], "history": [*said], "prompt": text}


@given(st.text())
def test_question_arrives_unchanged(question):
    sent = json.loads(json.dumps(fill_template({"a": ["<{question}>"]}, {"question": question})))

    assert sent == {"a": [f"<{question}>"]}


async def test_parts_are_found_at_their_paths(tmp_path):
    step = answering(
        "In 1901 [tollan.pdf:2:9-49].",
        hits=[{"meta": {"src": "in/light.pdf", "p": 1}, "body": "The light", "s": 0.5}],
        cites=[
            {"f": "tollan", "p": 2, "from": 9, "to": 49},
            {"f": "light.pdf", "p": 1, "from": 0, "to": 64},
            {"f": "light.pdf", "p": 1, "from": None, "to": None},
        ],
        meta={"in": 1_000, "out": 10, "model": "m", "usd": 0.5},
    )
    paths = {
        "contexts": {"path": "data.hits", "document": "meta.src", "page": "meta.p", "text": "body", "score": "s"},
        "citations": {"path": "data.cites", "document": "f", "page": "p", "start": "from", "end": "to"},
        "prompt_tokens": "data.meta.in",
        "completion_tokens": "data.meta.out",
        "model": "data.meta.model",
        "cost": "data.meta.usd",
    }
    answer, _ = await asked(tmp_path, step, **paths)

    assert (answer.status, answer.answer, answer.model) == ("ok", "In 1901 [tollan.pdf:2:9-49].", "m")
    assert [(p.document, p.page, p.text, p.score, p.rank) for p in answer.contexts] == [
        ("light.pdf", 1, "The light", 0.5, 1)
    ]
    # That of the text with its mark, and the one beside it that the text has not.
    assert [(c.file_name, c.start_char, c.end_char, c.marker_start) for c in answer.citations] == [
        ("tollan.pdf", 9, 49, 8),
        ("light.pdf", 0, 64, None),
    ]
    assert (answer.usage.total_tokens, answer.usage.estimated_cost_usd, answer.usage.requests) == (1_010, 0.5, 1)


async def test_passages_and_citations_need_no_paths_for_usual_keys(tmp_path):
    hits = [{"file_name": "light.pdf", "page_number": 0, "content": "The light", "score": 1}, "only text"]
    cites = [{"document": "tollan.pdf", "page": 1, "start": 0, "end": 40}]
    paths = {"contexts": {"path": "data.hits"}, "citations": {"path": "data.cites"}}
    conventions = {"page_base": 0, "offset_base": "page"}
    answer, _ = await asked(tmp_path, answering(hits=hits, cites=cites), **paths, **conventions)

    assert [(p.document, p.page, p.text) for p in answer.contexts] == [
        ("light.pdf", 1, "The light"), ("", None, "only text"),
    ]  # fmt: skip
    assert [(c.start_char, c.end_char, c.page_number) for c in answer.citations] == [(9, 49, 2)]


def events(*values, end=True):
    return stream(*[f"data: {json.dumps(value)}\n\n" for value in values], end=end)


SSE = {"streaming": "sse", "answer": "token", "contexts": {"path": "hits"}}


async def test_stream_is_joined(tmp_path):
    script = events({"hits": [{"document": "light.pdf", "text": "x"}]}, {"token": "In "}, {"token": "1901"}, {"n": 5})
    answer, _ = await asked(tmp_path, script, **SSE, prompt_tokens="n")

    assert (answer.answer, answer.contexts[0].document, answer.usage.prompt_tokens) == ("In 1901", "light.pdf", 5)
    assert 0 < answer.timings["first_token"] <= answer.latency_ms


LANGCHAIN = {"page_content": "The light", "metadata": {"source": "in/light.pdf", "page": 0}}
PAGES = {
    #                              passage                                 inner paths                       settings          page
    "with a path of its page":    (LANGCHAIN,                              {"page": "metadata.page"},        {},               1),
    "where the file says 1":      (LANGCHAIN,                              {},                               {"page_base": 1}, None),
}  # fmt: skip


@pytest.mark.parametrize(("passage", "inner", "settings", "page"), PAGES.values(), ids=PAGES)
async def test_pages_of_langchain_count_from_zero(passage, inner, settings, page, tmp_path):
    paths = {"contexts": {"path": "data.hits", **inner}}
    async with opened(tmp_path, answering(hits=[passage]), **paths, **settings) as (system, _):
        answer = await system.answer(ASKED)

    assert [(c.document, c.page) for c in answer.contexts] == [("light.pdf", page)]
    assert bool(system.warnings()) == (page is None)  # "1 passages or citations are on page 0 ..."


async def test_number_in_the_answer_cites_the_passage_and_an_odd_citation_is_left_out(tmp_path):
    step = answering(
        "In 1901 [1].",
        hits=[{"url": "https://x.org/tollan.pdf?v=2", "pg": 2, "snippet": HARBOUR}],
        cites=[{"start": 1}, [0]],
    )
    paths = {"contexts": {"path": "data.hits"}, "citations": {"path": "data.cites"}}
    async with opened(tmp_path, step, **paths) as (system, _):
        answer = await system.answer(ASKED)

    assert (answer.status, answer.contexts[0].document, answer.contexts[0].page) == ("ok", "tollan.pdf", 2)
    assert answer.citations == (Citation("tollan.pdf", 9, 71, 2, 8, 11),)
    assert system.warnings() == [
        "Citations left out: 2, each of which is no citation, such as citations[0], an object with the keys start."
    ]


LANGCHAIN_HARBOUR = {"page_content": HARBOUR, "metadata": {"source": "/in/tollan.pdf", "page": 1}, "type": "Document"}
LANGSERVE = {
    # The stream is as LangServe 0.3.3 sends it; its `invoke` fails for untyped chains with documents.
    "invoke": (
        reply(200, {"output": {"question": "?", "context": [LANGCHAIN_HARBOUR], "answer": "In 1901."}, "metadata": {"run_id": "1", "feedback_tokens": []}}),
        {"answer": "output.answer", "contexts": {"path": "output.context"}},
    ),
    "stream": (
        stream(
            'event: metadata\r\ndata: {"run_id": "1"}\r\n\r\n',
            f'event: data\r\ndata: {json.dumps({"context": [LANGCHAIN_HARBOUR]})}\r\n\r\n',
            *[f'event: data\r\ndata: {json.dumps({"answer": piece})}\r\n\r\n' for piece in ("In ", "1901.")],
            "event: end\r\n\r\n",
        ),
        {"streaming": "sse", "answer": "answer", "contexts": {"path": "context"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("step", "settings"), LANGSERVE.values(), ids=LANGSERVE)
async def test_langserve_is_read_with_its_pages(step, settings, tmp_path):
    answer, _ = await asked(tmp_path, step, **settings)

    assert (answer.status, answer.answer) == ("ok", "In 1901.")
    assert [(one.document, one.page, one.text) for one in answer.contexts] == [("tollan.pdf", 2, HARBOUR)]


async def test_list_of_passages_without_a_path_is_named_in_a_warning(tmp_path):
    step = answering(hits=[{"file": "light.pdf", "body": "The light"}])
    async with opened(tmp_path, step, step) as (system, _):
        for _ in range(2):
            await system.answer(ASKED)

    assert system.warnings() == [
        "contexts is not set, and replies have a list that looks like passages. If it is one, set contexts: {path: data.hits}."
    ]


async def test_path_that_finds_nothing_in_any_reply_is_a_warning_with_the_keys(tmp_path):
    step = answering(hits=[{"name": "light.pdf", "body": "The light"}], usage={"in": 5})
    paths = {
        "contexts": {"path": "data.hits", "document": "file", "text": "body"},
        "citations": {"path": "data.sources"},
        "prompt_tokens": "data.usage.in",
    }
    async with opened(tmp_path, step, step, **paths) as (system, _):
        for _ in range(2):
            await system.answer(ASKED)

    assert system.warnings() == [
        "citations.path 'data.sources' found nothing in any of 2 replies. "
        "Keys that were there: data.answer, data.hits[].name, data.hits[].body, data.usage.in.",
        "contexts.document 'file' found nothing in any of 2 passages. Keys that were there: name, body.",
    ]


async def test_empty_answer_is_an_error_with_its_usage_or_an_abstention(tmp_path):
    failed, _ = await asked(tmp_path, answering("", n=5), prompt_tokens="data.n")
    abstained, _ = await asked(tmp_path, answering(""), empty_answer="abstained")

    assert (failed.status, failed.error_code, failed.usage.total_tokens) == ("error", "empty_answer", 5)
    assert (abstained.status, abstained.answer, abstained.abstained) == ("ok", "", True)


async def test_price_that_is_a_text_is_read(tmp_path):
    answer, _ = await asked(tmp_path, answering(price="0.0012890", n="12"), cost="data.price", prompt_tokens="data.n")

    assert (answer.usage.estimated_cost_usd, answer.usage.prompt_tokens) == (0.001289, 12)


WRONG = {
    #                              script                                   settings                             status       code                what the message names
    "no answer":                  (reply(200, {"data": {}}),                {},                                  "error",     "bad_response",     "'data.answer'"),
    "passages that are no list":  (answering(hits={"a": 1}),                     {"contexts": {"path": "data.hits"}}, "error",     "bad_response",     "'data.hits'"),
    "more tokens than any count": (answering(n=1e300),                          {"prompt_tokens": "data.n"},         "error",     "bad_response",     "'data.n'"),
    "a price in words":           (answering(n="free"),                         {"cost": "data.n"},                  "error",     "bad_response",     "'data.n'"),
    "a path that cannot be":      (answering(),                                  {"answer": "length(data.n)"},        "error",     "bad_response",     "length(data.n)"),
    "an error in a success":      (reply(200, {"error": "no index"}),       {"error": "error"},                  "error",     "error_reply",      "no index"),
    "a cut stream":               (events({"token": "In "}, end=False),     SSE,                                 "truncated", "stream_truncated", "1 events"),
    "a stream without JSON":      (stream("data: hello\n\n"),               SSE,                                 "error",     "bad_response",     "event 1"),
    "a stream in Latin-1":        (stream('data: {"token": "Mørkvang"}\n\n'.encode("latin-1")), SSE,            "error",     "bad_response",     "not UTF-8"),
    "an error in a stream":       (events({"token": "In "}, {"err": "full"}), {**SSE, "error": "err"},           "error",     "error_reply",      "full"),
}  # fmt: skip


@pytest.mark.fault(47)
@pytest.mark.parametrize(("step", "settings", "status", "code", "named"), WRONG.values(), ids=WRONG)
async def test_reply_that_does_not_fit_is_a_status(step, settings, status, code, named, tmp_path):
    answer, server = await asked(tmp_path, step, **settings)

    assert (answer.status, answer.error_code, answer.answer) == (status, code, None)
    assert named in answer.error
    assert "\n" not in answer.error
    assert answer.usage.requests == len(server.asked)
    assert status != "truncated" or answer.partial == "In "
