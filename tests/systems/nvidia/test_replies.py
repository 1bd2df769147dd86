"""Streams are answers only if they are whole; the base of page numbers is found where the evidence agrees."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import EndpointError
from rag_eval_pipeline.systems.base import PageText
from rag_eval_pipeline.systems.nvidia_ingest import StoredNames
from rag_eval_pipeline.systems.nvidia_replies import (
    are_distances,
    base_of,
    check_stream,
    find_sightings,
    read_chunks,
    read_stream,
)
from rag_eval_pipeline.systems.parsing import AnswerReader
from rag_eval_pipeline.web.sse import Event


def chunk(content="", *, finish=None, kind=None, **facts):
    message = {"role": None, "content": content, "reasoning_content": None}
    choice = {"index": 0, "message": {**message, "role": "assistant"}, "delta": message, "finish_reason": finish}
    return {"choices": [choice], "event_type": kind, "citations": {"total_results": 0, "results": []}} | facts


def read(*chunks, is_cut=False, unescape_html=True):
    events = [Event(json.dumps(value), None, float(at)) for at, value in enumerate(chunks)]
    stream = read_stream(events, unescape_html=unescape_html)
    check_stream(stream, is_cut=is_cut, body=b"")
    return stream


END = chunk(finish="stop")
RESULTS = {"total_results": 1, "results": [{"document_name": "a.pdf"}]}

ANSWERS = {
    "only the final answer counts": ([chunk("Plan", kind="stage_start"), chunk("Draft", kind="intermediate_output"),
                                      chunk("Hm", kind="final_reasoning"), chunk("31", kind="final_answer"),
                                      chunk(finish="stop", kind="final_answer")], "31"),
    "escaped characters":           ([chunk("a &l"), chunk("t; b &amp;&amp; c &gt; &amp;lt;"), END], "a < b && c > &lt;"),
    "entities of its own":          ([chunk("&eacute; &quot; &#60;"), END], "&eacute; &quot; &#60;"),
    "only a message":               ([{"choices": [{"message": {"content": "31"}, "finish_reason": "stop"}]}], "31"),
    "an error is its subject":      ([chunk("The log message: Error from rag-server."), END], "The log message: Error from rag-server."),
}  # fmt: skip


@pytest.mark.parametrize(("chunks", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_stream_gives_the_text_of_the_answer(chunks, expected):
    assert read(*chunks).text == expected


FAILURES = {
    "no reason for the end":        ([chunk("3 May")], "stream_truncated", "3 May"),
    "no choices":                   ([{"choices": []}], "no_generator", None),
    "an error for an answer":       ([chunk("Error from rag-server. Please"), chunk(" check logs."), END], "error_reply", None),
    "an excuse for an answer":      ([chunk("Sorry, there was an error processing your request."), END], "error_reply", None),
    "an error after some of it":    ([chunk("3 May"), chunk("boom", kind="error"), END], "error_reply", "3 May"),
    "an error without a text":      ([chunk("", kind="error"), END], "error_reply", None),
    "a list for an event":          ([[1]], "bad_response", None),
    "nothing at all":               ([], "bad_response", None),
}  # fmt: skip


@pytest.mark.fault(48)
@pytest.mark.parametrize(("chunks", "code", "partial"), FAILURES.values(), ids=FAILURES)
def test_stream_that_is_no_answer_is_refused(chunks, code, partial):
    with pytest.raises(EndpointError) as raised:
        read(*chunks)

    assert (raised.value.code, raised.value.partial) == (code, None if partial is None else partial.encode())


def test_cut_stream_without_choices_is_truncated():
    with pytest.raises(EndpointError, match="finish_reason"):
        read({"choices": []}, is_cut=True)


CITATIONS = {
    "on a later one":                [chunk("a"), chunk("b", citations=RESULTS), END],
    "the last that says something":  [chunk("a", citations={"results": [{"document_name": "b.pdf"}]}), chunk("b", citations=RESULTS), END],
}  # fmt: skip


@pytest.mark.parametrize("chunks", CITATIONS.values(), ids=CITATIONS)
def test_stream_gives_the_last_citations_that_are_not_empty(chunks):
    assert read(*chunks).citations == RESULTS["results"]


def test_stream_gives_usage_metrics_and_model():
    found = read(
        chunk("", model="m"),
        chunk("a", usage={"total_tokens": 0}),
        {**END, "usage": {"total_tokens": 7}, "metrics": {"retrieval_time_ms": 5}},
    )

    assert (found.usage, found.metrics, found.model) == ({"total_tokens": 7}, {"retrieval_time_ms": 5}, "m")
    assert found.first_token_ms == 1.0  # of the second event: the first carries no text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["choices", "delta", "message", "content", "event_type", "citations", "results", "finish_reason",
                         "usage", "metrics", "model", "error"]), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


@given(st.lists(JSON, max_size=4), st.booleans())
def test_stream_of_any_values_is_an_answer_or_a_known_error(values, is_cut):
    try:
        code, text = None, read(*values, is_cut=is_cut).text
    except EndpointError as wrong:
        code, text = wrong.code, ""

    assert code in {None, "stream_truncated", "error_reply", "no_generator", "bad_response"}
    assert code is None or not text


SCORES = {
    #                                             scores               published
    "relevances fall with the rank":              ([0.9, 0.5, 0.5],    [0.9, 0.5, 0.5]),
    "neighbouring pages between them":            ([0.9, 0.2, 0.8],    [0.9, 0.2, 0.8]),
    "one chunk":                                  ([0.4],              [0.4]),
    "the interface's default is no score":        ([0.0, 0.0],         [None, None]),
    "not a number":                               (["high", None],     [None, None]),
}  # fmt: skip


@pytest.mark.parametrize(("scores", "expected"), SCORES.values(), ids=SCORES)
def test_chunks_have_the_scores_of_the_reranker(scores, expected, corpus):
    results = [result("", 1) | {"score": score} for score in scores]
    chunks = list(read_chunks(results, AnswerReader(corpus), has_pages=True, has_scores=True))

    assert not are_distances(results)
    assert [chunk.score for chunk in chunks] == expected
    assert {chunk.score for chunk in read_chunks(results, AnswerReader(corpus), has_pages=True, has_scores=False)} == {
        None
    }


def test_distances_rise_with_the_rank():
    assert are_distances([{"score": 0.0}, {"score": 0.7}, {"score": 0.7}])
    assert not are_distances([])


# Page numbers

FIRST = "The Marsh Point light was first lit on 3 May 1887 by Ada Thorne, and its tower is 31 metres tall."
SECOND = "The keeper of the light in 1911 was Jonas Fell, who kept bees and goats on the small island of Corran."
PAGES = {
    "light.pdf": [PageText("light.pdf", 1, 0, FIRST), PageText("light.pdf", 2, 99, SECOND)],
    "twins.pdf": [PageText("twins.pdf", 1, 0, FIRST), PageText("twins.pdf", 2, 99, FIRST)],
}
NAMES = StoredNames(["light.pdf", "twins.pdf"])

EVIDENCE = {
    #                                     stated, actual                    base
    "counted from 1":                     ([(1, 1), (2, 2), (5, 5)],        1),
    "counted from 0":                     ([(0, 1), (1, 2), (4, 5)],        0),
    "one in five on a page's edge":       ([(2, 2), (3, 3), (4, 4), (5, 5), (6, 5)], 1),
    "numbers of something else":          ([(7, 1), (3, 2)],                None),
}  # fmt: skip


@pytest.mark.parametrize(("evidence", "expected"), EVIDENCE.values(), ids=EVIDENCE)
def test_page_base_follows_from_the_sightings(evidence, expected):
    assert base_of(evidence) == expected


def result(text, page, name="light.pdf", kind="text"):
    content = text if kind == "text" else "aGVsbG8="
    return {
        "document_name": name,
        "document_type": kind,
        "content": content,
        "metadata": {"page_number": page, "description": text},
    }


FOUND = {
    "the text of a page":           (result(SECOND, 1),                              [(1, 2)]),
    "spaces and hyphens differ":    (result(SECOND.replace(" ", "\n").replace("island", "is-land"), 1), [(1, 2)]),
    "a picture's description":      (result(SECOND, 2, kind="table"),                [(2, 2)]),
    "a text across two pages":      (result(f"{FIRST} {SECOND}", 1),                 []),
    "too short to know":            (result("Jonas Fell", 1),                        []),
    "a text of both pages":         (result(FIRST, 1, name="twins.pdf"),             []),
}  # fmt: skip


@pytest.mark.parametrize(("found", "expected"), FOUND.values(), ids=FOUND)
def test_sighting_needs_a_text_on_exactly_one_page(found, expected):
    assert list(find_sightings([found], PAGES, NAMES)) == expected
