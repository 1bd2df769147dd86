"""Tests of promptfoo: assertions that state what the answer is become answers, all others are named and left out.

A test of promptfoo may assert several things. An assertion that compares with a reference text (`equals`, `similar`)
states an accepted answer; texts that the output must contain are parts of one answer; of `contains-any` each text is
accepted. What judges an output without saying what it should be (`llm-rubric`, `javascript`, `not-contains`) is no
answer. Types and their notation in cells are those of promptfoo 0.121.20.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rag_eval_pipeline.conversion.mapping import literal
from rag_eval_pipeline.scaffold.columns import Column, Field
from rag_eval_pipeline.scaffold.derived import Derived, draft_derived, text_column
from rag_eval_pipeline.scaffold.links import free_word
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile
from rag_eval_pipeline.scaffold.selection import splits_in_order
from rag_eval_pipeline.scaffold.writer import SOURCE, Draft, Guess

REFERENCES = (
    "equals similar similar:cosine similar:dot similar:euclidean factuality model-graded-factuality "
    "model-graded-factcheck rouge-n bleu gleu meteor levenshtein"
).split()
PARTS = "contains icontains starts-with".split()
ALL_PARTS = "contains-all icontains-all".split()
ALTERNATIVES = "contains-any icontains-any".split()
REFUSAL = "is-refusal"
MAY_BE_LISTS = frozenset([*REFERENCES, *ALL_PARTS, *ALTERNATIVES])
STATES_ANSWER = frozenset([*REFERENCES, *PARTS, *ALL_PARTS, *ALTERNATIVES])
JUDGES = (
    "agent-rubric answer-relevance classifier contains-html contains-json contains-sql contains-xml "
    "context-faithfulness context-recall context-relevance conversation-relevance cost eval file finish-reason fn "
    "g-eval grade guardrails human is-html is-json is-refusal is-sql is-valid-function-call "
    "is-valid-openai-function-call is-valid-openai-tools-call is-xml javascript latency llm-rubric max-score "
    "model-graded-closedqa moderation perplexity perplexity-score pi python regex ruby search-rubric select-best "
    "skill-used tool-call-f1 trace-error-spans trace-span-count trace-span-duration trajectory webhook word-count"
).split()
RESULT = "testCase."  # the test of a result, which has a row for each prompt and provider
EXPECTED = re.compile(r"__expected\d*")

_TYPES = "|".join(sorted({*STATES_ANSWER, *JUDGES}, key=lambda kind: (-len(kind), kind)))
# A type, perhaps with a threshold in parentheses, and a value; a cell without a type is a text that has to be equal.
NOTATION = rf"^(?:((?:not-)?(?:{_TYPES}))(?:\([0-9.]+\))?(?::|$))?\s*(.*)$"
_TEMPLATE = re.compile(r"(\{\{\s*(\w+)\s*\}\})")
_LISTED = re.compile(r'"[^"]*"|[^,]+')


class Assertion(NamedTuple):
    """An assertion of a test; a value may be a list."""

    type: str
    value: Any


def promptfoo(profile: FolderProfile) -> Draft | None:
    """Draft tests of promptfoo: rows of a CSV with `__expected`, or the `tests` of a configuration."""
    for file in splits_in_order(profile.data):
        expected = [column for column in file.columns if EXPECTED.fullmatch(column.name.strip())]
        if expected and all(column.kind == "text" for column in expected):
            rows = [
                [parse_assertion(cell) for cell in cells if cell and cell.strip()]
                for cells in zip(*(column.values for column in expected), strict=True)
            ]
            variables = [c for c in file.columns if not c.name.strip().startswith("__")]
            asserted = Column("", "structs", (), (Field("value", "text"),), path=_from_cells(expected, file))
            return _draft(profile, file, variables, rows, asserted, "promptfoo tests, CSV")
        for start in ("", RESULT):
            found = next((c for c in (*file.columns, *file.nested) if c.name == f"{start}assert"), None)
            values = [c for c in file.nested if c.name.rpartition(".")[0] == f"{start}vars"]
            if found is not None and found.kind == "structs" and values:
                variables = [replace(c, name=c.name.rpartition(".")[2]) for c in values]
                stated = [[_stated(item) for item in cell or () if item] for cell in found.values]
                shape = "promptfoo results" if start else "promptfoo tests"
                return _draft(profile, file, variables, stated, found, shape)
    return None


def _stated(item: dict[str, Any]) -> Assertion:
    """Return an assertion of a configuration; where types differ, a list arrives as JSON text."""
    kind, value = item.get("type") or "", item.get("value")
    if kind in MAY_BE_LISTS and isinstance(value, str) and value.startswith("["):
        try:
            return Assertion(kind, json.loads(value))
        except ValueError:
            pass
    return Assertion(kind, value)


def parse_assertion(cell: str) -> Assertion:
    """Return the assertion of a cell of `__expected`."""
    match = re.fullmatch(NOTATION, cell.strip(), re.DOTALL)
    assert match is not None, "any text matches"
    return Assertion(match[1] or "equals", match[2])


def _from_cells(columns: Sequence[Column], file: DataFile) -> str:
    """Return the SQL of a row's assertions, as in a configuration."""
    word = free_word("cell", file.columns)
    cells = ", ".join(f"trim({column.sql})" for column in columns)
    return f"""list_transform(list_filter([{cells}], lambda {word}: {word} <> ''), lambda {word}:
           regexp_extract({word}, {literal(NOTATION)}, ['type', 'value'], 's'))"""


def _draft(
    profile: FolderProfile,
    file: DataFile,
    variables: Sequence[Column],
    rows: Sequence[Sequence[Assertion]],
    asserted: Column,
    shape: str,
) -> Draft:
    word = free_word("asserted", file.columns)
    rows, checks = _resolved(rows, asserted, variables, word)
    lists = frozenset(a.type for row in rows for a in row if isinstance(a.value, list))
    counted = Counter(assertion.type for row in rows for assertion in row)
    sql, relation = _answers_sql(checks, counted, word, lists)
    answers = Column("answers", "texts", tuple(map(_answers, rows)), path=sql)
    columns = [*map(_without_scheme, variables), *([answers] if answers.present else [])]
    refusals = tuple(any(assertion.type == REFUSAL for assertion in row) for row in rows)
    if any(refusals):
        sql = f"coalesce(list_contains(list_transform(_checks, lambda {word}: {word}.type), '{REFUSAL}'), false)"
        columns.append(Column("is_impossible", "boolean", refusals, path=sql))
    stated = [kind for kind in counted if kind in STATES_ANSWER]
    left = [kind for kind in counted if kind not in STATES_ANSWER and kind != REFUSAL]
    text = f"answers: from the assertions {_shown(counted, stated)}." if stated else "answers: no assertion states one."
    if {*PARTS, *ALL_PARTS} & set(stated):
        text += " Texts that an output must contain are joined into one answer."
    if left:
        text += f" Left out, because they judge an output without stating the answer: {_shown(counted, left)}."
    guesses = [Guess("questions", text)]
    if counted[REFUSAL]:
        guesses.append(Guess("questions", f"is_impossible: tests that assert {REFUSAL}."))
    where, column = [], file.column("promptIdx")
    if column is not None and column.kind == "integer":
        where.append(("promptIdx = 0", column, tuple(value == 0 for value in column.values)))
        text = "where: each test has a result for every prompt and provider, and is one question."
        guesses.append(Guess("where", text))
    relation = relation if answers.present or any(refusals) else SOURCE
    names = (("answers", ""), ("is_impossible", ""))
    derived = Derived(shape, tuple(columns), tuple(guesses), where=tuple(where), names=names, relation=relation)
    return draft_derived(profile, file, derived)


def _resolved(
    rows: Sequence[Sequence[Assertion]], asserted: Column, variables: Sequence[Column], word: str
) -> tuple[list[list[Assertion]], str]:
    """Return assertions with the values of variables in them, without those kept in files, and their SQL."""
    known = {column.name: column for column in variables}
    stated = [a.value for row in rows for a in row if a.type in STATES_ANSWER and isinstance(a.value, str)]
    marks = {mark: name for value in stated for mark, name in _TEMPLATE.findall(value) if name in known}

    def resolve(assertion: Assertion, number: int) -> Assertion:
        if assertion.type not in STATES_ANSWER or not isinstance(assertion.value, str):
            return assertion
        value = assertion.value
        for mark, name in marks.items():
            value = value.replace(mark, str(known[name].values[number] or ""))
        elsewhere = "file" if value.startswith("file://") else "template" if "{{" in value else None
        return assertion._replace(value=value) if elsewhere is None else Assertion(elsewhere, None)

    found = [[resolve(assertion, number) for assertion in row] for number, row in enumerate(rows)]
    text = f"CAST({word}.value AS VARCHAR)"
    if asserted.field_kind("value") == "texts":
        text = f"CAST(to_json({word}.value) AS VARCHAR)"
    for mark, name in marks.items():
        text = f"replace({text}, {literal(mark)}, coalesce({known[name].as_text}, ''))"
    if any(assertion.type in ("file", "template") for row in found for assertion in row):
        text = f"CASE WHEN NOT regexp_matches({text}, '^file://|\\{{\\{{') THEN {text} END"
    return found, f"list_transform({asserted.sql}, lambda {word}: {{type: {word}.type, value: {text}}})"


def _values(row: Sequence[Assertion], kinds: Sequence[str]) -> list[str]:
    found = [assertion.value for assertion in row if assertion.type in kinds and assertion.value is not None]
    return [str(text) for value in found for text in (value if isinstance(value, list) else [value])]


def _listed_values(row: Sequence[Assertion], kinds: Sequence[str]) -> list[str]:
    found = [assertion.value for assertion in row if assertion.type in kinds and assertion.value is not None]
    cells = [v if isinstance(v, list) else [t.strip().strip('"') for t in _LISTED.findall(str(v))] for v in found]
    return [str(text) for value in cells for text in value]


def _answers(row: Sequence[Assertion]) -> list[str]:
    parts = [*_values(row, PARTS), *_listed_values(row, ALL_PARTS)]
    return _values(row, REFERENCES) or ([", ".join(parts)] if parts else []) or _listed_values(row, ALTERNATIVES)


def _answers_sql(checks: str, counted: Counter[str], word: str, lists: frozenset[str]) -> tuple[str, str]:
    """Return the SQL of `_answers` for the types that occur, and of the relation that it reads."""

    def values(types: Sequence[str], *, are_split: bool = False) -> str:
        kinds = [kind for kind in types if counted[kind]]
        among = ", ".join(map(literal, [*kinds, ""] if "equals" in kinds else kinds))  # a cell may have no type
        is_one = f"{word}.type IN ({among}) AND {word}.value IS NOT NULL"
        found = f"list_transform(list_filter(_checks, lambda {word}: {is_one}), lambda {word}: {word}.value)"
        if not kinds or not (are_split or lists & set(kinds)):
            return found if kinds else ""
        cells = f"[{word}]"
        if are_split:
            trimmed = f"lambda {word}_: trim(trim({word}_), '\"')"
            cells = f'list_transform(regexp_extract_all({word}, \'"[^"]*"|[^,]+\'), {trimmed})'
        if lists & set(kinds):
            cells = f"""CASE WHEN {word} LIKE '[%' THEN from_json({word}, '["VARCHAR"]') ELSE {cells} END"""
        return f"flatten(list_transform({found}, lambda {word}: {cells}))"

    groups = {
        "_references": values(REFERENCES),
        "_parts": " || ".join(filter(None, (values(PARTS), values(ALL_PARTS, are_split=True)))),
        "_alternatives": values(ALTERNATIVES, are_split=True),
    }
    found = {name: sql for name, sql in groups.items() if sql}
    given = {name: "[array_to_string(_parts, ', ')]" if name == "_parts" else name for name in found}
    cases = "".join(f"WHEN len({name}) > 0 THEN {sql} " for name, sql in given.items())
    columns = "".join(f",\n         {sql} AS {name}" for name, sql in found.items())
    relation = f"(\n  SELECT *{columns}\n  FROM (SELECT *, {checks} AS _checks FROM source)\n)"
    return f"CASE {cases}ELSE [] END" if cases else "CAST([] AS VARCHAR[])", relation


def _without_scheme(column: Column) -> Column:
    """Return a variable whose values are read from files as a column of their names, which are no gold texts."""
    if column.kind != "text" or not column.present or not all(v.startswith("file://") for v in column.present):
        return column
    values = [None if value is None else value.removeprefix("file://") for value in column.values]
    return text_column(f"{column.name}_file", values, f"replace({column.sql}, 'file://', '')")


def _shown(counted: Counter[str], kinds: Sequence[str]) -> str:
    return ", ".join(f"{kind} ({counted[kind]})" for kind in sorted(kinds))
