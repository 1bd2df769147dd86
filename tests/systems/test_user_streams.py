"""The pieces of a stream add up to the answer that they would have been without streaming; none is lost or doubled."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.systems.frameworks import ANSWERS
from rag_eval_pipeline.systems.user_streams import find_streams, merge


@dataclass
class Chunk:  # LangChain's AIMessageChunk
    content: str
    type: str = "AIMessageChunk"
    id: str = "run-1"
    tokens: int = 0

    def __add__(self, other):
        return Chunk(self.content + other.content, tokens=self.tokens + other.tokens)


@dataclass
class ToolMessage:
    content: str
    type: str = "tool"
    id: str = "tool-1"


def completion(text, usage=None, **more):
    choice = SimpleNamespace(delta=SimpleNamespace(content=text), **more)
    return SimpleNamespace(choices=[choice], usage=usage, model="m-1")


USAGE_ONLY = SimpleNamespace(choices=[], usage={"total_tokens": 9}, model="m-1")
LAST = SimpleNamespace(delta=" do.", text="They do.")
MERGED = {
    "nothing":                             ([],                                                              ""),
    "texts":                               (["They", "", " do", "."],                                        "They do."),
    "texts that repeat":                   (["ha", "ha", "ha"],                                              "hahaha"),
    "one growing text":                    (["They", "They do", "They do."],                                 "They do."),
    "one growing text of two pieces":      (["No", "No, they don't."],                                       "No, they don't."),
    "one that stands still":               (["They do", "They do", "They do."],                              "They do."),
    "digits of a number":                  (["1", "10"],                                                     "110"),
    "one piece, then the whole":           (["31", {"answer": "31", "done": True}],                          {"answer": "31", "done": True}),
    "pieces, then the whole":              (["They", " do.", {"answer": "They do.", "done": True}],          {"answer": "They do.", "done": True}),
    "pieces, then the whole and more":     (["They ", "do", "They do [1]."],                                 "They do [1]."),
    "pieces, then the whole twice":        (["Sk", "arn", "Skarn", "Skarn"],                                 "Skarn"),
    "messages":                            ([Chunk("They"), Chunk(" do.", tokens=7)],                        Chunk("They do.", tokens=7)),
    "pieces of an answer":                 ([{"input": "?"}, {"context": [1]}, {"answer": "They"}, {"answer": " do."}], {"input": "?", "context": [1], "answer": "They do."}),
    "pieces beside other values":          ([{"answer": "They", "model": "m"}, {"answer": " do.", "model": "m"}], {"answer": "They do.", "model": "m"}),
    "messages as an answer":               ([{"context": [1]}, {"answer": Chunk("They")}, {"answer": Chunk(" do.")}], {"context": [1], "answer": Chunk("They do.")}),
    "texts, then sources":                 (["They", " do.", {"sources": [1]}],                              {"answer": "They do.", "sources": [1]}),
    "LangGraph, values":                   ([{"q": "?"}, {"q": "?", "answer": "They do."}, {"q": "?", "answer": "They do.", "grade": 1}], {"q": "?", "answer": "They do.", "grade": 1}),
    "LangGraph, updates":                  ([{"find": {"context": [1]}}, {"write": {"answer": "No."}}, {"write": {"answer": "They do."}}], {"context": [1], "answer": "They do."}),
    "LangGraph, updates by an agent":      ([{"model": {"messages": ["call"]}}, {"tools": {"messages": ["found"]}}, {"log": None}], {"messages": ["call", "found"]}),
    "LangGraph, two modes":                ([("messages", (Chunk("They"), {})), ("values", {"answer": "They do."})], {"answer": "They do."}),
    "LangGraph, with subgraphs":           ([(("inner:1",), {"a": {"answer": "No."}}), ((), {"b": {"answer": "They do."}})], {"answer": "They do."}),
    "LangGraph, messages":                 ([(Chunk("They"), {}), (Chunk(" do."), {})],                      Chunk("They do.")),
    "LangGraph, messages of an agent":     ([(ToolMessage("found"), {}), (Chunk("They"), {}), (Chunk(" do."), {})], {"messages": [ToolMessage("found"), Chunk("They do.")]}),
    "OpenAI":                              ([completion("They"), completion(None), completion(" do."), USAGE_ONLY], {"answer": "They do.", "model": "m-1", "usage": {"total_tokens": 9}}),
    "OpenAI, cut":                         ([completion("They", finish_reason=None), completion(None, finish_reason="length")], {"answer": "They", "model": "m-1", "finish_reason": "length"}),
    "OpenAI, two choices":                 ([completion("They", index=0), completion("Other", index=1), completion(" do.", index=0)], {"answer": "They do.", "model": "m-1"}),
    "objects that have all so far":        ([SimpleNamespace(delta="They", text="They"), LAST],              LAST),
}  # fmt: skip


@pytest.mark.parametrize(("pieces", "value"), MERGED.values(), ids=MERGED)
def test_pieces_add_up(pieces, value):
    assert merge(pieces, ANSWERS) == value


@given(st.lists(st.sampled_from(["a", "b", " "]), min_size=1, max_size=8))
def test_pieces_of_an_answer_come_alone_and_are_never_taken_for_repetitions(pieces):
    assert merge([{ANSWERS[0]: piece} for piece in pieces], ANSWERS)[ANSWERS[0]] == "".join(pieces)


STREAMS = {
    "a generator":            (lambda: iter(["They", " do."]), "They do.", True),
    "a stream in a mapping":  (lambda: {"answer": iter(["They", " do."]), "docs": [1]}, {"answer": "They do.", "docs": [1]}, True),
    "a stream in a pair":     (lambda: (iter(["They", " do."]), [1]), ("They do.", [1]), True),
    "a stream without text":  (lambda: iter([{"docs": [1]}]), {"docs": [1]}, False),
}  # fmt: skip


@pytest.mark.parametrize(("make", "value", "has_text"), STREAMS.values(), ids=STREAMS)
def test_streams_of_a_value_are_read_and_the_first_text_is_timed(make, value, has_text):
    streams = find_streams(make(), ANSWERS)

    assert streams.read(lambda: False) == value
    assert (streams.first_text_at is not None) == has_text


def test_stream_that_is_given_up_is_not_read_on():
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield "more"

    find_streams(endless(), ANSWERS).read(lambda: len(taken) == 3)

    assert len(taken) == 3


@pytest.mark.parametrize("value", ["text", b"bytes", ["a list"], {"answer": "a"}, ("answer", [1]), None, 7])
def test_values_without_streams_have_none(value):
    assert find_streams(value, ANSWERS) is None
