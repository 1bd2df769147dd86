"""Every row read is accepted, dropped or quarantined, and every document has one body and its names."""

import hashlib
import json
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_eval_pipeline.conversion.datasets import train_rows
from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.corpus.naming import NameRequest
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.json_rows import join
from tests.conversion.conftest import HEAD, PLAIN, write_benchmark
from tests.sources.conftest import zipped

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


NESTED = [
    {"qas": [{"id": "a1", "q": "Who?", "a": "Ada"}, {"id": "a2", "q": "", "a": "x"}]},
    {"qas": [{"id": "b1", "q": "Why?", "a": "So."}]},
    {"qas": [{"id": "c1", "q": "How?", "a": "n/a"}, {"id": "c2", "q": "Who?", "a": "Max"}]},
]
PLACES = {  # SQL of the id, questions by their place
    "by their ids": ("qa.id AS source_id, ", ["a1", "a2", None, "c1", "c2"]),
    "by their numbers": ("", ["#1", "#2", None, "#1", "#2"]),
}


@pytest.mark.parametrize(("source_id", "items"), PLACES.values(), ids=PLACES)
def test_questions_of_one_row_are_named(benchmark, source_id, items):
    sql = f"SELECT {source_id}qa.q AS question, qa.a AS answer FROM (SELECT unnest(qas) AS qa FROM source)"
    spec = f"{HEAD}source: a.json\nquestions: {sql}\nwhere: answer <> 'So.'\n"

    found = plan(benchmark(spec, {"a.json": json.dumps(NESTED)}))

    assert [question.source_item for question in found.questions] == [items[0], *items[3:]]
    assert [(record.row, record.item) for record in found.quarantine] == [(1, items[1]), (2, None)]
    assert (
        found.quarantine[0].message("scratch").startswith(f"data/sources/scratch/a.json, row 1 (question {items[1]}), ")
    )
    assert f"a.json, rows 1 (question {items[0]}), 3 (question {items[4]}))" in "".join(found.notes)


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


SPEC = """source: questions.jsonl
tables: {bodies: bodies.jsonl, docs: {files: "docs/**/*"}}
questions: SELECT q AS question, 'a' AS answer, [context] AS contexts FROM source
documents: SELECT * FROM bodies
"""
FILES = {
    "docs/keep.txt": "kept",
    "docs/b.txt": "b",
    "docs/n/b.txt": "b",
    "docs/latin.txt": "café noir".encode("latin-1"),
    "docs/windows.txt": b"caf\xe9\r\nest \x93ferm\xe9\x94",
    "docs/night.log": "café",
}
BODIES = [
    {"url": "https://x.org/a", "file": "docs/keep.txt"},
    {"url": "https://x.org/b#top", "html": "<p>b"},
    {"name": "A title/1", "text": "0123456789"},
    {"name": "notes", "markdown": "# Notes"},
    {"name": "x.org/b", "text": "spelled like the URL"},
    {"url": "https://x.org/gone", "file": "docs/absent.html"},
    {"url": "https://x.org/fetched"},
    {"url": "https://x.org/not-named"},
    {"name": "bad"},
    {"name": "bad path", "file": "a" * 5_000},
]
TITLE = "A title%2F1.pdf"
SECOND_B = f"b.txt~{hashlib.sha256(b'b.txt').hexdigest()[:8]}.pdf"
CONTEXTS = {
    # context of a question, file name or code, gold text
    "a URL":                         ({"url": "http://x.org/a#s"}, "a#s.pdf", None),
    "a name":                        ({"document": "A title/1"}, TITLE, None),
    "a file, the body of a URL":     ({"file": "keep.txt"}, "a#s.pdf", None),
    "a text alone":                  ({"text": "only gold"}, None, "only gold"),
    "a URL to be fetched":           ({"url": "https://x.org/fetched"}, "fetched.pdf", None),
    "a name spelled like a URL":     ({"document": "x.org/b"}, "x.org%2Fb.pdf", None),
    "that URL":                      ({"url": "http://x.org/b"}, "b.pdf", None),
    "a file by its path":            ({"file": "docs/b.txt"}, "b.txt.pdf", None),
    "a file of the same name":       ({"file": "docs/n/b.txt"}, SECOND_B, None),
    "a file of two folders":         ({"file": "b.txt"}, "ambiguous_file", None),
    "a name that no row has":        ({"document": "nobody"}, "unknown_document", None),
    "a file that no folder has":     ({"file": "absent.pdf"}, "unknown_document", None),
    "the name of a bad row":         ({"document": "bad path"}, "unknown_document", None),
    "offsets":                       ({"document": "A title/1", "start": 2, "end": 4}, TITLE, "23"),
    "offsets and text":              ({"document": "A title/1", "start": 2, "end": 4, "text": "23"}, TITLE, "23"),
    "other white space":             ({"file": "keep.txt", "start": 1, "end": 3, "text": " e\np"}, "a#s.pdf", " e\np"),
    "offsets of another number":     ({"document": "A title/1", "start": 2, "end": 4, "text": "2.3"}, "span_mismatch", None),
    "offsets of another text":       ({"document": "A title/1", "start": 2, "end": 4, "text": "34"}, "span_mismatch", None),
    "offsets beyond the body":       ({"document": "A title/1", "start": 8, "end": 11}, "bad_span", None),
    "offsets in a file":             ({"file": "keep.txt", "start": 1, "end": 3}, "a#s.pdf", "ep"),
    "in a file that is not UTF-8":   ({"file": "latin.txt", "start": 5, "end": 9}, "latin.txt.pdf", "noir"),
    "behind a line end of Windows":  ({"file": "windows.txt", "start": 6, "end": 9}, "windows.txt.pdf", "est"),
    "letters of Windows":            ({"file": "windows.txt", "start": 10, "end": 17}, "windows.txt.pdf", "“fermé”"),
    "in a text of another ending":   ({"file": "night.log", "start": 0, "end": 4}, "night.log.pdf", "café"),
}  # fmt: skip


def with_documents(benchmark, more=""):
    contexts = [dict.fromkeys(("url", "file", "document", "text", "start", "end")) | c for c, _, _ in CONTEXTS.values()]
    bodies = [dict.fromkeys(("url", "name", "file", "html", "markdown", "text")) | body for body in BODIES]
    lines = {
        "questions.jsonl": [{"q": name, "context": context} for name, context in zip(CONTEXTS, contexts, strict=True)],
        "bodies.jsonl": bodies,
    }
    files = {name: "\n".join(map(json.dumps, rows)) for name, rows in lines.items()}
    return plan(benchmark(HEAD + SPEC + more, files | FILES))


def test_documents_are_found_by_url_name_or_file_or_their_question_is_quarantined(benchmark):
    found = with_documents(benchmark)

    named = {question.question: question.contexts[0] for question in found.questions}
    codes = {list(CONTEXTS)[record.question_id]: record.code for record in found.quarantine}
    assert {name: context.file_name for name, context in named.items()} | codes == {
        name: expected for name, (_, expected, _) in CONTEXTS.items()
    }
    assert {name: context.text for name, context in named.items()} == {
        name: text for name, (_, _, text) in CONTEXTS.items() if name in named
    }
    assert outline(found) == [
        ("x.org/a", "file", ["a#s.pdf"]),
        ("x.org/b", "html", ["b.pdf"]),
        ("A title/1", "text", [TITLE]),
        ("notes", "markdown", ["notes.pdf"]),  # planned although no question names it, as it has a body
        ("./x.org/b", "text", ["x.org%2Fb.pdf"]),
        ("x.org/gone", "file", ["gone.pdf"]),  # so that the corpus lists it as missing
        ("x.org/fetched", "url", ["fetched.pdf"]),
        ("docs/b.txt", "file", ["b.txt.pdf"]),
        ("docs/latin.txt", "file", ["latin.txt.pdf"]),
        ("docs/n/b.txt", "file", [SECOND_B]),
        ("docs/night.log", "file", ["night.log.pdf"]),
        ("docs/windows.txt", "file", ["windows.txt.pdf"]),
    ]
    assert [note[:19] for note in found.notes[:2]] == ["documents, row 9: e", "documents, row 10: "]
    assert found.notes[-1] == (
        "Not fetched, because no question names them: 1 URLs of `documents`; `unnamed_urls: fetch` in benchmark.yaml "
        "adds them as distractors."
    )
    assert found.counts.conserved


def test_documents_that_are_unknown_or_unnamed_are_left_out_or_fetched_where_the_benchmark_asks_for_it(benchmark):
    found = with_documents(benchmark, "on_missing_document: keep\nunnamed_urls: fetch\n")

    unknown = [name for name, (_, code, _) in CONTEXTS.items() if code == "unknown_document"]
    assert [question.question for question in found.questions if not question.contexts] == unknown
    assert found.notes[-3:] == [
        f"contexts of unknown document '{name}' were left out (1)." for name in ("nobody", "absent.pdf", "bad path")
    ]
    assert ("x.org/not-named", "url", ["not-named.pdf"]) in outline(found)


URL_LISTS = """\
source: questions.csv
questions: SELECT q AS question, a AS answer, [u, 'https://x.org/' || q] AS urls FROM source
on_missing_document: keep
"""


def test_with_keep_a_bad_url_is_a_lost_context_and_not_a_lost_question(benchmark):
    links = "q,a,u\nx,a,en.wikipedia.org/wiki/Ada\ny,b,https://x.org/y\n"

    found = plan(benchmark(HEAD + URL_LISTS, {"questions.csv": links}))

    assert [[context.url for context in question.contexts] for question in found.questions] == [
        ["https://x.org/x"],
        ["https://x.org/y"],
    ]
    assert found.quarantine == []
    assert found.notes == [
        "contexts: what is stated twice, such as a judgement, is kept once (1 row).",
        "contexts of the bad URL 'en.wikipedia.org/wiki/Ada' were left out (1).",
    ]
    assert found.refused_urls == {"'en.wikipedia.org/wiki/Ada'": "a context that was left out"}


JUDGED = """\
source: queries.jsonl
tables: {judged: qrels.tsv, corpus: corpus.jsonl}
retrieval_only: true
documents: SELECT id AS name, text FROM corpus
questions: |
  SELECT id AS source_id, text AS question, (
    SELECT list({document: "corpus-id", relevance: 1} ORDER BY "corpus-id") FROM judged WHERE "query-id" = source.id
  ) AS contexts FROM source
"""
JUDGEMENTS = {
    # judgements beside one of each of two queries, documents of the two, notes
    "of a query that is no question": (
        "q9\td1\t1\n", [["d1"], ["d2"]],
        ["judged: 1 judgement is not used, because its query is no question: 'q9'."],
    ),
    "of two such queries": (
        "q9\td1\t1\nq8\td1\t1\nq9\td2\t1\n", [["d1"], ["d2"]],
        ["judged: 3 judgements are not used, because their 2 queries are no questions: 'q9', 'q8'."],
    ),
    "the same one twice": (
        "q1\td1\t1\n", [["d1"], ["d2"]],
        ["contexts: what is stated twice, such as a judgement, is kept once (1 row)."],
    ),
    "two documents of a query": ("q1\td2\t1\n", [["d1", "d2"], ["d2"]], []),
}  # fmt: skip


@pytest.mark.parametrize(("more", "documents", "notes"), JUDGEMENTS.values(), ids=JUDGEMENTS)
def test_judgements_are_used_once_and_those_of_no_question_are_counted(benchmark, more, documents, notes):
    files = {
        "queries.jsonl": '{"id": "q1", "text": "how deep"}\n{"id": "q2", "text": "how wide"}\n',
        "corpus.jsonl": '{"id": "d1", "text": "It is deep."}\n{"id": "d2", "text": "It is wide."}\n',
        "qrels.tsv": f"query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n{more}",
    }

    found = plan(benchmark(HEAD + JUDGED, files))

    assert [[context.document for context in question.contexts] for question in found.questions] == documents
    assert found.notes == notes


def test_answer_of_an_impossible_question_is_ignored_and_it_is_noted(benchmark):
    rows = "q,a,i\nWhere?,Oslo,true\nWho?,unanswerable,true\n"
    spec = "source: q.csv\nquestions: {question: q, answer: a, is_impossible: i}\n"

    found = plan(benchmark(HEAD + spec, {"q.csv": rows}))

    assert [(question.answer, question.answers) for question in found.questions] == [("Oslo", ()), ("unanswerable", ())]
    assert [join(train_rows(batch)["answer"]).to_pylist() for batch in found.spool.read()] == [['""', '""']]
    assert [note.partition(";")[0] for note in found.notes] == [
        "is_impossible: unanswerable questions have answers, such as 'Oslo' (1 row: q.csv, row 1)"
    ]


COMPOSED, DECOMPOSED = "docs/\u00fcber.md", "docs/u\u0308ber.md"
UNICODE_NAMES = {
    # the file on disk, the cell that names it
    "NFD on disk": (DECOMPOSED, "\u00fcber.md"),
    "NFD in the table": (COMPOSED, "u\u0308ber.md"),
    "a path": (DECOMPOSED, COMPOSED),
    "a name without its ending": (DECOMPOSED, "\u00fcber"),
    "a glob": (DECOMPOSED, "\u00fcb*"),
}


@pytest.mark.parametrize("packed", [False, True], ids=["in a folder", "in a zip"])
@pytest.mark.parametrize(("on_disk", "cell"), UNICODE_NAMES.values(), ids=UNICODE_NAMES)
def test_names_of_files_are_equal_in_nfc_and_nfd(benchmark, on_disk, cell, packed):
    origin = "{path: docs.zip, files: '**/*'}" if packed else "{files: 'docs/*'}"
    spec = f"source: q.jsonl\ntables: {{docs: {origin}}}\nquestions: {{question: q, answer: a, files: d}}\n"
    body = {"docs.zip": zipped({on_disk: "Over."})} if packed else {on_disk: "Over."}
    rows = [json.dumps({"q": "?", "a": "x", "d": name}, ensure_ascii=False) for name in (cell, "\u00fcver.md")]

    found = plan(benchmark(HEAD + spec, {"q.jsonl": "\n".join(rows), **body}))

    assert [document.path.read_text() for document in found.documents] == ["Over."]
    assert [record.code for record in found.quarantine] == ["unknown_document"]
    assert "Did you mean" in found.quarantine[0].expected


def test_bodies_of_one_url_are_joined_in_their_order_and_counted(benchmark):
    rows = "q,a,u,h\n1,a,https://x.org/faq,<p>One\n2,a,https://x.org/faq#b,<p>Two\n3,a,http://x.org/faq,<p>One\n"
    documents = "documents: SELECT u AS url, h AS html FROM source\n"

    found = plan(benchmark(URLS + documents, {"questions.csv": rows}))

    assert [document.content for document in found.documents] == ["<p>One\n\n<p>Two"]
    assert found.notes == [
        "documents: rows have 2 different bodies for 1 URL; the bodies of one URL are joined in their order. The first is "
        "https://x.org/faq."
    ]


def test_bad_rows_of_tables_are_noted_and_do_not_count_as_questions(benchmark):
    found = plan(
        benchmark(
            PLAIN + "tables: {mirror: mirror.csv}\n",
            {"questions.csv": "q,a\nx,y\n", "mirror.csv": "url,file\nonly\n"},
        )
    )
    assert found.notes == ["table mirror: mirror.csv, row 1 (line 2): expected 2 cells, found ['only'] [row_width]."]
    assert found.counts.rows == 1


@pytest.mark.fault(33)
def test_ids_of_the_source_that_repeat_are_noted(benchmark):
    spec = HEAD + "source: questions.csv\nquestions: {question: q, answer: a, source_id: i}\n"
    found = plan(benchmark(spec, {"questions.csv": "q,a,i\nx,y,1\nz,y,1\n"}))
    assert found.notes == ["source_id: 1 id is used by several questions, the first is '1'."]


def test_source_of_nothing_but_bad_rows_is_quarantined_whole(benchmark):
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

    expected = sum(bool("".join(row).strip()) for row in rows)  # a row of empty cells is none
    assert found.counts.rows == expected
    assert found.counts.conserved
    assert len(found.questions) + len(found.quarantine) == expected


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


GROUPED = {
    #                                     (answer, document, conversation) of each question
    "by document, answered or not":       ([("a", "one", ""), ("", "one", ""), ("a", "two", ""), ("a", "", ""), ("", "", "")], [1, 1, 1, 2], "document"),
    "by conversation before documents":   ([("a", "one", "c"), ("a", "two", "c"), ("a", "one", "d"), ("a", "", "d")], [2, 2], "conversation"),
    "by either":                          ([("a", "one", "c"), ("a", "one", ""), ("", "", "c"), ("a", "one", "")], [2, 2], "document or conversation"),
    "turns of one each share nothing":    ([("a", "one", "c"), ("a", "one", "d")], [1, 1], "document"),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "sizes", "shared"), GROUPED.values(), ids=GROUPED)
def test_group_sizes_are_those_that_an_evaluation_takes_for_independent(benchmark, rows, sizes, shared):
    spec = HEAD + (
        "source: questions.jsonl\nquestions: |\n  SELECT q AS question, a AS answer, a = '' AS is_impossible, "
        "CASE WHEN d = '' THEN [] ELSE [{'document': d}] END AS contexts, c AS conversation FROM source\n"
        "documents: SELECT DISTINCT d AS name, 'text' AS text FROM source WHERE d <> '' ORDER BY 1\n"
    )
    lines = [json.dumps({"q": f"question {n}", "a": a, "d": d, "c": c}) for n, (a, d, c) in enumerate(rows)]

    found = plan(benchmark(spec, {"questions.jsonl": "\n".join(lines)}))

    assert (sorted(found.group_sizes), found.shared) == (sizes, shared)


def test_urls_with_escaped_ampersands_are_read_as_they_were_meant_and_it_is_noted(benchmark):
    files = {
        "questions.csv": "q,a,u\n1,a,https://x.org/A?b=1&amp;c=2\n2,a,https://x.org/A?b=1&c=2\n",
        "docs.csv": "u,t\nhttps://x.org/A?b=1&amp;c=2,text\n",
    }
    documents = "tables: {docs: docs.csv}\ndocuments: SELECT u AS url, t AS text FROM docs\n"

    found = plan(benchmark(URLS + documents, files))

    assert outline(found) == [("x.org/A?b=1&c=2", "text", ["A.pdf"])]
    assert [question.contexts[0].url for question in found.questions] == ["https://x.org/A?b=1&c=2"] * 2
    assert found.notes == [
        "urls: `&amp;` is read as `&` (1 row of `documents`).",
        "urls: `&amp;` is read as `&` (1 row).",
    ]


NAMED_FILES = {
    # the short form, a cell of the column, the files that it names
    "a list in a JSON cell": ("d", ["b.pdf", "docs/a_2.pdf"], ["b.pdf", "a_2.pdf"]),
    "a name without its ending": ("d", "b", ["b.pdf"]),
    "a glob of a folder": ("d", "docs/a_*.pdf", ["a_1.pdf", "a_2.pdf"]),
    "a glob of names": ("d", "*_1.pdf", ["a_1.pdf"]),
    "a template": ('"docs/a_{n}.pdf"', None, ["a_2.pdf"]),
    "an empty cell": ("d", "", []),
}


@pytest.mark.parametrize(("column", "cell", "names"), NAMED_FILES.values(), ids=NAMED_FILES)
def test_files_of_the_short_form_are_names_globs_and_templates(benchmark, column, cell, names):
    spec = f"{HEAD}source: q.json\ntables: {{docs: {{files: '**/*.pdf'}}}}\n"
    row = json.dumps([{"q": "?", "a": "x", "d": cell, "n": 2}])
    files = {"q.json": row, "docs/a_1.pdf": "1", "docs/a_2.pdf": "2", "more/b.pdf": "3"}

    found = plan(benchmark(f"{spec}questions: {{question: q, answer: a, files: {column}}}\n", files))

    assert [context.file_name for context in found.questions[0].contexts] == names
    assert sorted(name for _, _, given in outline(found) for name in given) == sorted(names)


def test_glob_beside_a_gold_text_has_to_fit_one_file(benchmark):
    rows = "q,a,d\n1,x,docs/*_1.pdf\n2,x,docs/*.pdf\n3,x,docs/*.doc\n"
    select = "questions: |\n  SELECT q AS question, a AS answer, [{file: d, text: 'gold'}] AS contexts FROM source\n"
    files = {"questions.csv": rows, "docs/a_1.pdf": "1", "docs/a_2.pdf": "2"}

    found = plan(benchmark(f"{HEAD}source: questions.csv\ntables: {{docs: {{files: 'docs/*'}}}}\n{select}", files))

    assert [question.question for question in found.questions] == ["1"]
    assert [record.code for record in found.quarantine] == ["ambiguous_file", "unknown_document"]


def test_answer_that_says_there_is_none_is_impossible_unless_stated_otherwise(benchmark):
    rows = "q,a,i\n1,Unanswerable,\n2,I don’t know.,\n3,unanswerable,false\n4,No answer to that was given,\n"

    stated = plan(benchmark(f"{HEAD}source: q.csv\nquestions: {{question: q, answer: a}}\n", {"q.csv": rows}))
    own = "SELECT q AS question, a AS answer, nullif(i, '') AS is_impossible FROM source"
    mapped = plan(benchmark(f"{HEAD}source: q.csv\nquestions: {own}\n", {"q.csv": rows}))

    assert [question.is_impossible for question in stated.questions] == [True, True, True, False]
    assert [question.is_impossible for question in mapped.questions] == [True, True, False, False]
    assert stated.notes[0] == (
        "answer: 'Unanswerable' says that there is no answer, so is_impossible is true unless stated (1 row)."
    )


def test_answers_that_all_say_there_is_none_are_impossible(benchmark):
    cells = ('["unanswerable", "No answer."]', '["unanswerable", "Paris"]', "[]")
    rows = "".join(f'{{"q": "?", "a": {cell}}}\n' for cell in cells)

    found = plan(benchmark(f"{HEAD}source: q.jsonl\nquestions: {{question: q, answers: a}}\n", {"q.jsonl": rows}))

    accepted = [(question.is_impossible, question.answers) for question in found.questions]
    assert accepted == [(True, ()), (False, ("unanswerable", "Paris"))]
    assert [record.code for record in found.quarantine] == ["empty_answer"]


def test_questions_without_a_document_are_counted_with_the_row_of_the_first(benchmark):
    rows = "q,a,u\n1,a,https://x.org/A\n2,a,\n3,a,\n"

    one = plan(benchmark(URLS, {"questions.csv": rows[:-5]}))
    two = plan(benchmark(URLS, {"questions.csv": rows}))

    assert one.notes == ["1 answerable question names no document: questions.csv, row 2."]
    assert two.notes == ["2 answerable questions name no document; the first is questions.csv, row 2."]


def test_more_questions_than_an_evaluation_can_hold_are_refused_with_a_remedy(benchmark, monkeypatch):
    monkeypatch.setattr("rag_eval_pipeline.conversion.planning.MAX_QUESTIONS", 3)
    rows = {"questions.csv": "q,a\n" + "".join(f"question {number},{number % 2}\n" for number in range(6))}
    part = "questions: SELECT q AS question, a AS answer FROM source WHERE a = 1\n"

    assert plan(benchmark(HEAD + "source: questions.csv\n" + part, rows)).counts.accepted == 3
    with pytest.raises(InputError) as refused:
        plan(benchmark(PLAIN, rows))

    assert refused.value.code == "too_many_questions"
    assert "at most 3 questions" in str(refused.value)
    assert "WHERE topic = 'law'" in str(refused.value)
