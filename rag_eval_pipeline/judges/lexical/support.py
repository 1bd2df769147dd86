"""How far a claim stands in a text: shares of its words, and details that must not differ.

It sees words and numbers. A wrong relation between the right words passes, a paraphrase does not; so what is not found
may be true, and is never called contradicted.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rag_eval_pipeline.judges.judgement import Support
from rag_eval_pipeline.judges.lexical.evidence import Evidence, Sentence
from rag_eval_pipeline.judges.lexical.settings import LexicalSettings
from rag_eval_pipeline.judges.lexical.words import Vocabulary, content, tokens
from rag_eval_pipeline.text.normalise import unify
from rag_eval_pipeline.text.numbers import MONTH_NAMES, Quantity, quantities

_NEAR = 0.5  # share of a claim's words in its best sentence, from which on the two can be said to differ in a detail
_EVERYWHERE = (
    500  # sentences: a word of more of them tells no two apart, and counts in each; bounds the time of a claim
)
_SLACK = 1e-6  # of weights, which are whole: what a product with a threshold may lose
_NAMED_MISSING = 5  # words in a reason
_LOOK_BACK = 8  # characters: blanks and marks between a sentence's start and its first word
_CAPITAL = re.compile(r"(?<!\w)(?=[^\W\d_a-z])[\w'.]{2,}")
_TITLES = frozenset("mr mrs ms dr prof sir lady lord president".split())  # noqa: SIM905  # may stand or not


class ClaimWords(NamedTuple):
    """What a claim says, ready to be looked for.

    Args:
        weights: Weight of each content stem.
        total: Their sum.
        quantities: Its numbers, without words such as `one`.
        names: Capitalised words inside it: stem and spelling.
        denied: Stems of what it says is not so; None when it negates nothing.
        poles: Groups of antonyms that it has words of, and its word for each.
    """

    weights: dict[str, int]
    total: int
    quantities: tuple[Quantity, ...]
    names: tuple[tuple[str, str], ...]
    denied: frozenset[str] | None
    poles: dict[int, str]


class _Found(NamedTuple):
    recall: float
    window: float
    best: float
    best_sentences: list[Sentence]
    missing: list[str]


def read_claim(text: str, vocabulary: Vocabulary) -> ClaimWords:
    """A claim, ready to be looked for.

    Args:
        text: Its stretch of the answer with fillers for citations.
        vocabulary: How words are compared.
    """
    unified = unify(text)
    words = vocabulary.words(unified)
    weights = content(words)
    found = quantities(unified, decimal_comma=vocabulary.decimal_comma)
    return ClaimWords(
        weights=weights,
        total=sum(weights.values()),
        quantities=tuple(quantity for quantity in found if not quantity.is_weak),
        names=tuple(_names(unified, vocabulary)) if vocabulary.traits.names_by_case else (),
        denied=vocabulary.denied(words, unified),
        poles={word.pole: word.folded for word in words if word.pole},
    )


def support(claim: ClaimWords, evidence: Sequence[Evidence], settings: LexicalSettings) -> Support:
    """Whether a claim stands in texts that are its evidence together.

    Args:
        claim: What is looked for.
        evidence: At least one text; words may come from all of them, the best window from one.
        settings: Thresholds.

    Returns:
        `supported` when both shares are reached and no detail differs, `conflicting` when one does, else `not_found`.
        The score is the smaller share, and no more than `veto_score` after a difference.
    """
    found = _search(claim, evidence)
    differing = _differences(claim, evidence, found, settings)
    score = min(found.recall, found.window)
    reached = found.recall >= settings.support_recall and found.window >= settings.support_window
    shares = f"recall {found.recall:.2f}, window {found.window:.2f}"
    if differing:
        score = min(score, settings.veto_score)
    reason = "; ".join([*differing, shares])
    if not reached and found.missing:
        reason = f"{reason}; missing {', '.join(found.missing[:_NAMED_MISSING])}"
    outcome = "not_found" if not reached else "conflicting" if differing else "supported"
    return Support(outcome, round(score, 6), reason)  # type: ignore[arg-type]  # the three literals, joined


def supports(claim: ClaimWords, evidence: Sequence[Evidence], settings: LexicalSettings) -> bool:
    """Whether `support` would say supported; most texts hold too few of a claim's words, and are not searched."""
    allowed = claim.total * (1 - settings.support_recall) + _SLACK
    for stem, weight in claim.weights.items():
        for text in evidence:
            if stem in text.places:
                break
        else:
            allowed -= weight
            if allowed < 0:
                return False
    return support(claim, evidence, settings).outcome == "supported"


def _search(claim: ClaimWords, evidence: Sequence[Evidence]) -> _Found:
    held = 0
    missing = []
    for stem, weight in claim.weights.items():
        for text in evidence:
            if stem in text.places:
                held += weight
                break
        else:
            missing.append(stem)
    window = best = 0
    best_sentences: list[Sentence] = []
    for text in evidence:
        everywhere = 0
        in_sentence: dict[int, int] = {}
        in_window: dict[int, int] = {}  # by the first of its two sentences
        for stem, weight in claim.weights.items():
            places = text.places.get(stem, ())
            if len(places) > _EVERYWHERE:
                everywhere += weight
                continue
            last = -2
            for number in places:
                in_sentence[number] = in_sentence.get(number, 0) + weight
                if last != number - 1:  # else the window before holds the word already
                    in_window[number - 1] = in_window.get(number - 1, 0) + weight
                in_window[number] = in_window.get(number, 0) + weight
                last = number
        window = max(window, everywhere + max(in_window.values(), default=0))
        most = max(in_sentence.values(), default=0)
        if everywhere + most > best:
            best, best_sentences = everywhere + most, []
        if everywhere + most == best:
            best_sentences += [text.sentences[number] for number, sum_ in in_sentence.items() if sum_ == most]
    total = claim.total or 1
    return _Found(held / total, window / total, best / total, best_sentences, missing)


def _differences(
    claim: ClaimWords, evidence: Sequence[Evidence], found: _Found, settings: LexicalSettings
) -> list[str]:
    """Which details differ, each in words."""
    differing = []
    tolerance = settings.support_number_tolerance
    for quantity in claim.quantities:
        # A loss of 546 is (546) in a table: the sign alone is no difference.
        if all(text.figures.match(quantity, tolerance) == "no" for text in evidence):
            differing.append(f"number {quantity.text}")
    for stem, spelling in claim.names:
        if all(stem not in text.all_stems for text in evidence):
            differing.append(f"name {spelling}")
    if found.best >= _NEAR and found.best_sentences:
        if all(_negates_otherwise(claim, sentence) for sentence in found.best_sentences):
            differing.append("negation")
        for pole in sorted(claim.poles):
            # With both sides in the claim it says how the two relate, which is not for words to judge.
            if -pole not in claim.poles and all(
                -pole in sentence.poles and pole not in sentence.poles for sentence in found.best_sentences
            ):
                differing.append(f"opposite of {claim.poles[pole]}")
    return differing


def _negates_otherwise(claim: ClaimWords, sentence: Sentence) -> bool:
    """Whether one of them negates and the other does not; what a sentence negates must be what the claim speaks of."""
    if claim.denied is not None:
        return sentence.denied is None
    return sentence.denied is not None and not sentence.denied.isdisjoint(claim.weights)


def _names(unified: str, vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Capitalised words that do not open a sentence; none where all words are capitalised or none can be."""
    months = MONTH_NAMES
    small = sum(token[0].islower() for token in tokens(unified) if len(token) > 3)
    if not small:
        return []
    found = []
    for match in _CAPITAL.finditer(unified):
        if not match[0][0].isupper() or _opens(unified, match.start()):
            continue
        for token in tokens(match[0]):
            word = vocabulary.word(token)
            if len(token) > 1 and not word.is_stop and word.folded not in _TITLES and word.folded not in months:
                found.append((word.stem, token))
    return list(dict.fromkeys(found))


def _opens(text: str, place: int) -> bool:
    """Whether a sentence, or what is quoted in one, begins at a place; its capital then says nothing."""
    before = text[max(place - _LOOK_BACK, 0) : place].rstrip(" *_'")
    return not before or before[-1] in '.!?…:;-\n|"(['
