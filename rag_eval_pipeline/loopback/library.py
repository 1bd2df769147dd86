"""The documents that were uploaded: collections of them, read page by page, and the tasks that read them."""

import asyncio
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.corpus.text.pages import PAGE_BREAK
from rag_eval_pipeline.corpus.text.pdf_reader import read_texts
from rag_eval_pipeline.systems.corpus import PageText

# What the real ingestor takes; only PDF and plain text are read here.
SUPPORTED = (
    *(".pdf", ".docx", ".pptx", ".txt", ".html", ".htm"),
    *(".jpg", ".jpeg", ".png", ".tiff", ".tif", ".bmp"),
    *(".mp3", ".wav", ".mp4"),
)


class UploadedFile(NamedTuple):
    """A file as it was sent; `name` is its basename."""

    name: str
    content: bytes


@dataclass(slots=True)
class Collection:
    """Documents by name, each the texts of its pages.

    Args:
        name: As created.
        info: What its creator says of it.
        metadata_schema: As given.
        documents: Basename -> page texts.
        revision: Counts the changes.
    """

    name: str
    info: dict[str, Any] = field(default_factory=dict)
    metadata_schema: list[dict[str, Any]] = field(default_factory=list)
    documents: dict[str, list[str]] = field(default_factory=dict)
    revision: int = 0

    def pages(self) -> list[PageText]:
        """Every page with its offset in its document, pages joined by one form feed."""
        found = []
        for name, texts in sorted(self.documents.items()):
            start = 0
            for number, text in enumerate(texts, 1):
                found.append(PageText(name, number, start, text))
                start += len(text) + len(PAGE_BREAK)
        return found


@dataclass(slots=True)
class IngestionTask:
    """An upload that is being read.

    Args:
        state: As the ingestor names it.
        result: What has become of its documents so far.
        statuses: Name of each document -> `pending`, `completed` or `failed`.
    """

    state: str
    result: dict[str, Any]
    statuses: dict[str, str]


class Library:
    """All collections and tasks.

    Args:
        reads: Whether documents are read; a server with canned answers only keeps their names.
        ingestion_ms: That each document takes beside its reading.
    """

    def __init__(self, *, reads: bool, ingestion_ms: float = 0.0) -> None:
        self.collections: dict[str, Collection] = {}
        self.tasks: dict[str, IngestionTask] = {}
        self._reads = reads
        self._ingestion_ms = ingestion_ms
        self._numbers = itertools.count(1)
        self._running: set[asyncio.Task[None]] = set()

    def start(self, collection: Collection, files: Sequence[UploadedFile], *, replaces: bool) -> str:
        """Reads an upload in the background; returns the id of its task."""
        task_id = f"task-{next(self._numbers):06d}"
        self.tasks[task_id] = task = IngestionTask(
            "PENDING", upload_result(files), {file.name: "pending" for file in files}
        )
        running = asyncio.get_running_loop().create_task(self._run(task, collection, files, replaces=replaces))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return task_id

    async def take_in(
        self,
        collection: Collection,
        files: Sequence[UploadedFile],
        *,
        replaces: bool,
        task: IngestionTask | None = None,
    ) -> dict[str, Any]:
        """Reads an upload into a collection; the ingestor's account of it.

        Args:
            collection: Where the documents go.
            files: In the order of the request; of a name that comes twice only the first file is kept.
            replaces: Documents of the same name are replaced; else they are refused.
            task: Told of each document that has been read.
        """
        result = upload_result(files)
        seen: set[str] = set()
        for file in files:
            if file.name in seen:
                result["validation_errors"].append(
                    {
                        "error": f"File {file.name} is given twice; only the first is kept.",
                        "metadata": {"filename": file.name},
                    }
                )
                continue
            seen.add(file.name)
            fault = await self._take(collection, file, replaces=replaces)
            if fault is None:
                result["documents"].append(listed_document(file.name, len(file.content)))
                result["documents_completed"] += 1
            else:
                result["failed_documents"].append({"document_name": file.name, "error_message": fault})
            if task is not None:
                task.statuses[file.name] = "completed" if fault is None else "failed"
        result["batches_completed"] = 1
        result["message"] = (
            "Document upload job successfully completed."
            if result["documents"] or not result["failed_documents"]
            else "Document upload job failed. All files failed to validate. Check logs for details."
        )
        return result

    async def _run(
        self, task: IngestionTask, collection: Collection, files: Sequence[UploadedFile], *, replaces: bool
    ) -> None:
        task.result = await self.take_in(collection, files, replaces=replaces, task=task)
        task.state = "FINISHED" if task.result["documents"] or not task.result["failed_documents"] else "FAILED"

    async def _take(self, collection: Collection, file: UploadedFile, *, replaces: bool) -> str | None:
        if not file.name.lower().endswith(SUPPORTED):
            return f"Unsupported file type for {file.name}. Supported: {', '.join(SUPPORTED)}"
        if file.name in collection.documents and not replaces:
            return f"Document {file.name} already exists. Use update document API instead."
        if self._ingestion_ms:
            await asyncio.sleep(self._ingestion_ms / 1000)
        try:
            texts = await asyncio.to_thread(_texts, file) if self._reads else []
        except (DocumentError, UnicodeDecodeError) as error:
            return f"Document {file.name} could not be read: {error}"
        collection.documents[file.name] = texts
        collection.revision += 1
        return None


def read_folder(folder: Path) -> list[UploadedFile]:
    """The PDFs of a folder, by name."""
    return [UploadedFile(path.name, path.read_bytes()) for path in sorted(folder.glob("*.pdf"))]


def upload_result(files: Sequence[UploadedFile]) -> dict[str, Any]:
    """The account of an upload of which nothing is done yet."""
    return {
        "message": "Ingestion is in progress.",
        "total_documents": len(files),
        "documents_completed": 0,
        "batches_completed": 0,
        "documents": [],
        "failed_documents": [],
        "validation_errors": [],
    }


def listed_document(name: str, size_bytes: int = 0) -> dict[str, Any]:
    """A document as lists name it."""
    return {
        "document_name": name,
        "metadata": {},
        "document_info": {"document_type": os.path.splitext(name)[1].removeprefix("."), "file_size": size_bytes},
    }


def _texts(file: UploadedFile) -> list[str]:
    return [file.content.decode()] if file.name.lower().endswith(".txt") else read_texts(file.content)
