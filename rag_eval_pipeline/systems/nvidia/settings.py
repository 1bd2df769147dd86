"""Settings of an NVIDIA RAG Blueprint server."""

import re
from typing import Annotated, Any, ClassVar, Literal, Self

import pydantic

from rag_eval_pipeline.endpoints.prices import Prices
from rag_eval_pipeline.endpoints.settings import EndpointSettings
from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.systems.reading import AbstentionPatterns, EmptyAnswers, OffsetBase

CORPUS_DIGITS = 12  # of the corpus's fingerprint in a collection's name
NAME_LENGTH = 255  # characters of a collection's name in Milvus
_FIELD = re.compile(r"\{([^{}]*)\}")
_FIELDS = {"benchmark", "corpus"}
_UNLAWFUL = re.compile(r"[^A-Za-z0-9_]")


def _template(value: str) -> str:
    if unknown := sorted(set(_FIELD.findall(value)) - _FIELDS):
        raise ValueError(f"a name with {{benchmark}} and {{corpus}}, not {{{unknown[0]}}}")
    if _UNLAWFUL.search(_FIELD.sub("", value).replace("-", "_")):
        raise ValueError("letters, digits, - and _, with {benchmark} and {corpus}")
    return value


Share = Annotated[float, pydantic.Field(ge=0, le=1)]


class GenerateSettings(Model):
    """Parameters of `/v1/generate`; what is not set is not sent, and the server's own default holds."""

    reranker_top_k: int | None = pydantic.Field(None, ge=0, le=25, description="Passages that the model reads.")
    vdb_top_k: int | None = pydantic.Field(None, ge=0, le=400, description="Passages that the reranker reads.")
    temperature: Share | None = pydantic.Field(None, description="Of the model.")
    top_p: float | None = pydantic.Field(None, ge=0.1, le=1, description="Of the model.")
    max_tokens: int | None = pydantic.Field(None, ge=0, le=128_000, description="Of the answer, at most.")
    min_tokens: int | None = pydantic.Field(None, ge=0, description="Of the answer, at least.")
    ignore_eos: bool | None = pydantic.Field(None, description="Go on after the model's end of the answer.")
    min_thinking_tokens: int | None = pydantic.Field(None, ge=0, description="Of the reasoning, at least.")
    max_thinking_tokens: int | None = pydantic.Field(None, ge=0, description="Of the reasoning, at most.")
    stop: tuple[str, ...] | None = pydantic.Field(None, description="Texts at which the answer ends.")
    enable_reranker: bool | None = pydantic.Field(None, description="Order the passages by a second model.")
    enable_query_rewriting: bool | None = pydantic.Field(None, description="Reword the question before searching.")
    enable_guardrails: bool | None = pydantic.Field(None, description="Refuse what the guardrails forbid.")
    enable_filter_generator: bool | None = pydantic.Field(None, description="Make a filter of the question.")
    enable_vlm_inference: bool | None = pydantic.Field(None, description="Show pictures to a vision model.")
    filter_expr: str | None = pydantic.Field(None, description="Filter of the vector store.")
    confidence_threshold: Share | None = pydantic.Field(None, description="Least score of a passage.")
    model: str | None = pydantic.Field(None, description="The model that answers.")
    llm_endpoint: str | None = pydantic.Field(None, description="Where that model is.")
    embedding_model: str | None = pydantic.Field(None, description="The model that embeds the question.")
    embedding_endpoint: str | None = pydantic.Field(None, description="Where that model is.")
    reranker_model: str | None = pydantic.Field(None, description="The model that orders the passages.")
    reranker_endpoint: str | None = pydantic.Field(None, description="Where that model is.")
    vdb_endpoint: str | None = pydantic.Field(None, description="Where the vector store is.")
    agentic: bool | None = pydantic.Field(None, description="Answer in several steps.")

    @pydantic.model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.reranker_top_k is not None and self.vdb_top_k is not None and self.reranker_top_k > self.vdb_top_k:
            raise ValueError(f"reranker_top_k at most as large as vdb_top_k ({self.vdb_top_k})")
        return self

    @property
    def sent(self) -> dict[str, Any]:
        """The parameters that are set, as JSON values."""
        return self.model_dump(mode="json", exclude_none=True)


class UploadSettings(Model):
    """How the corpus comes into the ingestor's collection."""

    operational: ClassVar[frozenset[str]] = frozenset({"enabled", "batch_documents", "total_seconds", "poll_seconds"})

    enabled: bool = pydantic.Field(
        True, description="Make the collection and upload what it lacks; off, it has to be there already."
    )
    batch_documents: int = pydantic.Field(50, ge=1, le=1000, description="Documents uploaded with one request.")
    total_seconds: float = pydantic.Field(7200.0, gt=0, description="Wall clock for the upload of a whole corpus.")
    poll_seconds: float = pydantic.Field(
        2.0, gt=0, le=60, description="Longest wait between two looks at what became of a batch."
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


class NvidiaSettings(Model):
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
        False, description="Take a collection that holds more than the corpus, as distractors; off, it is an error."
    )
    check_dependencies: bool = pydantic.Field(
        True, description="Ask /v1/health for the servers behind the server too, and refuse to begin when one is down."
    )
    generate: GenerateSettings = pydantic.Field(GenerateSettings(), description="Parameters of /v1/generate.")
    page_base: Literal["auto", 0, 1] = pydantic.Field(
        "auto",
        description="Number that the server gives to a document's first page; auto compares passages with the pages.",
    )
    offset_base: OffsetBase = "document"
    unescape_html: bool = pydantic.Field(
        True, description="The server sends & < > as &amp; &lt; &gt;; undone before anything is scored."
    )
    abstention: AbstentionPatterns = None
    empty_answer: EmptyAnswers = "error"
    prices: Prices = pydantic.Field(Prices(), description="For the estimated cost.")

    @pydantic.field_validator("upload", mode="before")
    @classmethod
    def _switch(cls, value: Any) -> Any:
        return {"enabled": value} if isinstance(value, bool) else value

    def collection_name(self, benchmark: str, corpus_fingerprint: str) -> str:
        """The collection of a corpus, in the letters that Milvus allows."""
        name = self.collection.replace("{benchmark}", benchmark).replace("{corpus}", corpus_fingerprint[:CORPUS_DIGITS])
        if self.upload.chunk_size is not None:
            name += f"_c{self.upload.chunk_size}_{self.upload.chunk_overlap}"
        name = _UNLAWFUL.sub("_", name)
        return (name if not name[0].isdigit() else f"c_{name}")[:NAME_LENGTH]
