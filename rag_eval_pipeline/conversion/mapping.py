"""Foreign columns to ours: the benchmark's SQL, or its short form, run in a child process over the decoded relations.

What comes back is ordered by the source's files and rows, so the same source gives the same ids on every machine.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_eval_pipeline.conversion.spec import QUESTION_COLUMNS, SOURCE, QuestionColumns
from rag_eval_pipeline.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from rag_eval_pipeline.conversion.sources import Relation

TRACE_COLUMNS = ("source_file", "source_row", "source_item")
DOCUMENT_COLUMNS = ("url", "name", "file", "html", "text")
CONTEXT_FIELDS = ("url", "file", "document", "text", "page", "start", "end")
_HIDDEN = "__"  # columns that the sandbox adds: what `where` said, and where a row came from

_HINTS = {
    "query_memory": "Select fewer columns before joining, or raise the memory limit.",
    "query_deadline": "Look for a join without a condition.",
    "not_one_select": "Use subqueries or WITH.",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What the SQL of one benchmark may use.

    Args:
        memory_mb: Of DuckDB, which spills to a temporary folder beyond it.
        seconds: Wall clock of all its queries; then the process is killed.
    """

    memory_mb: int = 2048
    seconds: float = 600


@dataclass(frozen=True, slots=True)
class Query:
    """One SELECT to run.

    Args:
        name: `questions` or `documents`; messages name it as the key of benchmark.yaml.
        where: Condition on its columns; rows stay in the result and are marked.
    """

    name: str
    sql: str
    where: str | None = None


@dataclass(frozen=True, slots=True)
class MappedRow:
    """A row that a query returned.

    Args:
        values: By column; what is missing is None.
        keep: False when `where` was false or NULL.
        file: Source file, None when the query does not say.
        row: 1-based row in it.
    """

    values: dict[str, Any]
    keep: bool
    file: str | None
    row: int | None


@dataclass(frozen=True, slots=True)
class Mapped:
    """What a query returned, in the source's order.

    Args:
        columns: Names of the columns it returned, those of `source_*` left out.
    """

    columns: tuple[str, ...]
    rows: list[MappedRow]


def short_form_sql(columns: QuestionColumns, relation: "Relation", shown: str) -> str:
    """The SELECT that the short form stands for.

    Raises:
        InputError: `unknown_column`.
    """
    known = list(relation.table.column_names)
    selected = []
    for ours, theirs in columns.model_dump(exclude_none=True).items():
        for name in [theirs] if isinstance(theirs, str) else theirs:
            if name not in known:
                listed = ", ".join(column for column in known if column not in TRACE_COLUMNS)
                raise InputError(
                    "unknown_column",
                    shown,
                    f"a column of {', '.join(relation.files)}",
                    field=f"questions.{ours}",
                    found=name,
                    hint=f"Known: {listed}.",
                )
        if isinstance(theirs, str):
            selected.append(f"{quoted(theirs)} AS {ours}")
        elif theirs:
            fields = ", ".join(f"{quoted(name)}: {quoted(name)}" for name in theirs)
            selected.append(f"{{{fields}}} AS {ours}")
    return f"SELECT {', '.join(selected)}, source_file, source_row FROM {SOURCE}"


def quoted(name: str) -> str:
    """A column name as SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def run_queries(
    relations: Mapping[str, "Relation"], queries: Sequence[Query], shown: str, limits: Limits | None = None
) -> dict[str, Mapped]:
    """Results of the queries by name.

    Args:
        relations: `source` and the tables.
        queries: Run in one child process, in order.
        shown: How messages name benchmark.yaml.
        limits: Of the child process.

    Raises:
        InputError: `bad_sql`, `not_one_select`, `unordered_questions`, `unknown_column`, `missing_column`, `bad_value`,
            `query_memory`, `query_deadline`.
    """
    limits = limits or Limits()
    with tempfile.TemporaryDirectory(prefix="rag-eval-sql-") as name:
        folder = Path(name)
        job: dict[str, Any] = {"memory_mb": limits.memory_mb, "relations": {}, "queries": []}
        for relation_name, relation in relations.items():
            job["relations"][relation_name] = _write_relation(relation, folder, relation_name)
        for query in queries:
            job["queries"].append({"name": query.name, "sql": query.sql, "where": query.where, "trace": True})
        (folder / "job.json").write_text(json.dumps(job))
        result = _run_child(folder, shown, limits)
        if "error" in result:
            raise _sql_error(result["error"], relations, shown)
        return {
            query.name: _mapped(
                query.name, folder / f"{query.name}.arrow", result["queries"][query.name], relations, shown
            )
            for query in queries
        }


def _write_relation(relation: "Relation", folder: Path, name: str) -> str:
    import pyarrow as pa

    with pa.ipc.new_file(str(folder / f"relation_{name}.arrow"), relation.table.schema) as writer:
        writer.write_table(relation.table)
    return f"relation_{name}.arrow"


def _run_child(folder: Path, shown: str, limits: Limits) -> Any:
    command = [sys.executable, "-P", "-m", "rag_eval_pipeline.conversion.sandbox", str(folder)]
    # Nothing of this process's environment is the SQL's business; PYTHONPATH is what may make the package importable.
    environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
    try:
        child = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limits.seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            "query_deadline",
            shown,
            f"SQL that ends within {limits.seconds:g} s",
            field="questions",
            hint=_HINTS["query_deadline"],
        ) from None
    if child.returncode == 0:
        return json.loads((folder / "result.json").read_text())
    words = child.stderr.decode(errors="backslashreplace").strip().splitlines() or [""]
    if child.returncode < 0 or "MemoryError" in words[-1] or "bad_alloc" in words[-1]:
        raise InputError(
            "query_memory",
            shown,
            f"SQL that needs at most {limits.memory_mb} MB",
            field="questions",
            found=words[-1] or f"its end by signal {-child.returncode}",
            hint=_HINTS["query_memory"],
        )
    raise RuntimeError(f"the SQL sandbox ended with exit code {child.returncode}: {words[-1]}")


def _sql_error(error: Mapping[str, str], relations: Mapping[str, "Relation"], shown: str) -> InputError:
    """One line with DuckDB's words and the names there are: a misspelt column is the commonest mistake."""
    if error["query"] == "where":
        known = "Known: the columns that `questions` returns."
    else:
        listed = "; ".join(f"{name}({', '.join(relation.table.column_names)})" for name, relation in relations.items())
        known = f"Known: {listed}."
    expected = "SQL that DuckDB runs" if error["code"] == "bad_sql" else error["message"]
    found = error["message"] if error["code"] == "bad_sql" else None
    return InputError(
        error["code"], shown, expected, field=error["query"], found=found, hint=_HINTS.get(error["code"], known)
    )


def _mapped(name: str, file: Path, facts: Mapping[str, Any], relations: Mapping[str, "Relation"], shown: str) -> Mapped:
    import pyarrow as pa

    with pa.OSFile(str(file)) as handle:
        table = pa.ipc.open_file(handle).read_all()
    own = [column for column in table.column_names if not column.startswith(_HIDDEN)]
    files = relations[SOURCE].files
    says_rows = "source_row" in own and ("source_file" in own or len(files) == 1)
    if name == "questions":
        _check_question_columns(table, own, facts["condition"], shown)
        if facts["hazard"] and not says_rows:
            raise InputError(
                "unordered_questions",
                shown,
                "a query that returns source_file, source_row (and source_item for several questions a row)",
                field=name,
                found=facts["hazard"],
                hint="SQL gives such rows no order; without these columns ids would move.",
            )
    else:
        _check_columns(own, (*DOCUMENT_COLUMNS, *TRACE_COLUMNS), name, shown)
    rows = [_row(values, own, files) for batch in table.to_batches() for values in batch.to_pylist()]
    if name == "documents" and facts["hazard"] and not facts["has_own_order"]:
        # Such rows come in no order, and file names depend on one: the documents' own names give it.
        rows.sort(key=lambda row: [str(row.values.get(column) or "") for column in DOCUMENT_COLUMNS])
    is_traced = not facts["hazard"] and bool(rows) and rows[0].row is not None
    if says_rows or (is_traced and not facts["has_own_order"]):
        place = {file: number for number, file in enumerate(files)}
        rows.sort(key=lambda row: _position(row, place))
    return Mapped(tuple(column for column in own if column not in TRACE_COLUMNS), rows)


def _row(values: dict[str, Any], own: Sequence[str], files: Sequence[str]) -> MappedRow:
    file = values.get("source_file") or values.get("__source_file") or (files[0] if len(files) == 1 else None)
    row = values.get("source_row")
    row = values.get("__source_row") if row is None else row
    return MappedRow(
        {name: values[name] for name in own}, values["__keep"] is True, file, row if type(row) is int else None
    )


def _position(row: MappedRow, place: Mapping[str, int]) -> tuple[int, str, int, int]:
    """Sort key: rows of unknown origin come last, in the order they had."""
    item = row.values.get("source_item")
    last = sys.maxsize
    return (
        place.get(row.file or "", len(place)),
        row.file or "",
        last if row.row is None else row.row,
        item if type(item) is int else last,
    )


def _check_question_columns(table: "pa.Table", own: Sequence[str], condition: Sequence[str], shown: str) -> None:
    """Refuses columns that mean nothing; one that only `where` looks at means something."""
    asked = {name.casefold() for name in condition}
    _check_columns(
        [name for name in own if name.casefold() not in asked], (*QUESTION_COLUMNS, *TRACE_COLUMNS), "questions", shown
    )
    if "question" not in own:
        raise InputError("missing_column", shown, "a column `question`", field="questions", found=own)
    if "answer" not in own and "answers" not in own:
        raise InputError("missing_column", shown, "a column `answer` or `answers`", field="questions", found=own)
    if "urls" in own and "contexts" in own:
        raise InputError(
            "bad_value",
            shown,
            "either `urls` or `contexts`",
            field="questions",
            found=own,
            hint="A context may have a url.",
        )
    if "contexts" in own:
        kind = table.schema.field("contexts").type
        item = getattr(kind, "value_type", None)
        fields = [item.field(i).name for i in range(item.num_fields)] if item is not None else []
        _check_columns(fields, CONTEXT_FIELDS, "questions.contexts", shown)


def _check_columns(found: Sequence[str], known: Sequence[str], name: str, shown: str) -> None:
    for column in found:
        if column not in known:
            raise InputError(
                "unknown_column",
                shown,
                "columns that it may return",
                field=name,
                found=column,
                hint=f"Known: {', '.join(known)}.",
            )
