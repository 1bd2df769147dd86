"""Findings of an audit: what is wrong with questions, how many have it, what shows it, and what to do."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from rag_eval_pipeline.conversion.odd_questions import Severity as Severity


@dataclass(frozen=True, slots=True)
class Suspect:
    """A question that a finding names."""

    question: int  # id in the dataset
    place: str  # file and row of the source; the id if these are not known
    evidence: str  # what shows it, with the texts and pages that differ, as a sentence
    answers: tuple[str, ...] = ()  # what `fix` would set; empty where only a person can say it


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One kind of fault of a benchmark."""

    kind: str  # such as `near_duplicate`; decisions name it
    severity: Severity
    text: str  # what is wrong, as a sentence
    remedy: str  # what to do, as a sentence
    suspects: tuple[Suspect, ...] = ()  # all of them, the surest first
    documents: tuple[str, ...] = ()  # file names, of findings about documents

    @property
    def count(self) -> int:
        """The number of questions, or else of documents."""
        return len(self.suspects) or len(self.documents)


def undecided(findings: Iterable[AuditFinding], kept: Mapping[int, Collection[str]]) -> list[AuditFinding]:
    """Return findings without the questions of which a person says that this kind of finding is no fault (`kept`)."""
    left = []
    for one in findings:
        suspects = tuple(suspect for suspect in one.suspects if one.kind not in kept.get(suspect.question, ()))
        if suspects or not one.suspects:
            left.append(replace(one, suspects=suspects))
    return left
