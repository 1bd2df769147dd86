"""Questions that are asked twice: word for word, or in words that differ by a slip.

Two questions that differ in one word are equal without it, so questions are sorted by what is left of them without each
of their words, and none is compared with all others. The word has to be a misspelling, because one other name or number
makes another question.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from operator import ne
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import OSA

from rag_eval_pipeline.audit.audited_texts import AuditedQuestions, question_words, quoted
from rag_eval_pipeline.audit.findings import AuditFinding, Suspect
from rag_eval_pipeline.conversion.odd_questions import ASKED_TWICE, Statement, asked
from rag_eval_pipeline.metrics.answers import answer_tokens, token_f1

SEED = 1
CROWD = 6  # questions that are compared each with each; of more of them each only with the next by its word
WORDS_MIN = 4  # of a question in which one may be misspelled
SLIP_LENGTH = 5  # letters of a word that may be misspelled
ALIKE = 0.5  # token F1 of answers that mean the same

KINDS = ASKED_TWICE | {
    "near_duplicate_other_answer": Statement(
        severity="doubtful", field="question", text="{number} asked more than once in nearly the same words with "
        "different answers{rows}.", remedy="Keep the row that is right, or list all answers in `answers` of one row.",
    ),
    "duplicate_other_documents": Statement(
        severity="doubtful", field="question", text="{number} asked more than once with the same answer and different "
        "documents{rows}, so that a system which cites the one is wrong on the other row.",
        remedy="List the documents of both in one row.",
    ),
}  # fmt: skip


def duplicate_findings(questions: AuditedQuestions) -> Iterator[AuditFinding]:
    """Yield questions that are asked more than once, by what their rows differ in."""
    found: dict[str, dict[int, Suspect]] = defaultdict(dict)
    groups: Counter[str] = Counter()
    known: dict[str, str] = {}  # each word once, which takes a third of the memory
    words = [[known.setdefault(word, word) for word in question_words(text)] for text in questions.questions]
    for one, other in near_pairs(words):
        kind = _kind(questions, one, other, is_exact=words[one] == words[other])
        groups[kind] += not (one in found[kind] or other in found[kind])
        for number, twin in ((one, other), (other, one)):
            found[kind].setdefault(number, _suspect(questions, number, twin))
    for kind, statement in KINDS.items():
        if found[kind]:
            values = {"rows": "", "number": asked(groups[kind])}
            text, remedy = statement.text.format(**values), statement.remedy.format(**values)
            suspects = tuple(found[kind][number] for number in sorted(found[kind]))
            yield AuditFinding(kind, statement.severity, text, remedy, suspects)


def _suspect(questions: AuditedQuestions, number: int, twin: int) -> Suspect:
    def answer(at: int) -> str:
        return quoted(questions.answers[at][0]) if questions.answers[at] else "unanswerable"

    evidence = f"{quoted(questions.questions[number])}: {answer(number)}; {questions.place(twin)}: {answer(twin)}"
    return questions.suspect(number, evidence, questions.answers[twin])


def _kind(questions: AuditedQuestions, one: int, other: int, *, is_exact: bool) -> str:
    mine, theirs = questions.answers[one], questions.answers[other]
    is_same = bool(mine) == bool(theirs) and (not mine or _agree(mine, theirs))
    if not is_same:
        return "duplicate_other_answer" if is_exact else "near_duplicate_other_answer"
    documents = set(questions.documents[one]), set(questions.documents[other])
    return "duplicate_other_documents" if all(documents) and documents[0].isdisjoint(documents[1]) else "duplicate"


def _agree(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    left, right = (list(map(answer_tokens, answers)) for answers in (mine, theirs))
    return mine == theirs or any(token_f1(a, b) > ALIKE or set(a) <= set(b) for a in left for b in right if a)


def near_pairs(words: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Return the pairs of questions, given by their words, that ask the same, in order."""
    found = set()
    for group in _equal_but_for_one_word(words):
        near: Iterable[tuple[_Member, _Member]] = combinations(group, 2)
        if len(group) > CROWD:
            near = pairwise(sorted(group, key=lambda one: words[one.number][one.place]))
        found |= {
            (min(a.number, b.number), max(a.number, b.number))
            for a, b in near
            if _is_slip(words[a.number][a.place], words[b.number][b.place], len(words[a.number]))
        }
    # Hashes of other questions may be equal.
    return sorted(pair for pair in found if sum(map(ne, words[pair[0]], words[pair[1]])) < 2)


def _is_slip(one: str, other: str, length: int) -> bool:
    """Whether two words are equal, or one is a misspelling of the other in a question of so many words."""
    if one == other:
        return True
    is_long = min(len(one), len(other)) >= SLIP_LENGTH and length >= WORDS_MIN
    return is_long and one.isalpha() and other.isalpha() and OSA.distance(one, other, score_cutoff=1) == 1


class _Member(NamedTuple):
    """A question without the word at a place."""

    number: int
    place: int


def _equal_but_for_one_word(words: Sequence[Sequence[str]]) -> Iterator[list[_Member]]:
    """Yield groups of questions that are equal without one word, which is at the same place in each."""
    lengths = np.array([len(own) for own in words], np.int64)
    codes: dict[str, int] = {}
    flat = np.fromiter((codes.setdefault(word, len(codes)) for own in words for word in own), np.int64)
    if not len(flat):
        return
    numbers = np.repeat(np.arange(len(words)), lengths)
    places = np.arange(len(flat)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rng = np.random.default_rng(SEED)
    of_word, of_place, of_gap = (rng.integers(2**63, size=n) for n in (len(codes), lengths.max(), lengths.max()))
    keys = of_word[flat] * (of_place | 1)[places]  # sums and products wrap around
    totals = np.zeros(len(words), np.int64)
    np.add.at(totals, numbers, keys)
    np.subtract(totals[numbers], keys, out=keys)
    keys += of_gap[places] * lengths[numbers]
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    is_repeated = keys[1:] == keys[:-1]
    bounds = np.flatnonzero(np.diff(is_repeated.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    for start, end in bounds.tolist():
        yield [_Member(int(numbers[at]), int(places[at])) for at in order[start : end + 1]]
