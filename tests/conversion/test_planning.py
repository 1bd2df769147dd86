"""Every row read is accepted, dropped or quarantined, and every document has one body and its names."""

import hashlib
import json
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.corpus.naming import NameRequest
from tests.conversion.conftest import HEAD, PLAIN, write_benchmark

URLS = HEAD + "source: questions.csv\nquestions: {question: q, answer: a, urls: u}\n"


def outline(found):
    """Documents as key, body, names."""
    return [(document.key, document.body, [name.name for name in document.names]) for document in found.documents]


def codes(found):
    return [(record.stage, record.code, record.row, record.line, record.question_id) for record in found.quarantine]


def test_ids_are_rows_of_the_query_and_do_not_move_when_rows_are_dropped(benchmark):
    found = plan(
        benchmark(
            PLAIN + "where: answer <> 'drop'\n",
            {"questions.csv": 'q,a\nfirst,1\n"second\nline",drop\n,3\nfourth,4,5\nfifth,5\n'},
        )
    )

    assert [(question.id, question.question, question.source_row) for question in found.questions] == [
        (0, "first", 1),
        (3, "fifth", 5),
    ]
    assert codes(found) == [
        ("where", "dropped", 2, 3, 1),
        ("validation", "empty_question", 3, 5, 2),
        ("validation", "row_width", 4, 6, None),
    ]
    counts = found.counts
    assert (counts.rows, counts.accepted, counts.dropped, counts.quarantined) == (5, 2, 1, 2)
    assert counts.conserved


def test_urls_without_a_row_are_fetched_once_and_stored_under_each_name(benchmark):
    rows = "q,a,u\n1,a,http://x.org/P%20age#b\n2,a,https://X.org/P%20age\n3,a,https://x.org/P%20age\n"

    found = plan(benchmark(URLS, {"questions.csv": rows}))

    assert outline(found) == [("x.org/P age", "url", ["P%20age#b.pdf", "P%20age.pdf"])]
    assert found.documents[0].url == "http://x.org/P%20age#b"
    assert [question.contexts[0].file_name for question in found.questions] == [
        "P%20age#b.pdf",
        "P%20age.pdf",
        "P%20age.pdf",
    ]


def test_pinned_names_stay_with_their_documents(benchmark):
    paths = benchmark(URLS, {"questions.csv": "q,a,u\n1,a,http://x.org/same\n2,a,http://y.org/same\n"})
    first = {question.id: question.contexts[0].file_name for question in plan(paths).questions}
    pinned = {NameRequest("y.org/same", "http://y.org/same").identity: "same.pdf"}

    again = {question.id: question.contexts[0].file_name for question in plan(paths, pinned).questions}

    assert first[0] == "same.pdf"
    assert again[1] == "same.pdf"
    assert again[0] == f"same~{hashlib.sha256(b'http://x.org/same').hexdigest()[:8]}.pdf"


DOCUMENTS = (
    HEAD
    + """source: questions.jsonl
tables: {bodies: bodies.jsonl, docs: {files: "docs/**/*"}}
questions: SELECT q AS question, 'a' AS answer, [context] AS contexts FROM source
documents: SELECT * FROM bodies
"""
)


def with_documents(benchmark, bodies, contexts, more="", files=()):
    names = ("url", "file", "document", "text", "start", "end")
    lines = [str({"q": "x", "context": {name: context.get(name) for name in names}}) for context in contexts]
    source = "\n".join(lines).replace("'", '"').replace("None", "null")
    table = "\n".join(
        str({**dict.fromkeys(("url", "name", "file", "html", "markdown", "text")), **body}) for body in bodies
    )
    table = table.replace("'", '"').replace("None", "null")
    paths = benchmark(
        DOCUMENTS + more,
        {
            "questions.jsonl": source,
            "bodies.jsonl": table,
            "docs/keep.txt": "kept",
            **dict.fromkeys(files, "some text"),
        },
    )
    return plan(paths)


def test_rows_of_the_documents_query_that_have_a_body_are_planned_whether_named_or_not(benchmark):
    found = with_documents(
        benchmark,
        [
            {"url": "https://x.org/a", "file": "docs/keep.txt"},
            {"url": "https://x.org/b#top", "html": "<p>b"},
            {"name": "A title/1", "text": "body"},
            {"name": "notes", "markdown": "# Notes"},
            {"file": "docs/keep.txt"},
            {"url": "https://x.org/fetched"},
            {"url": "https://x.org/not-named"},
        ],
        [{"url": "http://x.org/a#s"}, {"document": "A title/1"}, {"file": "keep.txt"}, {"text": "only gold"},
         {"url": "https://x.org/fetched"}],
    )  # fmt: skip

    assert outline(found) == [
        ("x.org/a", "file", ["a#s.pdf"]),
        ("x.org/b", "html", ["b#top.pdf"]),
        ("A title/1", "text", ["A title%2F1.pdf"]),
        ("notes", "markdown", ["notes.pdf"]),
        ("docs/keep.txt", "file", ["keep.txt.pdf"]),
        ("x.org/fetched", "url", ["fetched.pdf"]),
    ]
    assert [question.contexts[0].file_name for question in found.questions] == [
        "a#s.pdf",
        "A title%2F1.pdf",
        "a#s.pdf",  # the file is the body of the URL's document, which stands first
        None,
        "fetched.pdf",
    ]
    assert found.questions[3].contexts[0].text == "only gold"


@pytest.mark.parametrize(("setting", "names"), [("", ["a.pdf"]), ("unnamed_urls: fetch\n", ["a.pdf", "b.pdf"])])
def test_a_url_that_no_accepted_question_names_is_fetched_where_the_benchmark_asks_for_it(benchmark, setting, names):
    paths = benchmark(
        HEAD + "source: questions.csv\nquestions: {question: q, answer: a, urls: u}\n"
        "tables: {docs: {path: docs.csv}}\ndocuments: SELECT url FROM docs\n" + setting,
        {
            "questions.csv": "q,a,u\nWho?,Ada,https://x.org/a\n,no question,https://x.org/b\n",
            "docs.csv": "url\nhttps://x.org/a\nhttps://x.org/b\n",
        },
    )

    found = plan(paths)

    assert [document.names[0].name for document in found.documents] == names
    assert [note for note in found.notes if "no question names" in note] == (
        []
        if setting
        else [
            "Not fetched, because no question names them: 1 URLs of `documents`; `unnamed_urls: fetch` in "
            "benchmark.yaml adds them as distractors."
        ]
    )


def test_files_of_a_table_are_planned_only_when_named(benchmark):
    found = with_documents(
        benchmark,
        [{"name": "other", "text": "x"}],
        [{"file": "b.txt"}, {"file": "docs/n/b.txt"}, {"file": "docs/b.txt"}],
        files=["docs/b.txt", "docs/n/b.txt"],
    )

    assert [record.code for record in found.quarantine] == ["ambiguous_file"]
    assert outline(found) == [
        ("other", "text", ["other.pdf"]),
        ("docs/b.txt", "file", ["b.txt.pdf"]),
        ("docs/n/b.txt", "file", [found.documents[2].names[0].name]),
    ]
    assert found.documents[2].names[0].flags == ("collision",)


MISSING = [{"document": "absent"}, {"file": "absent.pdf"}, {"document": "here"}]


def test_a_question_that_names_an_unknown_document_is_quarantined(benchmark):
    found = with_documents(benchmark, [{"name": "here", "text": "x"}], MISSING)

    assert [(record.code, record.question_id) for record in found.quarantine] == [
        ("unknown_document", 0),
        ("unknown_document", 1),
    ]
    assert found.counts.conserved


def test_with_keep_the_question_stays_and_the_context_is_counted(benchmark):
    found = with_documents(benchmark, [{"name": "here", "text": "x"}], MISSING, more="on_missing_document: keep\n")

    assert [len(question.contexts) for question in found.questions] == [0, 0, 1]
    assert found.notes[1:] == [
        "contexts of unknown document 'absent' were left out (1).",
        "contexts of unknown document 'absent.pdf' were left out (1).",
    ]


def test_offsets_cut_the_text_from_the_sources_own_body_and_are_checked_against_it(benchmark):
    found = with_documents(
        benchmark,
        [{"name": "d", "text": "0123456789"}, {"file": "docs/keep.txt"}],
        [
            {"document": "d", "start": 2, "end": 4},
            {"document": "d", "start": 2, "end": 4, "text": "23"},
            {"document": "d", "start": 2, "end": 4, "text": "34"},
            {"document": "d", "start": 8, "end": 11},
            {"file": "keep.txt", "start": 1, "end": 3},
            {"document": "d", "start": 2, "end": 4, "text": " 2\n3"},
        ],
    )

    assert [question.contexts[0].text for question in found.questions] == ["23", "23", "ep", " 2\n3"]
    assert [(record.code, record.question_id) for record in found.quarantine] == [("span_mismatch", 2), ("bad_span", 3)]


def test_a_body_that_is_not_there_is_planned_so_that_the_corpus_lists_it_as_missing(benchmark):
    found = with_documents(
        benchmark, [{"url": "https://x.org/a", "file": "docs/absent.html"}], [{"url": "https://x.org/a"}]
    )

    [document] = found.documents
    assert document.path is not None
    assert not document.path.exists()


BAD_LINKS = "q,a,u\nx,a,en.wikipedia.org/wiki/Ada\ny,b,https://x.org/y\n"
URL_LISTS = (
    HEAD
    + """\
source: questions.csv
questions: SELECT q AS question, a AS answer, [u, 'https://x.org/' || q] AS urls FROM source
"""
)


def test_with_keep_a_bad_url_is_a_lost_context_and_not_a_lost_question(benchmark):
    found = plan(benchmark(URL_LISTS + "on_missing_document: keep\n", {"questions.csv": BAD_LINKS}))

    assert [[context.url for context in question.contexts] for question in found.questions] == [
        ["https://x.org/x"],
        ["https://x.org/y", "https://x.org/y"],
    ]
    assert found.quarantine == []
    assert found.notes == ["contexts of the bad URL 'en.wikipedia.org/wiki/Ada' were left out (1)."]


def test_a_file_that_no_file_system_holds_costs_its_row(benchmark):
    bodies = [{"name": "good", "text": "x"}, {"name": "bad", "file": "a" * 5_000}, {"file": "a/" * 2_500 + "b"}]

    found = with_documents(benchmark, bodies, [{"document": "good"}, {"document": "bad"}])

    assert [key for key, _, _ in outline(found)] == ["good"]
    assert [note[:20] for note in found.notes] == ["documents, row 2: ex", "documents, row 3: ex"]
    assert all(note.endswith("[bad_path].") for note in found.notes)
    assert [(record.code, record.question_id) for record in found.quarantine] == [("unknown_document", 1)]


def test_offsets_into_a_file_that_is_not_utf_8_count_its_characters(benchmark):
    spec = HEAD + (
        'source: questions.jsonl\ntables: {docs: {files: "docs/*.txt"}}\nquestions: |\n'
        "  SELECT q AS question, 'a' AS answer, [{'file': 'a.txt', 'start': 5, 'end': 9}] AS contexts FROM source\n"
    )
    files = {"questions.jsonl": '{"q": "x"}', "docs/a.txt": "café noir".encode("latin-1")}

    found = plan(benchmark(spec, files))

    assert [context.text for question in found.questions for context in question.contexts] == ["noir"]


def test_a_documents_name_and_a_url_of_one_spelling_are_two_documents(benchmark):
    found = with_documents(
        benchmark,
        [{"url": "https://x.org/a", "text": "of the URL"}, {"name": "x.org/a", "text": "of the name"}],
        [{"document": "x.org/a"}, {"url": "http://x.org/a"}],
    )

    content = {document.key: document.content for document in found.documents}
    assert [content[question.contexts[0].document] for question in found.questions] == ["of the name", "of the URL"]


def test_bad_rows_of_tables_are_noted_and_do_not_count_as_questions(benchmark):
    found = plan(
        benchmark(
            PLAIN + "tables: {mirror: mirror.csv}\n",
            {"questions.csv": "q,a\nx,y\n", "mirror.csv": "url,file\nonly\n"},
        )
    )
    assert found.notes == ["table mirror: mirror.csv, row 1 (line 2): expected 2 cells, found ['only'] [row_width]."]
    assert found.counts.rows == 1


def test_ids_of_the_source_that_repeat_are_noted(benchmark):
    spec = HEAD + "source: questions.csv\nquestions: {question: q, answer: a, source_id: i}\n"
    found = plan(benchmark(spec, {"questions.csv": "q,a,i\nx,y,1\nz,y,1\n"}))
    assert found.notes == ["source_id: 1 ids are used by several questions, the first is '1'."]


def test_a_source_of_nothing_but_bad_rows_is_quarantined_whole(benchmark):
    spec = HEAD + "source: {path: q.jsonl, format: jsonl}\nquestions: {question: q, answer: a}\n"
    found = plan(benchmark(spec, {"q.jsonl": "{\n[]\n"}))
    assert [(record.row, record.code) for record in found.quarantine] == [(1, "bad_json"), (2, "not_an_object")]
    assert found.counts.conserved


CELLS = st.text(string.ascii_letters + '",\n\u2028é ', max_size=4) | st.sampled_from(
    ["", "true", "http://x.org/a", '"']
)
DIRTY = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@DIRTY
@given(st.lists(st.lists(CELLS, min_size=2, max_size=4), max_size=20))
def test_no_row_of_a_dirty_csv_is_lost(tmp_path_factory, rows):
    lines = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    spec = URLS + "where: length(question) <> 2\n"
    paths = write_benchmark(tmp_path_factory.mktemp("dirty"), spec, {"questions.csv": "\n".join(["q,a,u", *lines])})

    found = plan(paths)

    assert found.counts.rows == len(rows)
    assert found.counts.conserved
    assert len(found.questions) + len(found.quarantine) == len(rows)


LINES = st.binary(max_size=8) | st.sampled_from(
    [b'{"q": "x", "a": "y"}', b'{"q": 7}', b'{"q": "", "a": []}', b'{"q": "x", "a": {"b": null}}', b"[]", b"\xff"]
)


@DIRTY
@given(st.lists(LINES.filter(lambda line: b"\n" not in line), max_size=20))
def test_no_line_of_dirty_jsonl_is_lost(tmp_path_factory, lines):
    spec = HEAD + "source: {path: q.jsonl, format: jsonl}\nquestions: SELECT q AS question, a AS answer FROM source\n"
    raw = b"\n".join([b'{"q": "x", "a": "y"}', *lines])
    paths = write_benchmark(tmp_path_factory.mktemp("dirty"), spec, {"q.jsonl": b"\n" + raw})

    found = plan(paths)

    rows = sum(bool(line.strip()) for line in raw.split(b"\n"))
    assert found.counts.rows == rows
    assert found.counts.conserved
    assert len(found.questions) + len(found.quarantine) == rows


def test_group_sizes_count_questions_by_their_documents_whether_they_have_an_answer_or_not(benchmark):
    spec = HEAD + (
        "source: questions.jsonl\nquestions: |\n  SELECT q AS question, a AS answer, a IS NULL AS is_impossible, "
        "CASE WHEN d IS NULL THEN [] ELSE [{'document': d}] END AS contexts FROM source\n"
        "documents: SELECT DISTINCT d AS name, 'text' AS text FROM source WHERE d IS NOT NULL ORDER BY 1\n"
    )
    rows = [("yes", "one"), (None, "one"), ("yes", "two"), ("yes", None), (None, None)]
    lines = [json.dumps({"q": f"question {n}", "a": a, "d": d}) for n, (a, d) in enumerate(rows)]

    found = plan(benchmark(spec, {"questions.jsonl": "\n".join(lines)}))

    assert sorted(found.group_sizes) == [1, 1, 1, 2]
