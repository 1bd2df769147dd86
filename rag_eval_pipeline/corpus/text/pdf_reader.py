"""PDFs read by a child process: what a hostile file breaks is the child, and the next file gets another one.

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
from pathlib import Path
from typing import Any

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.text.pdf_worker import PdfLimits
from rag_eval_pipeline.storage.confinement import environment, module_command

FILES_A_CHILD = 200  # then a new one: what pdfium does not give back must not be charged to a later file
REMEMBERED_CHARACTERS = 64_000_000  # of texts in memory

_WORKER = "rag_eval_pipeline.corpus.text.pdf_worker"
_CRASHES = {-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGFPE}


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
        if isinstance(source, Path):
            source.stat()
        with self._lock:
            # Somebody else: the end of the thread that had started it, or the system for want of memory.
            answer = self._answer(source, again=True) or self._answer(source, again=False)
        assert answer is not None
        if "code" in answer:
            raise DocumentError(answer["code"], answer["message"])
        return list(answer["texts"])

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

    def _answer(self, source: bytes | Path, *, again: bool) -> dict[str, Any] | None:
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
            request = {"path": str(source.absolute())} if isinstance(source, Path) else {"size": len(source)}
            child.stdin.write(json.dumps(request).encode() + b"\n")
            if isinstance(source, bytes):
                child.stdin.write(source)
            child.stdin.flush()
            line = child.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            timer.cancel()
        if line.endswith(b"\n"):
            answer: dict[str, Any] = json.loads(line)
            return answer
        code = child.wait()
        self.close()
        if late.is_set() or code == -signal.SIGXCPU:
            return {"code": "pdf_bomb", "message": "the PDF takes too long to be read"}
        if code == -signal.SIGKILL and again:
            return None
        if code in _CRASHES:
            return {"code": "pdf_damaged", "message": f"pdfium crashed while reading the PDF (signal {-code})"}
        if code < 0:  # pdfium ends itself when it cannot have memory
            return {"code": "pdf_bomb", "message": f"the PDF needs too much memory to be read (signal {-code})"}
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


@functools.cache
def _reader(process_id: int) -> PdfReader:
    """The reader of this process; a forked one must not share its parent's pipes."""
    reader = PdfReader()
    atexit.register(reader.close)
    return reader


_remembered: "OrderedDict[str, list[str]]" = OrderedDict()
_remembering = threading.Lock()


def read_texts(source: bytes | Path) -> list[str]:
    """The text of each page of a PDF; of one given as bytes it is remembered.

    Raises:
        DocumentError: `pdf_encrypted`, `pdf_damaged`, `pdf_bomb`.
        OSError: There is no such file.
    """
    texts = _reader(os.getpid()).texts(source)
    if isinstance(source, bytes):
        with _remembering:
            _remembered[hashlib.sha256(source).hexdigest()] = texts
            while sum(len(text) for known in _remembered.values() for text in known) > REMEMBERED_CHARACTERS:
                _remembered.popitem(last=False)
    return texts


def remembered_texts(sha256: str) -> list[str] | None:
    """The texts of a PDF that was read as bytes not long ago; None when they have to be read."""
    with _remembering:
        return _remembered.get(sha256)
