"""`<id>_v<version>.eval.json`: questions with their relevant documents, accepted answers and expected citations.

Datasets are read from JSON, YAML and CSV, and written as JSON. The older form without name or version is read with both
filled in. In CSV a row is a question; the dataset's fields have separate columns (`dataset_id`, `dataset_metadata`,
`documents`, ...), each with one value that any row may hold, so that sorting the rows loses nothing.
Source: Evaluation Data Formats 2.1, 3.1, 3.3, 3.4.
"""

import contextlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import msgspec
import pydantic
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.citation_marks import CitationSpan
from rag_eval_pipeline.formats.evret import read_evret
from rag_eval_pipeline.formats.fields import UNVERSIONED, SemanticVersion, split_version
from rag_eval_pipeline.formats.model import (
    SCHEMA_VERSION,
    FileModel,
    Finding,
    JsonObject,
    JsonValue,
    Model,
    SchemaVersion,
    errors_in,
    finding,
    first_of,
    model_findings,
    parse_value,
)
from rag_eval_pipeline.formats.row_files import WHOLE_BYTES, RowFile
from rag_eval_pipeline.storage.csv_tables import CSV, CsvRow, CsvTable, read_csv_table, text_of_cell, value_of_cell
from rag_eval_pipeline.storage.json_files import JSON, parse_json, read_json_bytes
from rag_eval_pipeline.storage.yaml_files import YAML, read_yaml_data

ENDINGS = JSON + YAML + CSV
DATASET_ENDINGS = tuple(f".eval{ending}" for ending in ENDINGS)

QueryType = Literal["factual", "analytical", "comparative", "temporal"]
Difficulty = Literal["easy", "medium", "hard"]
GRADES = range(-(2**63), 2**63)  # that a column of numbers holds


History = tuple[dict[str, str], ...]
"""Messages of a conversation, the oldest first, each with `role` (user, assistant, system) and `content`."""


class Fact(NamedTuple):
    """A fact that an answer should state: `vital` if an answer without it is incomplete, else `okay`."""

    text: str
    is_vital: bool = True


class EvaluationQuery(Model):
    """One question of an evaluation."""

    query_id: str = pydantic.Field(min_length=1, description="Unique; str(id) of train.json.")
    query_text: str = pydantic.Field(min_length=1, description="The question.")
    relevant_documents: tuple[str, ...] = pydantic.Field(description="Ids of the documents that hold the answer.")
    query_type: QueryType | None = pydantic.Field(None, description="Kind of question.")
    difficulty: Difficulty | None = pydantic.Field(None, description="As the source states it.")
    ground_truth_answer: str | None = pydantic.Field(None, description="The expected answer; absent when impossible.")
    citations: tuple[CitationSpan, ...] = pydantic.Field((), description="Places of the gold texts in the corpus.")
    metadata: JsonObject = pydantic.Field(
        default_factory=dict,
        description="`is_impossible`, `answers` (all accepted), `expected_answers` (gold texts that a judge matches "
        "with what was retrieved), `source_id`, `hops`, `relevance` (document -> grade), `conversation` (its id), "
        "`turn` (from 1), `history` (earlier messages, each with role and content), `facts` (each with text and "
        "importance: vital or okay), and the source's own.",
    )

    @property
    def display_id(self) -> str:
        """The id that the source gives the question, such as HR-001; else `query_id`."""
        source_id = self.metadata.get("source_id")
        return self.query_id if source_id is None else str(source_id)

    @property
    def is_impossible(self) -> bool:
        """The corpus has no answer."""
        return self.metadata.get("is_impossible") is True

    @property
    def grades(self) -> dict[str, int]:
        """Judged document -> its grade, as in qrels: the integer that `relevance` of the metadata states, else 1.

        Documents with grade 0 are judged and not relevant.
        """
        stated = self.metadata.get("relevance")
        given = stated if isinstance(stated, dict) else {}
        found = {name: given.get(name) for name in self.relevant_documents}
        found |= {name: 0 for name, grade in given.items() if grade == 0 and grade is not False and name not in found}
        return {name: grade if type(grade) is int and grade in GRADES else 1 for name, grade in found.items()}

    @property
    def conversation(self) -> str | None:
        """The id of the conversation of which the question is a turn."""
        stated = self.metadata.get("conversation")
        return stated if isinstance(stated, str) and stated else None

    @property
    def turn(self) -> int:
        """The number of the turn in its conversation; 0 if it has none."""
        stated = self.metadata.get("turn")
        return stated if type(stated) is int else 0

    @property
    def history(self) -> History:
        """The messages before the question, the oldest first, with gold answers; empty if there are none."""
        return history_in(self.metadata)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts that an answer should state; empty if there are none, and when impossible."""
        stated = self.metadata.get("facts")
        listed = stated if isinstance(stated, list) and not self.is_impossible else []
        return tuple(
            Fact(str(one["text"]), one.get("importance") != "okay")
            for one in listed
            if isinstance(one, dict) and one.get("text")
        )

    @property
    def accepted_answers(self) -> list[str]:
        """All answers that count as correct; empty when impossible."""
        if self.is_impossible:
            return []
        answers = self.metadata.get("answers")
        if isinstance(answers, list) and answers:
            return [str(answer) for answer in answers]
        return [] if self.ground_truth_answer is None else [self.ground_truth_answer]

    @property
    def has_gold(self) -> bool:
        """Whether it is known what a right answer is: a gold answer, or that there is none."""
        return self.is_impossible or bool(self.accepted_answers)

    @property
    def expected_answers(self) -> list[str]:
        """Gold texts for a judge where relevant documents have no ids, as in Evret's datasets."""
        texts = self.metadata.get("expected_answers")
        return [str(text) for text in texts] if isinstance(texts, list) else []


def history_in(metadata: Mapping[str, Any]) -> History:
    """Return the messages in a question's metadata; what a source calls `history` and holds none is no history."""
    stated = metadata.get("history")
    return tuple(
        {"role": str(one["role"]), "content": str(one["content"])}
        for one in (stated if isinstance(stated, list) else [])
        if isinstance(one, dict) and one.keys() >= {"role", "content"}
    )


# Keys of a question's metadata that are fields of ours and no facts of the source.
OWN_METADATA = frozenset(
    {"is_impossible", "answers", "expected_answers", "source_id", "conversation", "history", "facts"}
)
# Keys that a conversion writes; a source's columns of these names get `source_` before them.
CONVERTED_METADATA = frozenset({"is_impossible", "answers", "hops", "source_id", "relevance"})


class SourceDocument(Model):
    """A document with its text."""

    document_id: str = pydantic.Field(min_length=1, description="Exact basename in the corpus.")
    content: str = pydantic.Field(description="Full text.")
    title: str | None = pydantic.Field(None, description="Title.")
    file_path: str | None = pydantic.Field(None, description="Path or URL of the document.")
    metadata: JsonObject = pydantic.Field(default_factory=dict, description="Author, date, ...")


class DatasetMetadata(pydantic.BaseModel):
    """Facts about the dataset; further keys are allowed."""

    model_config = pydantic.ConfigDict(frozen=True, extra="allow", allow_inf_nan=False, defer_build=True)
    __pydantic_extra__: dict[str, JsonValue]

    domain: str | None = pydantic.Field(None, description="Knowledge domain.")
    language: str | None = pydantic.Field(None, description="ISO 639-1 code of the language.")
    size: int | None = pydantic.Field(None, description="Number of queries.")
    avg_query_length: float | None = pydantic.Field(None, description="Mean length of a query in code points.")
    source: str | None = pydantic.Field(None, description="Origin of the dataset.")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        # Null means the same as absence, and is not written.
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data


class EvaluationDataset(FileModel):
    """An evaluation dataset."""

    file_type: ClassVar[str] = "evaluation dataset"
    strict_types: ClassVar[bool] = True

    schema_version: SchemaVersion = pydantic.Field(SCHEMA_VERSION, description="Version of this file format.")
    dataset_id: str = pydantic.Field(min_length=1, description="Unique id of the dataset, without its version.")
    name: str = pydantic.Field(min_length=1, description="Name shown to people.")
    version: SemanticVersion = pydantic.Field(description="Semantic version.")
    description: str | None = pydantic.Field(None, description="Description for people.")
    created_at: pydantic.AwareDatetime | None = pydantic.Field(None, description="Release of the source, UTC.")
    metadata: DatasetMetadata = pydantic.Field(DatasetMetadata(), description="Facts about the dataset.")
    queries: tuple[EvaluationQuery, ...] = pydantic.Field(description="The questions.")
    documents: tuple[SourceDocument, ...] | None = pydantic.Field(
        None, description="Documents with their texts; left out unless requested."
    )

    @pydantic.model_validator(mode="after")
    def _unique_ids(self) -> Self:
        _require_unique("query", (query.query_id for query in self.queries))
        _require_unique("document", (document.document_id for document in self.documents or ()))
        return self

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the dataset of a file in any form."""
        return cls.model_validate(read_evaluation_dataset(path).dataset)

    @classmethod
    def from_json(cls, path: Path | str) -> Self:
        """Return the dataset of a JSON file: an evaluation dataset if it has a `dataset_id`, else Evret's."""
        path = Path(path)
        return cls._of(path, is_evaluation_dataset=has_key(read_json_bytes(path), "dataset_id"))

    @classmethod
    def from_csv(cls, path: Path | str) -> Self:
        """Return the dataset of a CSV file: an evaluation dataset if it has a column `dataset_id`, else Evret's."""
        path = Path(path)
        return cls._of(path, is_evaluation_dataset="dataset_id" in read_csv_table(path).columns)

    @classmethod
    def _of(cls, path: Path, *, is_evaluation_dataset: bool) -> Self:
        read = read_evaluation_dataset if is_evaluation_dataset else read_evret_dataset
        return cls.model_validate(read(path).dataset)


def _require_unique(what: str, ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            raise PydanticCustomError(
                "duplicate_id", "{what} ids without repeats, but {id} occurs twice", {"what": what, "id": repr(one)}
            )
        seen.add(one)


class StoredDataset(NamedTuple):
    """A dataset without its questions, and the questions, each of which is read when it is asked for."""

    head: EvaluationDataset
    queries: Sequence[EvaluationQuery]

    @property
    def is_retrieval_only(self) -> bool:
        """Whether no question has an answer or facts, so that passages alone can be scored."""
        return not any(query.has_gold or query.facts for query in self.queries)


def open_dataset(path: Path) -> StoredDataset:
    """Open a dataset; of a large one that a conversion wrote, each question is read when it is asked for.

    Raises:
        InputError: As `EvaluationDataset.read`; also when a question is asked for that is damaged.
    """
    if path.exists() and path.stat().st_size > WHOLE_BYTES:
        rows = RowFile.open(path, "queries", partial(_stored_query, path))
        if rows is not None:
            with contextlib.suppress(pydantic.ValidationError):
                return StoredDataset(EvaluationDataset.model_validate_json(rows.rest, strict=True), rows)
    whole = EvaluationDataset.read(path)
    return StoredDataset(whole.model_copy(update={"queries": ()}), whole.queries)


def _stored_query(path: Path, data: bytes) -> EvaluationQuery:
    try:
        return EvaluationQuery.model_validate_json(data, strict=True)
    except pydantic.ValidationError:
        EvaluationDataset.read(path)  # raises the error with its place in the file
        raise


class ReadDataset(NamedTuple):
    """A dataset and its reader's findings about the file."""

    dataset: EvaluationDataset
    findings: tuple[Finding, ...]


def read_evaluation_dataset(path: Path) -> ReadDataset:
    """Return the dataset of a file; a finding names the fields that were filled in."""
    return _read(path, parse_evaluation_dataset)


def parse_evaluation_dataset(path: Path) -> ReadDataset:
    """Parse a dataset; raise pydantic's error with all faults.

    Raises:
        InputError: The file cannot be read.
        pydantic.ValidationError: Its content is wrong.
    """
    if path.name.endswith(JSON):
        text = read_json_bytes(path)
        try:
            return ReadDataset(EvaluationDataset.model_validate_json(text, strict=True), ())
        except pydantic.ValidationError as error:
            missing = {one["loc"] for one in error.errors(include_url=False) if one["type"] == "missing"}
            if missing.isdisjoint({("name",), ("version",)}):
                raise
        value = parse_json(text, path)
    elif path.name.endswith(YAML):
        value = read_yaml_data(path)
    elif path.name.endswith(CSV):
        value = _table_value(read_csv_table(path), path)
    else:
        raise InputError("unknown_form", path, f"a name ending in {', '.join(ENDINGS)}")
    findings = _fill_name_and_version(value, path)
    return ReadDataset(parse_value(EvaluationDataset, value), findings)


def read_evret_dataset(path: Path) -> ReadDataset:
    """Return the dataset of Evret's JSON or CSV, with id and version from its name: `flights_v1.2.0.json`."""
    return _read(path, parse_evret_dataset)


def _read(path: Path, parse: Callable[[Path], ReadDataset]) -> ReadDataset:
    try:
        return parse(path)
    except pydantic.ValidationError as error:
        raise first_of(errors_in(dataset_findings(path, error))) from error


def parse_evret_dataset(path: Path) -> ReadDataset:
    """Return the same; raise pydantic's error with all faults of the content."""
    value, findings = read_evret(path)
    name = split_version(dataset_stem(path))
    head = {"dataset_id": name.dataset_id, "name": name.dataset_id, "version": name.version or UNVERSIONED}
    return ReadDataset(EvaluationDataset.model_validate(head | value), findings)


def dataset_findings(path: Path, error: pydantic.ValidationError) -> list[Finding]:
    """Return every error in a dataset's content; those of a CSV by row and column."""
    return model_findings(path, error, rows_of="queries" if path.name.endswith(CSV) else None)


def has_key(text: bytes, key: str) -> bool:
    """Return whether JSON text is an object with a key, without building its other values."""
    probe = msgspec.defstruct("Probe", [("found", Any, msgspec.UNSET)], rename={"found": key})
    try:
        return msgspec.json.decode(text, type=probe).found is not msgspec.UNSET  # type: ignore[attr-defined]
    except msgspec.ValidationError:  # another kind of value
        return False


def _fill_name_and_version(value: Any, path: Path) -> tuple[Finding, ...]:
    """Put name and version where they are missing, in place. Source: Evaluation Data Formats 3.3 requires neither."""
    if not isinstance(value, dict) or not isinstance(value.get("dataset_id"), str):
        return ()
    missing = [key for key in ("name", "version") if key not in value]
    if not missing:
        return ()
    value.setdefault("name", value["dataset_id"])
    value.setdefault("version", split_version(dataset_stem(path)).version or UNVERSIONED)
    filled = ", ".join(f"{key} {str(value[key])!r}" for key in missing)
    hint = f"Read as {filled}; state them in the file."
    return (finding("warning", "older_form", path, f"the fields {' and '.join(missing)}", hint=hint),)


def dataset_stem(path: Path) -> str:
    """Return the file's name without its ending: `x_v1.0.0` of `x_v1.0.0.eval.json.gz`."""
    name = path.name
    name = name.removesuffix(next((ending for ending in ENDINGS if name.endswith(ending)), ""))
    kind = next((kind for kind in (".eval", ".gt", ".results", ".evret") if name.endswith(kind)), "")
    return name.removesuffix(kind) or path.name


_DATASET_TEXTS = ("dataset_id", "name", "version", "description", "created_at", "schema_version")
_DATASET_JSON = {"dataset_metadata": "metadata", "documents": "documents"}  # column -> field
_QUERY_TEXTS = ("query_id", "query_text", "query_type", "difficulty", "ground_truth_answer")
_QUERY_JSON = ("relevant_documents", "citations", "metadata")
_QUERY_COLUMNS = _QUERY_TEXTS + _QUERY_JSON
_COLUMNS = (*_QUERY_COLUMNS, *_DATASET_TEXTS, *_DATASET_JSON)


def _table_value(table: CsvTable, path: Path) -> dict[str, Any]:
    """Return the dataset of a CSV table as a JSON value; a dataset without questions is one row without a question."""
    unknown = [column for column in table.columns if column not in _COLUMNS]
    if unknown:
        hint = f"Known: {', '.join(_COLUMNS)}. Put other fields into metadata."
        raise InputError("bad_csv", path, "columns of an evaluation dataset", found=unknown[0], hint=hint)
    value: dict[str, Any] = {}
    for column in _DATASET_TEXTS:
        text = text_of_cell(_only_value(table, column, path).cells.get(column, ""))
        if text is not None:
            value[column] = text
    for column, name in _DATASET_JSON.items():
        row = _only_value(table, column, path)
        if row.cells.get(column):
            value[name] = value_of_cell(row.cells[column], path, row.number, column)
    value["queries"] = [_query(row, path) for row in table.rows if any(row.cells.get(name) for name in _QUERY_COLUMNS)]
    return value


def _query(row: CsvRow, path: Path) -> dict[str, Any]:
    texts = {column: text_of_cell(row.cells.get(column, "")) for column in _QUERY_TEXTS}
    values = {
        column: value_of_cell(row.cells[column], path, row.number, column)
        for column in _QUERY_JSON
        if row.cells.get(column)
    }
    return {name: text for name, text in texts.items() if text is not None} | values


def _only_value(table: CsvTable, column: str, path: Path) -> CsvRow:
    """Return the row that holds the one value of a dataset's field; a row without cells when none does."""
    holders = [row for row in table.rows if row.cells.get(column)]
    for row in holders[1:]:
        if row.cells[column] != holders[0].cells[column]:
            expected, found = f"the same in every row, {holders[0].cells[column]!r}", row.cells[column]
            raise InputError("bad_csv", path, expected, row=row.number, field=column, found=found)
    return holders[0] if holders else CsvRow(0, {})


def question_clusters(queries: Iterable[EvaluationQuery]) -> dict[str, str]:
    """Return the cluster of each question: its conversation, else its documents; without either it is its own."""
    return {query.query_id: cluster_name(query) or f"question {query.query_id}" for query in queries}


def cluster_name(query: EvaluationQuery) -> str:
    """Return one name for the conversation of a question, else for exactly its documents; "" without any."""
    if query.conversation is not None:
        return sys.intern(f"conversation {query.conversation}")
    return sys.intern("/".join(sorted(query.relevant_documents)))
