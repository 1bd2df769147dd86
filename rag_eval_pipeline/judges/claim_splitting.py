"""Claims of answers, and the citations that belong to each.

A claim is a sentence, a list item or a table row: half-open code points of the answer as it was given. Clauses are not
split.
"""

from collections.abc import Sequence
from typing import NamedTuple

from rag_eval_pipeline.judges.judgement import CitedText
from rag_eval_pipeline.text.folding import FILLER, mask_citations, unify
from rag_eval_pipeline.text.refusals import is_refusing
from rag_eval_pipeline.text.sentences import Piece, pieces

# "Yes." alone states nothing that a text could support.
_ASSENTS = frozenset(
    """
    yes no yeah nope sure certainly ja nein oui non sí si sim não да нет tak nie evet hayır nee 是 否 はい いいえ 네
    """.split()  # noqa: SIM905  # as lines of words
)
_PUNCTUATION = " \t\n.,;:!?*_\"'()"


class AnswerClaim(NamedTuple):
    """A claim: its place in the answer, its text without citations, and the indexes of the citations it has."""

    start: int
    end: int
    text: str
    citations: tuple[int, ...]


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
