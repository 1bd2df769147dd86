"""Scores of answers written by hand, and the documents and sentences that names and places mean."""

import json

import pytest
import yaml

from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.evaluation.corpus import CorpusFiles, CorpusTexts
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import publish_pair, score_pair
from rag_eval_pipeline.evaluation.runs import SCORE_FILES
from rag_eval_pipeline.evaluation.scoring import score_answers, score_citations, score_retrieval
from rag_eval_pipeline.evaluation.storage import write_responses
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.systems.base import Citation, PageText, RetrievedPassage
from tests.evaluation.conftest import NIGHT, RAILWAY, answered


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


@pytest.mark.parametrize(("given", "means"), NAMES.values(), ids=NAMES)
def test_corpus_file_that_a_name_means(given, means):
    assert FILES.canonical(given) == means


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


@pytest.mark.parametrize(("document", "start", "end", "expected"), PLACES.values(), ids=PLACES)
def test_cited_texts_are_whole_sentences(document, start, end, expected):
    assert TEXTS.cited(document, start, end) == expected


def passage(document, rank, page=1):
    return RetrievedPassage(document, page, "text", 1.0 / rank, rank)


@pytest.fixture
def score(evaluation, pair):
    """Scores one hand-written answer to one question; the other questions abstain."""

    def run(scorer, answer):
        others = [answered(q.query_id, abstained=True) for q in pair.queries]
        write_responses(evaluation.responses, [answer if o.query_id == answer.query_id else o for o in others])
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


def test_retrieval_needs_both_documents_for_full_recall(pair, score):
    query = first(pair, lambda q: len(q.relevant_documents) == 2)

    row = score(score_retrieval, answered(query.query_id, contexts=[passage(query.relevant_documents[1], 1)]))

    assert (row.scores["hit@1"], row.scores["recall@5"], row.scores["precision@5"]) == (1.0, 0.5, 0.2)


@pytest.mark.parametrize(("abstained", "expected"), [(True, 1.0), (False, 0.0)])
def test_impossible_question_is_answered_right_by_abstaining(abstained, expected, pair, score):
    query = first(pair, lambda q: q.is_impossible)
    answer = answered(query.query_id, "The documents do not say.", abstained=abstained)

    assert score(score_answers, answer).scores == {
        "exact_match": expected, "f1": expected, "abstained": float(abstained)
    }  # fmt: skip
    for scorer in (score_retrieval, score_citations):
        row = score(scorer, answer)
        assert (row.outcome, row.reason, row.scores) == ("skipped", "impossible", {})


def test_citations_in_an_answer_are_not_words_of_it(pair, score):
    query = first(pair, lambda q: not q.is_impossible)

    row = score(score_answers, answered(query.query_id, f"{query.accepted_answers[0]} [x.pdf:1:0-9]"))

    assert row.scores["exact_match"] == 1.0


def test_citation_of_half_a_gold_span_scores_half(pair, score):
    query = first(pair, lambda q: len(q.citations) == 1 and (q.citations[0].end_char - q.citations[0].start_char) > 60)
    gold = query.citations[0]
    length = gold.end_char - gold.start_char
    half = Citation(gold.file_name, gold.start_char, gold.start_char + length // 2, gold.page_number)

    row = score(score_citations, answered(query.query_id, citations=[half]))

    assert row.scores["exact_jaccard"] == (length // 2) / length
    assert (row.scores["char_precision"], row.scores["true_spans"]) == (1.0, 1.0)


# --- documents that the corpus does not have

KNOWN = [{"document": "line-opening.pdf", "text": "x"}]
UNKNOWN = [{"document": "kb/Line opening", "text": "a"}, {"document": "kb/VPN Setup", "text": "b"}]


@pytest.fixture
def recorded(workspace):
    """A system that answers every question with the passages that a function of its number gives."""

    def pair_of(contexts_of):
        queries = load_pair(workspace, RAILWAY, "embedded").queries
        rows = [{"id": q.query_id, "answer": "x", "contexts": contexts_of(n)} for n, q in enumerate(queries)]
        folder = workspace.config / "systems"
        (folder / "recorded.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        system = {"kind": "replay", "settings": {"path": "recorded.jsonl"}}
        workspace.system_file("recorded").write_text(yaml.safe_dump(system))
        pair = load_pair(workspace, RAILWAY, "recorded")
        ask(workspace, pair, now=NIGHT)
        return pair

    return pair_of


RETURNED = (
    "retrieved passages name a document of the corpus. Returned: 'kb/Line opening'; the corpus has 'line-opening.pdf'. "
    "Check the document names in the recording."
)
RUNS = {
    #                          passages of a question                 reason                 warning
    "unknown documents":      (lambda n: UNKNOWN,                     "unknown_documents",   f"0 of 80 {RETURNED}"),
    "no passages but unknown": (lambda n: [] if n else UNKNOWN,       "unknown_documents",   f"0 of 2 {RETURNED}"),
    "no documents named":     (lambda n: [{"text": "a"}],             "no_documents_named",  "0 of 40 retrieved passages name a document of the corpus. They state no document at all. Check the document names in the recording."),
    "no passages":            (lambda n: [],                          "no_contexts",         "None of 40 answers states retrieved passages, so retrieval is not scored [no_contexts]."),
    "known documents":        (lambda n: KNOWN,                       None,                  None),
}  # fmt: skip


@pytest.mark.parametrize(("contexts", "reason", "warning"), RUNS.values(), ids=RUNS)
def test_retrieval_is_scored_only_if_some_document_is_known(contexts, reason, warning, recorded, workspace):
    pair = recorded(contexts)
    for kind in SCORE_FILES:
        score_pair(workspace, pair, kind)

    results = EvaluationResults.read(publish_pair(workspace, pair).path)

    hit = results.retrieval_metrics["hit@1"]
    assert (hit.reason, hit.n_scored, hit.value is None) == (reason, 0 if reason else 32, reason is not None)
    assert results.warnings == (() if warning is None else (warning,))


def test_retrieval_skips_only_questions_without_any_known_document(recorded, workspace):
    pair = recorded(lambda n: [UNKNOWN, [*UNKNOWN, *KNOWN], []][n] if n < 3 else KNOWN)

    report = score_pair(workspace, pair, "retrieval_scores")

    assert not any(query.is_impossible for query in pair.queries[:3])
    assert [row.outcome for row in report.rows[:3]] == ["skipped", "scored", "scored"]
    assert report.rows[0].reason == "unknown_documents"
    assert report.rows[1].scores["hit@1"] == 0.0  # an unknown document holds its rank
    assert report.rows[2].scores["recall@10"] == 0.0  # a miss: the run names documents elsewhere
    check = report.retrieved.check()
    assert (check.name, check.passed, check.numbers["unknown"]) == ("retrieved_documents_known", False, 4)
