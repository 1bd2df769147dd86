"""What the NVIDIA ingestor takes and gives.

Source: NVIDIA RAG Blueprint, OpenAPI schema of the ingestor server.
"""

from typing import Any, Literal

import pydantic

from rag_eval_pipeline.loopback.shapes import Shape

DEFAULT_COLLECTION = "multimodal_data"
MAX_RESULTS = 1_000_000


class CreateCollection(Shape):
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


class SplitOptions(Shape):
    """How documents are cut."""

    chunk_size: int = pydantic.Field(512, ge=1)
    chunk_overlap: int = pydantic.Field(150, ge=0)


class CustomMetadata(Shape):
    """Metadata of one file."""

    filename: str
    metadata: dict[str, Any] = {}


class UploadRequest(Shape):
    """The part `data` of `POST /v1/documents`."""

    collection_name: str = DEFAULT_COLLECTION
    blocking: bool = False
    split_options: SplitOptions = SplitOptions()
    custom_metadata: list[CustomMetadata] = []
    generate_summary: bool = False
    summary_options: dict[str, Any] | None = None
    vdb_endpoint: str = ""


class ListDocuments(pydantic.BaseModel):
    """The query of `GET /v1/documents`."""

    collection_name: str = DEFAULT_COLLECTION
    max_results: int = pydantic.Field(1000, ge=1, le=MAX_RESULTS)
    force_get_metadata: bool = False


class Collection(Shape):
    """One collection of the list."""

    collection_name: str
    num_entities: int
    metadata_schema: list[dict[str, Any]]
    collection_info: dict[str, Any]


class CollectionList(Shape):
    """The answer of `GET /v1/collections`."""

    message: str
    total_collections: int
    collections: list[Collection]


class CreatedCollection(Shape):
    """The answer of `POST /v1/collection`."""

    message: str
    collection_name: str


class FailedCollection(Shape):
    """A collection that could not be deleted."""

    collection_name: str
    error_message: str


class DeletedCollections(Shape):
    """The answer of `DELETE /v1/collections`."""

    message: str
    successful: list[str]
    failed: list[FailedCollection]
    total_success: int
    total_failed: int


class UploadedDocument(Shape):
    """A document in a collection."""

    document_name: str
    metadata: dict[str, Any]
    document_info: dict[str, Any]


class FailedDocument(Shape):
    """A document that was not taken in."""

    document_name: str
    error_message: str


class UploadResult(Shape):
    """The answer of a blocking upload, and the result of a task."""

    message: str
    total_documents: int
    documents_completed: int
    batches_completed: int
    documents: list[UploadedDocument]
    failed_documents: list[FailedDocument]
    validation_errors: list[dict[str, Any]]


class IngestionTask(Shape):
    """The answer of an upload that goes on in the background."""

    message: str
    task_id: str


class IngestionStatus(Shape):
    """How far extraction has come."""

    extraction_completed: int
    document_wise_status: dict[str, str]


class TaskStatus(Shape):
    """The answer of `GET /v1/status`."""

    state: Literal["PENDING", "FINISHED", "FAILED", "UNKNOWN"]
    result: UploadResult
    nv_ingest_status: IngestionStatus


class DocumentList(Shape):
    """The answer of `GET` and `DELETE /v1/documents`."""

    message: str
    total_documents: int
    documents: list[UploadedDocument]
