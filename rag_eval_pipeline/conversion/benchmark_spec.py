"""`benchmark.yaml`: the declarative file that makes a folder of foreign data a benchmark."""

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.errors import InputError, other_errors
from rag_eval_pipeline.formats.fields import SEMVER
from rag_eval_pipeline.formats.model import value_hint
from rag_eval_pipeline.sources.source_spec import SourceSpec, SpecPart, Text, listed, shown_path
from rag_eval_pipeline.storage.yaml_files import YamlDocument, read_yaml, resolve_scalars
from rag_eval_pipeline.workspace import NAME, BenchmarkPaths

TABLE_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
SOURCE = "source"  # the relation that `source:` becomes


Source = Annotated[
    SourceSpec, BeforeValidator(lambda value: {"path": value} if isinstance(value, str | list) else value)
]


class QuestionColumns(SpecPart):
    """The short form: our column <- their column."""

    question: Text = Field(description="Column with the question.")
    answer: Text | None = Field(default=None, description="Column with the answer; by default the first of `answers`.")
    answers: Text | None = Field(default=None, description="Column with the accepted answers: a list, or one text.")
    is_impossible: Text | None = Field(default=None, description="Column with true or false; missing is false.")
    source_id: Text | None = Field(default=None, description="Column with the source's own id.")
    urls: Text | None = Field(default=None, description="Column with the documents' URLs: a list, or one text.")
    files: Text | None = Field(
        default=None,
        description="Column with the documents' file names: a list, or one text; or a template such as "
        "`{company}_{year}.pdf`. Names may be globs, and may lack the ending.",
    )
    contexts: Text | None = Field(default=None, description="Column with a list of contexts: structs, or gold texts.")
    query_type: Text | None = Field(
        default=None,
        description="Column with factual, analytical, comparative or temporal; other values become metadata.",
    )
    difficulty: Text | None = Field(
        default=None, description="Column with easy, medium or hard; other values become metadata."
    )
    conversation: Text | None = Field(
        default=None, description="Column with the id of the conversation of which the question is a turn."
    )
    turn: Text | None = Field(
        default=None,
        description="Column with the turn's number. With `conversation` and without `history`, the questions and "
        "answers of the earlier turns are the history.",
    )
    history: Text | None = Field(
        default=None, description="Column with the messages before the question: a list of structs, or JSON."
    )
    facts: Text | None = Field(
        default=None,
        description="Column with the facts that an answer should state: a list of texts, or of structs with `text` and "
        "`importance` (vital or okay; vital by default), or JSON. With it, a benchmark needs no answers.",
    )
    metadata: Annotated[tuple[Text, ...], BeforeValidator(listed)] = Field(
        default=(), description="Column or columns kept beside the question under their own names."
    )


QUESTION_COLUMNS = tuple(QuestionColumns.model_fields)


class QuestionsSpec(SpecPart):
    """How questions are made of the source: SQL, or the short form."""

    sql: Text | None = Field(default=None, description="Exactly one SELECT over `source` and the tables.")
    columns: QuestionColumns | None = Field(default=None, description="Our column <- their column.")


class Expect(SpecPart):
    """Counts that must come out; a blocking check compares them."""

    rows: int | None = Field(
        default=None, ge=0, description="Rows that were read, including rows that cannot be decoded."
    )
    questions: int | None = Field(default=None, ge=0, description="Accepted questions.")
    impossible: int | None = Field(
        default=None, ge=0, description="Accepted questions without an answer in the corpus."
    )
    dropped: int | None = Field(default=None, ge=0, description="Rows that `where` or audit.yaml leaves out.")
    quarantined: int | None = Field(default=None, ge=0, description="Rejected rows.")
    contexts: int | None = Field(default=None, ge=0, description="Contexts of accepted questions.")
    documents: int | None = Field(default=None, ge=0, description="Documents of the corpus.")

    def differences(self, counts: Mapping[str, int]) -> list[tuple[str, int, int]]:
        """Return name, expectation and finding of each count (`Counts.record()`) that is not as expected."""
        found = {**counts, "questions": counts["accepted"]}
        wanted = self.model_dump(exclude_none=True)
        return [(name, count, found[name]) for name, count in wanted.items() if count != found[name]]


class BenchmarkSpec(SpecPart):
    """One benchmark: where its rows are, and what of them is question, answer, document."""

    name: str = Field(description="The folder's name; it becomes the partition key and the name of files.")
    title: Text | None = Field(default=None, description="Title shown to people; by default the name.")
    version: str = Field(pattern=rf"^{SEMVER}$", description="Semantic version of this benchmark, such as 1.10.0.")
    license: Text | None = Field(
        default=None, description="Licence of the data, for people: an SPDX identifier if there is one."
    )
    description: Text | None = Field(default=None, description="One or two sentences for people.")
    language: Text | None = Field(default=None, description="ISO 639-1 code of the questions' language.")
    domain: Text | None = Field(default=None, description="Subject of the questions.")
    released: datetime.date | None = Field(default=None, description="Day of publication; `created_at` in the dataset.")
    source: Source = Field(description="The rows that become questions: relation `source`.")
    tables: dict[str, Source] = Field(default={}, description="Further relations by name.")
    questions: QuestionsSpec = Field(
        description="One row per question: SQL, or a mapping from these columns to the source's."
    )
    documents: Text | None = Field(
        default=None,
        description="SQL: url or name or both, and file, html, markdown or text; without it, pages are fetched from "
        "their URL.",
    )
    where: Text | None = Field(
        default=None, description="SQL condition on the columns of `questions`; other rows are dropped and listed."
    )
    retrieval_only: Annotated[bool, BeforeValidator(resolve_scalars)] = Field(
        default=False, description="The benchmark has no answers, only relevant documents: qrels and topics."
    )
    inline_documents: Annotated[bool, BeforeValidator(resolve_scalars)] = Field(
        default=False, description="The `.eval.json` carries the text of each document of the corpus."
    )
    on_missing_document: Literal["quarantine", "keep", "fail"] = Field(
        default="quarantine",
        description="quarantine: the question is rejected; keep: the context is removed; fail: the conversion fails.",
    )
    recheck: Literal["never", "nightly"] = Field(
        default="never",
        description="nightly: pages that documents were fetched from are fetched again at 01:00 UTC, to "
        "detect changes.",
    )
    on_drift: Literal["keep", "update", "fail"] = Field(
        default="keep",
        description="What happens when a page has changed since its document was made. keep: the document "
        "stays and a check warns; fail: the check blocks; update: the document is replaced.",
    )
    error_pages: Literal["quarantine", "keep"] = Field(
        default="quarantine",
        description="quarantine: fetched pages that are an error, login, consent or waiting page are rejected.",
    )
    min_page_words: Annotated[float, BeforeValidator(resolve_scalars)] = Field(
        default=0.3,
        ge=0,
        le=1,
        description="Minimum share of the page's visible words that the PDF must contain; otherwise the "
        "page is rejected (`page_words_lost`).",
    )
    unnamed_urls: Literal["skip", "fetch"] = Field(
        default="skip",
        description="Rows of `documents` with a URL, without a body, that no accepted question names: skip"
        " them, or fetch them as distractors.",
    )
    naming: Literal["stem", "strict"] = Field(
        default="stem", description="strict: two documents with one file name are an error."
    )
    expect: Expect = Field(default=Expect(), description="Expected counts; a blocking check compares them.")
    evaluation: Annotated[dict[str, Any], BeforeValidator(resolve_scalars)] = Field(
        default={}, description="Evaluation settings of this benchmark; they override evaluation_defaults."
    )

    @field_validator("tables")
    @classmethod
    def _table_names(cls, value: dict[str, SourceSpec]) -> dict[str, SourceSpec]:
        for name in value:
            if not TABLE_NAME.fullmatch(name) or name == SOURCE:
                raise PydanticCustomError(
                    "bad_value", f"names of tables that match {TABLE_NAME.pattern} and are not `{SOURCE}`"
                )
        return value

    @field_validator("questions", mode="before")
    @classmethod
    def _question_form(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"sql": value}
        return {"columns": value} if isinstance(value, dict) else value


def read_spec(paths: BenchmarkPaths) -> BenchmarkSpec:
    """Read and check a benchmark's spec; the message of an `InputError` names the line."""
    shown = shown_path(paths, paths.spec.name)
    text = read_yaml(paths.spec, shown)
    if not isinstance(text.value, dict):
        raise InputError("bad_value", shown, "a mapping with name, version, source, questions", found=text.value)
    try:
        spec = BenchmarkSpec.model_validate(text.value)
    except ValidationError as error:
        raise spec_error(error, text, shown) from None
    if spec.name != paths.name or not NAME.fullmatch(spec.name):
        place, expected = f"{shown}, line {text.line(('name',))}", f"the folder's name {paths.name!r}"
        raise InputError("name_mismatch", place, expected, field="name", found=spec.name)
    return spec


class _Sources(BaseModel):
    """The part of benchmark.yaml that says where rows are; the rest may be missing or wrong."""

    source: Source
    tables: dict[str, Source] = {}


def read_sources(paths: BenchmarkPaths) -> dict[str, SourceSpec]:
    """Return `source` and the tables of a benchmark.yaml whose mapping need not be right yet."""
    shown = shown_path(paths, paths.spec.name)
    text = read_yaml(paths.spec, shown)
    try:
        sources = _Sources.model_validate(text.value)
    except ValidationError as error:
        raise spec_error(error, text, shown) from None
    return {SOURCE: sources.source, **sources.tables}


def spec_place(paths: BenchmarkPaths) -> Callable[[str, int | None], str]:
    """Return a function that locates a key of the spec, or a line of the SQL under it, for messages."""

    def place(key: str, line: int | None) -> str:
        shown = shown_path(paths, paths.spec.name)
        parts = tuple(key.split("."))
        text = read_yaml(paths.spec, shown)
        start = text.line(parts)
        if start is None:
            return shown
        # A block (`|` or `>`) begins on the line after its key.
        written = paths.spec.read_text("utf-8-sig").split("\n")[start - 1]
        is_block = re.search(r":\s*[|>][-+0-9]*\s*(#.*)?$", written.rstrip("\r")) is not None
        return f"{shown}, line {start if line is None else start + line - (0 if is_block else 1)}"

    return place


def spec_error(
    error: ValidationError, text: YamlDocument, shown: str, model: type[BaseModel] = BenchmarkSpec
) -> InputError:
    """Return the first error in the file; people correct one line at a time."""
    placed = [(text.line(detail["loc"]) or 1, detail) for detail in error.errors()]
    # A missing key may be there under a wrong name.
    line, detail = min(placed, key=lambda item: (item[1]["type"] == "missing", item[0]))
    place = f"{shown}, line {line}"
    field = ".".join(str(part) for part in detail["loc"] if part not in {"sql", "columns"})
    others = [f"line {at}" for at, other in placed if other is not detail]
    more = f" {other_errors(others)}" if others else ""
    if detail["type"] == "extra_forbidden":
        key = str(detail["loc"][-1])
        return InputError("unknown_key", place, "a known key", found=key, hint=f"{value_hint(detail, model)}{more}")
    if detail["type"] == "missing":
        return InputError("missing_key", place, f"the key `{detail['loc'][-1]}`", hint=f"Add it.{more}")
    own = detail["type"] in {"path_outside", "unsupported_source", "bad_value"}
    expected = detail["msg"] if own else detail["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    if detail["type"] == "string_pattern_mismatch":
        expected = "a semantic version such as 1.0.0"
    hint = detail.get("ctx", {}).get("hint") or value_hint(detail, model)
    return InputError(
        detail["type"] if own else "bad_value",
        place,
        expected,
        field=field or None,
        found=detail["input"],
        hint=f"{hint or ''}{more}".strip() or None,
    )
