"""Every measure of a question has a row that says what it is, under a name that no other measure has."""

import pytest

from rag_eval_pipeline.metrics.claim_labels import RAGCHECKER_MEASURES
from rag_eval_pipeline.metrics.claims import CLAIM_MEASURES
from rag_eval_pipeline.metrics.question_measures import definitions
from rag_eval_pipeline.metrics.question_scores import (
    answer_scores,
    citation_scores,
    context_scores,
    joint_scores,
    overall_scores,
)
from rag_eval_pipeline.metrics.registry import metric_table, metrics
from rag_eval_pipeline.metrics.span_columns import Citation, Span
from rag_eval_pipeline.metrics.span_matching import SPAN_MEASURES, TOKEN_MEASURES
from rag_eval_pipeline.metrics.span_tokens import tokens_of

ROWS = {definition.metric.name: definition.metric for definition in definitions()}


def cite(start, end):
    return Citation("a.pdf", None, Span(start, end))


GOLD, CITED = [cite(0, 10), cite(20, 30)], [cite(0, 12), cite(50, 60)]
SCORES = {
    "citations": citation_scores([GOLD], [CITED], texts={"a.pdf": tokens_of("word " * 20)})[0],
    "answers": answer_scores("the duke", ["duke Rollo"], language="de"),
    "joint": joint_scores("the duke", ["duke Rollo"], CITED, GOLD),
    "contexts": context_scores(CITED, GOLD),
    "overall": overall_scores({"tolerance_jaccard": 0.5, "hallucination_vs_citations": 0.2}),
}


@pytest.mark.parametrize("room", SCORES)
def test_every_score_has_a_row_and_lies_in_its_range(room):
    for name, score in SCORES[room].items():
        assert ROWS[name].range.low <= score <= ROWS[name].range.high


def test_every_measure_that_is_computed_elsewhere_has_a_row():
    ragchecker = {f"ragchecker/{name}" for name in RAGCHECKER_MEASURES}

    assert {*SPAN_MEASURES, *TOKEN_MEASURES, *CLAIM_MEASURES, *ragchecker} <= set(ROWS)


def test_no_name_is_taken_by_another_room():
    own = [name for row in ROWS.values() for name in (row.name, *row.aliases)]
    others = {name for row in metrics() if row.name not in ROWS for name in (row.name, *row.aliases)}

    assert len(own) == len(set(own))
    assert not others & set(own)


def test_rows_are_complete():
    for row in ROWS.values():
        assert row.meaning.endswith(".")
        assert row.source
        assert row.needs
        assert row.levels
    assert len(metric_table(list(ROWS.values())).splitlines()) == 2 + len(ROWS)


def test_scores_of_one_question():
    assert SCORES["citations"]["exact_jaccard"] == (10 / 12) / 2
    assert SCORES["citations"]["facts_recall"] == SCORES["citations"]["facts_precision"] == 1 / 2
    assert SCORES["contexts"]["context_char_recall"] == 10 / 20
    assert SCORES["overall"]["overall_coverage"] == pytest.approx(0.45)


def test_an_impossible_question_has_exact_match_and_f1_alone():
    assert answer_scores("", []) == {"exact_match": 1.0, "f1": 1.0}
    assert joint_scores("", [], [], []) == context_scores([], []) == overall_scores({}) == {}


def test_the_best_accepted_answer_counts():
    assert answer_scores("Rollo", ["the duke", "Rollo"])["hotpot_em"] == 1.0
