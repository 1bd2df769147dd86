"""What people's limits say of an evaluation: the figure, whether it breaks them, and how many answers do."""

import pytest
import yaml

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.passes import evaluate
from rag_eval_pipeline.evaluation.quality_limits import read_quality_thresholds
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.metrics.thresholds import QualityThresholds


def limits(workspace, **thresholds):
    path = workspace.config / "verdicts.config.yaml"
    given = yaml.safe_load(path.read_text()) if path.exists() else {}
    path.write_text(yaml.safe_dump((given or {}) | {"quality_thresholds": thresholds}))


def test_what_is_broken_stands_in_the_results(workspace):
    limits(workspace, span_accuracy=0.99, hallucination_tolerance=1.0)

    _, published = evaluate(workspace, load_pair(workspace, "skarn-railway", "embedded"))

    results = EvaluationResults.read(published.path)
    assert list(results.quality_thresholds) == ["span_accuracy", "hallucination_tolerance"]
    spans, hallucination = results.quality_thresholds.values()
    jaccards = [row.individual_metrics["citation_span_accuracy"] for row in results.query_results]
    scored = [value for value in jaccards if value is not None]
    assert spans.model_dump() == {
        "limit": 0.99, "bound": "least", "value": results.citation_metrics.span_accuracy.mean_tolerance_jaccard,
        "is_broken": True, "answers_scored": len(scored), "answers_broken": sum(value < 0.99 for value in scored),
    }  # fmt: skip
    assert (hallucination.bound, hallucination.is_broken, hallucination.answers_broken) == ("most", False, 0)
    assert hallucination.value == results.answer_quality_metrics.hallucination_rate.value


def test_a_limit_without_a_figure_is_not_broken(workspace):
    limits(workspace, citation_validity=0.5)
    defaults = yaml.safe_load(workspace.defaults_config.read_text())
    workspace.defaults_config.write_text(yaml.safe_dump(defaults | {"judge": {"kind": "none"}}))

    _, published = evaluate(workspace, load_pair(workspace, "skarn-railway", "embedded"))

    validity = EvaluationResults.read(published.path).quality_thresholds["citation_validity"]
    assert (validity.value, validity.is_broken, validity.answers_scored, validity.answers_broken) == (None, None, 0, 0)


def test_no_file_is_no_limit(workspace):
    (workspace.config / "verdicts.config.yaml").unlink(missing_ok=True)

    assert read_quality_thresholds(workspace) == QualityThresholds()


def test_a_limit_that_is_none_names_its_file(workspace):
    limits(workspace, span_accuracy=80)

    with pytest.raises(InputError) as error:
        read_quality_thresholds(workspace)

    assert (error.value.code, error.value.field) == ("bad_format", "span_accuracy")
    assert "verdicts.config.yaml" in str(error.value)
