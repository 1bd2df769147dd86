"""Results of answers and scores: means, shares, thresholds, and what was measured beside them."""

import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
import yaml

from examples.mock_rag_server import mock_rag_server
from rag_eval_pipeline.corpus.manifest import read_manifest, write_manifest
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.means import MeanGroup, Means, ScoredRun, named, question_clusters, retrieval_level
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.results import metadata, performance, read_quality_thresholds
from rag_eval_pipeline.evaluation.runs import SCORE_FILES, load_evaluation
from rag_eval_pipeline.evaluation.storage import QueryScores, read_scores, write_scores
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.formats.results import EvaluationResults, Metric
from rag_eval_pipeline.formats.validation import validate
from rag_eval_pipeline.judges.trust_card import ConfusionRecord, KappaRecord, TaskTrust, TrustCard, write_trust_card
from rag_eval_pipeline.metrics.claims import QualityThresholds
from rag_eval_pipeline.metrics.intervals import clustered_wilson_interval, summarise, wilson_interval
from rag_eval_pipeline.report.site import write_report
from rag_eval_pipeline.reporting.leaderboard import write_leaderboard
from rag_eval_pipeline.reporting.regressions import aggregation_checks, write_comparisons
from rag_eval_pipeline.systems.base import NO_USAGE, Citation, RagAnswer, RetrievedPassage, Usage
from tests.evaluation import conftest
from tests.evaluation.conftest import RAILWAY, change_defaults


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
    # Retrieval skips impossible questions, answered or not.
    for metric in (results.retrieval_metrics["mrr"], results.page_retrieval_metrics["mrr"]):
        assert (metric.n_scored, metric.n_failed, metric.n_skipped, metric.coverage) == (31, 1, 8, 31 / 32)


@pytest.mark.parametrize("evaluation_id", ["..", "../runs", "by_pair/skarn-railway", "/etc", ".cache"])
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
    assert (overall.value, coverage.value) == pytest.approx((0.5, 0.30))
    assert (overall.n_scored, overall.n_failed, overall.n_skipped) == (2, 38, 0)


def test_span_mean_without_a_scored_span_has_a_reason(pair, results_of):
    impossible = next(query for query in pair.queries if query.is_impossible)

    spans = results_of([answered(impossible)]).citation_metrics.span_accuracy

    assert (spans.mean_exact_jaccard, spans.true_spans, spans.reason) == (None, 0, "no_gold_spans")


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
    plain = QueryScores("0", "scored")

    [row] = ScoredRun([query("0", "a.pdf")], [answer], [plain], [citations], [plain], [judged]).overall

    assert (row.outcome, row.reason, row.scores.get("overall_citation_accuracy")) == expected


def test_abstention_has_all_rates_and_counts_failures_apart(pair, results_of):
    declined = sorted((query.query_id for query in pair.queries if query.is_impossible), key=int)
    answers = [
        msgspec.structs.replace(answered(query), abstained=query.query_id in declined)
        for query in pair.queries
        if query.query_id != declined[0]
    ]

    found = results_of(answers).answer_quality_metrics.abstention

    assert (found.unanswerable_abstained, found.unanswerable_failed, found.answerable_failed) == (7, 1, 0)
    for rate, value in {
        "precision": 1.0, "recall": 1.0, "f1": 1.0, "over_refusal_rate": 0.0, "false_answer_rate": 0.0,
        "abstention_rate": 7 / 39, "accuracy": 1.0,
    }.items():  # fmt: skip
        metric = getattr(found, rate)
        assert metric.value == value
        assert metric.confidence_interval[0] <= value <= metric.confidence_interval[1]
        assert metric.n_scored + metric.n_failed + metric.n_skipped == 40


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


def test_questions_about_the_same_documents_are_one_cluster():
    queries = [query("0", "a.pdf"), query("1", "b.pdf", "a.pdf"), query("2", "a.pdf", "b.pdf"), query("3"), query("4")]

    clusters = question_clusters(queries)

    assert clusters["1"] == clusters["2"]
    assert len({clusters[name] for name in "01234"}) == 4  # a, a and b, and the two without documents


# Six questions about three documents; the last two got no answer, the fourth has no such measure.
ROWS = [
    QueryScores("0", "scored", None, {"hit": 1.0, "gain": 0.9, "custom": 0.5}),
    QueryScores("1", "scored", None, {"hit": 1.0, "gain": 0.8, "custom": 0.5}),
    QueryScores("2", "scored", None, {"hit": 0.0, "gain": 0.3}, {"custom": "broken"}),
    QueryScores("3", "skipped", "impossible"),
    QueryScores("4", "failed", "timeout"),
    QueryScores("5", "failed", "error", {}, {"custom": "error"}),
]
CLUSTERS = {"0": "a", "1": "a", "2": "b", "3": "b", "4": "c", "5": "c"}
GROUPS = {
    "all": MeanGroup(ROWS, named(["hit", "gain", "none"]), level="document"),
    "renamed": MeanGroup(ROWS[:2], {"hit@1": "hit"}, left_out=4),
    "custom": MeanGroup(ROWS, named(["custom"]), custom=frozenset({"custom"})),
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
    metric = Means(GROUPS, CLUSTERS, seed=7).one(group, name)

    assert (metric.value, metric.n_scored, metric.n_failed, metric.n_skipped) == (value, scored, failed, skipped)
    assert metric.level == GROUPS[group].level
    assert metric.reason == ("all_failed" if value is None else None)


def test_questions_of_one_document_count_once_in_the_interval():
    means = Means(GROUPS, CLUSTERS, seed=7)
    shared, graded = means.one("all", "hit"), means.one("all", "gain")

    expected, _ = clustered_wilson_interval(np.array([1.0, 1.0, 0.0]), ["a", "a", "b"])
    assert shared.confidence_interval == expected != wilson_interval(2, 3)
    assert shared.n_clusters == graded.n_clusters == 2
    alone = summarise([0.9, 0.8, 0.3], clusters=["a", "a", "b"], seed=7)
    assert graded.confidence_interval == pytest.approx(alone.confidence_interval, abs=1e-12)
    assert "2 clusters" in graded.method
    assert list(means.all_of("all")) == ["hit", "gain", "none"]


def test_faults_are_stored_beside_the_scores(tmp_path):
    write_scores(tmp_path / "s.parquet", ROWS, ["hit", "gain", "custom"], evaluation_id="e")

    assert read_scores(tmp_path / "s.parquet") == ROWS


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


def vouch_for(workspace, pair):
    """Write a card that says that people's labels calibrate the judge for support on this benchmark."""
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


def test_thresholds_are_broken_by_a_calibrated_judge_only(workspace):
    limits(workspace, span_accuracy=0.0, citation_validity=1.0, answer_consistency=1.0, hallucination_tolerance=0.0)
    (workspace.config / "systems" / "wrong.py").write_text(WRONG)
    workspace.system_file("wrong").write_text("kind: python\nsettings: {callable: 'wrong:answer', path: [.]}\n")
    with mock_rag_server() as server:
        settings = {"endpoint": {"base_url": f"{server.url}/v1"}, "chat": {"model": "mock-judge"}}
        change_defaults(workspace, judge={"kind": "openai", "settings": settings})
        pair = load_pair(workspace, RAILWAY, "wrong")
        found = {}
        for calibrated in (False, True):
            if calibrated:
                vouch_for(workspace, pair)
            held = EvaluationResults.read(evaluate(workspace, pair)[1].path).quality_thresholds
            checks = {one.name: one for one in aggregation_checks(workspace, write_comparisons(workspace))}
            found[calibrated] = held, checks["quality_thresholds_are_met"].numbers["which"]

    held, which = found[False]
    judged = {name: one for name, one in held.items() if name != "span_accuracy"}
    assert all(one.value is not None for one in judged.values())
    assert {(o.is_broken, o.answers_broken, o.reason) for o in judged.values()} == {(None, None, "not_calibrated")}
    assert which == []
    held, which = found[True]
    assert {name for name, one in held.items() if one.is_broken} == judged.keys()
    assert all(held[name].answers_broken and held[name].reason is None for name in judged)
    assert {line.split(": ")[1].split()[0] for line in which} == judged.keys()


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


def usages(*given):
    return [RagAnswer("0", "ok", "x", False, (), (), 1.0, usage=usage) for usage in given]


def test_limits_and_memory_are_those_of_the_systems_file(workspace, evaluation, pair):
    for kind, limits in {**dict.fromkeys(SERVED, (90, 20, 5)), "embedded": (30, None, 0)}.items():
        if kind in SERVED:
            workspace.system_file("served").write_text(yaml.safe_dump(SERVED[kind]))
            pair = load_pair(workspace, RAILWAY, "served")
        else:
            pair = load_pair(workspace, RAILWAY, "embedded")
        found = metadata(workspace, evaluation, pair).evaluation_parameters
        assert (found["timeout_seconds"], found.get("attempt_timeout_seconds"), found["max_retries"]) == limits, kind
        measured = performance(workspace, evaluation, pair, usages(Usage()))
        assert measured.resource_usage_of == ("evaluation" if kind in SERVED else "evaluation_and_system")
        # A system that costs nothing uses no tokens; of others nobody counted them.
        assert measured.api_usage["total_tokens"] == (None if kind in SERVED else 0)


USAGES = {
    "nobody counted tokens":     ([Usage(), Usage()],                           (None, None, None, 2.0, 2.0)),
    "nothing was asked for":     ([NO_USAGE],                                   (0.0, 0.0, 0.0, 0.0, 0.0)),
}  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), USAGES.values(), ids=USAGES)
def test_uncounted_tokens_are_not_zero(given, expected, workspace, evaluation):
    workspace.system_file("served").write_text(yaml.safe_dump(SERVED["openai"]))

    usage = performance(workspace, evaluation, load_pair(workspace, RAILWAY, "served"), usages(*given)).api_usage

    names = ("total_tokens", "prompt_tokens", "completion_tokens", "total_requests", "answers_without_tokens")
    assert tuple(usage[name] for name in names) == expected


@pytest.mark.parametrize(("every", "latency"), [(41, None), (2, 10.0)], ids=["no latency", "half of them"])
def test_unrecorded_latencies_are_not_zero(every, latency, workspace, pair):
    rows = [
        {"id": query.query_id, "answer": "x"} | ({"latency_ms": 10.0} if number % every == 1 and every < 41 else {})
        for number, query in enumerate(pair.queries)
    ]
    (workspace.config / "systems" / "recorded.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    change = {"kind": "replay", "settings": {"path": "recorded.jsonl"}}
    workspace.system_file("recorded").write_text(yaml.safe_dump(change))

    results = EvaluationResults.read(evaluate(workspace, load_pair(workspace, RAILWAY, "recorded"))[1].path)

    measured = results.performance_metrics
    assert (measured.latency_stats["min"], results.summary.average_latency_ms) == (latency, latency)
    assert measured.latency_reason == ("no_latencies" if latency is None else None)
    if latency is None:
        assert {*measured.latency_stats.values(), *measured.latency_intervals.values()} == {None}
        assert {row.latency_ms for row in results.query_results} == {None}
        (shown,) = write_leaderboard(workspace).records()
        shown = shown["metrics"]["latency_p50_ms"]
        assert (shown["value"], shown["n"], shown["reason"]) == (None, 0, "no_latencies")
        assert (write_report(workspace).parent / "runs" / results.evaluation_id / "index.html").exists()
