"""What conversion makes of a benchmark: questions, quarantine records, counts.

Question ids are 0-based over the rows that the `questions` query returns; messages and quarantine records count rows
from 1.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rag_eval_pipeline.errors import fault_line


@dataclass(frozen=True, slots=True)
class Context:
    """A document, or a text, that supports the answer.

    Args:
        document: `PlannedDocument.key`; None when the source gives a text without a document.
        file_name: Exact basename in the corpus; None exactly when `document` is.
        text: Gold text, where the source has one.
        page: 1-based page the source gives.
        start: Start of the gold text in the source's own body, in code points; never written to a product file.
        end: End of it, exclusive.
        relevance: Grade of the document for the question, as qrels give it; None where the source has no grades.
        url: As the question names the document; None where it names it in another way.
    """

    document: str | None
    file_name: str | None
    text: str | None = None
    page: int | None = None
    start: int | None = None
    end: int | None = None
    relevance: int | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One accepted row of a benchmark.

    Args:
        id: 0-based row of the `questions` query; does not move when other rows are dropped.
        question: As the source has it, white space included.
        answer: "" only when impossible.
        answers: All accepted answers, `answer` first, without repeats; empty when impossible.
        is_impossible: The corpus has no answer; a right system abstains.
        contexts: In the source's order.
        source_id: The source's own id.
        query_type: One of the specification's four; other words stay in `metadata`.
        difficulty: One of the specification's three; other words stay in `metadata`.
        metadata: Anything else the mapping kept; JSON values.
        source_file: Name of the file the row came from, relative to the benchmark's folder.
        source_row: 1-based row in that file.
    """

    id: int
    question: str
    answer: str
    answers: tuple[str, ...]
    is_impossible: bool
    contexts: tuple[Context, ...]
    source_id: str | None = None
    query_type: str | None = None
    difficulty: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    source_file: str | None = None
    source_row: int | None = None


@dataclass(frozen=True, slots=True)
class QuarantineRecord:
    """A row that was dropped or refused, and why: the facts of an `InputError`.

    Args:
        stage: `where` for rows dropped as the spec states, `validation` for bad rows, `documents` for rows whose
            document could not be had.
        code: One cause, one code.
        file: Source file, relative to the benchmark's folder.
        sha256: Of that file.
        row: 1-based row in that file (logical: a record, not a line of text).
        line: 1-based physical line where known.
        question_id: The id the question would have had.
        field: The source's or the mapping's column name.
        expected: What should have stood there.
        excerpt: What stood there, at most 200 characters.
    """

    stage: str
    code: str
    file: str | None
    sha256: str | None
    row: int | None
    question_id: int | None
    field: str | None
    expected: str
    excerpt: str | None
    line: int | None = None

    def message(self, benchmark: str) -> str:
        """The record as a line for people, with the file as it is named from the workspace's root."""
        file = None if self.file is None else f"data/sources/{benchmark}/{self.file}"
        return fault_line(
            self.code, file, self.expected, row=self.row, line=self.line, field=self.field, found=self.excerpt
        )


LOST = "lost."  # begins the names of a step's counts of lost contexts; the cause follows


def lost_counts(lost: Mapping[str, int]) -> dict[str, int]:
    """Lost contexts by cause, as counts of a step."""
    return {f"{LOST}{cause}": lost[cause] for cause in sorted(lost)}


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the rows: `rows == accepted + dropped + quarantined` always.

    Args:
        contexts: Of accepted questions.
        contexts_lost: Contexts that accepted questions name and that could not be kept, by cause.
        without_document: Answerable accepted questions that have no context with a document.
        gold_texts: Contexts with a text and a document.
    """

    rows: int
    accepted: int
    dropped: int
    quarantined: int
    impossible: int
    contexts: int
    documents: int
    contexts_lost: Mapping[str, int] = field(default_factory=dict)
    without_document: int = 0
    gold_texts: int = 0

    @property
    def conserved(self) -> bool:
        """No row was lost and none was made up."""
        return self.rows == self.accepted + self.dropped + self.quarantined

    def record(self) -> dict[str, int]:
        """As the counts of a conversion step: numbers only."""
        numbers = asdict(self)
        lost = numbers.pop("contexts_lost")
        return {**numbers, **lost_counts(lost)}
