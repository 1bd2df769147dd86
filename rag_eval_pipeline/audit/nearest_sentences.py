"""Sentences of pages that state an answer, or come nearest to it."""

from collections.abc import Iterable, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from rag_eval_pipeline.audit.audited_texts import content_words
from rag_eval_pipeline.corpus.text.alignment import contains
from rag_eval_pipeline.metrics.answers import normalise_answer
from rag_eval_pipeline.systems.base import PageText
from rag_eval_pipeline.systems.embedded_bm25 import Sentence, split_sentences

SAID_MIN = 0.6  # share of an answer's words that a sentence has which states it in words of its own
YES_NO = frozenset({"yes", "no", "true", "false"})  # any page has these words
_LONG_ANSWER = 8  # characters; no sentence has a longer one by chance
_HEADING_LENGTH = 40  # characters
_PAGES_KEPT = 4096


class SentenceWords(NamedTuple):
    """A sentence, its text on one line, and its content words."""

    sentence: Sentence
    text: str
    words: frozenset[str]


@lru_cache(_PAGES_KEPT)
def sentences_of(page: PageText) -> Sequence[SentenceWords]:
    """Return the sentences of a page with their words."""
    found = ((one, " ".join(one.text.split())) for one in split_sentences(page))
    return [SentenceWords(one, text, frozenset(content_words(text))) for one, text in found]


def nearest_sentence(pages: Iterable[PageText], question: str, answers: Sequence[str]) -> Sentence | None:
    """Return the sentence of some pages that contains one of the answers, else most of its words.

    Of equal ones the sentence most like the question, then the first. None if no sentence is near; yes and no are in
    any document, and a short answer counts only in a sentence that shares a word with the question.
    """
    asked = set(content_words(question))
    told = [(one, set(content_words(one))) for one in answers if normalise_answer(one) not in {"", *YES_NO}]
    best: tuple[tuple[bool, float, float], Sentence] | None = None
    for page in pages:
        for sentence, text, words in sentences_of(page):
            like = len(asked & words) / max(1, len(asked))
            for answer, said in told:
                share = len(said & words) / max(1, len(said))
                if said and not share:
                    continue
                has = (like > 0 or len(answer) >= _LONG_ANSWER) and contains(text, answer)
                if not has and (share < SAID_MIN or len(said) == 1):
                    continue
                rank = has, 1.0 if has else share, like
                if best is None or rank > best[0]:
                    best = rank, _without_headings(sentence, said & words)
    return None if best is None else best[1]


def _without_headings(sentence: Sentence, needed: Set[str]) -> Sentence:
    """Drop the short lines above a sentence that begins with a capital, unless they have needed words."""
    text = sentence.text
    while True:
        line, _, below = text.partition("\n")
        below = below.lstrip()
        if len(line) > _HEADING_LENGTH or not below[:1].isupper() or not needed <= set(content_words(below)):
            return sentence._replace(start=sentence.end - len(text), text=text)
        text = below
