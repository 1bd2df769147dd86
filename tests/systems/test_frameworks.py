"""Answers of LangChain, LlamaIndex, Haystack and others are recognised by their shape; these are look-alikes."""

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.systems.base import Citation, Query, RetrievedPassage, SystemCorpus, Usage
from rag_eval_pipeline.systems.frameworks import parse_answer, to_rag_answer
from rag_eval_pipeline.systems.parsing import AnswerReader, ReadingSettings
from rag_eval_pipeline.systems.values import WrongShape

QUERY = Query("1", "?")
Haystack = SimpleNamespace


@dataclass
class Document:  # LangChain
    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class Message:  # LangChain
    content: Any
    usage_metadata: dict[str, int] | None = None
    response_metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class NodeWithScore:  # LlamaIndex: the node's parts are also the object's
    node: Any
    score: float | None = None
    text = property(lambda self: self.node.text)
    metadata = property(lambda self: self.node.metadata)


@dataclass
class Response:  # LlamaIndex
    response: str | None
    source_nodes: list[NodeWithScore]

    def __str__(self):
        return self.response or "None"


class TextAccessor(str):  # LangChain: what StrOutputParser returns
    def __call__(self):
        return str(self)


class StreamingResponse:  # LlamaIndex: it has a text once it is shown
    source_nodes: list[NodeWithScore] = []

    def __str__(self):
        return "streamed"


def read(value, corpus, **options):
    reader = AnswerReader(corpus, ReadingSettings(**options))
    return to_rag_answer(QUERY, parse_answer(value), reader, latency_ms=1.0)


CATS = Haystack(content="Cats sleep.", meta={"file_path": "/data/cats.pdf", "page_number": 2}, score=0.5, id="f00")
NODE = SimpleNamespace(text="Cats sleep.", metadata={"file_name": "cats.pdf", "page_label": "2"})
NODES = [NodeWithScore(NODE, 0.5)]
CHAIN = [Document("Cats sleep.", {"source": "/data/cats.pdf", "page": 1, "relevance_score": 0.5})]
GENERATED = Haystack(data="They do.", query="?", documents=[CATS], meta={})
EXTRACTED = Haystack(data="They do.", score=0.9, document=CATS)

FRAMEWORKS = {
    "LangChain, RetrievalQA": {"query": "?", "result": "They do.", "source_documents": CHAIN},
    "LangChain, create_retrieval_chain": {"input": "?", "context": CHAIN, "answer": "They do."},
    "LangChain, StrOutputParser": {"context": CHAIN, "answer": TextAccessor("They do.")},
    "LangGraph, a state": {"messages": [Message("?"), Message("They do.")], "context": CHAIN},
    "LlamaIndex": Response("They do.", NODES),
    "Haystack, replies": {"replies": ["They do."], "documents": [CATS]},
    "Haystack, by component": {"llm": {"replies": ["They do."]}, "retriever": {"documents": [CATS]}},
    "Haystack, a generated answer": {"answers": [GENERATED]},
    "Haystack, an extracted answer": {"reader": {"answers": [EXTRACTED]}},
    "a mapping": {"answer": "They do.", "contexts": [{"document": "cats", "page": 2, "text": "Cats sleep.", "score": 0.5}]},
    "a mapping of other names": {"response": "They do.", "retrieved_contexts": [{"source": {"source_name": "/tmp/cats.pdf"}, "page": "2", "content": "Cats sleep.", "score": np.float32(0.5)}]},
    "an object": SimpleNamespace(answer="They do.", contexts=[{"file": PurePosixPath("a/cats.pdf"), "page_number": 2.0, "chunk": "Cats sleep.", "score": 0.5}], abstained=False),
}  # fmt: skip


@pytest.mark.parametrize("value", FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_framework_answers_are_equal(value, corpus):
    answer = read(value, corpus)

    assert (answer.status, answer.answer, answer.abstained) == ("ok", "They do.", False)
    assert answer.contexts == (RetrievedPassage("cats.pdf", 2, "Cats sleep.", 0.5, 1),)


ANSWERS = {
    "a number": (51820, "51820", False),
    "a number under its name": ({"answer": 12}, "12", False),
    "an empty text that says that it abstains": ({"answer": "", "abstained": True}, "", True),
    "an abstention by its flag": ({"answer": None, "abstained": True}, "", True),
    "a flag against the words": ({"answer": "I don't know.", "abstained": False}, "I don't know.", False),
    "an extracted answer of None": ({"answers": [Haystack(data=None, score=0.8)]}, "", True),
    "a message of parts": (Message(["They ", {"type": "text", "text": "do."}, {"type": "image"}]), "They do.", False),
    "a stream": (StreamingResponse(), "streamed", False),
    "half of a pair of surrogates": ("They\ud800 do.", "They\ufffd do.", False),
}  # fmt: skip


@pytest.mark.parametrize(("value", "text", "abstained"), ANSWERS.values(), ids=ANSWERS)
def test_answer_text_and_abstention(value, text, abstained, corpus):
    answer = read(value, corpus)

    assert (answer.answer, answer.abstained) == (text, abstained)


EMPTY = {
    "an empty text": "",
    "a flag against it": {"answer": "", "abstained": False},
}


@pytest.mark.parametrize("value", EMPTY.values(), ids=EMPTY)
def test_empty_answer_is_an_error_unless_the_settings_call_it_an_abstention(value, corpus):
    answer, allowed = read(value, corpus), read(value, corpus, empty_answer="abstained")

    assert (answer.status, answer.error_code, answer.answer) == ("error", "empty_answer", None)
    assert "empty_answer: abstained" in answer.error
    assert (allowed.status, allowed.answer.strip()) == ("ok", "")
    assert allowed.abstained == (value != EMPTY["a flag against it"])


PAGES = {
    #                                             passage                                                options            page
    "LangChain's first page is 0":               (Document("t", {"source": "cats", "page": 0}),          {},                1),
    "LangChain's page that counts from 1":       (Document("t", {"source": "cats", "page_number": 1}),   {},                1),
    "no page 0 where the first is 1":            ({"document": "cats", "text": "t", "page": 0},          {},                None),
    "LangChain's where the file says 1":         (Document("t", {"source": "cats", "page": 1}),          {"page_base": 1},  1),
    "LangChain's page copied beside it":         ({"page": 0, "page_content": "t", "metadata": {"source": "cats", "page": 0}}, {}, 1),
    "a printed label that is no number":         (Document("t", {"source": "cats", "page_label": "iv"}), {},                None),
}  # fmt: skip


@pytest.mark.parametrize(("passage", "options", "page"), PAGES.values(), ids=PAGES)
def test_page_of_a_passage(passage, options, page, corpus):
    (context,) = read({"answer": "a", "contexts": [passage]}, corpus, **options).contexts

    assert (context.document, context.page) == ("cats.pdf", page)


DOCUMENTS = {
    "number":                ({"document": 7, "text": "x"}, "7"),
    "text that is a name":   ("big dogs.pdf", "big dogs.pdf"),
    "other text":            ("big dogs.pdf says so", ""),
}  # fmt: skip


@pytest.mark.parametrize(("passage", "document"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_document_of_a_passage(passage, document, corpus):
    (context,) = read({"answer": "a", "contexts": [passage]}, corpus).contexts

    assert context.document == document


def test_passages_keep_their_order_and_unknown_parts_are_none(corpus):
    answer = read(
        {
            "answer": "a",
            "contexts": ["only text", (Document("far", {"source": "other.pdf"}), 7.5), {"document": "big dogs"}],
        },
        corpus,
    )

    assert answer.contexts == (
        RetrievedPassage("", None, "only text", None, 1),
        RetrievedPassage("other.pdf", None, "far", None, 2),
        RetrievedPassage("big dogs.pdf", None, "", None, 3),
    )


CITED = Citation("cats.pdf", 0, 4, 1)
CITATIONS = {
    "in the text": ("They do [cats.pdf:1:0-4].", (Citation("cats.pdf", 0, 4, 1, 8, 24),)),
    "stated, with its mark": ({"answer": "They do [1].", "citations": [{"document": "cats", "start": 0, "end": 4, "page": 1, "marker_start": 8, "marker_end": 11}]}, (Citation("cats.pdf", 0, 4, 1, 8, 11),)),
    "stated, and its mark in the text": ({"answer": "They do [cats.pdf:1:0-4].", "citations": [{"document": "cats", "start": 0, "end": 4, "page": 1}]}, (Citation("cats.pdf", 0, 4, 1, 8, 24),)),
    "a mark beyond the answer": ({"answer": "a", "citations": [{"document": "cats", "start": 0, "end": 4, "page": 1, "marker_start": 8, "marker_end": 11}]}, (CITED,)),
    "stated": ({"answer": "a", "citations": [{"document": "/x/cats.pdf", "start": 0, "end": 4, "page": 1}]}, (CITED,)),
    "stated as text": ({"answer": "a", "citations": ["[cats.pdf:1:0-4]"]}, (CITED,)),
    "none stated beside one in the text": ({"answer": "a [cats.pdf:1:0-4]", "citations": []}, ()),
    "a document alone is no place": ({"answer": "a", "citations": [{"document": "cats"}]}, ()),
}  # fmt: skip


@pytest.mark.parametrize(("value", "citations"), CITATIONS.values(), ids=CITATIONS)
def test_citations(value, citations, corpus):
    assert read(value, corpus).citations == citations


USAGES = {
    "OpenAI's": ({"answer": "a", "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}, Usage(7, 0.0, 1, 3, 4)),
    "LangChain's, in a message": (
        {"answer": Message("a", usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 9})}, Usage(9, 0.0, 1, 3, 4),
    ),
    "money and requests": ({"answer": "a", "usage": {"estimated_cost_usd": 0.25, "requests": 3}}, Usage(0, 0.25, 3)),
}  # fmt: skip


@pytest.mark.parametrize(("value", "usage"), USAGES.values(), ids=USAGES)
def test_usage(value, usage, corpus):
    assert read(value, corpus).usage == usage


WRONG = {
    "not a number":        (float("nan"), "the number nan"),
    "answer of None":      ({"answer": None}, "an answer that is null"),
    "passage of a number": ({"answer": "a", "contexts": ["b", 3]}, "contexts[1] that is the number 3, without text or document"),
    "negative usage":      ({"answer": "a", "usage": {"requests": -1}}, "usage whose requests is the number -1"),
    "abstained in words":  ({"answer": "a", "abstained": "no"}, "abstained that is the text 'no'"),
    "reply without text":  ({"replies": [{"score": 1}], "documents": []}, "a reply that is an object with the keys score"),
}  # fmt: skip


@pytest.mark.parametrize(("value", "found"), WRONG.values(), ids=WRONG)
def test_wrong_shape_is_described(value, found, corpus):
    with pytest.raises(WrongShape) as wrong:
        read(value, corpus)

    assert str(wrong.value) == found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["answer", "contexts", "documents", "answers", "replies", "text", "page", "metadata", "usage",
                         "citations", "messages", "content", "document", "abstained", "start", "end", "total_tokens", "two\nlines"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(VALUES)
def test_any_value_is_an_answer_or_a_one_line_reason(value):
    corpus = SystemCorpus("b", None, [], {}, "", "mine", None, list, None, None)
    answer = refusal = None
    try:
        answer = to_rag_answer(QUERY, parse_answer(value), AnswerReader(corpus), latency_ms=0.0)
    except WrongShape as wrong:
        refusal = str(wrong)

    if answer is None:
        assert refusal
        assert "\n" not in refusal
    else:
        assert msgspec.json.decode(msgspec.json.encode(answer), type=type(answer)) == answer
