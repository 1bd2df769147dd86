"""Recorded answers, found again by the question's id or by its text."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.results import Status
from rag_eval_pipeline.formats.trec_lines import encode_id
from rag_eval_pipeline.systems.answer import Query
from rag_eval_pipeline.systems.python.adapters import Said

NULL_ANSWER = "the recorded answer is null; a recording that abstains says abstained: true"


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded answer.

    Args:
        row: 1-based in its file.
        query_id: As recorded; None when the file knows questions by their text.
        question: As recorded; None when the file knows questions by their ids.
        said: What was said.
        has_answer: False for a retrieval without an answer, such as a line of a TREC run.
        status: How asking ended.
        latency_ms: None where it was not recorded.
        error: Of a failed one.
        error_code: Of a failed one.
        timings: Milliseconds by name.
        fault: Why the row cannot be read; it counts as a failed answer.
    """

    row: int
    query_id: str | None
    question: str | None
    said: Said
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
        form: Which form the file has.
        by_id: Question's id -> answer.
        by_text: Question's text, white space folded -> answer; texts that several ids share are not among them.
        configuration: Of the system that answered, where the file says.
        rows: Every recording, also those that name no question.
    """

    form: str
    by_id: dict[str, Recording]
    by_text: dict[str, Recording]
    configuration: dict[str, Any]
    rows: list[Recording]

    def find(self, query: Query) -> Recording | None:
        """The answer to a question; None when there is none.

        A recording of the same id but of another question is passed over: ids move when a dataset gets a new version.
        """
        text = folded(query.text)
        for key in (query.query_id, encode_id(query.query_id)):
            found = self.by_id.get(key)
            if found is not None and (found.question is None or folded(found.question) == text):
                return found
        return self.by_text.get(text)


def indexed(path: Path, form: str, recordings: Iterable[Recording], configuration: Any = None) -> Recordings:
    """Answers by id and by text.

    Where some rows have an answer, one that has none was not answered; a file without any is a retrieval alone.

    Raises:
        InputError: `no_recordings`; `duplicate_question` naming both rows when an id, or the text of a question without
            id, stands twice.
    """
    by_id: dict[str, Recording] = {}
    by_text: dict[str, Recording] = {}
    shared: set[str] = set()
    rows = list(recordings)
    if any(row.status == "ok" and row.has_answer for row in rows):
        rows = [row if row.has_answer or row.status != "ok" else _unanswered(row) for row in rows]
    for recording in rows:
        if recording.query_id is not None:
            _once(path, by_id.setdefault(recording.query_id, recording), recording, "query_id", recording.query_id)
        if recording.question is not None:
            text = folded(recording.question)
            first = by_text.setdefault(text, recording)
            if recording.query_id is None or first.query_id is None:
                _once(path, first, recording, "question", recording.question)
            elif first is not recording:
                shared.add(text)
    if not rows:
        raise InputError("no_recordings", path, "one recorded answer or more")
    for text in shared:
        del by_text[text]
    return Recordings(form, by_id, by_text, configuration if isinstance(configuration, dict) else {}, rows)


def folded(text: str) -> str:
    """A question as it is compared: white space is no difference."""
    return " ".join(text.split())


def _unanswered(recording: Recording) -> Recording:
    return replace(recording, status="error", error_code="recorded_failure", error=NULL_ANSWER)


def _once(path: Path, first: Recording, recording: Recording, field: str, found: str) -> None:
    if first is not recording:
        raise InputError(
            "duplicate_question", path, f"each question once; it stands in row {first.row} too", row=recording.row,
            field=field, found=found,
        )  # fmt: skip
