"""Scores of claims, citations, gold facts and retrieved passages from labels, by a judge or by people.

A score that an answer cannot have is absent: an answer without claims has no faithfulness, one without citations no
citation correctness.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rag_eval_pipeline.metrics.spans import Citation, Overlap, Span, overlap

CLAIM_COUNTS = frozenset({"claims", "cited_claims", "resolved_claims", "citations"})  # counts, so they have no means
FACT_MEASURES = ("strict_vital_score", "vital_score", "strict_all_score", "all_score")
FACT_COUNTS = frozenset({"decided_facts", "undecided_facts"})  # they have no means
PARTIAL = 0.5  # of a fact that is stated in part, where that counts

RAGAS_EPSILON = 1e-10  # RAGAS adds it to the number of useful passages: a perfect ranking scores just below 1

HALLUCINATION = "hallucination_vs_citations"
# Weights in the overall score; hallucination counts as its absence.
WEIGHTS = {"tolerance_jaccard": 0.30, "citation_correctness": 0.30, "factual_consistency": 0.25, HALLUCINATION: 0.15}
MIN_OVERALL_COVERAGE = 0.6  # of the weights: an overall score of one part would be that part under another name


class JudgedClaim(NamedTuple):
    """A claim of an answer."""

    is_cited: bool  # it carries a citation
    by_citations: bool | None  # whether the cited texts support it; None if none of them can be resolved
    by_retrieved: bool | None  # whether the retrieved passages support it; None if nothing was retrieved
    length: int = 0  # code points of the claim without its citations


class JudgedCitation(NamedTuple):
    """A citation of an answer."""

    is_correct: bool  # its text supports the claim it belongs to; False if the place does not exist
    support: float | None  # the judge's score in [0, 1]; None if there was nothing to judge
    length: int = 0  # code points of its mark in the answer


def claim_scores(
    claims: Sequence[JudgedClaim], citations: Sequence[JudgedCitation], *, answer_length: int
) -> dict[str, float]:
    """Return the scores of one answer by measure; `answer_length` counts code points, citations included.

    Hallucination is measured against what was cited, as in the specification's code, and against what was retrieved, as
    in its text. A claim that cites nothing, or a place that does not exist, is not consistent;
    `consistency_of_resolved` leaves such claims out.

    Source: Citation Accuracy Evaluation 2.4, 2.5, 3.3.
    """
    n, n_citations = len(claims), len(citations)
    n_cited = sum(claim.is_cited for claim in claims)
    scores = {"claims": float(n), "cited_claims": float(n_cited), "citations": float(n_citations)}
    if n:
        scores["citation_completeness"] = n_cited / n
        scores["factual_consistency"] = sum(c.by_citations is True for c in claims) / n
        scores["hallucination_vs_citations"] = sum(c.by_citations is not True for c in claims) / n
    if n_citations:
        scores["citation_correctness"] = sum(c.is_correct for c in citations) / n_citations
        supports = [c.support for c in citations if c.support is not None]
        if supports:
            scores["citation_support"] = math.fsum(supports) / len(supports)
        scores["citation_support_all"] = math.fsum(supports) / n_citations
    resolved = [c.by_citations for c in claims if c.by_citations is not None]
    scores["resolved_claims"] = float(len(resolved))
    if resolved:
        scores["consistency_of_resolved"] = sum(resolved) / len(resolved)
    retrieved = [c.by_retrieved for c in claims if c.by_retrieved is not None]
    if retrieved:
        scores["faithfulness"] = sum(retrieved) / len(retrieved)
        scores["hallucination_vs_retrieved"] = 1 - scores["faithfulness"]
    if answer_length:
        scores["citation_density"] = sum(c.length for c in citations) / answer_length
    words = sum(c.length for c in claims)
    if words:
        scores["cited_text_share"] = sum(c.length for c in claims if c.is_cited) / words
    return scores


class CitedStatement(NamedTuple):
    """One statement of an answer, usually a sentence, with labels for its citations."""

    joint: bool  # all its citations together entail it; False without citations
    alone: Sequence[bool] = ()  # for each citation, whether it entails the statement by itself
    # For each citation, whether the others together entail the statement; needed only if there are several, `joint` is
    # True and the citation does not entail it alone.
    without: Sequence[bool | None] = ()
    in_range: bool = True  # every citation names something that was retrieved


def alce_scores(statements: Iterable[CitedStatement]) -> dict[str, float]:
    """Return ALCE's citation recall and precision of one answer; nothing for an answer without statements.

    Recall is the share of statements that their citations together entail; precision that of citations that are needed:
    one is not if it does not entail the statement by itself and the others still do. A statement that cites what does
    not exist is unsupported and its citations are not counted. The official scorer uses the first three citations of a
    statement; here the labels decide.

    Source: Gao et al. 2023, Enabling Large Language Models to Generate Text with Citations; princeton-nlp/ALCE eval.py.
    """
    supported = needed = n_citations = n_statements = 0
    for statement in statements:
        n_statements += 1
        if not statement.alone or not statement.in_range:
            continue
        n_citations += len(statement.alone)
        if statement.joint:
            supported += 1
            needed += _count_needed(statement)
    if not n_statements:
        return {}
    precision = needed / n_citations if n_citations else 0.0
    return {"citation_recall": supported / n_statements, "citation_precision": precision}


def _count_needed(statement: CitedStatement) -> int:
    if len(statement.alone) == 1:
        return 1
    return sum(alone or not without for alone, without in zip(statement.alone, statement.without, strict=True))


class JudgedFact(NamedTuple):
    """A gold fact, and how much of it the answer states: 1.0, `PARTIAL` or 0.0; None if the judge does not decide."""

    is_vital: bool
    support: float | None


def fact_scores(facts: Sequence[JudgedFact]) -> dict[str, float]:
    """Return the scores of one answer by the gold facts that it states, TREC's nuggets; nothing without facts.

    They are meant for means over many questions. By question they are weak: automatic labels of facts order systems
    over a track as people's labels do, and the answers to one question hardly so.

    The strict scores are the share of the facts that are stated whole, the others count one that is stated in part as a
    half. What the judge does not decide is in no score, and counted. A question without a decided vital fact has no
    vital score; the official scorer gives 0.0.

    Source: Pradeep et al. 2025, The Great Nugget Recall, arXiv 2504.15068 (AutoNuggetizer, TREC 2024 RAG Track);
    castorini/nuggetizer, core/metrics.py, calculate_nugget_scores.
    """
    if not facts:
        return {}
    decided = [(is_vital, support) for is_vital, support in facts if support is not None]
    scores = {"decided_facts": float(len(decided)), "undecided_facts": float(len(facts) - len(decided))}
    vital = [support for is_vital, support in decided if is_vital]
    for name, supports in (("vital", vital), ("all", [support for _, support in decided])):
        if supports:
            scores[f"strict_{name}_score"] = sum(support == 1.0 for support in supports) / len(supports)
            scores[f"{name}_score"] = sum(supports) / len(supports)
    return scores


def _context_precision(useful: Sequence[bool]) -> float | None:
    """Return the mean over the useful passages of the share of useful ones up to their rank; None without passages."""
    if not useful:
        return None
    total, seen = 0.0, 0
    for rank, is_useful in enumerate(useful, 1):
        seen += is_useful
        total += seen / rank * is_useful
    return total / (seen + RAGAS_EPSILON)


def context_scores(passages: Sequence[Citation], gold: Sequence[Citation]) -> dict[str, float]:
    """Compare what was retrieved, best rank first, with the gold spans; pages do not matter. Empty without gold spans.

    A passage is useful if it shares a character with a gold span. Of the characters, each counted once, recall is the
    share of the gold text that the system retrieved, precision the share of the retrieved text that is gold.

    Source: RAGAS, LLMContextPrecision; Chroma, Evaluating Chunking.
    """
    if not gold:
        return {}
    by_file: dict[str, list[Span]] = {}
    for file_name, _, span in gold:
        by_file.setdefault(file_name, []).append(span)
    useful = [
        any(max(span.start, wanted.start) < min(span.end, wanted.end) for wanted in by_file.get(file_name, ()))
        for file_name, _, span in passages
    ]
    parts = [
        overlap(by_file.get(name, ()), [span for file_name, _, span in passages if file_name == name])
        for name in sorted({citation.file_name for citation in (*gold, *passages)})
    ]
    shared = Overlap(*(sum(counts) for counts in zip(*parts, strict=True)))
    found = {
        "context_precision": _context_precision(useful),
        "context_char_recall": shared.recall,
        "context_char_precision": shared.precision,
        "context_char_iou": shared.jaccard,
    }
    return {name: value for name, value in found.items() if value is not None}


def overall_scores(scores: Mapping[str, float]) -> dict[str, float]:
    """Return the weighted mean of an answer's span accuracy, citation quality, consistency and lack of hallucination.

    The specification's code scores a missing part as 0, so that a question without gold spans cannot exceed 0.7 and an
    empty answer has 0.15 for its absent hallucinations. Here the weights are spread over the available parts; the
    coverage is the sum of their weights. Below `MIN_OVERALL_COVERAGE` there is only the coverage, and nothing without
    any part.

    Source: Citation Accuracy Evaluation 5.1, _calculate_overall_scores.
    """
    known = {name: scores[name] for name in WEIGHTS if name in scores}
    if HALLUCINATION in known:
        known[HALLUCINATION] = 1.0 - known[HALLUCINATION]
    if not known:
        return {}
    total, present = math.fsum(WEIGHTS.values()), math.fsum(WEIGHTS[name] for name in known)
    weighted = math.fsum(WEIGHTS[name] * score for name, score in known.items())
    coverage = {"overall_coverage": present / total}
    if present / total < MIN_OVERALL_COVERAGE:
        return coverage
    # Rounding must not lift a perfect answer above 1.
    return {"overall_citation_accuracy": min(1.0, weighted / present), **coverage}
