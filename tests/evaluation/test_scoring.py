"""Scores of answers written by hand, and the documents and sentences that names and places mean."""

from dataclasses import replace
from math import log2

import pytest

from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.evaluation.corpus_names import CorpusFiles, CorpusTexts, retrieved_documents
from rag_eval_pipeline.evaluation.scoring import score_answers, score_citations, score_retrieval
from rag_eval_pipeline.systems.base import PageText, RetrievedPassage
from tests.evaluation.conftest import answered


def document(file_name, key):
    return CorpusDocument(key, file_name, None, None, (), "rendered", "b", "p", "r", 1)


FILES = CorpusFiles(None, [document("Harbour#A.pdf", "h"), document("Harbour#B.pdf", "h"), document("Tide.pdf", "t")])
NAMES = {
    #                                    given             means
    "a file":                           ("Tide.pdf",      "Tide.pdf"),
    "its bare stem":                    ("Tide",          "Tide.pdf"),
    "another fragment of one page":     ("Harbour#B.pdf", "Harbour#A.pdf"),
    "a bare stem with a fragment":      ("Harbour#B",     "Harbour#A.pdf"),
    "never a prefix":                   ("Tid",           "Tid"),
    "a file that is not in the corpus": ("Other.pdf",     "Other.pdf"),
}  # fmt: skip


def test_corpus_file_that_a_name_means():
    assert {what: FILES.canonical(given) for what, (given, _) in NAMES.items()} == {
        what: means for what, (_, means) in NAMES.items()
    }


#        0         1         2         3
#        0123456789012345678901234567890123456789
FIRST = "The tower is old. It was built in 1889."
SECOND = "Nobody lives there. Birds do."
TEXTS = CorpusTexts([PageText("b.pdf", 2, 40, SECOND), PageText("b.pdf", 1, 0, FIRST), PageText("c.pdf", 1, 0, " ")])
PLACES = {
    "a part is widened":                 ("b.pdf", 22, 30, "It was built in 1889."),
    "one letter of each":                ("b.pdf", 16, 19, "The tower is old. It was built in 1889."),
    "over a page break":                 ("b.pdf", 30, 45, "It was built in 1889. Nobody lives there."),
    "a page without words":              ("c.pdf", 0, 5, None),
    "a document that is not there":      ("d.pdf", 0, 5, None),
}  # fmt: skip


def test_cited_texts_are_whole_sentences():
    assert {what: TEXTS.cited(*place) for what, (*place, _) in PLACES.items()} == {
        what: expected for what, (*_, expected) in PLACES.items()
    }


def passage(document, rank, page=1):
    return RetrievedPassage(document, page, "text", 1.0 / rank, rank)


@pytest.fixture
def score(evaluation, pair):
    """Scores one hand-written answer to one question; the other questions abstain."""

    def run(scorer, answer):
        others = [answered(q.query_id, abstained=True) for q in pair.queries]
        evaluation.write_answers([answer if o.query_id == answer.query_id else o for o in others])
        return next(row for row in scorer(evaluation, pair).rows if row.query_id == answer.query_id)

    return run


def first(pair, wanted):
    return next(query for query in pair.queries if wanted(query))


def test_retrieval_counts_passages_by_their_documents_best_rank(pair, score):
    query = first(pair, lambda q: len(q.relevant_documents) == 1 and not q.is_impossible)
    wrong = next(name for q in pair.queries for name in q.relevant_documents if name not in query.relevant_documents)
    contexts = [passage(wrong, 1), passage(wrong, 2), passage(query.relevant_documents[0], 3)]

    row = score(score_retrieval, answered(query.query_id, contexts=contexts))

    # Two documents were retrieved, the right one second: three passages would have put it third.
    assert (row.scores["hit@1"], row.scores["hit@3"], row.scores["mrr"]) == (0.0, 1.0, 0.5)


GRADES = {
    #                     grades of three relevant documents, ranked 2nd, 1st and 3rd     hit@1, nDCG@5
    "as in qrels":        ({0: 3, 1: 1, 2: 2}, (1.0, (1 + 3 / log2(3) + 2 / 2) / (3 + 2 / log2(3) + 1 / 2))),
    "some not stated":    ({0: 3},             (1.0, (1 + 3 / log2(3) + 1 / 2) / (3 + 1 / log2(3) + 1 / 2))),
    "0 is not relevant":  ({0: 2, 1: 0, 2: 0}, (0.0, (2 / log2(3)) / 2)),
    "none is relevant":   ({0: 0, 1: 0, 2: 0}, (None, None)),
    "no whole numbers":   ({0: "3", 1: True},  (1.0, 1.0)),
    "beyond 64 bits":     ({0: 2**63, 1: -(10**25)}, (1.0, 1.0)),
}  # fmt: skip


def test_retrieval_is_scored_by_the_grades_of_documents(evaluation, pair):
    names = list(dict.fromkeys(name for query in pair.queries for name in query.relevant_documents))[:3]
    query = first(pair, lambda q: not q.is_impossible)
    contexts = [passage(names[place], rank) for rank, place in enumerate((1, 0, 2), 1)]
    evaluation.write_answers([answered(q.query_id, contexts=contexts) for q in pair.queries])
    for what, (grades, expected) in GRADES.items():
        stated = {"relevance": {names[place]: grade for place, grade in grades.items()}}
        graded = query.model_copy(update={"relevant_documents": tuple(names), "metadata": stated})
        queries = [graded if one.query_id == query.query_id else one for one in pair.queries]
        asked = replace(pair, dataset=pair.dataset._replace(queries=queries))

        row = next(row for row in score_retrieval(evaluation, asked).rows if row.query_id == query.query_id)

        assert (row.scores.get("hit@1"), row.scores.get("ndcg@5")) == pytest.approx(expected), what
        assert (row.reason == "no_relevant_documents") is (expected[0] is None), what


def test_page_that_is_not_stated_is_a_miss_unless_half_of_the_run_states_none(evaluation, pair):
    asked, other = [query for query in pair.queries if query.citations][:2]
    wrong = next(name for q in pair.queries for name in q.relevant_documents if name not in asked.relevant_documents)

    def page_hit(query, contexts):
        evaluation.write_answers([answered(q.query_id, contexts=contexts if q == asked else ()) for q in pair.queries])
        row = next(row for row in score_retrieval(evaluation, pair).rows if row.query_id == query.query_id)
        assert row.scores["hit@1"] == 0.0
        return row.scores.get("page/hit@1")

    for pages, expected in (((1, None, 1), 0.0), ((None, 1, 1), 0.0), ((1, None), None), ((None,) * 3, None)):
        assert page_hit(asked, [passage(wrong, rank, page) for rank, page in enumerate(pages, 1)]) == expected, pages
    for page, expected in ((1, 0.0), (None, None)):  # of an answer without passages
        assert page_hit(other, [passage(asked.relevant_documents[0], 1, page)]) == expected, page


def test_impossible_question_is_answered_right_by_abstaining(pair, score):
    query = first(pair, lambda q: q.is_impossible)
    for abstained, expected in ((True, 1.0), (False, 0.0)):
        answer = answered(query.query_id, "The documents do not say.", abstained=abstained)

        assert score(score_answers, answer).scores == {
            "exact_match": expected, "f1": expected, "squad/exact_match": 0.0, "squad/f1": 0.0,
            "abstained": float(abstained),
        }  # fmt: skip
        for scorer in (score_retrieval, score_citations):
            row = score(scorer, answer)
            assert (row.outcome, row.reason, row.scores) == ("skipped", "impossible", {})


def test_answer_that_reads_like_a_refusal_is_right_where_it_is_the_gold_answer(pair, score):
    query = first(pair, lambda q: not q.is_impossible)
    gold = query.accepted_answers[0].upper()

    row = score(score_answers, answered(query.query_id, f"{gold} [x.pdf:1:0-9]", abstained=True))

    assert [row.scores[name] for name in ("exact_match", "f1", "abstained")] == [1.0, 1.0, 0.0]
    assert score(score_answers, answered(query.query_id, "Unknown", abstained=True)).scores["exact_match"] == 0.0


MARKED = {
    #                            answer                                           gold           exact match   as the official scorer
    "as it is":                 ("31 metres.",                                    "31 metres",   1.0,          1.0),
    "a number":                 ("31 metres[1]",                                  "31 metres",   1.0,          0.0),
    "a place":                  ("31 metres [x.pdf:1:0-9]",                       "31 metres",   1.0,          0.0),
    "a file":                   ("31 metres [dock.md]",                           "31 metres",   1.0,          0.0),
    "a link":                   ("[31 metres](https://ports.example/dock)【4†a】", "31 metres",   1.0,          0.0),
    "emphasis":                 ("**31** metres",                                 "31 metres",   1.0,          1.0),
    "a fence":                  ("```text\n31 metres\n```",                       "31 metres",   1.0,          0.0),
    "HTML":                     ("<p>31 metres</p>",                              "31 metres",   1.0,          0.0),
    "brackets that are gold":   ("The vector [1, 2].",                            "vector [1, 2]", 1.0,        1.0),
    "brackets that are wrong":  ("The vector [3, 4].",                            "vector [1, 2]", 0.0,        0.0),
}  # fmt: skip


def test_marks_in_an_answer_are_not_words_of_it(evaluation, pair):
    cases = dict(
        zip([query.query_id for query in pair.queries if not query.is_impossible], MARKED.items(), strict=False)
    )
    assert len(cases) == len(MARKED)
    queries = [
        query.model_copy(update={"metadata": {"answers": [cases[query.query_id][1][1]]}})
        if query.query_id in cases
        else query
        for query in pair.queries
    ]
    asked = replace(pair, dataset=pair.dataset._replace(queries=queries))
    evaluation.write_answers(
        answered(one.query_id, cases[one.query_id][1][0] if one.query_id in cases else "x") for one in queries
    )

    rows = {row.query_id: row.scores for row in score_answers(evaluation, asked).rows}

    for query_id, (what, (_, _, *expected)) in cases.items():
        assert [rows[query_id]["exact_match"], rows[query_id]["squad/exact_match"]] == expected, what


# --- documents that the corpus does not have

WARNING = "0 of {} retrieved passages name a document of the corpus, so retrieval is not scored [{}]."
RUNS = {
    #                        documents of each answer's passages        reasons without a score                    warning
    "unknown documents":    ([["kb/Tides", "VPN"], []],                 ["unknown_documents"] * 2,                 f"{WARNING.format(2, 'unknown_documents')} Returned: 'kb/Tides'; the corpus has 'Tide.pdf'. Check the document names in the recording; ids and titles are mapped to files by contexts.names."),
    "no documents named":   ([[""], []],                                ["no_documents_named"] * 2,                f"{WARNING.format(1, 'no_documents_named')} They state no document at all. Record it as `document` of each passage."),
    "no passages":          ([[], []],                                  ["no_contexts"] * 2,                       "None of 2 answers states retrieved passages, so retrieval is not scored [no_contexts]."),
    "half of them known":   ([["x"], ["Tide"], []],                     ["unknown_documents"] * 3,                 "1 of 2 retrieved passages name a document of the corpus, so retrieval is not scored [unknown_documents]. Returned: 'x'; the corpus has 'Harbour#A.pdf'. Check the document names in the recording; ids and titles are mapped to files by contexts.names."),
    "most of them known":   ([["x"], ["x", "Tide", "Tide", "Tide"], []], ["unknown_documents", None, None],        None),
    "known documents":      ([["Tide.pdf"]],                            [None],                                    None),
}  # fmt: skip


def test_retrieval_is_scored_only_if_some_document_is_known():
    for what, (documents, reasons, warning) in RUNS.items():
        answers = [answered("0", contexts=[passage(name, 1) for name in names]) for names in documents]

        found = retrieved_documents(answers, FILES, kind="replay")

        assert [found.skip_reason(answer) for answer in answers] == reasons, what
        assert warning is None or found.warnings() == [warning], what
        assert found.check().passed is (what in {"known documents", "no passages"}), what


def test_pages_beyond_the_end_of_a_document_are_warned_of():
    found = retrieved_documents(
        [answered("0", contexts=[passage("Tide.pdf", 1, 1), passage("Tide.pdf", 2, 2)])], FILES, kind="http"
    )

    assert found.warnings() == [
        "1 of 2 stated pages are beyond the end of their document, such as page 2 of 'Tide.pdf', which has 1. Does "
        "page_base say how the system counts?"
    ]


def test_unknown_documents_hold_their_rank_and_leave_a_reason(pair, results_of, score):
    query = first(pair, lambda q: not q.is_impossible)
    unknown, known = passage("kb/Line opening", 1), passage(query.relevant_documents[0], 2)

    contexts = [unknown, known, passage(query.relevant_documents[0], 3)]
    row = score(score_retrieval, answered(query.query_id, contexts=contexts))
    hit = results_of([answered(query.query_id, contexts=[unknown])]).retrieval_metrics["hit@1"]

    assert (row.scores["hit@1"], row.scores["hit@3"]) == (0.0, 1.0)
    assert (hit.value, hit.reason) == (None, "unknown_documents")
