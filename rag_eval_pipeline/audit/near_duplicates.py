"""Questions that are asked twice: word for word, or in words that differ by a slip.

Candidates share a band of MinHash signatures, so that no question is compared with all others; a pair has to differ in
nothing but articles or the spelling of one long word, because one other name or number makes another question.
Source: Broder, On the resemblance and containment of documents, 1997.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, pairwise

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import OSA

from rag_eval_pipeline.audit.audited_texts import AuditedQuestions, quoted
from rag_eval_pipeline.audit.findings import AuditFinding, Suspect
from rag_eval_pipeline.conversion.question_checks import ASKED_TWICE, Statement, asked
from rag_eval_pipeline.metrics.answers import answer_tokens, token_f1

BANDS, ROWS = 12, 2  # of a signature; pairs that share 8 of 10 words meet in a band with certainty
SEED = 1
CROWD = 6  # questions in a band that are compared each with each; more of them only with their neighbours
WORDS_MIN = 4  # of a question in which one may be misspelled
SLIP_LENGTH = 5  # letters of a word that may be misspelled
ALIKE = 0.5  # token F1 of answers that mean the same

KINDS = ASKED_TWICE | {
    "near_duplicate_other_answer": Statement(
        severity="doubtful", field="question", text="{number} asked more than once in nearly the same words with other "
        "answers{rows}.", remedy="Keep the row that is right, or list all answers in `answers` of one row.",
    ),
    "duplicate_other_documents": Statement(
        severity="doubtful", field="question", text="{number} asked more than once with the same answer and other "
        "documents{rows}, so that a system which cites the one is wrong on the other row.",
        remedy="List the documents of both in one row.",
    ),
}  # fmt: skip


def duplicate_findings(questions: AuditedQuestions) -> Iterator[AuditFinding]:
    """Yield questions that are asked more than once, by what their rows differ in."""
    found: dict[str, dict[int, Suspect]] = defaultdict(dict)
    groups: Counter[str] = Counter()
    for one, other in _pairs(questions.words):
        kind = _kind(questions, one, other)
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


def _kind(questions: AuditedQuestions, one: int, other: int) -> str:
    mine, theirs = questions.answers[one], questions.answers[other]
    is_same = bool(mine) == bool(theirs) and (not mine or _agree(mine, theirs))
    if not is_same:
        is_exact = questions.words[one] == questions.words[other]
        return "duplicate_other_answer" if is_exact else "near_duplicate_other_answer"
    documents = set(questions.documents[one]), set(questions.documents[other])
    return "duplicate_other_documents" if all(documents) and documents[0].isdisjoint(documents[1]) else "duplicate"


def _agree(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    left, right = (list(map(answer_tokens, answers)) for answers in (mine, theirs))
    return mine == theirs or any(token_f1(a, b) > ALIKE or set(a) <= set(b) for a in left for b in right if a)


def _pairs(words: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Return the pairs of questions that ask the same, in order."""
    found = set()
    for group in _candidates(words):
        members = group if len(group) <= CROWD else sorted(group, key=lambda number: list(words[number]))
        near = combinations(members, 2) if len(group) <= CROWD else pairwise(members)
        found |= {(min(pair), max(pair)) for pair in near}
    return sorted(pair for pair in found if _is_same(words[pair[0]], words[pair[1]]))


def _is_same(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether the words are equal, but for a misspelling of one long word."""
    if one == other:
        return True
    if len(one) != len(other) or len(one) < WORDS_MIN:
        return False
    [(a, b), *more] = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    return not more and min(len(a), len(b)) >= SLIP_LENGTH and a.isalpha() and b.isalpha() and OSA.distance(a, b) == 1


def _candidates(words: Sequence[Sequence[str]]) -> Iterable[list[int]]:
    """Yield groups of questions with an equal band of signatures."""
    asking = [number for number, own in enumerate(words) if own]
    if len(asking) < 2:
        return ()
    codes: dict[str, int] = {}
    flat = np.array([codes.setdefault(word, len(codes)) for n in asking for word in words[n]], np.int64)
    starts = np.cumsum([0, *(len(words[n]) for n in asking)])[:-1]
    rng = np.random.default_rng(SEED)
    hashes = rng.integers(0, 2**63, (BANDS * ROWS, len(codes)), np.int64)
    signature: list[npt.NDArray[np.int64]] = [np.minimum.reduceat(row[flat], starts) for row in hashes]
    return chain.from_iterable(
        _equal(signature[at] ^ (signature[at + 1] * 31), asking) for at in range(0, BANDS * ROWS, ROWS)
    )


def _equal(keys: npt.NDArray[np.int64], numbers: Sequence[int]) -> Iterator[list[int]]:
    order = np.argsort(keys, kind="stable")
    bounds = np.flatnonzero(np.diff(keys[order])) + 1
    for group in np.split(order, bounds):
        if len(group) > 1:
            yield [numbers[at] for at in group.tolist()]
