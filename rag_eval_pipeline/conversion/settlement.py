"""Which accepted questions stay when some of their documents could not be had.

`on_missing_document` decides: `quarantine` takes the question out, `keep` takes the context out and counts it, `fail`
does the same and a blocking check fails, so that everything else can be looked at.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from rag_eval_pipeline.conversion.records import QuarantineRecord, Question

STAGE = "documents"
Policy = Literal["quarantine", "keep", "fail"]


@dataclasses.dataclass(frozen=True, slots=True)
class Settlement:
    """Questions that stay, records of those that go, and how many contexts were taken out."""

    questions: list[Question]
    quarantined: list[QuarantineRecord]
    contexts_lost: int


def settle(questions: Sequence[Question], missing: Mapping[str, str], policy: Policy) -> Settlement:
    """Questions as the datasets will have them.

    Args:
        questions: Accepted ones.
        missing: File names that are not in the corpus, and why.
        policy: `on_missing_document` of the spec.
    """
    kept: list[Question] = []
    quarantined: list[QuarantineRecord] = []
    lost = 0
    for question in questions:
        gone = [c.file_name for c in question.contexts if c.file_name is not None and c.file_name in missing]
        if gone and policy == "quarantine":
            quarantined.append(_record(question, gone[0], missing[gone[0]]))
            continue
        lost += len(gone)
        contexts = tuple(context for context in question.contexts if context.file_name not in missing)
        kept.append(dataclasses.replace(question, contexts=contexts))
    return Settlement(kept, quarantined, lost)


def _record(question: Question, file_name: str, reason: str) -> QuarantineRecord:
    return QuarantineRecord(
        stage=STAGE,
        code="missing_document",
        file=question.source_file,
        sha256=None,
        row=question.source_row,
        question_id=question.id,
        field="contexts",
        expected="documents that can be had",
        excerpt=f"{file_name}: {reason}"[:200],
    )
