"""The settings of each kind of system: what `settings` of its file may hold."""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, ClassVar, Literal, Self

import jmespath
import pydantic
from jmespath.exceptions import JMESPathError
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.formats.model import JsonObject, JsonValue, Model
from rag_eval_pipeline.systems.base import SystemCorpus
from rag_eval_pipeline.web.server_settings import ChatSettings, EndpointSettings, Prices, is_free_header


def _compiles(path: str) -> str:
    try:
        jmespath.compile(path)
    except JMESPathError as error:
        raise ValueError(f"a JMESPath expression ({str(error).splitlines()[0]})") from None
    return path


JsonPath = Annotated[str, pydantic.AfterValidator(_compiles)]
"""A JMESPath expression."""


def _regular_expressions(patterns: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for pattern in patterns or ():
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"regular expressions ({error})") from None
    return patterns


PageBase = Annotated[
    Literal[0, 1] | None,
    pydantic.Field(description="Number of a document's first page; by default 0 in LangChain's documents, else 1."),
]
OffsetBase = Annotated[
    Literal["document", "page"],
    pydantic.Field(
        description="Where the system starts to count characters: at the start of the document, or of the page."
    ),
]
AbstentionPatterns = Annotated[
    tuple[str, ...] | None,
    pydantic.AfterValidator(_regular_expressions),
    pydantic.Field(
        description="Regular expressions, ignoring case; an answer that contains a match is an "
        "abstention. By default the refusals that the lexical judge knows."
    ),
]
EmptyAnswers = Annotated[
    Literal["error", "abstained"],
    pydantic.Field(description="How an empty answer counts, unless the system states that it abstained."),
]
CitationBase = Annotated[
    Literal[0, 1] | None,
    pydantic.Field(
        description="Number of the first passage in citations by number. By default 1 in marks such as [1]; in "
        "`citations: [0, 2]` and `source_id`, what the answer shows (a 0, a quote), else they are left out."
    ),
]


class ContextNames(Model):
    """How a system names documents."""

    names: str | None = pydantic.Field(
        None,
        min_length=1,
        description="CSV file, relative to this file, for a system that returns ids or titles: a header "
        "and two columns, the returned id or title and the file in the corpus. `{benchmark}` is replaced by the "
        "name.",
    )

    def path_of_names(self, corpus: SystemCorpus) -> Path | None:
        """Return where the map of names for a corpus is; None if there is none."""
        if self.names is None:
            return None
        return corpus.settings_folder / self.names.replace("{benchmark}", corpus.benchmark)


class CommonReading(Model):
    """How the answers of a system are read, whatever its kind."""

    contexts: ContextNames | None = pydantic.Field(None, description="How the system names documents.")
    offset_base: OffsetBase = "document"
    abstention: AbstentionPatterns = None

    def reading(self, **of_the_kind: Any) -> "ReadingSettings":
        """Return these settings with those that the kind has or reads in its own way."""
        return ReadingSettings(**{name: getattr(self, name) for name in CommonReading.model_fields} | of_the_kind)


class ReadingSettings(CommonReading):
    """How the answers of a system are read; part of most kinds' settings."""

    page_base: PageBase = None
    citation_base: CitationBase = None
    empty_answer: EmptyAnswers = "error"


PublishedConfiguration = Annotated[
    dict[str, str | int | float | bool | None],
    pydantic.Field(
        default_factory=dict,
        description="Configuration to publish with the results, such as model, embedding_model and retrieval_k.",
    ),
]


EMBEDDED_VERSION = "embedded/4"  # raised whenever equal settings may answer differently


class EmbeddedSettings(Model):
    """How the embedded system retrieves and answers."""

    k: int = pydantic.Field(10, ge=1, le=100, description="Passages retrieved for a question.")
    passage_words: int = pydantic.Field(
        30, ge=5, le=2000, description="Maximum words of a passage; smaller passages are more exact and lose context."
    )
    rerank: bool = pydantic.Field(
        True,
        description="Rank passages higher that have a sentence covering the question; false keeps the order of BM25.",
    )
    abstention_threshold: float = pydantic.Field(
        0.35, ge=0, le=1,
        description="Share of the question's weight that a sentence must cover to be answered from; 0 always answers.",
    )  # fmt: skip

    answer: Literal["phrase", "sentence"] = pydantic.Field(
        "phrase", description="Answer with the words of the best sentence that fit the question, or with all of it."
    )


SECRET_HEADER = re.compile(r"auth|cookie|token|secret|api[-_]?key|^key$", re.IGNORECASE)
_QUESTIONS = ("{question}", "{messages}")


class ContextPaths(ContextNames):
    """Where retrieved passages are; the inner paths begin at a passage."""

    path: JsonPath = pydantic.Field(description="JMESPath of the list of passages, best first.")
    document: JsonPath | None = pydantic.Field(
        None, description="JMESPath of the document's name; by default a usual key."
    )
    page: JsonPath | None = pydantic.Field(None, description="JMESPath of the page; by default a usual key.")
    text: JsonPath | None = pydantic.Field(None, description="JMESPath of the passage's text; by default a usual key.")
    score: JsonPath | None = pydantic.Field(None, description="JMESPath of the score; by default a usual key.")


class CitationPaths(Model):
    """Where citations are; the inner paths begin at a citation."""

    path: JsonPath = pydantic.Field(description="JMESPath of the list of citations.")
    document: JsonPath | None = pydantic.Field(
        None, description="JMESPath of the document's name; by default a usual key."
    )
    page: JsonPath | None = pydantic.Field(None, description="JMESPath of the page; by default a usual key.")
    start: JsonPath | None = pydantic.Field(
        None, description="JMESPath of the first character; by default start or start_char."
    )
    end: JsonPath | None = pydantic.Field(
        None, description="JMESPath of the position after the last character; by default end or end_char."
    )


def takes(placeholders: Sequence[str], *templates: Any) -> bool:
    """Return whether JSON values have one of these placeholders in their texts."""
    return any(name in json.dumps(template) for template in templates for name in placeholders)


class HttpSettings(ReadingSettings):
    """Where the server is, what it is sent, and how its replies are read."""

    operational: ClassVar[frozenset[str]] = frozenset({"prompt_tokens", "completion_tokens", "cost", "prices"})

    endpoint: EndpointSettings = pydantic.Field(description="The server, such as base_url: http://host:8000.")
    method: Literal["POST", "GET", "PUT"] = pydantic.Field("POST", description="HTTP method.")
    path: str = pydantic.Field("", description="Path below the base URL, such as /ask.")
    params: dict[str, str] = pydantic.Field(
        default_factory=dict, description="Query parameters of the URL; placeholders are replaced as in the body."
    )
    body: JsonValue = pydantic.Field(
        None,
        description="JSON that is sent; {question}, {query_id} and {benchmark} in its texts are replaced, and "
        '"{messages}" and "{history}" by the messages of a conversation, with and without the question.',
    )
    headers: dict[str, str] = pydantic.Field(
        default_factory=dict, description="Sent with every question; secrets go into headers_env of the endpoint."
    )
    streaming: Literal["none", "sse"] = pydantic.Field(
        "none", description="sse: the reply is a stream of events with JSON, and the answer is joined from them."
    )
    answer: JsonPath = pydantic.Field(
        description="JMESPath of the answer's text; in a stream, of the piece that each event carries."
    )
    contexts: ContextPaths | None = pydantic.Field(None, description="Where retrieved passages are.")
    citations: CitationPaths | None = pydantic.Field(
        None, description="Where citations are, besides those in the answer's text."
    )
    error: JsonPath | None = pydantic.Field(
        None,
        description="JMESPath of an error in a reply with a status of success; if it is found, the question fails.",
    )
    prompt_tokens: JsonPath | None = pydantic.Field(None, description="JMESPath of the number of prompt tokens.")
    completion_tokens: JsonPath | None = pydantic.Field(
        None, description="JMESPath of the number of completion tokens."
    )
    cost: JsonPath | None = pydantic.Field(None, description="JMESPath of the cost in US dollars.")
    model: JsonPath | None = pydantic.Field(None, description="JMESPath of the model's name.")
    finish_reason: JsonPath | None = pydantic.Field(
        None,
        description="JMESPath of the reason why the generation ended, such as stop; length is a truncated "
        "answer, content_filter "
        "a refused one, error a failed one.",
    )
    prices: Prices = pydantic.Field(Prices(), description="Prices for the estimated cost, if the server states none.")
    configuration: PublishedConfiguration

    @pydantic.field_validator("headers")
    @classmethod
    def _no_secrets(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not is_free_header(name) or not text.isascii() or not text.isprintable():
                raise ValueError("headers that a request may carry beside its own, in ASCII")
            if SECRET_HEADER.search(name):
                raise PydanticCustomError(
                    "misplaced_secret",
                    "headers without secrets; {name} belongs in headers_env of the endpoint",
                    {"name": name},
                )
        return value

    @pydantic.model_validator(mode="after")
    def _asks(self) -> Self:
        if not takes(_QUESTIONS, self.body, self.params):
            raise ValueError("a body or params with {question} in a text, or {messages}")
        return self


class Retrieval(Model):
    """The embedded BM25 retrieval, which gives passages of the corpus to the model."""

    k: int = pydantic.Field(8, ge=1, le=100, description="Passages given to the model.")
    passage_words: int = pydantic.Field(120, ge=5, le=2000, description="Maximum words of a passage.")
    rerank: bool = pydantic.Field(
        True,
        description="Rank passages higher that have a sentence covering the question; false keeps the order of BM25.",
    )


class OpenAiSettings(ReadingSettings):
    """Where the server is, what it is asked, and how its answers are read."""

    endpoint: EndpointSettings = pydantic.Field(description="The server, such as base_url: http://host:8000/v1.")
    chat: ChatSettings = pydantic.Field(description="The model.")
    stream: bool = pydantic.Field(
        True, description="Answers are streamed, so that the time to the first token is measured."
    )
    system_prompt: str | None = pydantic.Field(
        None, description="Replaces the built-in instructions; an empty one sends none."
    )
    retrieval: Retrieval | None = pydantic.Field(
        None, description="Retrieve passages of the corpus and give them to the model; null if the server retrieves."
    )
    contexts_path: JsonPath | None = pydantic.Field(
        None,
        description="JMESPath of the passages that the server retrieved, a list of texts or of objects with document, "
        "page, text, score; others are renamed by it: sources[].{document: file, text: chunk}.",
    )
    citations_path: JsonPath | None = pydantic.Field(
        None, description="JMESPath of the server's citations, a list of objects with document, page, start, end."
    )

    @pydantic.model_validator(mode="after")
    def _one_retrieval(self) -> Self:
        if self.retrieval is not None and (self.contexts_path is not None or self.citations_path is not None):
            raise ValueError("retrieval, or contexts_path and citations_path of a server that retrieves; not both")
        if self.retrieval is not None and (0 in (self.page_base, self.citation_base) or self.offset_base != "document"):
            raise ValueError(
                "page_base 1, citation_base 1 and offset_base document with retrieval, because its passages use them"
            )
        return self


_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_IDENTIFIERS = r"[^\W\d]\w*(\.[^\W\d]\w*)*"
_DOTTED = re.compile(_IDENTIFIERS)
_CALLABLE = re.compile(f"{_IDENTIFIERS}:{_IDENTIFIERS}")


class PythonSettings(ReadingSettings):
    """What is imported and how it is called.

    A callable with a parameter of the name `query` gets the question by that name, as a text that also has the
    attributes `query_id` and `text`; any other gets the question's text as its first argument.
    """

    callable: str = pydantic.Field(
        description="The function that answers, as `package.module:name`; the name may "
        "be a path, such as `engine.query`.",
    )
    python: str | None = pydantic.Field(
        None,
        description="Interpreter of the code's own environment, relative to this file, such as "
        "`../../../app/.venv/bin/python`. By default the pipeline's.",
    )
    path: tuple[str, ...] = pydantic.Field(
        (), description="Folders, relative to this file, that come first in the module search path."
    )
    factory: bool = pydantic.Field(
        False, description="`callable` is called once, with `arguments`, and its result answers the questions."
    )
    method: str | None = pydantic.Field(
        None,
        pattern=r"^[^\W\d]\w*$",
        description="Method that answers, such as `retrieve`. By default the object is called; if it is "
        "not callable, its first method among invoke, query, run, ainvoke and aquery.",
    )
    input: JsonValue = pydantic.Field(
        None,
        description='Value passed instead of the question\'s text, such as {question: "{question}"} for a graph or '
        "chain that takes a mapping; {question}, {query_id}, {benchmark}, {messages} and {history} in its texts are "
        "replaced.",
    )
    arguments: JsonObject = pydantic.Field(
        default_factory=dict,
        description="Keyword arguments of the factory, else of every call. They are published: put no secrets here.",
    )
    version_of: tuple[str, ...] = pydantic.Field(
        (), description="Installed packages whose versions are published; another version is another system."
    )
    configuration: PublishedConfiguration

    @pydantic.field_validator("callable")
    @classmethod
    def _names_a_module_and_a_name(cls, value: str) -> str:
        if _CALLABLE.fullmatch(value):
            return value
        module, _, name = value.rpartition(".")
        example = f"{module}:{name}" if module and _DOTTED.fullmatch(value) else "my_rag.chain:answer"
        raise ValueError(f"package.module:name, with a colon, such as {example}")

    @pydantic.field_validator("input")
    @classmethod
    def _has_the_question(cls, value: Any) -> Any:
        if value is not None and not takes(_QUESTIONS, value):
            raise ValueError("a value with {question} in a text, or {messages}")
        return value

    @pydantic.field_validator("version_of")
    @classmethod
    def _package_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not _PACKAGE.fullmatch(name):
                raise ValueError(f"names of packages, which {name!r} is not")
        return value

    @pydantic.model_validator(mode="after")
    def _arguments_have_names(self) -> Self:
        if bad := next((name for name in self.arguments if not name.isidentifier()), None):
            raise ValueError(f"arguments whose names are identifiers, which {bad!r} is not")
        return self


PLACEHOLDERS = ("benchmark", "system", "started")


class ReplaySettings(CommonReading):
    """Where the recorded answers are."""

    operational: ClassVar = frozenset({"ids"})  # the server's configuration states what they are

    path: str = pydantic.Field(
        min_length=1,
        description="File with the answers, relative to this file; `{benchmark}` and `{system}` are replaced by names, "
        "`{started:%Y-%m-%d}` by the time (UTC) at which the evaluation began: one file per night, which needs "
        "`deterministic: false`. JSON lines, a list in JSON, .results.json, CSV, Excel, parquet or a TREC run, "
        "recognised by content.",
    )
    configuration: dict[str, str | int | float | bool | None] = pydantic.Field(
        default_factory=dict,
        description="Configuration of the recorded system to publish, such as model and retrieval_k.",
    )
    page_base: PageBase = None
    empty_answer: EmptyAnswers | None = pydantic.Field(
        None,
        description="How an empty answer counts, unless the recording states that the system abstained; "
        "by default as abstained in SQuAD's predictions, where systems abstain in this way, else as an error.",
    )

    ids: Literal["query_id", "source_id"] | None = pydantic.Field(
        None,
        description="How rows without a question's text name the question: by its id in the dataset (from "
        "0), or by its id in your source; by default whichever fits more rows.",
    )

    @pydantic.field_validator("path")
    @classmethod
    def _has_known_placeholders(cls, path: str) -> str:
        known = dict.fromkeys(PLACEHOLDERS, "x") | {"started": datetime(2000, 1, 1, tzinfo=UTC)}
        try:
            path.format(**known)
        except (ValueError, LookupError, AttributeError) as error:
            expected = f"a path whose placeholders are among {', '.join(f'{{{name}}}' for name in PLACEHOLDERS)}"
            raise ValueError(f"{expected}: {error}") from None
        return path

    @property
    def is_by_night(self) -> bool:
        """Whether evaluations that begin at different times read different files."""
        return any(name == "started" for _, name, _, _ in Formatter().parse(self.path))
