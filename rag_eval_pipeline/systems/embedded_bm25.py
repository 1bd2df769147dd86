"""The embedded RAG system: BM25 retrieval and an extractive answer with a citation; it abstains when nothing fits.

It needs no model, no network and no server, so the pipeline can be tried, tested and demonstrated anywhere. It is
deterministic: one writer thread, and ties ordered by document, page and start, because tantivy's own order varies.
"""

import contextlib
import functools
import math
import re
import time
import unicodedata
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import regex
import tantivy

from rag_eval_pipeline.formats.citation_marks import format_citation
from rag_eval_pipeline.systems.base import (
    Citation,
    Configuration,
    PageText,
    Query,
    RagAnswer,
    RetrievedPassage,
    SystemCorpus,
)
from rag_eval_pipeline.systems.kind_settings import EMBEDDED_VERSION, EmbeddedSettings
from rag_eval_pipeline.systems.parsing import ABSTENTION
from rag_eval_pipeline.text.folding import fold, mask_citations, unify
from rag_eval_pipeline.text.sentences import sentence_ends
from rag_eval_pipeline.text.tokens import STOP_WORDS, english_stem, has_unspaced, iterate_tokens, tokenize

INDEX_HEAP_BYTES = 50_000_000  # one segment for corpora of some 100,000 passages; tantivy needs 15 MB at least
OVERFETCH = 4  # candidates a retrieved passage: ties at the edge are then ordered by us, and reranking has a choice
SENTENCES_KEPT = 20_000  # whose terms are remembered, some 50 MB: many questions find the same sentences
CHARACTERS_PER_WORD = 2  # about; in scripts that are written without spaces


class Sentence(NamedTuple):
    """One sentence; `start` and `end` are document offsets."""

    document: str
    page: int
    start: int
    end: int
    text: str


class Passage(NamedTuple):
    """Neighbouring sentences of one page, with document offsets."""

    document: str
    page: int
    start: int
    end: int
    text: str
    sentences: tuple[Sentence, ...]


class _Hit(NamedTuple):
    """A retrieved passage with its best sentence, and the share of the question that the sentence covers."""

    passage: Passage
    score: float
    sentence: Sentence
    covered: float


class EmbeddedSystem:
    """BM25 retrieval and an extractive answer over one corpus, held in memory."""

    def __init__(self, pages: Sequence[PageText], settings: EmbeddedSettings) -> None:
        self._settings = settings
        self._passages = list(split_passages(pages, words=settings.passage_words))
        self._weights = inverse_document_frequency(s.text for p in self._passages for s in p.sentences)
        self._rarest = max(self._weights.values(), default=1.0)
        self._terms = functools.lru_cache(SENTENCES_KEPT)(lambda text: frozenset(terms(text)))
        self._index = _build_index(self._passages)
        self._searcher = self._index.searcher()

    def configuration(self) -> Configuration:
        """Return the settings."""
        return {
            "model": EMBEDDED_VERSION,
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
        """Nothing can go wrong unnoticed."""
        return ()

    async def answer(self, query: Query) -> RagAnswer:
        """Answer with a citation, or abstain."""
        started = time.perf_counter()
        hits = self._search(query.text)
        best = hits[0] if hits else None
        text = ABSTENTION
        citations: tuple[Citation, ...] = ()
        if best is not None and best.covered >= self._settings.abstention_threshold:
            text, citations = _cited_answer(query.text, best.sentence, self._settings)
        return RagAnswer(
            query_id=query.query_id,
            status="ok",
            answer=text,
            abstained=not citations,
            contexts=tuple(_retrieved(hit, rank) for rank, hit in enumerate(hits, start=1)),
            citations=citations,
            latency_ms=(time.perf_counter() - started) * 1000,
        )

    def retrieve(self, question: str) -> list[RetrievedPassage]:
        """Return at most k passages, best first; ties are in the order of documents, pages and starts."""
        return [_retrieved(hit, rank) for rank, hit in enumerate(self._search(question), start=1)]

    def _search(self, question: str) -> list[_Hit]:
        # An unknown term weighs as much as the rarest known one: what the corpus lacks is not covered.
        weights = {term: self._weights.get(term, self._rarest) for term in dict.fromkeys(terms(question))}
        hits = [self._best_sentence(passage, score, weights) for passage, score in self._candidates(question)]
        if self._settings.rerank:
            # Coverage alone prefers long sentences about everything; BM25 alone, short ones about little.
            hits = [hit._replace(score=hit.score * (1 + hit.covered)) for hit in hits]
            hits.sort(key=lambda hit: (-hit.score, hit.passage[:3]))
        return hits[: self._settings.k]

    def _best_sentence(self, passage: Passage, score: float, weights: Mapping[str, float]) -> _Hit:
        covered = [(coverage(weights, self._terms(sentence.text)), sentence) for sentence in passage.sentences]
        best, sentence = max(covered, key=lambda pair: (pair[0], -pair[1].start))
        return _Hit(passage, score, sentence, best)

    def _candidates(self, question: str) -> list[tuple[Passage, float]]:
        """Return passages with their BM25 scores, best first."""
        # Lower-case words only: the query language's operators are upper-case words and punctuation.
        words = " ".join(_spaced_words(question.lower())).replace("'", " ").replace("’", " ")
        query, _ = self._index.parse_query_lenient(words, ["text"])
        if pairs := dict.fromkeys(term.text for term in bigrams(question)):
            asked = [tantivy.Query.term_query(self._index.schema, "bigrams", pair) for pair in pairs]
            query = tantivy.Query.boolean_query([(tantivy.Occur.Should, clause) for clause in [query, *asked]])
        hits = self._searcher.search(query, self._settings.k * OVERFETCH).hits
        numbers = [(self._searcher.doc(address)["number"][0], score) for score, address in hits]
        ranked = [(self._passages[number], float(score)) for number, score in numbers]
        return sorted(ranked, key=lambda pair: (-pair[1], pair[0][:3]))


@contextlib.asynccontextmanager
async def open_embedded(settings: EmbeddedSettings, corpus: SystemCorpus) -> AsyncIterator[EmbeddedSystem]:
    """Open the system with its index over a corpus."""
    yield EmbeddedSystem(corpus.pages(), settings)


def _build_index(all_passages: Sequence[Passage]) -> tantivy.Index:
    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", tokenizer_name="en_stem")
    schema.add_text_field("bigrams", tokenizer_name="whitespace")
    schema.add_unsigned_field("number", stored=True)
    index = tantivy.Index(schema.build())
    writer = index.writer(INDEX_HEAP_BYTES, num_threads=1)
    for number, passage in enumerate(all_passages):
        text, pairs = passage.text, ""
        if has_unspaced(text):  # a run of these scripts would be one word
            text, pairs = " ".join(_spaced_words(text)), " ".join(term.text for term in bigrams(text))
        writer.add_document(tantivy.Document(text=text, bigrams=pairs, number=number))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def _cited_answer(question: str, sentence: Sentence, settings: EmbeddedSettings) -> tuple[str, tuple[Citation, ...]]:
    start, end = extract(question, sentence.text) if settings.answer == "phrase" else (0, len(sentence.text))
    words = " ".join(sentence.text[start:end].split())
    text = f"{words} {format_citation(sentence.document, sentence.page, [(sentence.start, sentence.end)])}"
    citation = Citation(sentence.document, sentence.start, sentence.end, sentence.page, len(words) + 1, len(text))
    return text, (citation,)


def _retrieved(hit: _Hit, rank: int) -> RetrievedPassage:
    passage = hit.passage
    return RetrievedPassage(
        document=passage.document,
        page=passage.page,
        text=passage.text,
        score=hit.score,
        rank=rank,
        start=passage.start,
        end=passage.end,
    )


# --- Passages

_PARAGRAPHS = re.compile(r"\n\s*\n")
# Line breaks of a page are blanks, and the full stops of some scripts end sentences as those that are known do.
_AS_BLANKS = str.maketrans("\n\r\t｡။།॥", "   。।।।")


def split_sentences(page: PageText) -> Iterator[Sentence]:
    """Yield the sentences of a page in order, without surrounding white space."""
    breaks = [0, *(match.end() for match in _PARAGRAPHS.finditer(page.text)), len(page.text)]
    for begin, stop in pairwise(breaks):
        paragraph = mask_citations(page.text[begin:stop]).translate(_AS_BLANKS)  # `lit in 1887.[2] Its tower`
        ends = [0, *sentence_ends(paragraph), len(paragraph)]
        for first, last in pairwise(ends):
            raw = page.text[begin + first : begin + last]
            if text := raw.strip():
                start = page.start + begin + first + len(raw) - len(raw.lstrip())
                yield Sentence(page.document, page.page, start, start + len(text), text)


def split_passages(pages: Iterable[PageText], *, words: int) -> Iterator[Passage]:
    """Yield passages of at most `words` words within one page; a longer sentence is a passage of its own."""
    for page in pages:
        group: list[Sentence] = []
        size = 0
        for sentence in split_sentences(page):
            length = _word_count(sentence.text)
            if group and size + length > words:
                yield _join(page, group)
                group, size = [], 0
            group.append(sentence)
            size += length
        if group:
            yield _join(page, group)


def _word_count(text: str) -> int:
    """Return the number of words, estimated for unspaced scripts."""
    if not has_unspaced(text):
        return len(text.split())
    unspaced = sum(has_unspaced(token) for token in tokenize(text))
    return len(_spaced_words(text)) + -(-unspaced // CHARACTERS_PER_WORD)


def _join(page: PageText, group: Sequence[Sentence]) -> Passage:
    start, end = group[0].start, group[-1].end
    text = page.text[start - page.start : end - page.start]
    return Passage(page.document, page.page, start, end, text, tuple(group))


# --- Terms

# The same in Chinese; bigrams that contain one of them say nothing about the subject either.
_FUNCTION_CHARACTERS = re.compile("[什么麼哪谁誰吗嗎呢几幾怎的是了在]|多少")


class Term(NamedTuple):
    """A term and its start in the text."""

    text: str
    start: int


def terms(text: str) -> list[str]:
    """Return the terms of a text, in order, repeats included."""
    return [term.text for term in _placed_terms(text)]


def _placed_terms(text: str) -> Iterator[Term]:
    """Yield stems of words, and bigrams where words have no spaces, in order; function words are left out."""
    stems = (
        Term(_stem(word[0]), word.start()) for word in _spaced_matches(text) if word[0].casefold() not in STOP_WORDS
    )
    if has_unspaced(text):
        pairs = (term for term in bigrams(text) if not _FUNCTION_CHARACTERS.search(term.text))
        yield from sorted([*stems, *pairs], key=lambda term: term.start)
    else:
        yield from stems


def _stem(word: str) -> str:
    return english_stem(re.sub(r"'s?$", "", fold(unify(word))))


def bigrams(text: str) -> Iterator[Term]:
    """Yield pairs of neighbouring characters where words have no spaces: 東京駅 is 東京 and 京駅.

    One character alone says little and a whole sentence matches nothing. A character between others is a term of its
    own; a line break does not separate two characters.
    """
    if not has_unspaced(text):
        return
    run: list[regex.Match[str]] = []
    for match in iterate_tokens(text):
        if run and (text[run[-1].end() : match.start()].strip("\r\n") or not has_unspaced(match[0])):
            yield from _pairs(run)
            run = []
        if has_unspaced(match[0]):
            run.append(match)
    yield from _pairs(run)


def _pairs(run: list[regex.Match[str]]) -> Iterator[Term]:
    characters = [unicodedata.normalize("NFKC", match[0]) for match in run]
    if len(run) == 1:
        yield Term(characters[0], run[0].start())
    for first, second, match in zip(characters, characters[1:], run, strict=False):
        yield Term(first + second, match.start())


def _spaced_words(text: str) -> list[str]:
    return [word[0] for word in _spaced_matches(text)]


def _spaced_matches(text: str) -> Iterator[regex.Match[str]]:
    return (word for word in iterate_tokens(text, keep_apostrophes=True) if not has_unspaced(word[0]))


def inverse_document_frequency(texts: Iterable[str]) -> dict[str, float]:
    """Return ln(1 + N / n) for each term that occurs in n of N texts."""
    counts: Counter[str] = Counter()
    total = 0
    for text in texts:
        total += 1
        counts.update(set(terms(text)))
    return {term: math.log(1 + total / count) for term, count in counts.items()}


def coverage(question: Mapping[str, float], text_terms: Iterable[str]) -> float:
    """Return the share of a question's weight whose terms occur in a text.

    Returns:
        A ratio in [0, 1]; 0.0 for a question without terms, which nothing can answer.
    """
    found = frozenset(text_terms)
    # fsum: a plain sum depends on its order.
    total = math.fsum(question.values())
    return math.fsum(weight for term, weight in question.items() if term in found) / total if total else 0.0


# --- Extraction

_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_YEAR = r"(?:1[0-9]{3}|20[0-9]{2})"
_DATE = re.compile(
    rf"\b(?:\d{{1,2}} {_MONTH} {_YEAR}|{_MONTH} \d{{1,2}}, {_YEAR}|{_MONTH} {_YEAR}|\d{{1,2}} {_MONTH}|{_YEAR})\b"
)
_NUMBER = re.compile(
    r"[$£€]?\d[\d,]*(?:\.\d+)?(?: ?(?:%|per cent|million|billion|thousand))?(?: [a-zà-ÿ]+)?"
    r"|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty)\b(?: [a-z]+)?"
)
_NAME = re.compile(r"\b[A-ZÀ-Þ][\w'’-]*(?:\s(?:(?:of|the|de|da|van|von|and|du|la)\s)*[A-ZÀ-Þ][\w'’-]*)*")
_CLAUSE = re.compile(r"[^,;:()\n.!?，、；：。！？（）]+")

Place = tuple[int, int]  # half-open, in a sentence


def extract(question: str, sentence: str) -> Place:
    """Return the place of the answer in a sentence; the whole sentence if nothing in it looks like the answer.

    The kind of answer follows from the question's first words (a number, a date, a name); of the candidates of that
    kind, the one nearest to the question's own words is chosen.
    """
    asked = set(terms(question))

    def shared(place: Place) -> int:
        return len(set(terms(sentence[place[0] : place[1]])) & asked)

    if has_unspaced(sentence):
        # Without spaces nothing shows where a name or a noun ends: take the clause with most of the question's terms.
        return max((match.span() for match in _CLAUSE.finditer(sentence)), key=shared, default=(0, len(sentence)))
    anchors = [term.start for term in _placed_terms(sentence) if term.text in asked]
    find = next((find for pattern, find in _KINDS if pattern.search(question)), _clauses)
    candidates = [place for place in find(sentence) if not shared(place)]
    if not candidates:
        return 0, len(sentence)
    if not anchors:
        return candidates[0]
    return min(candidates, key=lambda place: (_distance(place, anchors), place[0]))


def _distance(place: Place, anchors: list[int]) -> float:
    nearest = sorted(abs(place[0] - anchor) for anchor in anchors)[:2]
    return sum(nearest) / len(nearest)


def _matches(pattern: re.Pattern[str]) -> Callable[[str], Iterator[Place]]:
    return lambda sentence: (match.span() for match in pattern.finditer(sentence))


def _names(sentence: str) -> Iterator[Place]:
    """Yield capitalised runs, except months and a single first word, since every sentence begins with a capital."""
    for match in _NAME.finditer(sentence):
        start = match.start()
        first = next(iterate_tokens(sentence[start:], keep_apostrophes=True), None)
        if first is not None and first[0].casefold() in STOP_WORDS:  # "The Hague" loses its article
            rest = _NAME.search(sentence, start + first.end(), match.end())
            if rest is None:
                continue
            start = rest.start()
        if re.fullmatch(_MONTH, sentence[start : match.end()]) or (start == 0 and " " not in match[0]):
            continue
        yield start, match.end()


def _clauses(sentence: str) -> Iterator[Place]:
    """Yield names, then runs of words between function words and punctuation, which resemble noun phrases."""
    yield from _names(sentence)
    for match in re.finditer(r"[^,;:()\n.]+", sentence):
        begin = None
        end = 0
        for word in iterate_tokens(match[0], keep_apostrophes=True):
            if word[0].casefold() in STOP_WORDS:
                if begin is not None:
                    yield begin, end
                begin = None
            else:
                begin = match.start() + word.start() if begin is None else begin
                end = match.start() + word.end()
        if begin is not None:
            yield begin, end


# The first rule whose pattern matches the question decides what an answer looks like.
_KINDS: tuple[tuple[re.Pattern[str], Callable[[str], Iterator[Place]]], ...] = (
    (re.compile(r"\bwhen\b|\b(?:what|which) (?:year|date|day|month)\b", re.IGNORECASE), _matches(_DATE)),
    (
        re.compile(r"\bhow (?:many|much|long|far|tall|high|deep|old|wide|heavy|fast|often|large|big)\b", re.IGNORECASE),
        _matches(_NUMBER),
    ),
    (re.compile(r"\bwh(?:o|om|ose)\b", re.IGNORECASE), _names),
)
