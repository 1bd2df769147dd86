"""An answer against gold answers, by six rules in a fixed order, and a zone in which the rules are unsure.

The thresholds are the measured optima of flat regions. Rules for direction words and deeper word lists were measured
too, without effect.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rapidfuzz.fuzz import partial_ratio

from rag_eval_pipeline.judges.judgement import Correctness, Verdict
from rag_eval_pipeline.judges.lexical.figures import Figures
from rag_eval_pipeline.judges.lexical.quantities import Quantity, quantities
from rag_eval_pipeline.judges.lexical.settings import LexicalSettings
from rag_eval_pipeline.judges.lexical.words import Vocabulary, Word, content
from rag_eval_pipeline.text.normalise import fold, plain
from rag_eval_pipeline.text.refusals import Refusal

_BRIEF = 3  # tokens of a gold that is nothing but its number
_SHORT = 4  # tokens of a gold that is a name
_YES_NO_RECALL = 0.45  # of the words after an equal yes or no
_NUMBERS_HALF = 0.5
_NUMBERS_RECALL = 0.20  # of the words around numbers that match
_SURE_RECALL = 0.35  # of the words when all numbers match
_SURE_WRONG_RECALL = 0.50  # below it, and without a number that matches, nothing speaks for the answer
_SPELLING = 0.25  # taken off a fuzzy ratio: chance agreement of letters
_ASKED_WEIGHT = 4  # a gold's word that the question has counts a quarter
_MARKS = " \t\n\"'*_-"
_FIRST_WITHOUT_SPACES = "\u2e80"
_SAID = re.compile(r"[^\W_]")
# "No. 12" is a number and no "no".
_NONE = re.compile(
    r"(?!no\.? ?\d)(?:none|nothing|no|never|nobody|nowhere|neither|nicht|kein\w*|aucune?|ningun[oa]?|nessun[oa]?)\b"
)
_BARE_NO = re.compile(r"\W*(?:$|[,.;:!-]|(?:it|they|he|she|we|the|this|there|that|i|these|those)\b)")
_RANK: dict[Verdict, int] = {"correct": 3, "refused": 2, "unsure": 1, "incorrect": 0}
_AMBIGUOUS = frozenset({"absent", "context", "other_language"})


class Reading(NamedTuple):
    """A text, ready to be compared.

    Args:
        folded: Its tokens without case and accents, each between blanks.
        words: Its words.
        stems: Of all of them.
        text: Folded, for spelling.
        quantities: Its numbers.
    """

    folded: str
    words: list[Word]
    stems: frozenset[str]
    text: str
    quantities: list[Quantity]


def read(text: str, vocabulary: Vocabulary) -> Reading:
    """A text, ready to be compared; given without citations and Markdown, unified."""
    words = vocabulary.words(text)
    return Reading(
        folded=f" {' '.join(word.folded for word in words)} ",
        words=words,
        stems=frozenset(word.stem for word in words),
        text=fold(text),
        quantities=quantities(text, vocabulary.language, decimal_comma=vocabulary.decimal_comma),
    )


def judge_correctness(
    answer: str,
    refusal: Refusal,
    *,
    question: str,
    accepted: Sequence[str],
    vocabulary: Vocabulary,
    settings: LexicalSettings,
) -> Correctness | None:
    """An answer to an answerable question against its gold answers.

    Args:
        answer: Without citations and Markdown, unified.
        refusal: What was found of refusing in it.
        question: As it was asked.
        accepted: Gold answers, any of which is right.
        vocabulary: How words are compared.
        settings: Thresholds.

    Returns:
        The best verdict over the gold answers; its score says how much of the gold was found. None when no gold answer
        says anything.
    """
    golds = [gold for gold in (plain(text) for text in accepted) if _SAID.search(gold)]
    if not golds:
        return None
    if refusal.is_refusal:
        families = ", ".join(refusal.families)
        # "The text gives no information on X" may be the right answer where the right answer is none.
        if _AMBIGUOUS.issuperset(refusal.families) and any(_NONE.match(fold(gold)) for gold in golds):
            return Correctness("unsure", 0.5, f"refusal ({families}), and the gold answer is none")
        return Correctness("refused", 0.0, f"refusal ({families})")
    asked = read(plain(question), vocabulary)
    given = read(answer, vocabulary)
    figures = Figures(given.quantities)
    found = [_Comparison(gold, given, figures, asked, vocabulary, settings).verdict() for gold in golds]
    return max(found, key=lambda one: (_RANK[one.verdict], one.score))


class _Comparison:
    """One gold answer and one answer; `verdict` walks the rules."""

    def __init__(
        self,
        gold: str,
        given: Reading,
        figures: Figures,
        asked: Reading,
        vocabulary: Vocabulary,
        settings: LexicalSettings,
    ) -> None:
        self.gold = read(gold, vocabulary)
        self.given = given
        self.settings = settings
        self.vocabulary = vocabulary
        is_brief = len(self.gold.words) <= _BRIEF
        self.numbers = _gold_numbers(self.gold.quantities, asked.quantities, is_brief=is_brief)
        matches = [figures.match(number, settings.number_tolerance) for number in self.numbers]
        self.matched = matches.count("yes")
        self.missed = [number.text for number, match in zip(self.numbers, matches, strict=True) if match == "no"]
        self.signs = [number.text for number, match in zip(self.numbers, matches, strict=True) if match == "sign"]
        self.recall, self.missing = _recall(self.gold.words, given.stems, asked.stems)

    def verdict(self) -> Correctness:
        return self._yes_no() or self._numeric() or self._worded()

    def _yes_no(self) -> Correctness | None:
        wanted, rest = _opening(self.gold.text, self.vocabulary)
        # "No changes were made" is no answer to a yes-or-no question.
        if wanted is None or (wanted == "no" and not _BARE_NO.match(rest)):
            return None
        said, _ = _opening(self.given.text, self.vocabulary)
        if said is None:
            return None
        if said != wanted:
            return Correctness("incorrect", 0.0, f"yes/no: {said} for {wanted}")
        if not self.numbers:
            return Correctness("correct", 1.0, f"yes/no: {wanted}")
        if self.matched == len(self.numbers):
            return Correctness("correct", 1.0, f"yes/no: {wanted}, {self._counted()}")
        share = max(self.matched / len(self.numbers), self.recall)
        leaning = "right" if self.matched or self.recall >= _YES_NO_RECALL else "wrong"
        return Correctness("unsure", round(share, 6), f"yes/no: {wanted}, {self._counted()}; rather {leaning}")

    def _numeric(self) -> Correctness | None:
        if not self.numbers:
            return None
        share = self.matched / len(self.numbers)
        if len(self.gold.words) <= _BRIEF:
            if self.matched:
                return Correctness("correct", 1.0, f"number: {self._counted()}")
            if self.signs:
                return Correctness("unsure", 0.5, f"number: {self._counted()}")
            return Correctness("incorrect", 0.0, f"number: {self._counted()}")
        reason = f"numbers and words: {self._counted()}, recall {self.recall:.2f}"
        if share == 1 and self.recall >= _SURE_RECALL:
            return Correctness("correct", 1.0, reason)
        if not self.matched and not self.signs and self.recall < _SURE_WRONG_RECALL:
            return Correctness("incorrect", round(self.recall, 6), reason)
        leaning = "right" if share >= _NUMBERS_HALF and self.recall >= _NUMBERS_RECALL else "wrong"
        return Correctness("unsure", round((share + self.recall) / 2, 6), f"{reason}; rather {leaning}")

    def _worded(self) -> Correctness:
        if self.gold.folded in self.given.folded:
            return Correctness("correct", 1.0, "all of the gold answer in a row")
        is_short = len(self.gold.words) <= _SHORT
        needed = self.settings.gold_recall_short if is_short else self.settings.gold_recall_long
        share, by = self.recall, "recall"
        if is_short and len(self.given.text) >= len(self.gold.text):
            spelled = partial_ratio(self.gold.text, self.given.text) / 100 - _SPELLING
            if spelled > share:
                share, by = spelled, "spelling"
        reason = f"{by} {share:.2f}, needed {needed:.2f}"
        if self.missing:
            reason += f"; missing {', '.join(self.missing[:5])}"
        if abs(share - needed) < self.settings.unsure_band:
            return Correctness("unsure", round(share, 6), f"{reason}; rather {'right' if share >= needed else 'wrong'}")
        return Correctness("correct" if share >= needed else "incorrect", round(share, 6), reason)

    def _counted(self) -> str:
        text = f"{self.matched} of {len(self.numbers)} numbers"
        if self.missed:
            text += f", missing {', '.join(self.missed)}"
        return text + (f", sign differs of {', '.join(self.signs)}" if self.signs else "")


def _gold_numbers(gold: Sequence[Quantity], asked: Sequence[Quantity], *, is_brief: bool) -> list[Quantity]:
    """The numbers that an answer must have: not the question's years, and `one` only where it is the whole answer."""
    years = {quantity.value for quantity in asked if quantity.is_year}
    years |= {float(quantity.date.year) for quantity in asked if quantity.date and quantity.date.year}
    wanted = []
    for quantity in gold:
        if (quantity.is_year and quantity.value in years) or (quantity.is_weak and not is_brief):
            continue
        date = quantity.date
        if date is not None and date.year in years and date.day is not None:
            quantity = quantity._replace(date=date._replace(year=None))
        wanted.append(quantity)
    return wanted


def _recall(gold: Sequence[Word], given: frozenset[str], asked: frozenset[str]) -> tuple[float, list[str]]:
    """Share of the gold's weight that the answer has, and the stems it lacks."""
    total = held = 0
    missing = []
    for stem, weight in content(list(gold)).items():
        weight *= 1 if stem in asked else _ASKED_WEIGHT
        total += weight
        if stem in given:
            held += weight
        else:
            missing.append(stem)
    return (held / total if total else 0.0), missing


def _opening(folded: str, vocabulary: Vocabulary) -> tuple[str | None, str]:
    """Whether a text begins with yes or with no, and what follows."""
    text = folded.lstrip(_MARKS)
    for said, words in (("yes", vocabulary.yes), ("no", vocabulary.no)):
        for word in words:
            rest = text[len(word) :]
            # Scripts without spaces let the next word follow at once.
            if text.startswith(word) and (word[0] >= _FIRST_WITHOUT_SPACES or not rest[:1].isalnum()):
                return said, rest
    return None, text
