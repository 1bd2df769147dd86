"""A gold text that names no document gets the one that has it; of two that have it equally well, neither."""

import json

import pytest

from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.conversion.gold_documents import bare_texts, find_documents, read_found, write_found
from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.conversion.questions import Context, Question
from rag_eval_pipeline.conversion.summaries import conversion_sentences, plan_sentences
from rag_eval_pipeline.corpus.documents import FileName, PlannedDocument
from rag_eval_pipeline.corpus.text.pages import Page
from rag_eval_pipeline.workspace import Workspace
from tests.conversion.conftest import HEAD
from tests.corpus.making import simple_pdf

LAMP = "The lamp of the northern light was lit at dusk by Edda Marn, its first keeper."
BELL = "In fog a bell was rung from the gallery four times each minute, by hand."
DOCUMENTS = {
    "log.pdf": f"Log of the year 1888. {LAMP} Nothing else of note was entered.",
    "rules.pdf": f"Rules of the service. {BELL} Keepers took turns of three hours.",
    "copy.pdf": f"A keeper's own copy of some rules. {BELL} The rest was torn out.",
    "diary.pdf": f"Diary. {LAMP.replace('dusk', 'dawn').replace('first', 'only')} The oil froze.",
}


def searched(*questions):
    planned = [PlannedDocument(name, (FileName(f"~{name}"), FileName(name)), "file") for name in DOCUMENTS]
    pages = [Page(name, 1, 0, text) for name, text in DOCUMENTS.items()]
    contexts = [tuple(Context(None, None, text) for text in texts) for texts in questions]
    asked = [Question(number, "?", "a", ("a",), False, own) for number, own in enumerate(contexts)]
    return find_documents(bare_texts(asked), planned, pages)


TEXTS = {
    # gold text, file name, counts: found, in several, nowhere, short
    "as it is": (LAMP, "log.pdf", (1, 0, 0, 0)),
    "with the mark of a hop, as ragas writes it, and other breaks": (
        f"<1-hop>\n\n{LAMP.replace(' ', chr(10), 3)}",
        "log.pdf",
        (1, 0, 0, 0),
    ),
    "in two documents": (BELL, None, (0, 1, 0, 0)),
    "nowhere": ("Jackdaws love my big sphinx of quartz, and nobody knows why.", None, (0, 0, 1, 0)),
    "so short that many documents could have it": ("Edda Marn", None, (0, 0, 0, 1)),
}


@pytest.mark.parametrize(("text", "name", "counts"), TEXTS.values(), ids=TEXTS)
def test_gold_text_is_looked_for_in_all_documents(text, name, counts):
    search = searched([text])

    assert [found.file_name for found in search.found.values()] == ([name] if name else [])
    assert tuple(search.counts().values()) == counts


def test_document_of_another_text_of_the_question_decides_between_two(tmp_path):
    search = searched([BELL], [BELL, "Keepers took turns of three hours."])

    assert {place: found.file_name for place, found in search.found.items()} == {
        (1, 0): "rules.pdf",
        (1, 1): "rules.pdf",
    }
    assert search.notes() == [
        "id 0: the gold text 'In fog a bell was rung from the gallery four times each minu…' is in 2 documents "
        "(copy.pdf, rules.pdf), so it names none of them"
    ]
    write_found(tmp_path / "found.parquet", search.found)
    assert read_found(tmp_path / "found.parquet") == search.found
    write_found(tmp_path / "found.parquet", {})
    assert read_found(tmp_path / "found.parquet") == {}


def test_gold_texts_are_looked_for_only_in_the_files_that_documents_chooses(benchmark):
    row = {"q": "When was it lit?", "a": "At dusk.", "c": [LAMP]}
    files = {"q.jsonl": json.dumps(row), "docs/log.txt": LAMP, "docs/README.txt": "How this was made."}
    spec = (
        f"{HEAD}source: q.jsonl\ntables: {{docs: {{files: 'docs/*.txt'}}}}\n"
        "questions: {question: q, answer: a, contexts: c}\n"
    )

    every = plan(benchmark(spec, files))
    chosen = plan(benchmark(f"{spec}documents: SELECT file FROM docs WHERE file NOT LIKE '%README%'\n", files))

    assert [document.path.name for document in every.documents] == ["README.txt", "log.txt"]
    assert [document.path.name for document in chosen.documents] == ["log.txt"]


def test_conversion_gives_gold_texts_the_documents_of_a_folder(benchmark, tmp_path):
    rows = [
        {"user_input": "When was it lit?", "reference": "At dusk.", "reference_contexts": [LAMP, BELL]},
        {"user_input": "What of fog?", "reference": "A bell.", "reference_contexts": [BELL]},
    ]
    columns = "{question: user_input, answer: reference, contexts: reference_contexts}"
    files = {f"docs/{name}": simple_pdf(text) for name, text in DOCUMENTS.items() if name != "diary.pdf"}
    source = {"test.jsonl": "\n".join(map(json.dumps, rows))}
    tables = 'tables: {docs: {files: "docs/*.pdf"}}\n'
    bare = plan(benchmark(f"{HEAD}source: test.jsonl\nquestions: {columns}\n", source))
    paths = benchmark(f"{HEAD}source: test.jsonl\n{tables}questions: {columns}\n", {**source, **files})
    planned = plan(paths)

    reports = {report.record.step: report for report in convert(Workspace(tmp_path), "scratch")}

    assert list(plan_sentences(bare.counts))[-1] == (
        "3 gold texts name no document, and there are none to look in; "
        '`tables: {docs: {files: "docs/*.pdf"}}` adds some.'
    )
    assert list(plan_sentences(planned.counts))[-1] == "3 gold texts name no document; convert looks in all of them."
    assert list(conversion_sentences({step: report.record.counts for step, report in reports.items()})) == [
        "3 contexts found, 0 lost.",
        "1 answerable question is left without a document.",
        "1 of 3 gold texts that name no document are found in one, 2 in several.",
        "1 of 1 gold texts that have a document are located in it.",
    ]
    assert len(reports["train_json"].notes) == 2
    train = json.loads(paths.train_json.read_text())
    assert [row["contexts"] for row in train] == [[{"filename": "log.pdf", "text": LAMP}, BELL], [BELL]]
    queries = json.loads(Workspace(tmp_path).eval_json("scratch", "1.0.0").read_text())["queries"]
    assert [query["relevant_documents"] for query in queries] == [["log.pdf"], []]
    assert [citation["file_name"] for citation in queries[0]["citations"]] == ["log.pdf"]
