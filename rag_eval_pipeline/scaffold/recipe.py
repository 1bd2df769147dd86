"""Recipes: known formats as data. Each is a YAML file with how a format is recognised and what benchmark.yaml it gets.

Those of the product lie in `recipes/`, a person's own in `data/recipes/` of the workspace.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.conversion.benchmark_spec import SOURCE, TABLE_NAME
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import Model, read_model
from rag_eval_pipeline.scaffold.columns import Field as ColumnField
from rag_eval_pipeline.scaffold.columns import field_of
from rag_eval_pipeline.scaffold.profile import HIDDEN_COLUMNS, DataFile, FolderProfile
from rag_eval_pipeline.scaffold.selection import splits_in_order

FOLDER = Path(__file__).with_name("recipes")
MATCHED_SHARE = 0.95  # of the values have to match a pattern
LINKED_SHARE = 0.5  # of the values of a link have to be known; a sample of documents lacks many
ELSE = "else"

Choice = str | dict[str, str]
"""SQL, or SQL by condition: the first whose columns are there is taken, `else` always; none leaves the column out."""


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Fit(Model):
    """What a relation of the format looks like."""

    columns: dict[str, str] = Field(
        default={},
        description="Columns that have to be there, by path (`paragraphs.qas.question`; several names: `a | b`), with "
        "their kinds (`text | integer`, or `any`).",
    )
    without: tuple[str, ...] = Field(default=(), description="Columns that must not be there.")
    patterns: dict[str, str] = Field(
        default={}, description="Regular expressions that nearly all values of a column match from their start to end."
    )
    files: str | None = Field(default=None, description="Globs of the file's name, separated by ` | `.")
    optional: bool = Field(default=False, description="The format may lack this relation.")


class Example(Model):
    """Two rows or so in the format, with what they mean: the recipe's test."""

    files: dict[str, Any]  # by name: text, or rows that are written as the suffix says
    questions: tuple[dict[str, Any], ...]
    documents: dict[str, str] = {}
    missing: tuple[str, ...] = ()  # the keys that stay FILL_IN


class Recipe(Model):
    """A known format."""

    title: str
    source: str = Field(description="URL of the format's documentation or public repository.")
    recognise: dict[str, Fit] = Field(description="By relation: `source`, and tables under the names that SQL uses.")
    links: dict[str, str] = Field(
        default={},
        description="Columns that refer to another relation's column: `qrels.query-id: source._id`.",
    )
    let: dict[str, Choice] = Field(default={}, description="SQL that replaces `{name}` in other SQL.")
    rows: Choice = Field(default=SOURCE, description="Relation or SQL after FROM: each of its rows is a question.")
    questions: str | dict[str, Choice] = Field(
        description="The columns of `questions`; without contexts, the documents are searched as for unknown files. "
        "`texts` are gold texts that are searched in the documents, `texts_file` the file that they stand in."
    )
    where: dict[str, str] = Field(default={}, description="Conditions on rows that are kept, by the columns they read.")
    documents: Choice | None = None
    retrieval_only: bool = False
    on_missing_document: Literal["keep"] | None = None
    inner: tuple[str, ...] = Field(
        default=(), description="Columns of objects; their other fields, under any name, may lead to the documents."
    )
    unused: tuple[str, ...] = Field(
        default=(), description="Columns that are no part of a question, such as outputs, but for what the SQL reads."
    )
    says: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(
        default=(), description="Notes on the mapping for people: `documents: one per article.`"
    )
    fill_in: dict[str, Choice] = Field(default={}, description="Values that only a person can give, by column.")
    example: Example | None = None

    @model_validator(mode="after")
    def _names_are_known(self) -> "Recipe":
        if SOURCE not in self.recognise:
            raise PydanticCustomError("bad_format", "a relation `source` in `recognise`, which has the questions")
        for name in self.recognise:
            if not TABLE_NAME.fullmatch(name):
                raise PydanticCustomError("bad_format", f"names of relations that match {TABLE_NAME.pattern}")
        for pattern in chain.from_iterable(fit.patterns.values() for fit in self.recognise.values()):
            try:
                re.compile(pattern)
            except re.error as error:
                raise PydanticCustomError("bad_format", f"regular expressions; {pattern!r} is none: {error}") from None
        return self


class Match(NamedTuple):
    """The relations of a folder that a recipe recognises."""

    name: str  # of the recipe
    recipe: Recipe
    files: dict[str, DataFile]  # by relation

    @property
    def weight(self) -> int:
        """How much was recognised: a recipe that asks for more is the more special one."""
        fits = [self.recipe.recognise[name] for name in self.files]
        parts = (len(f.columns) + 2 * len(f.patterns) + len(f.without) + 2 * (f.files is not None) for f in fits)
        return sum(parts) + 3 * (len(fits) - 1)

    @property
    def reason(self) -> str:
        """What was recognised, for users."""
        found = []
        for name, file in self.files.items():
            columns = ", ".join(self.recipe.recognise[name].columns)
            found.append(f"{file.origin.shown} has {columns}" if columns else f"{name} is {file.origin.shown}")
        return f"recipe {self.name!r} ({self.recipe.source}): {'; '.join(found)}."


def read_recipes(own: Path | None = None) -> dict[str, Recipe]:
    """Return the recipes by name, a person's own first; one of their own replaces one of the same name.

    Raises:
        InputError: A file in `own` that is no recipe; the message names its line.
    """
    found = {path.stem: read_model(Recipe, path, missing_ok=False) for path in _files(own)}
    return found | {name: recipe for name, recipe in _shipped().items() if name not in found}


def recipe_path(name: str, own: Path | None = None) -> Path:
    """Return the file of a recipe."""
    known = {path.stem: path for path in (*_files(FOLDER), *_files(own))}
    if name not in known:
        raise InputError("unknown_recipe", name, "a recipe of `rag-eval recipes`", found=name)
    return known[name]


def _files(folder: Path | None) -> list[Path]:
    return sorted(folder.glob("*.yaml")) if folder is not None else []


@cache
def _shipped() -> dict[str, Recipe]:
    return {path.stem: read_model(Recipe, path, missing_ok=False) for path in _files(FOLDER)}


def matches(profile: FolderProfile, recipes: Mapping[str, Recipe]) -> list[Match]:
    """Return what fits a folder's files, the most special first."""
    found = (Match(name, recipe, files) for name, recipe in recipes.items() if (files := _fitting(profile, recipe)))
    return sorted(found, key=lambda match: -match.weight)


def _fitting(profile: FolderProfile, recipe: Recipe) -> dict[str, DataFile] | None:
    """Return a file for each relation of a recipe; None if one that it needs is not there."""
    # Of a test set and its results, which have the same columns and more, the test set.
    files = sorted(splits_in_order(profile.data), key=lambda file: sum(has(file, name) for name in recipe.unused))

    def choose(rest: list[str], chosen: dict[str, DataFile]) -> dict[str, DataFile] | None:
        if not rest:
            return chosen
        name, *others = rest
        fit = recipe.recognise[name]
        for file in files:
            tried = {**chosen, name: file}
            is_free = not any(file is other for other in chosen.values())
            found = choose(others, tried) if is_free and fits(file, fit) and _is_linked(recipe, tried, name) else None
            if found is not None:
                return found
        return choose(others, chosen) if fit.optional else None

    return choose(sorted(recipe.recognise, key=lambda name: (name != SOURCE, recipe.recognise[name].optional)), {})


def fits(file: DataFile, fit: Fit) -> bool:
    """Return whether a file looks like a relation of a format."""
    path = PurePosixPath((file.origin.first or str(file.file)).casefold())
    if fit.files is not None and not any(path.match(glob.casefold()) for glob in fit.files.split(" | ")):
        return False
    if not all(any(has(file, name, kinds) for name in names.split(" | ")) for names, kinds in fit.columns.items()):
        return False
    if any(has(file, name) for name in fit.without):
        return False
    return all(_matches(file, name, pattern) for name, pattern in fit.patterns.items())


def has(file: DataFile, name: str, kinds: str = "any") -> bool:
    """Return whether a file has a column, or a field inside one, of some of these kinds (`text | texts`)."""
    kind = kind_of(file, name)
    return kind is not None and (kinds == "any" or kind in kinds.split(" | "))


def kind_of(file: DataFile, path: str) -> str | None:
    """Return the kind of a column or of a field inside one; None if there is none, or it is empty."""
    wanted = path.casefold()
    for column in (*file.columns, *file.nested):
        if column.name.casefold() == wanted:
            return column.kind if column.present else None
    for name in HIDDEN_COLUMNS.intersection(file.table.column_names):
        if wanted == f"{name}_":  # as SQL calls a file's own column of that name
            values = file.table.column(name)
            return field_of(name, values.type).kind if values.null_count < len(values) else None
    for column in file.columns:
        if wanted.startswith(f"{column.name.casefold()}."):
            return _field_kind(column.fields, wanted.split(".")[column.name.count(".") + 1 :])
    return None


def _field_kind(fields: tuple[ColumnField, ...], parts: list[str]) -> str | None:
    for field in fields:
        if field.name.casefold() == parts[0]:
            return field.kind if len(parts) == 1 else _field_kind(field.fields, parts[1:])
    return None


def _matches(file: DataFile, names: str, pattern: str) -> bool:
    values = list(_values(file, names))
    matched = sum(re.fullmatch(pattern, value, re.DOTALL) is not None for value in values)
    return bool(values) and matched >= MATCHED_SHARE * len(values)


def _values(file: DataFile, names: str) -> Iterator[str]:
    wanted = names.casefold().split(" | ")
    for column in (*file.columns, *file.nested):
        if column.name.casefold() in wanted:
            for value in column.present:
                yield from map(str, value) if isinstance(value, list) else [str(value)]


def _is_linked(recipe: Recipe, chosen: Mapping[str, DataFile], last: str) -> bool:
    for one, other in recipe.links.items():
        (left, left_name), (right, right_name) = (path.split(".", 1) for path in (one, other))
        if last not in (left, right) or not {left, right} <= chosen.keys():
            continue
        column = chosen[right].column(right_name)
        values = list(dict.fromkeys(_values(chosen[left], left_name)))[:2_000]
        if column is None or chosen[right].share_known(column, values) < LINKED_SHARE:
            return False
    return True
