"""A JSON value becomes text without its quotes, wherever a mapping asks for text; lists and objects stay what they are."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.errors import InputError
from tests.conversion.conftest import HEAD

ROWS = [
    {"q": "one", "a": "Mumbai", "all": ["x", 1], "facts": [["T", ["s1 ", "s2"]]], "m": {"k": [1, "z"]}},
    {"q": "two", "a": 12, "all": ["y"], "facts": [["U", ["s3"]]], "m": {"k": 0.5}},
    {"q": "three", "a": True, "all": [], "facts": [], "m": None},
]
SHORT = "questions: {question: q, answer: a, answers: all, contexts: a, metadata: [a, m]}\n"
SQL = 'questions: |\n  SELECT q AS question, a AS answer, "all" AS answers, a AS contexts, {a: a, m: m} AS metadata FROM source\n'


def lines(rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def planned(benchmark, spec, rows=ROWS, **files):
    head = HEAD + "source: {path: q.jsonl, format: jsonl}\n"
    return plan(benchmark(head + spec, {"q.jsonl": lines(rows), **files}))


def answers(benchmark, sql, rows=ROWS):
    return [question.answer for question in planned(benchmark, f"questions: |\n  {sql}\n", rows).questions]


@pytest.mark.parametrize(
    "spec", [SHORT, SHORT + "where: answer <> 'none'\n", SQL], ids=["short form", "short form with where", "SQL"]
)
def test_one_number_in_a_column_puts_no_quotes_around_the_texts_beside_it(benchmark, spec):
    found = planned(benchmark, spec)

    assert [question.answers for question in found.questions] == [("Mumbai", "x", "1"), ("12", "y"), ("true",)]
    assert [[context.text for context in question.contexts] for question in found.questions] == [
        ["Mumbai"],
        ["12"],
        ["true"],
    ]
    assert [question.metadata for question in found.questions] == [
        {"a": "Mumbai", "m": {"k": [1, "z"]}},
        {"a": 12, "m": {"k": 0.5}},
        {"a": True, "m": None},
    ]


TEXTS = {
    "a cast": ("CAST(a AS VARCHAR)", ["Mumbai", "12", "true"]),
    "a function of texts": ("upper(a)", ["MUMBAI", "12", "TRUE"]),
    "glued to a text": ("'<' || a || '>'", ["<Mumbai>", "<12>", "<true>"]),
    "the text of a path": ("a->>'$'", ["Mumbai", "12", "true"]),
    "compared with a text": ("a = 'Mumbai'", [True, False, False]),
    "among texts": ("a NOT IN ('Mumbai', 'Pune')", [False, True, True]),
    "a list as texts": ("""array_to_string("all", '+') || '.'""", ["x+1.", "y.", "."]),
    "a list cast": ("""list_concat("all"::VARCHAR[], ['.'])[1]""", ["x", "y", "."]),
    "a list inside a pair": (
        """array_to_string(from_json(facts[1][2], '["VARCHAR"]'), '') || '.'""",
        ["s1 s2.", "s3.", None],
    ),
    "JSON that the SQL itself makes": ("to_json({k: q})->'$.k'", ["one", "two", "three"]),
}


def test_sql_and_where_see_the_text_of_a_json_value(benchmark):
    fields = ", ".join(f"m{number}: {sql}" for number, (sql, _) in enumerate(TEXTS.values()))
    sql = f"questions: |\n  SELECT q AS question, a AS answer, {{{fields}}} AS metadata FROM source\n"

    found = planned(benchmark, sql + "where: answer <> 'Mumbai' OR question = 'one' -- the city\n")

    rows = zip(*(question.metadata.values() for question in found.questions), strict=True)
    assert dict(zip(TEXTS, map(list, rows), strict=True)) == {name: texts for name, (_, texts) in TEXTS.items()}
    assert len(planned(benchmark, sql + "where: answer <> 'Mumbai'\n").questions) == 2


def test_names_and_bodies_of_documents_and_names_in_contexts_are_texts(benchmark):
    spec = """\
tables: {docs: docs.jsonl}
questions: |
  SELECT q AS question, a AS answer, [{document: d, text: t}] AS contexts FROM source
documents: SELECT d AS name, body AS text FROM docs
"""
    documents = [{"d": "tide", "body": "high"}, {"d": 7, "body": 12}]
    rows = [{"q": "one", "a": "x", "d": "tide", "t": "hi"}, {"q": "two", "a": "y", "d": 7, "t": 12}]

    found = planned(benchmark, spec, rows, **{"docs.jsonl": lines(documents)})

    assert [(document.names[0].name, document.content) for document in found.documents] == [
        ("tide.pdf", "high"),
        ("7.pdf", "12"),
    ]
    assert [[(c.file_name, c.text) for c in question.contexts] for question in found.questions] == [
        [("tide.pdf", "hi")],
        [("7.pdf", "12")],
    ]


def test_json_in_which_a_key_stands_twice_costs_its_row(benchmark):
    rows = [{"q": "one", "a": "x", "m": '{"k": 1}'}, {"q": "two", "a": "y", "m": '{"k": 1, "k": 2}'}]
    sql = "questions: SELECT q AS question, a AS answer, CAST(m AS JSON) AS metadata FROM source\n"

    found = planned(benchmark, sql, rows)

    assert [question.metadata for question in found.questions] == [{"k": 1}]
    assert [(r.code, r.row, r.field, r.excerpt) for r in found.quarantine] == [("duplicate_key", 2, "metadata", "'k'")]


def test_text_that_is_put_beside_json_names_the_remedy(benchmark):
    with pytest.raises(InputError, match=r"CAST\(column AS VARCHAR\)") as caught:
        answers(benchmark, "SELECT q AS question, CASE WHEN q = 'one' THEN a ELSE 'none' END AS answer FROM source")
    assert caught.value.code == "bad_sql"


def test_json_of_parquet_is_json_too(benchmark):
    texts = [
        pa.ExtensionArray.from_storage(pa.json_(), pa.array(cells)) for cells in (['"Mumbai"', "12"], ['"x"', "1"])
    ]
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), texts[1])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"q": ["one", "two"], "a": texts[0], "l": lists}), sink)

    spec = f"{HEAD}source: q.parquet\nquestions: SELECT q AS question, a AS answer, l AS answers FROM source\n"
    found = plan(benchmark(spec, {"q.parquet": sink.getvalue().to_pybytes()}))

    assert [question.answers for question in found.questions] == [("Mumbai", "x"), ("12", "1")]
