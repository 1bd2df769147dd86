"""Applications of the real frameworks answer in the worker process."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from rag_eval_pipeline.systems.base import Query, SystemCorpus
from rag_eval_pipeline.systems.kind_settings import PythonSettings
from rag_eval_pipeline.systems.python_callable import open_python

APPS_FOLDER = Path(__file__).parent / "apps"
ANSWER = "Cats do sleep."
GRAPH = {"question": "{question}"}
HAYSTACK = {"retriever": {"query": "{question}"}, "prompt": {"query": "{question}"}}
AGENT = {"messages": [{"role": "user", "content": "{question}"}]}

APPS = {
    #                                   settings                                                                             page   tokens  model         first token
    "LangChain, a chain":              ({"callable": "langchain_app:chain"},                                                       1,     10,     "constant-1", False),
    "LangChain, StrOutputParser":      ({"callable": "langchain_app:text_chain"},                                                  1,     0,      None,         False),
    "LangChain, ainvoke":              ({"callable": "langchain_app:chain", "method": "ainvoke"},                                  1,     10,     "constant-1", False),
    "LangChain, stream":               ({"callable": "langchain_app:chain_stream"},                                                1,     0,      None,         True),
    "LangChain, astream":              ({"callable": "langchain_app:chain_astream"},                                               1,     10,     "constant-1", True),
    "LangChain, method stream":        ({"callable": "langchain_app:chain", "method": "stream"},                                   1,     10,     "constant-1", True),
    "LangChain, an agent":             ({"callable": "langchain_app:agent", "input": AGENT},                                       1,     20,     "constant-1", False),
    "LangGraph":                       ({"callable": "langchain_app:graph", "input": GRAPH},                                       1,     10,     "constant-1", False),
    "LangGraph, stream of updates":    ({"callable": "langchain_app:graph_stream"},                                                1,     10,     "constant-1", True),
    "LangGraph, stream of values":     ({"callable": "langchain_app:graph_stream", "arguments": {"mode": "values"}},               1,     10,     "constant-1", True),
    "LangGraph, stream of both":       ({"callable": "langchain_app:graph_stream", "arguments": {"mode": ["messages", "values"]}}, 1,     10,     "constant-1", True),
    "LangGraph, stream of messages":   ({"callable": "langchain_app:graph_stream", "arguments": {"mode": "messages"}},             None,  10,     "constant-1", True),
    "LlamaIndex, an engine":           ({"callable": "llama_index_app:engine"},                                                      1,     0,      None,         False),
    "LlamaIndex, aquery":              ({"callable": "llama_index_app:engine.aquery"},                                               1,     0,      None,         False),
    "LlamaIndex, a streaming engine":  ({"callable": "llama_index_app:streaming_engine"},                                            1,     0,      None,         True),
    "LlamaIndex, a workflow":          ({"callable": "llama_index_app:awaited_flow"},                                                1,     0,      None,         False),
    "Haystack, a pipeline":            ({"callable": "haystack_app:pipeline", "input": HAYSTACK, "arguments": {"include_outputs_from": ["retriever"]}}, 1, 0, "constant-1", False),
    "OpenAI, a completion":            ({"callable": "openai_app:completion"},                                                  None,  10,     "constant-1", False),
    "OpenAI, a stream":                ({"callable": "openai_app:completion_stream"},                                           None,  10,     "constant-1", True),
}  # fmt: skip


async def ask(folder, settings):
    corpus = SystemCorpus(
        benchmark="pets", folder=folder, files=["cats.pdf"], aliases={"cats.pdf": "cats.pdf"}, fingerprint="1",
        system="mine", started=datetime(2026, 11, 15, tzinfo=UTC), pages=list, settings_folder=APPS_FOLDER,
        state_folder=folder,
    )  # fmt: skip
    async with open_python(PythonSettings.model_validate({"path": ["."], **settings}), corpus) as system:
        answer = await system.answer(Query("1", "Do cats sleep?"))
    first_token = answer.timings.get("first_token")
    return msgspec.structs.replace(answer, latency_ms=None, timings={}), first_token


@pytest.mark.parametrize(("settings", "page", "tokens", "model", "has_first_token"), APPS.values(), ids=APPS)
async def test_application_is_read(settings, page, tokens, model, has_first_token, tmp_path):
    answer, first_token = await ask(tmp_path, settings)

    places = [] if page is None else [("cats.pdf", page, "Cats sleep.")]
    assert (answer.error, answer.answer) == (None, ANSWER)
    assert [(one.document, one.page, one.text) for one in answer.contexts] == places
    assert (answer.usage.total_tokens, answer.model, first_token is not None) == (tokens, model, has_first_token)


async def test_framework_that_wants_a_mapping_is_answered_by_what_to_set(tmp_path):
    answer, _ = await ask(tmp_path, {"callable": "langchain_app:graph"})

    assert (answer.error_code, "set `input`" in answer.error) == ("python_error", True)


async def test_workflow_without_an_event_loop_is_answered_by_what_to_change(tmp_path):
    answer, _ = await ask(tmp_path, {"callable": "llama_index_app:flow"})

    assert (answer.error_code, "`async def`" in answer.error) == ("python_error", True)
