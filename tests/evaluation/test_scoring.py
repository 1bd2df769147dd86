"""What a question's scores are, on answers written by hand."""

from datetime import UTC, datetime

import pytest

from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.evaluation.corpus import CorpusFiles
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.evaluation.scoring import score_answers, score_citations, score_retrieval
from rag_eval_pipeline.evaluation.storage import write_responses
from rag_eval_pipeline.systems.base import Citation, RagAnswer, RetrievedPassage


def document(file_name, key):
    return CorpusDocument(key, file_name, None, None, (), "rendered", "b", "p", "r", 1)


@pytest.fixture
def files(tmp_path):
    return CorpusFiles(
        None, [document("Harbour#A.pdf", "h"), document("Harbour#B.pdf", "h"), document("Tide.pdf", "t")]
    )


NAMES = {
    #                                    given             means
    "a file":                           ("Tide.pdf",      "Tide.pdf"),
    "its bare stem":                    ("Tide",          "Tide.pdf"),
    "another fragment of one page":     ("Harbour#B.pdf", "Harbour#A.pdf"),
    "a bare stem with a fragment":      ("Harbour#B",     "Harbour#A.pdf"),
    "never a prefix":                   ("Tid",           "Tid"),
    "a file that is not in the corpus": ("Other.pdf",     "Other.pdf"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "means"), NAMES.values(), ids=NAMES)
def test_which_file_a_name_means(given, means, files):
    assert files.canonical(given) == means


def passage(document, rank, page=1):
    return RetrievedPassage(document, page, "text", 1.0 / rank, rank)


def answered(query_id, text="x", *, abstained=False, contexts=(), citations=()):
    return RagAnswer(query_id, "ok", text, abstained, tuple(contexts), tuple(citations), 1.0)


@pytest.fixture
def pair(workspace):
    return load_pair(workspace, "skarn-railway", "embedded")


@pytest.fixture
def score(workspace, pair):
    """Scores one hand-written answer to one question; the other questions abstain."""
    report = ask(workspace, pair, now=datetime(2026, 1, 1, tzinfo=UTC))
    evaluation = load_evaluation(workspace, report.evaluation_id)

    def run(scorer, answer):
        others = [answered(q.query_id, abstained=True) for q in pair.queries]
        write_responses(evaluation.responses, [answer if o.query_id == answer.query_id else o for o in others])
        return next(row for row in scorer(evaluation, pair).rows if row.query_id == answer.query_id)

    return run


def first(pair, wanted):
    return next(query for query in pair.queries if wanted(query))


def test_passages_count_by_their_documents_best_rank(pair, score):
    query = first(pair, lambda q: len(q.relevant_documents) == 1 and not q.is_impossible)
    wrong = next(name for q in pair.queries for name in q.relevant_documents if name not in query.relevant_documents)
    contexts = [passage(wrong, 1), passage(wrong, 2), passage(query.relevant_documents[0], 3)]

    row = score(score_retrieval, answered(query.query_id, contexts=contexts))

    # Two documents were retrieved, the right one second: three passages would have put it third.
    assert (row.scores["hit@1"], row.scores["hit@3"], row.scores["mrr"]) == (0.0, 1.0, 0.5)


def test_both_documents_of_a_two_document_question_are_needed_for_full_recall(pair, score):
    query = first(pair, lambda q: len(q.relevant_documents) == 2)

    row = score(score_retrieval, answered(query.query_id, contexts=[passage(query.relevant_documents[1], 1)]))

    assert (row.scores["hit@1"], row.scores["recall@5"], row.scores["precision@5"]) == (1.0, 0.5, 0.2)


def test_an_impossible_question_has_no_retrieval_and_no_citation_score(pair, score):
    query = first(pair, lambda q: q.is_impossible)

    for scorer in (score_retrieval, score_citations):
        row = score(scorer, answered(query.query_id))
        assert (row.outcome, row.reason, row.scores) == ("skipped", "impossible", {})


@pytest.mark.parametrize(("abstained", "expected"), [(True, 1.0), (False, 0.0)])
def test_an_impossible_question_is_answered_right_by_abstaining(abstained, expected, pair, score):
    query = first(pair, lambda q: q.is_impossible)

    row = score(score_answers, answered(query.query_id, "The documents do not say.", abstained=abstained))

    assert row.scores == {"exact_match": expected, "f1": expected, "abstained": float(abstained)}


def test_citations_in_the_answer_are_not_words_of_it(pair, score):
    query = first(pair, lambda q: not q.is_impossible)
    gold = query.accepted_answers[0]

    row = score(score_answers, answered(query.query_id, f"{gold} [x.pdf:1:0-9]"))

    assert row.scores["exact_match"] == 1.0


def test_half_of_the_gold_span_cited_is_half_of_it(pair, score):
    query = first(pair, lambda q: len(q.citations) == 1 and (q.citations[0].end_char - q.citations[0].start_char) > 60)
    gold = query.citations[0]
    length = gold.end_char - gold.start_char
    half = Citation(gold.file_name, gold.start_char, gold.start_char + length // 2, gold.page_number)

    row = score(score_citations, answered(query.query_id, citations=[half]))

    assert row.scores["exact_jaccard"] == (length // 2) / length
    assert (row.scores["char_precision"], row.scores["true_spans"]) == (1.0, 1.0)
