"""Results of answers and scores: means, shares, thresholds, and what was measured beside them."""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
import yaml

from rag_eval_pipeline.corpus.manifest import read_manifest, write_manifest
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation import score_tables as storage
from rag_eval_pipeline.evaluation.answer_facts import AnswerFacts, language_warnings, performance
from rag_eval_pipeline.evaluation.compared_runs import run_of_evaluation
from rag_eval_pipeline.evaluation.evaluation_folders import SCORE_FILES, load_evaluation
from rag_eval_pipeline.evaluation.judging import JudgementCounts
from rag_eval_pipeline.evaluation.means import MeanGroup, Means, named, overall_row, retrieval_level
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate, score_all
from rag_eval_pipeline.evaluation.publishing import metadata, publish
from rag_eval_pipeline.evaluation.quality_thresholds import breaks, check_thresholds
from rag_eval_pipeline.evaluation.score_tables import QueryScores, ScoreTable, read_scores, write_scores
from rag_eval_pipeline.formats import dataset
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.formats.results import EvaluationResults, Metric, SignificanceTest
from rag_eval_pipeline.judges.judgement import Judgement
from rag_eval_pipeline.metrics.verdict_rules import QualityThresholds, read_quality_thresholds
from rag_eval_pipeline.monitoring.leaderboard import write_leaderboard
from rag_eval_pipeline.site.site import write_report
from rag_eval_pipeline.systems.base import NO_USAGE, Citation, RagAnswer, RetrievedPassage, Usage
from tests.evaluation import conftest
from tests.evaluation.conftest import NIGHT, RAILWAY, failed
from tests.validation import validate


def answered(query, *, citations=(), page=1):
    ranked = enumerate(query.relevant_documents, start=1)
    contexts = [RetrievedPassage(name, page, "text", 1.0, rank) for rank, name in ranked]
    return conftest.answered(query.query_id, contexts=contexts, citations=citations)


def cited(gold, share=1.0):
    length = int((gold.end_char - gold.start_char) * share)
    return Citation(gold.file_name, gold.start_char, gold.start_char + length, gold.page_number)


def with_spans(pair, number):
    return next(query for query in pair.queries if len(query.citations) == number)


# --- a whole evaluation


def test_evaluation_that_does_not_fit_into_memory_has_the_same_results(workspace, monkeypatch):
    def rows():
        return EvaluationResults.read(evaluate(workspace, load_pair(workspace, RAILWAY, "embedded"))[1].path)

    kept = rows()
    monkeypatch.setattr(dataset, "WHOLE_BYTES", 0)
    monkeypatch.setattr(storage, "KEPT_BYTES", 0)
    read_again = rows()

    assert read_again.query_results == kept.query_results
    assert read_again.answer_quality_metrics == kept.answer_quality_metrics
    assert read_again.warnings == kept.warnings


def test_results_counts_add_up(workspace, pair):
    asked, published = evaluate(workspace, pair)
    results = EvaluationResults.read(published.path)

    assert validate(published.path) == []
    assert (asked.questions, asked.asked, asked.failed) == (40, 40, 0)
    assert [row.query_id for row in results.query_results] == [str(number) for number in range(40)]
    for metric in [*results.retrieval_metrics.values(), results.answer_quality_metrics.f1]:
        assert metric.n_scored + metric.n_failed + metric.n_skipped == 40
    hits = [row.individual_metrics["hit@1"] for row in results.query_results if "hit@1" in row.individual_metrics]
    assert results.retrieval_metrics["hit@1"].value == sum(hits) / len(hits)
    assert len(hits) == 32  # eight of the forty are impossible
    assert results.performance_metrics.latency_stats["p50"] > 0
    assert results.performance_metrics.resource_usage["memory_mb"].peak > 10
    tests = results.statistical_analysis.significance_tests
    assert {test.reason for test in tests.values()} == {"no_baseline"}


@pytest.mark.fault(48)
def test_results_count_failed_answers_and_do_not_score_them(pair, evaluation, results_of):
    impossible = {query.query_id for query in pair.queries if query.is_impossible}
    missing = {"0", *impossible}

    results = results_of([answered(query) for query in pair.queries if query.query_id not in missing])

    assert (results.summary.successful_queries, results.summary.failed_queries) == (31, 9)
    rows = {row.query_id: row for row in results.query_results if row.status != "ok"}
    assert rows.keys() == missing
    assert all(row.individual_metrics["f1"] is None for row in rows.values())
    lost = {kind: {r.query_id for r in read_scores(evaluation.scores(kind)) if r.outcome == "failed"} for kind in SCORE_FILES}  # fmt: skip
    assert lost == {
        "retrieval_scores": {"0"},
        "citation_scores": {"0"},
        "answer_scores": missing,
        "judge_scores": missing,
    }
    f1 = results.answer_quality_metrics.f1
    assert (f1.n_scored, f1.n_failed, f1.coverage) == (31, 9, 31 / 40)
    assert results.answer_quality_metrics.unanswerable_exact_match.n_failed == 8
    abstention = results.answer_quality_metrics.abstention
    assert (abstention.unanswerable_failed, abstention.answerable_failed, abstention.answerable_answered) == (8, 1, 31)
    assert (abstention.accuracy.value, abstention.recall.n_failed) == (1.0, 8)
    # Retrieval skips impossible questions, answered or not.
    for metric in (results.retrieval_metrics["mrr"], results.page_retrieval_metrics["mrr"]):
        assert (metric.n_scored, metric.n_failed, metric.n_skipped, metric.coverage) == (31, 1, 8, 31 / 32)


@pytest.mark.fault(23)
@pytest.mark.parametrize("evaluation_id", ["..", "../runs", "/etc"])
def test_evaluation_id_is_no_path(evaluation_id, workspace):
    with pytest.raises(InputError) as error:
        load_evaluation(workspace, evaluation_id)

    assert error.value.code == "bad_evaluation_id"


# --- spans and parts


def test_span_mean_gives_a_question_with_two_spans_twice_the_weight(pair, results_of):
    one, two = with_spans(pair, 1), with_spans(pair, 2)

    citations = results_of([answered(one, citations=[cited(one.citations[0])]), answered(two)]).citation_metrics
    spans = citations.span_accuracy

    # Three gold spans, the first cited to the character and the other two not at all; over questions it were 1/2.
    assert (spans.mean_exact_jaccard, spans.mean_tolerance_jaccard) == (1 / 3, 1 / 3)
    assert (spans.true_spans, spans.predicted_spans, spans.perfect_matches, spans.good_matches) == (3, 1, 1, 1)
    assert spans.recall.value == 0.5  # this one is a mean over questions: (1/1 + 0/2) / 2
    # Without a support judge 0.30 of the weights of the overall score are left, those of the spans.
    overall, coverage = citations.overall_citation_accuracy, citations.overall_coverage
    assert (overall.value, overall.reason, coverage.value) == (None, "too_few_parts", 0.3)
    assert (overall.n_scored, overall.n_failed, overall.n_skipped) == (0, 38, 2)


@pytest.mark.parametrize("n_gold", [0, 1])
def test_question_without_a_gold_answer_has_no_answer_score_and_no_refusal_is_right(
    n_gold, workspace, pair, evaluation
):
    none = {"ground_truth_answer": None, "metadata": {}, "relevant_documents": ()}
    gold = none | {"ground_truth_answer": "Marsh Point"}
    queries = [query.model_copy(update=gold if n < n_gold else none) for n, query in enumerate(pair.queries)]
    asked = replace(pair, dataset=pair.dataset._replace(queries=queries))
    evaluation.write_answers(
        [conftest.answered(queries[0].query_id, "Marsh Point"), failed(queries[1].query_id)]
        + [conftest.answered(query.query_id, "I don't know.", abstained=True) for query in queries[2:]]
    )
    publish(workspace, evaluation, asked, score_all(workspace, evaluation, asked), now=NIGHT)

    results = EvaluationResults.read(workspace.results_file(evaluation.record.evaluation_id))
    quality = results.answer_quality_metrics

    assert {metric.reason for metric in results.retrieval_metrics.values()} == {"no_relevant_documents"}
    for metric in (quality.exact_match, quality.f1, quality.answerable_exact_match, quality.answerable_f1):
        counts = (metric.value, metric.reason, metric.n_scored, metric.n_failed, metric.n_skipped)
        assert counts == ((1.0, None, 1, 0, 39) if n_gold else (None, "no_gold_answers", 0, 0, 40))
    assert quality.unanswerable_exact_match.reason == "nothing_to_score"
    assert (quality.abstention.answerable_abstained, quality.abstention.answerable_failed) == (38, 1)
    assert ("exact_match" in run_of_evaluation(evaluation).columns) is bool(n_gold)


def test_span_mean_without_a_scored_span_has_a_reason(pair, results_of):
    impossible = next(query for query in pair.queries if query.is_impossible)

    spans = results_of([answered(impossible)]).citation_metrics.span_accuracy

    assert (spans.mean_exact_jaccard, spans.true_spans, spans.reason) == (None, 0, "no_gold_spans")


@pytest.mark.fault(67)
def test_what_no_answer_of_a_run_states_is_null_and_never_0(pair, results_of):
    answers = [RagAnswer(query.query_id, "ok", "In 1888 [1].", False, (), (), 1.0) for query in pair.queries]

    results = results_of(answers)

    citations = results.citation_metrics
    spans = citations.span_accuracy
    means = [*results.retrieval_metrics.values(), spans.precision, spans.recall, spans.f1]
    assert {(mean.value, mean.confidence_interval, mean.n_scored) for mean in means} == {(None, None, 0)}
    assert {mean.reason for mean in results.retrieval_metrics.values()} == {"no_contexts"}
    assert (spans.mean_tolerance_jaccard, spans.reason, spans.f1.reason) == (None, "no_citations", "no_citations")
    assert citations.overall_citation_accuracy.value is None
    zero = [name for name, mean in results.further_metrics.items() if mean.value == 0]
    assert [name for name in zero if not name.startswith("squad/")] == []  # of answers, which there are


def test_results_name_equal_answers_places_that_do_not_exist_and_models_that_change(pair, results_of):
    document = pair.queries[0].relevant_documents[0]
    places = [(document, 0, 5, 1), ("gone.pdf", 0, 5, 1), (document, 0, 5, 99), (document, 0, 10**6, 1)]
    cited = tuple(Citation(*place) for place in places)
    first, *others = (answered(query) for query in pair.queries)
    others = [msgspec.structs.replace(one, answer="Bilmiyorum.") for one in others]
    answers = [msgspec.structs.replace(first, answer="In 1888.", citations=cited), *others]

    results = results_of(
        [msgspec.structs.replace(one, model="m-1" if at < 30 else "m-2") for at, one in enumerate(answers)]
    )

    validation = results.citation_metrics.validation
    reasons = {"document_not_found": 1, "page_not_found": 1, "span_out_of_bounds": 1}
    assert (validation.total_citations, validation.invalid_citations, validation.validation_details) == (4, 3, reasons)
    assert results.models == {"m-1": 30, "m-2": 10}
    for start in (
        "39 of 40 answers are the same text: 'Bilmiyorum.'.",
        "3 of 4 citations name a place that does not exist: 1 document_not_found, 1 page_not_found, "
        "1 span_out_of_bounds. The first: 'gone.pdf', page 1, characters 0 to 5.",
        "The replies name 2 models: m-1 (30 answers), m-2 (10 answers); it changed at question ",
    ):
        assert any(line.startswith(start) for line in results.warnings), start


CANNED = {
    #                                   the text                                         answers   warned of
    "an error in many answers":        ("An error occurred. Please try again later.",    10,       True),
    "an error in few answers":         ("An error occurred. Please try again later.",    9,        False),
    "a refusal that is recognised":    ("The documents do not answer this question.",    20,       False),
    "a short answer":                  ("No.",                                           20,       False),
}  # fmt: skip


@pytest.mark.parametrize(("text", "count", "is_warned_of"), CANNED.values(), ids=CANNED)
def test_results_name_a_wrong_text_that_many_answers_are(text, count, is_warned_of, pair, results_of):
    answers = [answered(query) for query in pair.queries]
    canned = [at for at, query in enumerate(pair.queries) if not query.is_impossible][:count]
    for at in canned:
        answers[at] = msgspec.structs.replace(answers[at], answer=text, abstained="documents" in text)

    found = [line for line in results_of(answers).warnings if "the same text" in line]

    assert found == is_warned_of * [
        f"{count} of 40 answers are the same text, and wrong: {text!r}. If the system declines with it, name it in the "
        "setting `abstention`; else look whether it is an error that the system states as an answer."
    ]


@pytest.mark.parametrize(("question", "count"), [("Vem byggde kvarnen?", 1), ("Wer hat die Mühle gebaut?", 0)])
def test_results_say_that_refusals_of_the_language_are_unknown(workspace, question, count):
    file = workspace.root / "data" / "config" / "systems" / "recorded.config.yaml"
    file.write_text("{kind: replay, version: '1', settings: {path: answers.jsonl}}")
    pair = load_pair(workspace, RAILWAY, "recorded")
    queries = [query.model_copy(update={"query_text": question}) for query in pair.queries]

    found = list(language_warnings(replace(pair, dataset=pair.dataset._replace(queries=queries))))

    assert len(found) == count
    assert all(line.startswith("8 questions have no answer in the documents") for line in found)


SPANS = QueryScores("0", "scored", None, {"tolerance_jaccard": 0.5})
NO_SPANS = QueryScores("0", "skipped", "no_gold_spans")
JUDGED = QueryScores("0", "scored", None, {"citation_correctness": 1.0})
LOST = QueryScores("0", "failed", "bad_judge_reply")
NO_JUDGE = QueryScores("0", "skipped", "no_judge")
OVERALL = {
    # 0.30 x 0.5 + 0.30 x 1 over 0.60; each part alone is all there is.
    "spans and a judge":                      (SPANS,    JUDGED,   "ok",      ("scored", None, 0.75)),
    "a judge that failed is not left out":    (SPANS,    LOST,     "ok",      ("failed", "bad_judge_reply", None)),
    "neither":                                (NO_SPANS, NO_JUDGE, "ok",      ("skipped", "no_parts", None)),
    "no answer":                              (NO_SPANS, NO_JUDGE, "timeout", ("failed", "timeout", None)),
}  # fmt: skip


@pytest.mark.parametrize(("citations", "judged", "status", "expected"), OVERALL.values(), ids=OVERALL)
def test_overall_score_of_an_answer(citations, judged, status, expected):
    answer = RagAnswer("0", status, "x" if status == "ok" else None, False, (), (), 1.0)

    row = overall_row(answer, (citations, judged))

    assert (row.outcome, row.reason, row.scores.get("overall_citation_accuracy")) == expected


# --- the level of retrieval


def metrics(n_scored):
    return {"hit@1": Metric(value=0.5 if n_scored else None, n_scored=n_scored, n_failed=0, n_skipped=0)}


LEVELS = {
    #                                                     documents, by document, by page, level
    "few documents, each question has a page":            (19, 40, 40, "page"),
    "one question in ten has no page":                    (19, 40, 36, "page"),
    "one more than one in ten has none":                  (19, 40, 35, "document"),
    "twenty documents are enough":                        (20, 40, 40, "document"),
}  # fmt: skip


@pytest.mark.parametrize(("documents", "by_document", "by_page", "level"), LEVELS.values(), ids=LEVELS)
def test_retrieval_level(documents, by_document, by_page, level):
    assert retrieval_level(documents, metrics(by_document), metrics(by_page)) == level


@pytest.mark.parametrize(("documents", "level"), [(19, "page"), (20, "document")])
def test_retrieval_level_depends_on_the_documents_of_the_corpus(documents, level, pair, results_of):
    manifest = read_manifest(pair.paths.documents)
    present = len({row.key for row in manifest})
    more = [replace(manifest[0], key=f"k{n}", file_name=f"more-{n}.pdf") for n in range(documents - present)]
    gone = replace(manifest[0], key="gone", file_name="gone.pdf", origin="missing", pdf_sha256=None)
    write_manifest(pair.paths.documents, [*manifest, *more, gone])

    results = results_of([answered(query) for query in pair.queries])

    assert results.retrieval_level == level
    # Questions that share documents are one cluster of the intervals; impossible ones stand alone.
    clusters = {"/".join(sorted(query.relevant_documents)) for query in pair.queries if not query.is_impossible}
    f1, mrr = results.answer_quality_metrics.answerable_f1, results.retrieval_metrics["mrr"]
    assert f1.n_clusters == mrr.n_clusters == len(clusters) < 32
    assert results.citation_metrics.citation_completeness.n_clusters == len(clusters) + 8


# --- means


def query(query_id, *documents):
    return EvaluationQuery(query_id=query_id, query_text="Why?", relevant_documents=documents)


# Six questions about three documents; the last two got no answer, the fourth has no such measure.
ROWS = [
    QueryScores("0", "scored", None, {"hit": 1.0, "gain": 0.9, "custom": 0.5}),
    QueryScores("1", "scored", None, {"hit": 1.0, "gain": 0.8, "custom": 0.5}),
    QueryScores("2", "scored", None, {"hit": 0.0, "gain": 0.3}, {"custom": "broken"}),
    QueryScores("3", "skipped", "impossible"),
    QueryScores("4", "failed", "timeout"),
    QueryScores("5", "failed", "error", {}, {"custom": "error"}),
]
TABLE = ScoreTable.of(ROWS, ["hit", "gain", "custom"])
CLUSTERS = np.array([0, 0, 1, 1, 2, 2])
FIRST = CLUSTERS == 0
GROUPS = {
    "all": MeanGroup(TABLE, named(["hit", "gain", "none"]), CLUSTERS, level="document"),
    "renamed": MeanGroup(TABLE.where(FIRST), {"hit@1": "hit"}, CLUSTERS[FIRST], left_out=4),
    "custom": MeanGroup(TABLE, named(["custom"]), CLUSTERS, custom=frozenset({"custom"})),
}
MEANS = {
    #                                                            group      name      value   scored failed skipped
    "every question is scored, failed or skipped":             ("all",     "hit",     2 / 3,  3,     2,     1),
    "those left out are skipped":                              ("renamed", "hit@1",   1.0,    2,     0,     4),
    "a custom metric fails where it says so, not with every answer": ("custom", "custom", 0.5, 2,    2,     2),
    "no question has it":                                      ("all",     "none",    None,   0,     2,     4),
}  # fmt: skip


@pytest.mark.parametrize(("group", "name", "value", "scored", "failed", "skipped"), MEANS.values(), ids=MEANS)
def test_means_count_every_question(group, name, value, scored, failed, skipped):
    metric = Means(GROUPS, seed=7).one(group, name)

    assert (metric.value, metric.n_scored, metric.n_failed, metric.n_skipped) == (value, scored, failed, skipped)
    assert metric.level == GROUPS[group].level
    assert metric.reason == ("all_failed" if value is None else None)


def test_faults_are_stored_beside_the_scores(tmp_path):
    write_scores(tmp_path / "s.parquet", ROWS, ["hit", "gain", "custom"], evaluation_id="e")

    assert list(read_scores(tmp_path / "s.parquet")) == ROWS


# --- quality thresholds


def limits(workspace, **thresholds):
    path = workspace.config / "verdicts.config.yaml"
    given = yaml.safe_load(path.read_text()) if path.exists() else {}
    path.write_text(yaml.safe_dump((given or {}) | {"quality_thresholds": thresholds}))


def test_thresholds_name_what_is_broken(workspace, pair, results_of):
    limits(workspace, span_accuracy=0.99, hallucination_tolerance=1.0)

    results = results_of([answered(q, citations=[cited(c, 0.9) for c in q.citations]) for q in pair.queries])

    assert list(results.quality_thresholds) == ["span_accuracy", "hallucination_tolerance"]
    spans, hallucination = results.quality_thresholds.values()
    jaccards = [row.individual_metrics["citation_span_accuracy"] for row in results.query_results]
    scored = [value for value in jaccards if value is not None]
    assert spans.model_dump() == {
        "limit": 0.99, "bound": "least", "value": results.citation_metrics.span_accuracy.mean_tolerance_jaccard,
        "is_broken": True, "answers_scored": len(scored), "answers_broken": sum(value < 0.99 for value in scored),
        "reason": None,
    }  # fmt: skip
    # Support has no value without a support judge, and what has none is not broken.
    assert (hallucination.bound, hallucination.value, hallucination.is_broken) == ("most", None, None)
    assert (hallucination.answers_scored, hallucination.answers_broken, hallucination.reason) == (0, None, "no_value")


@pytest.mark.parametrize(
    ("threshold", "score", "is_broken"),
    [
        ("span_accuracy", 0.7, False),
        ("span_accuracy", 0.69, True),
        ("citation_validity", 0.1 * 7 - 1e-16, False),  # the last bit does not decide
        ("hallucination_tolerance", 0.7, False),
        ("hallucination_tolerance", 0.71, True),
    ],
)
def test_threshold_is_broken_by_what_is_worse(threshold, score, is_broken):
    assert breaks(threshold, score, 0.7) is is_broken


def test_thresholds_of_a_judge_are_broken_only_if_it_is_calibrated():
    limits = QualityThresholds(
        span_accuracy=0.5, citation_validity=0.9, answer_consistency=0.9, hallucination_tolerance=0.1
    )
    values = {
        "span_accuracy": 0.4,
        "citation_validity": 0.8,
        "answer_consistency": None,
        "hallucination_tolerance": 0.2,
    }

    found = {
        is_calibrated: {
            name: (one.bound, one.is_broken, one.reason)
            for name, one in check_thresholds(limits, values, is_calibrated=is_calibrated).items()
        }
        for is_calibrated in (False, True)
    }

    assert found[False] == {
        "span_accuracy": ("least", True, None),
        "citation_validity": ("least", None, "not_calibrated"),
        "answer_consistency": ("least", None, "no_value"),
        "hallucination_tolerance": ("most", None, "not_calibrated"),
    }
    broken = {"citation_validity": ("least", True, None), "hallucination_tolerance": ("most", True, None)}
    assert found[True] == found[False] | broken


def test_thresholds_are_empty_without_a_file_and_a_bad_limit_names_it(workspace):
    (workspace.config / "verdicts.config.yaml").unlink(missing_ok=True)
    assert read_quality_thresholds(workspace) == QualityThresholds()
    limits(workspace, span_accuracy=80)

    with pytest.raises(InputError, match=r"verdicts\.config\.yaml") as error:
        read_quality_thresholds(workspace)

    assert (error.value.code, error.value.field) == ("bad_format", "span_accuracy")


# --- what was measured

ENDPOINT = {"base_url": "http://127.0.0.1:9", "total_seconds": 90, "attempt_seconds": 20, "max_retries": 5}
SERVED = {
    "http": {"kind": "http", "settings": {"endpoint": ENDPOINT, "body": {"q": "{question}"}, "answer": "text"}},
    "openai": {"kind": "openai", "settings": {"endpoint": ENDPOINT, "chat": {"model": "m"}}},
    "nvidia": {"kind": "nvidia", "settings": {"rag": ENDPOINT, "ingestor": {"base_url": "http://127.0.0.1:9"}}},
}


def facts_of(pair, *given):
    facts = AnswerFacts(pair)
    for usage in given:
        facts.add(RagAnswer("0", "ok", "x", False, (), (), 1.0, usage=usage))
    return facts


def test_limits_and_memory_are_those_of_the_systems_file(workspace, evaluation, pair):
    for kind, limits in {**dict.fromkeys(SERVED, (90, 20, 5)), "embedded": (30, None, 0)}.items():
        if kind in SERVED:
            workspace.system_file("served").write_text(yaml.safe_dump(SERVED[kind]))
            pair = load_pair(workspace, RAILWAY, "served")
        else:
            pair = load_pair(workspace, RAILWAY, "embedded")
        found = metadata(evaluation, pair, SignificanceTest()).evaluation_parameters
        assert (found["timeout_seconds"], found.get("attempt_timeout_seconds"), found["max_retries"]) == limits, kind
        measured = performance(workspace, evaluation, pair, facts_of(pair, Usage()), JudgementCounts())
        assert measured.resource_usage_of == ("evaluation" if kind in SERVED else "evaluation_and_system")
        # A system that costs nothing uses no tokens; of others nobody counted them.
        assert measured.api_usage["total_tokens"] == (None if kind in SERVED else 0)


def test_recording_counts_only_the_tokens_that_it_states(workspace, evaluation, tmp_path):
    recording = {"kind": "replay", "settings": {"path": str(tmp_path / "answers.jsonl")}}
    workspace.system_file("recorded").write_text(yaml.safe_dump(recording))
    pair = load_pair(workspace, RAILWAY, "recorded")

    stated = performance(workspace, evaluation, pair, facts_of(pair, Usage(30, 0.5), NO_USAGE), JudgementCounts())
    nothing = performance(workspace, evaluation, pair, facts_of(pair, NO_USAGE, NO_USAGE), JudgementCounts())

    assert (stated.api_usage["total_tokens"], stated.api_usage["answers_without_tokens"]) == (30, 1)
    assert (nothing.api_usage["total_tokens"], nothing.api_usage["estimated_cost_usd"]) == (None, None)


USAGES = {
    "nobody counted tokens":     ([Usage(), Usage()],                           (None, None, None, None, 2.0, 2.0)),
    "the server states a cost":  ([Usage(0, 0.5), Usage()],                     (None, None, None, 0.5, 2.0, 2.0)),
    "nothing was asked for":     ([NO_USAGE],                                   (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)),
}  # fmt: skip


def test_uncounted_tokens_and_unknown_cost_are_not_zero(workspace, evaluation):
    workspace.system_file("served").write_text(yaml.safe_dump(SERVED["openai"]))
    pair = load_pair(workspace, RAILWAY, "served")
    tokens = ("total_tokens", "prompt_tokens", "completion_tokens")
    names = (*tokens, "estimated_cost_usd", "total_requests", "answers_without_tokens")
    for what, (given, expected) in USAGES.items():
        usage = performance(workspace, evaluation, pair, facts_of(pair, *given), JudgementCounts()).api_usage

        assert tuple(usage[name] for name in names) == expected, what


def test_judge_that_answers_may_have_talked_over_is_said():
    counts = JudgementCounts()
    for number in range(20):
        counts.add(Judgement(str(number), "completed", flags=("judges_disagree",) if number < 2 else ()))
    assert counts.warnings() == [
        "the lexical judge is sure of the opposite verdict on 2 of 20 judged answers (judges_disagree), and 0 have texts "
        "that address the judge (injection_suspect): read some of them in the report"
    ]
    counts.add(Judgement("20", "completed"))
    assert counts.warnings() == []  # two judges never agree on everything


def test_unrecorded_latencies_are_not_zero(workspace, pair):
    rows = [{"id": query.query_id, "answer": "x"} for query in pair.queries]
    (workspace.config / "systems" / "recorded.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    change = {"kind": "replay", "settings": {"path": "recorded.jsonl"}}
    workspace.system_file("recorded").write_text(yaml.safe_dump(change))

    results = EvaluationResults.read(evaluate(workspace, load_pair(workspace, RAILWAY, "recorded"))[1].path)

    measured = results.performance_metrics
    assert (results.summary.average_latency_ms, measured.latency_reason) == (None, "no_latencies")
    assert {*measured.latency_stats.values(), *measured.latency_intervals.values()} == {None}
    assert {row.latency_ms for row in results.query_results} == {None}
    (shown,) = write_leaderboard(workspace).records()
    shown = shown["metrics"]["latency_p50_ms"]
    assert (shown["value"], shown["n"], shown["reason"]) == (None, 0, "no_latencies")
    assert (write_report(workspace).parent / "runs" / results.evaluation_id / "index.html").exists()
