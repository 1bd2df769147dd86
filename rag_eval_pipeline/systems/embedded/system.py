"""The embedded RAG system: BM25 passages, an extractive answer with a citation, abstention when nothing fits.

Deterministic: one writer thread, and ties are ordered by document, page and start, because tantivy's own tie order is
not stable. It needs no model, no network and no server, so the pipeline can be tried, tested and demonstrated anywhere.
"""

import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rag_eval_pipeline.formats.citations import format_citation
from rag_eval_pipeline.systems.answer import Configuration, Query, RagAnswer, RetrievedPassage, citations_in
from rag_eval_pipeline.systems.corpus import PageText, SystemCorpus
from rag_eval_pipeline.systems.embedded.extraction import Place, extract
from rag_eval_pipeline.systems.embedded.passages import Passage, Sentence, passages
from rag_eval_pipeline.systems.embedded.settings import EmbeddedSettings
from rag_eval_pipeline.systems.embedded.terms import bigrams, coverage, inverse_document_frequency, spaced_words, terms
from rag_eval_pipeline.systems.kinds import KINDS
from rag_eval_pipeline.text.tokens import has_unspaced

if TYPE_CHECKING:
    import tantivy

ABSTENTION = "The documents do not answer this question."
INDEX_HEAP_BYTES = 50_000_000  # one segment for corpora of some 100,000 passages; tantivy asks for 15 MB at least
OVERFETCH = 4  # candidates a retrieved passage: ties at the edge are then ordered by us, and reranking has a choice


class _Found(NamedTuple):
    passage: Passage
    score: float
    sentence: Sentence
    covered: float


class EmbeddedSystem:
    """BM25 retrieval and an extractive answer over one corpus, held in memory.

    Args:
        pages: The corpus, page by page.
        settings: How to retrieve and when to abstain.
    """

    def __init__(self, pages: Sequence[PageText], settings: EmbeddedSettings) -> None:
        self._settings = settings
        self._passages = list(passages(pages, words=settings.passage_words))
        self._files = {page.document for page in pages}
        self._weights = inverse_document_frequency(s.text for p in self._passages for s in p.sentences)
        self._rarest = max(self._weights.values(), default=1.0)
        self._index = _build_index(self._passages)
        self._searcher = self._index.searcher()

    def configuration(self) -> Configuration:
        """The settings, under the specification's names where it has one."""
        return {
            "model": KINDS["embedded"].version,
            "embedding_model": None,
            "retrieval_k": self._settings.k,
            "reranking_enabled": self._settings.rerank,
            "passage_words": self._settings.passage_words,
            "abstention_threshold": self._settings.abstention_threshold,
            "answer": self._settings.answer,
        }

    def server_configuration(self) -> None:
        """There is no server."""

    def warnings(self) -> tuple[str, ...]:
        """Nothing can go unnoticed."""
        return ()

    async def answer(self, query: Query) -> RagAnswer:
        """An answer with its citation, or the statement that there is none."""
        started = time.perf_counter()
        found = self._retrieve(query.text)
        best = found[0] if found else None
        if best is None or best.covered < self._settings.abstention_threshold:
            text = ABSTENTION
        else:
            text = _answer_text(query.text, best.sentence, self._settings)
        return RagAnswer(
            query_id=query.query_id,
            status="ok",
            answer=text,
            abstained=text == ABSTENTION,
            contexts=tuple(_context(f, rank) for rank, f in enumerate(found, start=1)),
            citations=citations_in(text, self._files),
            latency_ms=(time.perf_counter() - started) * 1000,
        )

    def retrieve(self, question: str) -> list[RetrievedPassage]:
        """At most k passages, best first; ties are in the order of documents, pages and starts."""
        return [_context(found, rank) for rank, found in enumerate(self._retrieve(question), start=1)]

    def _retrieve(self, question: str) -> list[_Found]:
        """At most k passages, best first, each with its best sentence."""
        # An unknown term weighs as much as the rarest known one: a question about what the corpus lacks is not covered.
        weights = {term: self._weights.get(term, self._rarest) for term in dict.fromkeys(terms(question))}
        found = [self._best_sentence(passage, score, weights) for passage, score in self._search(question)]
        if self._settings.rerank:
            # Alone, coverage prefers long sentences about everything; BM25 alone, short ones about little.
            found = [f._replace(score=f.score * (1 + f.covered)) for f in found]
            found.sort(key=lambda f: (-f.score, f.passage[:3]))
        return found[: self._settings.k]

    def _best_sentence(self, passage: Passage, score: float, weights: dict[str, float]) -> _Found:
        covered = [(coverage(weights, terms(s.text)), s) for s in passage.sentences]
        best, sentence = max(covered, key=lambda pair: (pair[0], -pair[1].start))
        return _Found(passage, score, sentence, best)

    def _search(self, question: str) -> list[tuple[Passage, float]]:
        import tantivy

        # Lower-case words only: the query language's operators are upper-case words and punctuation.
        words = " ".join(spaced_words(question.lower())).replace("'", " ").replace("’", " ")
        query, _ = self._index.parse_query_lenient(words, ["text"])
        if pairs := dict.fromkeys(term.text for term in bigrams(question)):
            asked = [tantivy.Query.term_query(self._index.schema, "bigrams", pair) for pair in pairs]
            query = tantivy.Query.boolean_query([(tantivy.Occur.Should, part) for part in [query, *asked]])
        hits = self._searcher.search(query, self._settings.k * OVERFETCH).hits
        numbers = [(self._searcher.doc(address)["number"][0], score) for score, address in hits]
        ranked = [(self._passages[number], float(score)) for number, score in numbers]
        return sorted(ranked, key=lambda pair: (-pair[1], pair[0][:3]))


@contextlib.asynccontextmanager
async def open_embedded(settings: EmbeddedSettings, corpus: SystemCorpus) -> AsyncIterator[EmbeddedSystem]:
    """The system with its index over a corpus."""
    yield EmbeddedSystem(corpus.pages(), settings)


def _build_index(all_passages: Sequence[Passage]) -> "tantivy.Index":
    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", tokenizer_name="en_stem")
    schema.add_text_field("bigrams", tokenizer_name="whitespace")
    schema.add_unsigned_field("number", stored=True)
    index = tantivy.Index(schema.build())
    writer = index.writer(INDEX_HEAP_BYTES, num_threads=1)
    for number, passage in enumerate(all_passages):
        text, pairs = passage.text, ""
        if has_unspaced(text):  # their runs would be one word each
            text, pairs = " ".join(spaced_words(text)), " ".join(term.text for term in bigrams(text))
        writer.add_document(tantivy.Document(text=text, bigrams=pairs, number=number))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def _answer_text(question: str, sentence: Sentence, settings: EmbeddedSettings) -> str:
    place = extract(question, sentence.text) if settings.answer == "phrase" else Place(0, len(sentence.text))
    words = " ".join(sentence.text[place.start : place.end].split())
    citation = format_citation(sentence.document, sentence.page, [(sentence.start, sentence.end)])
    return f"{words} {citation}"


def _context(found: _Found, rank: int) -> RetrievedPassage:
    passage = found.passage
    return RetrievedPassage(
        document=passage.document,
        page=passage.page,
        text=passage.text,
        score=found.score,
        rank=rank,
        start=passage.start,
        end=passage.end,
    )
