"""Upload a corpus to the ingestor of NVIDIA's RAG Blueprint, and verify the collection before it is asked.

What counts is the ingestor's own list of documents: a reply with status 200 may name documents that failed, and a
finished task may have left some out.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rag_eval_pipeline.errors import EndpointError, ServiceError, counted, os_fault
from rag_eval_pipeline.storage.atomic_files import atomic_write_json
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.systems.base import SystemCorpus
from rag_eval_pipeline.systems.nvidia_settings import UploadSettings
from rag_eval_pipeline.web.client import Endpoint, Reply
from rag_eval_pipeline.web.rate_limits import PERMANENT_STATUSES

logger = logging.getLogger(__name__)

CREATED_BY = "rag-eval-pipeline"
DOCUMENTS_NAMED = 5  # in a message; the others are counted
BATCH_BYTES = 50_000_000  # of one request: half a minute at 2 MB/s, within the default minute of an attempt
FIRST_POLL_SECONDS = 0.1  # doubled up to the settings' `poll_seconds`
LOCK_SECONDS = 0.2  # between two attempts to get the lock
LISTED_MAX = 1_000_000  # bound of max_results; its default of 1,000 would hide the rest of a larger corpus
DOCUMENT_BYTES = 2_000  # of one document in the list, generously

# httpx writes these characters of a file name so, and python-multipart does not decode them. ESC is left as it is.
_ESCAPED = {number: f"%{number:02X}" for number in range(0x20) if number != 0x1B} | {ord('"'): "%22"}


def stored_name(file: str) -> str:
    """Return the name under which an uploaded file is stored, listed and cited.

    Source: WHATWG HTML, multipart form data; python-multipart.
    """
    return file.translate(_ESCAPED)


class StoredNames:
    """The files of a corpus by the names that the server has for them.

    Raises:
        ServiceError: `ambiguous_names`, for two files that the server would store under one name.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self._files: dict[str, str] = {}
        for file in files:
            other = self._files.setdefault(stored_name(file), file)
            if other != file:
                message = f"{other!r} and {file!r} would both be stored as {stored_name(file)!r}"
                raise ServiceError("ambiguous_names", message, hint="Rename one of the documents.")
        # A server that decodes the names stores them as they are.
        self._files = {file: file for file in files} | self._files

    def file(self, name: str) -> str:
        """Return the file behind a stored name; the name itself if the corpus has no such file."""
        return self._files.get(name, name)

    def files(self, names: Iterable[str]) -> set[str]:
        """Return the files behind stored names."""
        return {self.file(name) for name in names}

    def aliases(self, aliases: Mapping[str, str]) -> dict[str, str]:
        """Return the names of documents, both as they are and as they are stored."""
        return {stored_name(alias): file for alias, file in aliases.items()} | dict(aliases)


async def ensure_collection(
    endpoint: Endpoint,
    collection: str,
    corpus: SystemCorpus,
    names: StoredNames,
    settings: UploadSettings,
    *,
    allow_other_documents: bool,
) -> None:
    """Make sure that a collection holds the corpus; upload what it lacks.

    Raises:
        ServiceError: `corpus_not_ingested` naming what is missing, `foreign_documents`, `foreign_collection`,
            `upload_timeout`, `locked`, `ingestor_failed`.
    """
    url = endpoint.settings.base_url
    upload = _Upload(endpoint, collection, corpus, names, settings)
    # Beside the folders of all systems, because two systems that ask one collection share one upload. No system can
    # have a folder of this name.
    digest = hashlib.sha256(f"{url}\n{collection}".encode()).hexdigest()[:16]
    state = corpus.state_folder.parent.parent / ".nvidia" / f"{digest}.json"
    try:
        if settings.enabled and not await upload.is_complete():
            async with _held(state.with_suffix(".lock"), settings.total_seconds):
                try:
                    async with asyncio.timeout(settings.total_seconds):
                        await upload.run(state)
                except TimeoutError:
                    raise ServiceError(
                        "upload_timeout",
                        f"The corpus was not ingested within {settings.total_seconds:g} s",
                        hint="Uploaded documents are kept: start again, or raise upload.total_seconds.",
                    ) from None
        await upload.verify(allow_other_documents=allow_other_documents)
    except EndpointError as error:
        raise ServiceError("ingestor_failed", f"The ingestor at {url} could not be used: {error}") from error


class UploadState(msgspec.Struct):
    """What an earlier process began, so that an upload that was interrupted is resumed.

    Args:
        is_ours: We created the collection, or were about to.
        tasks: Id of a task whose end was not seen -> its documents.
        sending: Documents of the request that was under way.
    """

    is_ours: bool = False
    tasks: dict[str, list[str]] = {}
    sending: list[str] = []

    @classmethod
    def read(cls, path: Path) -> "UploadState":
        """Read the state; a missing or damaged file is an empty one, because the ingestor lists what is there."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return cls()
        except (msgspec.DecodeError, UnicodeDecodeError):
            logger.warning("upload_state_damaged path=%s", path)
            return cls()


class _Upload:
    def __init__(
        self, endpoint: Endpoint, collection: str, corpus: SystemCorpus, names: StoredNames, settings: UploadSettings
    ) -> None:
        self._collection = collection
        self._where = f"collection {collection} at {endpoint.settings.base_url}"
        self._corpus = corpus
        self._names = names
        self._settings = settings
        self._ingestor = Ingestor(endpoint, settings)
        self._failures: dict[str, str] = {}
        self._path = Path()
        self._state = UploadState()

    async def is_complete(self) -> bool:
        """Return whether the collection exists and lacks no document."""
        return self._collection in await self._ingestor.collections() and not await self._missing()

    async def run(self, path: Path) -> None:
        """Create the collection and upload what it lacks; `path` is for the state."""
        self._path, self._state = path, UploadState.read(path)
        known = await self._ingestor.collections()
        if self._collection not in known:
            self._state = UploadState(is_ours=True)
            self._save()
            description = f"corpus {self._corpus.fingerprint} of {self._corpus.benchmark}"
            await self._ingestor.create(self._collection, description)
        elif created_by := known[self._collection].get("created_by"):  # not every version states it
            self._state.is_ours = created_by == CREATED_BY
        for task_id in list(self._state.tasks):  # of a process that did not see their end
            await self._wait(task_id)
        missing = await self._missing()
        if missing and not self._state.is_ours and await self._ingestor.documents(self._collection, 0):
            raise ServiceError(
                "foreign_collection",
                f"The {self._where} was created by another program and lacks "
                f"{len(missing)} of {len(self._corpus.files)} documents",
                hint="Name another `collection`, or complete it by hand.",
            )
        # An interrupted request may have been accepted: its documents are replaced, not added.
        in_doubt = set(self._state.sending)
        for batch in self._batches([file for file in missing if file in in_doubt]):
            await self._send(batch, replaces=True)
        for batch in self._batches([file for file in missing if file not in in_doubt]):
            await self._send(batch, replaces=False)

    async def verify(self, *, allow_other_documents: bool) -> None:
        """Compare the collection with the corpus."""
        if self._collection not in await self._ingestor.collections():
            raise ServiceError(
                "corpus_not_ingested",
                f"There is no {self._where}",
                hint="Set `upload: true`, or upload the corpus by hand.",
            )
        present = self._names.files(await self._ingestor.documents(self._collection, len(self._corpus.files)))
        if missing := [file for file in self._corpus.files if file not in present]:
            named = ", ".join(self._with_reason(file) for file in missing[:DOCUMENTS_NAMED])
            more = f", and {len(missing) - DOCUMENTS_NAMED} more" if len(missing) > DOCUMENTS_NAMED else ""
            raise ServiceError(
                "corpus_not_ingested",
                f"The {self._where} lacks {len(missing)} of {len(self._corpus.files)} documents: {named}{more}",
                hint="An answer cannot be judged without its documents.",
            )
        others = sorted(present - set(self._corpus.files))
        if others and not allow_other_documents:
            raise ServiceError(
                "foreign_documents",
                f"The {self._where} holds {counted(len(others), 'document')} that the corpus does not have, such as "
                f"{others[0]!r}",
                hint="Set `allow_other_documents: true` if they are meant as distractors.",
            )

    def _with_reason(self, file: str) -> str:
        reason = self._failures.get(file)
        return repr(file) if reason is None else f"{file!r} ({reason[:200]})"

    async def _missing(self) -> list[str]:
        present = self._names.files(await self._ingestor.documents(self._collection, len(self._corpus.files)))
        return [file for file in self._corpus.files if file not in present]

    async def _send(self, batch: list[str], *, replaces: bool) -> None:
        paths = [self._corpus.folder / file for file in batch]
        self._state.sending = batch
        self._save()
        try:
            result = await self._ingestor.upload(self._collection, paths, replaces=replaces)
        except OSError as error:
            raise os_fault(error) from error
        except EndpointError as error:
            if replaces or error.http_status in PERMANENT_STATUSES:
                raise
            logger.info("upload_in_doubt collection=%s error=%s", self._collection, error)
            result = await self._ingestor.upload(self._collection, paths, replaces=True)
        self._state.sending = []
        if isinstance(result, Outcome):
            self._note(result, batch)
            self._save()
        else:
            self._state.tasks[result] = batch
            self._save()
            await self._wait(result)

    async def _wait(self, task_id: str) -> None:
        wait_s = FIRST_POLL_SECONDS
        while not (outcome := await self._ingestor.outcome(task_id)).is_over:
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, self._settings.poll_seconds)
        documents = self._state.tasks.pop(task_id)
        self._note(outcome, documents)
        self._save()
        logger.info(
            "batch_ingested collection=%s documents=%d failed=%d",
            self._collection, len(documents), len(outcome.failures),
        )  # fmt: skip

    def _note(self, outcome: "Outcome", batch: Sequence[str]) -> None:
        """Remember why documents failed, for the message if they turn out to be missing."""
        self._failures |= {self._names.file(name): reason for name, reason in outcome.failures.items()}
        if not outcome.failures and outcome.message:
            self._failures |= dict.fromkeys(batch, outcome.message)

    def _batches(self, files: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        size_bytes = 0
        for file in files:
            path = self._corpus.folder / file
            file_bytes = path.stat().st_size if path.exists() else 0
            if len(batch) == self._settings.batch_documents or (batch and size_bytes + file_bytes > BATCH_BYTES):
                yield batch
                batch, size_bytes = [], 0
            batch.append(file)
            size_bytes += file_bytes
        if batch:
            yield batch

    def _save(self) -> None:
        atomic_write_json(self._path, msgspec.to_builtins(self._state))


@contextlib.asynccontextmanager
async def _held(path: Path, seconds: float) -> AsyncIterator[None]:
    """Hold a lock, without blocking the event loop while another process has it."""
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        while True:
            try:
                holder = f"an upload, process {os.getpid()}"
                stack.enter_context(locked(path, holder=holder, exclusive=True, wait_seconds=0.0))
                break
            except ServiceError:
                if time.monotonic() >= deadline:
                    raise
                await asyncio.sleep(LOCK_SECONDS)
        yield


# --- The ingestor's interface


class Outcome(NamedTuple):
    """What became of an upload.

    Args:
        failures: Stored name -> why it was not ingested, whatever the status of the reply.
    """

    is_over: bool
    message: str
    failures: Mapping[str, str] = {}


class Ingestor:
    """Requests to the ingestor; each raises `EndpointError` if it fails or the answer has another form."""

    def __init__(self, endpoint: Endpoint, settings: UploadSettings) -> None:
        self._endpoint = endpoint
        self._settings = settings

    async def collections(self) -> dict[str, Mapping[str, Any]]:
        """Return each collection's name -> what its creator stated about it."""
        found: dict[str, Mapping[str, Any]] = {}
        for collection in _objects(await self._endpoint.request("GET", "v1/collections"), "collections"):
            info = collection.get("collection_info")
            found[str(collection.get("collection_name"))] = info if isinstance(info, dict) else {}
        return found

    async def create(self, collection: str, description: str) -> None:
        """Create a collection; one that exists is left as it is."""
        body = {"collection_name": collection, "metadata_schema": []}
        body |= {"description": description, "created_by": CREATED_BY}
        await self._endpoint.request("POST", "v1/collection", json=body)

    async def documents(self, collection: str, expected: int) -> frozenset[str]:
        """Return the stored names of all documents of a collection; `expected` is a guess at their number."""
        wanted = 2 * expected + 1000
        while True:
            params = {"collection_name": collection, "max_results": min(wanted, LISTED_MAX)}
            reply = await self._endpoint.request("GET", "v1/documents", params=params)
            names = frozenset(str(document.get("document_name")) for document in _objects(reply, "documents"))
            total = reply.json().get("total_documents")
            if not isinstance(total, int) or len(names) >= total:
                return names
            if total <= wanted or wanted >= LISTED_MAX:
                raise reply.bad(f"a list of all {counted(total, 'document')}, of which {len(names)} are there")
            wanted = total

    async def upload(self, collection: str, paths: Sequence[Path], *, replaces: bool) -> str | Outcome:
        """Send documents; return the id of the task that reads them, or the outcome if the ingestor did so at once.

        With `replaces` existing documents are replaced, which may be repeated. A request that only adds is sent once,
        because one that broke off may have been accepted.
        """
        data: dict[str, Any] = {"collection_name": collection, "blocking": False, "generate_summary": False}
        if self._settings.chunk_size is not None:
            options = {"chunk_size": self._settings.chunk_size, "chunk_overlap": self._settings.chunk_overlap}
            data["split_options"] = options
        with contextlib.ExitStack() as stack:
            files = [
                ("documents", (path.name, stack.enter_context(path.open("rb")), "application/pdf")) for path in paths
            ]
            reply = await self._endpoint.request(
                "PATCH" if replaces else "POST",
                "v1/documents",
                files=files,
                data={"data": json.dumps(data)},
                retried=replaces,
            )
        body = _object(reply)
        task_id = body.get("task_id")
        return task_id if isinstance(task_id, str) and task_id else _outcome(body, is_over=True)

    async def outcome(self, task_id: str) -> Outcome:
        """Return what became of a task; one that the ingestor no longer knows is over."""
        body = _object(await self._endpoint.request("GET", "v1/status", params={"task_id": task_id}))
        if body.get("state") == "UNKNOWN":
            return Outcome(True, "the ingestor no longer knows the task that was to read it")
        result = body.get("result")
        return _outcome(result if isinstance(result, dict) else {}, is_over=body.get("state") != "PENDING")


def _outcome(body: Mapping[str, Any], *, is_over: bool) -> Outcome:
    failed = body.get("failed_documents")
    failures = {
        str(document.get("document_name")): " ".join(str(document.get("error_message")).split())
        for document in (failed if isinstance(failed, list) else [])
        if isinstance(document, dict)
    }
    return Outcome(is_over, " ".join(str(body.get("message") or "").split()), failures)


def _object(reply: Reply) -> dict[str, Any]:
    body = reply.json()
    if not isinstance(body, dict):
        raise reply.bad("a JSON object")
    return body


def _objects(reply: Reply, key: str) -> list[dict[str, Any]]:
    found = _object(reply).get(key)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise reply.bad(f"a list of objects under {key!r}")
    return found
