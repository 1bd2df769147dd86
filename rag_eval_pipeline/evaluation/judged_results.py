"""The judge's figures in a results file: pooled shares by the specification's names, and what judging took."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from rag_eval_pipeline.evaluation.scores_file import QueryScores
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.judges.judgement import Judgement

NO_JUDGE = "no_judge"


class JudgedShares:
    """Claims and citations counted over all judged answers of an evaluation.

    Args:
        rows: Its judge scores, one a question.
    """

    def __init__(self, rows: Sequence[QueryScores]) -> None:
        self._rows = [row for row in rows if row.outcome == "scored"]
        skipped = any(row.reason == NO_JUDGE for row in rows)
        self._nothing = NO_JUDGE if skipped or not rows else "nothing_judged"

    def completeness(self) -> form.ClaimShare:
        """Claims with a citation, of all claims."""
        claims, cited = self._count("claims"), self._count("cited_claims")
        return self._share(cited, claims, "no_claims", total_claims=claims, cited_claims=cited)

    def correctness(self) -> form.ClaimShare:
        """Citations whose text supports their claim, of all citations."""
        citations, correct = self._count("citations"), self._weighted("citation_correctness", "citations")
        return self._share(correct, citations, "no_citations", total_citations=citations, correct_citations=correct)

    def consistency(self) -> form.ClaimShare:
        """Claims that their cited texts support, of those whose citations can be resolved."""
        claims, good = self._count("resolved_claims"), self._weighted("factual_consistency", "resolved_claims")
        scores = [row.scores["citation_support"] for row in self._rows if "citation_support" in row.scores]
        mean = sum(scores) / len(scores) if scores else None
        return self._share(good, claims, "no_citations", total_claims=claims, mean_consistency=mean)

    def hallucination(self, *, against: str) -> form.ClaimShare:
        """Claims without support, of all claims.

        Args:
            against: `citations`: nothing cited supports the claim; null where the system cites nothing at all.
                `retrieved`: nothing retrieved does.
        """
        measure = f"hallucination_vs_{against}"
        claims = sum(int(row.scores["claims"]) for row in self._rows if measure in row.scores)
        bad = self._weighted(measure, "claims")
        if against == "citations" and claims and not self._count("citations"):
            return form.ClaimShare(total_claims=claims, reason="no_citations")
        return self._share(bad, claims, "no_claims", total_claims=claims, hallucinated_claims=bad)

    def _count(self, name: str) -> int:
        return sum(int(row.scores[name]) for row in self._rows)

    def _weighted(self, share: str, count: str) -> int:
        """How many of the counted a share stands for; shares of whole numbers give them back exactly."""
        return sum(round(row.scores[share] * row.scores[count]) for row in self._rows if share in row.scores)

    def _share(self, part: int, whole: int, reason: str, **facts: int | float | None) -> form.ClaimShare:
        if not self._rows:
            return form.ClaimShare(reason=self._nothing)
        if not whole:
            return form.ClaimShare(reason=reason)
        return form.ClaimShare.model_validate({"value": part / whole, **facts})


def judge_record(kind: str, fingerprint: str | None, judgements: Iterable[Judgement]) -> form.JudgeRecord | None:
    """Which judge it was and how it went; None without one."""
    if fingerprint is None:
        return None
    statuses: Counter[str] = Counter()
    flags: Counter[str] = Counter()
    models = set()
    for judgement in judgements:
        statuses[judgement.status] += 1
        flags.update(judgement.flags)
        if judgement.model is not None:
            models.add(judgement.model)
    return form.JudgeRecord(
        kind=kind,
        fingerprint=fingerprint,
        models=tuple(sorted(models)),
        completed=statuses["completed"],
        failed=statuses["failed"],
        flags=dict(sorted(flags.items())),
    )


def judge_usage(judgements: Iterable[Judgement]) -> dict[form.JudgeUsageName, float]:
    """Sums of what judging took, by the names of `JudgeUsage`; empty without a judge."""
    usages = [judgement.usage for judgement in judgements]
    if not usages:
        return {}
    return {
        "requests": sum(usage.requests for usage in usages),
        "cached": sum(usage.cached for usage in usages),
        "total_tokens": sum(usage.total_tokens for usage in usages),
        "estimated_cost_usd": math.fsum(usage.estimated_cost_usd for usage in usages),
        "duration_ms": math.fsum(usage.duration_ms for usage in usages),
    }
