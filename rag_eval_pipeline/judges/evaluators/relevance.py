"""`relevance`: whether an answer is of the kind that was asked for, stays with the topic, and says all of it.

Three lexical measures in [0, 1], and their mean as the score. They compare words: a right answer in other words is
rated too low, a wrong one in the right words too high.

- `query_intent_match`: 1 when the answer has what the question's first words ask for (a number, a date, a name, yes or
  no), else 0; for other questions, 1 when it says a word that the question does not. A refusal is right, 1, where the
  question is impossible, and 0 elsewhere.
- `topic_alignment`: share of the answer's content words that stand in the question, the gold answers or the evidence.
- `information_completeness`: share of the content words of the best covered gold answer that the answer has; without a
  gold answer, of the question's. A refusal as above.

The confidence is the share of the three that rest on what they are meant for: a kind that is recognised, evidence or
gold, and a gold answer.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from rag_eval_pipeline.judges.evaluators.evaluator import Evaluator, Fields
from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.judges.evaluators.wording import (
    LanguageOptions,
    Wording,
    best_covered,
    covered,
    stems,
    wording,
)
from rag_eval_pipeline.judges.lexical.settings import LanguageCode
from rag_eval_pipeline.metrics.evaluation_scores import SHARE
from rag_eval_pipeline.text.numbers import COUNTING_WORDS, MONTH_NAMES

_MONTHS = "|".join(sorted(MONTH_NAMES, key=lambda name: (-len(name), name)))
_DATE = re.compile(rf"\b(?:[0-9]{{3,4}}s?|{_MONTHS}|[0-9]{{1,2}}(?:st|nd|rd|th)|century|today|yesterday)\b", re.I)
_NUMBER = re.compile(rf"[0-9]|\b(?:{'|'.join(COUNTING_WORDS)}|none|no|zero)\b", re.I)
_NAME = re.compile(r"\b[A-ZÀ-Þ]")
_YES_NO = re.compile(r"\A\W*(?:yes|no|true|false)\b", re.I)
_AUXILIARY = "is|are|was|were|do|does|did|has|have|had|can|could|will|would|should"

# The first that stands in the question decides; English only, the other languages go by the general rule.
_KINDS: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = (
    (re.compile(r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|century)\b", re.I), _DATE),
    (re.compile(r"\bhow (?:many|much|long|far|tall|high|deep|old|wide|heavy|fast|often|large|big)\b", re.I), _NUMBER),
    (re.compile(r"\bwh(?:o|om|ose)\b", re.I), _NAME),
    (re.compile(rf"\A\W*(?:{_AUXILIARY})\b(?!.*\bor\b)", re.I), _YES_NO),
)  # fmt: skip


class Relevance(NamedTuple):
    """The three measures, each in [0, 1], and how many of them had what they are meant for."""

    query_intent_match: float
    topic_alignment: float
    information_completeness: float
    confidence: float

    @property
    def mean(self) -> float:
        """Of the three."""
        return (self.query_intent_match + self.topic_alignment + self.information_completeness) / 3


def measure_relevance(event: Event, said: Wording, language: LanguageCode) -> Relevance:
    """The measures of an event with an answer."""
    asked = stems(event.question, language)
    if said.is_refusal:
        right = float(event.is_impossible)
        return Relevance(right, _topic(event, said, language), right, 1.0)
    kind = _kind(event.question) if language == "en" else None
    complete = best_covered(event.accepted, said.stems, language)
    return Relevance(
        query_intent_match=float(any(s not in asked for s in said.stems) if kind is None else kind(said.text)),
        topic_alignment=_topic(event, said, language),
        information_completeness=(covered(asked, said.stems) or 0.0) if complete is None else complete,
        confidence=((kind is not None) + event.has("gold") / 2 + event.has("evidence") / 2 + (complete is not None))
        / 3,
    )


def _topic(event: Event, said: Wording, language: LanguageCode) -> float:
    texts = (event.question, *event.accepted, *event.evidence)
    known = {stem for text in texts for stem in stems(text, language)}
    return covered(said.stems, known) or 0.0


def _kind(question: str) -> Callable[[str], bool] | None:
    wanted = next((answer for asks, answer in _KINDS if asks.search(question)), None)
    return None if wanted is None else lambda text: wanted.search(text) is not None


def _evaluate(event: Event, options: LanguageOptions) -> Fields:
    found = measure_relevance(event, wording(event, options.language), options.language)
    return {
        "score": found.mean,
        "explanation": f"intent {found.query_intent_match:.2f}, topic {found.topic_alignment:.2f}, completeness "
        f"{found.information_completeness:.2f}",
        "confidence": found.confidence,
        "query_intent_match": found.query_intent_match,
        "topic_alignment": found.topic_alignment,
        "information_completeness": found.information_completeness,
    }


RELEVANCE = Evaluator(
    name="relevance",
    evaluate=_evaluate,
    version="1.0.0",
    scale=SHARE,
    needs=frozenset({"question", "answer"}),
    options=LanguageOptions,
    in_thread=False,
)
