"""benchmark.yaml as text: keys in a fixed order, each guess as a comment above the key it is about.

Every scalar that is not a plain word is in double quotes with escapes, and SQL is a block only when a block can hold
it: the strict reader then gives back exactly what was meant, whatever a column is called.
"""

import re
import textwrap
from collections.abc import Iterable, Sequence

from rag_eval_pipeline.proposal.draft import KEYS, Draft, Origin

WIDTH = 116  # characters of a comment line

# Words of YAML 1.1 and 1.2 that are no text, and everything that could be a number, are left to the quotes.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_NOT_TEXT = frozenset(["true", "false", "yes", "no", "on", "off", "y", "n", "null"])
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def write_yaml(name: str, draft: Draft, *, licence: str | None, sources: Sequence[str]) -> str:
    """The text of benchmark.yaml; equal arguments give equal text.

    Args:
        name: Of the benchmark.
        draft: What it is to say.
        licence: SPDX identifier; None leaves a line to fill in.
        sources: Sentences on what was looked at.
    """
    lines = [*_head(name, draft, sources), ""]
    lines += [
        f"name: {scalar(name)}",
        *_comment("Raise it when questions or documents change: versions are compared only with themselves."),
        "version: 1.0.0",
    ]
    if licence is None:
        lines += _comment("To fill in: the licence of the data, as SPDX writes it, and who it is from.")
        lines += ["# license: CC-BY-SA-4.0"]
    else:
        lines += [
            *_comment("From the licence file beside the data; check that it covers questions and documents."),
            f"license: {scalar(licence)}",
        ]
    lines += ["# title: Name for people", "# language: en", "# released: 2024-01-31", ""]
    lines += [*_guesses(draft, "source"), f"source: {_flow(draft.source)}"]
    if draft.tables:
        tables = ", ".join(f"{table}: {_flow(origin)}" for table, origin in draft.tables.items())
        lines += [*_guesses(draft, "tables"), f"tables: {{{tables}}}"]
    if draft.retrieval_only:
        lines += [*_guesses(draft, "retrieval_only"), "retrieval_only: true"]
    lines += ["", *_guesses(draft, "questions"), *_questions(draft)]
    lines += [f"#  {choice}" for choice in draft.choices]
    if draft.unused:
        lines += ["# Columns that nothing was made of:"]
        lines += [line for column in draft.unused for line in _comment(f"- {column}")]
    lines += ["", *_guesses(draft, "documents")]
    if draft.documents is not None:
        lines += _sql("documents", draft.documents)
    if draft.on_missing_document is not None:
        lines += [*_guesses(draft, "on_missing_document"), f"on_missing_document: {draft.on_missing_document}"]
    lines += [
        "",
        "# where: answer IS NOT NULL    # SQL on the columns of `questions`; other rows are dropped and listed",
        "# expect: {questions: 1}       # counts that must come out, from `rag-eval plan`; a check then blocks others",
    ]
    return "\n".join(_without_double_blanks(lines)) + "\n"


def scalar(text: str) -> str:
    """A text as YAML: itself when it is a plain word, else in double quotes."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    if character == " " or (character.isprintable() and not 0xFFFE <= code <= 0xFFFF):
        return character
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _head(name: str, draft: Draft, sources: Iterable[str]) -> list[str]:
    lines = _comment(f"Proposed by `rag-eval init`. Recognised: {draft.shape}.")
    for sentence in sources:
        lines += _comment(sentence)
    if draft.missing:
        lines += ["#", *_comment("This does not convert yet. To fill in:")]
        for sentence in draft.missing:
            lines += _comment(f"- {sentence}")
        lines += ["#"]
    return lines + _comment(
        "Comments that begin with `guess:` say what was taken for granted and from what: check them, and edit the key "
        "below. SQL is DuckDB over `source` and `tables`. "
        f"`rag-eval plan {name}` shows what comes of this file, without fetching or writing anything."
    )


def _guesses(draft: Draft, key: str) -> list[str]:
    assert key in KEYS
    return [line for guess in draft.guesses if guess.key == key for line in _comment(f"guess: {guess.text}")]


def _questions(draft: Draft) -> list[str]:
    if draft.columns is None:
        return _sql("questions", draft.sql)
    lines = ["questions:"]
    for ours, theirs in draft.columns.items():
        value = scalar(theirs) if isinstance(theirs, str) else f"[{', '.join(map(scalar, theirs))}]"
        lines.append(f"  {ours}: {value}")
    return lines


def _sql(key: str, sql: str) -> list[str]:
    """SQL as a block, or in quotes where a block would change it: YAML folds CR, NEL, LS and PS to line feeds."""
    if all(character == "\n" or character.isprintable() for character in sql):
        return [f"{key}: |", *(f"  {line}" if line else "" for line in sql.split("\n"))]
    return [f"{key}: {scalar(sql)}"]


def _flow(origin: Origin) -> str:
    keys = origin.keys()
    if list(keys) == ["path"]:
        return scalar(keys["path"])
    return "{" + ", ".join(f"{key}: {scalar(value)}" for key, value in keys.items()) + "}"


def _comment(text: str) -> list[str]:
    """A sentence as comment lines; what would end a comment is shown escaped."""
    shown = "".join(c if c.isprintable() else _escaped(c) for c in text)
    wrapped = textwrap.wrap(shown, WIDTH - 2, break_on_hyphens=False)
    return [f"# {line}" for line in wrapped]


def _without_double_blanks(lines: Sequence[str]) -> list[str]:
    return [line for place, line in enumerate(lines) if line or not place or lines[place - 1]]
