"""Quality thresholds: the value, whether it breaks its limit, and how many answers do."""

import pytest
import yaml

from examples.mock_rag_server import mock_rag_server
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.thresholds import read_quality_thresholds
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.judges.trust_card import ConfusionRecord, KappaRecord, TaskTrust, TrustCard, write_trust_card
from rag_eval_pipeline.metrics.claims import QualityThresholds
from rag_eval_pipeline.reporting.regressions import aggregation_checks, write_comparisons


def limits(workspace, **thresholds):
    path = workspace.config / "verdicts.config.yaml"
    given = yaml.safe_load(path.read_text()) if path.exists() else {}
    path.write_text(yaml.safe_dump((given or {}) | {"quality_thresholds": thresholds}))


def test_thresholds_in_results_name_what_is_broken(workspace):
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
        "reason": None,
    }  # fmt: skip
    assert (hallucination.bound, hallucination.value, hallucination.reason) == ("most", None, "no_value")


def vouch_for(workspace, pair):
    """Says that people's labels have found the judge good enough for support on this benchmark."""
    trust = TaskTrust(
        task="support", n_labels=200, n_compared=200, is_calibrated=True,
        kappa=KappaRecord(value=0.9), kappa_sure=KappaRecord(value=0.9),
        confusion=ConfusionRecord(both_yes=95, both_no=95, labels_yes_judge_no=5, labels_no_judge_yes=5),
    )  # fmt: skip
    card = TrustCard(
        benchmark=pair.paths.name, judge="openai", judge_fingerprint=pair.fingerprints.judge, labels_by="human",
        seed=1, tasks=(trust,),
    )  # fmt: skip
    write_trust_card(card, workspace.trust_cards)


WRONG = """
def answer(question):
    cited = {"document": "line-opening.pdf", "start": 0, "end": 20}
    return {"answer": "The moon was sold for 77 pounds.", "citations": [cited]}
"""


@pytest.fixture(scope="module")
def mock_server():
    with mock_rag_server() as server:
        yield server


def mock_judge(workspace, server):
    """Make the mock server's judge, which compares words, the judge of all evaluations."""
    settings = {"endpoint": {"base_url": f"{server.url}/v1"}, "chat": {"model": "mock-judge"}}
    defaults = yaml.safe_load(workspace.defaults_config.read_text())
    workspace.defaults_config.write_text(yaml.safe_dump(defaults | {"judge": {"kind": "openai", "settings": settings}}))


@pytest.mark.parametrize("calibrated", [False, True])
def test_thresholds_are_not_broken_by_an_uncalibrated_judge(calibrated, workspace, mock_server):
    limits(workspace, span_accuracy=0.0, citation_validity=1.0, answer_consistency=1.0, hallucination_tolerance=0.0)
    mock_judge(workspace, mock_server)
    (workspace.config / "systems" / "wrong.py").write_text(WRONG)
    workspace.system_file("wrong").write_text("kind: python\nsettings: {callable: 'wrong:answer', path: [.]}\n")
    pair = load_pair(workspace, "skarn-railway", "wrong")
    if calibrated:
        vouch_for(workspace, pair)

    _, published = evaluate(workspace, pair)

    held = EvaluationResults.read(published.path).quality_thresholds
    judged = {name: one for name, one in held.items() if name != "span_accuracy"}
    broken = {name for name, one in held.items() if one.is_broken}
    assert all(one.value is not None for one in judged.values())
    if calibrated:
        assert broken == judged.keys()
        assert {one.reason for one in held.values()} == {None}
        assert all(judged[name].answers_broken for name in broken)
    else:
        assert {(one.is_broken, one.answers_broken, one.reason) for one in judged.values()} == {
            (None, None, "not_calibrated")
        }
    [check] = [
        one
        for one in aggregation_checks(workspace, write_comparisons(workspace))
        if one.name == "quality_thresholds_are_met"
    ]
    assert {line.split(": ")[1].split()[0] for line in check.numbers["which"]} == broken


def test_thresholds_of_support_are_null_without_a_support_judge(workspace):
    limits(workspace, citation_validity=1.0, answer_consistency=1.0, hallucination_tolerance=0.0)

    _, published = evaluate(workspace, load_pair(workspace, "skarn-railway", "embedded"))

    held = EvaluationResults.read(published.path).quality_thresholds
    assert {(one.value, one.is_broken, one.reason) for one in held.values()} == {(None, None, "no_value")}


def test_thresholds_without_a_value_are_not_broken(workspace):
    limits(workspace, citation_validity=0.5)
    defaults = yaml.safe_load(workspace.defaults_config.read_text())
    workspace.defaults_config.write_text(yaml.safe_dump(defaults | {"judge": {"kind": "none"}}))

    _, published = evaluate(workspace, load_pair(workspace, "skarn-railway", "embedded"))

    validity = EvaluationResults.read(published.path).quality_thresholds["citation_validity"]
    assert (validity.value, validity.is_broken, validity.answers_scored) == (None, None, 0)
    assert (validity.answers_broken, validity.reason) == (None, "no_value")


def test_thresholds_are_empty_without_a_file(workspace):
    (workspace.config / "verdicts.config.yaml").unlink(missing_ok=True)

    assert read_quality_thresholds(workspace) == QualityThresholds()


def test_thresholds_refuse_a_bad_limit_naming_the_file(workspace):
    limits(workspace, span_accuracy=80)

    with pytest.raises(InputError) as error:
        read_quality_thresholds(workspace)

    assert (error.value.code, error.value.field) == ("bad_format", "span_accuracy")
    assert "verdicts.config.yaml" in str(error.value)
