"""The server in a child process, for tests and trials: there when the block begins, gone when it ends."""

import contextlib
import http.client
import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.loopback.server import CONTROL, INGESTOR, OPENAI, RAG
from rag_eval_pipeline.storage.confinement import environment, module_command

API_KEY_ENV = "RAG_EVAL_LOOPBACK_KEY"  # how the child is told the token it asks for


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that answers.

    Args:
        port: On 127.0.0.1.
        process_id: Of the child.
    """

    port: int
    process_id: int

    @property
    def rag(self) -> str:
        """Base URL of the NVIDIA RAG server."""
        return f"http://127.0.0.1:{self.port}{RAG}"

    @property
    def ingestor(self) -> str:
        """Base URL of the NVIDIA ingestor."""
        return f"http://127.0.0.1:{self.port}{INGESTOR}"

    @property
    def openai(self) -> str:
        """Base URL of the OpenAI-compatible server."""
        return f"http://127.0.0.1:{self.port}{OPENAI}"

    def counts(self, *, by_question: bool = True) -> dict[str, Any]:
        """Who was asked what and how often since the start or the last `reset`."""
        counts: dict[str, Any] = json.loads(self._ask("GET", CONTROL if by_question else f"{CONTROL}?summary"))
        return counts

    def reset(self) -> None:
        """Sets the counts to zero."""
        self._ask("POST", f"{CONTROL}/reset")

    def _ask(self, method: str, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path)
            return connection.getresponse().read()
        finally:
            connection.close()


@contextlib.contextmanager
def loopback_server(
    *,
    port: int = 0,
    corpus: Path | None = None,
    seed: int = 0,
    faults: float | dict[str, Any] | None = None,
    latency_ms: float = 0.0,
    canned: bool = False,
    ingestion_ms: float = 0.0,
    media_every: int = 5,
    page_base: int = 1,
    unready: str | None = None,
    api_key: str | None = None,
) -> Iterator[RunningServer]:
    """A server in a process of its own, with the options of `python -m rag_eval_pipeline.loopback`.

    The child reads from a pipe whose other end only this process holds: it ends when this process does, however that
    ends.

    Args:
        port: A free one unless given, as for a server that comes back where another was.
        corpus: Folder of PDFs that are there from the start.
        seed: Of the faults.
        faults: A rate, or a `FaultScript` as a mapping.
        latency_ms: From a question to the first of its answer.
        canned: Answers follow from the question's hash, and no document is read.
        ingestion_ms: For taking in one document, beside reading it.
        media_every: Every so manieth passage is a table, chart or picture.
        page_base: Number of a document's first page.
        unready: A dependency that is reported as down.
        api_key: The bearer token that every request must carry.

    Raises:
        ServiceError: `loopback_not_started`, with what the child said.
    """
    arguments = {
        "port": port,
        "corpus": None if corpus is None else corpus.absolute(),
        "seed": seed,
        "faults": None if faults is None else json.dumps(faults),
        "latency-ms": latency_ms,
        "ingestion-ms": ingestion_ms,
        "media-every": media_every,
        "page-base": page_base,
        "unready": unready,
        "api-key-env": None if api_key is None else API_KEY_ENV,
    }
    given = [f"--{name}={value}" for name, value in arguments.items() if value is not None]
    flags = ["--until-stdin-closes", *(["--canned"] if canned else [])]
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            module_command("rag_eval_pipeline.loopback", *given, *flags),
            cwd=tempfile.gettempdir(),
            env=environment() | ({} if api_key is None else {API_KEY_ENV: api_key}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
        )
        try:
            assert child.stdout is not None
            line = child.stdout.readline().strip()
            if not line.isdigit():
                child.wait()
                said.seek(0)
                message = said.read().decode(errors="replace").strip().splitlines() or ["nothing"]
                raise ServiceError("loopback_not_started", f"The loopback server did not start; it said: {message[-1]}")
            yield RunningServer(int(line), child.pid)
        finally:
            child.kill()
            child.communicate()
