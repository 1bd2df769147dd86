"""`audit.yaml`: people's decisions to drop, fix or keep questions that an audit finds suspect, or to add questions.

A plan applies them to the rows of the source, so that all files of a conversion agree.
"""

import datetime
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, Self

import pyarrow as pa
from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.conversion.benchmark_spec import spec_error
from rag_eval_pipeline.conversion.mapping import column_values
from rag_eval_pipeline.conversion.question_spool import SCHEMA, iterate_batches
from rag_eval_pipeline.conversion.sql_checks import KEEP, TRACE_FILE, TRACE_ITEM, TRACE_ROW
from rag_eval_pipeline.errors import InputError, counted, excerpt
from rag_eval_pipeline.sources.source_spec import SpecPart, Text, listed, shown_path
from rag_eval_pipeline.storage.atomic_files import file_sha256
from rag_eval_pipeline.storage.yaml_files import DATA, parse_yaml, resolve_scalars
from rag_eval_pipeline.text.folding import scalar_text
from rag_eval_pipeline.workspace import BenchmarkPaths

SUGGESTED = "suggested"  # the finding of a question from production, which is in no source


class Decision(SpecPart):
    """What a person decided about one question."""

    id: Text = Field(description="The question's `source_id`; without one, its row number, from 0.")
    question: Text = Field(
        description="Text of the question, by which it is found; if several have this text, `id` says "
        "which one is meant."
    )
    decision: Literal["drop", "fix", "keep", "add"] = Field(
        description="drop: the question is left out; fix: it gets other answers; keep: it is right, and "
        "`finding` is hidden; add: it is a further question, asked once it has `answers` or is `unanswerable`."
    )
    answers: Annotated[tuple[Text, ...], BeforeValidator(listed)] = Field(
        default=(), description="For fix and add: all accepted answers, the main one first."
    )
    unanswerable: Annotated[bool, BeforeValidator(resolve_scalars)] = Field(
        default=False, description="For fix and add, instead of `answers`: the documents do not answer the question."
    )
    documents: Annotated[tuple[Text, ...], BeforeValidator(listed)] = Field(
        default=(), description="For add: names or URLs of the documents that have the answer."
    )
    finding: Text | None = Field(default=None, description="Kind of the finding; required for keep.")
    reason: Text | None = Field(default=None, description="Reason, for people.")
    by: Text | None = Field(default=None, description="Who decided.")
    on: datetime.date | None = Field(default=None, description="When: a day such as 2026-11-27.")

    @model_validator(mode="after")
    def _one_meaning(self) -> Self:
        stated = bool(self.answers) + self.unanswerable
        if stated > 1 or (self.decision != "add" and stated != (self.decision == "fix")):
            expected = (
                "for `fix` either `answers` or `unanswerable: true`, for add at most one, for drop and keep neither"
            )
            raise PydanticCustomError("bad_value", expected)
        if self.documents and self.decision != "add":
            raise PydanticCustomError("bad_value", "`documents` only for add")
        if any(not answer.strip() or "\0" in answer for answer in self.answers):
            raise PydanticCustomError("bad_value", "answers with text, and without NUL")
        if self.decision == "keep" and self.finding is None:
            raise PydanticCustomError("bad_value", "for `keep` the kind of `finding` to ignore")
        return self


class AuditFile(SpecPart):
    """The file."""

    decisions: tuple[Decision, ...] = Field(description="Drop or fix of a question once, keep once a finding.")


class Row(NamedTuple):
    """A question as decisions name it."""

    id: int  # as in `Question`
    source_id: str | None
    question: str


_ADDED = pa.schema({
    "question": pa.string(), "answers": pa.list_(pa.string()), "is_impossible": pa.bool_(), "source_id": pa.string(),
    "contexts": pa.list_(pa.struct({"url": pa.string(), "document": pa.string()})),
    KEEP: pa.bool_(), TRACE_FILE: pa.string(), TRACE_ROW: pa.int64(), TRACE_ITEM: pa.string(),
})  # fmt: skip


@dataclass(slots=True)
class PlacedDecisions:
    """Decisions by the number of their question."""

    drops: dict[int, Decision] = field(default_factory=dict)
    fixes: dict[int, Decision] = field(default_factory=dict)
    kept: dict[int, set[str]] = field(default_factory=dict)  # kinds of findings that are no faults of it
    added: list[Decision] = field(default_factory=list)  # questions with a gold answer
    notes: list[str] = field(default_factory=list)  # on decisions without a question

    def added_rows(self) -> pa.RecordBatch:
        """Return the further questions as mapped rows."""
        rows = [
            {
                "question": one.question, "answers": one.answers, "is_impossible": one.unanswerable,
                "contexts": [{"url" if "://" in name else "document": name} for name in one.documents],
                "source_id": one.id, KEEP: True, TRACE_FILE: "audit.yaml", TRACE_ROW: row, TRACE_ITEM: None,
            }
            for row, one in enumerate(self.added, start=1)
        ]  # fmt: skip
        return pa.RecordBatch.from_pylist(rows, _ADDED)

    def fixed(self, questions: pa.RecordBatch) -> tuple[pa.RecordBatch, set[int]]:
        """Return accepted questions with their other answers, and the numbers of those that have some."""
        ids = questions.column("id").to_pylist()
        fixes = {number: self.fixes[number] for number in ids if number in self.fixes}
        for name, fixed in _FIXED.items() if fixes else ():
            given = zip(ids, questions.column(name).to_pylist(), strict=True)
            values = [fixed(fixes[number]) if number in fixes else value for number, value in given]
            column = SCHEMA.field(name)
            questions = questions.set_column(SCHEMA.get_field_index(name), column, pa.array(values, column.type))
        return questions, set(fixes)


_FIXED: Mapping[str, Callable[[Decision], object]] = {
    "answer": lambda one: next(iter(one.answers), ""),
    "answers": lambda one: list(dict.fromkeys(one.answers)),
    "is_impossible": lambda one: one.unanswerable,
}


def read_decisions(paths: BenchmarkPaths) -> tuple[Decision, ...]:
    """Return the decisions of a benchmark's audit.yaml; none without the file."""
    return parse_decisions(paths, paths.audit.read_bytes()) if paths.audit.exists() else ()


def parse_decisions(paths: BenchmarkPaths, text: bytes) -> tuple[Decision, ...]:
    """Return the decisions of the text of an audit.yaml; the message of an `InputError` names the line."""
    shown = shown_path(paths, paths.audit.name)
    document = parse_yaml(text, shown, DATA)
    if not isinstance(document.value, dict):
        raise InputError("bad_value", shown, "a mapping with `decisions`, a list", found=document.value)
    try:
        return AuditFile.model_validate(document.value).decisions
    except ValidationError as error:
        raise spec_error(error, document, shown, AuditFile) from None


def audit_sha256(paths: BenchmarkPaths) -> str | None:
    """Return the SHA-256 of a benchmark's audit.yaml; None without one."""
    return file_sha256(paths.audit) if paths.audit.exists() else None


def source_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the questions among mapped rows; those that `where` drops have a number and are none."""
    start = 0
    for batch in batches:
        names = [name for name in ("question", "source_id") if name in batch.schema.names]
        columns, _ = column_values(batch.select(names))
        ids = columns.get("source_id", [None] * batch.num_rows)
        keep = batch.column(KEEP).to_pylist()
        for place, (question, source_id) in enumerate(zip(columns["question"], ids, strict=True)):
            if keep[place] and isinstance(question, str):
                yield Row(start + place, scalar_text(source_id), question)
        start += batch.num_rows


def converted_decisions(paths: BenchmarkPaths) -> PlacedDecisions:
    """Return the present decisions on the questions of the last conversion."""
    decisions = read_decisions(paths)
    batches = iterate_batches(paths.questions, Row._fields) if decisions else ()
    columns = ([batch.column(name).to_pylist() for name in Row._fields] for batch in batches)
    return place_decisions(decisions, (Row(*row) for one in columns for row in zip(*one, strict=True)))


def place_decisions(decisions: Sequence[Decision], rows: Iterable[Row]) -> PlacedDecisions:
    """Find the question of each decision: that with its text, of several the one with its id."""
    texts = {one.question for one in decisions}
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows if decisions else ():
        if row.question in texts:
            found[row.question].append(row)

    def own(one: Decision) -> Row | None:
        return next((row for row in found[one.question] if one.id == (row.source_id or str(row.id))), None)

    placed = PlacedDecisions()
    placed.added = [one for one in decisions if one.decision == "add" and (one.answers or one.unanswerable)]
    if drafts := sum(one.decision == "add" for one in decisions) - len(placed.added):
        placed.notes.append(f"audit.yaml: {drafts} taken, without a gold answer yet: not asked.")
    # A question from production that is dropped is in no source.
    others = (one for one in decisions if one.decision != "add" and (one.finding != SUGGESTED or found[one.question]))
    for one in sorted(others, key=lambda one: own(one) is None):
        same = found[one.question]
        number = next((row.id for row in (own(one), *same[: len(same) == 1]) if row), None)
        if number is None:
            left = (
                f"{counted(len(same), 'question has', 'questions have')} this text, and none this id"
                if same
                else "no question has this text"
            )
        elif one.decision == "keep":
            placed.kept.setdefault(number, set()).add(one.finding or "")
            continue
        elif number in placed.drops or number in placed.fixes:
            left = "another decision is about the same question"
        else:
            (placed.drops if one.decision == "drop" else placed.fixes)[number] = one
            continue
        placed.notes.append(f"audit.yaml: {one.decision} of {one.id}, {excerpt(one.question)}, is not used: {left}.")
    return placed
