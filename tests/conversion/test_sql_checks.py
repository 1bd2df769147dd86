"""Which queries keep the order of their source is read from their syntax, not guessed from results."""

import json

import duckdb
import pytest

from rag_eval_pipeline.conversion.sql_checks import columns_used, has_own_order, order_hazard, traced


def tree(sql):
    [[text]] = duckdb.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    return json.loads(text)


def node(sql):
    return tree(sql)["statements"][0]["node"]


HAZARDS = {
    "a plain query": ("SELECT q FROM source WHERE a > 1", None),
    "unnesting it in FROM": ("SELECT x FROM source s, unnest(s.l) t(x)", None),
    "a lateral SELECT without FROM": ("SELECT x FROM source s, (SELECT unnest(s.l) AS x)", None),
    "both rows of two": ("SELECT q FROM source UNION ALL SELECT q FROM more", None),
    "a subquery in an expression": ("SELECT (SELECT list(name) FROM docs WHERE name GLOB g) FROM source", None),
    "a join": ("SELECT q FROM source JOIN docs USING (id)", "JOIN"),
    "a lateral subquery over a table": ("SELECT q FROM source s, (SELECT * FROM docs WHERE id = s.id)", "JOIN"),
    "groups": ("SELECT q FROM source GROUP BY q", "GROUP BY"),
    "distinct rows": ("SELECT DISTINCT q FROM source", "DISTINCT"),
    "a union, which is distinct": ("SELECT q FROM source UNION SELECT q FROM more", "UNION"),
    "distinct rows below": ("SELECT q FROM (SELECT DISTINCT q FROM source)", "DISTINCT"),
    "distinct rows in a common table": ("WITH c AS (SELECT DISTINCT q FROM source) SELECT q FROM c", "DISTINCT"),
    "a common table that is not in FROM": (
        "WITH c AS (SELECT DISTINCT q FROM source) SELECT q FROM source WHERE q IN (FROM c)",
        None,
    ),
}


@pytest.mark.parametrize(("sql", "expected"), HAZARDS.values(), ids=HAZARDS)
def test_order_hazard(sql, expected):
    assert order_hazard(node(sql)) == expected


TRACED = {
    "an alias": "SELECT s.q FROM source AS s WHERE s.q <> ''",
    "unnesting in FROM": "SELECT x FROM source s, unnest(s.l) t(x)",
    "levels of subqueries": "SELECT q FROM (SELECT q FROM (SELECT q, unnest(l) FROM source) AS inner_one)",
    "a common table": "WITH c AS (SELECT q FROM source) SELECT q FROM c AS d",
    "the left side of a join": "SELECT q FROM source s JOIN docs ON s.q = docs.name",
}


@pytest.mark.parametrize("sql", TRACED.values(), ids=TRACED)
def test_rows_that_are_handed_through_are_traced_to_their_source(sql):
    found = traced(tree(sql))
    connection = duckdb.connect()
    connection.execute("CREATE TABLE source AS SELECT 'x' AS q, ['a', 'b'] AS l, 'f' AS source_file, 7 AS source_row")
    connection.execute("CREATE TABLE docs AS SELECT 'x' AS name")
    [[text]] = connection.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(found)]).fetchall()

    result = connection.execute(text)
    names = [column[0] for column in result.description]
    rows = [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    assert {(row["__source_file"], row["__source_row"]) for row in rows} == {("f", 7)}


UNTRACED = {
    "groups": "SELECT q FROM source GROUP BY q",
    "a union": "SELECT q FROM source UNION ALL SELECT q FROM source",
    "another table": "SELECT name FROM docs",
}


@pytest.mark.parametrize("sql", UNTRACED.values(), ids=UNTRACED)
def test_rows_made_of_several_are_not_traced(sql):
    assert traced(tree(sql)) is None


def test_order_of_its_own_is_the_outermost():
    assert has_own_order(tree("SELECT q FROM source ORDER BY q"))
    assert not has_own_order(tree("SELECT q FROM (SELECT q FROM source ORDER BY q)"))


def test_columns_used_are_the_last_parts_of_names():
    assert columns_used(node("SELECT (status <> 'x' AND m.level IN (1) OR q IS NULL)")) == ["level", "q", "status"]
