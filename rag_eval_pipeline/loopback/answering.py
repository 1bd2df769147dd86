"""Answers: found in the uploaded documents by the embedded system, or canned for load tests."""

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from rag_eval_pipeline.loopback.library import Collection
from rag_eval_pipeline.systems.answer import Query
from rag_eval_pipeline.systems.embedded.settings import EmbeddedSettings
from rag_eval_pipeline.systems.embedded.system import EmbeddedSystem

PASSAGES_MAX = 25  # the server's bound on reranker_top_k
CANNED_PASSAGES = 2
CANNED_DOCUMENTS = 50  # names that are made up where nothing was uploaded
_CITED_PAGE = re.compile(r":(\d+)(?=:\d+-\d+\])")
_INDEXES_MAX = 8  # combinations of collections that are kept ready


class FoundPassage(NamedTuple):
    """A retrieved passage; `page` is 1-based."""

    document: str
    page: int
    text: str
    score: float


class FoundAnswer(NamedTuple):
    """A text, and the passages behind it, best first."""

    text: str
    passages: list[FoundPassage]


class Answers:
    """The answers over collections; an index is built when a changed collection is first asked.

    Args:
        page_base: Number of a first page, as it stands in citations.
    """

    def __init__(self, *, page_base: int) -> None:
        self._page_base = page_base
        self._systems: dict[tuple[tuple[str, int], ...], EmbeddedSystem] = {}

    async def find(self, question: str, collections: Sequence[Collection]) -> FoundAnswer:
        """The embedded system's answer over collections."""
        system = self._system(collections)
        answer = await system.answer(Query("", question))
        passages = [FoundPassage(c.document, c.page or 1, c.text, c.score or 0.0) for c in answer.contexts]
        text = _CITED_PAGE.sub(lambda match: f":{int(match[1]) - 1 + self._page_base}", answer.answer or "")
        return FoundAnswer(text, passages)

    def _system(self, collections: Sequence[Collection]) -> EmbeddedSystem:
        key = tuple((collection.name, collection.revision) for collection in collections)
        if key not in self._systems:
            while len(self._systems) >= _INDEXES_MAX:
                self._systems.pop(next(iter(self._systems)))
            pages = [page for collection in collections for page in collection.pages()]
            self._systems[key] = EmbeddedSystem(pages, EmbeddedSettings(k=PASSAGES_MAX))
        return self._systems[key]


def canned_answer(question: str, documents: Sequence[str] = ()) -> FoundAnswer:
    """An answer that follows from the question's hash.

    Args:
        question: Whatever is asked.
        documents: Names that it may cite; without them names are made up.
    """
    digest = hashlib.blake2b(question.encode(errors="surrogatepass"), digest_size=16).digest()
    passages = []
    for rank in range(CANNED_PASSAGES):
        number = int.from_bytes(digest[rank * 4 : rank * 4 + 4])
        name = documents[number % len(documents)] if documents else f"canned_{number % CANNED_DOCUMENTS}.pdf"
        passages.append(FoundPassage(name, number % 7 + 1, f"Passage {number}.", 1.0 / (rank + 1)))
    return FoundAnswer(f"Answer {digest.hex()[:12]} naïve & short.", passages)
