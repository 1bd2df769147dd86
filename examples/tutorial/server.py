"""A small question-answering server for docs/tutorial.md: the best sentence of a folder of Markdown files.

    python server.py FOLDER [--port 8000] [--without travel expenses]

POST /ask takes {"question": ...}; the reply has an answer and the sentences that it was chosen from.
"""

import argparse
import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

STOP = frozenset(re.findall(r"\w+", "a an are be by does for from how in is may must of on the to what which who"))


def words(text: str) -> set[str]:
    """Return the content words of a text, in lower case and without a plural s."""
    return {word.removesuffix("s") for word in re.findall(r"\w+", text.lower())} - STOP


def read_sentences(folder: Path, without: list[str]) -> list[tuple[str, str, str]]:
    """Return file name, title and text of each line that is no heading."""
    found = []
    for path in sorted(folder.glob("*.md")):
        title, *lines = path.read_text("utf-8").splitlines()
        if path.stem not in without:
            found += [(path.name, title, line) for line in lines if line and not line.startswith("#")]
    return found


def search(sentences: list[tuple[str, str, str]], question: str) -> list[dict[str, str | int | float]]:
    """Return the five sentences that share most words with a question, best first."""
    scored = [
        (len(words(question) & words(f"{title} {line}")) / (1 + len(words(line))) ** 0.5, name, line)
        for name, title, line in sentences
    ]
    best = sorted(scored, key=lambda one: (-one[0], one[2]))[:5]
    return [{"file": name, "page": 1, "chunk": line, "score": round(score, 3)} for score, name, line in best]


class Handler(BaseHTTPRequestHandler):
    """Answer POST /ask with {"question": ...}."""

    sentences: list[tuple[str, str, str]]

    def do_POST(self) -> None:
        """Reply with the end of the best sentence: what the question does not say is the answer."""
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["question"]
        sources = search(self.sentences, question)
        known = words(question) | STOP
        text = str(sources[0]["chunk"]).rstrip(".").split()
        while len(text) > 1 and words(text[0]) <= known:
            text.pop(0)
        body = json.dumps({"result": {"text": " ".join(text), "sources": sources}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Print nothing for each request."""


class Server(ThreadingHTTPServer):
    """A server for many questions at once."""

    request_queue_size = 128


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--without", nargs="*", default=[], help="documents that its index has lost")
    given = parser.parse_args()
    Handler.sentences = read_sentences(given.folder, given.without)
    with Server(("127.0.0.1", given.port), Handler) as server:
        print(f"Serving http://127.0.0.1:{server.server_port}/ask", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
