"""Settings of an evaluation: built-in < evaluation_defaults < the benchmark's < the system's.

The merged settings are stored with the evaluation; those that can move a score are in the metrics' fingerprint.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import EvaluationConfig
from rag_eval_pipeline.formats.model import UNQUOTED, Model, expectation, field_path, value_hint
from rag_eval_pipeline.judges.judge_settings import JUDGE_SETTINGS, JudgeSettings
from rag_eval_pipeline.judges.ratings import BUILT_IN
from rag_eval_pipeline.metrics.custom import QuestionMetric, find_metric
from rag_eval_pipeline.metrics.registry import PAGE_PREFIX, built_in_metrics
from rag_eval_pipeline.metrics.retrieval.families import FAMILIES
from rag_eval_pipeline.metrics.retrieval.names import parse_measure
from rag_eval_pipeline.storage.yaml_files import read_settings
from rag_eval_pipeline.workspace import Workspace

# Names of measures are validated only when settings are merged: the record of an evaluation must stay readable after a
# custom metric is uninstalled.
TO_BE_USED = "to_be_used"
# Raised whenever a score moves; old and new nights are not compared.
METRICS_VERSION = "retrieval/4 spans/4 answers/7 claims/2"
# Category of a metric -> the scores that it is stored with.
KIND_OF = {
    "retrieval": "retrieval_scores", "contexts": "retrieval_scores", "citations": "citation_scores",
    "answers": "answer_scores", "claims": "judge_scores",
}  # fmt: skip
# The metrics that comparisons test: `COMPARED` of compared_runs, which imports this module.
ComparedName = Literal[
    "hit@1", "hit@5", "ndcg@10", "mrr", "tolerance_jaccard", "exact_match", "f1", "judged_correct", "faithfulness",
    "strict_vital_score",
]  # fmt: skip
COLUMNS = ("query_id", "outcome", "reason", "faults")  # of the score files, besides measures
ANSWER_COLUMNS = (
    "query_id", "source_id", "question", "gold_answer", "is_impossible", "status", "answer", "abstained", "error",
    "latency_ms", "documents", "relevant_documents", "passages", "reasons",
)  # fmt: skip  # of the frame of answers, besides measures


class EvaluationSettings(Model):
    """How questions are asked and answers scored."""

    measures: tuple[str, ...] = pydantic.Field(
        (
            "hit@1", "hit@3", "hit@5", "recall@5", "recall@10", "precision@5", "ndcg@3", "ndcg@5", "ndcg@10", "mrr",
            "map@5",
        ),
        description="Retrieval measures, such as ndcg@10; custom ones by import path, `package.module:FAMILY@10`.",
    )  # fmt: skip
    custom_metrics: tuple[str, ...] = pydantic.Field(
        (),
        description="Custom metrics of questions, by import path `package.module:METRIC` or by the name of an entry "
        "point of the group rag_eval_pipeline.metrics.",
    )
    critical_metrics: tuple[ComparedName, ...] = pydantic.Field(
        (),
        description="The metrics that get a verdict, besides the failure rate; fewer find smaller drops. The others "
        "are advisory: shown, but no regression. All of them by default.",
    )
    tolerance_chars: int = pydantic.Field(
        10, ge=0, description="Citation ends within this many characters of the gold ends count as equal."
    )
    random_seed: int = pydantic.Field(42, description="Random seed of bootstrap and permutation.")
    history: Literal["gold", "own"] = pydantic.Field(
        "gold",
        description="Answers in the messages before a follow-up question: `gold`, the benchmark's, or `own`, the "
        "system's to the earlier turns, which are asked in order. Evaluations of the two are not compared.",
    )
    min_coverage: float = pydantic.Field(
        0.98, ge=0, le=1, description="Minimum share of answered questions; below it a check warns."
    )
    stop_after_failures: int | None = pydantic.Field(
        20,
        ge=2,
        description="Stop asking after this many failures of one kind in a row, and ask them again the next time. "
        "Nothing is scored either if as many questions fail in all, more than half of them, with HTTP 429, 5xx, a "
        "timeout or no connection. null to ask and score every question all the same. Recordings and the built-in "
        "system are always asked.",
    )
    judge: JudgeSettings = pydantic.Field(JudgeSettings(), description="The judge of correctness and support.")
    evaluators: EvaluationConfig | None = pydantic.Field(
        None,
        description="Evaluators to run on every answer, {evaluators: [quality, toxicity, relevance, length]}; none by "
        "default. Source: Evaluation Data Models.",
    )
    concurrency: int | None = pydantic.Field(
        None,
        ge=1,
        le=1000,
        description="Questions in flight at once; by default as many as the server's in_flight, 64 for replay, else 8.",
    )
    timeout_seconds: float = pydantic.Field(
        30.0,
        gt=0,
        description="Time limit for one question to a system without an endpoint; endpoints have their own limits.",
    )

    @pydantic.field_validator("measures")
    @classmethod
    def _known_measures(cls, value: tuple[str, ...], info: pydantic.ValidationInfo) -> tuple[str, ...]:
        if not value or len(set(value)) < len(value):
            raise ValueError("one or more measures, each once")
        if info.context == TO_BE_USED:
            try:
                measures = [parse_measure(name) for name in value]
            except InputError as error:
                raise ValueError(error.expected) from error
            if len({measure.name for measure in measures}) < len(value):
                raise ValueError("one or more measures, each once")
            for family in (measure.family for measure in measures if measure.family not in FAMILIES):
                if taken := _taken(family.metric.name):
                    raise ValueError(f"custom measures with names of their own; {family.metric.name!r} is {taken}")
        return value

    @property
    def measure_names(self) -> tuple[str, ...]:
        """The measures by the names that scores and results have."""
        return tuple(parse_measure(name).name for name in self.measures)


def merged_settings(
    workspace: Workspace, benchmark: Mapping[str, Any], system: Mapping[str, Any], *, of: str
) -> EvaluationSettings:
    """Merge the evaluation settings of one pair (`of`, for messages): defaults, the benchmark's, the system's.

    Raises:
        InputError: `bad_yaml`, `bad_setting` naming the first bad one, or what `load_custom_metrics` raises.
    """
    defaults = read_settings(workspace.defaults_config, missing_ok=True)
    merged = {**defaults, **benchmark, **system}
    try:
        settings = EvaluationSettings.model_validate(merged, context=TO_BE_USED)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        hint = value_hint(first, EvaluationSettings)
        if first["loc"][:2] == ("judge", "settings"):  # of the judge's kind
            own = JUDGE_SETTINGS[merged["judge"].get("kind", JudgeSettings().kind)]
            hint = value_hint({**first, "loc": first["loc"][2:]}, own)
        raise InputError(
            "bad_setting", f"evaluation settings of {of}", expectation(first), field=field_path(first["loc"]),
            found=None if UNQUOTED & {first["type"], *map(str, first["loc"])} else first["input"],
            hint=hint,
        ) from error  # fmt: skip
    # So that a missing one, or one whose name is taken, is reported before anything is asked.
    custom = {metric.metric.name: "a custom metric" for metric in load_custom_metrics(settings.custom_metrics).values()}
    for rating in getattr(settings.judge.settings, "ratings", ()):
        if rating.name not in BUILT_IN and (taken := _taken(rating.name) or custom.get(rating.name)):
            raise InputError(
                "duplicate_metric", f"evaluation settings of {of}", "a rating with a unique name",
                field="judge.settings.ratings", found=rating.name, hint=f"{rating.name} is {taken}.",
            )  # fmt: skip
    return settings


def load_custom_metrics(names: Iterable[str]) -> dict[str, QuestionMetric]:
    """Load the metrics that settings name, by that name; raises `unknown_metric`, `bad_metric`, `duplicate_metric`."""
    found: dict[str, QuestionMetric] = {}
    for name in names:
        definition = find_metric(name)
        if not isinstance(definition, QuestionMetric):
            raise InputError(
                "bad_metric", f"metric {name}", "a QuestionMetric", found=type(definition).__name__,
                hint="A Family of retrieval measures belongs in `measures`.",
            )  # fmt: skip
        info = definition.metric
        if info.category not in KIND_OF:
            expected = f"one of the categories {', '.join(KIND_OF)}"
            raise InputError("bad_metric", f"metric {name}", expected, found=info.category)
        taken = _taken(info.name) or ("a retrieval measure" if _is_measure(info.name) else None)
        if taken is None and any(info.name == other.metric.name for other in found.values()):
            taken = "another custom metric"
        if taken is not None:
            expected = "a custom metric with a unique name"
            hint = f"{info.name} is {taken}."
            raise InputError("duplicate_metric", f"metric {name}", expected, found=info.name, hint=hint)
        found[name] = definition
    return found


def _taken(name: str) -> str | None:
    """Return what has the name of a custom metric, with its siblings; None if nothing has."""
    bare = name.removeprefix(PAGE_PREFIX)
    if bare in (columns := dict.fromkeys((*ANSWER_COLUMNS, *COLUMNS))):
        return f"a column beside the metrics: {', '.join(columns)}"
    if bare.partition("/")[0] in (ratings := ("evaluator", *BUILT_IN)):
        return f"a score of the judge: {', '.join(ratings)}, and these followed by a slash"
    if any(bare in (info.name, *info.aliases) for info in built_in_metrics()):
        return "a built-in metric (docs/reference/metrics.md has all)"
    return None


def _is_measure(name: str) -> bool:
    try:
        parse_measure(name.removeprefix(PAGE_PREFIX))
    except InputError:
        return False
    return True


def metrics_fingerprint(settings: EvaluationSettings) -> str:
    """Return a fingerprint that changes whenever the same answers may get other scores."""
    scored: list[Any] = [settings.measures, settings.tolerance_chars, settings.random_seed]
    custom = [parse_measure(name).family.metric for name in settings.measures if ":" in name]
    custom += [definition.metric for definition in load_custom_metrics(settings.custom_metrics).values()]
    if custom:
        scored.append([(row.name, row.version, row.range) for row in custom])
    if settings.evaluators is not None:
        scored += [settings.evaluators.evaluators, settings.evaluators.evaluator_configs]
    return f"{METRICS_VERSION} {digest(scored)[:16]}"


def digest(value: Any) -> str:
    """Return the sha256 of a value's JSON with sorted keys."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()
