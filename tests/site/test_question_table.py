"""What questions can be filtered by, and the means of their parts."""

from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.site.question_table import Facet, facets, slices

QUERIES = [
    EvaluationQuery(
        query_id=str(n), query_text=f"Question {n}?", relevant_documents=documents, query_type=kind,
        metadata={"section": section, "source_id": f"HR-{n}", "note": f"text {n}", "is_impossible": not documents},
    )
    for n, (documents, kind, section) in enumerate(
        [
            (["a.pdf"], "factual", "tariffs"), (["a.pdf"], "factual", "tariffs"), (["b.pdf"], "temporal", "staff"),
            (["a.pdf", "b.pdf"], "factual", "staff"), ([], "factual", "staff"), ([], "factual", "staff"),
        ]
    )
]  # fmt: skip


def test_facets_are_what_divides_the_questions():
    found = {facet.name: (facet.words, facet.values) for facet in facets(QUERIES)}

    assert found == {
        "type": (["factual", "temporal"], [0, 0, 1, 0, 0, 0]),
        "answerable": (["no", "yes"], [1, 1, 1, 1, 0, 0]),
        "document": (["2 documents", "a.pdf", "b.pdf"], [1, 1, 2, 0, None, None]),
        "meta.section": (["staff", "tariffs"], [1, 1, 0, 0, 0, 0]),
    }
    assert facets([None, None]) == []


def test_facet_has_a_word_for_each_value_also_where_they_begin_alike():
    long = [f"{'x' * 70}{end}" for end in "abab"]
    queries = [
        EvaluationQuery(query_id=str(n), query_text="?", relevant_documents=(), metadata={"topic": value})
        for n, value in enumerate(long)
    ]

    [topic] = [facet for facet in facets(queries) if facet.name == "meta.topic"]

    assert topic.values == [0, 1, 0, 1]
    assert topic.words[1] == f"{topic.words[0]} (2)"


def test_slices_shown_of_many_are_not_those_without_scores():
    facet = Facet("meta.topic", "Topic", [f"t{n:02}" for n in range(14)], [n for n in range(14)])
    scores = [None if n < 7 else 0.5 for n in range(14)]

    found = slices(facet, [None] * 14, [scores])

    assert sum(one.means[0] is not None for one in found) == 7
    assert len(found) == 12


def test_slices_are_means_of_the_scored_questions_of_each_part():
    [section] = [facet for facet in facets(QUERIES) if facet.name == "meta.section"]
    scores = [0.0, 0.5, 1.0, None, 1.0, 0.0]

    found = slices(section, [-1.0, -0.5, 0.0, None, None, None], [scores, [None] * 6])

    assert [(one.word, one.n, one.means, one.change) for one in found] == [
        ("staff", 4, [2 / 3, None], 0.0), ("tariffs", 2, [0.25, None], -0.75),
    ]  # fmt: skip


def test_display_id_is_that_of_the_source():
    assert QUERIES[0].display_id == "HR-0"
    assert EvaluationQuery(query_id="7", query_text="Q?", relevant_documents=[]).display_id == "7"
