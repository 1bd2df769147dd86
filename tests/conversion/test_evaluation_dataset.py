"""The check of an `.eval.json` while it is written."""

import json

import pytest

from rag_eval_pipeline.conversion.datasets import TRAIN_DEPTH, GoldSpan, locate_gold, train_rows, with_gold
from rag_eval_pipeline.conversion.evaluation_dataset import QueryCheck, write_evaluation_dataset
from rag_eval_pipeline.conversion.question_spool import batch_of
from rag_eval_pipeline.conversion.questions import Context, Question
from rag_eval_pipeline.corpus.text.pages import Page
from rag_eval_pipeline.formats.dataset import EvaluationDataset, open_dataset
from rag_eval_pipeline.storage.json_rows import write_rows

HEAD = EvaluationDataset(dataset_id="x", name="x", version="1.0.0", queries=())


def question(number=0, text="Who?", file_name="d.pdf", **changed):
    return Question(number, text, "she", ("she",), False, (Context("d", file_name),), **changed)


def span(number, start=0, end=4, score=100.0, page=1, file_name="d.pdf"):
    return GoldSpan(number, file_name, "lamp", "exact", score, page, start, end, 0, 4)


CHECKED = {
    "good queries": ([[question(0), question(7)], [question(8)]], [span(7)], []),
    "a batch whose questions were all removed": ([[question(0)], [], [question(8)]], [span(8)], []),
    "ids that repeat": ([[question(3), question(3)]], [], ["query 3: expected an id above the one before"]),
    "ids that descend from batch to batch": (
        [[question(3)], [question(2)]],
        [],
        ["query 2: expected an id above the one before"],
    ),
    "an empty question": ([[question(0), question(1, "")]], [], ["query 1: expected a question"]),
    "a missing question": ([[question(0), question(1, None)]], [], ["query 1: expected a question"]),
    "a document without name": ([[question(0), question(1, file_name="")]], [], ["query 1: expected names"]),
    "a query type": ([[question(0), question(1, query_type="odd")]], [], ["query 1: expected a query_type of anal"]),
    "an empty span": (
        [[question(0), question(1)]],
        [span(1, start=4)],
        ["query 1: Value error, end_char greater than start_char"],
    ),
    "a score above 100": (
        [[question(0), question(1)]],
        [span(1, score=101.0)],
        ["query 1: Input should be less than or equal"],
    ),
    "a span without file name": (
        [[question(0), question(1)]],
        [span(1, file_name="")],
        ["query 1: expected the name of a file"],
    ),
    "a page 0": (
        [[question(0), question(1)]],
        [span(1, page=0)],
        ["query 1: Input should be greater than or equal to 1"],
    ),
}


@pytest.mark.parametrize(("batches", "spans", "expected"), CHECKED.values(), ids=CHECKED)
def test_evaluation_dataset_check_finds_faults_of_questions(tmp_path, batches, spans, expected):
    findings = write_evaluation_dataset(tmp_path / "x.eval.json", HEAD, map(batch_of, batches), spans)

    assert len(findings) == len(expected)
    assert all(finding.startswith(start) for finding, start in zip(findings, expected, strict=True))


QUERY = {"query_id": "0", "query_text": "q", "relevant_documents": ["d.pdf"], "citations": [], "metadata": {}}
TEXTS = {
    "good queries": ([QUERY, QUERY], 0),
    "an unknown key": ([{**QUERY, "answer": "a"}], 1),
    "a missing key": ([{"query_id": "0"}], 1),
    "text that is no JSON": ([QUERY, "}"], 1),
}


@pytest.mark.parametrize(("queries", "faults"), TEXTS.values(), ids=TEXTS)
def test_evaluation_dataset_check_finds_faults_of_the_written_text(queries, faults):
    check = QueryCheck()

    texts = (
        json.dumps(query, indent=2).replace("\n", "\n    ") if isinstance(query, dict) else query for query in queries
    )
    check.check_text(memoryview(",\n    ".join(texts).encode()))

    assert len(check.findings) == faults


def test_what_is_judged_as_not_relevant_is_gold_in_no_file(tmp_path):
    contexts = (
        Context("a", "a.pdf", "the lamp", relevance=0),
        Context("b", "b.pdf", "the quay", relevance=2),
        Context("c", "c.pdf", "the tide", relevance=3),
        Context("c", "c.pdf", "the ebb", relevance=0),
        Context("d", "d.pdf"),
    )
    batch = batch_of([Question(0, "Who?", "she", ("she",), False, contexts), Question(1, "When?", "", (), True, ())])
    pages = [
        Page(name, 1, 0, text) for name, text in [("a.pdf", "the lamp"), ("b.pdf", "the quay"), ("c.pdf", "the ebb")]
    ]

    spans = list(locate_gold(with_gold([batch]), [], pages))
    findings = write_evaluation_dataset(tmp_path / "x.eval.json", HEAD, [batch], spans)
    write_rows(tmp_path / "train.json", [batch], train_rows, depth=TRAIN_DEPTH)

    first, second = open_dataset(tmp_path / "x.eval.json").queries
    assert findings == []
    assert first.relevant_documents == ("b.pdf", "c.pdf", "d.pdf")
    assert first.grades == {"b.pdf": 2, "c.pdf": 3, "d.pdf": 1, "a.pdf": 0}
    assert (first.metadata["hops"], second.grades) == (3, {})
    assert [(span.file_name, span.text) for span in spans] == [("b.pdf", "the quay"), ("c.pdf", "the tide")]
    rows = json.loads((tmp_path / "train.json").read_text())
    assert [[one["filename"] for one in row["contexts"]] for row in rows] == [["b.pdf", "c.pdf", "d.pdf"], []]
