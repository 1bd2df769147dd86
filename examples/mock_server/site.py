"""What all interfaces share: documents, answers, counts and options."""

import asyncio
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from examples.mock_server.faults import DISGUISING, FAULT_MARK, Fault, FaultScript, known_fault
from rag_eval_pipeline.corpus.text.pages import PAGE_BREAK
from rag_eval_pipeline.corpus.text.pdf import read_texts
from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.systems.base import PageText, Query
from rag_eval_pipeline.systems.embedded_bm25 import EmbeddedSystem
from rag_eval_pipeline.systems.kind_settings import EmbeddedSettings

DEFAULT_COLLECTION = "multimodal_data"
API_KEY_ENV = "MOCK_RAG_SERVER_KEY"
SUPPORTED = (
    *(".pdf", ".docx", ".pptx", ".txt", ".html", ".htm", ".jpg", ".jpeg", ".png", ".tiff", ".tif", ".bmp"),
    *(".mp3", ".wav", ".mp4"),
)


class Passage(NamedTuple):
    """A retrieved passage; `page` is 1-based."""

    document: str
    page: int
    text: str
    score: float


@dataclass(slots=True)
class Collection:
    """Documents: file name -> the texts of its pages."""

    name: str
    info: dict[str, Any] = field(default_factory=dict)
    metadata_schema: list[dict[str, Any]] = field(default_factory=list)
    documents: dict[str, list[str]] = field(default_factory=dict)
    revision: int = 0

    def pages(self) -> Iterator[PageText]:
        """Yield every page with its offset in the document, whose pages are joined by form feeds."""
        for name, texts in sorted(self.documents.items()):
            start = 0
            for number, text in enumerate(texts, 1):
                yield PageText(name, number, start, text)
                start += len(text) + len(PAGE_BREAK)


class Options(NamedTuple):
    """The options of the command line."""

    seed: int = 0
    faults: FaultScript = FaultScript()
    latency_ms: float = 0.0
    canned: bool = False
    ingestion_ms: float = 0.0
    media_every: int = 5
    page_base: int = 1
    unready: str | None = None
    api_key: str | None = None


class Question(NamedTuple):
    """A question without its mark, and what goes wrong with this attempt."""

    interface: str
    text: str
    fault: Fault | None


class Site:
    """The state that all interfaces share: documents, counts and faults."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.collections: dict[str, Collection] = {}
        self.tasks: dict[str, dict[str, Any]] = {}
        self.running: set[asyncio.Task[None]] = set()
        self._systems: dict[tuple[tuple[str, int], ...], EmbeddedSystem] = {}
        self.reset()

    def reset(self) -> None:
        """Set all counts to zero."""
        self.paths: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.attempts: dict[str, Counter[str]] = {}
        self.answered: dict[str, Counter[str]] = {}

    def counts(self, *, by_question: bool) -> dict[str, Any]:
        """Return the number of requests, attempts, questions and answers; with the questions only if requested."""
        counts = {
            "requests": self.paths.total(),
            "attempts": sum(asked.total() for asked in self.attempts.values()),
            "questions": sum(map(len, self.attempts.values())),
            "answered": sum(map(len, self.answered.values())),
            "answered_twice": sum(times > 1 for asked in self.answered.values() for times in asked.values()),
            "paths": self.paths,
            "faults": self.faults,
        }
        if by_question:
            counts |= {"attempts_by_question": self.attempts, "answered_by_question": self.answered}
        return counts

    def ask(self, interface: str, prompt: str, *, counted: str | None = None) -> Question:
        """Count an attempt at a question, under another text if given, and decide whether it fails.

        Raises:
            ValueError: The question's mark names no fault.
        """
        mark = FAULT_MARK.search(prompt)
        text = FAULT_MARK.sub("", prompt, count=1)
        asked = self.attempts.setdefault(interface, Counter())
        key = _count_key(FAULT_MARK.sub("", counted or prompt, count=1))
        asked[key] += 1
        if mark is None:
            fault = self.options.faults.draw(text, asked[key], self.options.seed)
        else:
            fault = Fault(known_fault(mark["name"]), mark["after"])
        if fault is not None:
            self.faults[fault.name] += 1
        return Question(interface, text, fault)

    def count_answer(self, question: Question, counted: str | None = None) -> None:
        """Count a correct answer."""
        if question.fault is None or question.fault.name in DISGUISING:
            self.answered.setdefault(question.interface, Counter())[_count_key(counted or question.text)] += 1

    def missing(self, names: Sequence[str]) -> str | None:
        """Return the error of the first collection that does not exist; canned answers need none."""
        missing = [name for name in names if name not in self.collections and not self.options.canned]
        if not missing:
            return None
        hint = "Ensure a collection is created using POST /collection endpoint first."
        return f"Collection {missing[0]} does not exist. {hint}"

    async def answer(self, question: str, names: Sequence[str]) -> tuple[str, list[Passage]]:
        """Return an answer and its passages, best first; a canned one if there are no documents."""
        if self.options.latency_ms:
            await asyncio.sleep(self.options.latency_ms / 1000)
        collections = [self.collections[name] for name in names if name in self.collections]
        if self.options.canned or not any(collection.documents for collection in collections):
            return canned_answer(question, [name for found in collections for name in found.documents])
        key = tuple((collection.name, collection.revision) for collection in collections)
        if key not in self._systems:
            pages = [page for collection in collections for page in collection.pages()]
            if len(self._systems) >= 8:
                self._systems.clear()
            self._systems[key] = EmbeddedSystem(pages, EmbeddedSettings(k=25))
        found = await self._systems[key].answer(Query("", question))
        passages = [Passage(c.document, c.page or 1, c.text, c.score or 0.0) for c in found.contexts]
        base = self.options.page_base
        text = re.sub(r":(\d+)(?=:\d+-\d+\])", lambda match: f":{int(match[1]) - 1 + base}", found.answer or "")
        return text, passages

    async def ingest(
        self, collection: Collection, files: Sequence[tuple[str, bytes]], *, replace: bool, task: dict[str, Any]
    ) -> None:
        """Read files into a collection, and record in the task what becomes of each."""
        result = task["result"]
        for name, content in files:
            error = await self._ingest_file(collection, name, content, replace=replace)
            task["nv_ingest_status"]["document_wise_status"][name] = "failed" if error else "completed"
            if error:
                result["failed_documents"].append({"document_name": name, "error_message": error})
            else:
                result["documents"].append(listed(name, len(content)))
                result["documents_completed"] += 1
                task["nv_ingest_status"]["extraction_completed"] += 1
        has_failed = bool(result["failed_documents"]) and not result["documents"]
        result["batches_completed"] = 1
        result["message"] = f"Document upload job {'failed' if has_failed else 'successfully completed'}."
        task["state"] = "FAILED" if has_failed else "FINISHED"

    async def _ingest_file(self, collection: Collection, name: str, content: bytes, *, replace: bool) -> str | None:
        if not name.lower().endswith(SUPPORTED):
            return f"Unsupported file type for {name}. Supported: {', '.join(SUPPORTED)}"
        if name in collection.documents and not replace:
            return f"Document {name} already exists. Use update document API instead."
        await asyncio.sleep(self.options.ingestion_ms / 1000)
        try:
            texts = [] if self.options.canned else await asyncio.to_thread(_read_texts, name, content)
        except (DocumentError, UnicodeDecodeError) as error:
            return f"Document {name} could not be read: {error}"
        collection.documents[name] = texts
        collection.revision += 1
        return None


def canned_answer(question: str, documents: Sequence[str]) -> tuple[str, list[Passage]]:
    """Return an answer that follows from the question's hash, with passages of these or of invented documents."""
    digest = hashlib.blake2b(question.encode(errors="surrogatepass"), digest_size=16).digest()
    passages = []
    for rank in range(2):
        number = int.from_bytes(digest[rank * 4 : rank * 4 + 4])
        name = documents[number % len(documents)] if documents else f"canned_{number % 50}.pdf"
        passages.append(Passage(name, number % 7 + 1, f"Passage {number}.", 1.0 / (rank + 1)))
    return f"Answer {digest.hex()[:12]} naïve & short.", passages


async def answer_from_prompt(prompt: str) -> str | None:
    """Return an answer from the numbered passages of a prompt with a citation; None for any other prompt."""
    before, separator, question = prompt.rpartition("\n\nQuestion: ")
    parts = re.split(r"(?m)^\[(\d+)\][^\n]*\n", before)[1:]
    if not separator or not parts:
        return None
    pages = [PageText(number, 1, 0, text.strip()) for number, text in zip(parts[::2], parts[1::2], strict=True)]
    found = await EmbeddedSystem(pages, EmbeddedSettings()).answer(Query("-", question))
    return re.sub(r"\[(\d+):\d+:\d+-\d+\]", r"[\1]", found.answer or "")


def _read_texts(name: str, content: bytes) -> list[str]:
    return [content.decode()] if name.lower().endswith(".txt") else read_texts(content)


def _count_key(text: str) -> str:
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return text if len(text) <= 160 else f"{text[:160]}… {digest[:12]}"


def listed(name: str, size_bytes: int = 0) -> dict[str, Any]:
    """Return a document as the ingestor lists it."""
    info = {"document_type": os.path.splitext(name)[1].removeprefix("."), "file_size": size_bytes}
    return {"document_name": name, "metadata": {}, "document_info": info}


def content_parts(content: str | list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Return the parts of a message, whose content is a text or a list of parts."""
    return content if isinstance(content, list) else [{"text": content or ""}]
