"""Settings of a server of any JSON interface: what is sent, and where the parts of its reply stand."""

import json
import re
from typing import ClassVar, Literal, Self

import pydantic
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.endpoints.prices import Prices
from rag_eval_pipeline.endpoints.settings import EndpointSettings
from rag_eval_pipeline.formats.model import JsonValue, Model
from rag_eval_pipeline.systems.json_paths import JsonPath
from rag_eval_pipeline.systems.reading import AbstentionPatterns, EmptyAnswers, OffsetBase, PageBase

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET_HEADER = re.compile(r"auth|cookie|token|secret|api-?key", re.IGNORECASE)
_QUESTION = "{question}"


class ContextPaths(Model):
    """Where retrieved passages stand; the inner paths begin at a passage."""

    path: JsonPath = pydantic.Field(description="JMESPath of the list of passages, best first.")
    document: JsonPath | None = pydantic.Field(None, description="Of the document's name; by default a usual key.")
    page: JsonPath | None = pydantic.Field(None, description="Of the page; by default a usual key.")
    text: JsonPath | None = pydantic.Field(None, description="Of the passage's text; by default a usual key.")
    score: JsonPath | None = pydantic.Field(None, description="Of the score; by default a usual key.")


class CitationPaths(Model):
    """Where cited places stand; the inner paths begin at a citation."""

    path: JsonPath = pydantic.Field(description="JMESPath of the list of citations.")
    document: JsonPath | None = pydantic.Field(None, description="Of the document's name; by default a usual key.")
    page: JsonPath | None = pydantic.Field(None, description="Of the page; by default a usual key.")
    start: JsonPath | None = pydantic.Field(None, description="Of the first character; by default start, start_char.")
    end: JsonPath | None = pydantic.Field(None, description="Of one past the last; by default end, end_char.")


class HttpSettings(Model):
    """Where the server is, what it is sent, and how its replies are read."""

    operational: ClassVar[frozenset[str]] = frozenset({"prompt_tokens", "completion_tokens", "cost", "prices"})

    endpoint: EndpointSettings = pydantic.Field(description="The server, such as base_url: http://host:8000.")
    method: Literal["POST", "GET", "PUT"] = pydantic.Field("POST", description="Of HTTP.")
    path: str = pydantic.Field("", description="Below the base URL, such as /ask.")
    params: dict[str, str] = pydantic.Field(
        default_factory=dict, description="Query of the URL; placeholders are replaced as in the body."
    )
    body: JsonValue = pydantic.Field(
        None, description="JSON that is sent; {question}, {query_id} and {benchmark} in its texts are replaced."
    )
    headers: dict[str, str] = pydantic.Field(
        default_factory=dict, description="Sent with every question; secrets go into headers_env of the endpoint."
    )
    streaming: Literal["none", "sse"] = pydantic.Field(
        "none", description="sse: the reply is a stream of events with JSON, and the answer is joined from them."
    )
    answer: JsonPath = pydantic.Field(
        description="JMESPath of the answer's text; of a stream, of the piece of it that an event carries."
    )
    contexts: ContextPaths | None = pydantic.Field(None, description="Where retrieved passages stand.")
    citations: CitationPaths | None = pydantic.Field(
        None, description="Where citations stand, beside those in the answer's text."
    )
    error: JsonPath | None = pydantic.Field(
        None,
        description="JMESPath of an error that comes with a status of success; what stands there fails the question.",
    )
    prompt_tokens: JsonPath | None = pydantic.Field(None, description="JMESPath of the tokens that were read.")
    completion_tokens: JsonPath | None = pydantic.Field(None, description="JMESPath of the tokens that were written.")
    cost: JsonPath | None = pydantic.Field(None, description="JMESPath of the cost in US dollars.")
    model: JsonPath | None = pydantic.Field(None, description="JMESPath of the model's name.")
    page_base: PageBase = None
    offset_base: OffsetBase = "document"
    abstention: AbstentionPatterns = None
    empty_answer: EmptyAnswers = "error"
    prices: Prices = pydantic.Field(Prices(), description="For estimated costs, where the server tells none.")
    configuration: dict[str, str | int | float | bool | None] = pydantic.Field(
        default_factory=dict, description="What is published of it, such as model, embedding_model and retrieval_k."
    )

    @pydantic.field_validator("headers")
    @classmethod
    def _no_secrets(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not _HEADER.fullmatch(name) or not text.isascii() or not text.isprintable():
                raise ValueError("names and values of headers, in ASCII")
            if _SECRET_HEADER.search(name):
                raise PydanticCustomError(
                    "misplaced_secret",
                    "headers without secrets; {name} belongs into headers_env of the endpoint",
                    {"name": name},
                )
        return value

    @pydantic.model_validator(mode="after")
    def _asks(self) -> Self:
        if _QUESTION not in json.dumps(self.body) and not any(_QUESTION in text for text in self.params.values()):
            raise ValueError("a body or params with {question} in a text")
        return self
