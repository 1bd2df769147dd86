"""Correctness of an answer against gold answers: six short rules in a fixed order, and a zone where they are unsure.

The thresholds lie in flat regions of what was measured. Rules for paraphrase, units of measure, direction words and
deeper word lists were measured too, and do not carry over to other answers.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rapidfuzz.fuzz import partial_ratio

from rag_eval_pipeline.judges.judgement import Correctness, Verdict
from rag_eval_pipeline.judges.lexical.languages import NO, YES
from rag_eval_pipeline.judges.lexical.settings import LanguageCode, LexicalSettings
from rag_eval_pipeline.judges.lexical.words import Vocabulary, content
from rag_eval_pipeline.text.normalise import fold, plain, unify
from rag_eval_pipeline.text.numbers import NumberIndex, Quantity, quantities
from rag_eval_pipeline.text.refusals import Refusal

_BRIEF = 3  # words of a gold answer that is little but its number
_SHORT = 4  # words of a gold answer that is a name
_YES_NO_RECALL = 0.45  # of the words after an equal yes or no
_NUMBERS_HALF = 0.5
_NUMBERS_RECALL = 0.20  # of the words around numbers that match
_SURE_RECALL = 0.35  # of the words when all numbers match
_SURE_WRONG_RECALL = 0.50  # below it, and without a number that matches, nothing speaks for the answer
_SPELLING = 0.25  # taken off a fuzzy ratio: chance agreement of letters
_ASKED_WEIGHT = 4  # a gold's word that the question has counts a quarter
_SAID = re.compile(r"[^\W_]")
# "No. 12" is a number and no "no".
_NONE = re.compile(r"(?!no\.? ?\d)(?:none|nothing|no|never|nobody|nowhere|neither)\b")
# "No changes were made" does not answer a yes-or-no question.
_BARE_NO = re.compile(r"\W*(?:$|[,.;:!-]|(?:it|they|he|she|we|the|this|there|that|i|these|those)\b)")
_FIRST_WITHOUT_SPACES = "\u2e80"
_RANK: dict[Verdict, int] = {"correct": 3, "refused": 2, "unsure": 1, "incorrect": 0}
_AMBIGUOUS = frozenset({"absent", "context", "other_language"})


class _Reading(NamedTuple):
    """A text, ready to be compared.

    Args:
        words: Its words as stems.
        spelling: Its words without case and accents.
        weights: Of the content words.
        text: Without case and accents.
        quantities: Its numbers.
    """

    words: list[str]
    spelling: list[str]
    weights: dict[str, int]
    text: str
    quantities: list[Quantity]


def judge_correctness(
    answer: str,
    refusal: Refusal,
    *,
    question: str,
    accepted: Sequence[str],
    vocabulary: Vocabulary,
    settings: LexicalSettings,
) -> Correctness | None:
    """Compare an answer to an answerable question with its gold answers.

    Args:
        answer: As `normalise.plain` gives it.
        refusal: What was found of refusing in it.
        question: As it was asked.
        accepted: Gold answers, any of which is right.
        vocabulary: Words of the language.
        settings: Language and thresholds.

    Returns:
        The best verdict over the gold answers. The score of an unsure one is 0.5 or more when the rules lean towards
        correct. None when no gold answer says anything, and for what only a judge of the language could decide.
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
    given, asked = _read(answer, vocabulary), _read(plain(question), vocabulary)
    found = []
    index = NumberIndex(given.quantities)
    for gold in golds:
        read = _read(gold, vocabulary)
        if settings.language == "en":
            found.append(_Comparison(read, given, index, asked, settings).verdict())
        elif (verdict := _exact(read, given) or _yes_no(read, given, settings.language)) is not None:
            found.append(verdict)
    return max(found, key=lambda one: (_RANK[one.verdict], one.score), default=None)


class _Comparison:
    """One gold answer and one answer in English; `verdict` applies the rules in order."""

    def __init__(
        self, gold: _Reading, given: _Reading, index: NumberIndex, asked: _Reading, settings: LexicalSettings
    ) -> None:
        self.gold = gold
        self.given = given
        self.settings = settings
        self.numbers = _wanted_numbers(gold.quantities, asked.quantities, is_brief=len(gold.words) <= _BRIEF)
        matches = [index.match(number, settings.number_tolerance) for number in self.numbers]
        self.matched = matches.count("yes")
        self.missed = [number.text for number, match in zip(self.numbers, matches, strict=True) if match == "no"]
        self.signs = [number.text for number, match in zip(self.numbers, matches, strict=True) if match == "sign"]
        self.recall, self.missing = _recall(gold.weights, frozenset(given.words), frozenset(asked.words))

    def verdict(self) -> Correctness:
        found = _yes_no(self.gold, self.given, "en")
        if found is not None and (found.verdict == "incorrect" or not self.numbers):
            return found
        if found is not None:
            return self._yes_with_numbers(found.reason)
        return self._numeric() if self.numbers else self._worded()

    def _yes_with_numbers(self, reason: str) -> Correctness:
        if self.matched == len(self.numbers):
            return Correctness("correct", 1.0, f"{reason}, {self._counted()}")
        share = max(self.matched / len(self.numbers), self.recall)
        return _unsure(share, f"{reason}, {self._counted()}", self.matched > 0 or self.recall >= _YES_NO_RECALL)

    def _numeric(self) -> Correctness:
        share = self.matched / len(self.numbers)
        if len(self.gold.words) <= _BRIEF:
            reason = f"number: {self._counted()}"
            if self.matched:
                return Correctness("correct", 1.0, reason)
            return _unsure(0.5, reason, False) if self.signs else Correctness("incorrect", 0.0, reason)
        reason = f"numbers and words: {self._counted()}, recall {self.recall:.2f}"
        if share == 1 and self.recall >= _SURE_RECALL:
            return Correctness("correct", 1.0, reason)
        if not self.matched and not self.signs and self.recall < _SURE_WRONG_RECALL:
            return Correctness("incorrect", round(self.recall, 6), reason)
        return _unsure((share + self.recall) / 2, reason, share >= _NUMBERS_HALF and self.recall >= _NUMBERS_RECALL)

    def _worded(self) -> Correctness:
        if _contains(self.given.words, self.gold.words):
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
            return _unsure(share, reason, share >= needed)
        return Correctness("correct" if share >= needed else "incorrect", round(share, 6), reason)

    def _counted(self) -> str:
        text = f"{self.matched} of {len(self.numbers)} numbers"
        if self.missed:
            text += f", missing {', '.join(self.missed)}"
        return text + (f", sign differs of {', '.join(self.signs)}" if self.signs else "")


def _unsure(share: float, reason: str, is_rather_right: bool) -> Correctness:
    score = round((1 + share) / 2 if is_rather_right else min(share, 0.99) / 2, 6)
    return Correctness("unsure", score, f"{reason}; rather {'right' if is_rather_right else 'wrong'}")


def _exact(gold: _Reading, given: _Reading) -> Correctness | None:
    return Correctness("correct", 1.0, "the gold answer itself") if gold.spelling == given.spelling else None


def _yes_no(gold: _Reading, given: _Reading, language: LanguageCode) -> Correctness | None:
    """Compare first words where both are yes or no; None where one is neither."""
    wanted, rest = _opening(gold.text, language)
    if wanted is None or (wanted == "no" and language == "en" and not _BARE_NO.match(rest)):
        return None
    said, _ = _opening(given.text, language)
    if said is None:
        return None
    if said != wanted:
        return Correctness("incorrect", 0.0, f"yes/no: {said} for {wanted}")
    return Correctness("correct", 1.0, f"yes/no: {wanted}")


def _opening(text: str, language: LanguageCode) -> tuple[str | None, str]:
    """Whether a folded text begins with yes or with no, and what follows."""
    text = text.lstrip(" \t\n\"'*_-")
    for said, words in (("yes", YES[language]), ("no", NO[language])):
        for word in words:
            rest = text[len(word) :]
            # Scripts without spaces let the next word follow at once.
            if text.startswith(word) and (word[0] >= _FIRST_WITHOUT_SPACES or not rest[:1].isalnum()):
                return said, rest
    return None, text


def _read(text: str, vocabulary: Vocabulary) -> _Reading:
    unified = unify(text)
    words = vocabulary.words(unified)
    numbers = quantities(unified, decimal_comma=vocabulary.decimal_comma)
    return _Reading(
        [word.stem for word in words], [word.folded for word in words], content(words), fold(unified), numbers
    )


def _wanted_numbers(gold: Sequence[Quantity], asked: Sequence[Quantity], *, is_brief: bool) -> list[Quantity]:
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


def _contains(words: list[str], wanted: list[str]) -> bool:
    return f" {' '.join(wanted)} " in f" {' '.join(words)} "


def _recall(weights: dict[str, int], given: frozenset[str], asked: frozenset[str]) -> tuple[float, list[str]]:
    """Share of the gold answer's content that the answer has, and the stems it lacks."""
    weighed = {stem: weight * (1 if stem in asked else _ASKED_WEIGHT) for stem, weight in weights.items()}
    total = sum(weighed.values())
    missing = [stem for stem in weighed if stem not in given]
    return ((total - sum(weighed[stem] for stem in missing)) / total if total else 0.0), missing
