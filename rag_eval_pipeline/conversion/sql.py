"""Run a benchmark's SQL over its relations in a child process, with limits on memory and time."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.relations import Relation
from rag_eval_pipeline.storage.files import ScratchFolder
from rag_eval_pipeline.storage.process import child_environment, module_command

_HINTS = {
    "query_memory": "Select fewer columns before joining, or raise the memory limit.",
    "query_deadline": "Look for a join without a condition.",
    "not_one_select": "Use subqueries or WITH.",
    "volatile_sql": "The same files must give the same dataset every night.",
}

Place = Callable[[str, int | None], str]  # key of benchmark.yaml and line of its SQL -> how messages name the place


@dataclass(frozen=True, slots=True)
class Limits:
    """Resources that the SQL of one benchmark may use."""

    memory_mb: int = 2048  # of DuckDB, which spills to a temporary folder beyond it
    seconds: float = 600  # of wall clock for all its queries; then the process is killed


@dataclass(frozen=True, slots=True)
class Query:
    """One SELECT.

    Args:
        name: `questions` or `documents`; messages name it as the key of benchmark.yaml.
        where: Condition on its columns; rows stay in the result and are marked.
    """

    name: str
    sql: str
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The rows that a query returned.

    Args:
        folder: Holds `path`.
        path: Arrow file of its rows, in the source's order.
        hazard: What in the query loses the order of its source; None when nothing does.
        condition: Columns that `where` looks at.
    """

    folder: ScratchFolder
    path: Path
    hazard: str | None
    condition: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows, the sandbox's own among them."""
        with pa.OSFile(str(self.path)) as file:
            return pa.ipc.open_file(file).schema


def run_queries(
    relations: Mapping[str, Relation], queries: Sequence[Query], place: Place, limits: Limits | None = None
) -> dict[str, Result]:
    """Return the results of the queries by name; they run in one child process, in order.

    Raises:
        InputError: `bad_sql`, `not_one_select`, `volatile_sql`, `query_memory`, `query_deadline`.
    """
    folder = ScratchFolder("sql")
    files = list(relations["source"].files)
    job = {
        "memory_mb": (limits or Limits()).memory_mb,
        "relations": {name: str(relation.path) for name, relation in relations.items()},
        "queries": [{"name": q.name, "sql": q.sql, "where": q.where, "files": files} for q in queries],
    }
    (folder.path / "job.json").write_text(json.dumps(job))
    found = _run_child(folder.path, place, limits or Limits())
    if "error" in found:
        raise _sql_error(found["error"], relations, place)
    return {
        name: Result(folder, folder.path / f"{name}.arrow", facts["hazard"], tuple(facts["condition"]))
        for name, facts in found["queries"].items()
    }


def _run_child(folder: Path, place: Place, limits: Limits) -> Any:
    command = module_command("rag_eval_pipeline.conversion.sql_worker", str(folder))
    try:
        child = subprocess.run(
            command,
            cwd=folder,
            env=child_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limits.seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        expected, hint = f"SQL that ends within {limits.seconds:g} s", _HINTS["query_deadline"]
        raise InputError("query_deadline", place("questions", None), expected, field="questions", hint=hint) from None
    if child.returncode == 0:
        return json.loads((folder / "result.json").read_text())
    words = child.stderr.decode(errors="backslashreplace").strip().splitlines() or [""]
    if child.returncode < 0 or "MemoryError" in words[-1] or "bad_alloc" in words[-1]:
        expected, hint = f"SQL that needs at most {limits.memory_mb} MB", _HINTS["query_memory"]
        found = words[-1] or f"its end by signal {-child.returncode}"
        raise InputError("query_memory", place("questions", None), expected, field="questions", found=found, hint=hint)
    raise RuntimeError(f"the SQL sandbox ended with exit code {child.returncode}: {words[-1]}")


def _sql_error(error: Mapping[str, Any], relations: Mapping[str, Relation], place: Place) -> InputError:
    """Return DuckDB's message with the known names: a misspelled column is the most common mistake."""
    if "Malformed JSON" in error["message"]:  # a column whose values share no type beside a text that is not JSON
        known = "Cast JSON values to text first: CAST(column AS VARCHAR)."
    elif error["query"] == "where":
        known = "Known: the columns that `questions` returns."
    else:
        listed = "; ".join(f"{name}({', '.join(relation.schema.names)})" for name, relation in relations.items())
        known = f"Known: {listed}."
    expected = "SQL that DuckDB runs" if error["code"] == "bad_sql" else error["message"]
    found = error["message"] if error["code"] == "bad_sql" else None
    where = place(error["query"], error["line"])
    return InputError(
        error["code"], where, expected, field=error["query"], found=found, hint=_HINTS.get(error["code"], known)
    )
