"""Answers of LangChain, LlamaIndex, Haystack and others are recognised by their shape; these are look-alikes."""

import json
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.systems.base import Citation, Query, RetrievedPassage, SystemCorpus, Usage
from rag_eval_pipeline.systems.foreign_values import WrongShape
from rag_eval_pipeline.systems.frameworks import parse_answer, to_rag_answer
from rag_eval_pipeline.systems.kind_settings import ReadingSettings
from rag_eval_pipeline.systems.parsing import AnswerReader
from rag_eval_pipeline.systems.python_worker import decode, names_read
from rag_eval_pipeline.systems.reply import retrieved_by_tools
from rag_eval_pipeline.systems.worker_main import Encoder

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
    """Read a value here, and as a worker process sends it: the answer, or the reason why there is none, is the same."""

    def outcome(value):
        reader = AnswerReader(corpus, ReadingSettings(**options))
        try:
            return to_rag_answer(QUERY, parse_answer(value), reader, latency_ms=1.0), None
        except WrongShape as wrong:
            return None, wrong

    sent = json.dumps(Encoder(names_read()).encode(value))
    (answer, wrong), (answer_there, wrong_there) = outcome(value), outcome(decode(json.loads(sent)))
    assert (answer_there, str(wrong_there)) == (answer, str(wrong))
    if wrong is not None:
        raise wrong
    return answer


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
    "LangGraph, a corrective graph": {"question": "?", "generation": TextAccessor("They do."), "documents": CHAIN},
    "an agent's last answer": {"final_answer": "They do.", "retrieved_documents": CHAIN},
    "a pair": ("They do.", CHAIN),
    "a text of all passages beside them": {"answer": "They do.", "context": "Cats sleep.", "docs": CHAIN},
    "an empty list before the passages": {"answer": "They do.", "contexts": [], "references": CHAIN},
    "an answer in the output of a chain server": {"output": {"answer": "They do.", "context": [{"page_content": "Cats sleep.", "metadata": {"source": "cats.pdf", "page": 1, "score": 0.5}, "type": "Document"}]}, "metadata": {"run_id": "1"}},
    "updates of a graph by node": {"retrieve": {"documents": CHAIN}, "generate": {"generation": "They do."}},
    "a tool's documents in a conversation": {"messages": [{"type": "human", "content": "?"}, {"type": "tool", "content": "Cats", "artifact": CHAIN * 2}, {"type": "ai", "content": "They do."}]},
    "a tool's JSON": {"messages": [{"role": "user", "content": "?"}, {"role": "tool", "content": '[{"text": "Cats sleep.", "url": "https://x.org/cats.pdf#page=2", "score": 0.5}]'}, {"role": "assistant", "content": "They do."}]},
    "steps of an agent": {"output": "They do.", "intermediate_steps": [("look", "Nothing"), ("search", CHAIN)]},
    "a chat completion": {"choices": [{"message": {"content": "They do."}}], "sources": [{"document": {"page_content": "Cats sleep.", "metadata": {"source": "cats.pdf", "page": 1}}, "score": 0.5}]},
    "an object": SimpleNamespace(answer="They do.", contexts=[{"file": PurePosixPath("a/cats.pdf"), "page_number": 2.0, "chunk": "Cats sleep.", "score": 0.5}], abstained=False),
}  # fmt: skip


@pytest.mark.parametrize("value", FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_framework_answers_are_equal(value, corpus):
    answer = read(value, corpus)

    assert (answer.status, answer.answer, answer.abstained) == ("ok", "They do.", False)
    [passage] = answer.contexts
    assert passage == RetrievedPassage("cats.pdf", 2, "Cats sleep.", 0.5, 1, source_id=passage.source_id)


ANSWERS = {
    "a number": (51820, "51820", False),
    "a number under its name": ({"answer": 12}, "12", False),
    "a whole number that a program made a double": ({"answer": 12.0}, "12", False),
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
    "docling's":                                 (Document("t", {"source": "cats", "dl_meta": {"doc_items": [{"prov": [{"page_no": 2}]}]}}), {}, 2),
    "docling's document":                        (Document("t", {"dl_meta": {"origin": {"filename": "cats.pdf"}, "doc_items": [{"prov": [{"page_no": 2}]}]}}), {}, 2),
    "in the name of a file":                     ({"content": "t", "sourcepage": "cats.pdf#page=2", "sourcefile": "x"}, {}, 2),
    "in a URL, which counts from 1":             ({"title": "Cats", "url": "https://x.org/cats.pdf?v=2#page=2", "snippet": "t"}, {"page_base": 0}, 2),
    "in a text that is a name":                  ("cats.pdf#page=2", {}, 2),
    "page_no":                                   ({"document": "cats", "text": "t", "metadata": {"page_no": 2}}, {}, 2),
    "pg":                                        ({"document": "cats", "text": "t", "pg": "2"}, {}, 2),
    "LangChain's for JavaScript":                ({"pageContent": "t", "metadata": {"source": "cats", "loc": {"pageNumber": 2}}}, {}, 2),
    "several, of which the first counts":        ({"document": "cats", "text": "t", "page_numbers": [2, 3]}, {}, 2),
    "an index":                                  ({"document": "cats", "text": "t", "page_index": 0}, {}, 1),
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
    "text that is a path":   ("in/big dogs.pdf", "big dogs.pdf"),
    "text that is an unknown name": ("in/wolves.pdf", "in/wolves.pdf"),
    "a URL with a query":    ({"url": "https://x.org/a/light.pdf?v=2", "text": "x"}, "light.pdf"),
    "a URL with a fragment": ({"url": "https://x.org/a/light#lamp", "text": "x"}, "light.pdf"),
    "the name that is known": (Document("x", {"source": "s3://x/1f00", "file_name": "cats.pdf"}), "cats.pdf"),
    "a title beside an unknown name": ({"source": "1f00", "title": "cats", "text": "x"}, "1f00"),
    "a title alone":         ({"title": "cats", "text": "x"}, "cats.pdf"),
    "percent signs":         ({"document": "big%20dogs.pdf", "text": "x"}, "big dogs.pdf"),
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


def test_texts_beside_as_many_file_names_are_in_these_files(corpus):
    answer = read(
        {"answer": "a", "contexts": ["Cats sleep.", "They purr."], "sources": ["cats.pdf", "light.pdf"]}, corpus
    )

    assert [(one.document, one.text) for one in answer.contexts] == [
        ("cats.pdf", "Cats sleep."),
        ("light.pdf", "They purr."),
    ]


def test_passages_alone_are_an_answer_only_to_a_benchmark_without_answers(corpus):
    with pytest.raises(WrongShape, match="1 passage and no answer, .* retrieval_only: true"):
        read(CHAIN, corpus)

    for value in (CHAIN, {"retriever": {"documents": [CATS]}}, [(CHAIN[0], 0.9)]):
        answer = read(value, replace(corpus, retrieval_only=True))

        assert (answer.status, answer.answer, answer.abstained) == ("ok", None, False)
        assert [(one.document, one.page) for one in answer.contexts] == [("cats.pdf", 2)]


def test_documents_under_another_key_are_named_in_a_warning(corpus):
    reader = AnswerReader(corpus, ReadingSettings())

    for value in (
        {"answer": "a", "found": {"hits": CHAIN}},
        SimpleNamespace(answer="b", found=SimpleNamespace(hits=CHAIN)),
    ):
        assert to_rag_answer(QUERY, parse_answer(value), reader, latency_ms=1.0).contexts == ()

    assert reader.warnings() == [
        "2 answers state no passages where they are looked for, and have a list of documents under 'found.hits'. "
        "Return it as contexts."
    ]


def test_replies_of_a_model_are_no_documents_under_another_key(corpus):
    reader = AnswerReader(corpus, ReadingSettings())
    reply = SimpleNamespace(role="assistant", text="a", meta={"model": "m"})

    answer = to_rag_answer(QUERY, parse_answer({"llm": {"replies": [reply]}}), reader, latency_ms=1.0)

    assert (answer.answer, answer.contexts, reader.warnings()) == ("a", (), [])


CITED = Citation("cats.pdf", 0, 4, 1)
CHAIN_1 = [Document("Cats sleep.", {"source": "/data/cats.pdf", "page": 0})]
CITATIONS = {
    "in the text": ("They do [cats.pdf:1:0-4].", (Citation("cats.pdf", 0, 4, 1, 8, 24),)),
    "stated, with its mark": ({"answer": "They do [1].", "citations": [{"document": "cats", "start": 0, "end": 4, "page": 1, "marker_start": 8, "marker_end": 11}]}, (Citation("cats.pdf", 0, 4, 1, 8, 11),)),
    "stated, and its mark in the text": ({"answer": "They do [cats.pdf:1:0-4].", "citations": [{"document": "cats", "start": 0, "end": 4, "page": 1}]}, (Citation("cats.pdf", 0, 4, 1, 8, 24),)),
    "a mark beyond the answer": ({"answer": "a", "citations": [{"document": "cats", "start": 0, "end": 4, "page": 1, "marker_start": 8, "marker_end": 11}]}, (CITED,)),
    "stated": ({"answer": "a", "citations": [{"document": "/x/cats.pdf", "start": 0, "end": 4, "page": 1}]}, (CITED,)),
    "stated as text": ({"answer": "a", "citations": ["[cats.pdf:1:0-4]"]}, (CITED,)),
    "none stated beside one in the text": ({"answer": "a [cats.pdf:1:0-4]", "citations": []}, ()),
    "by a number in the text": ({"answer": "They do [2].", "contexts": ["x", *CHAIN_1]}, (Citation("cats.pdf", 0, 11, 1, 8, 11),)),
    "by a range of numbers": ({"answer": "They do [1-2].", "contexts": ["x", *CHAIN_1]}, (Citation("cats.pdf", 0, 11, 1, 8, 13),)),
    "by a word and a number": ({"answer": "They do [citation:2].", "contexts": ["x", *CHAIN_1]}, (Citation("cats.pdf", 0, 11, 1, 8, 20),)),
    "by a number whose document is unknown": ({"answer": "They do [1].", "contexts": ["x", *CHAIN_1]}, ()),
    "by a number copied from the passage": ({"answer": "They purr loudly.[1]", "contexts": [{"document": "cats", "text": "Cats. They purr loudly.[1]"}]}, ()),
    "by the numbers of passages, the last one among them": ({"answer": "a", "contexts": CHAIN_1, "citations": [1]}, (Citation("cats.pdf", 0, 11, 1),)),
    "by a number as text": ({"answer": "a", "contexts": CHAIN_1, "citations": ["[1]"]}, (Citation("cats.pdf", 0, 11, 1),)),
    "by numbers, as the marks in the text have them": ({"answer": "They do [1].", "contexts": [*CHAIN_1, "x", "y"], "citations": [1]}, (Citation("cats.pdf", 0, 11, 1, 8, 11),)),
    "by a number, on the wrong page": ({"answer": "They do [1].", "contexts": [{"document": "cats", "page": 2, "text": "Cats sleep."}]}, (Citation("cats.pdf", 0, 11, 1, 8, 11),)),
    "by a number, on the second page": ({"answer": "They do [1].", "contexts": [{"document": "cats", "page": 2, "text": "They purr."}]}, (Citation("cats.pdf", 12, 22, 2, 8, 11),)),
    "by a quote and its document": ({"answer": "a", "citations": [{"document": "cats", "quote": "they\npurr"}]}, (Citation("cats.pdf", 12, 21, 2),)),
    "by a quote with its own id": ({"answer": "a", "contexts": CHAIN_1, "citations": [{"id": "c1", "quote": "sleep"}]}, (Citation("cats.pdf", 5, 10, 1),)),
    "by a quote": ({"answer": "a", "contexts": CHAIN_1, "citations": [{"quote": "sleep"}]}, (Citation("cats.pdf", 5, 10, 1),)),
    "a document alone beside a number in the text": ({"answer": "They do [1].", "contexts": CHAIN_1, "citations": ["cats.pdf"]}, (Citation("cats.pdf", 0, 11, 1, 8, 11),)),
    "odd ones": ({"answer": "a", "citations": [3.5, None, {"start": 1}, CITED]}, (CITED,)),
    "no list": ({"answer": "a", "citations": 3.5}, ()),
    "a document alone is no place": ({"answer": "a", "citations": [{"document": "cats"}]}, ()),
}  # fmt: skip


@pytest.mark.parametrize(("value", "citations"), CITATIONS.values(), ids=CITATIONS)
def test_citations(value, citations, corpus):
    assert read(value, corpus).citations == citations


def test_citations_that_are_left_out_are_counted_with_their_reason(corpus):
    reader = AnswerReader(corpus, ReadingSettings())
    for citations in ([{"start": 1}, 3.5], ["cats.pdf"], [0, 7], [{"document": "cats", "quote": "They bark."}]):
        value = {"answer": "a", "contexts": CHAIN_1, "citations": citations}
        assert to_rag_answer(QUERY, parse_answer(value), reader, latency_ms=1.0).status == "ok"

    assert reader.warnings() == [
        "Citations left out: 2, each of which is no citation, such as citations[0], an object with the keys start.",
        "Citations left out: 1, each of which names a document, but no place in it.",
        "Citations left out: 1, each of which names a passage by a number that no stated passage has.",
        "Citations left out: 1, each of which is a passage or quote whose text is not in a document of the corpus.",
    ]


USAGES = {
    "OpenAI's": ({"answer": "a", "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}, Usage(7, 0.0, 1, 3, 4)),
    "LangChain's, in a message": (
        {"answer": Message("a", usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 9})}, Usage(9, 0.0, 1, 3, 4),
    ),
    "Haystack's, beside replies of text": ({"llm": {"replies": ["a"], "meta": [{"model": "m", "usage": {"prompt_tokens": 3, "completion_tokens": 4}}]}}, Usage(7, 0.0, 1, 3, 4)),
    "all of an agent's": ({"messages": [{"type": "ai", "usage_metadata": {"input_tokens": 9, "output_tokens": 9}}, {"type": "human", "content": "?"}, {"type": "ai", "content": "", "usage_metadata": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 9}}, {"type": "ai", "content": "a", "usage_metadata": {"input_tokens": 1, "output_tokens": 2}}]}, Usage(12, 0.0, 2, 4, 6)),
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
                         "citations", "messages", "content", "document", "abstained", "start", "end", "total_tokens", "two\nlines",
                         "choices", "message", "artifact", "type", "role", "tool_calls", "intermediate_steps", "quote", "source_id", "node", "url"]),
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


def test_tools_text_that_nests_too_deeply_has_no_passages():
    asked, found = {"role": "user", "content": "?"}, {"role": "tool", "content": "[" * 5000}

    assert retrieved_by_tools({"messages": [asked, found]}) == ()
