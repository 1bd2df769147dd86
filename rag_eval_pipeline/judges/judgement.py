"""What a judge is given and what it returns, whichever judge it is.

The judgement of a judge that fails has the status `failed`, a code, and no score.
"""

from typing import Literal, Protocol

import msgspec

from rag_eval_pipeline.formats.dataset import Fact

Verdict = Literal["correct", "incorrect", "refused", "unsure"]
Outcome = Literal["supported", "not_found", "conflicting"]
FactOutcome = Literal["support", "partial_support", "not_support"]  # the labels of AutoNuggetizer
LANGUAGE_NOT_SUPPORTED = "language_not_supported"
NEEDS_SUPPORT_JUDGE = "needs_support_judge"
RATING_FAILED = "rating_failed"  # with a colon and the rating's name, a flag
FACTS = "facts"  # what the flag names if the gold facts could not be judged


class CitedText(msgspec.Struct, frozen=True):
    """A citation of an answer and the text it points at.

    Args:
        text: The cited text, widened to whole sentences; None if the place does not exist.
        marker_end: One past the mark's end; equal to its start for a citation without a mark.
    """

    document: str
    text: str | None
    marker_start: int
    marker_end: int

    @property
    def has_no_mark(self) -> bool:
        """Whether it was given beside the answer, and so belongs to every claim without a citation of its own."""
        return self.marker_start == self.marker_end


class Case(msgspec.Struct, frozen=True):
    """One answer to be judged.

    Args:
        accepted: Gold answers, any of which is right; empty for an impossible question.
        contexts: Retrieved texts, best first.
    """

    query_id: str
    question: str
    accepted: tuple[str, ...]
    is_impossible: bool
    answer: str
    citations: tuple[CitedText, ...] = ()
    contexts: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()

    @property
    def has_gold(self) -> bool:
        """Whether it is known what a right answer is."""
        return bool(self.accepted) or self.is_impossible


class Correctness(msgspec.Struct, frozen=True):
    """An answer against the gold answers; `score` is in [0, 1], `reason` names the rule or the model's rationale."""

    verdict: Verdict
    score: float
    reason: str


def is_refusal(case: Case, found: Correctness) -> bool:
    """Whether an answer was judged a refusal, which of an impossible question is what is `correct`."""
    return found.verdict == "refused" or (case.is_impossible and found.verdict == "correct")


class Support(msgspec.Struct, frozen=True):
    """A claim against a text; `score` is in [0, 1]."""

    outcome: Outcome
    score: float
    reason: str = ""


class FactVerdict(msgspec.Struct, frozen=True):
    """Whether an answer states a gold fact.

    Args:
        outcome: None if the judge does not decide such a fact.
        places: Half-open code points of the answer's sentences that state it, as far as the judge names them.
    """

    outcome: FactOutcome | None
    reason: str = ""
    places: tuple[tuple[int, int], ...] = ()


class CitationLabels(msgspec.Struct, frozen=True):
    """Which citations a claim needs. Source: ALCE, eval.py.

    Args:
        alone: For each citation, whether its text supports the claim by itself.
        without: For each citation, whether the others together support the claim; None if there was no need to ask.
    """

    alone: tuple[bool, ...]
    without: tuple[bool | None, ...]


class Claim(msgspec.Struct, frozen=True):
    """One claim of an answer.

    Args:
        by_citations: None if no cited text exists, or without a support judge.
        by_contexts: None if nothing was retrieved, or without a support judge.
        labels: None if the judge was not asked, or if some citations have no mark.
    """

    start: int
    end: int
    citations: tuple[int, ...]
    by_citations: Support | None = None
    by_contexts: Support | None = None
    labels: CitationLabels | None = None

    @property
    def is_supported(self) -> bool:
        """Whether the texts that it cites support it."""
        return self.by_citations is not None and self.by_citations.outcome == "supported"


class JudgeUsage(msgspec.Struct, frozen=True):
    """What judging one answer took; `cached` counts replies that came from the cache and cost nothing."""

    requests: int = 0
    cached: int = 0
    total_tokens: int = 0
    estimated_cost_usd: float = 0.0
    duration_ms: float = 0.0


class Judgement(msgspec.Struct, frozen=True):
    """A judge's verdicts on one answer.

    Args:
        correctness: None without gold answers, or if the judge cannot decide.
        citation_support: For each citation, its support for the claim it belongs to (the best of several); None if its
            place does not exist, if it belongs to no claim, or without a support judge.
        facts: A verdict for each gold fact of the case; empty if they could not be judged.
        ratings: Score in [0, 1] by protocol (`answer_accuracy`), and by dimension (`quality/clarity`).
        flags: `injection_suspect`, `judges_disagree`, `fallback_score`, `models_mixed`, `rating_failed:<name>`,
            `labels_failed`, `language_not_supported`.
        system_fingerprint: As the server names it; None of cached replies.
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
    system_fingerprint: str | None = None
    facts: tuple[FactVerdict, ...] = ()


class Judge(Protocol):
    """Anything that judges answers.

    Args:
        fingerprint: Changes whenever the same case may be judged differently.
        judges_support: Whether it compares claims with texts; without that, support has no value.
        may_differ: Whether its second verdict on a case may be another one.
    """

    fingerprint: str
    judges_support: bool
    may_differ: bool

    async def judge(self, case: Case, repeat: int = 0) -> Judgement:
        """Judge one answer, each `repeat` anew; a failure is a status, not an exception."""
        ...
