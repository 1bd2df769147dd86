"""Settings of an OpenAI-compatible server under test."""

from typing import Self

import pydantic

from rag_eval_pipeline.endpoints.chat_settings import ChatSettings
from rag_eval_pipeline.endpoints.settings import EndpointSettings
from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.systems.json_paths import JsonPath
from rag_eval_pipeline.systems.reading import AbstentionPatterns, EmptyAnswers, OffsetBase, PageBase


class Retrieval(Model):
    """The built-in BM25 retrieval, which hands passages of the corpus to the model."""

    k: int = pydantic.Field(8, ge=1, le=100, description="Passages handed to the model.")
    passage_words: int = pydantic.Field(120, ge=5, le=2000, description="Words of a passage at most.")
    rerank: bool = pydantic.Field(
        True, description="Raise passages with a sentence that covers the question; off, BM25's order stands."
    )


class OpenAiSettings(Model):
    """Where the server is, what it is asked, and how its answers are read."""

    endpoint: EndpointSettings = pydantic.Field(description="The server, such as base_url: http://host:8000/v1.")
    chat: ChatSettings = pydantic.Field(description="The model.")
    stream: bool = pydantic.Field(
        True, description="Answers are streamed, so that the time to the first token is measured."
    )
    system_prompt: str | None = pydantic.Field(
        None, description="Instead of the built-in instructions; an empty one sends none."
    )
    retrieval: Retrieval | None = pydantic.Field(
        None, description="Retrieve passages of the corpus and hand them to the model; null when the server retrieves."
    )
    contexts_path: JsonPath | None = pydantic.Field(
        None,
        description="JMESPath of the passages that the server retrieved, a list of texts or of objects with document, "
        "page, text, score; others are renamed by it: sources[].{document: file, text: chunk}.",
    )
    citations_path: JsonPath | None = pydantic.Field(
        None, description="JMESPath of the server's citations, a list of objects with document, page, start, end."
    )
    page_base: PageBase = None
    offset_base: OffsetBase = "document"
    abstention: AbstentionPatterns = None
    empty_answer: EmptyAnswers = "error"

    @pydantic.model_validator(mode="after")
    def _one_retrieval(self) -> Self:
        if self.retrieval is not None and (self.contexts_path is not None or self.citations_path is not None):
            raise ValueError("retrieval, or contexts_path and citations_path of a server that retrieves; not both")
        if self.retrieval is not None and (self.page_base == 0 or self.offset_base != "document"):
            raise ValueError("page_base 1 and offset_base document with retrieval, as the passages are handed over so")
        return self
