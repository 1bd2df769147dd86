"""`make demo-http`: evaluate the bundled benchmarks over HTTP, with a server that fails one attempt in ten.

The mock RAG server ingests the PDFs and answers from them through the interfaces of NVIDIA's RAG Blueprint and of
OpenAI. The demo has a workspace of its own and changes nothing in yours.
"""

import os
import shutil
import sys
from pathlib import Path

from examples.mock_rag_server import RunningServer, mock_rag_server
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.storage.files import atomic_write
from rag_eval_pipeline.workspace import PROJECT, SYSTEM_SUFFIX, WORKSPACE_VARIABLE, Workspace

FAULT_RATE = 0.1
LATENCY_MS = 20.0
SYSTEMS = {
    "blueprint": """# An NVIDIA RAG Blueprint: the corpus is uploaded, then every question is asked.
kind: nvidia
nightly: true
settings:
  rag: {{base_url: "{server.rag}"}}
  ingestor: {{base_url: "{server.ingestor}"}}
  upload: {{poll_seconds: 0.2}}
""",
    "chat": """# A chat model that receives passages of the corpus.
kind: openai
nightly: true
settings:
  endpoint: {{base_url: "{server.openai}"}}
  chat: {{model: mock}}
  retrieval: {{k: 5}}
""",
}


def main() -> int:
    """Run the demo; return 1 if a run failed."""
    root = Path(os.environ.get(WORKSPACE_VARIABLE) or PROJECT / ".demo-http")
    for part in ("sources", "config"):
        shutil.copytree(PROJECT / "data" / part, root / "data" / part, dirs_exist_ok=True)
    (root / "corpus").mkdir(exist_ok=True)
    with mock_rag_server(faults=FAULT_RATE, latency_ms=LATENCY_MS) as server:
        _write_systems(Workspace(root), server)
        os.environ[WORKSPACE_VARIABLE] = str(root)
        from rag_eval_pipeline.demo import main as demo  # reads the variable when it is imported

        code = demo()
        counts = server.counts(by_question=False)
    print(f"Requests to the server: {counts}.")
    return code


def _write_systems(workspace: Workspace, server: RunningServer) -> None:
    for name, text in SYSTEMS.items():
        settings = text.format(server=server)
        atomic_write(workspace.config / "systems" / f"{name}{SYSTEM_SUFFIX}", settings.encode())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (InputError, ServiceError) as error:
        sys.exit(f"rag-eval: {error}")
