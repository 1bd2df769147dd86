"""`rag-eval system init` asks one question and guesses how the reply is read; each shape is a real server's."""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import jmespath
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline import cli
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.scaffold.system_file_text import endpoint_lines
from rag_eval_pipeline.scaffold.system_init import propose_system, write_system
from rag_eval_pipeline.scaffold.system_proposal import Wanted
from rag_eval_pipeline.systems.config import read_system_file
from rag_eval_pipeline.systems.guessing import guess_paths
from rag_eval_pipeline.systems.json_paths import text_at
from rag_eval_pipeline.workspace import Workspace
from tests.json_server import json_server

RAILWAY, QUESTION = "skarn-railway", "When did the line open?"
ANSWER = "The line opened in 1888."
TEXT = "The concession was granted in 1884 and the line opened four years later."
OTHER = "A tunnel of two kilometres leads below the ridge."

LANGCHAIN = {"page_content": TEXT, "metadata": {"source": "/data/in/line-opening.pdf", "page": 0}}
NODE = {"text": TEXT, "id_": "4f", "metadata": {"file_name": "line-opening.pdf", "page_label": "1"}}
HIT = {"_score": 1.5, "_id": "x7", "_source": {"title": "line-opening.pdf", "body": TEXT}}


def events(*values):
    return 200, "".join(f"data: {json.dumps(value)}\n\n" for value in values) + "data: [DONE]\n\n", "text/event-stream"


def lines(*values):
    return 200, "".join(f"{json.dumps(value)}\n" for value in values), "application/x-ndjson"


SOURCE = {"file": "line-opening.pdf", "page": 1, "text": TEXT, "score": 0.9}
PATHS = {"document": "file", "page": "page", "text": "text", "score": "score"}


def proposed(answer, path=None, *, streaming=None, page_base=None, facts=None, **parts):
    """The settings of a reply: paths of the answer, of the passages, of their parts, and of facts about the answer."""
    settings = {
        "answer": answer,
        "contexts": path and {"path": path, **parts},
        "streaming": streaming,
        "page_base": page_base,
        **(facts or {}),
    }
    return {name: value for name, value in settings.items() if value is not None}


# shape: the reply, the settings that are proposed, the passages that are read with them
SHAPES = {
    "flat": (
        {"answer": ANSWER, "sources": [SOURCE, {**SOURCE, "page": 2}], "took_ms": 3},
        proposed("answer", "sources", **PATHS),
        [("line-opening.pdf", 1), ("line-opening.pdf", 2)],
    ),
    "LangChain's RetrievalQA": (
        {"query": QUESTION, "result": ANSWER, "source_documents": [LANGCHAIN]},
        proposed("result", "source_documents", document="metadata.source", page="metadata.page", text="page_content", page_base=0),
        [("line-opening.pdf", 1)],
    ),
    "LangChain's pairs with scores": (
        {"output": ANSWER, "docs": [[LANGCHAIN, 0.7], [{**LANGCHAIN, "page_content": OTHER}, 0.6]]},
        proposed("output", "docs", document="[0].metadata.source", page="[0].metadata.page", text="[0].page_content", page_base=0),
        [("line-opening.pdf", 1), ("line-opening.pdf", 1)],
    ),
    "LlamaIndex": (
        {"response": ANSWER, "source_nodes": [{"node": NODE, "score": 0.8}], "metadata": {"4f": {"file_name": "a"}}},
        proposed("response", "source_nodes", document="node.metadata.file_name", page="node.metadata.page_label", text="node.text", score="score"),
        [("line-opening.pdf", 1)],
    ),
    "Haystack": (
        {
            "answers": [{"answer": ANSWER, "score": 0.9}, {"answer": "In 1884.", "score": 0.2}],
            "documents": [{"id": "d1", "content": TEXT, "meta": {"name": "line-opening"}, "score": 0.5}],
        },
        proposed("answers[0].answer", "documents", document="meta.name", text="content", score="score"),
        [("line-opening.pdf", None)],
    ),
    "hits of Elasticsearch": (
        {"output": {"text": ANSWER}, "retrieval": {"took": 2, "hits": {"hits": [HIT, HIT]}}},
        proposed("output.text", "retrieval.hits.hits", document="_source.title", text="_source.body", score="_score"),
        [("line-opening.pdf", None)] * 2,
    ),
    "lists in a list": (
        {"results": [{"query": QUESTION, "answer": ANSWER, "passages": [
            {"doc": "line-opening.pdf", "pageNumber": 1, "snippet": TEXT}, {"doc": "Tunnel", "pageNumber": 4, "snippet": OTHER},
        ]}]},
        proposed("results[0].answer", "results[].passages[]", document="doc", page="pageNumber", text="snippet"),
        [("line-opening.pdf", 1), ("Tunnel", 4)],
    ),
    "texts alone": (
        {"answer": ANSWER, "contexts": [TEXT, OTHER]},
        proposed("answer", "contexts"),
        [("", None), ("", None)],
    ),
    "lists of texts, as Chroma has them": (
        {"answer": ANSWER, "documents": [[TEXT, OTHER]], "ids": [["a1", "a2"]]},
        proposed("answer", "documents[]"),
        [("", None), ("", None)],
    ),
    "names of documents alone": (
        {"text": ANSWER, "files": ["kb/line-opening.pdf"]},
        proposed("text", "files"),
        [("line-opening.pdf", None)],
    ),
    "unknown keys": (
        {"antwort": ANSWER, "zeit": 2, "treffer": [{"datei": "line-opening.pdf", "inhalt": TEXT, "seite": 1}]},
        proposed("antwort", "treffer", document="datei", text="inhalt"),
        [("line-opening.pdf", None)],
    ),
    "keys that are no identifiers": (
        {"data": {"final-answer": ANSWER, "source docs": [{"file name": "line-opening.pdf", "text": TEXT}]}},
        proposed('data."final-answer"', 'data."source docs"', document='"file name"', text="text"),
        [("line-opening.pdf", None)],
    ),
    "a conversation": (
        {"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}], "thread_id": "t-1"},
        proposed("messages[-1].content"),
        [],
    ),
    "pages from zero, distances": (
        {"reply": ANSWER, "matches": [
            {"document": "line-opening.pdf", "page_index": 0, "chunk": TEXT, "distance": 0.1},
        ]},
        proposed("reply", "matches", document="document", page="page_index", text="chunk", page_base=0),
        [("line-opening.pdf", 1)],
    ),
    "Bedrock's knowledge bases": (
        {"output": {"text": ANSWER}, "sessionId": "s", "citations": [{
            "generatedResponsePart": {"textResponsePart": {"text": "The line opened"}},
            "retrievedReferences": [
                {"content": {"text": TEXT}, "location": {"type": "S3", "s3Location": {"uri": "s3://kb/line-opening.pdf"}}},
                {"content": {"text": OTHER}, "location": {"type": "S3", "s3Location": {"uri": "s3://kb/Tunnel.pdf"}}},
            ],
        }]},
        proposed("output.text", "citations[].retrievedReferences[]", document="location.s3Location.uri", text="content.text"),
        [("line-opening.pdf", None), ("s3://kb/Tunnel.pdf", None)],
    ),
    "Azure's chat with data": (
        {"choices": [{"message": {"role": "assistant", "content": ANSWER, "context": {
            "intent": '["opening"]', "citations": [{"content": TEXT, "title": "A", "filepath": "line-opening.pdf", "chunk_id": "0"}],
        }}}]},
        proposed("choices[0].message.content", "choices[].message.context.citations[]", document="filepath", text="content"),
        [("line-opening.pdf", None)],
    ),
    "Dify": (
        {"event": "message", "task_id": "t", "mode": "chat", "answer": ANSWER, "metadata": {"retriever_resources": [
            {"position": 1, "dataset_name": "kb", "document_name": "line-opening.pdf", "score": 0.9, "content": TEXT},
        ]}},
        proposed("answer", "metadata.retriever_resources", document="document_name", text="content", score="score"),
        [("line-opening.pdf", None)],
    ),
    "pages in Docling's metadata": (
        {"error_message": "", "bot_answer": ANSWER, "search_results": [
            {"chunk_text": TEXT, "meta": {"filename": "line-opening.pdf", "doc_items": [{"label": "text", "prov": [{"page_no": 2}]}]}},
        ]},
        proposed("bot_answer", "search_results", document="meta.filename", page="meta.doc_items[0].prov[0].page_no", text="chunk_text"),
        [("line-opening.pdf", 2)],
    ),
    "sentences": (
        {"reply": {"sentences": ["Good question!", ANSWER]}, "sources": [SOURCE]},
        proposed("join(' ', reply.sentences)", "sources", **PATHS),
        [("line-opening.pdf", 1)],
    ),
    "usage and model": (
        {"answer": ANSWER, "model": "m-1", "finish_reason": "stop", "usage": {"prompt_tokens": 9, "completion_tokens": 3}},
        proposed("answer", facts={"finish_reason": "finish_reason", "model": "model", "prompt_tokens": "usage.prompt_tokens", "completion_tokens": "usage.completion_tokens"}),
        [],
    ),
    "a stream of events": (
        events({"token": "The line "}, {"token": "opened in 1888."}, {"sources": [SOURCE], "took_ms": 3}),
        proposed("token", "sources", streaming="sse", **PATHS),
        [("line-opening.pdf", 1)],
    ),
    "a message of parts, with thoughts": (
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Was it 1884?"}, {"type": "text", "text": "The line "},
            {"type": "text", "text": "opened in 1888.", "citations": [{"cited_text": TEXT, "document_title": "line-opening.pdf"}]},
        ]},
        proposed("content", "content[].citations[]", document="document_title", text="cited_text"),
        [("line-opening.pdf", None)],
    ),
    "Gemini's thoughts and the sentences that it grounds": (
        {"candidates": [{
            "content": {"parts": [{"text": "Was it 1884?", "thought": True}, {"text": "The line opened "}, {"text": "in 1888."}]},
            "groundingMetadata": {
                "groundingChunks": [{"retrievedContext": {"uri": "gs://kb/line-opening.pdf", "text": TEXT}}],
                "groundingSupports": [{"segment": {"text": "in 1888."}, "groundingChunkIndices": [0]}],
            },
        }]},
        proposed("candidates[0].content.parts", "candidates[].groundingMetadata.groundingChunks[]", document="retrievedContext.uri", text="retrievedContext.text"),
        [("line-opening.pdf", None)],
    ),
    "Cohere's citations, which quote the answer": (
        {"message": {"content": [{"type": "text", "text": ANSWER}], "citations": [{"start": 19, "end": 23, "text": "1888", "sources": [
            {"type": "document", "id": "doc:0", "document": {"title": "line-opening.pdf", "snippet": TEXT}},
        ]}]}},
        proposed("message.content", "message.citations[].sources[]", document="document.title", text="document.snippet"),
        [("line-opening.pdf", None)],
    ),
    "OpenAI's responses with thoughts and a search": (
        {"output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Was it 1884?"}]},
            {"type": "file_search_call", "results": [{"filename": "line-opening.pdf", "score": 0.9, "text": TEXT}]},
            {"type": "message", "content": [{"type": "output_text", "text": ANSWER, "annotations": []}]},
        ]},
        proposed("output[?type=='message'].content[]", "output[].results[]", document="filename", score="score", text="text"),
        [("line-opening.pdf", None)],
    ),
    "a stream of thoughts before the answer": (
        events(*[{"choices": [{"delta": {"content": None, "reasoning_content": thought}}]} for thought in ("Was ", "it ", "1884?")],
               {"choices": [{"delta": {"content": "The line "}}]}, {"choices": [{"delta": {"content": "opened in 1888."}}]}),
        proposed("choices[0].delta.content", streaming="sse"),
        [],
    ),
    "events of several types with one key": (
        events({"type": "reasoning-delta", "delta": "Was it 1884?"}, {"type": "text-delta", "delta": "The line "},
               {"type": "text-delta", "delta": "opened in 1888."}, {"type": "finish"}),
        proposed("[@][?type=='text-delta'] | [0].delta", streaming="sse"),
        [],
    ),
    "JSON lines, as Ollama streams them": (
        lines({"response": "The line ", "done": False}, {"response": "opened in 1888.", "done": False}, {"done": True}),
        proposed("response", streaming="sse"),
        [],
    ),
}  # fmt: skip


@pytest.fixture
def workspace(_converted):
    """Converted benchmarks that nothing here writes to."""
    return Workspace(_converted)


def propose(workspace, url, **wanted):
    given = {"name": "mine", "kind": "http", "url": url, "benchmark": RAILWAY, "question": QUESTION}
    return propose_system(workspace, Wanted(**{**given, **wanted}))


def settings_of(proposal, tmp_path):
    path = tmp_path / "mine.config.yaml"
    path.write_text(proposal.text)
    file = read_system_file(path)
    assert (file.is_nightly, file.version) == (True, "1")
    return file.settings.model_dump(exclude_defaults=True, exclude={"endpoint", "path", "body", "method"})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["answer", "sources", "text", "page", "file", "x y", "é"]) | st.text(), inner
            )
        ),
    )
)
def test_guesses_about_any_json_are_paths_that_find_what_they_say(value):
    guesses = guess_paths([value], QUESTION, lambda name: name == "line-opening.pdf")

    paths = {name: guess.path for name, guess in guesses.parts.items() if guess.path is not None}
    if "answer" in paths:
        assert text_at(value, paths.pop("answer")) is not None
    if "contexts" in paths:
        items = jmespath.search(paths.pop("contexts"), value)
        assert all(any(jmespath.search(path, item) is not None for item in items) for path in paths.values())


@pytest.mark.parametrize(("reply", "settings", "passages"), SHAPES.values(), ids=SHAPES)
def test_reply_is_read_with_the_settings_that_are_proposed(reply, settings, passages, workspace, tmp_path):
    with json_server(lambda *_: reply) as server:
        proposal = propose(workspace, f"{server.url}/ask")

    assert settings_of(proposal, tmp_path) == settings
    assert proposal.row["answer"].removeprefix("Good question! ") == ANSWER
    assert [(one["document"], one["page"]) for one in proposal.row["passages"]] == passages
    assert server.bodies == [{"question": QUESTION}]


def test_guesses_state_the_values_found_and_what_was_not_found(workspace):
    reply = {"answer": ANSWER, "sources": [{"file": "line-opening.pdf", "text": TEXT, "distance": 0.2}]}
    with json_server(lambda *_: reply) as server:
        proposal = propose(workspace, server.url)

    assert proposal.guesses == [
        f'answer = answer: "{ANSWER}"',
        "contexts = sources: a list of 1",
        'document = file: "line-opening.pdf" (1 of 1 name a document of the corpus)',
        "page: nothing found",
        f'text = text: "{TEXT[:60]}…"',
        "score: nothing found. A distance is smaller for better passages; the order of the list is used",
    ]
    assert '# guess: "line-opening.pdf" (1 of 1 name a document of the corpus)\n    document: file' in proposal.text
    assert "# page: nothing was found" in proposal.text


def fastapi(*missing):
    return 422, {"detail": [{"type": "missing", "loc": ["body", *field], "msg": "Field required"} for field in missing]}


BODIES = {
    "FastAPI names the field":        (fastapi(["query"]), {"query": QUESTION}),
    "an older FastAPI names it":      ((422, {"detail": [{"loc": ["body", "q"], "msg": "field required"}]}), {"q": QUESTION}),
    "it is named by its place alone": ((422, {"detail": [{"loc": ["body", "q"]}]}), {"q": QUESTION}),
    "FastAPI names a field below":    (fastapi(["input", "question"]), {"input": {"question": QUESTION}}),
    "a text names it":                ((400, {"error": "'prompt' is required"}), {"prompt": QUESTION}),
    "a conversation is wanted":       (fastapi(["messages"]), {"messages": [{"role": "user", "content": QUESTION}]}),
}  # fmt: skip


@pytest.mark.parametrize(("refusal", "body"), BODIES.values(), ids=BODIES)
def test_body_is_found_from_the_refusal_of_the_server(refusal, body, workspace):
    with json_server(lambda _, sent: {"answer": ANSWER} if sent == body else refusal) as server:
        proposal = propose(workspace, server.url)

    assert server.bodies == [{"question": QUESTION}, body]
    written = yaml.safe_load(proposal.text)["settings"]["body"]
    assert json.loads(json.dumps(written).replace("{question}", QUESTION)) == body


LIMITS = {  # milliseconds of one answer, and the limits that are proposed
    "as fast as the defaults expect": (400.0, {}),
    "slow": (4_000.0, {"in_flight": 7}),
    "slower than the limit of an attempt": (70_000.0, {"in_flight": 1, "attempt_seconds": 280, "total_seconds": 840}),
}


@pytest.mark.parametrize(("latency_ms", "limits"), LIMITS.values(), ids=LIMITS)
def test_slow_server_gets_fewer_questions_at_once(latency_ms, limits):
    text = "\n".join(endpoint_lines("endpoint", {"base_url": "http://h"}, latency_ms))

    assert yaml.safe_load(text) == {"endpoint": {"base_url": "http://h", **limits}}


def test_answer_of_the_server_is_timed(workspace, tmp_path):
    with json_server(lambda *_: time.sleep(0.6) or {"answer": ANSWER}) as server:
        proposal = propose(workspace, f"{server.url}/ask")

    assert yaml.safe_load(proposal.text)["settings"]["endpoint"]["in_flight"] <= 50


BEGINNING = "They were paid 2.40 crowns a day, and a strike in May 1891 raised this to 2.75. The company doctor"
OWN_IDS = {
    #                    the passage's parts                                        the rows that are drafted
    "a title":           ({"title": "Building the Skarn Valley railway"},           {"Building the Skarn Valley railway": "line-opening.pdf"}),
    "a name":            ({"title": "Line opening"},                                {"Line opening": "line-opening.pdf"}),
    "an id by a title":  ({"doc_id": "KB-7#2", "title": "Line opening"},            {"KB-7": "line-opening.pdf"}),
    "a bare id":         ({"id": "9f-2", "text": BEGINNING},                        {"9f-2": "line-opening.pdf"}),
    "an id by a text":   ({"doc_id": "4f0c", "text": BEGINNING},                    {"4f0c": "line-opening.pdf"}),
    "a foreign id":      ({"doc_id": "9b1d", "text": OTHER},                        {}),
}  # fmt: skip


@pytest.mark.parametrize(("source", "rows"), OWN_IDS.values(), ids=OWN_IDS)
def test_map_of_names_is_drafted_from_titles_and_texts(source, rows, workspace):
    with json_server(lambda *_: {"answer": ANSWER, "sources": [{"text": OTHER} | source]}) as server:
        proposal = propose(workspace, server.url)

    drafted = {one.name: one.file for one in proposal.names}
    assert not proposal.is_scored
    assert rows.items() <= drafted.items()
    # Of titles the map has also those of the other documents, all of which are in the menu of each page.
    assert len(drafted) >= 7 if list(source) == ["title"] else drafted == rows


def test_question_goes_into_the_url_where_the_url_has_its_place(workspace, tmp_path):
    asked = []
    with json_server(lambda path, _: asked.append(path) or {"answer": ANSWER}) as server:
        proposal = propose(workspace, f"{server.url}/search?q={{question}}&k=5")

    assert asked == ["/search?q=When+did+the+line+open%3F&k=5"]
    settings = yaml.safe_load(proposal.text)["settings"]
    assert (settings["method"], settings["path"]) == ("GET", "/search")
    assert settings["params"] == {"q": "{question}", "k": "5"}


REFUSED = {
    "two fields are missing":   (fastapi(["query"], ["user"]), {}, "unknown_body"),
    "no answer":                ({"id": 7, "files": []}, {}, "no_answer_found"),
    "an answer named wrongly":  ({"answer": ANSWER}, {"answer": "answr"}, "no_answer_found"),
    "a URL without scheme":     ({}, {"url": "127.0.0.1:8000/ask"}, "bad_option"),
    "a URL that is none":       ({}, {"url": "http://[::1/ask"}, "bad_option"),
    "no JSON":                  ((200, "<p>Hello</p>", "text/html"), {}, "bad_response"),
    "no such path":             ((404, {"detail": "Not Found"}), {}, "http_404"),
    "a key is wanted":          ((401, {"detail": "token"}), {}, "http_401"),
    "a secret in the URL":      ({}, {"url": "http://127.0.0.1:1/ask?api_key=abc"}, "misplaced_secret"),
    "a secret as a variable":   ({}, {"api_key_env": "sk-abc"}, "bad_format"),
    "a benchmark not converted": ({}, {"benchmark": "tarrow-lights"}, "not_converted"),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "wanted", "code"), REFUSED.values(), ids=REFUSED)
def test_system_is_refused(reply, wanted, code, workspace):
    with json_server(lambda *_: reply) as server, pytest.raises((InputError, ServiceError)) as refused:
        propose(workspace, **{"url": server.url, **wanted})

    assert refused.value.code == code
    assert "abc" not in str(refused.value)


def test_answer_that_is_named_wrongly_is_answered_with_the_guess(workspace):
    with json_server(lambda *_: {"answer": ANSWER}) as server, pytest.raises(InputError) as refused:
        propose(workspace, server.url, answer="answr")

    assert "'answr'" in str(refused.value)
    assert str(refused.value).endswith("Is --answer right? Without it the guess is answer.")


def test_refused_key_is_not_taken_for_a_missing_one(workspace, monkeypatch):
    monkeypatch.setenv("THEIR_KEY", "abc")
    hints = []
    for wanted in ({}, {"api_key_env": "THEIR_KEY"}):
        with json_server(lambda *_: (401, {"detail": "token"})) as server, pytest.raises(ServiceError) as refused:
            propose(workspace, url=server.url, **wanted)
        hints.append(str(refused.value))

    assert "Name the environment variable with its key" in hints[0]
    assert "The server refuses what THEIR_KEY holds." in hints[1]
    assert "Name the environment" not in hints[1]


def test_answer_that_is_named_is_not_guessed(workspace, tmp_path):
    with json_server(lambda *_: {"answer": "wrong", "inner": {"x": ANSWER}}) as server:
        proposal = propose(workspace, server.url, answer="inner.x")

    assert settings_of(proposal, tmp_path)["answer"] == "inner.x"
    assert proposal.row["answer"] == ANSWER


def chat(message, **more):
    return {"model": "m-1", "choices": [{"index": 0, "finish_reason": "stop", "message": message}], **more}


CHATS = {
    "the server retrieves": (
        {"sources": [SOURCE]},
        {"contexts_path": "sources[].{document: file, page: page, text: text, score: score}"},
        [("line-opening.pdf", 1)],
    ),
    "the server only writes": ({}, {"retrieval": {}}, []),
}


@pytest.mark.parametrize(("more", "settings", "passages"), CHATS.values(), ids=CHATS)
def test_openai_model_is_the_first_that_the_server_lists(more, settings, passages, workspace, tmp_path):
    def answer(path, body):
        models = {"data": [{"id": "embed-1"}, {"id": "m-1"}]}
        return models if path == "/v1/models" else chat({"role": "assistant", "content": ANSWER}, **more)

    with json_server(answer) as server:
        proposal = propose(workspace, f"{server.url}/v1/chat/completions", kind="openai")

    found = settings_of(proposal, tmp_path)
    assert found.pop("chat") == {"model": "m-1"}
    assert found == settings
    assert (proposal.row["answer"], proposal.row["model"]) == (ANSWER, "m-1")
    assert [(one["document"], one["page"]) for one in proposal.row["passages"]] == passages


def test_chat_completion_suggests_the_kind_openai(workspace):
    with json_server(lambda *_: chat({"role": "assistant", "content": ANSWER})) as server:
        proposal = propose(workspace, f"{server.url}/v1/chat/completions")

    assert f"rag-eval system init mine --kind openai --url {server.url}/v1" in proposal.notes[0]


def test_nvidia_servers_are_asked_for_their_health(workspace):
    with json_server(lambda *_: {"message": "Service is up."}) as rag, json_server(lambda *_: (503, {})) as ingestor:
        healthy = propose(workspace, rag.url, kind="nvidia")
        with pytest.raises(ServiceError) as down:
            propose(workspace, rag.url, kind="nvidia", ingestor=ingestor.url)

    assert yaml.safe_load(healthy.text)["settings"]["rag"] == {"base_url": rag.url}
    assert down.value.code == "server_unready"
    assert ingestor.url in str(down.value)


@pytest.mark.parametrize("path", [None, Path()], ids=["as python would find it", "--path"])
def test_python_callable_is_asked(path, workspace, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_rag.py").write_text(
        f"def answer(question):\n    return {{'answer': {ANSWER!r}, 'contexts': [{SOURCE!r}]}}\n"
    )

    proposal = propose(workspace, None, kind="python", callable="my_rag:answer", path=path)

    settings = yaml.safe_load(proposal.text)["settings"]
    assert (workspace.config / "systems" / settings["path"][0]).resolve() == tmp_path
    assert (proposal.row["answer"], proposal.row["passages"][0]["document"]) == (ANSWER, "line-opening.pdf")


def test_retriever_alone_is_asked_about_a_benchmark_without_answers(workspace, tmp_path):
    (tmp_path / "my_rag.py").write_text(f"def retrieve(question):\n    return [{SOURCE!r}]\n")
    workspace = Workspace(shutil.copytree(workspace.root, tmp_path / "own", symlinks=True))
    for file in workspace.root.rglob("*.eval.json"):
        dataset = json.loads(file.read_text())
        for query in dataset["queries"]:
            query |= {"ground_truth_answer": None, "metadata": {}}
        file.write_text(json.dumps(dataset))

    proposal = propose(workspace, None, kind="python", callable="my_rag:retrieve", path=tmp_path)

    assert (proposal.row["status"], proposal.row["passages"][0]["document"]) == ("ok", "line-opening.pdf")


def test_python_callable_is_asked_in_its_own_environment_for_what_it_takes(workspace, tmp_path):
    (tmp_path / "my_rag.py").write_text(f"def answer(state):\n    return {{**state, 'answer': {ANSWER!r}}}\n")
    python = Path(sys._base_executable)

    proposal = propose(
        workspace, None, kind="python", callable="my_rag:answer", path=tmp_path, python=python, body={"q": "{question}"}
    )

    settings = yaml.safe_load(proposal.text)["settings"]
    assert os.path.abspath(workspace.config / "systems" / settings["python"]) == str(python)
    assert settings["input"] == {"q": "{question}"}
    assert proposal.reply["q"] in proposal.asked
    assert proposal.row["answer"] == ANSWER


def test_file_of_a_system_is_not_replaced_unasked(tmp_path):
    workspace = Workspace(tmp_path)
    path = write_system(workspace, "mine", "kind: embedded\n")
    with pytest.raises(InputError, match="system_exists"):
        write_system(workspace, "mine", "kind: replay\n")
    assert path.read_text() == "kind: embedded\n"

    write_system(workspace, "mine", "kind: replay\n", replace_file=True)

    assert path.read_text() == "kind: replay\n"


@pytest.fixture
def rag_eval(tmp_path, monkeypatch, capsys):
    """Runs a command in an empty workspace; returns exit code, standard output, standard error."""
    (tmp_path / "data" / "sources").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["rag-eval", *arguments])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        return exit_.value.code or 0, captured.out, captured.err

    return run


@pytest.mark.fault(42)
def test_system_init_prints_reply_guesses_and_the_next_command(rag_eval, tmp_path):
    reply = {"answer": "It is \x1b[31mred\u202e.", "sources": [{**SOURCE, "page": n} for n in range(1, 9)]}
    with json_server(lambda *_: reply) as server:
        code, out, error = rag_eval("system", "init", "mine", "--url", f"{server.url}/ask", "--question", "What is it?")
        again = rag_eval("system", "init", "mine", "--url", f"{server.url}/ask")

    lines = out.splitlines()
    file = tmp_path / "data" / "config" / "systems" / "mine.config.yaml"
    assert (code, again[0], "[system_exists]" in again[2], len(server.bodies)) == (0, 2, True, 1)
    assert lines[0] == f'POST {server.url}/ask {{"question": "What is it?"}}'
    assert '    "… 5 more"' in lines
    assert 'guess: answer = answer: "It is  [31mred ."' in lines
    assert "note: No benchmark is converted yet, so names of documents were not compared with a corpus." in lines
    assert (lines[-1], error) == (f"{file}: written", "Next: rag-eval init NAME --from FILE|FOLDER|URL\n")
    assert not {"\x1b", "\u202e"} & set(out)
    assert not {"\x1b", "\u202e"} & set(file.read_text())


KINDS = {
    "an OpenAI base URL":     (["--url", "http://127.0.0.1:1/v1"],                       4, "[connection_refused]"),
    "an unknown kind":        (["--kind", "grpc", "--url", "http://127.0.0.1:1"],        2, "[bad_option]"),
    "no URL":                 ([],                                                       2, "[missing_option]"),
    "a body that is no JSON": (["--url", "http://127.0.0.1:1", "--body", "{question}"],  2, "[bad_option]"),
    "a secret as a header":   (["--url", "http://x.example", "--header-env", "sk-abc"],  2, "[bad_option]"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "exit_code", "code"), KINDS.values(), ids=KINDS)
def test_system_init_says_what_is_wrong_in_one_line(arguments, exit_code, code, rag_eval, tmp_path):
    found, _, err = rag_eval("system", "init", "mine", *arguments)

    assert (found, err.count("\n")) == (exit_code, 1)
    assert code in err
    assert "sk-abc" not in err
    assert not (tmp_path / "data" / "config").exists()
