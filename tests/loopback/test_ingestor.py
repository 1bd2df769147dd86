"""The ingestor's shapes are the documented ones, and it takes in what it can read."""

import json
import time

import pytest

from rag_eval_pipeline.loopback.ingestor_shapes import (
    CollectionList,
    CreatedCollection,
    DeletedCollections,
    DocumentList,
    IngestionTask,
    TaskStatus,
    UploadResult,
)
from rag_eval_pipeline.loopback.shapes import HealthResponse
from tests.loopback import plain_http
from tests.loopback.paper import BELL, HARBOUR, LIGHT, paper


@pytest.fixture
def collection(server, request):
    """A collection of the test's own."""
    name = request.node.name
    assert plain_http.post(f"{server.ingestor}/v1/collection", json={"collection_name": name}).status_code == 200
    return name


def send(server, collection, files, *, method="POST", blocking=True):
    parts = [("documents", (name, content, "application/pdf")) for name, content in files]
    data = {"data": json.dumps({"collection_name": collection, "blocking": blocking})}
    return plain_http.request(method, f"{server.ingestor}/v1/documents", files=parts, data=data)


def names(server, collection, **params):
    reply = plain_http.get(f"{server.ingestor}/v1/documents", params={"collection_name": collection} | params)
    listed = DocumentList.model_validate_json(reply.content, strict=True)
    return [document.document_name for document in listed.documents], listed.total_documents


def test_a_collection_is_made_listed_and_deleted(server):
    told = {"collection_name": "made", "description": "corpus 1", "created_by": "somebody"}
    made = plain_http.post(f"{server.ingestor}/v1/collection", json=told)
    listed = CollectionList.model_validate_json(
        plain_http.get(f"{server.ingestor}/v1/collections").content, strict=True
    )
    deleted = plain_http.request("DELETE", f"{server.ingestor}/v1/collections", json=["made", "never"])

    assert CreatedCollection.model_validate_json(made.content).collection_name == "made"
    mine = next(collection for collection in listed.collections if collection.collection_name == "made")
    assert listed.total_collections == len(listed.collections)
    assert (mine.collection_info["description"], mine.collection_info["created_by"]) == ("corpus 1", "somebody")
    gone = DeletedCollections.model_validate_json(deleted.content, strict=True)
    assert (gone.successful, [failed.collection_name for failed in gone.failed]) == (["made"], ["never"])


def test_making_a_collection_again_changes_nothing(server, collection):
    send(server, collection, [("bell.pdf", paper(BELL))])

    again = plain_http.post(f"{server.ingestor}/v1/collection", json={"collection_name": collection})

    assert (again.status_code, "already exists" in again.json()["message"]) == (200, True)
    assert names(server, collection) == (["bell.pdf"], 1)


def test_a_blocking_upload_tells_what_became_of_each_document(server, collection):
    files = [("light.pdf", paper(LIGHT)), ("torn.pdf", b"%PDF-1.7 torn"), ("light.pdf", b"second"), ("notes.md", b"#")]
    reply = send(server, collection, files)

    result = UploadResult.model_validate_json(reply.content, strict=True)
    assert reply.status_code == 200
    assert [document.document_name for document in result.documents] == ["light.pdf"]
    assert [failed.document_name for failed in result.failed_documents] == ["torn.pdf", "notes.md"]
    assert [error["metadata"]["filename"] for error in result.validation_errors] == ["light.pdf"]
    assert (result.total_documents, result.documents_completed) == (4, 1)


def test_a_document_that_is_there_is_refused_by_post_and_replaced_by_patch(server, collection):
    send(server, collection, [("a.pdf", paper(BELL))])

    refused = UploadResult.model_validate_json(send(server, collection, [("a.pdf", paper(HARBOUR))]).content)
    replaced = UploadResult.model_validate_json(
        send(server, collection, [("a.pdf", paper(HARBOUR))], method="PATCH").content
    )

    assert "already exists. Use update document API" in refused.failed_documents[0].error_message
    assert replaced.failed_documents == []


def test_an_upload_in_the_background_is_asked_after_by_its_task(server, collection):
    begun = IngestionTask.model_validate_json(
        send(server, collection, [("light.pdf", paper(LIGHT)), ("x.exe", b"")], blocking=False).content
    )

    deadline = time.monotonic() + 60
    state = "PENDING"
    while state == "PENDING" and time.monotonic() < deadline:
        reply = plain_http.get(f"{server.ingestor}/v1/status", params={"task_id": begun.task_id})
        status = TaskStatus.model_validate_json(reply.content, strict=True)
        state = status.state

    assert state == "FINISHED"
    assert [failed.document_name for failed in status.result.failed_documents] == ["x.exe"]
    assert status.nv_ingest_status.document_wise_status == {"light.pdf": "completed", "x.exe": "failed"}


def test_a_task_that_nobody_knows(server):
    reply = plain_http.get(f"{server.ingestor}/v1/status?task_id=none")

    assert TaskStatus.model_validate_json(reply.content, strict=True).state == "UNKNOWN"


def test_a_list_is_cut_and_says_how_much_there_is(server, collection):
    send(server, collection, [(f"{number}.txt", b"text") for number in range(5)])

    assert names(server, collection, max_results=2) == (["0.txt", "1.txt"], 5)


def test_documents_are_deleted_by_name(server, collection):
    send(server, collection, [("a.txt", b"a"), ("b.txt", b"b")])

    url = f"{server.ingestor}/v1/documents"
    reply = plain_http.request("DELETE", url, params={"collection_name": collection}, json=["a.txt", "c.txt"])

    assert DocumentList.model_validate_json(reply.content).total_documents == 1
    assert names(server, collection) == (["b.txt"], 1)


def test_health_has_the_ingestors_own_groups(server):
    reply = plain_http.get(f"{server.ingestor}/v1/health")

    assert HealthResponse.model_validate_json(reply.content).model_fields_set >= {"processing", "task_management"}


BAD_REQUESTS = {
    "no multipart":        ("POST", "documents", {"json": {}}),
    "an unknown field":    ("POST", "documents", {"files": {"documents": b"x"}, "data": {"data": '{"collection": "a"}'}}),
    "a nameless collection": ("POST", "collection", {"json": {"collection_name": ""}}),
    "no list of names":    ("DELETE", "collections", {"json": "made"}),
    "too long a list":     ("GET", "documents", {"params": {"max_results": 1_000_001}}),
}  # fmt: skip


@pytest.mark.parametrize(("method", "path", "given"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_a_request_that_is_not_documented_is_refused(server, method, path, given):
    assert plain_http.request(method, f"{server.ingestor}/v1/{path}", **given).status_code == 422
