"""What Haystack's pipelines and agents return is read as they return it, flat or by the name of the component."""

from typing import Any

import pytest
from haystack import Document, Pipeline, component
from haystack.components.agents import Agent
from haystack.components.builders import AnswerBuilder
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import Tool

from rag_eval_pipeline.systems.base import Citation, Query, Usage
from rag_eval_pipeline.systems.frameworks import parse_answer, to_rag_answer
from rag_eval_pipeline.systems.kind_settings import ReadingSettings
from rag_eval_pipeline.systems.parsing import AnswerReader
from tests.systems.conftest import HARBOUR, LIGHT, corpus_in

QUESTION = "When was the harbour of Tollan built?"
TEXT = "In 1901 [1]."
META = {"model": "test-1", "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}
PLACES = [("tollan.pdf", 2, HARBOUR, 0.5), ("light.pdf", 1, LIGHT, 0.25)]
DOCUMENTS = [
    Document(content=text, meta={"file_path": name, "page_number": page, "split_idx_start": 0}, score=score)
    for name, page, text, score in PLACES
]


@component
class Retriever:
    @component.output_types(documents=list[Document])
    def run(self, query: str):
        return {"documents": DOCUMENTS}


@component
class Generator:
    """A generator of texts, whose metadata is beside them."""

    @component.output_types(replies=list[str], meta=list[dict[str, Any]])
    def run(self, documents: list[Document]):
        return {"replies": [TEXT], "meta": [META]}


@component
class ChatGenerator:
    @component.output_types(replies=list[ChatMessage])
    def run(self, documents: list[Document]):
        return {"replies": [ChatMessage.from_assistant(TEXT, meta=META)]}


@component
class AgentModel:
    """Searches once, then answers."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools=None, streaming_callback=None, generation_kwargs=None):
        if any(message.tool_call_results for message in messages):
            return {"replies": [ChatMessage.from_assistant(TEXT, meta=META)]}
        call = ToolCall(tool_name="search", arguments={"query": QUESTION}, id="1")
        return {"replies": [ChatMessage.from_assistant(tool_calls=[call], meta=META)]}


def pipeline(generator, *, builds_answers=False):
    made = Pipeline()
    made.add_component("retriever", Retriever())
    made.add_component("llm", generator)
    made.connect("retriever.documents", "llm.documents")
    if builds_answers:
        made.add_component("answers", AnswerBuilder())
        made.connect("llm.replies", "answers.replies")
        made.connect("retriever.documents", "answers.documents")
        if isinstance(generator, Generator):
            made.connect("llm.meta", "answers.meta")
    inputs = {"retriever": {"query": QUESTION}} | ({"answers": {"query": QUESTION}} if builds_answers else {})
    return made, inputs


def run(generator, *, include=("retriever",), **options):
    made, inputs = pipeline(generator, **options)
    return made.run(inputs, include_outputs_from=set(include))


def agent(*, with_state):
    tool = Tool(
        name="search",
        description="Searches the documents.",
        parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
        function=lambda query: {"documents": DOCUMENTS},
        outputs_to_state={"documents": {"source": "documents"}} if with_state else None,
    )
    schema = {"documents": {"type": list[Document]}} if with_state else None
    return Agent(chat_generator=AgentModel(), tools=[tool], state_schema=schema)


def run_agent(*, with_state, in_pipeline):
    asked = [ChatMessage.from_user(QUESTION)]
    if not in_pipeline:
        return agent(with_state=with_state).run(messages=asked)
    made = Pipeline()
    made.add_component("agent", agent(with_state=with_state))
    return made.run({"agent": {"messages": asked}})


def read(value, tmp_path):
    reader = AnswerReader(corpus_in(tmp_path), ReadingSettings())
    return to_rag_answer(Query("1", QUESTION), parse_answer(value), reader, latency_ms=1.0), reader


ONCE, TWICE = Usage(15, 0.0, 1, 10, 5), Usage(30, 0.0, 2, 20, 10)
ANSWERS = {
    "a generator of texts":                   (lambda: run(Generator()), ONCE),
    "a chat generator":                       (lambda: run(ChatGenerator()), ONCE),
    "an answer builder":                      (lambda: run(Generator(), include=(), builds_answers=True), ONCE),
    "an answer builder after a chat":         (lambda: run(ChatGenerator(), include=(), builds_answers=True), ONCE),
    "an agent that keeps documents":          (lambda: run_agent(with_state=True, in_pipeline=False), TWICE),
    "the same in a pipeline":                 (lambda: run_agent(with_state=True, in_pipeline=True), TWICE),
    "an agent whose tool returns documents":  (lambda: run_agent(with_state=False, in_pipeline=True), TWICE),
}  # fmt: skip


@pytest.mark.parametrize(("run", "usage"), ANSWERS.values(), ids=ANSWERS)
def test_answer_passages_usage_and_numbered_citation_are_read(run, usage, tmp_path):
    answer, reader = read(run(), tmp_path)

    assert (answer.status, answer.answer, answer.usage, answer.model) == ("ok", TEXT, usage, "test-1")
    assert [(one.document, one.page, one.text, one.score) for one in answer.contexts] == PLACES
    assert answer.citations == (Citation("tollan.pdf", 9, 71, 2, 8, 11),)
    assert reader.warnings() == []


def test_pipeline_without_the_outputs_of_its_retriever_states_no_passages(tmp_path):
    answer, _ = read(run(ChatGenerator(), include=()), tmp_path)

    assert (answer.answer, answer.contexts, answer.citations) == (TEXT, (), ())
