"""Which accepted questions stay when some of their documents could not be had.

`on_missing_document` decides: `quarantine` takes the question out, `keep` takes the context out and counts it, `fail`
does the same and a blocking check fails, so that everything else can be looked at.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from rag_eval_pipeline.conversion.questions_file import batch_of, questions_of
from rag_eval_pipeline.conversion.records import QuarantineRecord, Question

if TYPE_CHECKING:
    import pyarrow as pa

STAGE = "documents"
Policy = Literal["quarantine", "keep", "fail"]


@dataclasses.dataclass(frozen=True, slots=True)
class Settlement:
    """Questions that stay, records of those that go, and how many contexts were taken out.

    Args:
        contexts_lost: Taken out of questions that stay.
        lost: All that are no longer there, by the code of their document's fault; `question_quarantined` for those
            that have gone with their question.
    """

    questions: list[Question]
    quarantined: list[QuarantineRecord]
    contexts_lost: int
    lost: Counter[str]


class Missing(NamedTuple):
    """Why a document is not in the corpus."""

    code: str
    reason: str


def settle(questions: Sequence[Question], missing: Mapping[str, Missing], policy: Policy) -> Settlement:
    """Questions as the datasets will have them.

    Args:
        questions: Accepted ones.
        missing: File names that are not in the corpus, and why.
        policy: `on_missing_document` of the spec.
    """
    kept: list[Question] = []
    quarantined: list[QuarantineRecord] = []
    contexts_lost = 0
    lost: Counter[str] = Counter()
    for question in questions:
        gone = [c.file_name for c in question.contexts if c.file_name is not None and c.file_name in missing]
        lost.update(missing[name].code for name in gone)
        if gone and policy == "quarantine":
            quarantined.append(_record(question, gone[0], missing[gone[0]].reason))
            lost["question_quarantined"] += len(question.contexts) - len(gone)
            continue
        contexts_lost += len(gone)
        contexts = tuple(context for context in question.contexts if context.file_name not in missing)
        kept.append(dataclasses.replace(question, contexts=contexts))
    return Settlement(kept, quarantined, contexts_lost, +lost)


class Settling:
    """Questions as the datasets will have them, a batch at a time; what goes is known when all were read.

    Args:
        missing: File names that are not in the corpus, and why.
        policy: `on_missing_document` of the spec.
    """

    def __init__(self, missing: Mapping[str, Missing], policy: Policy) -> None:
        self.quarantined: list[QuarantineRecord] = []
        self.contexts_lost = 0
        self.lost: Counter[str] = Counter()
        self._missing, self._policy = missing, policy

    @property
    def has_missing(self) -> bool:
        """Whether any document is missing; then all columns are needed to say whose it was."""
        return bool(self._missing)

    def batches(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """The questions that stay, in the columns of `questions.parquet`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        gone = pa.array(list(self._missing), pa.string())
        for batch in batches:
            names = batch.column("contexts").flatten().field("file_name")
            if not self._missing or not pc.any(pc.is_in(names, gone)).as_py():
                yield batch
                continue
            settled = settle(questions_of(batch), self._missing, self._policy)
            self.quarantined += settled.quarantined
            self.contexts_lost += settled.contexts_lost
            self.lost += settled.lost
            yield batch_of(settled.questions)


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
