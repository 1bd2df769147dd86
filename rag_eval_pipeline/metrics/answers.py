"""Answers against accepted answers: SQuAD, MLQA and HotpotQA as their official scorers compute them, and ROUGE-L.

Scores are per question, in [0, 1]. The caller counts failed answers; they are never scored as "".

Source: SQuAD evaluate-v2.0.py; MLQA's evaluation script; Yang et al. 2018, hotpot_evaluate_v1.py; Lin 2004, ROUGE.
"""

import re
import string
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import regex
from rapidfuzz.distance import LCSseq

from rag_eval_pipeline.metrics.span_matching import MIN_OVERLAP, TOLERANCE_CHARS, score_spans
from rag_eval_pipeline.metrics.spans import Citation, TokenOffsets, overlap
from rag_eval_pipeline.text.tokens import CHARACTER, tokenize

WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
# MLQA's patterns by ISO 639-1 code. The Arabic one is copied with its slip.
ARTICLES = {
    "en": r"\b(a|an|the)\b",
    "es": r"\b(un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(của|là|cái|chiếc|những)\b",
    "de": r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "ar": r"\sال^|ال",
}
_ENGLISH_ARTICLES = re.compile(ARTICLES["en"])
_CHARACTER = regex.compile(f"({CHARACTER})")
INDIVISIBLE = frozenset({"yes", "no", "noanswer"})  # HotpotQA gives these answers no partial F1


class AnswerScore(NamedTuple):
    """Exact match (0.0 or 1.0) and token F1 in [0, 1] of one answer."""

    exact_match: float
    f1: float


def normalise_answer(text: str) -> str:
    """Lower-case the text, drop ASCII punctuation and English articles, and collapse white space.

    Source: SQuAD evaluate-v2.0.py, normalize_answer.
    """
    return " ".join(_ENGLISH_ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def score_answer(answer: str, accepted: Sequence[str]) -> AnswerScore:
    """Score an answer by exact match and F1, each the best over the accepted answers."""
    return _best_score(normalise_answer(answer), map(normalise_answer, accepted))


def is_accepted(answer: str, accepted: Iterable[str]) -> bool:
    """Return whether an answer has words and equals an accepted one but for case, punctuation and articles."""
    given = normalise_answer(answer)
    return bool(given) and given in map(normalise_answer, accepted)


def _best_score(given: str, accepted: Iterable[str]) -> AnswerScore:
    wanted = [text for text in accepted if text] or [""]
    return AnswerScore(float(given in wanted), max(token_f1(given.split(), text.split()) for text in wanted))


def token_f1(given: Sequence[str], wanted: Sequence[str]) -> float:
    """Return the F1 of two bags of tokens; if either is empty, whether both are.

    Source: SQuAD evaluate-v2.0.py, compute_f1, in its order of operations.
    """
    return _token_overlap(given, wanted)[0] if given and wanted else float(given == wanted)


def _token_overlap(given: Sequence[str], wanted: Sequence[str]) -> tuple[float, float, float]:
    """Return F1, precision and recall; 0.0 for each if nothing is shared."""
    shared = (Counter(given) & Counter(wanted)).total()
    if shared == 0:
        return 0.0, 0.0, 0.0
    precision, recall = shared / len(given), shared / len(wanted)
    return (2 * precision * recall) / (precision + recall), precision, recall


def normalise_answer_in(text: str, language: str | None) -> str:
    """Lower-case the text, drop punctuation of every script and the language's articles, and separate tokens."""
    bare = text.lower().translate(_punctuation_of_all_scripts())
    articles = ARTICLES.get((language or "").lower().split("-")[0])
    if articles is not None:
        bare = re.sub(articles, " ", bare)
    return " ".join(_CHARACTER.sub(r" \1 ", bare).split())


def score_answer_in(answer: str, accepted: Sequence[str], language: str | None) -> AnswerScore:
    """Score an answer like `score_answer`, but by the rules of its language; English is scored by SQuAD's rules."""
    if (language or "").lower().split("-")[0] == "en":
        return score_answer(answer, accepted)
    return _best_score(
        normalise_answer_in(answer, language), (normalise_answer_in(text, language) for text in accepted)
    )


@cache
def _punctuation_of_all_scripts() -> dict[int, None]:
    marks = (i for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)).startswith("P"))
    return dict.fromkeys([*marks, *map(ord, string.punctuation)])


def rouge_l(answer: str, accepted: Sequence[str]) -> float | None:
    """Return the best F1 of the longest common subsequence of words, or None without an accepted answer."""
    given = _rouge_words(answer)
    wanted = [words for words in map(_rouge_words, accepted) if words]
    if not wanted:
        return None
    shared = [(LCSseq.similarity(given, words), len(words)) for words in wanted]
    return max(_harmonic_mean(n / len(given), n / length) if n else 0.0 for n, length in shared)


def _rouge_words(text: str) -> list[str]:
    return tokenize(text.lower().replace("_", " "))  # rouge-score separates words at underscores


class HotpotScore(NamedTuple):
    """Exact match (0.0 or 1.0), F1, precision and recall in [0, 1]."""

    em: float
    f1: float
    precision: float
    recall: float


def hotpot_answer(answer: str, gold: str) -> HotpotScore:
    """Score an answer. An empty answer to an empty gold one matches exactly, yet has an F1 of 0, as officially."""
    given, wanted = normalise_answer(answer), normalise_answer(gold)
    em = float(given == wanted)
    if given != wanted and (given in INDIVISIBLE or wanted in INDIVISIBLE):
        return HotpotScore(0.0, 0.0, 0.0, 0.0)
    return HotpotScore(em, *_token_overlap(given.split(), wanted.split()))


def cited_facts(given: Sequence[Citation], gold: Sequence[Citation]) -> HotpotScore:
    """Score citations as supporting facts: each gold span is a fact, given if at least half of it is cited."""
    wanted, cited = list(dict.fromkeys(gold)), list(dict.fromkeys(given))
    n_given = 0
    for fact in wanted:
        covered = overlap([fact.span], [one.span for one in cited if one.file_name == fact.file_name])
        n_given += covered.shared / covered.gold >= MIN_OVERLAP
    n_false = sum(not any(_touches(citation, fact) for fact in wanted) for citation in cited)
    precision = n_given / (n_given + n_false) if n_given + n_false else 0.0
    recall = n_given / len(wanted) if wanted else 0.0
    em = float(n_false == 0 and n_given == len(wanted))
    return HotpotScore(em, _harmonic_mean(precision, recall), precision, recall)


def _touches(one: Citation, other: Citation) -> bool:
    start, end = max(one.span.start, other.span.start), min(one.span.end, other.span.end)
    return one.file_name == other.file_name and start < end


def joint_score(answer: HotpotScore, facts: HotpotScore) -> HotpotScore:
    """Combine answer and facts: precision, recall and exact match are multiplied, and F1 follows from the products."""
    precision, recall = answer.precision * facts.precision, answer.recall * facts.recall
    return HotpotScore(answer.em * facts.em, _harmonic_mean(precision, recall), precision, recall)


def _harmonic_mean(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def answer_scores(answer: str, accepted: Sequence[str], *, language: str | None = None) -> dict[str, float]:
    """Score the words of an answer; an impossible question, without accepted answers, has exact match and F1 alone."""
    squad = score_answer(answer, accepted)
    scores = {"exact_match": squad.exact_match, "f1": squad.f1}
    if not accepted:
        return scores
    if language is not None:
        by_language = score_answer_in(answer, accepted, language)
        scores |= {"exact_match_in": by_language.exact_match, "f1_in": by_language.f1}
    hotpot = _best_hotpot(answer, accepted)
    scores |= {"hotpot_em": hotpot.em, "hotpot_f1": hotpot.f1}
    rouge = rouge_l(answer, accepted)
    return scores if rouge is None else scores | {"rouge_l": rouge}


def joint_scores(
    answer: str, accepted: Sequence[str], cited: Sequence[Citation], gold: Sequence[Citation]
) -> dict[str, float]:
    """Score answer and supporting facts together; empty without accepted answers or gold spans."""
    if not accepted or not gold:
        return {}
    joint = joint_score(_best_hotpot(answer, accepted), cited_facts(cited, gold))
    return {"joint_em": joint.em, "joint_f1": joint.f1}


def citation_scores(
    gold: Sequence[Sequence[Citation]],
    predicted: Sequence[Sequence[Citation]],
    *,
    tolerance: int = TOLERANCE_CHARS,
    texts: Mapping[str, TokenOffsets] | None = None,
) -> list[dict[str, float]]:
    """Score spans, characters, words and supporting facts of many answers; arguments are those of `score_spans`."""
    rows = score_spans(gold, predicted, tolerance=tolerance, texts=texts).rows()
    facts = (cited_facts(cited, wanted) for cited, wanted in zip(predicted, gold, strict=True))
    return [
        row | {f"facts_{name}": value for name, value in score._asdict().items()}
        for row, score in zip(rows, facts, strict=True)
    ]


def _best_hotpot(answer: str, accepted: Sequence[str]) -> HotpotScore:
    return max((hotpot_answer(answer, gold) for gold in accepted), key=lambda score: (score.em, score.f1))
