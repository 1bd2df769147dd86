"""The judge's figures in a results file: pooled shares by the specification's names, and what judging took."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rag_eval_pipeline.evaluation.scores_file import QueryScores
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.judges.judgement import Judgement
from rag_eval_pipeline.metrics.statistics import summarise

NO_JUDGE = "no_judge"


class JudgedShares:
    """Claims and citations counted over all judged answers of an evaluation, with intervals.

    An answer's claims are drawn together, as are the answers to questions that share documents.

    Args:
        rows: Its judge scores, one a question.
        clusters: Question -> its documents.
    """

    def __init__(self, rows: Sequence[QueryScores], clusters: Mapping[str, str]) -> None:
        self._rows = [row for row in rows if row.outcome == "scored"]
        self._clusters = clusters
        skipped = any(row.reason == NO_JUDGE for row in rows)
        self._nothing = NO_JUDGE if skipped or not rows else "nothing_judged"

    def completeness(self) -> form.ClaimShare:
        """Claims with a citation, of all claims."""
        claims, cited = self._counts("claims"), self._counts("cited_claims")
        return self._share(cited, claims, "no_claims", total_claims=sum(claims), cited_claims=sum(cited))

    def correctness(self) -> form.ClaimShare:
        """Citations whose text supports their claim, of all citations."""
        citations, correct = self._counts("citations"), self._weighted("citation_correctness", "citations")
        return self._share(
            correct, citations, "no_citations", total_citations=sum(citations), correct_citations=sum(correct)
        )

    def consistency(self) -> form.ClaimShare:
        """Claims that their cited texts support, of those whose citations can be resolved."""
        claims, good = self._counts("resolved_claims"), self._weighted("factual_consistency", "resolved_claims")
        scores = tuple(row.scores["citation_support"] for row in self._rows if "citation_support" in row.scores)
        mean = sum(scores) / len(scores) if scores else None
        return self._share(
            good, claims, "no_citations", total_claims=sum(claims), mean_consistency=mean, consistency_scores=scores
        )

    def hallucination(self, *, against: str) -> form.ClaimShare:
        """Claims without support, of all claims.

        Args:
            against: `citations`: nothing cited supports the claim; null where the system cites nothing at all.
                `retrieved`: nothing retrieved does.
        """
        measure = f"hallucination_vs_{against}"
        claims: list[int] = [int(row.scores["claims"]) if measure in row.scores else 0 for row in self._rows]
        bad = self._weighted(measure, "claims")
        if against == "citations" and any(claims) and not any(self._counts("citations")):
            return form.ClaimShare(total_claims=sum(claims), reason="no_citations")
        return self._share(bad, claims, "no_claims", total_claims=sum(claims), hallucinated_claims=sum(bad))

    def _counts(self, name: str) -> list[int]:
        return [int(row.scores[name]) for row in self._rows]

    def _weighted(self, share: str, count: str) -> list[int]:
        """How many of the counted a share stands for; shares of whole numbers give them back exactly."""
        return [round(row.scores[share] * row.scores[count]) if share in row.scores else 0 for row in self._rows]

    def _share(self, parts: Sequence[int], wholes: Sequence[int], reason: str, **facts: Any) -> form.ClaimShare:
        if not self._rows:
            return form.ClaimShare(reason=self._nothing)
        if not sum(wholes):
            return form.ClaimShare(reason=reason)
        names = [self._clusters[row.query_id] for row in self._rows]
        found = summarise(
            [value for n, whole in zip(parts, wholes, strict=True) for value in [1.0] * n + [0.0] * (whole - n)],
            clusters=[name for name, whole in zip(names, wholes, strict=True) for _ in range(whole)],
        )
        return form.ClaimShare(
            value=sum(parts) / sum(wholes),
            confidence_interval=found.confidence_interval,
            method=found.method,
            n_clusters=found.n_clusters,
            **facts,
        )


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
