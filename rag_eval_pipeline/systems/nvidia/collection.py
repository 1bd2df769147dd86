"""The corpus in the ingestor's collection: made, filled and verified before the first question is asked.

What counts is the ingestor's own list of documents. A reply with status 200 may name documents that failed, and a task
that finished may have left some out, so the end of an upload is another look at the list.
"""

import asyncio
import contextlib
import hashlib
import itertools
import logging
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

from rag_eval_pipeline.endpoints.client import Endpoint, EndpointError
from rag_eval_pipeline.errors import ServiceError, os_fault
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.systems.corpus import SystemCorpus
from rag_eval_pipeline.systems.nvidia.ingestor import MADE_BY, Ingestor, Outcome, is_refusal
from rag_eval_pipeline.systems.nvidia.ledger import UploadLedger
from rag_eval_pipeline.systems.nvidia.names import StoredNames
from rag_eval_pipeline.systems.nvidia.settings import NvidiaSettings

logger = logging.getLogger(__name__)

NAMED_DOCUMENTS = 5  # in a message; the count says how many more there are
BATCH_BYTES = 50_000_000  # of one request: half a minute at 2 MB/s, within the minute that an attempt has by default
POLL_SECONDS = 0.1  # first wait for a task, doubled up to the settings'
LOCK_SECONDS = 0.2  # between two tries to take the lock


async def ensure_collection(
    endpoint: Endpoint, settings: NvidiaSettings, corpus: SystemCorpus, names: StoredNames
) -> str:
    """Name of the collection that holds the corpus, uploaded if need be.

    Args:
        endpoint: The ingestor.
        settings: Whether to upload, and what the collection is called.
        corpus: What it is to hold.
        names: Of the corpus.

    Raises:
        ServiceError: `corpus_not_ingested` naming what is missing, `foreign_documents`, `foreign_collection`,
            `upload_timeout`, `locked`, `ingestor_failed`.
    """
    collection = settings.collection_name(corpus.benchmark, corpus.fingerprint)
    filling = _Filling(endpoint, settings, corpus, names, collection)
    try:
        if settings.upload.enabled and not await filling.is_complete():
            async with _held(filling.lock_path, settings.upload.total_seconds):
                await _within(filling, settings.upload.total_seconds)
        await filling.verify()
    except EndpointError as error:
        url = endpoint.settings.base_url
        raise ServiceError("ingestor_failed", f"The ingestor at {url} could not be used: {error}") from error
    return collection


class _Filling:
    """One collection on its way to hold one corpus."""

    def __init__(
        self, endpoint: Endpoint, settings: NvidiaSettings, corpus: SystemCorpus, names: StoredNames, collection: str
    ) -> None:
        self._url = endpoint.settings.base_url
        self._settings = settings
        self._corpus = corpus
        self._names = names
        self._collection = collection
        self._ingestor = Ingestor(endpoint, settings.upload)
        self._failures: dict[str, str] = {}
        self._state = _state_path(corpus, self._url, collection)
        self.lock_path = self._state.with_suffix(".lock")

    async def is_complete(self) -> bool:
        """There is the collection, and it lacks no document."""
        return self._collection in await self._ingestor.collections() and not await self._missing()

    async def fill(self) -> None:
        """Makes the collection and uploads what it lacks."""
        ledger = UploadLedger(self._state, self._url, self._collection)
        known = await self._ingestor.collections()
        if self._collection not in known:
            ledger.save(is_ours=True, tasks={}, sending=[])
            description = f"corpus {self._corpus.fingerprint} of {self._corpus.benchmark}"
            await self._ingestor.create(self._collection, description)
        elif made_by := known[self._collection].get("created_by"):  # not every version says it
            ledger.save(is_ours=made_by == MADE_BY)
        for task_id in list(ledger.record.tasks):  # of a process that did not see their end
            await self._wait(task_id, ledger)
        missing = await self._missing()
        if missing and not ledger.record.is_ours and await self._present():
            raise ServiceError(
                "foreign_collection",
                f"The collection {self._collection} at {self._url} was made by somebody else and lacks "
                f"{len(missing)} of {len(self._corpus.files)} documents",
                hint="Name another `collection`, or complete it by hand.",
            )
        # Whether the request that was under way was taken is not known: its documents are replaced, not added.
        in_doubt = set(ledger.record.sending)
        again, others = [f for f in missing if f in in_doubt], [f for f in missing if f not in in_doubt]
        for batch in itertools.chain(self._batches(again), self._batches(others)):
            await self._send(batch, ledger, replaces=batch[0] in in_doubt)

    async def verify(self) -> None:
        """Compares the collection with the corpus.

        Raises:
            ServiceError: `corpus_not_ingested`, `foreign_documents`.
        """
        where = f"the collection {self._collection} at {self._url}"
        if self._collection not in await self._ingestor.collections():
            message = f"There is no {where.removeprefix('the ')}"
            raise ServiceError("corpus_not_ingested", message, hint="Set `upload: true`, or upload the corpus by hand.")
        if missing := await self._missing():
            found = ", ".join(self._with_reason(file) for file in missing[:NAMED_DOCUMENTS])
            more = f", and {len(missing) - NAMED_DOCUMENTS} more" if len(missing) > NAMED_DOCUMENTS else ""
            message = f"{where[0].upper()}{where[1:]} lacks {len(missing)} of {len(self._corpus.files)} documents: "
            raise ServiceError(
                "corpus_not_ingested",
                f"{message}{found}{more}",
                hint="An answer cannot be judged without its documents.",
            )
        others = sorted(self._names.files(await self._present()) - set(self._corpus.files))
        if others and not self._settings.allow_other_documents:
            raise ServiceError(
                "foreign_documents",
                f"{where[0].upper()}{where[1:]} holds {len(others)} documents that are not of the corpus, such as "
                f"{others[0]!r}",
                hint="Set `allow_other_documents: true` if they are meant to distract.",
            )

    def _with_reason(self, file: str) -> str:
        reason = self._failures.get(file)
        return repr(file) if reason is None else f"{file!r} ({reason[:200]})"

    async def _missing(self) -> list[str]:
        present = self._names.files(await self._present())
        return [file for file in self._corpus.files if file not in present]

    async def _present(self) -> frozenset[str]:
        return (await self._ingestor.documents(self._collection, len(self._corpus.files))).names

    async def _send(self, batch: list[str], ledger: UploadLedger, *, replaces: bool) -> None:
        paths = [self._corpus.folder / file for file in batch]
        ledger.save(sending=batch)
        try:
            begun = await self._ingestor.upload(self._collection, paths, replaces=replaces)
        except OSError as error:
            raise os_fault(error) from error
        except EndpointError as error:
            if replaces or is_refusal(error):
                raise
            logger.info("upload_in_doubt collection=%s error=%s", self._collection, error)
            begun = await self._ingestor.upload(self._collection, paths, replaces=True)
        if isinstance(begun, Outcome):
            self._note(begun, batch)
            ledger.save(sending=[])
            return
        ledger.task_begun(begun, batch)
        await self._wait(begun, ledger)

    async def _wait(self, task_id: str, ledger: UploadLedger) -> None:
        wait_s = POLL_SECONDS
        while not (outcome := await self._ingestor.outcome(task_id)).is_over:
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, self._settings.upload.poll_seconds)
        documents = ledger.record.tasks[task_id]
        self._note(outcome, documents)
        ledger.task_ended(task_id)
        logger.info(
            "batch_ingested collection=%s documents=%d failed=%d",
            self._collection, len(documents), len(outcome.failures),
        )  # fmt: skip

    def _batches(self, files: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        size_bytes = 0
        for file in files:
            path = self._corpus.folder / file
            file_bytes = path.stat().st_size if path.exists() else 0
            if len(batch) == self._settings.upload.batch_documents or (batch and size_bytes + file_bytes > BATCH_BYTES):
                yield batch
                batch, size_bytes = [], 0
            batch.append(file)
            size_bytes += file_bytes
        if batch:
            yield batch

    def _note(self, outcome: Outcome, batch: Sequence[str]) -> None:
        for name, reason in outcome.failures.items():
            self._failures[self._names.file(name)] = reason
        if not outcome.failures and outcome.message:
            for file in batch:  # looked at only if the file turns out to be missing
                self._failures[file] = outcome.message


async def _within(filling: _Filling, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await filling.fill()
    except TimeoutError:
        message = f"The corpus was not ingested within {seconds:g} s"
        raise ServiceError(
            "upload_timeout", message, hint="What was uploaded is kept: begin again, or raise upload.total_seconds."
        ) from None


@contextlib.asynccontextmanager
async def _held(path: Path, seconds: float) -> AsyncIterator[None]:
    """Holds a lock without holding up the event loop while it is another's."""
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


def _state_path(corpus: SystemCorpus, url: str, collection: str) -> Path:
    """Where the upload of a collection is recorded.

    Beside the folders of all systems: two systems that ask one collection share one upload, and must not both send it.
    The folder's name is none that a system can have.
    """
    digest = hashlib.sha256(f"{url}\n{collection}".encode()).hexdigest()[:16]
    return corpus.state_folder.parent.parent / ".nvidia" / f"{digest}.json"
