"""Published scores come out the same when worked out anew, and the crippled system loses."""

import re
from collections import Counter

import pytest

from rag_eval_pipeline.formats.dataset import EvaluationDataset
from tests.e2e.reading import NAMES, SYSTEMS, official_normal_form

pytestmark = pytest.mark.browser

PAIRS = [(name, system) for name in NAMES for system in SYSTEMS]
CITATION = re.compile(r" \[[^\n\[]+:\d+:\d+-\d+\]$")  # the embedded system ends an answer with one
UNSPACED = re.compile(r"[\u3040-\u9fff]")
NOTE = re.compile(r"\[\d+\]")  # copied from an encyclopedia


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
def test_answers_score_as_the_official_scorer_has_it(name, system, scored, results):
    accepted = accepted_answers(scored, name)
    quality = results[name, system].answer_quality_metrics
    exact, f1 = [], []
    for row in results[name, system].query_results:
        measured = row.individual_metrics
        as_is = official_scores(row.generated_answer, accepted[row.query_id])
        assert (measured["squad/exact_match"], measured["squad/f1"]) == pytest.approx(as_is, abs=1e-12)
        answer = "" if row.abstained else CITATION.sub("", row.generated_answer)
        ways = (official_scores(text, accepted[row.query_id]) for text in (answer, NOTE.sub("", answer)))
        scores = max(ways)
        if UNSPACED.search(answer):  # its characters are words, which the official scorer does not know
            scores = (measured["exact_match"], measured["f1"])
        assert (measured["exact_match"], measured["f1"]) == pytest.approx(scores, abs=1e-12)
        exact.append(scores[0])
        f1.append(scores[1])

    assert quality.exact_match.value == pytest.approx(sum(exact) / len(exact), abs=1e-12)
    assert quality.f1.value == pytest.approx(sum(f1) / len(f1), abs=1e-12)


@pytest.mark.parametrize("name", ["kg-rag-sec10q", "hotpotqa"])  # SQuAD has three documents
def test_crippled_system_finds_less(name, results):
    whole, crippled = (results[name, system].retrieval_metrics for system in SYSTEMS)

    for measure in ("hit@5", "ndcg@10", "mrr"):
        assert whole[measure].value > crippled[measure].value
    # One tiny passage is enough to name the right one of squad2's three documents.
    assert whole["hit@1"].value >= crippled["hit@1"].value


def test_crippled_system_answers_worse_and_never_abstains(results):
    whole, crippled = (results["squad2", system].answer_quality_metrics for system in SYSTEMS)

    assert whole.exact_match.value > crippled.exact_match.value
    assert whole.f1.value > crippled.f1.value
    assert whole.abstention.unanswerable_abstained > crippled.abstention.unanswerable_abstained == 0
