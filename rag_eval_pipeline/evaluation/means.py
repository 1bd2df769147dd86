"""Means over the questions of a scored evaluation, with intervals, and the judge's shares of claims and citations."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from rag_eval_pipeline.evaluation.corpus_names import NOTHING_KNOWN
from rag_eval_pipeline.evaluation.evaluation_settings import EvaluationSettings
from rag_eval_pipeline.evaluation.judging import CORRECTNESS_MEASURES, NO_JUDGE, PREFIX, SUPPORT_MEASURES
from rag_eval_pipeline.evaluation.score_tables import PAGE, Flags, QueryScores, ScoreTable
from rag_eval_pipeline.evaluation.scoring import CITATION_MEASURES, CONTEXT_MEASURES, custom_metrics_of
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.dataset import EvaluationQuery, cluster_name
from rag_eval_pipeline.judges.judgement import NEEDS_SUPPORT_JUDGE
from rag_eval_pipeline.metrics.claims import CLAIM_COUNTS, FACT_COUNTS, WEIGHTS, overall_scores
from rag_eval_pipeline.metrics.intervals import Scores, Summary, Units, Values, mean, summarise, summarise_all
from rag_eval_pipeline.metrics.span_matching import SPAN_COUNTS
from rag_eval_pipeline.systems.base import RagAnswer

PAGE_SHARE = 0.9  # of the questions; a headline must not depend on the few whose gold text was located
FEW_DOCUMENTS = 20  # below, ten retrieved documents are half of the corpus, and finding a document means little
NO_PAGES = "no_pages"
FURTHER = (
    "contexts",
    "citations",
    "official_answers",
    "custom_answers",
)  # groups whose means are in no other part of the results
NO_GOLD_ANSWERS = "no_gold_answers"
TOO_FEW_PARTS = "too_few_parts"
OVERALL = ("overall_citation_accuracy", "overall_coverage")


class JudgedShares:
    """Claims and citations counted over all judged answers; intervals resample questions that share documents."""

    def __init__(self, rows: ScoreTable, clusters: Units, *, judges_support: bool) -> None:
        judged = rows.has("scored") & rows.values("claims")[1]
        self._rows = rows.where(judged)
        self._clusters = clusters[judged]
        self._judges_support = judges_support
        self._nothing = NO_JUDGE if rows.reasons()[NO_JUDGE] or not len(rows) else "nothing_judged"

    def completeness(self) -> form.ClaimShare:
        """Return the share of claims with a citation."""
        claims, cited = self._counts("claims"), self._counts("cited_claims")
        is_known = bool(self._rows.values("cited_claims")[1].all())
        total = {"total_claims": sum(claims)}
        return self._share(cited, claims, "no_claims", total, is_known=is_known, cited_claims=sum(cited))

    def correctness(self) -> form.ClaimShare:
        """Return the share of citations whose text supports their claim."""
        citations = self._counts("citations")
        correct = self._weighted("citation_correctness", "citations")
        total = {"total_citations": sum(citations)}
        return self._share(correct, citations, "no_citations", total, correct_citations=sum(correct))

    def consistency(self) -> form.ClaimShare:
        """Return the share of claims that their cited texts support."""
        claims, good = self._counts("claims"), self._weighted("factual_consistency", "claims")
        scores = tuple(self._rows.values("citation_support")[0].tolist())
        total, average = {"total_claims": sum(claims)}, mean(scores) if scores else None
        if self._cites_nothing(claims):
            return form.ClaimShare(**total, reason="no_citations")
        return self._share(good, claims, "no_claims", total, mean_consistency=average, consistency_scores=scores)

    def hallucination(self, *, against: Literal["citations", "retrieved"]) -> form.ClaimShare:
        """Return the share of claims that nothing cited, or nothing retrieved, supports."""
        measure = f"hallucination_vs_{against}"
        claims = self._counts("claims")
        if self._judges_support:
            claims = [n if has else 0 for n, has in zip(claims, self._rows.values(measure)[1], strict=True)]
        bad = self._weighted(measure, "claims")
        total = {"total_claims": sum(claims)}
        if against == "citations" and self._cites_nothing(claims):
            return form.ClaimShare(**total, reason="no_citations")
        return self._share(bad, claims, "no_claims", total, hallucinated_claims=sum(bad))

    def _cites_nothing(self, claims: Sequence[int]) -> bool:
        """Whether no answer of the run has a citation: nothing is then known about what its citations support."""
        return self._judges_support and any(claims) and not any(self._counts("citations"))

    def _column(self, name: str) -> Values:
        """Return the scores of all rows; 0.0 where a row has none."""
        values, has = self._rows.values(name)
        column = np.zeros(len(self._rows))
        column[has] = values
        return column

    def _counts(self, name: str) -> list[int]:
        return [int(count) for count in self._column(name)]

    def _weighted(self, share: str, count: str) -> list[int]:
        """Convert shares back to counts, which is exact for shares of whole numbers."""
        return [round(float(part)) for part in self._column(share) * self._column(count)]

    def _share(
        self,
        parts: Sequence[int],
        wholes: Sequence[int],
        reason: str,
        total: Mapping[str, int],
        *,
        is_known: bool | None = None,
        **facts: Any,
    ) -> form.ClaimShare:
        if not len(self._rows):
            return form.ClaimShare(reason=self._nothing)
        if not (self._judges_support if is_known is None else is_known):
            return form.ClaimShare(**total, reason=NEEDS_SUPPORT_JUDGE)
        if not sum(wholes):
            return form.ClaimShare(reason=reason)
        good = [value for n, whole in zip(parts, wholes, strict=True) for value in (n, whole - n)]
        found = summarise(np.repeat(np.tile((1.0, 0.0), len(parts)), good), clusters=np.repeat(self._clusters, wholes))
        return form.ClaimShare(
            pooled_over="claims" if "total_claims" in total else "citations",
            value=sum(parts) / sum(wholes),
            confidence_interval=found.confidence_interval,
            method=found.method,
            n_clusters=found.n_clusters,
            **total,
            **facts,
        )


class QuestionFacts(NamedTuple):
    """What the means need to know of each question, in the dataset's order.

    Args:
        clusters: Numbers; questions about exactly the same documents have one, a question without any its own.
    """

    clusters: Units
    has_citations: Flags
    is_impossible: Flags
    has_gold: Flags

    @classmethod
    def empty(cls, questions: int) -> Self:
        """Return arrays to be filled by `note_question`."""
        return cls(np.empty(questions, np.int64), *np.zeros((3, questions), np.bool_))

    def note_question(self, at: int, query: EvaluationQuery, numbers: dict[str, int]) -> None:
        """Set the facts of the question at a place; `numbers` are those of the clusters so far."""
        name = cluster_name(query)
        self.clusters[at] = numbers.setdefault(name, len(numbers)) if name else len(self.clusters) + at
        self.has_citations[at], self.is_impossible[at] = bool(query.citations), query.is_impossible
        self.has_gold[at] = query.has_gold


@dataclass(frozen=True)
class ScoredRun:
    """The scores of an evaluation and the facts of its questions, one of each per question, in the dataset's order."""

    questions: QuestionFacts
    retrieval: ScoreTable
    citations: ScoreTable
    answer_scores: ScoreTable
    judged: ScoreTable
    overall: ScoreTable
    judges_support: bool = True

    @cached_property
    def shares(self) -> JudgedShares:
        """The judge's shares over all answers."""
        return JudgedShares(self.judged, self.questions.clusters, judges_support=self.judges_support)


def overall_row(answer: RagAnswer, rows: Sequence[QueryScores]) -> QueryScores:
    """Return the overall citation score of an answer, made of its scores; failed where one of them failed."""
    if failed := [row.reason for row in rows if row.outcome == "failed"]:
        return QueryScores(answer.query_id, "failed", failed[0])
    if answer.status != "ok":
        return QueryScores(answer.query_id, "failed", answer.status)
    scores = overall_scores({name: score for row in rows for name, score in row.scores.items() if name in WEIGHTS})
    return QueryScores(answer.query_id, "scored" if scores else "skipped", None if scores else "no_parts", scores)


class MeanGroup(NamedTuple):
    """The rows over which some measures are averaged.

    Args:
        measures: Name in the results -> name in the rows.
        clusters: One for each row.
        left_out: Questions that have no row here; they are skipped.
        custom: Custom metrics, which may apply to a question without an answer.
        reasons: Name in the rows -> why it has no value, if no question has one.
    """

    rows: ScoreTable
    measures: Mapping[str, str]
    clusters: Units
    level: form.Level | None = None
    left_out: int = 0
    custom: frozenset[str] = frozenset()
    reasons: Mapping[str, str] = {}


class Means:
    """The mean of each measure of each group; questions are resampled once for all measures."""

    def __init__(self, groups: Mapping[str, MeanGroup], *, seed: int) -> None:
        self._chosen: dict[bytes, Units] = {}  # most measures have a score for the same questions
        scores = {
            f"{group}\n{name}": self._scores(scored, measure)
            for group, scored in groups.items()
            for name, measure in scored.measures.items()
        }
        self._summaries = summarise_all(scores, seed=seed)
        self._chosen.clear()
        self._levels = {name: group.level for name, group in groups.items()}
        self._measures = {name: list(group.measures) for name, group in groups.items()}
        self.custom = {name: group.custom for name, group in groups.items()}  # names of custom metrics by group

    def _scores(self, group: MeanGroup, measure: str) -> Scores:
        values, has = group.rows.values(measure)
        fails = group.rows.faulty(measure)
        if measure not in group.custom:  # fails with the answer
            fails |= group.rows.has("failed")
        failed = int((fails & ~has).sum())
        clusters = group.clusters[has]
        return Scores(
            values,
            failed=failed,
            skipped=group.left_out + len(has) - len(values) - failed,
            clusters=self._chosen.setdefault(clusters.tobytes(), clusters),
            reason=group.reasons.get(measure) or _common_reason(group.rows),
        )

    def one(self, group: str, name: str) -> form.Metric:
        """Return the mean of a measure."""
        return metric_of(self._summaries[f"{group}\n{name}"], self._levels[group])

    def all_of(self, group: str) -> dict[str, form.Metric]:
        """Return every mean of a group, in the order of its measures."""
        return {name: self.one(group, name) for name in self._measures[group]}


def named(measures: Iterable[str]) -> dict[str, str]:
    """Return measures that have the same name in results and rows."""
    return {name: name for name in measures}


def metric_of(summary: Summary, level: form.Level | None = None) -> form.Metric:
    """Convert a summary to the form of the results."""
    return form.Metric(**asdict(summary), level=level)


def _common_reason(rows: ScoreTable) -> str | None:
    """Return why no question of a run was scored: its retrieval is unknown, or no question names a document."""
    if rows.has("scored").any():
        return None
    named = (*NOTHING_KNOWN, "no_relevant_documents")
    found = Counter({reason: count for reason, count in rows.reasons().items() if reason in named})
    return found.most_common(1)[0][0] if found else None


def means_of(parts: ScoredRun, settings: EvaluationSettings) -> Means:
    """Compute every mean of a results file."""
    measures = settings.measure_names

    def custom(kind: str) -> list[str]:
        return [metric.metric.name for metric in custom_metrics_of(settings.custom_metrics, kind)]

    clusters, has_citations, is_impossible, has_gold = parts.questions

    def group(rows: ScoreTable, names: Iterable[str], kind: str, **more: Any) -> MeanGroup:
        return MeanGroup(rows, named([*names, *custom(kind)]), clusters, custom=frozenset(custom(kind)), **more)

    def part(
        rows: ScoreTable,
        chosen: Flags,
        measures: Mapping[str, str],
        *,
        level: form.Level | None = None,
        reason: str | None = None,
    ) -> MeanGroup:
        chosen_rows = rows.only(measures.values()).where(chosen)
        reasons = dict.fromkeys(measures.values(), reason) if reason else {}
        return MeanGroup(chosen_rows, measures, clusters[chosen], level, left_out=int((~chosen).sum()), reasons=reasons)

    def answered(chosen: Flags, *measures: str) -> MeanGroup:
        reason = NO_GOLD_ANSWERS if chosen.any() and not (chosen & has_gold).any() else None
        return part(parts.answer_scores, chosen & has_gold, named(measures), reason=reason)

    judged = dict.fromkeys(name for name in parts.judged.measures if name not in CLAIM_COUNTS | FACT_COUNTS)
    judged |= dict.fromkeys(name for row in parts.judged.where(parts.judged.faulty()) for name in row.faults)
    if all(name.startswith(PREFIX) for name in judged) and parts.judged.has("failed").any():
        judged |= dict.fromkeys(CORRECTNESS_MEASURES)  # null, with the number of failures, and not absent
    without_support: dict[str, str] = {}
    if not parts.judges_support and "claims" in parts.judged.measures:
        without_support = dict.fromkeys(SUPPORT_MEASURES, NEEDS_SUPPORT_JUDGE)
        judged |= dict.fromkeys(without_support)
    too_few = {"overall_citation_accuracy": TOO_FEW_PARTS} if parts.overall.has("scored").any() else {}
    groups = {
        "documents": MeanGroup(parts.retrieval, named(measures), clusters, level="document"),
        "pages": part(
            parts.retrieval,
            has_citations,
            {name: PAGE + name for name in measures},
            level="page",
            reason=NO_PAGES if (parts.retrieval.has("scored") & has_citations).any() else None,
        ),
        "contexts": group(parts.retrieval, CONTEXT_MEASURES, "retrieval_scores"),
        "citations": group(
            parts.citations, [name for name in CITATION_MEASURES if name not in SPAN_COUNTS], "citation_scores"
        ),
        "answers": answered(np.ones_like(has_gold), "exact_match", "f1"),
        "answerable": answered(~is_impossible, "exact_match", "f1"),
        "unanswerable": answered(is_impossible, "exact_match"),
        "official_answers": answered(np.ones_like(has_gold), "squad/exact_match", "squad/f1"),
        "custom_answers": group(parts.answer_scores, [], "answer_scores"),
        "judged": group(parts.judged, judged, "judge_scores", reasons=without_support),
        "overall": MeanGroup(parts.overall, named(OVERALL), clusters, reasons=too_few),
    }
    return Means(groups, seed=settings.random_seed)


def further_metrics(means: Means) -> dict[str, form.Metric]:
    """Return means that no other part of the file has, without built-in ones that no question has."""
    found = {name: metric for group in FURTHER for name, metric in means.all_of(group).items()}
    custom = {name for group in FURTHER for name in means.custom[group]}
    return {name: one for name, one in found.items() if one.n_scored or name in custom}


def retrieval_level(
    n_documents: int, by_document: Mapping[str, form.Metric], by_page: Mapping[str, form.Metric]
) -> form.Level:
    """Choose the level to show first: pages if the corpus is small and nearly all its questions have pages."""
    documents = sum(metric.n_scored for metric in by_document.values())
    pages = sum(metric.n_scored for metric in by_page.values())
    return "page" if n_documents < FEW_DOCUMENTS and documents and pages >= PAGE_SHARE * documents else "document"
