"""Read and draw PDFs in a child process: a hostile file breaks the child, and the next file gets a new one.

One child serves many files, because starting it takes 0.1 s. The texts of the last files stay in memory.
"""

import atexit
import functools
import hashlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.storage.process import child_environment, module_command

FILES_PER_CHILD = 200  # memory that pdfium does not give back must not be charged to a later file
CACHED_CHARACTERS_MAX = 64_000_000

_WORKER = "rag_eval_pipeline.corpus.text.pdf_worker"
_CRASHES = {-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGFPE}
_DATES = re.compile(rb"/(?:CreationDate|ModDate) ?\(D:\d{14}")
_EPOCH = b"19700101000000"


class PdfLimits(NamedTuple):
    """What reading one PDF may cost. Eight filings of 332 pages take 1 s, 12 MB and 0.9 million characters."""

    memory_bytes: int = 1 << 30  # beyond the interpreter's own
    cpu_s: float = 60.0
    deadline_s: float = 120.0  # wall clock, enforced by the parent, for a child that waits without computing
    pages: int = 20_000  # sixty times a long annual report
    characters: int = 50_000_000


DRAWING_LIMITS = PdfLimits(cpu_s=20.0, deadline_s=40.0)  # a picture is worth less waiting than a document


class Box(NamedTuple):
    """A rectangle on the image of a page, in pixels from the upper left corner."""

    left: float
    top: float
    right: float
    bottom: float


class DrawnPage(NamedTuple):
    """A page as RGB pixels, row by row, with one box per line for each requested range."""

    width: int
    height: int
    pixels: bytes
    boxes: list[list[Box]]


def fix_dates(data: bytes) -> bytes:
    """Set the dates of a printed PDF to 1970, so that equal pages give equal bytes; the length does not change."""
    return _DATES.sub(lambda match: match[0][: -len(_EPOCH)] + _EPOCH, data)


def read_texts(source: bytes | Path) -> list[str]:
    """Return the text of each page of a PDF, as `PdfReader.texts`; texts of a PDF given as bytes are cached."""
    if isinstance(source, Path):
        return _reader(os.getpid(), PdfLimits()).texts(source)
    sha256 = hashlib.sha256(source).hexdigest()
    texts = _cache.get(sha256)
    if texts is None:
        texts = _reader(os.getpid(), PdfLimits()).texts(source)
        _cache.add(sha256, texts)
    return texts


def cached_texts(sha256: str) -> list[str] | None:
    """Return the texts of a PDF that was recently read as bytes."""
    return _cache.get(sha256)


def draw_page(
    source: bytes | Path, page: int, *, width: int, ranges: Sequence[tuple[int, int]] = (), has_pixels: bool = True
) -> DrawnPage:
    """Draw a page of a PDF; see `PdfReader.draw`."""
    reader = _reader(os.getpid(), DRAWING_LIMITS)
    return reader.draw(source, page, width=width, ranges=ranges, has_pixels=has_pixels)


class PdfReader:
    """A child process that reads PDFs, each within limits; thread-safe, and restarted whenever it has died."""

    def __init__(self, limits: PdfLimits | None = None) -> None:
        self._limits = limits or PdfLimits()
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._files = 0

    @property
    def process_id(self) -> int | None:
        """Of the child; None before the first file."""
        return None if self._child is None else self._child.pid

    def texts(self, source: bytes | Path) -> list[str]:
        """Return the text of each page.

        Raises:
            DocumentError: `pdf_encrypted`, `pdf_damaged`, `pdf_bomb`.
            OSError: There is no such file.
        """
        return list(self._ask(source)[0]["texts"])

    def draw(
        self,
        source: bytes | Path,
        page: int,
        *,
        width: int,
        ranges: Sequence[tuple[int, int]] = (),
        has_pixels: bool = True,
    ) -> DrawnPage:
        """Draw a page.

        Args:
            page: 1-based.
            width: Pixels; a page that is very much longer than wide gets fewer.
            ranges: Half-open ranges of the page's text to locate, in code points.
            has_pixels: False returns the size and the boxes only, in a fraction of the time.

        Raises:
            DocumentError: `pdf_encrypted`, `pdf_damaged`, `pdf_bomb`, `no_such_page`, `no_such_place`.
            OSError: There is no such file.
        """
        answer, pixels = self._ask(source, draw=[page, width, list(ranges), has_pixels])
        boxes = [[Box(*box) for box in lines] for lines in answer["boxes"]]
        return DrawnPage(answer["width"], answer["height"], pixels, boxes)

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()

    def _ask(self, source: bytes | Path, **request: object) -> tuple[dict[str, Any], bytes]:
        if isinstance(source, Path):
            source.stat()
        with self._lock:
            # At the second try, if something else killed it: the end of the thread that had started it, for example.
            answer = self._exchange(source, request) or self._exchange(source, request)
        if answer is None:
            raise DocumentError("pdf_bomb", f"the PDF needs too much memory to be read (signal {signal.SIGKILL})")
        if "code" in answer[0]:
            raise DocumentError(answer[0]["code"], answer[0]["message"])
        return answer

    def _exchange(self, source: bytes | Path, request: dict[str, object]) -> tuple[dict[str, Any], bytes] | None:
        """Return the child's answer, or None if something else killed the child."""
        child = self._running()
        assert child.stdin is not None
        assert child.stdout is not None
        is_late = threading.Event()

        def kill() -> None:
            is_late.set()
            child.kill()

        timer = threading.Timer(self._limits.deadline_s, kill)
        timer.start()
        try:
            where = {"path": str(source.absolute())} if isinstance(source, Path) else {"size": len(source)}
            child.stdin.write(json.dumps({**where, **request}).encode() + b"\n")
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
        except BaseException:  # an interrupt: the answer that is still to come must not be read for the next file
            self.close()
            raise
        finally:
            timer.cancel()
        code = child.wait()
        self.close()
        if is_late.is_set() or code == -signal.SIGXCPU:
            raise DocumentError("pdf_bomb", "the PDF takes too long to be read")
        if code == -signal.SIGKILL:
            return None
        if code in _CRASHES:
            raise DocumentError("pdf_damaged", f"pdfium crashed while reading the PDF (signal {-code})")
        if code < 0:  # pdfium aborts when it cannot allocate memory
            raise DocumentError("pdf_bomb", f"the PDF needs too much memory to be read (signal {-code})")
        raise RuntimeError(f"the PDF reader ended with exit code {code}")

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._child is not None and (self._files >= FILES_PER_CHILD or self._child.poll() is not None):
            self.close()
        if self._child is None:
            self._child = subprocess.Popen(
                module_command(_WORKER, json.dumps(self._limits)),
                cwd=tempfile.gettempdir(),
                env=child_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._files = 0
        self._files += 1
        return self._child


@functools.cache
def _reader(process_id: int, limits: PdfLimits) -> PdfReader:
    """Return the reader of this process; a forked process must not share its parent's pipes."""
    reader = PdfReader(limits)
    atexit.register(reader.close)
    return reader


class _TextCache:
    """The texts of the last files, up to `CACHED_CHARACTERS_MAX`; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: OrderedDict[str, list[str]] = OrderedDict()
        self._characters = 0

    def add(self, sha256: str, texts: list[str]) -> None:
        with self._lock:
            known = self._texts.pop(sha256, [])  # two threads may have read the same file
            self._characters += sum(map(len, texts)) - sum(map(len, known))
            self._texts[sha256] = texts
            while self._characters > CACHED_CHARACTERS_MAX:
                _, oldest = self._texts.popitem(last=False)
                self._characters -= sum(map(len, oldest))

    def get(self, sha256: str) -> list[str] | None:
        with self._lock:
            return self._texts.get(sha256)


_cache = _TextCache()
