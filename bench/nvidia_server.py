"""The `nvidia` adapter and NVIDIA's own evaluation script against NVIDIA's RAG server, without a GPU or a model.

    python3.12 -m venv /tmp/nvidia-rag
    /tmp/nvidia-rag/bin/pip install "nvidia-rag[rag]==2.6.0" lancedb
    python bench/nvidia_server.py --python /tmp/nvidia-rag/bin/python

Starts the RAG server of the package `nvidia-rag` (900 MB, Python 3.12 or later) with LanceDB as its vector store, an
embeddings and reranking server that hashes words, and the mock RAG server as its model; fills a table with the pages of
a bundled benchmark, and evaluates the benchmark with `rag-eval evaluate`. The package's ingestor needs a GPU stack, so
that part is played by the mock server, which is given the same PDFs.

`--driver evaluate_rag.py --driver-python PYTHON` also runs NVIDIA's own evaluation script, unmodified, against the same
server and against the mock RAG server alone, and compares what it notes with our export; docs/how-to/nvidia.md lists
its packages. `--record FOLDER` writes the exchanges of a few questions about three small documents, and the fields of
the server's OpenAPI description: the files in tests/systems/nvidia/recorded.
Without `--python` and `--driver` nothing is run, so that `make bench` needs no such installation.
"""

import argparse
import asyncio
import contextlib
import hashlib
import html
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

import httpx

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))  # the mock server belongs to the examples, the JSON server to the tests

from examples.mock_server.process import RunningServer, mock_rag_server  # noqa: E402
from rag_eval_pipeline.conversion.convert import convert  # noqa: E402
from rag_eval_pipeline.corpus.text.pages import read_pages  # noqa: E402
from rag_eval_pipeline.errors import ServiceError  # noqa: E402
from rag_eval_pipeline.systems.base import PageText, Query  # noqa: E402
from rag_eval_pipeline.systems.kind_settings import NvidiaSettings  # noqa: E402
from rag_eval_pipeline.systems.nvidia_ingest import stored_name  # noqa: E402
from rag_eval_pipeline.systems.nvidia_rag import open_nvidia  # noqa: E402
from rag_eval_pipeline.workspace import Workspace  # noqa: E402
from tests.examples import plain_http  # noqa: E402
from tests.examples.papers import papers_corpus  # noqa: E402
from tests.json_server import Reply, json_server  # noqa: E402

BENCHMARK = "skarn-railway"
COLLECTION = "skarn_railway"
PAPERS = "marsh_point"  # the table of the documents whose exchanges are recorded
DIMENSIONS = 256
START_SECONDS = 180
HASHED = "hashed-words"  # the name of the model that embeds and reranks

# Run by the server's Python: a table as NVIDIA's ingestion writes it, one row a page.
FILL = """
import json, sys
import lancedb
lancedb.connect(sys.argv[1]).create_table(sys.argv[2], json.load(sys.stdin))
"""
RELEASE = "from importlib.metadata import version; print(version('nvidia-rag'))"
QUESTIONS = (
    "When was the Marsh Point light first lit?",
    "Who kept bees & goats on the small island of Corran?",
    "What does the bell of Café Zürich weigh?",
)
GENERATE = {"reranker_top_k": 2, "max_tokens": 8}
TEXT_OUTPUT: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--python", type=Path, help="a Python that has nvidia-rag[rag] and lancedb")
    arguments.add_argument("--driver", type=Path, help="scripts/eval/evaluate_rag.py of NVIDIA's repository")
    arguments.add_argument("--driver-python", type=Path, help="a Python that has its packages")
    arguments.add_argument("--record", type=Path, help="folder for the exchanges")
    given = arguments.parse_args()
    if given.python is None and given.driver is None:
        print("nvidia_server.py: nothing is run without --python; see `python bench/nvidia_server.py --help`")
        return
    with tempfile.TemporaryDirectory(prefix="bench-nvidia-") as name:
        folder = Path(name)
        workspace = make_workspace(folder / "workspace")
        if given.driver is not None:
            with mock_rag_server() as mock:
                evaluate(workspace, given, Servers("mock", mock.url, mock))
        if given.python is not None:
            with (
                mock_rag_server(canned=True) as mock,
                json_server(Models(mock)) as models,
                nvidia_server(given.python, folder, models.url) as server,
            ):
                server.fill(COLLECTION, read_pages(workspace.benchmark(BENCHMARK).pages))
                evaluate(workspace, given, Servers("blueprint", server.url, mock))
                if given.record is not None:
                    record(server, folder, given.record)


def make_workspace(root: Path) -> Workspace:
    """Convert the bundled benchmark in a workspace of its own."""
    shutil.copytree(REPOSITORY / "data" / "config", root / "data" / "config")
    shutil.copytree(REPOSITORY / "data" / "sources" / BENCHMARK, root / "data" / "sources" / BENCHMARK)
    workspace = Workspace(root)
    convert(workspace, BENCHMARK)
    return workspace


# --- The servers behind NVIDIA's


def embed(text: str) -> list[float]:
    """Return the unit vector of a text's words, each hashed to a dimension and a sign."""
    vector = [0.0] * DIMENSIONS
    for word, count in Counter(re.findall(r"\w+", text.casefold())).items():
        digest = hashlib.blake2b(word.encode(), digest_size=4).digest()
        weight = (1 + math.log(count)) * min(len(word), 8)  # long words are rarer
        vector[int.from_bytes(digest[:3]) % DIMENSIONS] += weight if digest[3] % 2 else -weight
    norm = math.sqrt(sum(value * value for value in vector)) or 1.0
    return [value / norm for value in vector]


class Models(NamedTuple):
    """Answers what the RAG server asks its models: embeddings and ranks here, chat completions by the mock server."""

    mock: RunningServer

    def __call__(self, path: str, body: Any) -> Reply:
        path = path.partition("?")[0]
        if path.endswith("/health/ready"):
            return {"status": "ready"}
        if path.endswith("/models"):
            return {"object": "list", "data": [{"id": name, "object": "model"} for name in ("mock", HASHED)]}
        if path.endswith("/embeddings"):
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            data = [{"object": "embedding", "index": at, "embedding": embed(text)} for at, text in enumerate(texts)]
            return {"object": "list", "model": HASHED, "data": data, "usage": {"total_tokens": 0}}
        if path.endswith("/ranking"):
            wanted = embed(body["query"]["text"])
            logits = [10 * sum(map(mul, wanted, embed(passage["text"]))) for passage in body["passages"]]
            ranked = sorted(enumerate(logits), key=lambda ranked: -ranked[1])
            return {"rankings": [{"index": at, "logit": logit} for at, logit in ranked]}
        body["messages"] = [{"role": "user", "content": numbered_prompt(body["messages"])}]
        reply = plain_http.post(f"{self.mock.openai}/chat/completions", json=body, timeout=60)
        return reply.status_code, reply.text, reply.headers["content-type"]


def numbered_prompt(messages: Iterable[Mapping[str, str]]) -> str:
    """Return NVIDIA's prompt in the form from which the mock server extracts an answer."""
    whole = "\n".join(message["content"] for message in messages if message["role"] == "user")
    passages = re.findall(r"(?s)File: [^\n]*\nContent: (.*?)(?=\n\nFile: |\n</context>)", whole)
    question = html.unescape(whole.rpartition("Query: ")[2].partition("\n\nAnswer:")[0])
    numbered = [f"[{number}]\n{text}\n" for number, text in enumerate(passages, start=1)]
    return "\n".join(numbered) + f"\n\nQuestion: {question}"


class NvidiaServer(NamedTuple):
    """The RAG server of the package, and the folder of its LanceDB."""

    url: str
    python: Path
    database: Path

    def fill(self, collection: str, pages: Iterable[Any]) -> None:
        """Make a table with one row for each page that has a text."""
        rows = [_row(page) for page in pages if page.text.strip()]
        command = [str(self.python), "-c", FILL, str(self.database), collection]
        subprocess.run(command, input=json.dumps(rows), text=True, check=True, capture_output=True)
        print(f"{collection}: {len(rows)} pages in LanceDB")


def _row(page: Any) -> dict[str, Any]:
    name = stored_name(page.document if isinstance(page, PageText) else page.file_name)
    text = " ".join(page.text.split())
    return {
        "vector": embed(text),
        "text": text,
        "filename": name,
        "path": f"/documents/{name}",
        "source": f"/documents/{name}",
        "source_id": f"/documents/{name}",
        "page_number": page.page,
        "content_type": "text",
        "stored_image_uri": "",
        "metadata": str({"has_text": True}),
    }


@contextlib.contextmanager
def nvidia_server(python: Path, folder: Path, models: str) -> Iterator[NvidiaServer]:
    """Run the RAG server until the block ends."""
    database = folder / "lancedb"
    database.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "APP_VECTORSTORE_NAME": "lancedb",
        "APP_VECTORSTORE_URL": str(database),
        "INGESTOR_BACKEND": "nrl",
        "OBJECTSTORE_BACKEND": "filesystem",
        "OBJECTSTORE_LOCAL_PATH": str(folder / "objects"),
        "APP_RANKING_SERVERURL": models,
        "APP_RANKING_MODELNAME": HASHED,
        "APP_EMBEDDINGS_SERVERURL": f"{models}/v1",
        "APP_EMBEDDINGS_MODELNAME": HASHED,
        "APP_EMBEDDINGS_DIMENSIONS": str(DIMENSIONS),
        "APP_LLM_SERVERURL": models,
        "APP_LLM_MODELNAME": "mock",
        "NVIDIA_API_KEY": "not-used",
    }
    command = [str(python), "-m", "uvicorn", "nvidia_rag.rag_server.server:app", "--port", str(port)]
    with (folder / "server.log").open("wb") as log:
        child = subprocess.Popen(command, env=os.environ | settings, cwd=folder, stdout=log, stderr=log)
    server = NvidiaServer(f"http://127.0.0.1:{port}", python, database)
    try:
        _wait(server.url, child, folder / "server.log")
        yield server
    finally:
        child.terminate()
        child.wait()


def _wait(url: str, child: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while child.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if plain_http.get(f"{url}/v1/health").status_code == 200:
                return
        time.sleep(0.5)
    raise SystemExit(f"The RAG server did not start:\n{log.read_text(errors='replace')[-3000:]}")


# --- The evaluation, and NVIDIA's


class Servers(NamedTuple):
    """A RAG server under a system's name, and the mock server that is its ingestor and the judge."""

    system: str
    rag: str
    mock: RunningServer


def evaluate(workspace: Workspace, given: argparse.Namespace, servers: Servers) -> None:
    """Run NVIDIA's script if there is one, then `rag-eval evaluate`, and compare what they noted."""
    print(f"\n--- {servers.system}", flush=True)
    theirs = None if given.driver is None else run_driver(workspace, given, servers)
    workspace.system_file(servers.system).write_text(
        f"kind: nvidia\nsettings:\n  rag: {{base_url: '{servers.rag}'}}\n"
        f"  ingestor: {{base_url: '{servers.mock.url}'}}\n  collection: {COLLECTION}\n"
    )
    rag_eval(workspace, "evaluate", BENCHMARK, "--system", servers.system)
    if theirs is not None:
        target = workspace.root / "exports" / servers.system
        rag_eval(workspace, "export", BENCHMARK, str(target), "--format", "nvidia", "--evaluation", servers.system)
        compare(theirs, target / "results" / servers.system / f"rag_{servers.system}_evaluation_data.json")


def rag_eval(workspace: Workspace, *arguments: str) -> None:
    command = [sys.executable, "-m", "rag_eval_pipeline.cli", *arguments, "--workspace", str(workspace.root)]
    print(f"$ rag-eval {' '.join(arguments)}", flush=True)
    subprocess.run(command, check=True, cwd=REPOSITORY)


def run_driver(workspace: Workspace, given: argparse.Namespace, servers: Servers) -> Path:
    """Upload, ask and score with NVIDIA's script; return the file with its answers."""
    root = workspace.root / "driver" / servers.system
    rag_eval(workspace, "export", BENCHMARK, str(root / COLLECTION), "--format", "nvidia")
    host, port = servers.rag.removeprefix("http://").split(":")
    options = ["--dataset-paths", str(root / COLLECTION), "--host", host, "--port", port]
    options += ["--ingestor_server_url", servers.mock.url, "--output_dir", str(root / "results")]
    judge = {"NVIDIA_API_KEY": "not-used", "NVIDIA_BASE_URL": servers.mock.openai, "RAG_EVAL_JUDGE_MODEL": "mock"}
    print(f"$ python evaluate_rag.py {' '.join(options)}", flush=True)
    python = str(given.driver_python or sys.executable)
    done = subprocess.run([python, str(given.driver.resolve()), *options], env=os.environ | judge, **TEXT_OUTPUT)
    if done.returncode != 0:
        raise SystemExit(f"evaluate_rag.py failed:\n{done.stdout[-3000:]}")
    shown = r"    - (?:Number of pages|Ingestion check).*|        - .*|            -.*"
    print("\n".join(dict.fromkeys(re.findall(rf"(?m)^(?:{shown})$", done.stdout))))
    return root / "results" / COLLECTION / f"rag_{COLLECTION}_evaluation_data.json"


def compare(theirs: Path, ours: Path) -> None:
    """Print for how many questions the two evaluations noted the same."""
    rows = {row["id"]: row for row in json.loads(theirs.read_text())}
    pairs = [(rows[row["id"]], row) for row in json.loads(ours.read_text()) if row["id"] in rows]
    print(f"\n{'noted by evaluate_rag.py and rag-eval':45}{'equal':>8}{'of':>5}")
    for label, field in (
        ("documents and pages", "retrieved_docs"),
        ("texts of the passages", "generated_contexts"),
        ("tokens", "usage"),
        ("answers", "generated_answer"),
    ):
        print(f"{label:45}{sum(their[field] == our[field] for their, our in pairs):8}{len(pairs):5}")
    unescaped = [re.sub("&(amp|lt|gt);", _character, their["generated_answer"]).strip() for their, _ in pairs]
    same = sum(text == our["generated_answer"] for text, (_, our) in zip(unescaped, pairs, strict=True))
    print(f"{'answers, the HTML escapes of theirs undone':45}{same:8}{len(pairs):5}")
    for name, at in (("evaluate_rag.py", 0), ("rag-eval", 1)):
        print(f"tokens by {name}: {sum(pair[at]['usage']['total_tokens'] for pair in pairs):,}")


def _character(match: re.Match[str]) -> str:
    return {"amp": "&", "lt": "<", "gt": ">"}[match[1]]


# --- Recorded exchanges


class Recorder:
    """Forwards requests to a server and keeps what was sent and what came back."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.exchanges: list[dict[str, Any]] = []

    def __call__(self, path: str, body: Any) -> Reply:
        reply = plain_http.request("GET" if body is None else "POST", self._url + path, json=body, timeout=60)
        media = reply.headers["content-type"].partition(";")[0]
        kept = {"path": path, "body": body, "status": reply.status_code, "media_type": media, "reply": reply.text}
        self.exchanges.append(kept)
        return reply.status_code, reply.text, media


def record(server: NvidiaServer, folder: Path, target: Path) -> None:
    """Write the exchanges of a few questions, and the fields of the interface."""
    corpus = papers_corpus(folder / "papers")
    server.fill(PAPERS, corpus.pages())
    recorder = Recorder(server.url)
    with json_server(recorder) as proxy:
        settings = {"rag": {"base_url": proxy.url}, "collection": PAPERS, "extra_body": GENERATE}
        asyncio.run(_ask(settings, corpus, QUESTIONS))
        settings["page_base"] = 1  # found out above
        for changes in ({"enable_reranker": False}, {"agentic": True}, {"agentic": True, "enable_streaming": False}):
            asyncio.run(_ask({**settings, "extra_body": GENERATE | changes}, corpus, QUESTIONS[:1]))
        asyncio.run(_ask({**settings, "collection": "missing"}, corpus, ["Why?"]))
        with contextlib.suppress(ServiceError):
            asyncio.run(_ask({**settings, "collection": "missing", "page_base": "auto"}, corpus, []))
    exchanges = [_without_places(kept, folder, server) for kept in _distinct(recorder.exchanges)]
    target.mkdir(parents=True, exist_ok=True)
    release = subprocess.run(
        [str(server.python), "-c", RELEASE], check=True, capture_output=True, text=True
    ).stdout.strip()
    _write(target / "exchanges.json", {"server": f"nvidia-rag {release}", "exchanges": exchanges})
    described = plain_http.get(f"{server.url}/v1/openapi.json").json()
    source = f"GET /v1/openapi.json of nvidia-rag {release} (NVIDIA, Apache-2.0): names, types and bounds of its fields"
    _write(target / "fields.json", {"source": source, "schemas": fields(described["components"]["schemas"])})


async def _ask(settings: Mapping[str, Any], corpus: Any, questions: Iterable[str]) -> None:
    async with open_nvidia(NvidiaSettings.model_validate(settings), corpus) as system:
        for number, question in enumerate(questions):
            answer = await system.answer(Query(str(number), question))
            print(f"recorded: {question} -> {answer.answer or answer.error}")


def _distinct(exchanges: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({(kept["path"], json.dumps(kept["body"])): kept for kept in exchanges}.values())


def _without_places(kept: dict[str, Any], folder: Path, server: NvidiaServer) -> dict[str, Any]:
    """Return an exchange without the folders and ports of this run."""
    reply = kept["reply"].replace(str(folder), "/data")
    return kept | {"reply": re.sub(r"127\.0\.0\.1:\d+", "models.example.com", reply)}


ASKED = ("Prompt", "DocumentSearch", "ChainResponse", "Citations", "ConfigurationResponse", "RAGHealthResponse")
KEPT = (
    "type",
    "enum",
    "minimum",
    "maximum",
    "items",
    "anyOf",
    "$ref",
    "required",
    "properties",
    "additionalProperties",
)


def fields(schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schemas of what is sent and received, without descriptions, defaults and examples."""
    found: dict[str, Any] = {}
    wanted = list(ASKED)
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = _stripped(schemas[name])
            wanted += re.findall(r"#/components/schemas/(\w+)", json.dumps(schemas[name]))
    return dict(sorted(found.items()))


def _stripped(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_stripped(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _stripped(schema[key]) for key in KEPT if key in schema and key != "properties"}
    if "properties" in schema:
        kept["properties"] = {name: _stripped(part) for name, part in schema["properties"].items()}
    return kept


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n")
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
