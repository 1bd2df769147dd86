"""A proposed benchmark.yaml: the draft that the recognised shapes fill in, and its text.

Keys come in a fixed order, each guess as a comment above its key. Every scalar that is not a plain word is written in
double quotes with escapes, and SQL as a block only if a block preserves it, so that the strict YAML reader returns
exactly what was written, whatever a column is called.
"""

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from rag_eval_pipeline.conversion.mapping import identifier
from rag_eval_pipeline.scaffold.columns import Column
from rag_eval_pipeline.scaffold.profile import Origin

SOURCE = "source"  # the relation whose rows become questions
COMMENT_WIDTH = 116

# Words that YAML 1.1 or 1.2 reads as something other than text; anything that may be a number is quoted as well.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_NOT_TEXT = frozenset(["true", "false", "yes", "no", "on", "off", "y", "n", "null"])
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Guess(NamedTuple):
    """An assumption, its evidence and how to change it, as a comment above a key of benchmark.yaml."""

    key: Literal["source", "tables", "questions", "documents", "retrieval_only", "where"]
    text: str


class ColumnExpr(NamedTuple):
    """The SQL of one column of `questions`; `column` is the source's column if it is used unchanged."""

    sql: str
    column: str | None = None


def as_column(column: Column) -> ColumnExpr:
    """Return a column unchanged."""
    return ColumnExpr(column.sql, column.name if column.path is None else None)


@dataclass(frozen=True, slots=True)
class Draft:
    """The content of a benchmark.yaml."""

    shape: str  # what was recognised, as a noun phrase
    source: Origin
    questions: str | dict[str, ColumnExpr]  # a whole SELECT, or an expression for each column in order
    metadata: dict[str, str] = field(default_factory=dict)  # SQL of what is kept with the question, with expressions
    tables: dict[str, Origin] | None = None
    documents: str | None = None
    retrieval_only: bool = False
    on_missing_document: str | None = None
    where: str | None = None
    relation: str = SOURCE  # what `questions` selects from, with expressions
    guesses: tuple[Guess, ...] = ()
    missing: tuple[str, ...] = ()  # what has to be filled in before the benchmark converts, one sentence each
    unused: tuple[str, ...] = ()  # descriptions of the columns that nothing was made from
    choices: tuple[str, ...] = ()  # lines below `questions`, commented out


def write_yaml(name: str, draft: Draft, profiled: Sequence[str]) -> str:
    """Return the text of benchmark.yaml."""
    lines = [
        *_head(name, draft, profiled),
        "",
        f"name: {quote_scalar(name)}",
        *comment_lines(
            "Raise the version when questions or documents change: results of two versions are not compared."
        ),
        "version: 1.0.0",
        *comment_lines("Fill in the licence of the data as an SPDX identifier, and name its authors."),
        "# license: CC-BY-SA-4.0",
        "# title: Name for people",
        "# language: en",
        "# released: 2024-01-31",
        "",
        *_guesses(draft, "source"),
        f"source: {_flow(draft.source)}",
    ]
    if draft.tables:
        tables = ", ".join(f"{table}: {_flow(origin)}" for table, origin in draft.tables.items())
        lines += [*_guesses(draft, "tables"), f"tables: {{{tables}}}"]
    if draft.retrieval_only:
        lines += [*_guesses(draft, "retrieval_only"), "retrieval_only: true"]
    lines += ["", *_guesses(draft, "questions"), *_questions(draft), *(f"#  {choice}" for choice in draft.choices)]
    if draft.unused:
        lines += [
            "# Columns that are not used:",
            *(line for each in draft.unused for line in comment_lines(f"- {each}")),
        ]
    lines += ["", *_guesses(draft, "documents")]
    if draft.documents is not None:
        lines += _sql("documents", draft.documents)
    if draft.on_missing_document is not None:
        lines += [f"on_missing_document: {draft.on_missing_document}"]
    condition = f"where: {quote_scalar(draft.where)}" if draft.where else "# where: answer IS NOT NULL   "
    lines += [
        "",
        *_guesses(draft, "where"),
        f"{condition} # SQL on the columns of `questions`; other rows are dropped and listed",
        "# expect: {questions: 1}       # counts from `rag-eval plan`; the conversion fails if they differ",
    ]
    return "\n".join(line for i, line in enumerate(lines) if line or lines[i - 1]) + "\n"


def quote_scalar(text: str) -> str:
    """Return a text as a YAML scalar: unquoted if it is a plain word, otherwise in double quotes."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    return '"' + "".join(map(_escape, text)) + '"'


def struct(fields: dict[str, str]) -> str:
    """Return the SQL of a struct with these expressions."""
    return "{" + ", ".join(f"{identifier(name)}: {sql}" for name, sql in fields.items()) + "}"


def context(fields: dict[str, str]) -> str:
    """Return the SQL of a context; of its field names only `end` is a reserved word."""
    return (
        "{" + ", ".join(f"{identifier(name) if name == 'end' else name}: {sql}" for name, sql in fields.items()) + "}"
    )


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    if character == " " or (character.isprintable() and not 0xFFFE <= code <= 0xFFFF):
        return character
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _head(name: str, draft: Draft, profiled: Iterable[str]) -> list[str]:
    lines = comment_lines(f"Proposed by `rag-eval init`. Recognised: {draft.shape}.")
    lines += [line for sentence in profiled for line in comment_lines(sentence)]
    if draft.missing:
        lines += ["#", *comment_lines("This benchmark does not convert yet. Fill in:")]
        lines += [*(line for sentence in draft.missing for line in comment_lines(f"- {sentence}")), "#"]
    return lines + comment_lines(
        "Comments that begin with `guess:` state an assumption and its evidence: check them, and edit the key below "
        "where one is wrong. SQL is DuckDB over `source` and `tables`. "
        f"`rag-eval plan {name}` shows the result of this file without fetching or writing anything."
    )


def _guesses(draft: Draft, key: str) -> list[str]:
    return [line for guess in draft.guesses if guess.key == key for line in comment_lines(f"guess: {guess.text}")]


def _questions(draft: Draft) -> list[str]:
    if isinstance(draft.questions, str):
        return _sql("questions", draft.questions)
    is_plain = all(sql == identifier(name) for name, sql in draft.metadata.items())
    is_plain = is_plain and draft.relation == SOURCE
    if is_plain and all(expr.column is not None for expr in draft.questions.values()):
        lines = [f"  {ours}: {quote_scalar(expr.column or '')}" for ours, expr in draft.questions.items()]
        if draft.metadata:
            lines.append(f"  metadata: [{', '.join(map(quote_scalar, draft.metadata))}]")
        return ["questions:", *lines]
    columns = [f"{expr.sql} AS {ours}" for ours, expr in draft.questions.items()]
    if draft.metadata:
        columns.append(f"{struct(draft.metadata)} AS metadata")
    return _sql("questions", "SELECT " + ",\n       ".join(columns) + f"\nFROM {draft.relation}")


def _sql(key: str, sql: str) -> list[str]:
    """Return SQL as a block, or quoted if a block would change it: YAML folds CR, NEL, LS and PS to line feeds."""
    if all(character == "\n" or character.isprintable() for character in sql):
        return [f"{key}: |", *(f"  {line}" if line else "" for line in sql.split("\n"))]
    return [f"{key}: {quote_scalar(sql)}"]


def _flow(origin: Origin) -> str:
    keys = origin.keys()
    if list(keys) == ["path"]:
        return _flow_value(keys["path"])
    return "{" + ", ".join(f"{key}: {_flow_value(value)}" for key, value in keys.items()) + "}"


def _flow_value(value: str | bool | Sequence[str]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return quote_scalar(value) if isinstance(value, str) else f"[{', '.join(map(quote_scalar, value))}]"


def comment_lines(text: str) -> list[str]:
    """Return a text as YAML comments, wrapped."""
    shown = "".join(c if c.isprintable() else _escape(c) for c in text)
    return [f"# {line}" for line in textwrap.wrap(shown, COMMENT_WIDTH - 2, break_on_hyphens=False)]
