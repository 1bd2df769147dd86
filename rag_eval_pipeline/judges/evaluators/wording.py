"""Words and sentences of an answer as the evaluators count and compare them; citations are no part of either."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pydantic
import regex

from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.judges.lexical.settings import DECIMAL_COMMA, LanguageCode
from rag_eval_pipeline.judges.lexical.words import Vocabulary, content, vocabulary
from rag_eval_pipeline.text.normalise import FILLER, mask_citations, plain, unify
from rag_eval_pipeline.text.refusals import find_refusal
from rag_eval_pipeline.text.sentences import pieces
from rag_eval_pipeline.text.tokens import CHARACTER, RUN

_WORD = regex.compile(rf"{CHARACTER}|{RUN}(?:['’.,-]{RUN})*+")  # 1,000 and well-known count once
_GAP = regex.compile(rf"[ \t]*{FILLER}+")

Weights = Mapping[str, int]


class LanguageOptions(Model):
    """Options of evaluators that compare words."""

    language: LanguageCode = pydantic.Field("en", description="Of questions and answers: its stems and stop words.")


@dataclass(frozen=True, slots=True)
class Wording:
    """An answer, taken apart.

    Args:
        text: Without citations and marks of Markdown.
        sentences: In order, without citations.
        stems: Weight of each content word's stem.
        is_refusal: It says, as a whole, that it does not answer.
    """

    text: str
    sentences: tuple[str, ...]
    stems: Weights
    is_refusal: bool


def wording(event: Event, language: LanguageCode = "en") -> Wording:
    """The answer of an event, which has one."""
    answer = event.answer or ""
    marks = [(citation.marker_start, citation.marker_end) for citation in event.citations]
    masked = mask_citations(answer, marks)
    sentences = (_GAP.sub("", masked[piece.start : piece.end]).strip() for piece in pieces(masked))
    text = plain(answer, marks).strip()
    return Wording(
        text=text,
        sentences=tuple(sentence for sentence in sentences if sentence),
        stems=stems(text, language),
        is_refusal=find_refusal(text).is_refusal,
    )


def stems(text: str, language: LanguageCode) -> Weights:
    """Weight of each content word's stem, in order; of all words when there are only function words."""
    return content(vocabulary_of(language).words(unify(text)))


def vocabulary_of(language: LanguageCode) -> Vocabulary:
    """The words of a language, numbers as it writes them."""
    return vocabulary(language, decimal_comma=language in DECIMAL_COMMA)


def words(text: str) -> list[str]:
    """The words of a text for counting: `1,000`, `well-known` and `don't` are one each."""
    found: list[Any] = _WORD.findall(text)
    return found


def covered(wanted: Weights, having: Container[str]) -> float | None:
    """Share of the weight of some stems that stands among others, in [0, 1]; None when nothing is wanted."""
    total = sum(wanted.values())
    return sum(weight for stem, weight in wanted.items() if stem in having) / total if total else None


def best_covered(texts: Iterable[str], having: Container[str], language: LanguageCode) -> float | None:
    """`covered` of the text that is covered best; None without a text that says something."""
    shares = (covered(stems(text, language), having) for text in texts if text.strip())
    return max((share for share in shares if share is not None), default=None)
