"""The judge's part of an evaluation: counted by hand on answers written by hand, and failing apart from the rest."""

import threading

import msgspec
import numpy as np
import pytest

from examples.mock_server.judge import judge
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation import judging
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.evaluation.judging import SUPPORT_MEASURES, judgement_scores, read_judgements
from rag_eval_pipeline.evaluation.means import JudgedShares
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.score_tables import ScoreTable
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.judges.judgement import Case, CitedText, Claim, Correctness, Judgement, Support
from rag_eval_pipeline.judges.labels import Item
from rag_eval_pipeline.judges.recheck import Judging, KeptAnswers, KeptLabel, read_judging
from rag_eval_pipeline.judges.trust_card import ConfusionRecord, KappaRecord, TaskTrust, TrustCard, write_trust_card
from rag_eval_pipeline.metrics.registry import metrics
from rag_eval_pipeline.systems.base import Citation, RetrievedPassage
from tests.conftest import citations_in
from tests.evaluation.conftest import RAILWAY, answered, change_defaults
from tests.json_server import json_server
from tests.paid_server import set_judge
from tests.patience import PATIENCE_S


def with_gold(pair):
    return next(query for query in pair.queries if query.citations and not query.is_impossible)


def answer_to(query, text):
    cited = citations_in(text, {gold.file_name for gold in query.citations})
    passages = [RetrievedPassage("x.pdf", 1, "The lamp was lit.", 1.0, 1)]
    return answered(query.query_id, text, contexts=passages, citations=cited)


def test_judge_counts_a_gold_answer_and_a_refusal(pair, results_of):
    first, second = [query for query in pair.queries if not query.is_impossible][:2]

    results = results_of([answer_to(first, first.accepted_answers[0]), answer_to(second, "I do not know.")])

    correct = results.judge_metrics["judged_correct"]
    assert (correct.value, correct.n_scored, correct.n_failed) == (0.5, 2, len(pair.queries) - 2)
    assert results.judge_metrics["judged_refused"].value == 0.5
    assert (results.judge.kind, results.judge.completed) == ("lexical", 2)


@pytest.mark.parametrize(("is_impossible", "verdict"), [(True, "correct"), (False, "refused")])
def test_refusal_of_an_impossible_question_is_one_too(is_impossible, verdict):
    judgement = Judgement("1", "completed", Correctness(verdict, 1.0, "refused"))

    row = judgement_scores(Case("1", "?", () if is_impossible else ("x",), is_impossible, "y"), judgement)

    assert (row.scores["judged_refused"], row.scores["judged_correct"]) == (1.0, float(is_impossible))


def test_undecided_language_fails_correctness_but_not_refusals():
    undecided = Judgement("1", "completed", flags=("language_not_supported",))

    row = judgement_scores(Case("1", "?", ("x",), False, "y"), undecided, judges_support=False)

    assert (row.outcome, row.scores["judged_refused"]) == ("scored", 0.0)
    assert row.faults.keys() == {"judged_correct", "judged_correct_upper", "judged_unsure"}
    assert {line.split(":")[0] for line in row.faults.values()} == {"language_not_supported"}


def test_support_without_a_support_judge_is_null_with_a_reason(pair, results_of):
    query = with_gold(pair)
    gold = query.citations[0]
    mark = f"[{gold.file_name}:{gold.page_number}:{gold.start_char}-{gold.end_char}]"

    results = results_of([answer_to(query, f"The lamp was lit {mark}. The moon is made of green cheese.")])

    citation, quality = results.citation_metrics, results.answer_quality_metrics
    shares = (
        citation.citation_correctness, quality.factual_consistency, quality.hallucination_rate,
        quality.hallucination_rate_retrieved,
    )  # fmt: skip
    assert {(share.value, share.reason) for share in shares} == {(None, "needs_support_judge")}
    means = {name: results.judge_metrics[name] for name in SUPPORT_MEASURES}
    assert {(mean.value, mean.n_scored, mean.reason) for mean in means.values()} == {(None, 0, "needs_support_judge")}
    # What needs no support stays: which claims are cited.
    assert (citation.citation_completeness.cited_claims, citation.citation_completeness.total_claims) == (1, 2)
    assert not any("/" in name for name in results.judge_metrics)


def test_citations_without_marks_have_no_completeness_without_a_support_judge(pair, results_of):
    query = with_gold(pair)
    gold = query.citations[0]
    beside = Citation(gold.file_name, gold.start_char, gold.end_char, gold.page_number)
    answer = msgspec.structs.replace(answer_to(query, "The lamp was lit. It was sold."), citations=(beside,))

    citation = results_of([answer]).citation_metrics.citation_completeness

    assert (citation.value, citation.total_claims, citation.reason) == (None, 2, "needs_support_judge")


YES, NO = Support("supported", 1.0), Support("not_found", 0.25)
SHARES = {
    #                              citations with a mark   claims' own texts   retrieved   of the citations   complete  correct  consistent  hallucinated  against retrieved
    "one claim of two":           (True,                  (YES, None),        (YES, NO),  (YES, None),        (1, 2),   (1, 2),  (1, 2),     (1, 2),       (1, 2)),
    "without a mark":             (False,                 (YES, NO),          (NO, NO),   (YES,),             (1, 2),   (1, 1),  (1, 2),     (1, 2),       (2, 2)),
}  # fmt: skip


@pytest.mark.parametrize("row", SHARES.values(), ids=SHARES)
def test_shares_of_a_support_judge_are_counted_over_claims(row):
    has_mark, own, retrieved, support, complete, correct, consistent, hallucinated, ungrounded = row
    citations = tuple(CitedText("a.pdf", "text", n, n + has_mark) for n in range(len(support)))
    claims = tuple(
        Claim(10 * n, 10 * n + 9, (0,) if n == 0 or not has_mark else (), *found)
        for n, found in enumerate(zip(own, retrieved, strict=True))
    )
    case = Case("1", "?", ("x",), False, "y" * 30, citations)

    scored = judgement_scores(case, Judgement("1", "completed", claims=claims, citation_support=support))
    shares = shares_of(scored)

    found = (
        shares.completeness(), shares.correctness(), shares.consistency(), shares.hallucination(against="citations"),
        shares.hallucination(against="retrieved"),
    )  # fmt: skip
    expected = (complete, correct, consistent, hallucinated, ungrounded)
    assert [share.value for share in found] == pytest.approx([part / whole for part, whole in expected])
    assert (found[0].cited_claims, found[1].correct_citations, found[3].hallucinated_claims) == (
        complete[0], correct[0], hallucinated[0],
    )  # fmt: skip


def shares_of(scored):
    return JudgedShares(ScoreTable.of([scored], list(scored.scores)), np.array([0]), judges_support=True)


def test_system_that_cites_nothing_has_no_hallucination_rate_against_citations():
    case = Case("1", "?", ("x",), False, "The moon is made of cheese.", (), ("Cheese.",))
    scored = judgement_scores(case, Judgement("1", "completed", claims=(Claim(0, 27, (), None, NO),)))
    shares = shares_of(scored)

    rate = shares.hallucination(against="citations")
    assert (rate.value, rate.reason) == (None, "no_citations")
    assert (shares.consistency().value, shares.consistency().reason) == (None, "no_citations")
    assert shares.hallucination(against="retrieved").value == 1.0


def test_metrics_of_labels_are_in_the_registry():
    known = {row.name for row in metrics()}

    assert {"citation_recall", "citation_precision", "citation_relevance"} <= known


def test_results_without_a_judge_are_null_with_a_reason(workspace):
    change_defaults(workspace, judge={"kind": "none"})

    results = EvaluationResults.read(evaluate(workspace, load_pair(workspace, RAILWAY, "embedded"))[1].path)

    citation, quality = results.citation_metrics, results.answer_quality_metrics
    shares = (
        citation.citation_completeness, citation.citation_correctness, quality.factual_consistency,
        quality.hallucination_rate, quality.hallucination_rate_retrieved,
    )  # fmt: skip
    assert {(share.value, share.reason) for share in shares} == {(None, "no_judge")}
    assert (results.judge, results.judge_metrics, results.performance_metrics.judge_usage) == (None, {}, {})


def test_judge_that_failed_has_null_means_and_counts_its_failures(workspace, server):
    set_judge(workspace, server)
    change_defaults(workspace, evaluators={"evaluators": ["length"]})

    _, published = evaluate(workspace, load_pair(workspace, "cairnmoor-observatory", "embedded"))

    results = EvaluationResults.read(published.path)
    correct = results.judge_metrics["judged_correct"]
    assert (correct.value, correct.n_scored, correct.n_failed, correct.coverage) == (None, 0, 16, 0.0)
    assert (published.judging.judged, published.judging.failed) == (0, 16)
    assert results.citation_metrics.citation_correctness.reason == "nothing_judged"
    assert results.answer_quality_metrics.f1.n_scored == results.judge_metrics["evaluator/length"].n_scored == 16
    judgements = read_judgements(load_evaluation(workspace, published.evaluation_id))
    assert [judgement.query_id for judgement in judgements] == [str(number) for number in range(16)]

    evaluation = load_evaluation(workspace, published.evaluation_id)
    evaluation.judgements.write_bytes(evaluation.judgements.read_bytes().replace(b'"12"', b'"\xff"'))
    with pytest.raises(InputError, match=r"judgements.*\[bad_judgements\]"):
        list(read_judgements(evaluation))


RATINGS = {
    # Quality needs a gold answer, which four of sixteen questions lack.
    #              reply to a rating   quality, toxicity   failed     warnings
    "graded":     (None,               (1.0, 0.0),         (0, 0),    []),
    "unreadable": ("4",                (None, None),       (12, 16),  ["quality", "toxicity"]),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "values", "failed", "warned"), RATINGS.values(), ids=RATINGS)
def test_ratings_that_failed_are_null_and_said(reply, values, failed, warned, workspace):
    def answer(path, body):
        prompt = body["messages"][-1]["content"]
        text = reply if reply and '"task":"rating"' in prompt.replace(" ", "") else judge(prompt)
        return {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}

    names = ["quality", "toxicity"]
    with json_server(answer) as server:
        settings = {"endpoint": {"base_url": server.url}, "chat": {"model": "m"}, "ratings": names}
        change_defaults(
            workspace, judge={"kind": "openai", "settings": settings}, evaluators={"evaluators": [*names, "length"]}
        )
        _, published = evaluate(workspace, load_pair(workspace, "cairnmoor-observatory", "embedded"))

    metrics = EvaluationResults.read(published.path).judge_metrics
    for prefix in ("", "evaluator/"):
        found = [metrics[prefix + name] for name in names]
        assert tuple(one.value for one in found) == values
        assert tuple(one.n_failed for one in found) == failed
    assert metrics["evaluator/length"].n_scored == metrics["judged_correct"].n_scored == 16
    lines = [line for line in published.warnings if "[rating_failed]" in line]
    assert [line.split()[3] for line in lines] == warned
    assert all(f"{n} of 16 answers" in line for n, line in zip(failed, lines, strict=False))


def test_answer_whose_judgement_takes_long_holds_up_no_other(workspace, monkeypatch):
    monkeypatch.setattr(judging, "CASES_AT_ONCE", 4)
    sixth, waited = threading.Event(), []

    def answer(path, body):
        prompt = body["messages"][-1]["content"]
        if pair.queries[5].query_text in prompt:
            sixth.set()
        if pair.queries[2].query_text in prompt:
            waited.append(sixth.wait(PATIENCE_S))
        return {"choices": [{"message": {"content": judge(prompt)}, "finish_reason": "stop"}]}

    with json_server(answer) as server:
        set_judge(workspace, server)
        pair = load_pair(workspace, "cairnmoor-observatory", "embedded")
        _, published = evaluate(workspace, pair)

    assert (published.judging.judged, waited) == (16, [True])


def test_budget_of_a_judge_holds_for_all_answers_together(workspace, server):
    limit = 6
    set_judge(workspace, server, budget={"requests": limit})
    pair = load_pair(workspace, "skarn-railway", "embedded")  # 40 answers

    with pytest.raises(ServiceError) as error:
        evaluate(workspace, pair)

    assert error.value.code == "budget_spent"
    assert limit <= server.judged < limit + 3  # an answer takes three requests at most


def test_labelled_answers_are_judged_again_within_the_budget(workspace):
    def answer(path, body):
        text = judge(body["messages"][-1]["content"])
        return {"model": "m-1", "choices": [{"message": {"content": text}, "finish_reason": "stop"}]}

    cases = tuple(Case(name, f"{name}?", ("red",), False, name) for name in ("red", "blue", "green"))
    labels = tuple(KeptLabel(n, Item(c.query_id, "correctness", None, None), n == 0, 1.0) for n, c in enumerate(cases))
    kept = KeptAnswers(cases, labels)
    with json_server(answer) as server:
        nights = []
        for limit in (None, 20):  # sixteen answers and three labelled ones were judged on the first night
            set_judge(workspace, server, budget={"requests": limit})
            pair = load_pair(workspace, "cairnmoor-observatory", "embedded")
            card = calibrated_card(pair.paths.name, pair.fingerprints.judge)
            kept.write(write_trust_card(card, workspace.trust_cards))
            _, published = evaluate(workspace, pair)
            nights.append(read_judging(load_evaluation(workspace, published.evaluation_id).recheck))

    assert nights == [Judging(kept.digest, "100", ("m-1",)), Judging(kept.digest, reason="budget_spent")]


def calibrated_card(benchmark, fingerprint):
    table = ConfusionRecord(both_yes=1, labels_yes_judge_no=0, labels_no_judge_yes=0, both_no=1)
    trust = TaskTrust(
        task="correctness", n_labels=2, n_compared=2, kappa=KappaRecord(), kappa_sure=KappaRecord(), confusion=table,
        is_calibrated=True,
    )  # fmt: skip
    parts = {"benchmark": benchmark, "judge": "openai m", "judge_fingerprint": fingerprint}
    return TrustCard(**parts, labels_by="human", seed=1, tasks=(trust,))
