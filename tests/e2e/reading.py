"""How the tests look at what came out: through pdfium, the HTML parser and the official scorer's words, not our code."""

import hashlib
import io
import re
import string
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from pathlib import Path

import pypdfium2
import pytest

from rag_eval_pipeline.cli import main
from rag_eval_pipeline.workspace import Workspace

NAMES = ("squad2", "kg-rag-sec10q", "fetaqa", "hotpotqa")
SYSTEMS = ("embedded", "embedded-weak")
RAG_EVAL = Path(sys.executable).with_name("rag-eval")
BLOCKS = {"div", "table", "ul", "ol", "dl", "h2", "h3", "style", "script", "math"}


def rag_eval(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`rag-eval` from its entry point on, in this process: its imports would cost more than what most commands do."""
    command = ["rag-eval", *map(str, arguments)]
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(io.StringIO()) as stdout,
        redirect_stderr(io.StringIO()) as stderr,
    ):
        patch.setattr(sys, "argv", command)
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(command, code, stdout.getvalue(), stderr.getvalue())


def product_bytes(workspace: Workspace, name: str) -> dict[str, str]:
    """Digests of everything that a conversion leaves, but for locks and the records of what each step had to do."""
    paths = workspace.benchmark(name)
    files = [
        *paths.corpus.iterdir(),
        *(file for file in paths.dataset.iterdir() if file.is_file() and file != paths.lock),
        *workspace.evaluation_datasets.glob(f"{name}_v*"),
        *workspace.ground_truth.glob(f"{name}_v*"),
    ]
    return {str(file.relative_to(workspace.root)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def pdf_text(path: Path) -> str:
    """The text of a PDF, its pages joined by a form feed; pdfium's mark for a hyphen at a line's end is a hyphen."""
    document = pypdfium2.PdfDocument(path)
    try:
        return "\f".join(page.get_textpage().get_text_range() for page in document).replace("\ufffe", "-")
    finally:
        document.close()


def squeezed(text: str) -> str:
    """Without white space, case-folded: what line breaks and capitals cannot change."""
    return "".join(text.split()).casefold()


def letters(text: str) -> str:
    """Letters and digits only: pdfium orders marks that overlap, such as `(` and `《`, by their place on the sheet."""
    return "".join(char for char in text.casefold() if char.isalnum())


def paragraphs(html: str) -> list[str]:
    """The texts of a page's `<p>` elements, up to the first block inside them."""
    reader = _Paragraphs()
    reader.feed(html)
    reader.close()
    reader.finish()
    return reader.found


class _Paragraphs(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[str] | None = None

    def finish(self) -> None:
        if self._open:
            self.found.append("".join(self._open))
        self._open = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "p" or tag in BLOCKS:
            self.finish()
        if tag == "p":
            self._open = []

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self.finish()

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self._open.append(data)


def official_normal_form(answer: str) -> str:
    """`normalize_answer` of SQuAD's evaluate-v2.0.py, in its own four steps."""
    lower = answer.lower()
    plain = "".join(char for char in lower if char not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", plain).split())
