"""`<evaluation_id>.results.json`: what one system did on one dataset version.

Where the specification shows a number, null with a reason may stand: `no_judge`, `no_baseline`, `nothing_to_score`, ...
A failure is never a number, and every mean says how many questions it is made of.
Source: Evaluation Data Formats 2.3.
"""

from pathlib import Path
from typing import Literal, Self

import pydantic

from rag_eval_pipeline.formats.citations import CitationSpan
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, JsonObject, Model, SchemaVersion, bad_format
from rag_eval_pipeline.formats.model_files import parse_file, write_file

Status = Literal["ok", "error", "timeout", "truncated", "refused"]
Level = Literal["document", "page"]
JudgeUsageName = Literal["requests", "cached", "total_tokens", "estimated_cost_usd", "duration_ms"]


class Metric(Model):
    """A mean over questions."""

    value: float | None = pydantic.Field(description="The mean; null where nothing could be scored.")
    confidence_interval: tuple[float, float] | None = pydantic.Field(None, description="At the file's level.")
    method: str | None = pydantic.Field(None, description="How the interval was made: wilson, bootstrap.")
    n_scored: int = pydantic.Field(0, description="Questions in the mean.")
    n_failed: int = pydantic.Field(0, description="Questions without an answer or a verdict.")
    n_skipped: int = pydantic.Field(0, description="Questions to which the measure does not apply.")
    coverage: float | None = pydantic.Field(None, description="n_scored / (n_scored + n_failed).")
    level: Level | None = pydantic.Field(None, description="What retrieval was scored on.")
    reason: str | None = pydantic.Field(None, description="Why value is null.")


class SpanAccuracy(Model):
    """Expected against given citations, each expected span with its best partner."""

    mean_exact_jaccard: float | None
    mean_tolerance_jaccard: float | None
    perfect_matches: int = 0
    good_matches: int = 0
    true_spans: int = 0
    predicted_spans: int = 0
    precision: Metric | None = None
    recall: Metric | None = None
    f1: Metric | None = None
    reason: str | None = None


class ClaimShare(Model):
    """A share of claims or citations that a judge counts; null without one."""

    value: float | None = None
    total_claims: int | None = None
    cited_claims: int | None = None
    total_citations: int | None = None
    correct_citations: int | None = None
    hallucinated_claims: int | None = None
    mean_consistency: float | None = None
    consistency_scores: tuple[float, ...] | None = None
    reason: str | None = None


class CitationMetrics(Model):
    """How well the system cites."""

    span_accuracy: SpanAccuracy
    citation_completeness: ClaimShare
    citation_correctness: ClaimShare


class Abstention(Model):
    """Answerable and unanswerable questions against answered and abstained ones."""

    answerable_answered: int
    answerable_abstained: int
    unanswerable_answered: int
    unanswerable_abstained: int
    precision: Metric = pydantic.Field(description="Unanswerable among the abstained.")
    recall: Metric = pydantic.Field(description="Abstained among the unanswerable.")
    f1: Metric
    over_refusal_rate: Metric = pydantic.Field(description="Abstained among the answerable.")


class AnswerQualityMetrics(Model):
    """How well the system answers; exact match and F1 are those of SQuAD v2."""

    exact_match: Metric
    f1: Metric
    answerable_exact_match: Metric
    answerable_f1: Metric
    unanswerable_exact_match: Metric = pydantic.Field(description="1 where the system rightly abstained.")
    abstention: Abstention
    factual_consistency: ClaimShare
    hallucination_rate: ClaimShare = pydantic.Field(description="Claims that no cited text supports.")
    hallucination_rate_retrieved: ClaimShare = pydantic.Field(
        ClaimShare(reason="no_judge"), description="Claims that nothing retrieved supports."
    )


class ResourceUsage(Model):
    """Sampled once a second at least, while the questions were asked."""

    mean: float | None
    peak: float | None
    std: float | None


class PerformanceMetrics(Model):
    """Time, memory, processor and tokens."""

    latency_stats: dict[Literal["mean", "p50", "p95", "p99", "min", "max"], float | None] = pydantic.Field(
        description="Milliseconds a question."
    )
    resource_usage: dict[Literal["memory_mb", "cpu_percent"], ResourceUsage]
    api_usage: dict[Literal["total_tokens", "total_requests", "estimated_cost_usd"], float | None]
    judge_usage: dict[JudgeUsageName, float] = pydantic.Field(
        default_factory=dict, description="What judging took; empty without a judge."
    )
    reused_from: str | None = pydantic.Field(None, description="The evaluation in which these figures were measured.")


class JudgeRecord(Model):
    """Which judge the figures of claims and correctness are from; whether people agree with it is looked up apart."""

    kind: str = pydantic.Field(description="lexical, openai.")
    fingerprint: str = pydantic.Field(description="Changes whenever the same answer may be judged otherwise.")
    models: tuple[str, ...] = pydantic.Field((), description="What its server says that it used.")
    completed: int = pydantic.Field(description="Answers with a judgement.")
    failed: int = pydantic.Field(description="Answers without one.")
    flags: dict[str, int] = pydantic.Field(default_factory=dict, description="Judgements by flag.")


class RetrievalResults(Model):
    """What came back, and what should have."""

    retrieved_docs: tuple[str, ...]
    relevance_scores: tuple[float | None, ...]
    ground_truth_relevant: tuple[str, ...]


class QueryResult(Model):
    """One question."""

    query_id: str
    query_text: str
    status: Status
    latency_ms: float | None
    retrieval_results: RetrievalResults
    generated_answer: str | None
    abstained: bool
    citations: tuple[CitationSpan, ...]
    individual_metrics: dict[str, float | None] = pydantic.Field(
        description="null: failed, or the measure does not apply."
    )
    error: str | None = None


class SignificanceTest(Model):
    """A paired test against the baseline."""

    baseline_mean: float | None = None
    current_mean: float | None = None
    p_value: float | None = None
    significant: bool | None = None
    effect_size: float | None = None
    reason: str | None = None


class Summary(Model):
    """How many, how long."""

    total_queries: int
    successful_queries: int
    failed_queries: int
    average_latency_ms: float | None
    total_evaluation_time_seconds: float


class StatisticalAnalysis(Model):
    """Tests and intervals."""

    significance_tests: dict[str, SignificanceTest]
    confidence_intervals: JsonObject


class Fingerprints(Model):
    """What must be equal for two evaluations to be compared; sha256 or a version."""

    dataset: str
    corpus: str
    system: str
    metrics: str
    judge: str | None = None
    server: str | None = pydantic.Field(None, description="Of what the system's server says of its own settings.")


class ResultsMetadata(Model):
    """Where and how."""

    evaluation_environment: dict[str, str]
    evaluation_parameters: JsonObject
    quality_assurance: dict[str, str]


class EvaluationResults(FileModel):
    """One evaluation, published."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    evaluation_id: str
    timestamp: pydantic.AwareDatetime
    benchmark: str
    system: str
    system_version: str
    dataset_id: str
    dataset_version: str
    configuration: JsonObject
    fingerprints: Fingerprints
    summary: Summary
    retrieval_level: Level = pydantic.Field(
        description="Which of the two to look at first: document, but page in a corpus of few documents."
    )
    retrieval_metrics: dict[str, Metric]
    page_retrieval_metrics: dict[str, Metric]
    citation_metrics: CitationMetrics
    answer_quality_metrics: AnswerQualityMetrics
    judge: JudgeRecord | None = None
    judge_metrics: dict[str, Metric] = pydantic.Field(
        default_factory=dict, description="Means over answers of what the judge says; pooled shares stand above."
    )
    performance_metrics: PerformanceMetrics
    further_metrics: dict[str, Metric] = pydantic.Field(
        default_factory=dict, description="Means of scores that stand in no other part: words, facts, ROUGE, contexts."
    )
    query_results: tuple[QueryResult, ...]
    statistical_analysis: StatisticalAnalysis
    metadata: ResultsMetadata

    @classmethod
    def read(cls, path: Path) -> Self:
        """The results of a `.json`, `.json.gz`, `.yaml` or `.yml` file.

        Raises:
            InputError: The file's fault, or the first of the content's with the number of the others.
        """
        try:
            return parse_file(cls, path)
        except pydantic.ValidationError as error:
            raise bad_format(path, error) from error

    def write(self, path: Path) -> None:
        """Publishes the file in the form that its name asks for.

        Nulls are written, because a reader of the specification looks for the keys.

        Raises:
            InputError: `unknown_form`.
        """
        write_file(self, path, keep_nulls=True)
