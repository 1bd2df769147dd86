"""A benchmark's SQL sees its relations and nothing else; its rows come back in the source's order."""

from datetime import date, datetime
from decimal import Decimal
from urllib.parse import urlparse

import pytest

from rag_eval_pipeline.conversion import sql_worker
from rag_eval_pipeline.conversion.benchmark_spec import BenchmarkSpec, QuestionColumns
from rag_eval_pipeline.conversion.mapping import Limits, map_source, short_form_sql
from rag_eval_pipeline.conversion.sql_worker import QueryError
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.relations import read_relation
from rag_eval_pipeline.sources.source_spec import SourceSpec
from rag_eval_pipeline.storage.python_literals import literal_json
from tests.conversion.conftest import HEAD

FILES = {"a.csv": 'q,a,"Odd ""Name"""\none,1,x\ntwo,2,y\n', "b.csv": "q,a\nthree,3\n", "docs/x.pdf": b"%PDF-"}


PLAIN = "SELECT q AS question, a AS answer FROM source"


@pytest.fixture
def relations(benchmark):
    paths = benchmark(HEAD, FILES)
    return {
        "source": read_relation(paths, SourceSpec(path=("b.csv", "a.csv")), source_columns=True),
        "docs": read_relation(paths, SourceSpec(files="docs/*")),
    }


def run(relations, sql, where=None, limits=None):
    return mapped(relations, {"questions": sql, "where": where}, limits)["questions"]


def mapped(relations, keys, limits=None):
    spec = BenchmarkSpec.model_validate({"name": "x", "version": "1.0.0", "source": "a.csv", **keys})
    return map_source(spec, relations, lambda key, line: f"benchmark.yaml, {key}, line {line}", limits)


def test_short_form_selects_their_columns_under_our_names(relations):
    columns = QuestionColumns(question="q", answer="a", metadata=('Odd "Name"', "q"))

    mapped = run(relations, short_form_sql(columns))

    assert mapped.columns == ("question", "answer", "metadata")
    assert [(row.file, row.row, row.values["metadata"]) for row in mapped.rows] == [
        ("b.csv", 1, {'Odd "Name"': None, "q": "three"}),
        ("a.csv", 1, {'Odd "Name"': "x", "q": "one"}),
        ("a.csv", 2, {'Odd "Name"': "y", "q": "two"}),
    ]


def test_column_that_the_source_lacks_is_named_with_those_it_has(relations):
    with pytest.raises(InputError, match=r"Known: q, a, Odd") as caught:
        mapped(relations, {"questions": {"question": "Question"}})
    assert caught.value.code == "unknown_column"


MEANT = {
    # SQL, what its message ends with
    "a column": ("SELECT sourcerow AS question FROM source", "Did you mean source_row? Known: source(q, a, Odd"),
    "a table": ("SELECT q AS question FROM sources", "Did you mean source? Known: source("),
    "a field of a struct": ("SELECT s.titel AS question FROM docs", "Did you mean title? Known: the fields title, n."),
    "a function": (
        "SELECT python_lists(q) AS question FROM source",
        "Did you mean python_list or python_dict? Known: python_list, ",
    ),
    "a column of ours": ("SELECT q AS questions FROM source", "Did you mean question? Known: question, "),
}


@pytest.mark.parametrize(("sql", "hint"), MEANT.values(), ids=MEANT)
def test_name_that_sql_does_not_know_is_answered_with_the_one_meant(relations, benchmark, sql, hint):
    paths = benchmark(HEAD, {"d.jsonl": '{"s": {"title": "x", "n": 1}}\n'})
    docs = read_relation(paths, SourceSpec(path=("d.jsonl",)))

    with pytest.raises(InputError) as caught:
        run({**relations, "docs": docs}, sql)

    assert hint in caught.value.hint


def test_returned_rows_and_items_are_the_order(relations):
    sql = """SELECT q || i AS question, a AS answer, source_file, source_row, i AS source_item
             FROM (SELECT *, unnest([2, 1]) AS i FROM source) JOIN docs ON true"""

    assert [row.values["question"] for row in run(relations, sql).rows] == [
        "three1",
        "three2",
        "one1",
        "one2",
        "two1",
        "two2",
    ]


def test_rows_of_plain_sql_have_their_own_order_and_are_traced_to_file_and_row(relations):
    """`where` may use a column that is no field of a question, and NULL does not keep a row."""
    sql = "SELECT upper(q) AS question, a AS answer, q AS status FROM source ORDER BY q DESC"

    mapped = run(relations, sql, "CASE status WHEN 'one' THEN true WHEN 'two' THEN NULL END")

    assert [(row.values["question"], row.file, row.row, row.keep) for row in mapped.rows] == [
        ("TWO", "a.csv", 2, False),
        ("THREE", "b.csv", 1, False),
        ("ONE", "a.csv", 1, True),
    ]


REFUSED = {
    "two statements": ("SELECT 1; SELECT 2", None, "not_one_select"),
    "DDL": ("CREATE TABLE x AS SELECT 1", None, "not_one_select"),
    "a setting": ("SET memory_limit = '1TB'", None, "not_one_select"),
    "a copy to a file": ("COPY source TO '/tmp/rag-eval-leak.csv'", None, "not_one_select"),
    "a file of the machine": (
        "SELECT content AS question, '' AS answer FROM read_text('/etc/hostname')",
        None,
        "bad_sql",
    ),
    "a file as a table": ("SELECT * FROM '/etc/passwd'", None, "bad_sql"),
    "names of files": ("SELECT file AS question, '' AS answer FROM glob('/etc/*')", None, "bad_sql"),
    "a file over the network": ("SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')", None, "bad_sql"),
    "a Python variable": ("SELECT * FROM job", None, "bad_sql"),
    "a misspelt column": ("SELECT questoin FROM source", None, "bad_sql"),
    "a cell that is no number": ("SELECT CAST(q AS INTEGER) AS question, a AS answer FROM source", None, "bad_sql"),
    "a text that is no JSON, after the first rows": (
        "SELECT CASE WHEN q = 'three' THEN ['1'::JSON] ELSE [q] END AS question FROM source",
        None,
        "bad_sql",
    ),
    "a where that breaks out": (PLAIN, "true) FROM result --", "bad_sql"),
    "a where of two expressions": (PLAIN, "true, false", "bad_sql"),
    "a where on a column that is not returned": (PLAIN, "source_row > 1", "bad_sql"),
    "a cell that is no Python list": ("SELECT python_list($$['a'$$) AS question FROM source", None, "bad_sql"),
    "a random number": ("SELECT q AS question, random()::VARCHAR AS answer FROM source", None, "volatile_sql"),
    "the clock without parentheses": (
        "SELECT q AS question, current_date::VARCHAR AS answer FROM source",
        None,
        "volatile_sql",
    ),
    "an age up to today": (
        "SELECT q AS question, age(TIMESTAMP '2020-01-01')::VARCHAR AS answer FROM source",
        None,
        "volatile_sql",
    ),
    "a sample of a table": ("SELECT q AS question, a AS answer FROM source TABLESAMPLE 50%", None, "volatile_sql"),
    "a random condition": (PLAIN, "random() < 0.5", "volatile_sql"),
}


@pytest.mark.parametrize(("sql", "where", "code"), REFUSED.values(), ids=REFUSED)
def test_sql_is_refused(relations, tmp_path, sql, where, code):
    query = {"name": "questions", "sql": sql, "where": where, "files": ["b.csv", "a.csv"]}
    paths = {name: str(relation.path) for name, relation in relations.items()}

    with pytest.raises(QueryError) as caught:
        sql_worker.run({"memory_mb": 200, "relations": paths, "queries": [query]}, tmp_path)

    assert caught.value.code == code
    assert "\n" not in caught.value.message


MISMAPPED = {
    "a column that we do not know": ("SELECT q AS question, a AS anwser FROM source", "unknown_column"),
    "no answer": ("SELECT q AS question FROM source", "missing_column"),
    "urls and contexts": ("SELECT q AS question, a AS answer, [q] AS urls, [q] AS contexts FROM source", "bad_value"),
    "a field that no context has": (
        "SELECT q AS question, a AS answer, [{doc: q}] AS contexts FROM source",
        "unknown_column",
    ),
    "a join": ("SELECT q AS question, name AS answer FROM source JOIN docs ON true", "unordered_questions"),
    "the row without the file, of two files": (
        "SELECT DISTINCT q AS question, a AS answer, source_row FROM source",
        "unordered_questions",
    ),
}


@pytest.mark.parametrize(("sql", "code"), MISMAPPED.values(), ids=MISMAPPED)
def test_columns_and_order_of_questions_are_checked(relations, sql, code):
    with pytest.raises(InputError) as caught:
        run(relations, sql)
    assert caught.value.code == code


def test_error_names_the_line_of_the_sql_and_the_relations_there_are(relations):
    with pytest.raises(
        InputError,
        match=r'questions, line 2.*source\(q, a, Odd "Name", source_file, source_row\); docs\(file, name\)',
    ):
        run(relations, "SELECT q AS question,\n  answre AS answer\nFROM source")


ENDLESS = """SELECT (SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b)::VARCHAR AS question,
                    '' AS answer"""


@pytest.mark.usefixtures("started_workers")
def test_query_that_does_not_end_is_killed(relations):
    with pytest.raises(InputError) as caught:
        run(relations, ENDLESS, limits=Limits(seconds=1.0))
    assert caught.value.code == "query_deadline"


@pytest.mark.usefixtures("started_workers")
def test_query_that_takes_all_memory_is_refused(relations):
    sql = "SELECT list(range)::VARCHAR AS question, '' AS answer FROM range(1000000000)"

    with pytest.raises(InputError) as caught:
        run(relations, sql, limits=Limits(memory_mb=100))

    assert caught.value.code == "query_memory"


MACROS = {
    "a Python list with both quotes": ("""python_list('[''a'', "it''s", ''b\\''c'']')""", ["a", "it's", "b'c"]),
    "an empty cell": ("python_list('  ')", []),
    "escapes": (
        r"python_list($$['one\ntwo\tthree\\', 'caf\xe9 \u2019 \U0001f600 \101', '\N{DEGREE SIGN}']$$)",
        ["one\ntwo\tthree\\", "café ’ 😀 A", "°"],
    ),
    "raw, tripled and glued literals": (
        r"""python_list($$[r'a\n', '''it's "so"''', ('one ' 'two'), u'x']$$)""",
        ["a\\n", 'it\'s "so"', "one two", "x"],
    ),
    "an array as numpy prints it": ("""python_list($$['one' "it's"\n 'b\\'c']$$)""", ["one", "it's", "b'c"]),
    "an array of texts with a line separator": ("python_list($$['a\u2028b'\n 'c']$$)", ["a\u2028b", "c"]),
    "arrays in an array": (
        "python_list($$[array(['a' 'b'], dtype=object)\n array(['c'], dtype=object)]$$)",
        ['["a","b"]', '["c"]'],
    ),
    "numbers, None and True among texts": (
        "python_list($$['a', 1, 2.5, True, None]$$)",
        ["a", "1", "2.5", "true", None],
    ),
    "a Python dictionary": (
        """python_dict($${'topic': "it's", 'n': 3, 'deep': {'x': [None, True, ('a\\n',)]}, 7: -1.5}$$)""",
        {"topic": "it's", "n": 3, "deep": {"x": [None, True, ["a\n"]]}, "7": -1.5},
    ),
    "an empty cell where a dictionary may stand": ("python_dict('')", None),
    "glued URLs": (
        "url_split('https://a.org/x, https://b.org/y,z https://c.org')",
        ["https://a.org/x", "https://b.org/y,z", "https://c.org"],
    ),
    "an archived URL": (
        "url_split('https://web.archive.org/web/2020/https://a.org')",
        ["https://web.archive.org/web/2020/https://a.org"],
    ),
    "text cut by bytes": ("byte_slice('né à Zürich', 7, 14)", "Zürich"),
    "an offset in bytes as one in characters": ("char_offset('né à Zürich', 7)", 5),
}


STEMS = [
    "https://en.wikipedia.org/wiki/HIV/AIDS",
    "https://en.wikipedia.org/wiki/Hiy%C5%8D#Design_(1939)",
    "https://x.org/a/Foo;bar_(x)?q=1#",
    "https://x.org/#/route/b",
    "https://x.org",
    "https://x.org/a/b/",
    "x.org/wiki/No_Scheme",
]


def test_macros(relations):
    expected = {call: value for call, value in MACROS.values()}
    for url in STEMS:
        parts = urlparse(url)
        stem = parts.path.rsplit("/", 1)[-1] + (f"#{parts.fragment}" if parts.fragment else "")
        expected[f"url_stem('{url}')"] = stem
    fields = ", ".join(f"m{number}: {call}" for number, call in enumerate(expected))

    mapped = run(relations, f"SELECT q AS question, a AS answer, {{{fields}}} AS metadata FROM source")

    found = mapped.rows[0].values["metadata"].values()
    assert dict(zip(expected, found, strict=True)) == expected


@pytest.mark.parametrize("cells", ["[q]", "python_list('[''' || q || ''']')"], ids=["without numpy", "with numpy"])
@pytest.mark.usefixtures("started_workers")
def test_worker_imports_numpy_only_for_cells_that_python_wrote(relations, cells):
    fields = f"""day: DATE '2024-02-29', time: TIMESTAMP '2024-02-29 12:00:00', price: 1.50::DECIMAL(9, 2),
        by_name: MAP {{'q': q}}, pairs: [{{n: source_row, q: q}}], cells: {cells}, json: to_json(q)"""
    sql = f"SELECT q AS question, a AS answer, {{{fields}}} AS metadata FROM source WHERE q = 'two'"

    [row] = run(relations, sql, where="answer = '2' AND length(question) = 3").rows

    assert row.values["metadata"] == {
        "day": date(2024, 2, 29), "time": datetime.fromisoformat("2024-02-29T12:00"), "price": Decimal("1.50"),
        "by_name": [("q", "two")], "pairs": [{"n": 2, "q": "two"}], "cells": ["two"], "json": "two",
    }  # fmt: skip


NO_LITERALS = {
    "a list that is not closed": ("['a'", "list"),
    "a call": ("[open('/etc/passwd')]", "list"),
    "a dictionary as a list": ("{'a': 1}", "list"),
    "a key that stands twice": ("{'a': 1, 'a': 2}", "dict"),
    "a dictionary that is unpacked": ("{**{'a': 1}}", "dict"),
    "a text broken in two by pprint, or two of numpy's": ("['one '\n 'two']", "list"),
    "an infinite key": ("{1e999: 1}", "dict"),
    "too deep": ("[" * 100_000, "list"),
}


@pytest.mark.parametrize(("text", "kind"), NO_LITERALS.values(), ids=NO_LITERALS)
def test_cell_that_is_no_python_literal_has_no_value(text, kind):
    assert literal_json(text, kind) is None


@pytest.mark.parametrize(
    "questions",
    [
        {"question": "q", "answer": "a", "conversation": "c", "turn": "n"},
        "SELECT q AS question, a AS answer, c AS conversation, n AS turn FROM source",
        "SELECT q AS question, [a] AS answers, c AS conversation, n AS turn, source_row FROM source WHERE q <> ''",
    ],
)
def test_history_is_made_of_the_earlier_turns_of_a_conversation(questions, benchmark):
    rows = "c,n,q,a\nx,10,Why?,So.\ny,1,Who?,She.\nx,9,How deep?,31 m\nx,2,Where?,\n,1,Alone?,a\n,2,Alone?,b\n"
    paths = benchmark(HEAD, {"t.csv": rows})

    found = mapped(
        {"source": read_relation(paths, SourceSpec(path=("t.csv",)), source_columns=True)}, {"questions": questions}
    )

    histories = [[one["content"] for one in row.values["history"] or ()] for row in found["questions"].rows]
    assert histories == [["Where?", "How deep?", "31 m"], [], ["Where?"], [], [], []]
    assert found["questions"].rows[0].values["history"][-1] == {"role": "assistant", "content": "31 m"}
