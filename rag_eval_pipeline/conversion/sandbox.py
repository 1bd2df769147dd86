"""The child process in which a benchmark's SQL runs: no files, no network, no extensions, bounded memory.

Run as `python -m rag_eval_pipeline.conversion.sandbox JOB_FOLDER` by `mapping`, which also kills it at its deadline,
because DuckDB has none. It reads `job.json` and the relations beside it, and leaves an Arrow file a query and
`result.json`.
"""

import ctypes
import json
import re
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import duckdb  # noqa: TID253  # the process exists to run it
import pyarrow as pa  # noqa: TID253  # and to hand it Arrow relations
import pyarrow.ipc  # noqa: TID253

from rag_eval_pipeline.conversion.syntax import columns_used, has_own_order, order_hazard, traced

KEEP = "__keep"  # what `where` said of a row: true, false or NULL
RESULT = "result"
BATCH_ROWS = 50_000

# Address space beyond what DuckDB may use, for arenas, stacks and result buffers. With 1 GiB a sort of 12 million texts
# under a limit of 150 MB ended in a segmentation fault instead of spilling; with 2 GiB it went through.
HEADROOM_BYTES = 4 << 30
FILE_BYTES = 32 << 30  # a result or a spill file; `SELECT range(1e12)` must not fill the disk
_PR_SET_PDEATHSIG = 1

# Lists of URLs in other people's cells: as Python wrote a list, and glued by commas, blanks or semicolons.
MACROS = r"""
CREATE MACRO python_list(text) AS list_transform(
    regexp_extract_all(text, $$'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"$$),
    lambda item: regexp_replace(item[2:-2], $$\\(['"\\])$$, '\1', 'g'));
CREATE MACRO url_split(text) AS list_filter(
    list_transform(string_split(regexp_replace(text, '(^|[\s,;|]+)(https?://)', chr(10) || '\2', 'g'), chr(10)),
                   lambda item: trim(item, ' ,;|' || chr(9) || chr(13))),
    lambda item: item <> '');
"""


class QueryError(Exception):
    """A query that is refused or fails.

    Args:
        query: Which one: `questions`, `where`, `documents`.
        code: One cause, one code.
        message: What was expected or what DuckDB says, one line.
    """

    def __init__(self, query: str, code: str, message: str) -> None:
        super().__init__(message)
        self.query, self.code, self.message = query, code, message


def main(folder: Path) -> None:
    """Runs the job and leaves its result."""
    _die_with_parent()
    job = json.loads((folder / "job.json").read_text())
    try:
        result: dict[str, Any] = {"queries": _run(job, folder)}
    except QueryError as error:
        result = {"error": {"query": error.query, "code": error.code, "message": error.message}}
    (folder / "result.json").write_text(json.dumps(result))


def _run(job: dict[str, Any], folder: Path) -> dict[str, Any]:
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
    _limit(job["memory_mb"] << 20, folder)
    for name, file in job["relations"].items():
        connection.register(name, pa.ipc.open_file(pa.memory_map(str(folder / file))).read_all())
    connection.execute(MACROS)
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    try:
        return {query["name"]: _run_query(connection, query, folder) for query in job["queries"]}
    finally:
        connection.close()


def _run_query(connection: duckdb.DuckDBPyConnection, query: dict[str, Any], folder: Path) -> dict[str, Any]:
    name, sql, where = query["name"], query["sql"], query.get("where")
    tree = _one_select(connection, name, sql)
    hazard = order_hazard(tree["statements"][0]["node"])
    is_traced = False
    if query.get("trace"):
        is_traced = _create(connection, _text(connection, traced(tree)))
    if not is_traced:
        try:
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {RESULT} AS {sql}")
        except duckdb.OutOfMemoryException as error:
            raise QueryError(name, "query_memory", _first_line(error)) from None
        except duckdb.Error as error:
            raise QueryError(name, "bad_sql", _first_line(error)) from None
    keep = "true"
    condition: list[str] = []
    if where is not None:
        condition = columns_used(_one_condition(connection, where))
        keep = f"(\n{where}\n)::BOOLEAN"
    try:
        reader = connection.sql(f'SELECT *, {keep} AS "{KEEP}" FROM {RESULT} ORDER BY rowid').to_arrow_reader(
            BATCH_ROWS
        )
        with pa.ipc.new_file(str(folder / f"{name}.arrow"), reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
    except duckdb.OutOfMemoryException as error:
        raise QueryError(name, "query_memory", _first_line(error)) from None
    except (duckdb.Error, pa.ArrowException) as error:
        raise QueryError("where" if where is not None else name, "bad_sql", _first_line(error)) from None
    return {"hazard": hazard, "has_own_order": has_own_order(tree), "condition": condition}


def _one_select(connection: duckdb.DuckDBPyConnection, name: str, sql: str) -> Any:
    """The syntax tree of exactly one SELECT."""
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(name, "bad_sql", _first_line(error)) from None
    if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
        kinds = ", ".join(str(statement.type).rpartition(".")[2] for statement in statements)
        raise QueryError(name, "not_one_select", f"exactly one SELECT, found {kinds or 'none'}")
    return _tree(connection, name, sql)


def _one_condition(connection: duckdb.DuckDBPyConnection, where: str) -> Any:
    """The syntax tree of a `where`; one that is not a single expression, such as `true) FROM source --`, is refused."""
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


def _text(connection: duckdb.DuckDBPyConnection, tree: Any) -> str | None:
    if tree is None:
        return None
    return _value(connection, "SELECT json_deserialize_sql(?::JSON)", json.dumps(tree))


def _value(connection: duckdb.DuckDBPyConnection, sql: str, parameter: str) -> str:
    """The one value of a query; all of it is fetched, because an unfinished result blocks the connection."""
    [[value]] = connection.execute(sql, [parameter]).fetchall()
    return str(value)


def _create(connection: duckdb.DuckDBPyConnection, sql: str | None) -> bool:
    """Whether the traced query could be run; if not, the untraced one says why or runs."""
    if sql is None:
        return False
    try:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {RESULT} AS {sql}")
    except duckdb.Error:
        return False
    return True


def _first_line(error: Exception) -> str:
    """DuckDB's own words without its guesses and the drawn position."""
    return re.sub(r"^\w+ Error: ", "", str(error).strip().split("\n", 1)[0])


def _limit(memory_bytes: int, folder: Path) -> None:
    """Bounds address space above what is mapped now, the relations that will be mapped, and DuckDB's own limit."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    mapped = sum(file.stat().st_size for file in folder.glob("*.arrow"))
    space = pages * resource.getpagesize() + mapped + 2 * memory_bytes + HEADROOM_BYTES
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
