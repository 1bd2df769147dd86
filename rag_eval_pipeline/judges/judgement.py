"""What a judge is given and what it says, whichever judge it is.

A judge that fails says so: its judgement has the status `failed`, a reason, and no number.
"""

from typing import Literal, NamedTuple, Protocol

import msgspec

Verdict = Literal["correct", "incorrect", "refused", "unsure"]
Outcome = Literal["supported", "not_found", "conflicting"]
LANGUAGE_NOT_SUPPORTED = "language_not_supported"


class CitedText(msgspec.Struct, frozen=True):
    """A citation of an answer and the text that it points at.

    Args:
        document: Basename in the corpus.
        text: The cited text, widened to whole sentences; None where the place does not exist.
        marker_start: Where the citation's own mark begins in the answer.
        marker_end: One past its end; equal to the start for a citation beside the text, which is the whole answer's.
    """

    document: str
    text: str | None
    marker_start: int
    marker_end: int

    @property
    def is_beside(self) -> bool:
        """It has no mark in the answer, so it stands with every claim that has none of its own."""
        return self.marker_start == self.marker_end


class Case(msgspec.Struct, frozen=True):
    """One answer to be judged.

    Args:
        query_id: Whose answer it is.
        question: As it was asked.
        accepted: Gold answers, any of which is right; empty for an impossible question.
        is_impossible: The documents do not answer the question: a refusal is right.
        answer: As given, citations included; offsets count its code points.
        citations: In the answer's order.
        contexts: Retrieved texts, best first.
    """

    query_id: str
    question: str
    accepted: tuple[str, ...]
    is_impossible: bool
    answer: str
    citations: tuple[CitedText, ...] = ()
    contexts: tuple[str, ...] = ()


class Correctness(msgspec.Struct, frozen=True):
    """An answer against the gold answers; `score` is in [0, 1], `reason` names the rule or the model's rationale."""

    verdict: Verdict
    score: float
    reason: str


class Support(msgspec.Struct, frozen=True):
    """A claim against a text: supported, not found there, or in conflict over a detail; `score` is in [0, 1]."""

    outcome: Outcome
    score: float
    reason: str = ""


def better_support(one: Support | None, other: Support | None) -> Support | None:
    """The better of two, the first of equal ones: supported before conflicting before not found, then by score."""
    if one is None or other is None:
        return one or other
    rank = {"supported": 2, "conflicting": 1, "not_found": 0}
    return max(one, other, key=lambda support: (rank[support.outcome], support.score))


class CitationLabels(msgspec.Struct, frozen=True):
    """Which citations of a claim are needed: the labels of ALCE, one for each of the claim's citations.

    Args:
        alone: Whether its text supports the claim by itself.
        without: Whether the texts of the others support it together; None where that is not asked, because the
            citation is enough by itself or because all of them together are not.
    """

    alone: tuple[bool, ...]
    without: tuple[bool | None, ...]


class Claim(msgspec.Struct, frozen=True):
    """One claim of an answer.

    Args:
        start: First code point in the answer.
        end: One past the last.
        citations: Indexes into the case's citations that stand with this claim.
        by_citations: Support by the texts cited with it; None without any that can be resolved.
        by_contexts: Support by what was retrieved; None when nothing was.
        labels: Which of its citations it needs; None where the judge was not asked, or where marks do not say which
            citations are its own.
    """

    start: int
    end: int
    citations: tuple[int, ...]
    by_citations: Support | None
    by_contexts: Support | None
    labels: CitationLabels | None = None


class Entailment(msgspec.Struct, frozen=True):
    """What entails what: the labels of RAGChecker.

    Args:
        gold: The gold answer of the comparison: of several accepted ones the one that the answer says most of.
        gold_claims: Its claims.
        correct: For each claim of the answer whether the gold answer entails it.
        covered: For each claim of the gold answer whether the answer entails it.
        grounded: For each claim of the answer and each of the case's contexts whether that one entails it.
        retrieved: The same for each claim of the gold answer.
    """

    gold: str
    gold_claims: tuple[str, ...]
    correct: tuple[bool, ...]
    covered: tuple[bool, ...]
    grounded: tuple[tuple[bool, ...], ...]
    retrieved: tuple[tuple[bool, ...], ...]


class JudgeUsage(msgspec.Struct, frozen=True):
    """What judging one answer took; `cached` counts replies that came from the cache and cost nothing."""

    requests: int = 0
    cached: int = 0
    total_tokens: int = 0
    estimated_cost_usd: float = 0.0
    duration_ms: float = 0.0


class Judgement(msgspec.Struct, frozen=True):
    """What a judge says of one answer.

    Args:
        query_id: Whose answer it is.
        status: `completed`, or `failed` without any number.
        correctness: Against the gold answers; None where there is no gold answer, or by a protocol that gives none.
        claims: Of the answer, in order; empty for a refusal.
        citation_support: One for each of the case's citations: how far its text supports the claim it stands with, of
            several claims the one it supports best; None for a citation that cannot be resolved or stands with none.
        ratings: By the name of the protocol (`answer_accuracy`, `answer_relevance`, `groundedness`), in [0, 1].
        error: One line, when failed.
        error_code: One cause, one code (`judge_unparsable`).
        flags: `injection_suspect`, `judges_disagree`, `fallback_score`, `models_mixed`, `rating_failed:<name>`,
            `labels_failed`, `language_not_supported` where the judge cannot tell if the answer is correct.
        usage: What it took.
        model: What the judge's server says that it used.
        entailment: Labels for RAGChecker's figures; None where the judge was not asked, and without a gold answer that
            claims anything.
    """

    query_id: str
    status: Literal["completed", "failed"]
    correctness: Correctness | None = None
    claims: tuple[Claim, ...] = ()
    citation_support: tuple[Support | None, ...] = ()
    ratings: dict[str, float] = {}
    error: str | None = None
    error_code: str | None = None
    flags: tuple[str, ...] = ()
    usage: JudgeUsage = JudgeUsage()
    model: str | None = None
    entailment: Entailment | None = None


class Directions(NamedTuple):
    """A rating's scores by each of its prompts; None where the rating does not apply or could not be read."""

    scores: tuple[float, ...] | None
    usage: JudgeUsage


class Judge(Protocol):
    """Anything that judges."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the same case may be judged otherwise."""
        ...

    async def judge(self, case: Case) -> Judgement:
        """The judgement of one answer; a failure is a status, not an exception."""
        ...
