"""The mock server in a child process, for tests, demos and benches."""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from examples.mock_server.site import API_KEY_ENV

REPOSITORY = Path(__file__).resolve().parents[2]


class RunningServer(NamedTuple):
    """A mock server in a child process."""

    port: int
    process_id: int

    @property
    def url(self) -> str:
        """The base URL of the JSON endpoint, and of NVIDIA's servers without a prefix."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def rag(self) -> str:
        """The base URL of NVIDIA's RAG server."""
        return f"{self.url}/rag"

    @property
    def ingestor(self) -> str:
        """The base URL of NVIDIA's ingestor."""
        return f"{self.url}/ingestor"

    @property
    def openai(self) -> str:
        """The base URL of the OpenAI interface."""
        return f"{self.url}/openai/v1"

    def counts(self, *, by_question: bool = True) -> dict[str, Any]:
        """Return the number of requests since the start or the last `reset`."""
        counts: dict[str, Any] = json.loads(self._request("GET", "/control" if by_question else "/control?summary"))
        return counts

    def reset(self, **faults: Any) -> None:
        """Set the counts to zero, and replace the faults if fields of a `FaultScript` are given."""
        self._request("POST", "/control/reset", json.dumps(faults) if faults else None)

    def _request(self, method: str, path: str, body: str | None = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body)
            return connection.getresponse().read()
        finally:
            connection.close()


@contextlib.contextmanager
def mock_rag_server(
    *, faults: float | dict[str, Any] = 0, latency_ms: float = 0.0, api_key: str | None = None, **options: Any
) -> Iterator[RunningServer]:
    """Run the server in a child process that ends with the block, or with this process.

    Args:
        faults: A rate, or the fields of a `FaultScript`.
        latency_ms: Time from a question to the beginning of its answer.
        api_key: The bearer token that requests need.
        options: Further options of the command line, such as `canned=True`.

    Raises:
        RuntimeError: The server did not start.
    """
    given = {"faults": json.dumps(faults), "latency_ms": latency_ms, **options}
    if api_key is not None:
        given["api_key_env"] = API_KEY_ENV
    command = [sys.executable, "-P", "-m", "examples.mock_server", "--until-stdin-closes"]
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        command += [option] if value is True else [f"{option}={value}"]
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    kept |= {} if api_key is None else {API_KEY_ENV: api_key}
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(command, env=kept, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        try:
            assert child.stdout is not None
            line = child.stdout.readline().strip()
            if not line.isdigit():
                child.wait()
                errors.seek(0)
                raise RuntimeError(f"The mock server did not start: {errors.read().decode(errors='replace').strip()}")
            yield RunningServer(int(line), child.pid)
        finally:
            child.kill()
            child.communicate()
