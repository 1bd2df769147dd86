"""`<evaluation_id>.results.json`: what one system did on one dataset version.

Where the specification shows a number, null with a reason may occur: `no_judge`, `no_baseline`, `nothing_to_score` ....
A failure is never a number, and every mean counts its questions.
What the specification does not require has a default, so that results of other tools can be read: a metric that is not
stated there is null with the reason `not_stated`.
Source: Evaluation Data Formats 2.3, 3.3; Citation Accuracy Evaluation 6.
"""

import contextlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import pydantic

from rag_eval_pipeline.errors import InputError, counted
from rag_eval_pipeline.formats.citation_marks import CitationSpan
from rag_eval_pipeline.formats.dataset import dataset_stem
from rag_eval_pipeline.formats.fields import UNVERSIONED, split_version
from rag_eval_pipeline.formats.model import FileModel, JsonObject, Model, SchemaVersion, listed
from rag_eval_pipeline.formats.row_files import RowFile
from rag_eval_pipeline.storage.json_files import JSON, checked_json
from rag_eval_pipeline.storage.yaml_files import YAML

UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)  # of results that state none
RESULTS_ENDINGS = tuple(f".results{ending}" for ending in JSON + YAML)
WEEKLY = "benchmark_weekly_"  # how names of results files of several evaluations begin
AB_TEST = "ab_test_"
Status = Literal["ok", "error", "timeout", "truncated", "refused"]
Level = Literal["document", "page"]
JudgeUsageName = Literal["requests", "cached", "total_tokens", "estimated_cost_usd", "duration_ms"]
ApiUsageName = Literal[
    "total_tokens", "prompt_tokens", "completion_tokens", "total_requests", "estimated_cost_usd",
    "answers_without_tokens",
]  # fmt: skip


class Metric(Model):
    """A mean over questions."""

    value: float | None = pydantic.Field(None, description="The mean; null where nothing could be scored.")
    confidence_interval: tuple[float, float] | None = pydantic.Field(None, description="Limits of the 95 % interval.")
    method: str | None = pydantic.Field(
        None, description="How the interval was made (wilson, bootstrap), or why a value has none."
    )
    n_clusters: int | None = pydantic.Field(
        None,
        description="Groups of questions about the same documents, which the interval counts instead of questions; "
        "null where no questions share any.",
    )
    n_scored: int = pydantic.Field(0, description="Questions in the mean.")
    n_failed: int = pydantic.Field(0, description="Questions without an answer or a verdict.")
    n_skipped: int = pydantic.Field(0, description="Questions to which the measure does not apply.")
    coverage: float | None = pydantic.Field(None, description="n_scored / (n_scored + n_failed).")
    level: Level | None = pydantic.Field(None, description="Whether documents or pages were scored.")
    reason: str | None = pydantic.Field(None, description="Reason why `value` is null.")


class CorrectedRate(Model):
    """A judge's share of correct answers, corrected for its errors by people's labels."""

    value: float = pydantic.Field(description="The share that people would call correct.")
    confidence_interval: tuple[float, float] = pydantic.Field(
        description="95 % interval, for chance in the labels and in the answers."
    )
    n_labels: int
    labels_of: tuple[str, ...] = pydantic.Field(description="The systems whose answers were labelled.")
    is_of_these_answers: bool = pydantic.Field(
        description="Whether answers of this evaluation were labelled; if not, only the judge's error rates are used."
    )
    warning: str | None = pydantic.Field(None, description="Reason why labels of these systems may mislead.")

    @property
    def text(self) -> str:
        """`corrected 0.720 (0.680 to 0.750)`."""
        low, high = self.confidence_interval
        return f"corrected {self.value:.3f} ({low:.3f} to {high:.3f})"

    @property
    def basis(self) -> str:
        """Sentence with the source of the labels and the warning, if there is one."""
        told = f"By {counted(self.n_labels, 'label')} of {', '.join(self.labels_of)}"
        told += "." if self.is_of_these_answers else "; for a narrower interval, label answers of this evaluation."
        return f"{told} {self.warning or ''}".strip()


class JudgedMetric(Metric):
    """A mean of a judge's scores."""

    corrected: CorrectedRate | None = pydantic.Field(
        None, description="`judged_correct`, corrected with the labels that existed when the file was written."
    )


NOT_STATED = "not_stated"
_UNSTATED = Metric(reason=NOT_STATED)


class PooledInterval(Model):
    """The interval of a mean over spans; a question may have several spans."""

    low: float
    high: float
    method: str | None = pydantic.Field(None, description="As in `Metric`.")
    n_clusters: int | None = pydantic.Field(None, description="Questions, or groups of them that share documents.")


class SpanAccuracy(Model):
    """Gold spans compared with citations, each with its best match; means are over all spans of all questions."""

    mean_exact_jaccard: float | None = None
    mean_tolerance_jaccard: float | None = None
    confidence_intervals: dict[str, PooledInterval] = pydantic.Field(
        default_factory=dict, description="Intervals of the two means, by name."
    )
    perfect_matches: int = 0
    good_matches: int = 0
    true_spans: int = 0
    predicted_spans: int = 0
    precision: Metric | None = None
    recall: Metric | None = None
    f1: Metric | None = None
    reason: str | None = None


def pooled_jaccard(spans: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mean over spans as a `Metric`; its counts are questions, as in every other one.

    Args:
        spans: The fields of a `SpanAccuracy`.
    """
    limits = spans.get("confidence_intervals", {}).get("mean_tolerance_jaccard") or {}
    counted = spans.get("recall") or {}  # every question with gold spans has one
    return {
        "value": spans["mean_tolerance_jaccard"],
        "confidence_interval": (limits["low"], limits["high"]) if limits else None,
        "reason": spans.get("reason"),
        **{name: limits[name] for name in ("method", "n_clusters") if name in limits},
        **{name: counted[name] for name in ("n_scored", "n_failed", "n_skipped", "coverage") if name in counted},
    }


class ClaimShare(Model):
    """A share of all claims or citations of a run, as a judge counts them; null without a judge.

    The means over answers of the same shares, under the same names, are in `judge_metrics`.
    """

    pooled_over: Literal["claims", "citations"] | None = pydantic.Field(
        None, description="Denominator of the share, counted over all answers."
    )

    value: float | None = None
    confidence_interval: tuple[float, float] | None = pydantic.Field(None, description="Limits of the 95 % interval.")
    method: str | None = pydantic.Field(None, description="As in `Metric`.")
    n_clusters: int | None = pydantic.Field(None, description="Answers, or groups of them that share documents.")
    total_claims: int | None = None
    cited_claims: int | None = None
    total_citations: int | None = None
    correct_citations: int | None = None
    hallucinated_claims: int | None = None
    mean_consistency: float | None = None
    consistency_scores: tuple[float, ...] | None = None
    reason: str | None = None


class CitationValidation(Model):
    """Whether the cited places exist in the corpus. Source: Citation Accuracy Evaluation 4.2."""

    total_citations: int = 0
    invalid_citations: int = 0
    validation_details: dict[str, int] = pydantic.Field(
        default_factory=dict,
        description="Invalid citations by reason: document_not_found, page_not_found, span_out_of_bounds.",
    )


class CitationMetrics(Model):
    """How well the system cites."""

    span_accuracy: SpanAccuracy = SpanAccuracy(reason=NOT_STATED)
    citation_completeness: ClaimShare = ClaimShare(reason=NOT_STATED)
    citation_correctness: ClaimShare = ClaimShare(reason=NOT_STATED)
    overall_citation_accuracy: Metric = pydantic.Field(
        _UNSTATED,
        description="Weighted mean of span accuracy, citation correctness, factual consistency and absence of "
        "hallucination; weights of missing parts go to the others. Source: Citation Accuracy Evaluation 5.1.",
    )
    overall_coverage: Metric = pydantic.Field(
        _UNSTATED, description="Sum of the weights of the parts that the answers have, in [0, 1]."
    )
    validation: CitationValidation = CitationValidation()


class Abstention(Model):
    """Counts of answerable and unanswerable questions, answered and abstained."""

    answerable_answered: int = 0
    answerable_abstained: int = 0
    unanswerable_answered: int = 0
    unanswerable_abstained: int = 0
    answerable_failed: int = pydantic.Field(
        0, description="Failed questions: whether the system would have abstained is unknown."
    )
    unanswerable_failed: int = 0
    precision: Metric = pydantic.Field(_UNSTATED, description="Share of unanswerable questions among the abstentions.")
    recall: Metric = pydantic.Field(_UNSTATED, description="Share of abstentions among the unanswerable questions.")
    f1: Metric = _UNSTATED
    over_refusal_rate: Metric = pydantic.Field(
        _UNSTATED, description="Share of abstentions among the answerable questions."
    )
    false_answer_rate: Metric = pydantic.Field(
        _UNSTATED, description="Share of answers among the unanswerable questions."
    )
    abstention_rate: Metric = pydantic.Field(_UNSTATED, description="Share of abstentions among all questions.")
    accuracy: Metric = pydantic.Field(
        _UNSTATED,
        description="Share of questions that are answerable and answered (rightly or not), or "
        "unanswerable and abstained.",
    )


class AnswerQualityMetrics(Model):
    """How well the system answers; exact match and F1 follow SQuAD v2."""

    exact_match: Metric = _UNSTATED
    f1: Metric = _UNSTATED
    answerable_exact_match: Metric = _UNSTATED
    answerable_f1: Metric = _UNSTATED
    unanswerable_exact_match: Metric = pydantic.Field(
        _UNSTATED, description="Share of the unanswerable questions on which the system abstains."
    )
    abstention: Abstention = Abstention()
    factual_consistency: ClaimShare = ClaimShare(reason=NOT_STATED)
    hallucination_rate: ClaimShare = pydantic.Field(
        ClaimShare(reason=NOT_STATED), description="Share of claims that no cited text supports."
    )
    hallucination_rate_retrieved: ClaimShare = pydantic.Field(
        ClaimShare(reason="no_judge"), description="Share of claims that no retrieved text supports."
    )


class ResourceUsage(Model):
    """Use of one resource, sampled once a second during the run."""

    mean: float | None = None
    peak: float | None = None
    std: float | None = None


class PerformanceMetrics(Model):
    """Time, memory, processor and tokens."""

    latency_stats: dict[Literal["mean", "p50", "p95", "p99", "min", "max"], float | None] = pydantic.Field(
        default_factory=dict, description="Milliseconds per question; null if no latency was measured."
    )
    latency_reason: str | None = pydantic.Field(None, description="Reason why there is no latency.")
    latency_intervals: dict[Literal["mean", "p50", "p95", "p99"], tuple[float, float] | None] = pydantic.Field(
        default_factory=dict,
        description="95 % limits in milliseconds; null where the measurements are too few.",
    )
    resource_usage: dict[Literal["memory_mb", "cpu_percent"], ResourceUsage] = {}
    resource_usage_of: Literal["evaluation", "evaluation_and_system"] | None = pydantic.Field(
        None, description="Whether memory and processor time include the system, which may run in the same processes."
    )
    api_usage: dict[ApiUsageName, float | None] = pydantic.Field(
        default_factory=dict, description="Sums over all answers; null where no answer reports them."
    )
    judge_usage: dict[JudgeUsageName, float] = pydantic.Field(
        default_factory=dict, description="Requests, tokens, cost and time of judging; empty without a judge."
    )
    in_flight: int | None = pydantic.Field(None, description="Questions asked at once; latencies depend on it.")
    reused_from: str | None = pydantic.Field(None, description="The evaluation in which these values were measured.")


class CustomMetric(Model):
    """The definition of a custom metric."""

    definition: str = pydantic.Field(description="Import path or entry point, as in the settings.")
    meaning: str
    source: str
    direction: Literal["higher", "lower", "neither"]
    low: float | None = pydantic.Field(description="Lowest possible score; null without a bound.")
    high: float | None = pydantic.Field(description="Highest possible score; null without a bound.")
    levels: tuple[str, ...]
    category: str = pydantic.Field(description="Group of scores that it belongs to: answers, citations, ...")
    version: str


class MetricFault(Model):
    """A score that a custom metric could not compute."""

    metric: str
    query_id: str
    message: str = pydantic.Field(description="Error in one line, with its code.")


class ThresholdResult(Model):
    """A quality threshold and its result."""

    limit: float
    bound: Literal["least", "most"] = pydantic.Field(
        description="least: a lower value breaks the threshold; most: a higher one does."
    )
    value: float | None = pydantic.Field(description="The evaluation's value; null where there is none.")
    is_broken: bool | None = pydantic.Field(description="Whether the value breaks the threshold; null with a `reason`.")
    answers_scored: int = pydantic.Field(description="Answers that have the score.")
    answers_broken: int | None = pydantic.Field(
        description="Answers whose score is worse than the limit; null where there is a `reason`."
    )
    reason: Literal["no_value", "not_calibrated"] | None = pydantic.Field(
        None,
        description="`not_calibrated`: the value comes from a judge that has not been compared with people, and "
        "breaks no limit.",
    )


class JudgeRecord(Model):
    """The judge of claims and correctness; its agreement with people is recorded elsewhere."""

    kind: str = pydantic.Field(description="Kind of judge: lexical, nli or openai.")
    fingerprint: str = pydantic.Field(description="Changes whenever the same answer may get another verdict.")
    models: tuple[str, ...] = pydantic.Field((), description="Models that its server reports.")
    completed: int = pydantic.Field(description="Answers with a judgement.")
    failed: int = pydantic.Field(description="Answers without a judgement.")
    flags: dict[str, int] = pydantic.Field(default_factory=dict, description="Number of judgements by flag.")


class RetrievalResults(Model):
    """Retrieved and relevant documents of one question."""

    retrieved_docs: tuple[str, ...] = ()
    relevance_scores: tuple[float | None, ...] = ()
    ground_truth_relevant: tuple[str, ...] = ()


class QueryResult(Model):
    """Answer and scores of one question."""

    strict_types: ClassVar[bool] = True

    query_id: str
    query_text: str = ""
    status: Status = "ok"
    latency_ms: float | None = None
    retrieval_results: RetrievalResults = RetrievalResults()
    generated_answer: str | None = None
    abstained: bool = False
    citations: tuple[CitationSpan, ...] = ()
    individual_metrics: dict[str, float | None] = pydantic.Field(
        default_factory=dict, description="null: failed, or the measure does not apply."
    )
    error: str | None = None


class SignificanceTest(Model):
    """A one-sided, Holm-corrected test against the pinned runs, or the file with the verdict."""

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
    """Counts and times of an evaluation."""

    total_queries: int
    successful_queries: int
    failed_queries: int
    average_latency_ms: float | None = None
    total_evaluation_time_seconds: float | None = None


class StatisticalAnalysis(Model):
    """Tests and intervals."""

    significance_tests: dict[str, SignificanceTest] = {}
    confidence_intervals: JsonObject = {}


class Fingerprints(Model):
    """Values (sha256 or a version) that must be equal for two evaluations to be compared."""

    dataset: str = NOT_STATED
    corpus: str = NOT_STATED
    system: str = NOT_STATED
    metrics: str = NOT_STATED
    judge: str | None = None
    server: str | None = pydantic.Field(
        None, description="Fingerprint of the settings that the system's server reports."
    )
    history: str | None = pydantic.Field(
        None, description="`own` if follow-up questions had the system's answers before them; null for gold ones."
    )


class ResultsMetadata(Model):
    """Environment and parameters of an evaluation."""

    evaluation_environment: dict[str, str] = {}
    evaluation_parameters: JsonObject = {}
    quality_assurance: dict[str, str] = {}


ROWS = "query_results"


class EvaluationResults(FileModel):
    """One evaluation, published."""

    file_type: ClassVar[str] = "results file"
    current_version: ClassVar[str] = "1.1"
    keeps_nulls: ClassVar[bool] = True  # readers of the specification expect every key
    strict_types: ClassVar[bool] = True

    schema_version: SchemaVersion = current_version
    evaluation_id: str
    timestamp: pydantic.AwareDatetime = UNKNOWN_TIME
    benchmark: str = ""
    system: str = ""
    system_version: str = NOT_STATED
    dataset_id: str = NOT_STATED
    dataset_version: str = ""
    configuration: JsonObject = {}
    fingerprints: Fingerprints = Fingerprints()
    summary: Summary = Summary(total_queries=0, successful_queries=0, failed_queries=0)
    retrieval_level: Level = pydantic.Field(
        "document", description="The primary level: document, but page in a corpus of few documents."
    )
    retrieval_metrics: dict[str, Metric]
    page_retrieval_metrics: dict[str, Metric] = {}
    citation_metrics: CitationMetrics = CitationMetrics()
    answer_quality_metrics: AnswerQualityMetrics = AnswerQualityMetrics()
    judge: JudgeRecord | None = None
    judge_metrics: dict[str, JudgedMetric] = pydantic.Field(
        default_factory=dict,
        description="Means of the judge's scores over answers; pooled shares are in the parts above.",
    )
    performance_metrics: PerformanceMetrics = PerformanceMetrics()
    further_metrics: dict[str, Metric] = pydantic.Field(
        default_factory=dict,
        description="Means of all other scores: words, contexts, custom metrics.",
    )
    custom_metrics: dict[str, CustomMetric] = pydantic.Field(
        default_factory=dict, description="Metrics that are not built in, by name; their means are among the others."
    )
    metric_faults: tuple[MetricFault, ...] = pydantic.Field(
        (), description="The first faults of each custom metric; all are counted in its n_failed."
    )
    warnings: tuple[str, ...] = pydantic.Field(
        (), description="Warnings about the scores, such as passages that name no document of the corpus."
    )
    models: dict[str, int] = pydantic.Field(
        default_factory=dict, description="Number of answers by the model that the system's replies name."
    )
    quality_thresholds: dict[str, ThresholdResult] = pydantic.Field(
        default_factory=dict, description="Thresholds set in verdicts.config.yaml, by name."
    )
    query_results: tuple[QueryResult, ...] = ()
    statistical_analysis: StatisticalAnalysis = StatisticalAnalysis()
    metadata: ResultsMetadata = ResultsMetadata()

    @pydantic.model_validator(mode="after")
    def _named(self) -> Self:
        """Name the benchmark and the system of another tool's results by its dataset and its system's version."""
        if self.benchmark and self.system and self.dataset_version:
            return self
        dataset = split_version(self.dataset_id)
        found: dict[str, Any] = {
            "benchmark": self.benchmark or dataset.dataset_id,
            "system": self.system or self.system_version,
            "dataset_version": self.dataset_version or dataset.version or UNVERSIONED,
        }
        if self.fingerprints == Fingerprints():
            found["fingerprints"] = Fingerprints(dataset=self.dataset_id, system=self.system_version)
        self.__dict__.update(found)  # frozen for all others
        return self


class StoredResults(NamedTuple):
    """A results file without its rows, and the rows, which are read from the file on each iteration."""

    head: EvaluationResults
    rows: Iterable[QueryResult]


def open_results(path: Path) -> StoredResults:
    """Open a results file; of one that this pipeline wrote, one row is in memory at a time.

    Raises:
        InputError: As `EvaluationResults.read`; also during iteration.
    """
    rows = RowFile.open(path, ROWS, partial(_row, path)) if path.name.endswith(".json") else None
    if rows is not None:
        with contextlib.suppress(pydantic.ValidationError, InputError):
            head = EvaluationResults.model_validate_json(checked_json(rows.rest, path), strict=True)
            return StoredResults(head, rows)
    whole = EvaluationResults.read(path)
    return StoredResults(whole.model_copy(update={ROWS: ()}), whole.query_results)


def _row(path: Path, data: bytes) -> QueryResult:
    try:
        return QueryResult.model_validate_json(checked_json(data, path), strict=True)
    except (pydantic.ValidationError, InputError):
        EvaluationResults.read(path)  # raises the error with its place in the file
        raise


def load_evaluation_results(folder: Path, evaluation_id: str) -> EvaluationResults:
    """Return the results of an evaluation in any form, such as `<evaluation_id>.results.json`.

    Raises:
        InputError: `no_results`, `ambiguous_results`, or as `EvaluationResults.read`.
    """
    files = sorted(folder.glob("[!.]*")) if folder.is_dir() else []
    by_id = [(dataset_stem(path), path) for path in files if path.name.endswith(RESULTS_ENDINGS)]
    found = [path for stem, path in by_id if stem == evaluation_id]
    if not found:
        hint = f"Known: {listed(stem for stem, _ in by_id)}." if by_id else "The folder has none."
        raise InputError("no_results", folder, f"results of evaluation {evaluation_id!r}", hint=hint)
    if len(found) > 1:
        expected, names = f"one file of evaluation {evaluation_id!r}", [path.name for path in found]
        raise InputError("ambiguous_results", folder, expected, found=names, hint="Remove all but one.")
    return EvaluationResults.read(found[0])
