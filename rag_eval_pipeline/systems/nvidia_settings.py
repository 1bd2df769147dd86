"""The settings of an NVIDIA RAG Blueprint server: its collection, how the corpus is uploaded, and how it is asked."""

import re
from typing import Annotated, Any, ClassVar, Literal, Self

import pydantic

from rag_eval_pipeline.formats.model import JsonObject, Model
from rag_eval_pipeline.systems.kind_settings import CommonReading, EmptyAnswers
from rag_eval_pipeline.web.server_settings import EndpointSettings, Prices


class UploadSettings(Model):
    """How the corpus is uploaded."""

    operational: ClassVar[frozenset[str]] = frozenset({"enabled", "batch_documents", "total_seconds", "poll_seconds"})

    enabled: bool = pydantic.Field(
        True, description="Create the collection and upload missing documents; false: it must be complete already."
    )
    batch_documents: int = pydantic.Field(50, ge=1, le=1000, description="Documents uploaded with one request.")
    total_seconds: float = pydantic.Field(7200.0, gt=0, description="Time limit for the upload of the whole corpus.")
    poll_seconds: float = pydantic.Field(
        2.0, gt=0, le=60, description="Longest pause between two requests for the status of a batch."
    )
    chunk_size: int | None = pydantic.Field(
        None, ge=1, description="Tokens of a chunk; the collection's name then ends with it. None: the server's own."
    )
    chunk_overlap: int | None = pydantic.Field(None, ge=0, description="Tokens that neighbouring chunks share.")

    @pydantic.model_validator(mode="after")
    def _together(self) -> Self:
        if (self.chunk_size is None) != (self.chunk_overlap is None):
            raise ValueError("chunk_size and chunk_overlap together, or neither")
        return self


CORPUS_DIGITS = 12  # of the corpus's fingerprint in a collection's name
NAME_LENGTH = 255  # characters of a collection's name in Milvus
BLUEPRINT_FIELDS = frozenset({"messages", "use_knowledge_base", "enable_citations", "collection_names"})
_FIELD = re.compile(r"\{([^{}]*)\}")
_FIELDS = {"benchmark", "corpus"}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")


def _template(value: str) -> str:
    if unknown := sorted(set(_FIELD.findall(value)) - _FIELDS):
        raise ValueError(f"a name with {{benchmark}} and {{corpus}}, not {{{unknown[0]}}}")
    if _NOT_IN_NAMES.search(_FIELD.sub("", value).replace("-", "_")):
        raise ValueError("letters, digits, - and _, with {benchmark} and {corpus}")
    return value


class NvidiaSettings(CommonReading):
    """Where the servers are, which collection is asked, and how its answers are read."""

    operational: ClassVar[frozenset[str]] = frozenset({"check_dependencies", "prices"})

    rag: EndpointSettings = pydantic.Field(description="The RAG server, such as base_url: http://host:8081.")
    ingestor: EndpointSettings | None = pydantic.Field(
        None,
        description="The ingestor, such as base_url: http://host:8082; without it nothing is uploaded or verified.",
    )
    collection: Annotated[str, pydantic.AfterValidator(_template)] = pydantic.Field(
        "{benchmark}_{corpus}",
        min_length=1,
        description="Name of the collection; {benchmark} is the benchmark's name, {corpus} the first 12 digits of its "
        "corpus's fingerprint, so that a changed corpus is a new collection.",
    )
    upload: UploadSettings = pydantic.Field(
        UploadSettings(), description="How the corpus is uploaded; false: not at all."
    )
    allow_other_documents: bool = pydantic.Field(
        False,
        description="Accept a collection that holds other documents too, as distractors; false: that is an error.",
    )
    check_dependencies: bool = pydantic.Field(
        True, description="Ask /v1/health also about the services behind the server, and do not start if one is down."
    )
    extra_body: JsonObject = pydantic.Field(
        default_factory=dict,
        description="Further fields of every request to /v1/generate, such as reranker_top_k and "
        "temperature; the server's defaults hold for the others.",
    )
    page_base: Literal["auto", 0, 1] = pydantic.Field(
        "auto",
        description="Number of a document's first page on this server; auto finds it by comparing passages"
        " with the pages.",
    )
    unescape_html: bool = pydantic.Field(
        True, description="The server escapes & < > as HTML entities; they are unescaped before scoring."
    )
    empty_answer: EmptyAnswers = "error"
    prices: Prices = pydantic.Field(Prices(), description="Prices for the estimated cost.")

    @pydantic.field_validator("upload", mode="before")
    @classmethod
    def _switch(cls, value: Any) -> Any:
        return {"enabled": value} if isinstance(value, bool) else value

    @pydantic.field_validator("extra_body")
    @classmethod
    def _is_further(cls, value: dict[str, Any]) -> dict[str, Any]:
        if BLUEPRINT_FIELDS & value.keys():
            raise ValueError(
                f"fields other than {', '.join(sorted(BLUEPRINT_FIELDS))}, which are set for each question"
            )
        return value

    def collection_name(self, benchmark: str, corpus_fingerprint: str) -> str:
        """Return the collection of a corpus, in the letters that Milvus allows."""
        name = self.collection.replace("{benchmark}", benchmark).replace("{corpus}", corpus_fingerprint[:CORPUS_DIGITS])
        if self.upload.chunk_size is not None:
            name += f"_c{self.upload.chunk_size}_{self.upload.chunk_overlap}"
        name = _NOT_IN_NAMES.sub("_", name)
        return (name if not name[0].isdigit() else f"c_{name}")[:NAME_LENGTH]
