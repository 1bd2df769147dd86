"""Published results add up, their scores come out the same when worked out anew, and the crippled system loses."""

import json
import math
import re
from collections import Counter

import pydantic
import pytest

from rag_eval_pipeline.evaluation.results import results_path
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.results import EvaluationResults, Metric
from rag_eval_pipeline.formats.validation import validate
from tests.e2e.reading import NAMES, SYSTEMS, official_normal_form, rag_eval

pytestmark = pytest.mark.browser

PAIRS = [(name, system) for name in NAMES for system in SYSTEMS]
QUESTIONS = {"kg-rag-sec10q": 74, "fetaqa": 19, "hotpotqa": 40}  # of SQuAD as many as its file has
CITATION = re.compile(r" \[[^\n\[]+:\d+:\d+-\d+\]$")  # the embedded system ends an answer with one


def metrics_in(value, place=""):
    """Every mean of a results file, with its place."""
    if isinstance(value, Metric):
        yield place, value
    elif isinstance(value, pydantic.BaseModel):
        for name in type(value).model_fields:
            yield from metrics_in(getattr(value, name), f"{place}/{name}")
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from metrics_in(part, f"{place}/{name}")


def squad_questions(scored):
    """The questions of the source file."""
    squad = json.loads((scored.benchmark("squad2").source / "dev-sample.json").read_text())
    return [qa for article in squad["data"] for paragraph in article["paragraphs"] for qa in paragraph["qas"]]


@pytest.fixture(scope="module")
def asked(scored):
    """How many questions each benchmark has."""
    return QUESTIONS | {"squad2": len(squad_questions(scored))}


def accepted_answers(scored, name):
    [path] = scored.evaluation_datasets.glob(f"{name}_v*.eval.json")
    return {query.query_id: query.accepted_answers for query in EvaluationDataset.read(path).queries}


def official_scores(answer, accepted):
    """Exact match and F1 of `evaluate-v2.0.py`; an unanswerable question's one answer is the empty one."""
    gold = [text for text in accepted if official_normal_form(text)] or [""]
    return (
        max(float(official_normal_form(answer) == official_normal_form(text)) for text in gold),
        max(official_f1(official_normal_form(answer).split(), official_normal_form(text).split()) for text in gold),
    )


def official_f1(given, wanted):
    if not given or not wanted:
        return float(given == wanted)
    same = sum((Counter(given) & Counter(wanted)).values())
    precision, recall = same / len(given), same / len(wanted)
    return 2 * precision * recall / (precision + recall) if same else 0.0


@pytest.mark.parametrize(("name", "system"), PAIRS)
def test_results_validate_and_their_counts_add_up(name, system, asked, scored, results):
    found = results[name, system]
    summary = found.summary

    assert validate(results_path(scored, found.evaluation_id)) == []
    assert (summary.total_queries, summary.failed_queries) == (asked[name], 0)
    assert summary.successful_queries + summary.failed_queries == summary.total_queries == len(found.query_results)
    assert [row.query_id for row in found.query_results] == [str(number) for number in range(asked[name])]


@pytest.mark.parametrize(("name", "system"), PAIRS)
def test_every_mean_says_what_became_of_every_question(name, system, asked, results):
    found = results[name, system]
    means = dict(metrics_in(found))

    # 11 measures of documents and of pages each, 3 of spans, 5 of answers, 7 of abstention, 2 overall; and what only
    # some have.
    assert len(means) == 39 + len(found.judge_metrics) + len(found.further_metrics)
    assert {"judged_correct", "faithfulness"} <= found.judge_metrics.keys()
    assert {place: mean.n_scored + mean.n_failed + mean.n_skipped for place, mean in means.items()} == dict.fromkeys(
        means, asked[name]
    )
    for mean in means.values():
        assert (mean.value is None) == (mean.n_scored == 0) == (mean.reason is not None)
        if mean.value is not None and mean.confidence_interval is not None:
            low, high = mean.confidence_interval
            assert 0.0 <= low <= mean.value <= high <= 1.0


@pytest.mark.parametrize(("name", "system"), PAIRS)
def test_answers_score_as_the_official_scorer_has_it(name, system, scored, results):
    accepted = accepted_answers(scored, name)
    quality = results[name, system].answer_quality_metrics
    exact, f1 = [], []
    for row in results[name, system].query_results:
        answer = "" if row.abstained else CITATION.sub("", row.generated_answer)
        scores = official_scores(answer, accepted[row.query_id])
        assert (row.individual_metrics["exact_match"], row.individual_metrics["f1"]) == pytest.approx(scores, abs=1e-12)
        exact.append(scores[0])
        f1.append(scores[1])

    assert quality.exact_match.value == pytest.approx(sum(exact) / len(exact), abs=1e-12)
    assert quality.f1.value == pytest.approx(sum(f1) / len(f1), abs=1e-12)


@pytest.mark.parametrize(("name", "system"), PAIRS)
def test_retrieval_scores_follow_from_the_rankings(name, system, results):
    found = results[name, system]
    hits, reciprocal, gains = [], [], []
    for row in found.query_results:
        relevant = set(row.retrieval_results.ground_truth_relevant)
        if not relevant:
            assert "mrr" not in row.individual_metrics
            continue
        ranks = [n for n, doc in enumerate(row.retrieval_results.retrieved_docs, start=1) if doc in relevant]
        ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(relevant), 10) + 1))
        hits.append(float(any(rank <= 5 for rank in ranks)))
        reciprocal.append(1 / ranks[0] if ranks else 0.0)
        gains.append(sum(1 / math.log2(rank + 1) for rank in ranks if rank <= 10) / ideal)

    for measure, scores in (("hit@5", hits), ("mrr", reciprocal), ("ndcg@10", gains)):
        mean = found.retrieval_metrics[measure]
        assert (mean.n_scored, mean.level) == (len(scores), "document")
        assert mean.value == pytest.approx(sum(scores) / len(scores), abs=1e-12)


def test_abstention_is_counted_against_the_unanswerable_questions(scored, results):
    unanswerable = sum(question["is_impossible"] for question in squad_questions(scored))
    impossible = {query for query, accepted in accepted_answers(scored, "squad2").items() if not accepted}
    for system in SYSTEMS:
        found = results["squad2", system]
        table = Counter((row.query_id in impossible, row.abstained) for row in found.query_results)
        abstention = found.answer_quality_metrics.abstention

        assert len(impossible) == unanswerable > 50
        assert (abstention.unanswerable_abstained, abstention.unanswerable_answered) == (
            table[True, True],
            table[True, False],
        )
        assert (abstention.answerable_abstained, abstention.answerable_answered) == (
            table[False, True],
            table[False, False],
        )
        assert found.answer_quality_metrics.unanswerable_exact_match.value == table[True, True] / unanswerable


@pytest.mark.parametrize("name", ["squad2", "kg-rag-sec10q", "hotpotqa"])
def test_crippled_system_finds_less(name, results):
    whole, crippled = (results[name, system].retrieval_metrics for system in SYSTEMS)

    for measure in ("hit@1", "hit@5", "ndcg@10", "mrr"):
        assert whole[measure].value > crippled[measure].value


def test_crippled_system_answers_worse_and_never_abstains(results):
    whole, crippled = (results["squad2", system].answer_quality_metrics for system in SYSTEMS)

    assert whole.exact_match.value > crippled.exact_match.value
    assert whole.f1.value > crippled.f1.value
    assert whole.abstention.unanswerable_abstained > crippled.abstention.unanswerable_abstained == 0


def test_evaluation_again_asks_nothing_and_scores_the_same_as_in_another_folder(lend, results):
    workspace = lend("hotpotqa")
    command = ("evaluate", "hotpotqa", "--system", "embedded", "--json", "--workspace", workspace.root)

    nights = [rag_eval(*command) for _ in range(2)]

    assert [night.returncode for night in nights] == [0, 0]
    assert [night.stderr.count("nothing was asked") for night in nights] == [0, 1]
    reports = [json.loads(night.stdout)[0] for night in nights]
    assert [(report["counts"]["asked"], report["counts"]["reused"]) for report in reports] == [(40, 0), (0, 40)]
    first, again = (EvaluationResults.read(results_path(workspace, report["evaluation_id"])) for report in reports)
    assert first.performance_metrics.reused_from is None
    assert again.evaluation_id != first.evaluation_id
    assert again.performance_metrics.reused_from == first.evaluation_id
    assert again.performance_metrics.latency_stats == first.performance_metrics.latency_stats
    elsewhere = results["hotpotqa", "embedded"]
    for part in ("fingerprints", "retrieval_metrics", "citation_metrics", "answer_quality_metrics", "query_results"):
        assert getattr(again, part) == getattr(first, part)
    for part in ("fingerprints", "retrieval_metrics"):
        assert getattr(elsewhere, part) == getattr(first, part)
    assert [row.generated_answer for row in elsewhere.query_results] == [
        row.generated_answer for row in first.query_results
    ]
