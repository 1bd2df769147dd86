"""Chains, an agent and a graph of LangChain and LangGraph, as their authors write them; no network, one passage."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

CATS = "Cats sleep."
ANSWER = "Cats do sleep."
USAGE = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}

DOCUMENTS = [Document(CATS, metadata={"source": "/data/cats.pdf", "page": 0})]


class Model(BaseChatModel):
    """Answers the same to everything; asks for the tool first if it has one."""

    has_tool: bool = False

    @property
    def _llm_type(self):
        return "constant"

    def _generate(self, messages, stop=None, run_manager=None, **options):
        message = AIMessage(ANSWER, usage_metadata=USAGE, response_metadata={"model_name": "constant-1"})
        if self.has_tool and messages[-1].type != "tool":
            calls = [{"name": "search", "args": {"query": "cats"}, "id": "1"}]
            message = AIMessage("", tool_calls=calls, usage_metadata=USAGE)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(self, messages, stop=None, run_manager=None, **options):
        for piece in ("Cats", " do", " sleep."):
            yield ChatGenerationChunk(message=AIMessageChunk(piece))
        metadata = {"model_name": "constant-1"}
        yield ChatGenerationChunk(message=AIMessageChunk("", usage_metadata=USAGE, response_metadata=metadata))

    def bind_tools(self, tools, **options):
        return self


@tool(response_format="content_and_artifact")
def search(query: str):
    """Search the documents."""
    return CATS, DOCUMENTS


prompt = ChatPromptTemplate.from_template("{context} {question}")
sources = RunnableParallel({"context": RunnableLambda(lambda _: DOCUMENTS), "question": RunnablePassthrough()})
chain = sources.assign(answer=prompt | Model())
text_chain = sources.assign(answer=prompt | Model() | StrOutputParser())
agent = create_agent(Model(has_tool=True), tools=[search])


class State(TypedDict):
    question: str
    context: list[Document]
    answer: Any


graph = (
    StateGraph(State)
    .add_sequence([
        ("retrieve", lambda state: {"context": DOCUMENTS}),
        ("generate", lambda state: {"answer": Model().invoke(state["question"])}),
    ])
    .add_edge(START, "retrieve")
    .compile()
)  # fmt: skip


def chain_stream(question):
    return text_chain.stream(question)


async def chain_astream(question):
    async for piece in chain.astream(question):
        yield piece


def graph_stream(question, mode=None):
    return graph.stream({"question": question}, stream_mode=mode)
