"""Which retrieved passages name documents of the corpus, and the warning when they do not.

A system that returns ids of its own, or whose file points at the wrong field, has not missed anything: what it found
cannot be known. Such a question has no retrieval score, instead of 0.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rag_eval_pipeline.conversion.stamp import Check
from rag_eval_pipeline.evaluation.corpus_files import CorpusFiles
from rag_eval_pipeline.systems.answer import RagAnswer

NO_CONTEXTS = "no_contexts"
UNKNOWN_DOCUMENTS = "unknown_documents"
NO_DOCUMENTS_NAMED = "no_documents_named"
NOTHING_KNOWN = (NO_CONTEXTS, UNKNOWN_DOCUMENTS, NO_DOCUMENTS_NAMED)  # reasons why retrieval was skipped

# Where a person looks when no name is known, by kind of system.
_HINTS = {
    "http": "Check contexts.document.",
    "openai": "Check contexts_path, and the key of each passage's document.",
    "nvidia": "Was this corpus ingested into the collection?",
    "python": "Check the document names that the callable returns.",
    "replay": "Check the document names in the recording.",
}


@dataclass(frozen=True, slots=True)
class RetrievedDocuments:
    """The passages of a run, by whether they name a document of the corpus.

    Args:
        answers: Answers that arrived.
        passages: Retrieved passages in them.
        unnamed: Passages without a document's name.
        unknown: Passages that name a document which the corpus does not have.
        returned: The first unknown name, as the system returned it.
        in_corpus: The name in the corpus that is most like it.
        kind: Of the system.
    """

    answers: int
    passages: int
    unnamed: int
    unknown: int
    returned: str | None
    in_corpus: str | None
    kind: str

    @property
    def known(self) -> int:
        """Passages that name a document of the corpus."""
        return self.passages - self.unnamed - self.unknown

    def skip_reason(self, answer: RagAnswer, files: CorpusFiles) -> str | None:
        """Why an answer's retrieval cannot be scored; None if it can.

        An answer without passages is a miss, unless no passage of the whole run names a known document.
        """
        names = [passage.document for passage in answer.contexts]
        if any(name in files for name in names) or (not names and self.known):
            return None
        if names:
            return UNKNOWN_DOCUMENTS if any(names) else NO_DOCUMENTS_NAMED
        if not self.passages:
            return NO_CONTEXTS
        return UNKNOWN_DOCUMENTS if self.unknown else NO_DOCUMENTS_NAMED

    def warnings(self) -> list[str]:
        """What a person should know before reading the retrieval scores; empty when every passage is known."""
        if not self.answers or self.known == self.passages > 0:
            return []
        if not self.passages:
            return [
                f"None of {self.answers} answers states retrieved passages, so retrieval is not scored [{NO_CONTEXTS}]."
            ]
        share = f"{self.known} of {self.passages} retrieved passages name a document of the corpus."
        found = []
        if self.unknown:
            found.append(f"Returned: {self.returned!r}; the corpus has {self.in_corpus!r}.")
        if self.unnamed:
            which = "They state" if self.unnamed == self.passages else f"{self.unnamed} state"
            found.append(f"{which} no document at all.")
        return [" ".join([share, *found, _HINTS.get(self.kind, "")]).strip()]

    def check(self) -> Check:
        """The check `retrieved_documents_known`."""
        numbers: dict[str, Any] = {
            "passages": self.passages, "known": self.known, "unknown": self.unknown, "unnamed": self.unnamed,
        }  # fmt: skip
        if warnings := self.warnings():
            numbers["warning"] = warnings[0]
        return Check(
            name="retrieved_documents_known", passed=self.known == self.passages, blocking=False, numbers=numbers
        )


def retrieved_documents(answers: Iterable[RagAnswer], files: CorpusFiles, *, kind: str) -> RetrievedDocuments:
    """Count the passages of a run's answers by whether the corpus has their documents."""
    n_answers = n_passages = unnamed = unknown = 0
    returned: str | None = None
    for answer in answers:
        n_answers += answer.status == "ok"
        n_passages += len(answer.contexts)
        for passage in answer.contexts:
            if not passage.document:
                unnamed += 1
            elif passage.document not in files:
                unknown += 1
                returned = passage.document if returned is None else returned
    in_corpus = None if returned is None else files.most_like(returned)
    return RetrievedDocuments(n_answers, n_passages, unnamed, unknown, returned, in_corpus, kind)
