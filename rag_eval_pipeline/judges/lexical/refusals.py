"""Whether an answer says that it does not know: by families of phrases, and by where in the answer they stand.

A disclaimer before an answer is no refusal; a refusal before advice where to look is one.
"""

import re
from typing import NamedTuple

from rag_eval_pipeline.judges.lexical.refusal_languages import OTHER_CUES, OTHER_LANGUAGES
from rag_eval_pipeline.judges.lexical.refusal_patterns import (
    FAMILIES,
    FIRST_PERSON,
    GUIDANCE,
    RECIPE,
    STRONG,
    STRONG_CUE,
    TURN,
    WEAK_CUE,
    Family,
)
from rag_eval_pipeline.judges.lexical.sentences import pieces

_HALF = 0.5  # of an answer in strong sentences is a refusal, wherever they stand
_OPENING = 0.12  # strong share that suffices after an opening that refuses
_EARLY = 0.40  # share of the answer in which a refusal begins
_EARLY_STRONG = 0.35  # strong share that suffices when it begins there
_QUOTED = re.compile(r'"[^"\n]{1,300}"')
_CLAUSE = re.compile(r", (?=(?:but|however|although)\b)")
_BLANKS = re.compile(r"[ \t]{2,}")
_HYPHEN = re.compile(r"(?<=\w)-(?=\w)")  # gaps are counted in words
_SAID = re.compile(r"[^\W_]")
_PERSONAL: frozenset[Family] = frozenset({"cannot", "no_know", "ai", "policy"})


class Refusal(NamedTuple):
    """What was found of refusing.

    Args:
        is_refusal: Whether the answer as a whole refuses.
        families: Those that were hit, in the order of the answer; `empty` for an answer without a letter or digit.
    """

    is_refusal: bool
    families: tuple[str, ...]


class _Unit(NamedTuple):
    text: str
    size: int
    families: tuple[Family, ...]
    is_strong: bool
    is_personal: bool


def find_refusal(text: str) -> Refusal:
    """Whether an answer refuses.

    Args:
        text: The answer without citations and Markdown, unified.
    """
    if not _SAID.search(text):
        return Refusal(True, ("empty",))
    units = _units(text)
    families = tuple(dict.fromkeys(family for unit in units for family in unit.families))
    return Refusal(_decide(units), families)


def is_refusing(sentence: str) -> bool:
    """Whether one sentence, unified, is a refusal and so no claim; one that goes on to answer is none."""
    lowered = sentence.lower()
    if STRONG_CUE.search(lowered) is None and not _other_languages(lowered):
        return False
    units = _units(sentence)
    first_strong = next((place for place, unit in enumerate(units) if unit.is_strong), None)
    return first_strong is not None and not _answers(units[first_strong + 1 :])


def _units(text: str) -> list[_Unit]:
    bare = _BLANKS.sub(" ", _QUOTED.sub('"x"', text))
    others = _other_languages(bare.lower())
    return [
        _unit(clause, others)
        for piece in pieces(bare)
        for clause in _CLAUSE.split(_HYPHEN.sub(" ", bare[piece.start : piece.end].lower()))
    ]


def _unit(clause: str, others: list[re.Pattern[str]]) -> _Unit:
    cued = {True: STRONG_CUE.search(clause) is not None, False: WEAK_CUE.search(clause) is not None}
    families = [
        name
        for name, patterns in FAMILIES.items()
        if cued[name in STRONG] and any(pattern.search(clause) for pattern in patterns)
    ]
    if others and any(pattern.search(clause) for pattern in others):
        families.append("other_language")
    is_strong = any(family in STRONG for family in families)
    return _Unit(clause, len(clause), tuple(families), is_strong, bool(is_strong and FIRST_PERSON.search(clause)))


def _other_languages(text: str) -> list[re.Pattern[str]]:
    words = set(re.findall(r"\w+", text))
    found = [OTHER_LANGUAGES[name] for name, cues in OTHER_CUES.items() if not cues.isdisjoint(words)]
    if not text.isascii():
        found += [pattern for name, pattern in OTHER_LANGUAGES.items() if name not in OTHER_CUES]
    return [pattern for pattern in found if pattern.search(text)]


def _answers(units: list[_Unit]) -> bool:
    """Whether an answer follows a refusal: `but`, and then neither a refusal nor advice where to look."""
    return any(TURN.search(unit.text) and not unit.families and not GUIDANCE.search(unit.text) for unit in units)


def _decide(units: list[_Unit]) -> bool:
    found = {family for unit in units for family in unit.families}
    first_strong = next((place for place, unit in enumerate(units) if unit.is_strong), None)
    if first_strong is None:
        return "apology" in found and "redirect" in found
    if _answers(units[first_strong + 1 :]):
        return False
    total = sum(unit.size for unit in units)
    strong = sum(unit.size for unit in units if unit.is_strong) / total
    before = sum(unit.size for unit in units[:first_strong]) / total
    opening = units[0]
    opens_as_recipe = RECIPE.search(opening.text) is not None
    is_personal = any(unit.is_personal for unit in units)
    refuses_at_first = opening.is_strong or "apology" in opening.families
    return (
        strong >= _HALF
        or (refuses_at_first and (strong >= _OPENING or not found.isdisjoint({"redirect", "ai", "apology"})))
        or (opens_as_recipe and is_personal and not found.isdisjoint(_PERSONAL))
        or (before < _EARLY and (not found.isdisjoint({"redirect", "ai"}) or strong >= _EARLY_STRONG))
        or (is_personal and "redirect" in found and any(RECIPE.search(unit.text) for unit in units))
    )
