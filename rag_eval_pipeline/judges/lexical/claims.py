"""Claims of an answer and the citations that stand with each.

A claim is a sentence, a list item or a table row: half-open code points of the answer as it was given, so
`answer[start:end]` gives it back. The span holds the sentence's citations, those inside it and those that directly
follow it on its line; the claim's words are read without them. Clauses are not split: no rule without a parser keeps
their subjects.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rag_eval_pipeline.judges.judgement import CitedText
from rag_eval_pipeline.text.normalise import FILLER, mask_citations, plain, unify
from rag_eval_pipeline.text.refusals import is_refusing
from rag_eval_pipeline.text.sentences import Piece, pieces

# "Yes." alone says nothing that a text could hold.
_ASSENTS = frozenset(
    """
    yes no yeah nope sure certainly ja nein oui non sí si sim não да нет tak nie evet hayır nee 是 否 はい いいえ 네
    """.split()  # noqa: SIM905  # as lines of words
)
_SAID = re.compile(r"[^\W_]")
_MARKS = " \t\n.,;:!?*_\"'()"


class AnswerClaim(NamedTuple):
    """A claim: its place in the answer, its words without citations, and the citations that stand with it."""

    start: int
    end: int
    text: str
    citations: tuple[int, ...]


def split_claims(answer: str, citations: Sequence[CitedText] = ()) -> list[AnswerClaim]:
    """The claims of an answer; headings, questions, refusing sentences and a bare yes or no are none.

    Args:
        answer: As given.
        citations: Whose marks lie in it. A citation stands with the claim that its mark lies in or directly follows,
            on the same line or a later one; one without a mark stands with every claim that has no citation of its
            own; one whose mark lies outside the answer stands with none.
    """
    masked = mask_citations(answer, [(citation.marker_start, citation.marker_end) for citation in citations])
    found = list(pieces(masked))
    standing = _standing(masked, found, citations)
    beside = [number for number, citation in enumerate(citations) if citation.is_beside]
    return [
        AnswerClaim(piece.start, piece.end, masked[piece.start : piece.end], tuple(standing[number] or beside))
        for number, piece in enumerate(found)
        if _is_claim(piece, masked[piece.start : piece.end])
    ]


def gold_claims(gold: str) -> list[str]:
    """The claims of a gold answer, unified; a name or a number is one, a bare yes or no none.

    Args:
        gold: As the dataset has it.
    """
    text = plain(gold)
    found = [claim.text for claim in split_claims(text)]
    if found:
        return found
    is_claim = _SAID.search(text) is not None and text.strip(_MARKS).casefold() not in _ASSENTS
    return [text] if is_claim and not is_refusing(text) else []


def _is_claim(piece: Piece, text: str) -> bool:
    if piece.kind in {"heading", "question"}:
        return False
    if text.strip(_MARKS + FILLER).casefold() in _ASSENTS:
        return False
    return not is_refusing(unify(text.replace(FILLER, " ")))


def _standing(masked: str, found: Sequence[Piece], citations: Sequence[CitedText]) -> list[list[int]]:
    """For each piece the citations whose marks lie in it or directly follow it."""
    standing: list[list[int]] = [[] for _ in found]
    order = sorted(range(len(citations)), key=lambda number: (citations[number].marker_start, number))
    place = -1
    for number in order:
        start, end = citations[number].marker_start, citations[number].marker_end
        if not 0 <= start < end <= len(masked):
            continue
        while place + 1 < len(found) and found[place + 1].start <= start:
            place += 1
        if place >= 0 and not masked[found[place].end : start].strip(_MARKS + FILLER + "[]-•"):
            standing[place].append(number)
        elif place + 1 < len(found) and _leads(masked, start, found[place + 1]):
            standing[place + 1].append(number)
    return [sorted(numbers) for numbers in standing]


def _leads(masked: str, start: int, piece: Piece) -> bool:
    """Whether a mark stands before a piece on the same line, as in `- [1] The lamp was lit.`."""
    between = masked[start : piece.start]
    return "\n" not in between and not between.strip(_MARKS + FILLER)
