"""A stream is an answer only when it is whole, is the server's own, and says something."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.systems.nvidia_replies import check_stream, read_stream
from rag_eval_pipeline.web.client import EndpointError
from rag_eval_pipeline.web.sse import Event


def chunk(content="", *, finish=None, kind=None, **facts):
    said = {"role": None, "content": content, "reasoning_content": None}
    choice = {"index": 0, "message": {**said, "role": "assistant"}, "delta": said, "finish_reason": finish}
    return {"choices": [choice], "event_type": kind, "citations": {"total_results": 0, "results": []}} | facts


def read(*chunks, is_cut=False, unescape_html=True):
    events = [Event(json.dumps(value), None, float(at)) for at, value in enumerate(chunks)]
    stream = read_stream(events, unescape_html=unescape_html)
    check_stream(stream, is_cut=is_cut, body=b"")
    return stream


END = chunk(finish="stop")
RESULTS = {"total_results": 1, "results": [{"document_name": "a.pdf"}]}
EMPTY = {"total_results": 0, "results": []}


ANSWERS = {
    "pieces in order":              ([chunk("3 May"), chunk(" 1887"), END], "3 May 1887"),
    "the last piece ends it":       ([chunk("3 May 1887", finish="stop")], "3 May 1887"),
    "only the final answer counts": ([chunk("Plan", kind="stage_start"), chunk("Draft", kind="intermediate_output"),
                                      chunk("Hm", kind="final_reasoning"), chunk("31", kind="final_answer"),
                                      chunk(finish="stop", kind="final_answer")], "31"),
    "escaped characters":           ([chunk("a &lt; b &amp;&amp; c &gt; d"), END], "a < b && c > d"),
    "escaped once":                 ([chunk("&amp;lt;"), END], "&lt;"),
    "entities of its own":          ([chunk("&eacute; &quot; &#60;"), END], "&eacute; &quot; &#60;"),
    "only a message":               ([{"choices": [{"message": {"content": "31"}, "finish_reason": "stop"}]}], "31"),
    "an error is its subject":      ([chunk("The log said: Error from rag-server."), END], "The log said: Error from rag-server."),
}  # fmt: skip


@pytest.mark.parametrize(("chunks", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_the_answers_text(chunks, expected):
    assert read(*chunks).text == expected


FAILURES = {
    "no reason for the end":        ([chunk("3 May")], "stream_truncated", "3 May"),
    "nothing but drafts":           ([chunk("Draft", kind="intermediate_output"), END], "empty_answer", None),
    "an empty answer":              ([chunk(" "), END], "empty_answer", None),
    "no choices":                   ([{"choices": []}], "no_generator", None),
    "an error for an answer":       ([chunk("Error from rag-server. Please"), chunk(" check logs."), END], "error_reply", None),
    "an error of the vector store": ([chunk("Error from milvus server. Please ensure"), END], "error_reply", None),
    "an excuse for an answer":      ([chunk("Sorry, there was an error processing your request."), END], "error_reply", None),
    "an error that was cut":        ([chunk("Error from rag-server.")], "error_reply", None),
    "an error after some of it":    ([chunk("3 May"), chunk("boom", kind="error"), END], "error_reply", "3 May"),
    "an error without a text":      ([chunk("", kind="error"), END], "error_reply", None),
    "a list for an event":          ([[1]], "bad_response", None),
    "nothing at all":               ([], "bad_response", None),
}  # fmt: skip


@pytest.mark.parametrize(("chunks", "code", "partial"), FAILURES.values(), ids=FAILURES)
def test_what_is_no_answer(chunks, code, partial):
    with pytest.raises(EndpointError) as raised:
        read(*chunks)

    assert (raised.value.code, raised.value.partial) == (code, None if partial is None else partial.encode())


def test_a_connection_that_ended_early_is_truncation_even_before_the_first_choice():
    with pytest.raises(EndpointError) as raised:
        read({"choices": []}, is_cut=True)

    assert raised.value.code == "stream_truncated"


CITATIONS = {
    "on the first chunk":            [chunk("a", citations=RESULTS), chunk("b"), END],
    "on a later one":                [chunk("a"), chunk("b", citations=RESULTS), END],
    "empty lists do not erase them": [chunk("a", citations=RESULTS), chunk("b", citations=EMPTY), END],
    "missing ones neither":          [chunk("a", citations=RESULTS), {**END, "citations": None}],
    "the last that says something":  [chunk("a", citations={"results": [{"document_name": "b.pdf"}]}), chunk("b", citations=RESULTS), END],
}  # fmt: skip


@pytest.mark.parametrize("chunks", CITATIONS.values(), ids=CITATIONS)
def test_citations_are_the_last_that_are_not_empty(chunks):
    assert read(*chunks).citations == RESULTS["results"]


def test_facts_of_the_last_chunk():
    found = read(
        chunk("", model="m"),
        chunk("a", usage={"total_tokens": 0}),
        {**END, "usage": {"total_tokens": 7}, "metrics": {"retrieval_time_ms": 5}},
    )

    assert (found.usage, found.metrics, found.model) == ({"total_tokens": 7}, {"retrieval_time_ms": 5}, "m")
    assert found.first_token_ms == 1.0  # of the second event: the first carries no text


def test_html_can_be_left_as_it_is():
    assert read(chunk("a &lt; b"), END, unescape_html=False).text == "a &lt; b"


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 5))
def test_a_text_is_the_same_however_it_is_cut(text, size):
    escaped = "x" + text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    pieces = [escaped[at : at + size] for at in range(0, len(escaped), size)]

    assert read(*map(chunk, pieces), END).text == f"x{text}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["choices", "delta", "message", "content", "event_type", "citations", "results", "finish_reason",
                         "usage", "metrics", "model", "error"]), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(JSON, max_size=4), st.booleans())
def test_whatever_is_sent_is_an_answer_or_none(values, is_cut):
    code, text = outcome(values, is_cut=is_cut)

    assert (code is None) == bool(text.strip())
    assert code in {None, "stream_truncated", "error_reply", "no_generator", "empty_answer", "bad_response"}


def outcome(values, *, is_cut):
    try:
        return None, read(*values, is_cut=is_cut).text
    except EndpointError as wrong:
        return wrong.code, ""
