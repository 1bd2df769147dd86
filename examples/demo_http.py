"""`make demo-http`: evaluate the small benchmarks over HTTP, with a server that fails one attempt in ten.

The mock RAG server ingests the PDFs and answers from them through the interfaces of NVIDIA's RAG Blueprint and of
OpenAI. The demo has a workspace of its own, `.demo-http/`, and changes nothing in yours.
"""

import sys

from examples.demo_builtin import evaluate_all, prepare
from examples.mock_server.process import RunningServer, mock_rag_server
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.workspace import PROJECT, SYSTEM_SUFFIX, Workspace

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
    """Run the demo."""
    workspace = prepare(PROJECT / ".demo-http")
    with mock_rag_server(faults=FAULT_RATE, latency_ms=LATENCY_MS) as server:
        _write_systems(workspace, server)
        evaluate_all(workspace)
        counts = server.counts(by_question=False)
    failed = sum(counts["faults"].values())
    print(
        f"The server failed {failed} of {counts['attempts']} attempts on purpose; "
        f"{counts['answered']} of {counts['questions']} questions were answered in the end."
    )
    return 0


def _write_systems(workspace: Workspace, server: RunningServer) -> None:
    for name, text in SYSTEMS.items():
        settings = text.format(server=server)
        atomic_write(workspace.config / "systems" / f"{name}{SYSTEM_SUFFIX}", settings.encode())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (InputError, ServiceError) as error:
        sys.exit(f"make demo-http: {error}")
