"""The NVIDIA ingestor's interface: collections, documents, and the state of uploads."""

import os
from typing import Any

import msgspec
import pydantic

from rag_eval_pipeline.loopback.bodies import parsed, refusal, send_json
from rag_eval_pipeline.loopback.ingestor_shapes import CreateCollection, ListDocuments, UploadRequest
from rag_eval_pipeline.loopback.library import Collection, UploadedFile, listed_document, upload_result
from rag_eval_pipeline.loopback.multipart import parts_of
from rag_eval_pipeline.loopback.rag import health
from rag_eval_pipeline.loopback.site import Site
from rag_eval_pipeline.loopback.wire import Connection, Request


class IngestorServer:
    """Takes documents into the site's collections.

    Args:
        site: The server's state.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._library = site.library

    async def health(self, request: Request, connection: Connection) -> None:
        """`GET /v1/health`."""
        await send_json(connection, {**health(request, self._site), "processing": [], "task_management": []})

    async def collections(self, _: Request, connection: Connection) -> None:
        """`GET /v1/collections`."""
        listed = [
            {
                "collection_name": collection.name,
                "num_entities": sum(max(1, len(texts)) for texts in collection.documents.values()),
                "metadata_schema": collection.metadata_schema,
                "collection_info": collection.info,
            }
            for collection in self._library.collections.values()
        ]
        message = "Collections listed successfully."
        await send_json(connection, {"message": message, "total_collections": len(listed), "collections": listed})

    async def create(self, request: Request, connection: Connection) -> None:
        """`POST /v1/collection`; of one that exists it says so, with status 200."""
        wanted = await parsed(CreateCollection, request, connection)
        if wanted is None:
            return
        name = wanted.collection_name
        message = f"Collection {name} already exists."
        if name not in self._library.collections:
            info = wanted.model_dump(
                include={"description", "tags", "owner", "created_by", "business_domain", "status"}
            )
            self._library.collections[name] = Collection(name, info, wanted.metadata_schema)
            message = f"Collection {name} created successfully."
        await send_json(connection, {"message": message, "collection_name": name})

    async def delete_collections(self, request: Request, connection: Connection) -> None:
        """`DELETE /v1/collections`."""
        names = await _names(request, connection)
        if names is None:
            return
        successful = [name for name in names if self._library.collections.pop(name, None) is not None]
        failed = [
            {"collection_name": name, "error_message": f"Collection {name} not found."}
            for name in names
            if name not in successful
        ]
        body: dict[str, Any] = {"message": "Collection deletion process completed."}
        body |= {"successful": successful, "failed": failed}
        await send_json(connection, body | {"total_success": len(successful), "total_failed": len(failed)})

    async def upload(self, request: Request, connection: Connection) -> None:
        """`POST` (add) and `PATCH` (replace) `/v1/documents`."""
        try:
            parts = parts_of(request.body, request.headers.get("content-type", ""))
        except ValueError as error:
            await send_json(connection, {"detail": [{"type": "value_error", "loc": ["body"], "msg": str(error)}]}, 422)
            return
        data = next((part.content for part in parts if part.name == "data"), b"{}")
        try:
            wanted = UploadRequest.model_validate_json(data)
        except pydantic.ValidationError as error:
            await send_json(connection, refusal(error), 422)
            return
        files = [
            UploadedFile(os.path.basename(part.filename or ""), part.content)
            for part in parts
            if part.name == "documents"
        ]
        collection = self._library.collections.get(wanted.collection_name)
        if collection is None:
            message = f"Collection {wanted.collection_name} does not exist. Ensure a collection is created first."
            await send_json(connection, {**upload_result(files), "message": message})
            return
        replaces = request.method == "PATCH"
        if wanted.blocking:
            await send_json(connection, await self._library.take_in(collection, files, replaces=replaces))
            return
        task_id = self._library.start(collection, files, replaces=replaces)
        await send_json(connection, {"message": "Ingestion started in background", "task_id": task_id})

    async def status(self, request: Request, connection: Connection) -> None:
        """`GET /v1/status?task_id=`."""
        task = self._library.tasks.get(request.query.get("task_id", ""))
        if task is None:
            body: dict[str, Any] = {"state": "UNKNOWN", "result": upload_result([])}
            body["nv_ingest_status"] = {"extraction_completed": 0, "document_wise_status": {}}
        else:
            done = sum(status == "completed" for status in task.statuses.values())
            body = {"state": task.state, "result": task.result}
            body["nv_ingest_status"] = {"extraction_completed": done, "document_wise_status": task.statuses}
        await send_json(connection, body)

    async def documents(self, request: Request, connection: Connection) -> None:
        """`GET /v1/documents`: at most `max_results` of them, and how many there are."""
        try:
            wanted = ListDocuments.model_validate(request.query)
        except pydantic.ValidationError as error:
            await send_json(connection, refusal(error), 422)
            return
        collection = self._library.collections.get(wanted.collection_name)
        if collection is None:
            await send_json(
                connection, _document_list(f"Collection {wanted.collection_name} does not exist.", [], 0), 400
            )
            return
        names = sorted(collection.documents)
        message = "Document listing successfully completed."
        await send_json(connection, _document_list(message, names[: wanted.max_results], len(names)))

    async def delete_documents(self, request: Request, connection: Connection) -> None:
        """`DELETE /v1/documents`."""
        names = await _names(request, connection)
        if names is None:
            return
        collection = self._library.collections.get(request.query.get("collection_name", ""))
        deleted = (
            [] if collection is None else [name for name in names if collection.documents.pop(name, None) is not None]
        )
        if collection is not None and deleted:
            collection.revision += 1
        await send_json(connection, _document_list("Files deleted successfully", deleted, len(deleted)))


def _document_list(message: str, names: list[str], total: int) -> dict[str, Any]:
    return {"message": message, "total_documents": total, "documents": [listed_document(name) for name in names]}


async def _names(request: Request, connection: Connection) -> list[str] | None:
    """The body as a list of names; None when a 422 has been sent."""
    try:
        return msgspec.json.decode(request.body, type=list[str])
    except msgspec.MsgspecError as error:
        await send_json(connection, {"detail": [{"type": "list_type", "loc": ["body"], "msg": str(error)}]}, 422)
        return None
