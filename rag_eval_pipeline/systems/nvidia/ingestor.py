"""The ingestor's interface: collections, documents, tasks."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rag_eval_pipeline.endpoints.client import Endpoint, EndpointError, Reply
from rag_eval_pipeline.systems.nvidia.settings import UploadSettings

MADE_BY = "rag-eval-pipeline"
LISTED_MAX = 1_000_000  # bound of max_results; its default of 1,000 would hide the rest of a larger corpus
DOCUMENT_BYTES = 2_000  # of one document in the list, generously


class Listing(NamedTuple):
    """The documents of a collection, by their stored names."""

    names: frozenset[str]
    total: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an upload.

    Args:
        is_over: Nothing more will come of it.
        message: The ingestor's own.
        failures: Stored name -> why it was not taken, whatever the status of the reply.
    """

    is_over: bool
    message: str
    failures: Mapping[str, str] = field(default_factory=dict)


class Ingestor:
    """Asks the ingestor.

    Args:
        endpoint: Where it is.
        settings: How documents are uploaded.
    """

    def __init__(self, endpoint: Endpoint, settings: UploadSettings) -> None:
        self._endpoint = endpoint
        self._settings = settings

    async def collections(self) -> dict[str, Mapping[str, Any]]:
        """Name of each collection -> what its maker said of it.

        Raises:
            EndpointError: It could not be asked, or answered something else.
        """
        reply = await self._endpoint.request("GET", "v1/collections")
        found: dict[str, Mapping[str, Any]] = {}
        for collection in _objects(reply, "collections"):
            info = collection.get("collection_info")
            found[str(collection.get("collection_name"))] = info if isinstance(info, dict) else {}
        return found

    async def create(self, collection: str, description: str) -> None:
        """Makes a collection; one that exists is left as it is.

        Raises:
            EndpointError: It could not be made.
        """
        body = {"collection_name": collection, "metadata_schema": []}
        body |= {"description": description, "created_by": MADE_BY}
        await self._endpoint.request("POST", "v1/collection", json=body)

    async def documents(self, collection: str, expected: int) -> Listing:
        """The documents of a collection, all of them.

        Raises:
            EndpointError: It could not be asked, or does not list as many as it says that there are.
        """
        wanted = 2 * expected + 1000
        while True:
            params = {"collection_name": collection, "max_results": min(wanted, LISTED_MAX)}
            reply = await self._endpoint.request("GET", "v1/documents", params=params)
            names = frozenset(str(document.get("document_name")) for document in _objects(reply, "documents"))
            total = reply.json().get("total_documents")
            total = total if isinstance(total, int) else len(names)
            if len(names) >= total:
                return Listing(names, total)
            if total <= wanted or wanted >= LISTED_MAX:
                raise reply.bad(f"a list of all {total} documents, of which {len(names)} are there")
            wanted = total

    async def upload(self, collection: str, paths: Sequence[Path], *, replaces: bool) -> str | Outcome:
        """Sends documents; the id of the task that reads them, or the outcome of an ingestor that did so at once.

        Sent once: whether a request that broke off was taken is not known, and one that adds must not be repeated.

        Args:
            collection: Where they go.
            paths: Of the files.
            replaces: Documents that are there already are replaced, which may be repeated; else they are refused.

        Raises:
            EndpointError: It could not be sent, or was refused.
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
        """What became of a task; one that the ingestor no longer knows is over.

        Raises:
            EndpointError: It could not be asked, or answered something else.
        """
        reply = await self._endpoint.request("GET", "v1/status", params={"task_id": task_id})
        body = _object(reply)
        if body.get("state") == "UNKNOWN":
            return Outcome(True, "the ingestor no longer knows the task that was to read it")
        result = body.get("result")
        return _outcome(result if isinstance(result, dict) else {}, is_over=body.get("state") != "PENDING")


def is_refusal(error: EndpointError) -> bool:
    """The request will not be taken however often it is sent."""
    status = error.http_status
    return status is not None and 400 <= status < 500 and status not in {408, 409, 425, 429}


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
