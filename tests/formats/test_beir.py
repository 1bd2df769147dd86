"""BEIR folders are what BEIR's loader takes, and a dataset that goes into one comes out again."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.beir import (
    FIELDS,
    BeirDocument,
    BeirQuery,
    beir_queries,
    beir_query,
    read_beir,
    write_beir,
)
from rag_eval_pipeline.formats.citation_marks import CitationSpan
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.formats.trec import Qrel

TEXT = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1)
PIECES = st.sampled_from(['"', "\t", "\n", "\r", " ", "%20", "#", "'", "a", "=", "\u2028", "é"])
NAMES = st.one_of(TEXT, st.lists(PIECES, min_size=1, max_size=5).map("".join))
# Keys that mean something to us, and keys that look like the mark that tells them apart.
KEYS = TEXT | st.sampled_from(
    [*FIELDS, "metadata", "metadata.", "metadata.query_type", "metadata.metadata.x", "metadata.x", "is_impossible"]
)
QUERIES = st.builds(
    EvaluationQuery,
    query_id=NAMES,
    query_text=TEXT,
    relevant_documents=st.lists(NAMES, max_size=3, unique=True).map(tuple),
    query_type=st.sampled_from([None, "temporal"]),
    ground_truth_answer=st.none() | TEXT | st.just(""),
    citations=st.sampled_from([(), (CitationSpan(file_name='"a"\t', start_char=0, end_char=9),)]),
    metadata=st.dictionaries(KEYS, TEXT | st.lists(st.none() | st.integers(), max_size=2), max_size=4),
)


def write(folder, queries, corpus=()):
    qrels = (Qrel(query.query_id, name, 1) for query in queries for name in query.relevant_documents)
    write_beir(folder, (beir_query(query, judged=query.relevant_documents) for query in queries), corpus, qrels)


@given(
    queries=st.lists(QUERIES, max_size=3, unique_by=lambda query: query.query_id),
    corpus=st.dictionaries(NAMES, st.tuples(TEXT, TEXT), max_size=3),
)
def test_beir_round_trips(queries, corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("beir")
    documents = [BeirDocument(name, text, title) for name, (text, title) in corpus.items()]
    write(folder, queries, documents)

    beir = read_beir(folder)
    assert list(beir_queries(beir)) == queries
    assert list(beir.corpus.values()) == documents
    with open(folder / "qrels" / "test.tsv", encoding="utf-8", newline="") as file:  # as BEIR's loader
        header, *rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_MINIMAL)
    assert header == ["query-id", "corpus-id", "score"]
    assert rows == [[q.query_id, name, "1"] for q in queries for name in q.relevant_documents]


def test_beir_files_to_the_letter(tmp_path):
    query = EvaluationQuery(
        query_id="0", query_text="Wo?", relevant_documents=("A%20b#c.pdf", 'say "x".pdf'), query_type="factual",
        metadata={"answers": ["Ångström"]},
    )  # fmt: skip
    write(tmp_path, [query], [BeirDocument("A%20b#c.pdf", "one\ftwo")])

    assert (tmp_path / "corpus.jsonl").read_text() == '{"_id": "A%20b#c.pdf", "text": "one\\ftwo", "title": ""}\n'
    metadata = '{"answers": ["Ångström"], "query_type": "factual"}'
    assert (tmp_path / "queries.jsonl").read_text() == f'{{"_id": "0", "text": "Wo?", "metadata": {metadata}}}\n'
    assert (tmp_path / "qrels" / "test.tsv").read_text() == (
        'query-id\tcorpus-id\tscore\n0\tA%20b#c.pdf\t1\n0\t"say ""x"".pdf"\t1\n'
    )


def test_beir_reads_foreign_folders(tmp_path):
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "text": "body", "url": "http://a/"}\n')
    (tmp_path / "queries.jsonl").write_text(
        '{"_id": "q1", "text": "one", "metadata": {"difficulty": 3, "answers": ["x"], "metadata.note": 1}}\n'
        '{"_id": "q2", "text": "two"}\n'
    )
    (tmp_path / "qrels" / "test.tsv").write_bytes(b"query-id\tcorpus-id\tscore\r\nq1\td1\t2\r\nq1\td0\t0\r\n")

    beir = read_beir(tmp_path)

    first, second = beir_queries(beir)
    assert first.relevant_documents == ("d1",)  # grade 0 is a judgement, but not a relevant document
    assert (first.difficulty, first.metadata) == (None, {"difficulty": 3, "answers": ["x"], "metadata.note": 1})
    assert (second.relevant_documents, second.metadata) == ((), {})
    assert [document.text for document in beir.corpus.values()] == ["body"]


BAD_FILES = {
    #                     file              content                          code
    "a cut line":        ("queries.jsonl",  '{"_id": "a", "te',              "bad_format"),
    "no header":         ("qrels/test.tsv", "q1\td1\t1\n",                   "bad_fields"),
    "a pair twice":      ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td1\t0\n", "duplicate_document"),
    "a word as a score": ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\tyes\n", "bad_fields"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "code"), BAD_FILES.values(), ids=BAD_FILES)
def test_beir_error_names_the_line(name, content, code, tmp_path):
    write_beir(tmp_path, [], [], [])
    (tmp_path / name).write_text(content)

    with pytest.raises(InputError) as error:
        read_beir(tmp_path)

    assert (error.value.code, error.value.row) == (code, content.count("\n") or 1)


def test_beir_refuses_a_judgement_of_an_unknown_query(tmp_path):
    write_beir(tmp_path, [BeirQuery("q1", "one")], [], [Qrel("q2", "d", 1)])

    with pytest.raises(InputError) as error:
        beir_queries(read_beir(tmp_path))

    assert error.value.code == "unknown_query"
