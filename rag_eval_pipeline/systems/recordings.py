"""Recorded answers of a system, found by the id, the source's id or the text of a question."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NoReturn, Self

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.results import Status
from rag_eval_pipeline.formats.trec import encode_id
from rag_eval_pipeline.systems.base import Query
from rag_eval_pipeline.systems.frameworks import ParsedAnswer

NO_ERROR_GIVEN = "the recording has no answer and does not say why"
NULL_ANSWER = "the recorded answer is null; a recording that abstains says abstained: true"


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded answer.

    Args:
        row: 1-based in its file.
        query_id: As recorded; None if the file identifies questions by their text.
        question: As recorded; None if the file identifies questions by their ids.
        has_answer: False for a retrieval without an answer, such as a line of a TREC run.
        fault: Why the row cannot be read; it counts as a failed answer.
    """

    row: int
    query_id: str | None
    question: str | None
    parsed: ParsedAnswer
    has_answer: bool = True
    status: Status = "ok"
    latency_ms: float | None = None
    error: str | None = None
    error_code: str | None = None
    timings: dict[str, float] = field(default_factory=dict)
    fault: InputError | None = None


@dataclass(frozen=True, slots=True)
class Recordings:
    """All answers of one file.

    Args:
        by_id: Question's id -> answer.
        by_text: Question's text, white space folded -> answer; texts that several ids share are left out.
        rows: Every recording, also those that name no question.
        by_source_id: Question's id -> answer, if the recording has the ids of the questions' source.
    """

    form: str
    by_id: dict[str, Recording]
    by_text: dict[str, Recording]
    configuration: dict[str, Any]
    rows: list[Recording]
    by_source_id: dict[str, Recording] | None = None

    def find(self, query: Query) -> Recording | None:
        """Return the answer to a question; None if there is none.

        A recording of the same id but of another question is ignored: ids move when a dataset gets a new version.
        """
        text = _folded(query.text)
        if self.by_source_id is not None:
            found = self.by_source_id.get(query.query_id)
        else:
            found = _find(self.by_id, query.query_id)
        if found is not None and (found.question is None or _folded(found.question) == text):
            return found
        return self.by_text.get(text)

    def with_ids(self, ids: Literal["query_id", "source_id"] | None, source_ids: Mapping[str, str], path: Path) -> Self:
        """Return these recordings by the ids that their rows have: the dataset's, or those of the questions' source.

        Args:
            ids: None for those that more rows without a question's text fit.
            source_ids: Question's id -> its id in the source.

        Raises:
            InputError: `ambiguous_ids` if as many questions have an answer either way, but not the same answers.
        """
        by_source_id = _match_source_ids(self.by_id, source_ids)
        if ids is None:
            ours = {key: row for key in source_ids if (row := _find(self.by_id, key)) and row.question is None}
            theirs = {key: row for key, row in by_source_id.items() if row.question is None}
            if len(ours) == len(theirs) and ours != theirs:
                expected = "either the dataset's ids, from 0, or the ids of the benchmark's source"
                hint = "State which they are in the system's settings, `ids: query_id` or `ids: source_id`, or add the "
                raise InputError(
                    "ambiguous_ids", path, expected, found=f"{len(ours)} ids of both", hint=f"{hint}questions' texts."
                )
            ids = "source_id" if len(theirs) > len(ours) else "query_id"
        return self if ids == "query_id" else replace(self, by_source_id=by_source_id)


def index_recordings(path: Path, form: str, recordings: Iterable[Recording], configuration: Any = None) -> Recordings:
    """Index answers by id and by text.

    If some rows have an answer, one that has none was not answered; a file without any is a retrieval alone.
    """

    def refuse(first: Recording, second: Recording, field: str, found: str) -> NoReturn:
        expected = f"each question once; row {first.row} has it too"
        raise InputError("duplicate_question", path, expected, row=second.row, field=field, found=found)

    by_id: dict[str, Recording] = {}
    by_text: dict[str, Recording] = {}
    shared: set[str] = set()
    rows = list(recordings)
    if not rows:
        raise InputError("no_recordings", path, "one recorded answer or more")
    if any(row.status == "ok" and row.has_answer for row in rows):
        rows = [
            row
            if row.has_answer or row.status != "ok"
            else replace(row, status="error", error_code="recorded_failure", error=NULL_ANSWER)
            for row in rows
        ]
    for row in rows:
        if row.query_id is not None and (first := by_id.setdefault(row.query_id, row)) is not row:
            refuse(first, row, "query_id", row.query_id)
        if row.question is not None:
            text = _folded(row.question)
            if (first := by_text.setdefault(text, row)) is not row:
                if row.query_id is None or first.query_id is None:
                    refuse(first, row, "question", row.question)
                shared.add(text)
    for text in shared:
        del by_text[text]
    return Recordings(form, by_id, by_text, configuration if isinstance(configuration, dict) else {}, rows)


def _find(by_id: Mapping[str, Recording], query_id: str) -> Recording | None:
    """Return the recording of an id, which in a TREC run has no white space."""
    return by_id.get(query_id) or by_id.get(encode_id(query_id))


def _match_source_ids(by_id: Mapping[str, Recording], source_ids: Mapping[str, str]) -> dict[str, Recording]:
    """Return the recording of each question by its id in the source, `1` also for `01`; shared ids have none."""
    counts = Counter(source_ids.values())
    numbers = Counter(map(_without_zeros, source_ids.values()))
    recorded = Counter(map(_without_zeros, by_id))
    bare = {number: row for key, row in by_id.items() if recorded[number := _without_zeros(key)] == 1}
    found = {}
    for query_id, source_id in source_ids.items():
        row = _find(by_id, source_id) if counts[source_id] == 1 else None
        if row is None and numbers[_without_zeros(source_id)] == 1:
            row = bare.get(_without_zeros(source_id))
        if row is not None:
            found[query_id] = row
    return found


def _without_zeros(identifier: str) -> str:
    return identifier.lstrip("0") or "0" if identifier.isascii() and identifier.isdecimal() else identifier


def _folded(text: str) -> str:
    """Return a question as it is compared: differences in white space do not count."""
    return " ".join(text.split())
