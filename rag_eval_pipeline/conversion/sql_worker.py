"""The child process in which a benchmark's SQL runs: no files, no network, no extensions, bounded memory.

`mapping` runs it, and kills it at its deadline, because DuckDB has none. It reads `job.json` and the relations beside
it, and leaves an Arrow file a query and `result.json`.
"""

import json
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # pyarrow does without numpy, which takes a third of the time of a small job to import
    sys.modules.setdefault("numpy", None)  # type: ignore[arg-type]

import duckdb
import pyarrow as pa
import pyarrow.ipc

from rag_eval_pipeline.conversion.sql_checks import (
    DOCUMENT_COLUMNS,
    KEEP,
    JsonCalls,
    columns_used,
    has_functions,
    has_own_order,
    json_as_text,
    order_hazard,
    text_places,
    traced,
    volatile_parts,
)
from rag_eval_pipeline.sources.arrow_types import JSON_TEXT, inner_fields, is_json
from rag_eval_pipeline.storage import arrow
from rag_eval_pipeline.storage.process import set_limits
from rag_eval_pipeline.storage.python_literals import literal_json

RESULT = "result"
BATCH_ROWS = 4_096
_JSON_WORDS = re.compile(r"json|python_dict|->", re.IGNORECASE)  # SQL that may make JSON values itself
_PYTHON_WORDS = re.compile(r"python_", re.IGNORECASE)  # SQL that reads values as Python writes them
_ARROW_JSON = {b"ARROW:extension:name": b"arrow.json", b"ARROW:extension:metadata": b""}

# Address space beyond what DuckDB may use, for arenas, stacks and result buffers. With 1 GiB a sort of 12 million texts
# under a limit of 150 MB ended in a segmentation fault instead of spilling; with 2 GiB it went through.
HEADROOM_BYTES = 4 << 30
FILE_BYTES = 32 << 30  # a result or a spill file; `SELECT range(1e12)` must not fill the disk

# Cells hold values for which SQL has no function: lists and dictionaries as Python wrote them, URLs glued by
# commas, blanks or semicolons, the last segment of a URL with its fragment (the corpus's stem rule), the text of a JSON
# value without its quotes, offsets counted in bytes of UTF-8.
MACROS = r"""
CREATE MACRO url_split(text) AS list_filter(
    list_transform(string_split(regexp_replace(text, '(^|[\s,;|]+)(https?://)', chr(10) || '\2', 'g'), chr(10)),
                   lambda item: trim(item, ' ,;|' || chr(9) || chr(13))),
    lambda item: item <> '');
CREATE MACRO url_stem(url) AS
    split_part(regexp_extract(url, '^(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://[^/?#]*)?(?:[^?#]*/)?([^/?#]*)', 1), ';', 1)
    || CASE WHEN regexp_extract(url, '#(.+)$', 1) <> '' THEN '#' || regexp_extract(url, '#(.+)$', 1) ELSE '' END;
CREATE MACRO json_text(value) AS CASE
    WHEN typeof(value) = 'JSON' THEN json_extract_string(CAST(value AS VARCHAR), '$') ELSE CAST(value AS VARCHAR) END;
CREATE MACRO json_texts(list) AS CASE
    WHEN typeof(list) = 'JSON[]' THEN list_transform(CAST(list AS JSON[]), lambda item: json_extract_string(item, '$'))
    ELSE CAST(list AS VARCHAR[]) END;
CREATE MACRO byte_slice(text, first, last) AS decode(encode(text)[first + 1 : last]);
CREATE MACRO char_offset(text, byte) AS length(decode(encode(text)[1 : byte]));
-- An item of a dataset is a text, a list of texts, chat messages, or an object with one of these in a field.
CREATE MACRO item_json(value) AS CASE
    WHEN typeof(value) = 'JSON' OR typeof(value) = 'VARCHAR' AND regexp_matches(CAST(value AS VARCHAR), '^\s*[{\["]')
    THEN coalesce(TRY_CAST(CAST(value AS VARCHAR) AS JSON), to_json(CAST(value AS VARCHAR))) ELSE to_json(value) END;
CREATE MACRO item_key(item, key) AS json_extract(item, '/' || replace(replace(key, '~', '~0'), '/', '~1'));
CREATE MACRO item_word(key) AS
    lower(regexp_replace(regexp_replace(key, '([a-z0-9])([A-Z])', '\1_\2', 'g'), '\W+', '_', 'g'));
CREATE MACRO item_field(item, names) AS list_transform(
    [list_filter(json_keys(item), lambda key: json_type(item_key(item, key)) <> 'NULL')],
    lambda keys: item_key(item, coalesce(
        list_filter(list_transform(names, lambda name: list_filter(keys, lambda key: item_word(key) = name)[1]),
                    lambda key: key IS NOT NULL)[1],
        list_transform([list_filter(keys, lambda key: json_type(item_key(item, key)) = 'VARCHAR')],
                       lambda texts: CASE WHEN len(texts) = 1 THEN texts[1] END)[1],
        CASE WHEN len(keys) = 1 THEN keys[1] END)))[1];
CREATE MACRO item_said(item, roles) AS CASE json_type(item)
    WHEN 'ARRAY' THEN CASE WHEN json_type(json_extract(item, '$[0]')) = 'OBJECT'
        THEN [json_extract_string(list_filter(json_extract(item, '$[*]'), lambda message: list_contains(roles,
            coalesce(json_extract_string(message, '$.role'), json_extract_string(message, '$.type')))
            )[-1], '$.content')]
        ELSE json_extract_string(item, '$[*]') END
    WHEN 'OBJECT' THEN [json_extract_string(item, '$.content')]
    ELSE [json_extract_string(item, '$')] END;
CREATE MACRO item_texts(value, names, roles) AS list_filter(list_transform([item_json(value)], lambda item: item_said(
    CASE WHEN json_type(item) = 'OBJECT' THEN item_field(item, string_split(names, ' ')) ELSE item END, roles))[1],
    lambda text: text IS NOT NULL);
CREATE MACRO question_text(value) AS item_texts(value,
    'question query user_input query_text question_text input_question user_query user_question prompt instruction '
    || 'input content messages', ['user', 'human'])[1];
CREATE MACRO item_role(message) AS
    coalesce(json_extract_string(message, '$.role'), json_extract_string(message, '$.type'));
CREATE MACRO item_place(messages, question) AS list_filter(range(1, len(messages) + 1), lambda place:
    item_role(messages[place]) IN ('user', 'human')
    AND json_extract_string(messages[place], '$.content') = question)[-1];
CREATE MACRO item_before(messages, question) AS list_filter(
    messages[1 : coalesce(item_place(messages, question) - 1, len(messages))], lambda message:
    json_type(message) <> 'OBJECT' OR json_type(json_extract(message, '$.content')) IS NULL
    OR item_role(message) IN ('user', 'human', 'assistant', 'ai')  -- a service has a system message of its own
    AND json_type(json_extract(message, '$.content')) = 'VARCHAR');
CREATE MACRO question_history(value) AS list_transform([item_json(value)], lambda item: item_before(
    CASE json_type(item)
    WHEN 'ARRAY' THEN list_filter(json_extract(item, '$[*]'), lambda one: json_type(one) = 'OBJECT')
    WHEN 'OBJECT' THEN list_transform([list_filter(json_keys(item), lambda key: item_word(key) IN
        ('chat_history', 'history', 'conversation_history', 'messages')
        AND json_type(item_key(item, key)) = 'ARRAY')[1]], lambda key: json_extract(item_key(item, key), '$[*]'))[1]
    END, question_text(value)))[1];
CREATE MACRO answer_texts(value) AS item_texts(value,
    'ground_truth ground_truth_answer gold_answer correct_answer reference_answer expected_answer expected_output '
    || 'expected_response expected ideal_answer ideal reference answer answer_text final_answer answers target output '
    || 'response text content messages', ['assistant', 'ai']);
"""
PYTHON_MACROS = r"""
CREATE MACRO python_json(text, kind) AS CASE WHEN trim(text) = '' THEN NULL ELSE coalesce(python_literal(text, kind),
    error('a Python ' || kind || ' is expected, found ' || left(text, 100))) END;
CREATE MACRO python_list(text) AS CASE
    -- As Python prints nearly all lists: without escapes, and without a quote or a line break inside a text.
    WHEN regexp_full_match(text, '\[''[^''\\\x00\r\n]*''(?:, ''[^''\\\x00\r\n]*'')*\]')
    THEN string_split(substr(text, 3, length(text) - 4), ''', ''')
    WHEN trim(text) = '' THEN [] ELSE from_json(python_json(text, 'list'), '["VARCHAR"]') END;
CREATE MACRO python_dict(text) AS CAST(python_json(text, 'dict') AS JSON);
"""


class QueryError(Exception):
    """A query (`questions`, `where`, `documents`) that is refused or fails; the message is one line."""

    def __init__(self, query: str, code: str, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.query, self.code, self.message, self.line = query, code, message, line


def sql_types(schema: pa.Schema) -> list[str]:
    """Return the type that each column has in SQL."""
    with duckdb.connect(":memory:") as connection:
        empty = pa.schema(map(_as_json_type, schema)).empty_table()
        return [str(kind) for kind in connection.from_arrow(empty).types]


def main(folder: Path) -> None:
    """Run the job of a folder and write its result."""
    arrow.is_own_process = True
    arrow.skip_pandas()
    job = json.loads((folder / "job.json").read_text())
    mapped = sum(Path(file).stat().st_size for file in job["relations"].values())
    set_limits(memory_bytes=mapped + 2 * (job["memory_mb"] << 20) + HEADROOM_BYTES, file_bytes=FILE_BYTES)
    write_result(job, folder)


def write_result(job: dict[str, Any], folder: Path) -> None:
    """Run the queries of a job, and write what came of them, or the error of one."""
    try:
        result: dict[str, Any] = {"queries": run(job, folder)}
    except QueryError as error:
        result = {"error": {"query": error.query, "code": error.code, "message": error.message, "line": error.line}}
    (folder / "result.json").write_text(json.dumps(result))


def run(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run the job's queries, each into an Arrow file, and return their hazards and conditions."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "preserve_insertion_order": True,
            "memory_limit": f"{job['memory_mb']}MB",
            "temp_directory": str(folder / "spill"),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    columns: set[str] = set()
    for name, file in job["relations"].items():
        relation = pa.ipc.open_file(pa.memory_map(file)).read_all()
        columns.update(column.lower() for column in relation.column_names)
        schema = pa.schema(map(_as_json_type, relation.schema))
        connection.register(name, pa.Table.from_arrays(relation.columns, schema=schema))
    connection.execute(MACROS)
    if any(_PYTHON_WORDS.search(f"{query['sql']}\n{query.get('where')}") for query in job["queries"]):
        _add_python_macros(connection)
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    try:
        queries, relations = job["queries"], list(job["relations"])
        return {query["name"]: _run_query(connection, query, relations, columns, folder) for query in queries}
    finally:
        connection.close()


def _add_python_macros(connection: duckdb.DuckDBPyConnection) -> None:
    if sys.modules.get("numpy") is None:
        sys.modules.pop("numpy", None)  # DuckDB makes no function of one of Python's without it
    text = connection.dtype("VARCHAR")
    connection.create_function("python_literal", literal_json, [text, text], text, null_handling="special")  # type: ignore[call-overload]
    connection.execute(PYTHON_MACROS)


def _run_query(
    connection: duckdb.DuckDBPyConnection, query: dict[str, Any], relations: list[str], columns: set[str], folder: Path
) -> dict[str, Any]:
    name, sql, where = query["name"], query["sql"], query.get("where")
    tree = _one_select(connection, name, sql)
    _refuse_volatile(connection, name, tree, columns)
    hazard, own_order = order_hazard(tree["statements"][0]["node"]), has_own_order(tree)
    has_json = bool(_JSON_WORDS.search(f"{sql}\n{where or ''}")) or any(
        "JSON" in str(kind) for relation in relations for kind in connection.table(relation).types
    )
    if has_json:
        tree = _with_json_as_text(connection, tree)
    failed: duckdb.Error | None = None
    for form in filter(None, (traced(tree), tree, sql)):  # the first one that binds
        try:
            text = form if isinstance(form, str) else _text(connection, form)
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {RESULT} AS {text}")
            break
        except duckdb.Error as error:
            failed = error
    else:
        raise _failed(name, failed)
    keep = "true"
    condition: list[str] = []
    if where is not None:
        expression = _one_condition(connection, where)
        _refuse_volatile(connection, "where", expression, columns)
        condition = columns_used(expression)
        keep = f"(\n{where}\n)::BOOLEAN"
        if has_json:
            tree = _with_json_as_text(connection, _tree(connection, "where", f"SELECT {keep}"))
            keep = _text(connection, tree).removeprefix("SELECT ")
    own = connection.sql(f"SELECT * FROM {RESULT}").columns
    order = _order(name, own, query["files"]) if hazard or own_order else ""
    order = "" if name == "documents" and own_order else order
    try:
        rows = f'SELECT *, {keep} AS "{KEEP}" FROM {RESULT} {order}'
        result = connection.sql(_with_history(rows, own) if name == "questions" else rows)
        reader = result.to_arrow_reader(BATCH_ROWS)
        schema = pa.schema(map(_with_json_marked, reader.schema, result.types))
        with pa.ipc.new_file(str(folder / f"{name}.arrow"), schema) as writer:
            for batch in reader:
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk; one without a number is DuckDB's, from the middle of its result
        raise _failed("where" if where is not None else name, error) from None
    return {"hazard": hazard, "condition": condition}


def _with_history(rows: str, own: list[str]) -> str:
    """Return the query of rows with `history` where only `conversation` and `turn` are given: the earlier turns.

    A turn without an answer is its question alone. A window loses the order of the rows, so they are numbered.
    """
    if "history" in own or not {"conversation", "turn", "question"} <= {*own}:
        return rows
    answers = [text for name, text in (("answer", "CAST(answer AS VARCHAR)"), ("answers", "answer_texts(answers)[1]"))
               if name in own]  # fmt: skip
    said = "[{role: 'user', content: question}"
    said += f", {{role: 'assistant', content: coalesce({', '.join(answers)})}}]" if answers else "]"
    return f"""
        SELECT * EXCLUDE (_place), CASE WHEN CAST(conversation AS VARCHAR) <> '' THEN list_filter(flatten(
            list({said}) OVER (
                PARTITION BY conversation ORDER BY TRY_CAST(turn AS BIGINT), _place
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)), lambda one: one.content <> '') END AS history
        FROM (SELECT *, row_number() OVER () AS _place FROM ({rows})) ORDER BY _place"""


def _order(name: str, own: list[str], files: list[str]) -> str:
    """Return the ORDER BY of rows without an order: by file, row and item, then by all columns."""
    if name == "documents" and "source_row" not in own:
        # File names depend on the order of documents: their own names give it.
        keys = [f"coalesce(CAST({column} AS VARCHAR), '')" for column in DOCUMENT_COLUMNS if column in own]
        return f"ORDER BY {', '.join(keys)}" if keys else ""
    if "source_row" not in own or ("source_file" not in own and len(files) > 1):
        return ""
    keys = ["source_row NULLS LAST"]
    if "source_file" in own:
        listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
        keys = [f"list_position([{listed}], source_file) NULLS LAST", "source_file NULLS LAST", *keys]
    if "source_item" in own:
        keys.append("TRY_CAST(source_item AS BIGINT) NULLS LAST")
    keys.append(f"CAST({RESULT} AS VARCHAR)")
    return f"ORDER BY {', '.join(keys)}"


def _refuse_volatile(connection: duckdb.DuckDBPyConnection, name: str, tree: Any, columns: set[str]) -> None:
    """Refuse SQL whose result could differ tomorrow for the same files."""
    functions = _functions(connection)[0] if has_functions(tree) else set()
    parts = volatile_parts(tree, functions, columns)
    if parts:
        raise QueryError(name, "volatile_sql", f"SQL that gives the same rows every day, found {parts[0]}")


@lru_cache(1)
def _functions(connection: duckdb.DuckDBPyConnection) -> tuple[set[str], dict[str, set[int]]]:
    """Return the functions that are volatile, and the arguments that are text of those that are not about JSON."""
    listed = connection.execute(
        "SELECT lower(function_name), function_type, parameter_types, stability FROM duckdb_functions()"
    ).fetchall()
    # The tree has names without types. Where only some overloads of a name are volatile (`+` of timestamps with a time
    # zone, since DuckDB 2.0.1), the others are what people write.
    constant = {name for name, _, _, stability in listed if stability == "CONSISTENT"}
    volatile = {name for name, _, _, stability in listed if stability is not None} - constant - {"error"}
    typed = (
        (name, parameters)
        for name, kind, parameters, _ in listed
        if kind in {"scalar", "aggregate"} and not name.startswith("json_")
    )
    return volatile, text_places(typed)


def _failed(name: str, error: Exception | None) -> QueryError:
    line = re.search(r"^LINE (\d+):", str(error), re.MULTILINE)
    code = "query_memory" if isinstance(error, duckdb.OutOfMemoryException) else "bad_sql"
    message = re.sub(r"^\w+ Error: ", "", str(error).strip().split("\n", 1)[0])  # without DuckDB's guesses
    return QueryError(name, code, message, int(line[1]) if line else None)


def _as_json_type(field: pa.Field) -> pa.Field:
    """Return a field for DuckDB, with its type JSON for JSON text at any depth."""
    return _rebuilt(field, [_as_json_type(part) for part in inner_fields(field.type)], _ARROW_JSON, is_json(field))


def _with_json_marked(field: pa.Field, kind: Any) -> pa.Field:
    """Return a field of a result, marked where DuckDB's type is JSON, at any depth."""
    parts = [child for name, child in kind.children] if kind.id in {"list", "array", "struct", "map"} else []
    if kind.id == "map":  # Arrow has a struct of key and value between
        [entries] = inner_fields(field.type)
        marked = map(_with_json_marked, inner_fields(entries.type), parts)
        return field.with_type(pa.map_(*marked))
    inner = [_with_json_marked(part, own) for part, own in zip(inner_fields(field.type), parts, strict=False)]
    return _rebuilt(field, inner, JSON_TEXT, str(kind) == "JSON")


def _rebuilt(field: pa.Field, inner: list[pa.Field], mark: dict[bytes, bytes], is_marked: bool) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct(inner)
    elif pa.types.is_list(kind):
        kind = pa.list_(inner[0])
    elif pa.types.is_fixed_size_list(kind):
        kind = pa.list_(inner[0], kind.list_size)
    return pa.field(field.name, kind, field.nullable, mark if is_marked else None)


def _with_json_as_text(connection: duckdb.DuckDBPyConnection, tree: Any) -> Any:
    forms = "SELECT json_text(0), json_texts(0), CASE WHEN typeof(0) = 'JSON' THEN 0 ELSE 0 END"
    calls = _tree(connection, "questions", forms)["statements"][0]["node"]["select_list"]
    return json_as_text(tree, _functions(connection)[1], JsonCalls(*calls))


def _one_select(connection: duckdb.DuckDBPyConnection, name: str, sql: str) -> Any:
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise _failed(name, error) from None
    if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
        kinds = ", ".join(str(statement.type).rpartition(".")[2] for statement in statements)
        raise QueryError(name, "not_one_select", f"exactly one SELECT, found {kinds or 'none'}")
    return _tree(connection, name, sql)


def _one_condition(connection: duckdb.DuckDBPyConnection, where: str) -> Any:
    """Return the syntax tree of a `where`; `true) FROM source --` and the like, no single expression, are refused."""
    tree = _tree(connection, "where", f"SELECT (\n{where}\n)")
    nodes = [statement["node"] for statement in tree["statements"]]
    single = len(nodes) == 1 and nodes[0]["type"] == "SELECT_NODE" and len(nodes[0]["select_list"]) == 1
    if not single or nodes[0]["from_table"]["type"] != "EMPTY":
        raise QueryError("where", "bad_sql", "one condition on the columns of `questions`")
    return nodes[0]["select_list"][0]


def _tree(connection: duckdb.DuckDBPyConnection, name: str, sql: str) -> Any:
    tree = json.loads(_value(connection, "SELECT json_serialize_sql(?::VARCHAR)", sql))
    if tree.get("error", True):
        raise QueryError(name, "bad_sql", str(tree.get("error_message", "a SELECT")))
    return tree


def _text(connection: duckdb.DuckDBPyConnection, tree: Any) -> str:
    return _value(connection, "SELECT json_deserialize_sql(?::JSON)", json.dumps(tree))


def _value(connection: duckdb.DuckDBPyConnection, sql: str, parameter: str) -> str:
    """Return the only value of a query; it is fetched whole, because an unfinished result blocks the connection."""
    [[value]] = connection.execute(sql, [parameter]).fetchall()
    return str(value)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
