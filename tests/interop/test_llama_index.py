"""What LlamaIndex returns is read as it returns it: query and chat engines, structured answers, agents, retrievers."""

import asyncio
from typing import Any

import pytest
from llama_index.core import PromptTemplate
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, LLMMetadata, MessageRole
from llama_index.core.base.response.schema import PydanticResponse
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import CitationQueryEngine, RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import QueryEngineTool
from pydantic import BaseModel

from rag_eval_pipeline.systems.base import Citation, Query, SystemCorpus
from rag_eval_pipeline.systems.frameworks import parse_answer, to_rag_answer
from rag_eval_pipeline.systems.kind_settings import ReadingSettings
from rag_eval_pipeline.systems.parsing import AnswerReader
from tests.systems.conftest import HARBOUR, LIGHT, corpus_in

QUESTION = "When was the harbour of Tollan built?"
TEXT = "In 1901 [1]."
PLACES = [("tollan.pdf", 2, HARBOUR, 0.5), ("light.pdf", 1, LIGHT, 0.25)]


def nodes() -> list[NodeWithScore]:
    """As SimpleDirectoryReader makes them of a PDF."""
    return [
        NodeWithScore(
            node=TextNode(text=text, metadata={"file_name": name, "page_label": str(page), "file_path": f"/data/{name}"}),
            score=score,
        )
        for name, page, text, score in PLACES
    ]  # fmt: skip


class Retriever(BaseRetriever):
    def _retrieve(self, query_bundle):
        return nodes()


class Model(CustomLLM):
    @property
    def metadata(self):
        return LLMMetadata(model_name="test-1")

    def complete(self, prompt, formatted=False, **options):
        return CompletionResponse(text=TEXT)

    def stream_complete(self, prompt, formatted=False, **options):
        return (CompletionResponse(text=TEXT[: end + 4], delta=TEXT[end : end + 4]) for end in range(0, len(TEXT), 4))


class ToolModel(FunctionCallingLLM):
    """Asks its tool once, then answers."""

    @property
    def metadata(self):
        return LLMMetadata(model_name="test-1", is_function_calling_model=True)

    def _prepare_chat_with_tools(self, tools, user_msg=None, chat_history=None, **options):
        return {"messages": chat_history or []}

    def get_tool_calls_from_response(self, response, error_on_no_tool_call=True, **options):
        return response.message.additional_kwargs.get("calls", [])

    def _reply(self, messages):
        calls = [] if any(one.role == MessageRole.TOOL for one in messages) else [
            ToolSelection(tool_id="1", tool_name="harbours", tool_kwargs={"input": QUESTION})
        ]  # fmt: skip
        text = "" if calls else TEXT
        message = ChatMessage(role="assistant", content=text, additional_kwargs={"calls": calls} if calls else {})
        return ChatResponse(message=message, delta=text)

    def chat(self, messages, **options):
        return self._reply(messages)

    async def achat(self, messages, **options):
        return self._reply(messages)

    async def astream_chat(self, messages, **options):
        async def pieces():
            yield self._reply(messages)

        return pieces()

    def _unused(self, *arguments: Any, **options: Any):
        raise NotImplementedError

    complete = stream_complete = stream_chat = acomplete = astream_complete = _unused


class Out(BaseModel):
    answer: str
    citations: list[int]


ENGINE = RetrieverQueryEngine.from_args(Retriever(), llm=Model())


def chat_engine():
    return ContextChatEngine.from_defaults(
        retriever=Retriever(), llm=Model(), memory=ChatMemoryBuffer(token_limit=500, tokenizer_fn=str.split)
    )


async def agent_output():
    tool = QueryEngineTool.from_defaults(ENGINE, name="harbours", description="Knows harbours.")
    return await FunctionAgent(tools=[tool], llm=ToolModel(), streaming=False).run(user_msg=QUESTION)


def citation_engine():
    # Its nodes begin with `Source 1:`, and so do its texts.
    return CitationQueryEngine.from_args(
        None, llm=Model(), retriever=Retriever(), citation_chunk_size=200, citation_qa_template=PromptTemplate("{context_str}")
    ).query(QUESTION)  # fmt: skip


def read(value, corpus: SystemCorpus, **settings):
    reader = AnswerReader(corpus, ReadingSettings(**settings))
    return to_rag_answer(Query("1", QUESTION), parse_answer(value), reader, latency_ms=1.0), reader


ANSWERS = {
    "a query engine": lambda: ENGINE.query(QUESTION),
    "a chat engine": lambda: chat_engine().chat(QUESTION),
    "an agent with a query engine": lambda: asyncio.run(agent_output()),
    "an answer and its nodes": lambda: (TEXT, nodes()),
    "a structured answer": lambda: PydanticResponse(response=Out(answer=TEXT, citations=[1]), source_nodes=nodes()),
}


@pytest.mark.parametrize("run", ANSWERS.values(), ids=ANSWERS)
def test_answer_passages_and_numbered_citation_are_read(run, tmp_path):
    answer, reader = read(run(), corpus_in(tmp_path))

    assert (answer.status, answer.answer) == ("ok", TEXT)
    assert [(one.document, one.page, one.text, one.score) for one in answer.contexts] == PLACES
    assert answer.citations == (Citation("tollan.pdf", 9, 71, 2, 8, 11),)
    assert reader.warnings() == []


def test_citation_query_engine_cites_its_sources(tmp_path):
    answer, _ = read(citation_engine(), corpus_in(tmp_path))

    assert answer.contexts[0].text.startswith("Source 1:\n")
    assert answer.citations == (Citation("tollan.pdf", 9, 71, 2, 8, 11),)


def test_retriever_alone_is_enough_for_a_benchmark_without_answers(tmp_path):
    from dataclasses import replace

    answer, _ = read(Retriever().retrieve(QUESTION), replace(corpus_in(tmp_path), retrieval_only=True))

    assert (answer.status, answer.answer, answer.abstained) == ("ok", None, False)
    assert [(one.document, one.page, one.text, one.score) for one in answer.contexts] == PLACES
