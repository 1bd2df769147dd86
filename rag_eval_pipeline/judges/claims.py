"""Claims of answers and gold answers, and the citations that belong to each.

A claim is a sentence, a list item or a table row: half-open code points of the answer as it was given. Clauses are not
split.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from rag_eval_pipeline.judges.judgement import Case, CitedText
from rag_eval_pipeline.text.normalise import FILLER, fold, mask_citations, plain, unify
from rag_eval_pipeline.text.refusals import find_refusal, is_refusing
from rag_eval_pipeline.text.sentences import Piece, pieces
from rag_eval_pipeline.text.tokens import tokenize

# "Yes." alone states nothing that a text could support.
_ASSENTS = frozenset(
    """
    yes no yeah nope sure certainly ja nein oui non sí si sim não да нет tak nie evet hayır nee 是 否 はい いいえ 네
    """.split()  # noqa: SIM905  # as lines of words
)
_ALPHANUMERIC = re.compile(r"[^\W_]")
_HYPHENATED = re.compile(r"(?<=[^\W\d_])-[ \t]*+\n[ \t]*+(?=[^\W\d_])")
_PUNCTUATION = " \t\n.,;:!?*_\"'()"


class AnswerClaim(NamedTuple):
    """A claim: its place in the answer, its text without citations, and the indexes of the citations it has."""

    start: int
    end: int
    text: str
    citations: tuple[int, ...]


class GoldClaims(NamedTuple):
    """The gold answer that an answer is compared with, and its claims; at least one."""

    text: str
    claims: Sequence[str]


def split_claims(answer: str, citations: Sequence[CitedText] = ()) -> list[AnswerClaim]:
    """Return the claims of an answer; headings, questions, refusing sentences and a bare yes or no are not claims.

    A citation belongs to the claim that its mark lies in or directly follows; one without a mark to every claim without
    a citation of its own.
    """
    masked = mask_citations(answer, [(citation.marker_start, citation.marker_end) for citation in citations])
    found = list(pieces(masked))
    marked = _citations_of_pieces(masked, found, citations)
    without_mark = [number for number, citation in enumerate(citations) if citation.has_no_mark]
    claims = []
    for piece, cited in zip(found, marked, strict=True):
        text = " ".join(masked[piece.start : piece.end].replace(FILLER, " ").split())
        if _is_claim(piece, text):
            claims.append(AnswerClaim(piece.start, piece.end, text, tuple(cited or without_mark)))
    return claims


def gold_claims(gold: str) -> list[str]:
    """Return the claims of a gold answer; a name or a number is one, a bare yes or no is none."""
    text = plain(gold)
    found = [claim.text for claim in split_claims(text)]
    if found:
        return found
    is_claim = _ALPHANUMERIC.search(text) is not None and text.strip(_PUNCTUATION).casefold() not in _ASSENTS
    return [text] if is_claim and not is_refusing(text) else []


def choose_gold(case: Case) -> GoldClaims | None:
    """Return the accepted answer whose words the answer has most of, the longest of equals; None if none claims."""
    given = set(_words(plain(case.answer)))

    def match(gold: GoldClaims) -> tuple[float, int]:
        wanted = set(_words(" ".join(gold.claims)))
        return len(wanted & given) / (len(wanted) or 1), len(wanted)

    golds = [GoldClaims(gold, claims) for gold in case.accepted if (claims := gold_claims(gold))]
    return max(golds, key=match, default=None)


def verbatim_share(case: Case) -> float | None:
    """Return the share of an answer's claims whose words are contiguous in a cited or retrieved text.

    Case, accents, punctuation and line breaks do not count. None for a refusal, an answer without claims, and if there
    is nothing to compare with.
    """
    texts = [*(cited.text or "" for cited in case.citations), *case.contexts]
    known = [words for text in dict.fromkeys(texts) if (words := _joined_words(text)).strip()]
    marks = [(cited.marker_start, cited.marker_end) for cited in case.citations]
    if not known or find_refusal(plain(case.answer, marks)).is_refusal:
        return None
    claims = [_joined_words(claim.text) for claim in split_claims(case.answer, case.citations)]
    if not claims:
        return None
    return sum(any(claim in text for text in known) for claim in claims) / len(claims)


@lru_cache(maxsize=4096)  # passages are retrieved again and again within a run
def _joined_words(text: str) -> str:
    return f" {' '.join(_words(unify(mask_citations(_HYPHENATED.sub('', text)))))} "


def _words(unified: str) -> list[str]:
    return tokenize(fold(unified))


def _is_claim(piece: Piece, text: str) -> bool:
    if piece.kind in {"heading", "question"} or text.strip(_PUNCTUATION).casefold() in _ASSENTS:
        return False
    return not is_refusing(unify(text))


def _citations_of_pieces(masked: str, found: Sequence[Piece], citations: Sequence[CitedText]) -> list[list[int]]:
    result: list[list[int]] = [[] for _ in found]
    order = sorted(range(len(citations)), key=lambda number: (citations[number].marker_start, number))
    place = -1
    for number in order:
        start, end = citations[number].marker_start, citations[number].marker_end
        if not 0 <= start < end <= len(masked):
            continue
        while place + 1 < len(found) and found[place + 1].start <= start:
            place += 1
        if place >= 0 and not masked[found[place].end : start].strip(_PUNCTUATION + FILLER + "[]-•"):
            result[place].append(number)
        elif place + 1 < len(found) and _precedes(masked, start, found[place + 1]):
            result[place + 1].append(number)
    return [sorted(numbers) for numbers in result]


def _precedes(masked: str, start: int, piece: Piece) -> bool:
    """Return whether a mark precedes a piece on the same line, as in `- [1] The lamp was lit.`."""
    between = masked[start : piece.start]
    return "\n" not in between and not between.strip(_PUNCTUATION + FILLER)
