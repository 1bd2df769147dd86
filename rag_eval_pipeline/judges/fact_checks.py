"""Gold facts in an answer by their numbers, names and quoted words, without a model."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rag_eval_pipeline.judges.compared_text import (
    BRIEF,
    ComparedText,
    opposite,
    read_text,
    read_word,
    wanted_numbers,
    without_points,
)
from rag_eval_pipeline.judges.judge_settings import LexicalSettings
from rag_eval_pipeline.judges.judgement import Case, FactVerdict
from rag_eval_pipeline.text.folding import fold, plain
from rag_eval_pipeline.text.numbers import NumberIndex, Quantity, quantities
from rag_eval_pipeline.text.refusals import Refusal
from rag_eval_pipeline.text.sentences import pieces
from rag_eval_pipeline.text.tokens import iterate_tokens

_WORDING = re.compile(r'"\s*([^"]{1,500}?)[\s.,;:!?]*"')  # American English has the full stop inside
_SENTENCE_START = re.compile(r"(?:^|[.!?:]\s)\W*$")


class _StatedNumbers(NumberIndex):
    """The numbers of a sentence as it states them: 40 is no 40,000, as it may be in an answer from a table."""

    _FACTORS = (1.0,)


class _Sentence(NamedTuple):
    """A sentence of an answer: its place in the answer, its text, and what is compared of it."""

    place: tuple[int, int]
    text: str
    read: ComparedText
    numbers: _StatedNumbers


def judge_facts(case: Case, masked: str, refusal: Refusal, settings: LexicalSettings) -> tuple[FactVerdict, ...]:
    """Return a verdict on each gold fact of a case.

    A fact without a number, a name or quoted words is not decided. That depends on fact and question alone, so the
    answers of two systems are measured by the same facts. A fact is supported if the answer has all of them, and
    partly if it has some; with the same words for the opposite it is not supported. Names are words with a capital, in
    English only.

    Args:
        masked: The answer with fillers in place of its citations.
    """
    comma = settings.has_decimal_comma
    asked = read_text(plain(case.question), decimal_comma=comma)
    sentences = []
    for start, end, _ in pieces(masked):
        read = read_text(text := plain(masked[start:end]), decimal_comma=comma)
        sentences.append(_Sentence((start, end), text, read, _StatedNumbers(read.quantities)))
    return tuple(_judge_fact(plain(fact.text), sentences, asked, refusal, settings) for fact in case.facts)


def _judge_fact(
    text: str, sentences: Sequence[_Sentence], asked: ComparedText, refusal: Refusal, settings: LexicalSettings
) -> FactVerdict:
    wanted = read_text(text, decimal_comma=settings.has_decimal_comma)
    wordings = [
        part
        for part in _WORDING.findall(text)
        if text.startswith('"') and text.endswith('"') or fold(part) not in asked.folded
    ]
    rest = _WORDING.sub(" . ", text)
    numbers = quantities(rest, decimal_comma=settings.has_decimal_comma)
    known = {quantity.value for quantity in asked.quantities}
    needed = wanted_numbers(numbers, asked.quantities, is_brief=len(wanted.stems) <= BRIEF)
    numbers = [number for number in needed if number.date or number.value not in known]
    names = _names(rest, wanted.quantities, asked) if settings.language == "en" else []
    if not (numbers or names or wordings):
        return FactVerdict(None, "no number, name or quoted words beyond the question's")

    def found_in(sentence: _Sentence) -> list[str]:
        matches = [number.text for number in numbers if _has_number(number, sentence.numbers, settings)]
        matches += [name for name in names if read_word(name).stem in sentence.read.stems]
        return matches + [f'"{part}"' for part in wordings if _has_wording(part, sentence.read.folded)]

    every = dict.fromkeys([*(number.text for number in numbers), *names, *(f'"{part}"' for part in wordings)])
    found: set[str] = set()
    used: list[_Sentence] = []
    by_sentence = [] if refusal.is_refusal else [(set(found_in(sentence)), sentence) for sentence in sentences]
    for parts, sentence in sorted(by_sentence, key=lambda one: -len(one[0])):
        if parts - found:
            found |= parts
            used.append(sentence)
    used.sort()
    places = tuple(sentence.place for sentence in used)
    missing = [part for part in every if part not in found]
    if not found:
        return FactVerdict("not_support", f"missing {', '.join(missing)}")
    if missing:
        return FactVerdict("partial_support", f"{', '.join(sorted(found))}; missing {', '.join(missing)}", places)
    said = read_text(" ".join(sentence.text for sentence in used), decimal_comma=settings.has_decimal_comma)
    if (reason := opposite(wanted, said)) is not None:
        return FactVerdict("not_support", reason, places)
    return FactVerdict("support", ", ".join(every), places)


def _names(text: str, numbers: Sequence[Quantity], asked: ComparedText) -> list[str]:
    """Return the words with a capital; a single one at a sentence's start only if it has another capital."""
    if text.isupper():
        return []
    counted = {word for number in numbers for word in re.findall(r"\w+", number.text)}
    tokens = list(iterate_tokens(without_points(text)))
    names = []
    for number, token in enumerate(tokens):
        word, following = token[0], tokens[number + 1][0] if number + 1 < len(tokens) else ""
        is_name = word[0].isupper() and (
            not word[1:].islower()
            or not _SENTENCE_START.search(token.string[: token.start()])
            or (following[:1].isupper() and token.string[token.end() : tokens[number + 1].start()] == " ")
        )
        made = read_word(word)
        is_known = made.is_stop or made.folded in counted or made.stem in asked.stems
        if is_name and len(word) > 1 and not is_known:
            names.append(word)
    return names


def _has_number(number: Quantity, index: _StatedNumbers, settings: LexicalSettings) -> bool:
    return index.match(number, settings.number_tolerance) in ("yes", "list")


def _has_wording(wording: str, folded: str) -> bool:
    """Whether a text has words as they are quoted, without case and accents; the last one may have an ending."""
    words = r"\s+".join(map(re.escape, fold(wording).split()))
    end = r"(?!\d)" if wording[-1:].isdigit() else ""
    return re.search(rf"(?<!\w){words}{end}", folded) is not None
