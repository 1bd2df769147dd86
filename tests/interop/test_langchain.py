"""What LangChain and LangGraph return is read as they return it: chains, graphs, agents, citations."""

from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableParallel, RunnablePassthrough
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from pydantic import BaseModel

from rag_eval_pipeline.systems.base import Citation, Query, Usage
from rag_eval_pipeline.systems.frameworks import parse_answer, to_rag_answer
from rag_eval_pipeline.systems.kind_settings import ReadingSettings
from rag_eval_pipeline.systems.parsing import AnswerReader
from tests.systems.conftest import HARBOUR, LIGHT, corpus_in

QUESTION = "When was the harbour of Tollan built?"
TOKENS = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
# As PyPDFLoader makes them: a document for each page, whose pages count from 0.
DOCUMENTS = [
    Document(page_content=HARBOUR, metadata={"source": "/data/tollan.pdf", "page": 1, "page_label": "2", "start_index": 0}),
    Document(page_content=LIGHT, metadata={"source": "/data/light.pdf", "page": 0, "page_label": "1", "start_index": 0}),
]  # fmt: skip
PLACES = [("tollan.pdf", 2, HARBOUR), ("light.pdf", 1, LIGHT)]


class Model(BaseChatModel):
    """Says where the answer is; with tools it searches first."""

    searches: bool = False

    @property
    def _llm_type(self):
        return "test"

    def _generate(self, messages, stop=None, run_manager=None, **options):
        asks = self.searches and not any(message.type == "tool" for message in messages)
        call = [{"name": "search", "args": {"query": QUESTION}, "id": "1"}] if asks else []
        message = AIMessage(
            content="" if asks else "In 1901 [1].",
            tool_calls=call,
            usage_metadata=TOKENS,
            response_metadata={"model_name": "test-1"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def bind_tools(self, tools, **options):
        return self


class Retriever(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return DOCUMENTS


@tool(response_format="content_and_artifact")
def search(query: str) -> tuple[str, list[Document]]:
    """Search the documents."""
    return "\n\n".join(document.page_content for document in DOCUMENTS), DOCUMENTS


@tool
def search_text(query: str) -> str:
    """Search the documents."""
    return HARBOUR


class Cited(BaseModel):
    source_id: int
    quote: str


class QuotedAnswer(BaseModel):
    answer: str
    citations: list[Cited]


class CitedAnswer(BaseModel):
    answer: str
    citations: list[int]


class State(TypedDict):
    question: str
    documents: list[Document]
    generation: Any


PROMPT = ChatPromptTemplate.from_template("{context}\n\n{question}")
RETRIEVAL = RunnableParallel({"context": Retriever(), "question": RunnablePassthrough()})


def chain(*steps):
    made = PROMPT
    for step in steps:
        made = made | step
    return RETRIEVAL.assign(answer=made).invoke(QUESTION)


def corrective_graph():
    """As in LangGraph's tutorials: the answer is `generation`, the passages are `documents`."""
    graph = StateGraph(State)
    graph.add_sequence(
        [
            ("retrieve", lambda state: {"documents": DOCUMENTS}),
            ("generate", lambda state: {"generation": (PROMPT | Model() | StrOutputParser()).invoke({"context": "", **state})}),
        ]
    )  # fmt: skip
    return graph.add_edge(START, "retrieve").compile()


def agent(*tools):
    return create_agent(Model(searches=True), tools=list(tools)).invoke({"messages": [("user", QUESTION)]})


def read(value, tmp_path, **settings):
    reader = AnswerReader(corpus_in(tmp_path), ReadingSettings(**settings))
    return to_rag_answer(Query("1", QUESTION), parse_answer(value), reader, latency_ms=1.0), reader


ANSWERS = {
    "a chain that ends in a text":  lambda: chain(Model(), StrOutputParser()),
    "a chain that ends in a message": lambda: chain(Model()),
    "a graph with generation":      lambda: corrective_graph().invoke({"question": QUESTION}),
    "an agent":                     lambda: agent(search),
    "an answer and its documents":  lambda: (Model().invoke(QUESTION), DOCUMENTS),
    "documents under docs, beside the joined text": lambda: {
        "answer": "In 1901 [1].", "context": HARBOUR + LIGHT, "docs": DOCUMENTS,
    },
    "steps of an agent executor":   lambda: {"output": "In 1901 [1].", "intermediate_steps": [("call", DOCUMENTS)]},
}  # fmt: skip


@pytest.mark.parametrize("run", ANSWERS.values(), ids=ANSWERS)
def test_answer_passages_and_numbered_citation_are_read(run, tmp_path):
    answer, reader = read(run(), tmp_path)

    assert (answer.status, answer.answer) == ("ok", "In 1901 [1].")
    assert [(one.document, one.page, one.text) for one in answer.contexts] == PLACES
    assert answer.citations == (Citation("tollan.pdf", 9, 71, 2, 8, 11),)
    assert reader.warnings() == []


def test_usage_of_an_agent_is_that_of_all_its_requests(tmp_path):
    answer, _ = read(agent(search), tmp_path)

    assert (answer.usage, answer.model) == (Usage(30, 0.0, 2, 20, 10), "test-1")


def test_usage_of_an_agent_leaves_out_what_was_said_before_the_question(tmp_path):
    earlier = [("user", "Hello"), AIMessage(content="Hello.", usage_metadata=TOKENS)]
    state = create_agent(Model(), tools=[]).invoke({"messages": [*earlier, ("user", QUESTION)]})

    answer, _ = read(state, tmp_path)

    assert answer.usage == Usage(15, 0.0, 1, 10, 5)


def test_tool_that_returns_text_alone_states_no_passages(tmp_path):
    answer, _ = read(agent(search_text), tmp_path)

    assert (answer.answer, answer.contexts) == ("In 1901 [1].", ())


QUOTES = {
    #                                     citations                                                       citation
    "numbers from 0":                    ([Cited(source_id=0, quote="built in 1901")],                    (35, 48)),
    "numbers from 1":                    ([Cited(source_id=1, quote="built in 1901")],                    (35, 48)),
    "a quote that its source has not":   ([Cited(source_id=0, quote="seventy boats")],                    (9, 71)),
}  # fmt: skip


@pytest.mark.parametrize(("citations", "span"), QUOTES.values(), ids=QUOTES)
def test_quotes_are_found_in_the_passage_that_is_numbered(citations, span, tmp_path):
    quoted = QuotedAnswer(answer="In 1901.", citations=citations)

    nested, _ = read({"context": DOCUMENTS, "answer": quoted}, tmp_path)

    assert nested.answer == "In 1901."
    assert nested.citations == (Citation("tollan.pdf", *span, 2),)


NUMBERS = {
    #                             numbers  settings               cited               left out because
    "a 0":                       ([0],     {},                    ["tollan.pdf"],     None),
    "as many as passages":       ([2],     {},                    ["light.pdf"],      None),
    "either":                    ([1],     {},                    [],                 "citation_base"),
    "either, and it is said":    ([1],     {"citation_base": 0},  ["light.pdf"],      None),
    "both":                      ([0, 2],  {},                    [],                 "citation_base"),
    "beyond, and it is said":    ([2],     {"citation_base": 0},  [],                 "no stated passage"),
}  # fmt: skip


@pytest.mark.parametrize(("numbers", "settings", "cited", "reason"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_read_if_it_is_clear_where_they_begin(numbers, settings, cited, reason, tmp_path):
    answer, reader = read(
        {"context": DOCUMENTS, "answer": CitedAnswer(answer="In 1901.", citations=numbers)}, tmp_path, **settings
    )

    assert [one.file_name for one in answer.citations] == cited
    assert [reason in line for line in reader.warnings()] == ([] if reason is None else [True])
