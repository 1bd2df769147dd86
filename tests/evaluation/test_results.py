"""What a results file makes of scores, on answers written by hand."""

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from rag_eval_pipeline.corpus.manifest import read_manifest, write_manifest
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.evaluation.means import retrieval_level
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.results import build_results
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.evaluation.scoring import SCORERS
from rag_eval_pipeline.evaluation.storage import write_responses
from rag_eval_pipeline.formats.results import EvaluationResults, Metric
from rag_eval_pipeline.formats.validation import validate
from rag_eval_pipeline.systems.base import Citation, RagAnswer, RetrievedPassage

NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)


@pytest.fixture
def pair(workspace):
    return load_pair(workspace, "skarn-railway", "embedded")


@pytest.fixture
def results_of(workspace, pair):
    """The results of some hand-written answers; every other question got none."""
    evaluation = load_evaluation(workspace, ask(workspace, pair, now=NIGHT).evaluation_id)

    def results(answers):
        given = {answer.query_id: answer for answer in answers}
        write_responses(evaluation.responses, [given.get(q.query_id) or refused(q) for q in pair.queries])
        for score in SCORERS.values():
            score(workspace, evaluation, pair)
        return build_results(workspace, evaluation, pair, now=NIGHT)

    return results


def refused(query):
    return RagAnswer(query.query_id, "error", None, False, (), (), 5.0, error="connection refused")


def answered(query, *, citations=(), page=1):
    contexts = tuple(
        RetrievedPassage(name, page, "text", 1.0, rank) for rank, name in enumerate(query.relevant_documents, start=1)
    )
    return RagAnswer(query.query_id, "ok", "x", False, contexts, tuple(citations), 1.0)


def cited(gold):
    return Citation(gold.file_name, gold.start_char, gold.end_char, gold.page_number)


def with_spans(pair, number):
    return next(query for query in pair.queries if len(query.citations) == number)


def test_the_mean_over_spans_gives_a_question_with_two_spans_twice_the_weight(pair, results_of):
    one, two = with_spans(pair, 1), with_spans(pair, 2)

    spans = results_of([answered(one, citations=[cited(one.citations[0])]), answered(two)])
    spans = spans.citation_metrics.span_accuracy

    # Three gold spans, the first cited to the character and the other two not at all; over questions it were 1/2.
    assert (spans.mean_exact_jaccard, spans.mean_tolerance_jaccard) == (1 / 3, 1 / 3)
    assert (spans.true_spans, spans.predicted_spans, spans.perfect_matches, spans.good_matches) == (3, 1, 1, 1)
    assert spans.recall.value == 0.5  # this one is a mean over questions: (1/1 + 0/2) / 2


def test_a_half_cited_span_among_three_counts_a_sixth(pair, results_of):
    one, two = with_spans(pair, 1), with_spans(pair, 2)
    gold = one.citations[0]
    length = gold.end_char - gold.start_char
    half = Citation(gold.file_name, gold.start_char, gold.start_char + length // 2, gold.page_number)

    spans = results_of([answered(one, citations=[half]), answered(two)]).citation_metrics.span_accuracy

    # The second half is missing; tolerance moves the cited end by 10 characters.
    assert spans.mean_exact_jaccard == pytest.approx((length // 2) / length / 3, abs=1e-12)
    assert spans.mean_tolerance_jaccard == pytest.approx((length // 2 + 10) / length / 3, abs=1e-12)
    assert spans.perfect_matches == 0


def test_without_any_scored_span_there_is_no_mean_and_a_reason(pair, results_of):
    impossible = next(query for query in pair.queries if query.is_impossible)

    spans = results_of([answered(impossible)]).citation_metrics.span_accuracy

    assert (spans.mean_exact_jaccard, spans.true_spans, spans.reason) == (None, 0, "no_gold_spans")


def metrics(n_scored):
    return {"hit@1": Metric(value=0.5 if n_scored else None, n_scored=n_scored, n_failed=0, n_skipped=0)}


LEVELS = {
    #                                                     documents, by document, by page, level
    "few documents, each question has a page":            (19, 40, 40, "page"),
    "one question in ten has no page":                    (19, 40, 36, "page"),
    "one more than one in ten has none":                  (19, 40, 35, "document"),
    "a page for one question says nothing of the others": (19, 40, 1, "document"),
    "no gold text was located":                           (19, 40, 0, "document"),
    "no question was scored":                             (19, 0, 0, "document"),
    "twenty documents are enough to look for":            (20, 40, 40, "document"),
}  # fmt: skip


@pytest.mark.parametrize(("documents", "by_document", "by_page", "level"), LEVELS.values(), ids=LEVELS)
def test_retrieval_is_by_page_where_a_corpus_is_small_and_nearly_all_questions_have_pages(
    documents, by_document, by_page, level
):
    assert retrieval_level(documents, metrics(by_document), metrics(by_page)) == level


@pytest.mark.parametrize(("documents", "level"), [(19, "page"), (20, "document")])
def test_the_documents_of_the_corpus_decide_the_level(documents, level, pair, results_of):
    manifest = read_manifest(pair.paths.documents)
    present = len({row.key for row in manifest})
    more = [replace(manifest[0], key=f"k{n}", file_name=f"more-{n}.pdf") for n in range(documents - present)]
    gone = replace(manifest[0], key="gone", file_name="gone.pdf", origin="missing", pdf_sha256=None)
    write_manifest(pair.paths.documents, [*manifest, *more, gone])

    results = results_of([answered(query) for query in pair.queries])

    assert results.retrieval_level == level


def test_a_system_that_names_pages_for_half_of_the_questions_is_looked_at_by_document(pair, results_of):
    results = results_of([answered(query, page=1 if int(query.query_id) < 20 else None) for query in pair.queries])

    assert results.retrieval_level == "document"
    assert results.retrieval_metrics["hit@1"].n_scored == 32  # eight of the forty are impossible


def test_the_overall_score_spreads_its_weights_over_what_an_answer_has(pair, results_of):
    one, two = with_spans(pair, 1), with_spans(pair, 2)

    results = results_of([answered(one, citations=[cited(one.citations[0])]), answered(two)])

    overall, coverage = results.citation_metrics.overall_citation_accuracy, results.citation_metrics.overall_coverage
    rows = {row.query_id: row.individual_metrics for row in results.query_results}
    values = [rows[query.query_id]["overall_citation_accuracy"] for query in (one, two)]
    # Without a support judge 0.30 of the weights are left, those of the spans.
    assert [rows[query.query_id]["overall_coverage"] for query in (one, two)] == pytest.approx([0.30, 0.30])
    assert values == pytest.approx([rows[query.query_id]["tolerance_jaccard"] for query in (one, two)])
    assert overall.value == pytest.approx(sum(values) / 2)
    assert coverage.value == pytest.approx(0.30)
    impossible = sum(query.is_impossible for query in pair.queries)
    assert (overall.n_scored, overall.n_failed, overall.n_skipped) == (2, 38, 0)
    assert impossible == 8  # they got no answer either: nobody knows what it would have claimed


def test_intervals_count_the_documents_that_questions_share(pair, results_of):
    results = results_of([answered(query) for query in pair.queries])

    clusters = {"/".join(sorted(query.relevant_documents)) for query in pair.queries if not query.is_impossible}
    f1 = results.answer_quality_metrics.answerable_f1
    mrr = results.retrieval_metrics["mrr"]
    assert len(clusters) < 32
    assert f1.n_clusters == mrr.n_clusters == len(clusters)
    assert f"{len(clusters)} clusters" in mrr.method
    # Answers to impossible questions have claims too; each of these 8 questions is its own cluster.
    assert results.citation_metrics.citation_completeness.n_clusters == len(clusters) + 8


def test_abstention_has_all_of_its_rates_and_failures_apart(pair, results_of):
    declined = {query.query_id for query in pair.queries if query.is_impossible}
    impossible = sorted(declined, key=int)
    answers = [
        msgspec.structs.replace(answered(query), abstained=query.query_id in declined)
        for query in pair.queries
        if query.query_id != impossible[0]
    ]

    abstention = results_of(answers).answer_quality_metrics.abstention

    assert (abstention.unanswerable_abstained, abstention.unanswerable_failed, abstention.answerable_failed) == (
        7,
        1,
        0,
    )
    for rate, value in {
        "precision": 1.0, "recall": 1.0, "f1": 1.0, "over_refusal_rate": 0.0, "false_answer_rate": 0.0,
        "abstention_rate": 7 / 39, "accuracy": 1.0,
    }.items():  # fmt: skip
        metric = getattr(abstention, rate)
        assert metric.value == value
        assert metric.confidence_interval[0] <= value <= metric.confidence_interval[1]
        assert metric.n_scored + metric.n_failed + metric.n_skipped == 40


def test_results_are_read_as_they_were_written(pair, results_of, tmp_path):
    results = results_of([answered(query) for query in pair.queries])
    path = tmp_path / "eval_run_20261121_001.results.json"

    results.write(path)

    assert EvaluationResults.read(path) == results
    assert validate(path) == []


BAD_IDS = {
    "the folder above": "..",
    "the folder itself": ".",
    "a folder beside": "../runs",
    "a way down and up again": "eval_run_20261121_001/../eval_run_20261121_001",
    "a folder inside": "by_pair/skarn-railway",
    "an absolute path": "/etc",
    "a hidden folder": ".cache",
}


@pytest.mark.parametrize("evaluation_id", BAD_IDS.values(), ids=BAD_IDS)
def test_an_id_that_leads_elsewhere_is_no_id(evaluation_id, workspace, pair):
    ask(workspace, pair, now=NIGHT)

    with pytest.raises(InputError) as error:
        load_evaluation(workspace, evaluation_id)

    assert error.value.code == "bad_evaluation_id"
