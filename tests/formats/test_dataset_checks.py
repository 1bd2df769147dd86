"""What a dataset's questions refer to is looked up where it can be, and said by severity."""

from pathlib import Path

import pytest

from rag_eval_pipeline.formats.citations import CitationSpan
from rag_eval_pipeline.formats.dataset import DatasetMetadata, EvaluationDataset, EvaluationQuery, SourceDocument
from rag_eval_pipeline.formats.dataset_checks import check_dataset

PATH = Path("d.eval.json")


def query(relevant=("a.pdf",), cited=(), query_id="0", **fields):
    citations = tuple(CitationSpan(file_name=name, start_char=0, end_char=end) for name, end in cited)
    return EvaluationQuery(
        query_id=query_id, query_text="?", relevant_documents=relevant, citations=citations, **fields
    )


def found(queries, documents=None, corpus=None, **metadata):
    dataset = EvaluationDataset(
        dataset_id="d", name="D", version="1.0.0", queries=tuple(queries), documents=documents,
        metadata=DatasetMetadata(**metadata),
    )  # fmt: skip
    return [(one.severity, one.code, one.field) for one in check_dataset(dataset, PATH, corpus=corpus)]


A = SourceDocument(document_id="a.pdf", content="twelve chars", title="A", file_path="docs/a.pdf")
UNCHECKED = ("info", "references_unchecked", None)
CASES = {
    #                                  queries                                                    documents  found
    "all there":                       ([query()],                                                (A,),      []),
    "nothing to look references up in": ([query()],                                               None,      [UNCHECKED]),
    "nothing referred to":             ([query((), metadata={"is_impossible": True})],            None,      []),
    "a document missing":              ([query(("a.pdf", "b.pdf"))],                              (A,),
                                        [("error", "missing_document", "queries[0].relevant_documents[1]")]),
    "no documents at all":             ([query()],                                                (),
                                        [("error", "missing_document", "queries[0].relevant_documents[0]")]),
    "a cited document missing":        ([query(cited=[("a.pdf", 4), ("c.pdf", 4)])],              (A,),
                                        [("error", "missing_document", "queries[0].citations[1].file_name"),
                                         ("warning", "cited_not_relevant", "queries[0].citations")]),
    "one document by three names":     ([query(("docs/a.pdf",), cited=[("a", 4), ("A", 4)])],     (A,),      []),
    "cited but not relevant":          ([query(("a.pdf",), cited=[("a.pdf", 4), ("b.pdf", 4)])],  None,
                                        [UNCHECKED, ("warning", "cited_not_relevant", "queries[0].citations")]),
    "relevant but not cited":          ([query(("a.pdf", "b.pdf"), cited=[("a.pdf", 4)])],        None,
                                        [UNCHECKED, ("info", "relevant_not_cited", "queries[0].citations")]),
    "nothing cited":                   ([query(("a.pdf", "b.pdf"))],                              None,      [UNCHECKED]),
    "cited without its extension":     ([query(("a.pdf",), cited=[("a", 4)])],                    None,      [UNCHECKED]),
    "a span behind the text":          ([query(cited=[("a.pdf", 13)])],                           (A,),
                                        [("warning", "span_out_of_bounds", "queries[0].citations[0].end_char")]),
    "a span that ends with the text":  ([query(cited=[("a.pdf", 12)])],                           (A,),      []),
    "no label":                        ([query(())],                                              None,
                                        [("warning", "unlabelled_query", "queries")]),
    "answers are a label":             ([query((), metadata={"expected_answers": ["x"]})],        None,      []),
    "no questions":                    ([],                                                       None,
                                        [("warning", "no_questions", "queries")]),
}  # fmt: skip


@pytest.mark.parametrize(("queries", "documents", "expected"), CASES.values(), ids=CASES)
def test_references_citations_and_labels(queries, documents, expected):
    assert found(queries, documents) == expected


def test_references_are_looked_up_in_a_corpus_when_there_is_one(tmp_path):
    (tmp_path / "a.pdf").touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.pdf").touch()
    (tmp_path / "b.pdf").touch()

    findings = found([query(("b", "c.pdf", "sub/a.pdf", "a.pdf"))], corpus=tmp_path)

    assert findings == [
        ("error", "missing_document", "queries[0].relevant_documents[1]"),
        ("error", "ambiguous_document", "queries[0].relevant_documents[3]"),  # which of the two; the path says it
    ]


def test_what_the_dataset_says_of_itself():
    assert found([query()], (A,), size=2, language="eng") == [
        ("warning", "wrong_size", "metadata.size"),
        ("warning", "bad_language", "metadata.language"),
    ]
    assert found([query()], (A,), size=1, language="en") == []
