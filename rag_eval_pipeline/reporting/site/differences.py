"""An answer beside the gold answer, word by word."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from rag_eval_pipeline.metrics.answers import normalise_answer

Part = Literal["same", "missing", "extra"]

_TOKEN = re.compile(r"\s*\S+\s*")
_TOKENS_MAX = 400  # the time grows by the square; a longer answer is shown without its difference


class Stretch(NamedTuple):
    """Words that stand in both, only in the gold answer (`missing`), or only in the answer (`extra`)."""

    part: Part
    text: str


def difference(gold: str, given: str) -> list[Stretch]:
    """What of the gold answer is missing and what is extra; words are equal as SQuAD takes them for equal.

    Returns:
        Stretches in reading order; none when either text has more than 400 words.
    """
    wanted, had = _TOKEN.findall(gold), _TOKEN.findall(given)
    if max(len(wanted), len(had)) > _TOKENS_MAX:
        return []
    matcher = SequenceMatcher(None, _normal(wanted), _normal(had), autojunk=False)
    stretches: list[Stretch] = []
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind == "equal":
            stretches.append(Stretch("same", "".join(had[start:end])))
            continue
        if last > first:
            stretches.append(Stretch("missing", "".join(wanted[first:last])))
        if end > start:
            stretches.append(Stretch("extra", "".join(had[start:end])))
    return stretches


def nearest(golds: Sequence[str], given: str) -> str | None:
    """The accepted answer that shares most with an answer; the first of equals, None without any."""
    had = set(_normal(_TOKEN.findall(given)))

    def shared(gold: str) -> float:
        words = set(_normal(_TOKEN.findall(gold)))
        return 2 * len(words & had) / (len(words) + len(had)) if words or had else 0.0

    return max(golds, key=shared, default=None)


def _normal(words: Sequence[str]) -> list[str]:
    # A word that normalises to nothing ("the", ",") is itself: all of them equal would align at random.
    return [normalise_answer(word) or word.strip() for word in words]
