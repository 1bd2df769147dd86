"""The lexical judge: correctness and refusals in English by words and numbers; deterministic, offline, without a model.

Six rules in a fixed order, and a band near the thresholds where the verdict is `unsure`
(docs/explanation/judges.md); `fact_checks` has those for gold facts. It does not compare claims with texts: support is
null (`needs_support_judge`).
"""

import re
from collections.abc import Sequence

from rapidfuzz.fuzz import partial_ratio

from rag_eval_pipeline.judges.claim_splitting import split_claims
from rag_eval_pipeline.judges.compared_text import (
    BRIEF,
    ComparedText,
    opposite,
    other_name,
    other_notation,
    read_text,
    wanted_numbers,
)
from rag_eval_pipeline.judges.fact_checks import judge_facts
from rag_eval_pipeline.judges.judge_settings import LanguageCode, LexicalSettings
from rag_eval_pipeline.judges.judgement import LANGUAGE_NOT_SUPPORTED, Case, Claim, Correctness, Judgement, Verdict
from rag_eval_pipeline.metrics.answers import is_accepted
from rag_eval_pipeline.text.folding import fold, mask_citations, plain
from rag_eval_pipeline.text.numbers import Match, NumberIndex
from rag_eval_pipeline.text.refusals import Refusal, find_refusal

_YES_NO: dict[LanguageCode, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "de": (("ja",), ("nein",)),
    "fr": (("oui",), ("non",)),
    "es": (("si",), ("no",)),
    "it": (("si",), ("no",)),
    "pt": (("sim",), ("nao",)),
    "nl": (("ja",), ("nee",)),
    "ru": (("да",), ("нет",)),
    "pl": (("tak",), ("nie",)),
    "tr": (("evet",), ("hayir", "hayır")),
    "zh": (("是",), ("不", "否")),
    "ja": (("はい",), ("いいえ",)),
    "ko": (("네", "예"), ("아니요", "아니오")),
    "ar": (("نعم",), ("لا",)),
    "hi": (("हाँ", "हां"), ("नहीं",)),
}
"""Folded words that an agreeing and a disagreeing answer begin with; not calibrated."""
# "The correct answer is 42" and "True North" are no yes.
_ENGLISH_YES_NO = re.compile(
    r"(?:the answer is |(?:that|this|it|the (?:statement|claim|answer))(?: is|'s) (?=not |true|correct|false|inc))?"
    r"(?:(?P<yes>(?:yes|yeah|yep)\b|(?:true|correct)(?=\W*(?:$|[,.;:!\n-])))"
    r"|(?P<no>(?:no|nope)\b|(?:false|incorrect|not true|not correct)(?=\W*(?:$|[,.;:!\n-]))))"
)
_ONLY_YES_NO = re.compile(r"(?:yes|no|true|false|correct|incorrect)\W*")
_SHORT = 4  # words of a gold answer that is a name
_SPELT = 4  # letters from which a close spelling is a misspelling
_YES_NO_RECALL = 0.45  # of the words after an equal yes or no
_NUMBERS_HALF = 0.5
_NUMBERS_RECALL = 0.20  # of the words around numbers that match
_SURE_RECALL = 0.35  # of the words if all numbers match
_SURE_WRONG_RECALL = 0.50  # below it, and without a matching number, nothing speaks for the answer
_SPELLING = 0.25  # subtracted from a fuzzy ratio: chance agreement of letters
_QUESTION_WEIGHT = 0.25  # of a gold answer's word that the question has

# "Above what height is boarding suspended?" is answered by "above 2.5 metres".
_ASKS_BOUND = re.compile(
    r"\b(?:above|over|more|exceed\w*|least|min(?:imum)?|below|under|less|most|max(?:imum)?|up to|limit|threshold|before"
    r"|after|deadline)\b"
)
# 3.10 is no 3.1 where numbers are names.
_NAMED_BY_NUMBERS = r"\b(?:versions?|releases?|(?:sub)?sections?|chapters?|clauses?|articles?|paragraphs?)\b"
_ASKS_VERSION = re.compile(rf"{_NAMED_BY_NUMBERS}|\bpython\b")
_IS_VERSION = re.compile(
    rf"(?:{_NAMED_BY_NUMBERS}|\b(?:figure|table|appendix|annex|python|ubuntu|v)\b|\bv|§) ?(?=[0-9]+\.)"
)
_DECIMAL = re.compile(r"[0-9]+\.[0-9]+")
_ALPHANUMERIC = re.compile(r"[^\W_]")
# "No. 12" is a number, not a "no".
_NONE = re.compile(r"(?!no\.? ?\d)(?:none|nothing|no|never|nobody|nowhere|neither)\b")
_SOME_NONE = re.compile(r"\b(?:none|no|nobody|nothing)\b")
_ONLY_NONE = re.compile(r"\W*(?:none|nobody|nothing)\W*")
# "No changes were made" does not answer a yes-or-no question.
_BARE_NO = re.compile(r"\W*(?:$|[,.;:!-]|(?:it|they|he|she|we|the|this|there|that|i|these|those)\b)")
# Between the groups of a code: a telephone number, an account. Points, commas and slashes are of numbers and dates.
_GROUPED = re.compile(r"(?<=[a-z0-9)])[ ()-]+(?=[a-z0-9(])|[+()]")
_CODE_LENGTH = 5  # letters and digits, at least half of them digits
_FIRST_UNSPACED = "\u2e80"
_RANK: dict[Verdict, int] = {"correct": 3, "refused": 2, "unsure": 1, "incorrect": 0}
_AMBIGUOUS = frozenset({"absent", "context", "other_language"})


class LexicalJudge:
    """Judges correctness by words and numbers; defaults are used without settings."""

    judges_support = False
    may_differ = False

    def __init__(self, settings: LexicalSettings | None = None) -> None:
        self.settings = settings or LexicalSettings()
        self.fingerprint = self.settings.fingerprint

    async def judge(self, case: Case, repeat: int = 0) -> Judgement:
        """Judge one answer."""
        return self.judge_case(case)

    def judge_case(self, case: Case) -> Judgement:
        """Judge one answer; there is a judgement for any text."""
        marks = [(citation.marker_start, citation.marker_end) for citation in case.citations]
        answer = plain(case.answer, marks)
        refusal = find_refusal(answer)
        claims = [] if refusal.is_refusal else split_claims(case.answer, case.citations)
        if case.is_impossible:
            verdict: Verdict = "correct" if refusal.is_refusal else "incorrect"
            correctness: Correctness | None = Correctness(verdict, float(refusal.is_refusal), "impossible")
        else:
            correctness = judge_correctness(answer, refusal, case.question, case.accepted, self.settings)
        is_unknown = correctness is None and any(_ALPHANUMERIC.search(gold) for gold in case.accepted)
        return Judgement(
            query_id=case.query_id,
            status="completed",
            correctness=correctness,
            claims=tuple(Claim(claim.start, claim.end, claim.citations) for claim in claims),
            citation_support=(None,) * len(case.citations),
            flags=(LANGUAGE_NOT_SUPPORTED,) if is_unknown and self.settings.language != "en" else (),
            facts=judge_facts(case, mask_citations(case.answer, marks), refusal, self.settings) if case.facts else (),
        )


def judge_correctness(
    answer: str, refusal: Refusal, question: str, accepted: Sequence[str], settings: LexicalSettings
) -> Correctness | None:
    """Return the best verdict over the gold answers of an answerable question.

    The score of an unsure one is 0.5 or more if the rules lean towards correct. None if no gold answer has a word, and
    for what only a judge of the language could decide.
    """
    golds = [gold for gold in (plain(text) for text in accepted) if _ALPHANUMERIC.search(gold)]
    if not golds:
        return None
    if refusal.is_refusal:
        if is_accepted(answer, golds):  # the gold answer is "unknown"
            return Correctness("correct", 1.0, "the gold answer itself")
        families = ", ".join(refusal.families)
        # "The text gives no information on X" may be the right answer if the right answer is "none".
        if _AMBIGUOUS.issuperset(refusal.families) and any(_NONE.match(fold(gold)) for gold in golds):
            return Correctness("unsure", 0.5, f"refusal ({families}), and the gold answer is none")
        return Correctness("refused", 0.0, f"refusal ({families})")
    comma = settings.has_decimal_comma
    given, asked = read_text(answer, decimal_comma=comma), read_text(plain(question), decimal_comma=comma)
    index = NumberIndex(given.quantities)
    found = []
    for gold in golds:
        wanted = read_text(gold, decimal_comma=comma)
        if settings.language == "en":
            found.append(_Comparison(wanted, given, index, asked, settings).verdict())
        elif wanted.spelling == given.spelling:
            found.append(Correctness("correct", 1.0, "the gold answer itself"))
        elif (verdict := _compare_yes_no(wanted, given, settings.language)) is not None:
            found.append(verdict)
    return max(found, key=lambda one: (_RANK[one.verdict], one.score), default=None)


class _Comparison:
    """One gold answer and one answer in English; `verdict` applies the rules in order."""

    def __init__(
        self, gold: ComparedText, given: ComparedText, index: NumberIndex, asked: ComparedText, by: LexicalSettings
    ) -> None:
        self.gold = gold
        self.given = given
        self.settings = by
        self.numbers = wanted_numbers(gold.quantities, asked.quantities, is_brief=len(gold.stems) <= BRIEF)
        matches = [(number.text, index.match(number, by.number_tolerance)) for number in self.numbers]
        if _ASKS_VERSION.search(asked.folded) or _IS_VERSION.search(gold.folded):
            matches = [(text, _as_name(text, match, given.folded)) for text, match in matches]
        if _ASKS_BOUND.search(asked.folded):
            matches = [(text, "yes" if match == "bound" else match) for text, match in matches]
        self.matched = sum(match == "yes" for _, match in matches)
        near = [number for number, (_, match) in zip(self.numbers, matches, strict=True) if match == "rounding"]
        self.near = self.matched + sum(not number.is_exact for number in near)
        self.missed = [text for text, match in matches if match == "no"]
        self.doubts = [f"{match} differs of {text}" for text, match in matches if match not in ("yes", "no")]
        self.recall, self.missing = _recall(gold.weights, frozenset(given.stems), frozenset(asked.stems))

    def verdict(self) -> Correctness:
        """Apply the rules; an answer that says the opposite in the same words is not surely correct."""
        found = self._verdict()
        if found.verdict != "correct" or found.reason.startswith("yes/no"):
            return found
        doubt = opposite(self.gold, self.given) or other_name(self.gold, self.given)
        return found if doubt is None else _unsure(0.5, f"{found.reason}, but {doubt}", leans_correct=False)

    def _verdict(self) -> Correctness:
        if _is_none_for_zero(self.gold, self.given) or _is_none_for_zero(self.given, self.gold):
            return _unsure(0.5, "none for 0", leans_correct=True)
        if _ONLY_NONE.fullmatch(self.gold.folded) and _SOME_NONE.search(self.given.folded):
            is_same = self.gold.stems == self.given.stems
            return Correctness("correct", 1.0, "none") if is_same else _unsure(0.5, "none in other words", True)
        found = _compare_yes_no(self.gold, self.given, "en")
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
        if share < 1 and not self.doubts and _has_code(self.gold, self.given):
            return Correctness("correct", 1.0, "the code, in other groups")
        if len(self.gold.stems) <= BRIEF:
            reason = f"number: {self._counted()}"
            if share == 1:
                return Correctness("correct", 1.0, reason)
            return (
                _unsure(0.5, reason, self.near > 0) if share or self.doubts else Correctness("incorrect", 0.0, reason)
            )
        reason = f"numbers and words: {self._counted()}, recall {self.recall:.2f}"
        if share == 1 and self.recall >= _SURE_RECALL:
            return Correctness("correct", 1.0, reason)
        if not self.matched and not self.doubts and self.recall < _SURE_WRONG_RECALL:
            return Correctness("incorrect", round(self.recall, 6), reason)
        share = self.near / len(self.numbers)
        return _unsure((share + self.recall) / 2, reason, share >= _NUMBERS_HALF and self.recall >= _NUMBERS_RECALL)

    def _worded(self) -> Correctness:
        places = self._places()
        if _ONLY_YES_NO.fullmatch(self.gold.folded):
            return _unsure(0.0, "the answer begins with neither yes nor no", bool(places))
        if places:
            reason = "all of the gold answer in a row"
            alternatives = "or" not in self.gold.stems and all(map(self._is_alternative, places))
            return _unsure(0.5, f"{reason}, beside or", True) if alternatives else Correctness("correct", 1.0, reason)
        is_short = len(self.gold.stems) <= _SHORT
        needed = self.settings.gold_recall_short if is_short else self.settings.gold_recall_long
        share, by = self.recall, "recall"
        if is_short and _SPELT <= len(self.gold.folded) <= len(self.given.folded):
            spelled = partial_ratio(self.gold.folded, self.given.folded) / 100 - _SPELLING
            if spelled > share:
                share, by = spelled, "spelling"
        reason = f"{by} {share:.2f}, needed {needed:.2f}"
        if self.missing:
            reason += f"; missing {', '.join(self.gold.words[stem] for stem in self.missing[:5])}"
        if abs(share - needed) < self.settings.unsure_band:
            return _unsure(share, reason, share >= needed)
        if share < needed and (notation := other_notation(self.gold, self.given)) is not None:
            return _unsure(share, f"{reason}; {notation}", leans_correct="initials" in notation)
        return Correctness("correct" if share >= needed else "incorrect", round(share, 6), reason)

    def _places(self) -> list[int]:
        """Return where the gold answer's words are in the answer's, in a row."""
        gold, given = self.gold.stems, self.given.stems
        first = [place for place, stem in enumerate(given) if stem == gold[0]] if gold else []
        return [place for place in first if given[place : place + len(gold)] == gold]

    def _is_alternative(self, place: int) -> bool:
        """Whether "or" is beside the gold answer's words, or one word apart: "Mr Smith or Mr Grey"."""
        end = place + len(self.gold.stems)
        return "or" in self.given.stems[max(place - 2, 0) : place] + self.given.stems[end : end + 2]

    def _counted(self) -> str:
        text = f"{self.matched} of {len(self.numbers)} numbers"
        if self.missed:
            text += f", missing {', '.join(self.missed)}"
        return ", ".join((text, *self.doubts))


def _as_name(number: str, match: Match, text: str) -> Match:
    """Return the match of a number that is a name: 3.10 is no 3.1, and 3.10.2 may be meant by it."""
    if not _DECIMAL.fullmatch(number):
        return match
    digits = rf"(?<![0-9.]){re.escape(number)}"
    if match == "no":
        return "last digit" if re.search(rf"{digits}\.[0-9]", text) else match
    is_there = re.search(rf"{digits}(?![0-9]|\.[0-9])", text) is not None
    return match if is_there or match not in ("yes", "rounding") else "last digit"


def _has_code(gold: ComparedText, given: ComparedText) -> bool:
    """Whether a gold answer is a code that the answer has in the same or in other groups: 555-0199 and 5550199."""
    code = _GROUPED.sub("", gold.folded.strip())
    digits = sum(map(str.isdigit, code))
    if not (code.isascii() and code.isalnum()) or len(code) < _CODE_LENGTH or 2 * digits < len(code):
        return False
    is_date = any(number.date is not None for number in gold.quantities)
    return not is_date and re.search(rf"(?<![0-9.]){code}(?![0-9]|\.[0-9])", _GROUPED.sub("", given.folded)) is not None


def _is_none_for_zero(one: ComparedText, other: ComparedText) -> bool:
    """Whether a brief text is only a zero, and the other one says so in words: "0" and "none", "no ships"."""
    is_zero = len(one.stems) <= BRIEF and [number.value for number in one.quantities] == [0]
    return is_zero and not other.quantities and _SOME_NONE.search(other.folded) is not None


def _unsure(share: float, reason: str, leans_correct: bool) -> Correctness:
    score = round((1 + share) / 2 if leans_correct else min(share, 0.99) / 2, 6)
    return Correctness("unsure", score, f"{reason}; rather {'right' if leans_correct else 'wrong'}")


def _compare_yes_no(gold: ComparedText, given: ComparedText, language: LanguageCode) -> Correctness | None:
    wanted, rest = _opening(gold.folded, language)
    if wanted is None or (wanted == "no" and language == "en" and not _BARE_NO.match(rest)):
        return None
    found, _ = _opening(given.folded, language)
    if found is None:
        return None
    if found != wanted:
        return Correctness("incorrect", 0.0, f"yes/no: {found} for {wanted}")
    return Correctness("correct", 1.0, f"yes/no: {wanted}")


def _opening(text: str, language: LanguageCode) -> tuple[str | None, str]:
    text = text.lstrip(" \t\n\"'*_-")
    if language == "en":
        opening = _ENGLISH_YES_NO.match(text)
        return (None, text) if opening is None else (opening.lastgroup, text[opening.end() :])
    for meaning, words in zip(("yes", "no"), _YES_NO[language], strict=True):
        for word in map(fold, words):
            rest = text[len(word) :]
            # In scripts without spaces the next word follows at once.
            if text.startswith(word) and (word[0] >= _FIRST_UNSPACED or not rest[:1].isalnum()):
                return meaning, rest
    return None, text


def _recall(weights: dict[str, int], given: frozenset[str], asked: frozenset[str]) -> tuple[float, list[str]]:
    """Return the share of the gold answer's content that the answer has, and the stems it lacks."""
    weighed = {stem: weight * (_QUESTION_WEIGHT if stem in asked else 1) for stem, weight in weights.items()}
    total = sum(weighed.values())
    missing = [stem for stem in weighed if stem not in given]
    return ((total - sum(weighed[stem] for stem in missing)) / total if total else 0.0), missing
