"""`<evaluation_id>.results.json`: what one system did on one dataset version.

Where the specification shows a number, null with a reason may stand: `no_judge`, `no_baseline`, `nothing_to_score`, ...
A failure is never a number, and every mean says how many questions it is made of.
Source: Evaluation Data Formats 2.3.
"""

from pathlib import Path
from typing import ClassVar, Literal, Self

import pydantic

from rag_eval_pipeline.formats.citations import CitationSpan
from rag_eval_pipeline.formats.forms import Form
from rag_eval_pipeline.formats.model import FileModel, JsonObject, Model, SchemaVersion, bad_format
from rag_eval_pipeline.formats.model_files import parse_file, write_file
from rag_eval_pipeline.formats.results_figures import (
    NOT_MEASURED,
    Abstention,
    AnswerQualityMetrics,
    ApiUsageName,
    CitationMetrics,
    ClaimShare,
    HeldThreshold,
    JudgeUsageName,
    Level,
    Metric,
    MetricFault,
    OwnMetric,
    PerformanceMetrics,
    PooledInterval,
    ResourceUsage,
    SpanAccuracy,
)
from rag_eval_pipeline.formats.results_versions import RESULTS

__all__ = [
    "Abstention",
    "AnswerQualityMetrics",
    "ApiUsageName",
    "CitationMetrics",
    "ClaimShare",
    "EvaluationResults",
    "Fingerprints",
    "HeldThreshold",
    "JudgeRecord",
    "JudgeUsageName",
    "Level",
    "Metric",
    "MetricFault",
    "NOT_MEASURED",
    "OwnMetric",
    "PerformanceMetrics",
    "PooledInterval",
    "QueryResult",
    "ResourceUsage",
    "ResultsMetadata",
    "RetrievalResults",
    "SignificanceTest",
    "SpanAccuracy",
    "StatisticalAnalysis",
    "Status",
    "Summary",
]

Status = Literal["ok", "error", "timeout", "truncated", "refused"]


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
    verdicts: str | None = pydantic.Field(
        None, description="File with the verdict on this evaluation, relative to the workspace."
    )


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

    form: ClassVar[Form] = RESULTS

    schema_version: SchemaVersion = RESULTS.present
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
        default_factory=dict,
        description="Means of scores that stand in no other part: words, facts, ROUGE, contexts, own metrics.",
    )
    own_metrics: dict[str, OwnMetric] = pydantic.Field(
        default_factory=dict, description="Metrics that are not built in, by name; their means stand with the others."
    )
    metric_faults: tuple[MetricFault, ...] = pydantic.Field(
        (), description="The first faults of each own metric; all are counted in its n_failed."
    )
    warnings: tuple[str, ...] = pydantic.Field(
        (), description="What to know before reading the scores, such as passages that name no document of the corpus."
    )
    quality_thresholds: dict[str, HeldThreshold] = pydantic.Field(
        default_factory=dict, description="Limits that people have set in verdicts.config.yaml, by name."
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
