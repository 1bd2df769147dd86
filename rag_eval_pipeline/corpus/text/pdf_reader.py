"""PDFs read and drawn by a child process: what a hostile file breaks is the child, and the next file gets another one.

One child serves many files, because it costs 0.1 s to start. Texts of the last files stay in memory, so that a
document that was looked at when it came into the corpus is not read twice.
"""

import atexit
import functools
import hashlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.text.pdf_layer import Box
from rag_eval_pipeline.corpus.text.pdf_worker import PdfLimits
from rag_eval_pipeline.storage.confinement import environment, module_command

DRAWING_LIMITS = PdfLimits(cpu_s=20.0, deadline_s=40.0)  # a picture is worth less waiting than a document

FILES_A_CHILD = 200  # then a new one: what pdfium does not give back must not be charged to a later file
REMEMBERED_CHARACTERS = 64_000_000  # of texts in memory

_WORKER = "rag_eval_pipeline.corpus.text.pdf_worker"
_CRASHES = {-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGFPE}


class DrawnPage(NamedTuple):
    """A page as a picture.

    Args:
        width: Pixels.
        height: Pixels.
        pixels: Red, green, blue of each, row by row.
        boxes: For each range that was asked for, a box for each line that it stands on.
    """

    width: int
    height: int
    pixels: bytes
    boxes: list[list[Box]]


class PdfReader:
    """A child process that reads PDFs, started for the first file and again whenever it has died; bears threads.

    Args:
        limits: Of each file.
    """

    def __init__(self, limits: PdfLimits | None = None) -> None:
        self._limits = limits or PdfLimits()
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._files = 0

    def texts(self, source: bytes | Path) -> list[str]:
        """The text of each page.

        Args:
            source: A PDF, or where it is.

        Raises:
            DocumentError: `pdf_encrypted`, `pdf_damaged`, `pdf_bomb`.
            OSError: There is no such file.
        """
        return list(self._ask(source)[0]["texts"])

    def drawn(
        self, source: bytes | Path, page: int, *, width: int, ranges: Sequence[tuple[int, int]] = ()
    ) -> DrawnPage:
        """A page as a picture.

        Args:
            source: A PDF, or where it is.
            page: 1-based.
            width: Of the picture in pixels; a page very much longer than wide gets fewer.
            ranges: Half-open ranges of the page's text whose places are wanted, in code points.

        Raises:
            DocumentError: `pdf_encrypted`, `pdf_damaged`, `pdf_bomb`, `no_such_page`, `no_such_place`.
            OSError: There is no such file.
        """
        answer, pixels = self._ask(source, draw=[page, width, list(ranges)])
        boxes = [[Box(*box) for box in lines] for lines in answer["boxes"]]
        return DrawnPage(answer["width"], answer["height"], pixels, boxes)

    def _ask(self, source: bytes | Path, **wanted: object) -> tuple[dict[str, Any], bytes]:
        if isinstance(source, Path):
            source.stat()
        with self._lock:
            # Somebody else: the end of the thread that had started it, or the system for want of memory.
            answer = self._answer(source, wanted, again=True) or self._answer(source, wanted, again=False)
        assert answer is not None
        if "code" in answer[0]:
            raise DocumentError(answer[0]["code"], answer[0]["message"])
        return answer

    @property
    def process_id(self) -> int | None:
        """Of the child; None before the first file."""
        return None if self._child is None else self._child.pid

    def close(self) -> None:
        """Ends the child."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()

    def _answer(
        self, source: bytes | Path, wanted: dict[str, object], *, again: bool
    ) -> tuple[dict[str, Any], bytes] | None:
        """What the child says or how it ended; None when somebody else killed it and the file may be tried `again`."""
        child = self._running()
        assert child.stdin is not None
        assert child.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(self._limits.deadline_s, end)
        timer.start()
        try:
            where = {"path": str(source.absolute())} if isinstance(source, Path) else {"size": len(source)}
            child.stdin.write(json.dumps({**where, **wanted}).encode() + b"\n")
            if isinstance(source, bytes):
                child.stdin.write(source)
            child.stdin.flush()
            line = child.stdout.readline()
            if line.endswith(b"\n"):
                answer: dict[str, Any] = json.loads(line)
                pixels = child.stdout.read(answer.get("size", 0))
                if len(pixels) == answer.get("size", 0):
                    return answer, pixels
        except BrokenPipeError:
            pass
        finally:
            timer.cancel()
        code = child.wait()
        self.close()
        if late.is_set() or code == -signal.SIGXCPU:
            return _refused("pdf_bomb", "the PDF takes too long to be read")
        if code == -signal.SIGKILL and again:
            return None
        if code in _CRASHES:
            return _refused("pdf_damaged", f"pdfium crashed while reading the PDF (signal {-code})")
        if code < 0:  # pdfium ends itself when it cannot have memory
            return _refused("pdf_bomb", f"the PDF needs too much memory to be read (signal {-code})")
        raise RuntimeError(f"the PDF reader ended with exit code {code}")

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._child is not None and (self._files >= FILES_A_CHILD or self._child.poll() is not None):
            self.close()
        if self._child is None:
            self._child = subprocess.Popen(
                module_command(_WORKER, json.dumps(self._limits)),
                cwd=tempfile.gettempdir(),
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._files = 0
        self._files += 1
        return self._child


def _refused(code: str, message: str) -> tuple[dict[str, Any], bytes]:
    return {"code": code, "message": message}, b""


@functools.cache
def _reader(process_id: int, limits: PdfLimits) -> PdfReader:
    """The reader of this process; a forked one must not share its parent's pipes."""
    reader = PdfReader(limits)
    atexit.register(reader.close)
    return reader


class _Remembered:
    """The texts of the last files, as many as `REMEMBERED_CHARACTERS` allow; bears threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: OrderedDict[str, list[str]] = OrderedDict()
        self._characters = 0

    def add(self, sha256: str, texts: list[str]) -> None:
        with self._lock:
            self._characters += sum(map(len, texts)) - sum(map(len, self._texts.get(sha256, [])))
            self._texts[sha256] = texts
            while self._characters > REMEMBERED_CHARACTERS:
                _, oldest = self._texts.popitem(last=False)
                self._characters -= sum(map(len, oldest))

    def get(self, sha256: str) -> list[str] | None:
        with self._lock:
            return self._texts.get(sha256)


_remembered = _Remembered()


def read_texts(source: bytes | Path) -> list[str]:
    """The text of each page of a PDF; of one given as bytes it is remembered.

    Raises:
        DocumentError: `pdf_encrypted`, `pdf_damaged`, `pdf_bomb`.
        OSError: There is no such file.
    """
    texts = _reader(os.getpid(), PdfLimits()).texts(source)
    if isinstance(source, bytes):
        _remembered.add(hashlib.sha256(source).hexdigest(), texts)
    return texts


def remembered_texts(sha256: str) -> list[str] | None:
    """The texts of a PDF that was read as bytes not long ago; None when they have to be read."""
    return _remembered.get(sha256)


def draw_page(source: bytes | Path, page: int, *, width: int, ranges: Sequence[tuple[int, int]] = ()) -> DrawnPage:
    """A page of a PDF as a picture, as `PdfReader.drawn` gives it.

    Raises:
        DocumentError: `pdf_encrypted`, `pdf_damaged`, `pdf_bomb`, `no_such_page`, `no_such_place`.
        OSError: There is no such file.
    """
    return _reader(os.getpid(), DRAWING_LIMITS).drawn(source, page, width=width, ranges=ranges)
