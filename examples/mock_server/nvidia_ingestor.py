"""NVIDIA's ingestor: collections, documents, tasks."""

import asyncio
import os
import re
from collections.abc import Sequence
from email.message import Message
from typing import Any

import pydantic
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from examples.mock_server.nvidia_rag import Documented
from examples.mock_server.site import DEFAULT_COLLECTION, Collection, Site, listed


class CreateCollection(Documented):
    """The body of `POST /v1/collection`."""

    collection_name: str = pydantic.Field(min_length=1)
    metadata_schema: list[dict[str, Any]] = []
    embedding_dimension: int = 2048
    vdb_endpoint: str = ""
    description: str = ""
    tags: list[str] = []
    owner: str = ""
    created_by: str = ""
    business_domain: str = ""
    status: str = ""


class UploadRequest(Documented):
    """The part `data` of `POST /v1/documents`."""

    collection_name: str = DEFAULT_COLLECTION
    blocking: bool = False
    split_options: dict[str, int] = {}
    custom_metadata: list[dict[str, Any]] = []
    generate_summary: bool = False
    summary_options: dict[str, Any] | None = None
    vdb_endpoint: str = ""


class ListDocuments(pydantic.BaseModel):
    """The query of `GET /v1/documents`."""

    collection_name: str = DEFAULT_COLLECTION
    max_results: int = pydantic.Field(1000, ge=1, le=1_000_000)


async def list_collections(site: Site, request: Request) -> Response:
    """`GET /v1/collections`."""
    listed = [
        {
            "collection_name": collection.name,
            "num_entities": sum(max(1, len(texts)) for texts in collection.documents.values()),
            "metadata_schema": collection.metadata_schema,
            "collection_info": collection.info,
        }
        for collection in site.collections.values()
    ]
    message = "Collections listed successfully."
    return JSONResponse({"message": message, "total_collections": len(listed), "collections": listed})


async def create_collection(site: Site, request: Request) -> Response:
    """`POST /v1/collection`; status 200 also if the collection exists."""
    wanted = CreateCollection.model_validate_json(await request.body())
    name = wanted.collection_name
    message = f"Collection {name} already exists."
    if name not in site.collections:
        info = wanted.model_dump(include={"description", "tags", "owner", "created_by", "business_domain", "status"})
        site.collections[name] = Collection(name, info, wanted.metadata_schema)
        message = f"Collection {name} created successfully."
    return JSONResponse({"message": message, "collection_name": name})


async def delete_collections(site: Site, request: Request) -> Response:
    """`DELETE /v1/collections`."""
    names = pydantic.TypeAdapter(list[str]).validate_json(await request.body())
    deleted = [name for name in names if site.collections.pop(name, None) is not None]
    failed = [
        {"collection_name": name, "error_message": f"Collection {name} not found."}
        for name in names
        if name not in deleted
    ]
    body: dict[str, Any] = {
        "message": "Collection deletion process completed.",
        "successful": deleted,
        "failed": failed,
    }
    return JSONResponse(body | {"total_success": len(deleted), "total_failed": len(failed)})


async def upload_documents(site: Site, request: Request) -> Response:
    """`POST` (add) and `PATCH` (replace) `/v1/documents`."""
    parts = parse_multipart(await request.body(), request.headers.get("content-type", ""))
    data = next((content for name, _, content in parts if name == "data"), b"{}")
    wanted = UploadRequest.model_validate_json(data)
    files: dict[str, bytes] = {}
    repeated = []
    for field_name, filename, content in parts:
        if field_name == "documents":
            name = os.path.basename(filename or "")
            repeated += [name] if name in files else []
            files.setdefault(name, content)
    task = new_task(list(files))
    task["result"]["total_documents"] += len(repeated)
    task["result"]["validation_errors"] = [
        {"error": f"File {name} is given twice; only the first is kept.", "metadata": {"filename": name}}
        for name in repeated
    ]
    collection = site.collections.get(wanted.collection_name)
    if collection is None:
        message = f"Collection {wanted.collection_name} does not exist. Ensure a collection is created first."
        return JSONResponse({**task["result"], "message": message})
    work = site.ingest(collection, list(files.items()), replace=request.method == "PATCH", task=task)
    if wanted.blocking:
        await work
        return JSONResponse(task["result"])
    task_id = f"task-{len(site.tasks) + 1:06d}"
    site.tasks[task_id] = task
    running = asyncio.create_task(work)
    site.running.add(running)
    running.add_done_callback(site.running.discard)
    return JSONResponse({"message": "Ingestion started in background", "task_id": task_id})


async def task_status(site: Site, request: Request) -> Response:
    """`GET /v1/status?task_id=`."""
    return JSONResponse(site.tasks.get(request.query_params.get("task_id", "")) or new_task([], state="UNKNOWN"))


async def list_documents(site: Site, request: Request) -> Response:
    """`GET /v1/documents`: at most `max_results` of them, and their number."""
    wanted = ListDocuments.model_validate(dict(request.query_params))
    collection = site.collections.get(wanted.collection_name)
    if collection is None:
        return JSONResponse(_document_list(f"Collection {wanted.collection_name} does not exist.", [], 0), 400)
    names = sorted(collection.documents)
    message = "Document listing successfully completed."
    return JSONResponse(_document_list(message, names[: wanted.max_results], len(names)))


async def delete_documents(site: Site, request: Request) -> Response:
    """`DELETE /v1/documents`."""
    names = pydantic.TypeAdapter(list[str]).validate_json(await request.body())
    collection = site.collections.get(request.query_params.get("collection_name", ""), Collection(""))
    deleted = [name for name in names if collection.documents.pop(name, None) is not None]
    collection.revision += bool(deleted)
    return JSONResponse(_document_list("Files deleted successfully", deleted, len(deleted)))


def parse_multipart(body: bytes, content_type: str) -> list[tuple[str, str | None, bytes]]:
    """Return name, file name and content of each part of a multipart/form-data body.

    File names stay as they are: NVIDIA's servers do not decode the `%22` that clients write for a quotation mark.

    Raises:
        ValueError: The body is not multipart/form-data, or its end is missing.
    """
    header = Message()
    header["content-type"] = content_type
    boundary = header.get_param("boundary")
    if header.get_content_type() != "multipart/form-data" or not isinstance(boundary, str):
        raise ValueError("expected a multipart/form-data body")
    first, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1"))
    if not parts or not parts[-1].startswith(b"--"):
        raise ValueError("the end of the multipart body is missing")
    found = []
    for part in parts[:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        disposition = re.search(rb"(?im)^content-disposition:[ \t]*(form-data.*?)\r?$", head)
        header = Message()
        header["content-disposition"] = disposition[1].decode("latin-1") if disposition else ""
        values = {
            str(key).lower(): str(value).encode("latin-1").decode("utf-8", "surrogateescape")
            for key, value in header.get_params([], "content-disposition")
        }
        if "name" not in values:
            raise ValueError("a part has no name")
        found.append((values["name"], values.get("filename"), content))
    return found


def new_task(names: Sequence[str], state: str = "PENDING") -> dict[str, Any]:
    """Return the state of an ingestion that has begun."""
    result = {
        "message": "Ingestion is in progress.",
        "total_documents": len(names),
        "documents_completed": 0,
        "batches_completed": 0,
        "documents": [],
        "failed_documents": [],
        "validation_errors": [],
    }
    statuses = dict.fromkeys(names, "pending")
    progress = {"extraction_completed": 0, "document_wise_status": statuses}
    return {"state": state, "result": result, "nv_ingest_status": progress}


def _document_list(message: str, names: Sequence[str], total: int) -> dict[str, Any]:
    return {"message": message, "total_documents": total, "documents": [listed(name) for name in names]}
