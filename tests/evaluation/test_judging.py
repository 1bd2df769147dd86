"""The judge's part of an evaluation: counted by hand on answers written by hand, and failing apart from the rest."""

from datetime import UTC, datetime

import msgspec
import pytest
import yaml

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.evaluation.judging import SUPPORT_MEASURES, judgement_scores, read_judgements
from rag_eval_pipeline.evaluation.means import JudgedShares
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.results import build_results
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.evaluation.scoring import SCORERS
from rag_eval_pipeline.evaluation.storage import read_scores, write_responses
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.judges.judgement import Case, CitedText, Claim, Judgement, Support
from rag_eval_pipeline.metrics.claims import RAGCHECKER_MEASURES
from rag_eval_pipeline.metrics.registry import metrics
from rag_eval_pipeline.systems.base import Citation, Query, RagAnswer, RetrievedPassage, citations_in, failed_answer
from tests.paid_server import set_judge

RAILWAY = "skarn-railway"
NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)


@pytest.fixture
def pair(workspace):
    return load_pair(workspace, RAILWAY, "embedded")


@pytest.fixture
def evaluation(workspace, pair):
    return load_evaluation(workspace, ask(workspace, pair, now=NIGHT).evaluation_id)


def padded(pair, answers):
    given = {answer.query_id: answer for answer in answers}
    return [
        given.get(q.query_id) or failed_answer(Query(q.query_id, ""), "error", code="x", error="x", latency_ms=1.0)
        for q in pair.queries
    ]


def judged(workspace, evaluation, pair, answers):
    """The results of hand-written answers; every other question failed."""
    write_responses(evaluation.responses, padded(pair, answers))
    for score in SCORERS.values():
        score(workspace, evaluation, pair)
    return build_results(workspace, evaluation, pair, now=NIGHT)


def with_gold(pair):
    return next(query for query in pair.queries if query.citations and not query.is_impossible)


def answer_to(query, text, contexts=()):
    passages = tuple(RetrievedPassage("x.pdf", 1, text, 1.0, rank) for rank, text in enumerate(contexts, start=1))
    cited = citations_in(text, {gold.file_name for gold in query.citations})
    return RagAnswer(query.query_id, "ok", text, False, passages, cited, 1.0)


def test_a_gold_answer_is_correct_and_a_refusal_is_not(workspace, evaluation, pair):
    first, second = [query for query in pair.queries if not query.is_impossible][:2]

    results = judged(
        workspace, evaluation, pair, [answer_to(first, first.accepted_answers[0]), answer_to(second, "I do not know.")]
    )

    correct = results.judge_metrics["judged_correct"]
    assert (correct.value, correct.n_scored, correct.n_failed) == (0.5, 2, len(pair.queries) - 2)
    assert results.judge_metrics["judged_refused"].value == 0.5
    assert results.judge.kind == "lexical"
    assert results.judge.completed == 2


def test_answers_in_another_language_than_english_lower_the_coverage(workspace):
    path = workspace.system_file("embedded")
    settings = yaml.safe_load(path.read_text())
    judge = {"kind": "lexical", "settings": {"language": "de"}}
    path.write_text(yaml.safe_dump({**settings, "evaluation": {"judge": judge}}))
    pair = load_pair(workspace, RAILWAY, "embedded")
    evaluation = load_evaluation(workspace, ask(workspace, pair, now=NIGHT).evaluation_id)
    first, second, third = [query for query in pair.queries if not query.is_impossible][:3]
    answers = [
        answer_to(first, first.accepted_answers[0]),
        answer_to(second, "Das weiß ich nicht."),
        answer_to(third, f"Es war {third.accepted_answers[0]}."),
    ]

    results = judged(workspace, evaluation, pair, answers)

    correct = results.judge_metrics["judged_correct"]
    assert (correct.value, correct.n_scored, correct.n_failed) == (0.5, 2, len(pair.queries) - 2)
    assert results.judge_metrics["judged_refused"].n_scored == 3
    assert results.judge.flags == {"language_not_supported": 1}
    (fault,) = [fault for fault in results.metric_faults if fault.metric == "judged_correct"]
    assert (fault.query_id, fault.message.split(":")[0]) == (third.query_id, "language_not_supported")


def test_support_without_a_support_judge_is_null_with_a_reason(workspace, evaluation, pair):
    query = with_gold(pair)
    gold = query.citations[0]
    mark = f"[{gold.file_name}:{gold.page_number}:{gold.start_char}-{gold.end_char}]"
    answer = answer_to(query, f"The lamp was lit {mark}. The moon is made of green cheese.", ["The lamp was lit."])

    results = judged(workspace, evaluation, pair, [answer])

    citation, quality = results.citation_metrics, results.answer_quality_metrics
    shares = (
        citation.citation_correctness, quality.factual_consistency, quality.hallucination_rate,
        quality.hallucination_rate_retrieved,
    )  # fmt: skip
    assert {(share.value, share.reason) for share in shares} == {(None, "needs_support_judge")}
    means = {name: results.judge_metrics[name] for name in SUPPORT_MEASURES}
    assert {(mean.value, mean.n_scored, mean.reason) for mean in means.values()} == {(None, 0, "needs_support_judge")}
    # What needs no support stays: which claims are cited, and which stand in a text word for word.
    assert (citation.citation_completeness.cited_claims, citation.citation_completeness.total_claims) == (1, 2)
    assert results.further_metrics["verbatim_share"].value == 0.5
    assert not any("/" in name for name in results.judge_metrics)


def test_citations_without_marks_have_no_completeness_without_a_support_judge(workspace, evaluation, pair):
    query = with_gold(pair)
    gold = query.citations[0]
    beside = Citation(gold.file_name, gold.start_char, gold.end_char, gold.page_number)
    answer = msgspec.structs.replace(answer_to(query, "The lamp was lit. It was sold."), citations=(beside,))

    citation = judged(workspace, evaluation, pair, [answer]).citation_metrics.citation_completeness

    assert (citation.value, citation.total_claims, citation.reason) == (None, 2, "needs_support_judge")


YES, NO = Support("supported", 1.0), Support("not_found", 0.25)
SHARES = {
    #                              citations with a mark   claims' own texts   retrieved   of the citations   complete  correct  consistent  hallucinated  against retrieved
    "one claim of two":           (True,                  (YES, None),        (YES, NO),  (YES, None),        (1, 2),   (1, 2),  (1, 1),     (1, 2),       (1, 2)),
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
    shares = JudgedShares([scored], {"1": "a.pdf"}, judges_support=True)

    found = (
        shares.completeness(), shares.correctness(), shares.consistency(), shares.hallucination(against="citations"),
        shares.hallucination(against="retrieved"),
    )  # fmt: skip
    expected = (complete, correct, consistent, hallucinated, ungrounded)
    assert [share.value for share in found] == pytest.approx([part / whole for part, whole in expected])
    assert (found[0].cited_claims, found[1].correct_citations, found[3].hallucinated_claims) == (
        complete[0], correct[0], hallucinated[0],
    )  # fmt: skip


def test_a_system_that_cites_nothing_has_no_hallucination_rate_against_citations():
    case = Case("1", "?", ("x",), False, "The moon is made of cheese.", (), ("Cheese.",))
    scored = judgement_scores(case, Judgement("1", "completed", claims=(Claim(0, 27, (), None, NO),)))
    shares = JudgedShares([scored], {"1": "a.pdf"}, judges_support=True)

    rate = shares.hallucination(against="citations")
    assert (rate.value, rate.reason) == (None, "no_citations")
    assert shares.hallucination(against="retrieved").value == 1.0


def test_every_figure_of_labels_is_in_the_registry():
    known = {row.name for row in metrics()}

    assert {*(f"ragchecker/{name}" for name in RAGCHECKER_MEASURES), "citation_recall", "citation_precision", "citation_relevance"} <= known  # fmt: skip


def test_judgements_are_kept_whole_in_the_order_of_the_questions(workspace, pair):
    _, published = evaluate(workspace, pair)

    judgements = list(read_judgements(load_evaluation(workspace, published.evaluation_id)))
    results = EvaluationResults.read(published.path)

    assert [judgement.query_id for judgement in judgements] == [query.query_id for query in pair.queries]
    assert all(0 <= claim.start < claim.end for judgement in judgements for claim in judgement.claims)
    assert results.fingerprints.judge == pair.fingerprints.judge
    assert results.query_results[0].individual_metrics["claims"] >= 1


def change_judge(workspace, judge):
    settings = yaml.safe_load(workspace.defaults_config.read_text()) | {"judge": judge}
    workspace.defaults_config.write_text(yaml.safe_dump(settings))


UNREACHABLE = {
    "kind": "openai",
    "settings": {
        "endpoint": {"base_url": "http://127.0.0.1:9", "max_retries": 0},
        "chat": {"model": "m"},
    },
}


def test_a_judge_that_cannot_be_reached_fails_its_own_part_alone(workspace):
    change_judge(workspace, UNREACHABLE)
    pair = load_pair(workspace, RAILWAY, "embedded")

    _, published = evaluate(workspace, pair)

    results = EvaluationResults.read(published.path)
    assert results.answer_quality_metrics.f1.n_scored == 40
    assert (results.judge.completed, results.judge.failed) == (0, 40)
    assert results.citation_metrics.citation_correctness.reason == "nothing_judged"
    rows = read_scores(load_evaluation(workspace, published.evaluation_id).scores("judge_scores"))
    assert {(row.outcome, row.reason) for row in rows} == {("failed", "judge_connection_refused")}


def test_a_secret_that_is_missing_is_named_before_anything_is_judged(workspace, monkeypatch):
    monkeypatch.delenv("NO_SUCH_JUDGE_KEY", raising=False)
    endpoint = {**UNREACHABLE["settings"]["endpoint"], "api_key_env": "NO_SUCH_JUDGE_KEY"}
    change_judge(workspace, {"kind": "openai", "settings": {**UNREACHABLE["settings"], "endpoint": endpoint}})

    with pytest.raises(ServiceError) as error:
        evaluate(workspace, load_pair(workspace, RAILWAY, "embedded"))

    assert error.value.code == "missing_secret"
    assert "NO_SUCH_JUDGE_KEY" in str(error.value)


@pytest.mark.parametrize("judge", [{"kind": "oracle"}, {"settings": {"unsure_band": 9}}, {"kind": "openai"}])
def test_bad_judges_are_found_before_anything_is_asked(judge, workspace):
    change_judge(workspace, judge)

    with pytest.raises(InputError) as error:
        load_pair(workspace, RAILWAY, "embedded")

    assert (error.value.code, error.value.field.split(".")[0]) == ("bad_setting", "judge")


@pytest.mark.parametrize("evaluators", [None, {"evaluators": ["length"]}], ids=["alone", "beside an evaluator"])
def test_means_of_a_judge_that_failed_are_null_and_count_the_failures(evaluators, workspace, server):
    set_judge(workspace, server)
    defaults = yaml.safe_load(workspace.defaults_config.read_text())
    workspace.defaults_config.write_text(yaml.safe_dump(defaults | {"evaluators": evaluators}))

    _, published = evaluate(workspace, load_pair(workspace, "cairnmoor-observatory", "embedded"))

    correct = EvaluationResults.read(published.path).judge_metrics["judged_correct"]
    assert (correct.value, correct.n_scored, correct.n_failed, correct.coverage) == (None, 0, 16, 0.0)
    assert (published.judging.judged, published.judging.failed) == (0, 16)


@pytest.mark.parametrize("limit", [1, 6])
def test_a_judges_budget_holds_for_all_answers_together(limit, workspace, server):
    set_judge(workspace, server, budget={"requests": limit})
    pair = load_pair(workspace, "skarn-railway", "embedded")  # 40 answers

    with pytest.raises(ServiceError) as error:
        evaluate(workspace, pair)

    assert error.value.code == "budget_spent"
    assert limit <= server.judged < limit + 3  # an answer takes three requests at most
