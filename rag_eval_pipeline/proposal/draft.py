"""A benchmark.yaml before it is text: what was recognised, what each key says, and what was guessed.

SQL is put together from `Piece`s, so that a mapping of plain columns can be written in the short form.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

SOURCE = "source"  # the relation of the rows that become questions
KEYS = ("source", "tables", "questions", "documents", "retrieval_only", "on_missing_document")


class Guess(NamedTuple):
    """What was taken for granted, from what, and how to change it; `key` is the key of benchmark.yaml it is about."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a relation comes from, as `source:` and `tables:` say it: exactly one of path, files, url."""

    path: str | None = None
    files: str | None = None
    url: str | None = None
    root: str | None = None
    format: str | None = None

    def keys(self) -> dict[str, str]:
        """The keys that are to be written, in their order."""
        named = {"path": self.path, "files": self.files, "url": self.url, "root": self.root, "format": self.format}
        return {key: value for key, value in named.items() if value is not None}

    @property
    def shown(self) -> str:
        """How a sentence names it."""
        place = self.path or self.files or self.url or ""
        return f"{place} ({self.root})" if self.root else place


class Piece(NamedTuple):
    """The value of one of our columns; `column` is theirs when it is that column as it stands."""

    sql: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """What a benchmark.yaml is to say.

    Args:
        shape: What was recognised, as a noun for people.
        questions: Whole SQL, or our columns in their order; `metadata` may stand for several of theirs.
        metadata: Their columns that are kept beside the question, by name; only with pieces.
        missing: What a person has to fill in before it converts, a sentence each.
        unused: Their columns that nothing is made of, described.
        choices: Lines that stand commented out below `questions`: what else could have been meant.
    """

    shape: str
    source: Origin
    questions: str | dict[str, Piece]
    metadata: tuple[str, ...] = ()
    tables: dict[str, Origin] = field(default_factory=dict)
    documents: str | None = None
    retrieval_only: bool = False
    on_missing_document: str | None = None
    guesses: tuple[Guess, ...] = ()
    missing: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def columns(self) -> dict[str, str | list[str]] | None:
        """The short form; None when a piece needs SQL."""
        if isinstance(self.questions, str) or any(piece.column is None for piece in self.questions.values()):
            return None
        short: dict[str, str | list[str]] = {ours: piece.column or "" for ours, piece in self.questions.items()}
        if self.metadata:
            short["metadata"] = list(self.metadata)
        return short

    @property
    def sql(self) -> str:
        """The SELECT, with a line for each column."""
        if isinstance(self.questions, str):
            return self.questions
        lines = [f"{piece.sql} AS {ours}" for ours, piece in self.questions.items()]
        if self.metadata:
            lines.append(f"{struct({name: identifier(name) for name in self.metadata})} AS metadata")
        return "SELECT " + ",\n       ".join(lines) + f"\nFROM {SOURCE}"


def identifier(name: str) -> str:
    """A column's name in SQL: always in quotes, so that no list of reserved words is needed."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def struct(fields: dict[str, str]) -> str:
    """A struct in SQL, from names and expressions."""
    return "{" + ", ".join(f"{identifier(name)}: {sql}" for name, sql in fields.items()) + "}"


def context(fields: dict[str, str]) -> str:
    """A context's struct in SQL; of its fields only `end` is a word that SQL reserves."""
    return "{" + ", ".join(f"{_QUOTED.get(name, name)}: {sql}" for name, sql in fields.items()) + "}"


_QUOTED = {"end": '"end"'}
