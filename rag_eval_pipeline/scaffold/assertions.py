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

from rag_eval_pipeline.scaffold.columns import Column, literal
from rag_eval_pipeline.scaffold.derived import Derived, draft_derived, text_column
from rag_eval_pipeline.scaffold.links import free_word
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile
from rag_eval_pipeline.scaffold.selection import splits_in_order
from rag_eval_pipeline.scaffold.writer import Draft, Guess

REFERENCES = (
    "equals similar similar:cosine similar:dot similar:euclidean factuality model-graded-factuality "
    "model-graded-factcheck rouge-n bleu gleu meteor levenshtein"
).split()
PARTS = "contains icontains starts-with".split()
ALL_PARTS = "contains-all icontains-all".split()
ALTERNATIVES = "contains-any icontains-any".split()
REFUSAL = "is-refusal"
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
            return _draft(profile, file, variables, rows, _from_cells(expected, file), "promptfoo tests, CSV")
        for start in ("", RESULT):
            asserted = next((c for c in (*file.columns, *file.nested) if c.name == f"{start}assert"), None)
            values = [c for c in file.nested if c.name.rpartition(".")[0] == f"{start}vars"]
            if asserted is not None and asserted.kind == "structs" and values:
                variables = [replace(c, name=c.name.rpartition(".")[2]) for c in values]
                stated = [[_stated(item) for item in cell or () if item] for cell in asserted.values]
                shape = "promptfoo results" if start else "promptfoo tests"
                return _draft(profile, file, variables, stated, asserted.sql, shape)
    return None


def _stated(item: dict[str, Any]) -> Assertion:
    """Return an assertion of a configuration; where types differ, a list arrives as JSON text."""
    kind, value = item.get("type") or "", item.get("value")
    if kind in {*ALL_PARTS, *ALTERNATIVES} and isinstance(value, str) and value.startswith("["):
        value = json.loads(value)
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
    asserted: str,
    shape: str,
) -> Draft:
    has_lists = any(isinstance(assertion.value, list) for row in rows for assertion in row)
    counted = Counter(assertion.type for row in rows for assertion in row)
    word = free_word("asserted", file.columns)
    sql, relation = _answers_sql(asserted, counted, word, has_lists=has_lists)
    answers = Column("answers", "texts", tuple(map(_answers, rows)), path=sql)
    columns = [*map(_without_scheme, variables), answers]
    refusals = tuple(any(assertion.type == REFUSAL for assertion in row) for row in rows)
    if any(refusals):
        sql = f"coalesce(list_contains(list_transform(_checks, lambda {word}: {word}.type), '{REFUSAL}'), false)"
        columns.append(Column("is_impossible", "boolean", refusals, path=sql))
    stated = [kind for kind in counted if kind in STATES_ANSWER]
    left = [kind for kind in counted if kind not in STATES_ANSWER and kind != REFUSAL]
    text = f"answers: from the assertions {_shown(counted, stated)}." if stated else "answers: none is asserted."
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
    names = (("answers", ""), ("is_impossible", ""))
    derived = Derived(shape, tuple(columns), tuple(guesses), where=tuple(where), names=names, relation=relation)
    return draft_derived(profile, file, derived)


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


def _answers_sql(asserted: str, counted: Counter[str], word: str, *, has_lists: bool) -> tuple[str, str]:
    """Return the SQL of `_answers` for the types that occur, and of the relation that it reads."""

    def values(*groups: Sequence[str], is_list: bool = False) -> str:
        kinds = [kind for group in groups for kind in group if counted[kind]]
        among = ", ".join(map(literal, [*kinds, ""] if "equals" in kinds else kinds))  # a cell may have no type
        found = (
            f"list_transform(list_filter(_checks, lambda {word}: {word}.type IN ({among})), "
            f"lambda {word}: CAST({word}.value AS VARCHAR))"
        )
        if not kinds or not is_list:
            return found if kinds else ""
        cells = (
            f"list_transform(regexp_extract_all({word}, '\"[^\"]*\"|[^,]+'), lambda {word}_: trim(trim({word}_), '\"'))"
        )
        if has_lists:
            cells = f"""CASE WHEN {word} LIKE '[%' THEN from_json({word}, '["VARCHAR"]') ELSE {cells} END"""
        return f"flatten(list_transform({found}, lambda {word}: {cells}))"

    lists = {
        "_references": values(REFERENCES),
        "_parts": " || ".join(filter(None, (values(PARTS), values(ALL_PARTS, is_list=True)))),
        "_alternatives": values(ALTERNATIVES, is_list=True),
    }
    found = {name: sql for name, sql in lists.items() if sql}
    given = {name: "[array_to_string(_parts, ', ')]" if name == "_parts" else name for name in found}
    cases = "".join(f"WHEN len({name}) > 0 THEN {sql} " for name, sql in given.items())
    columns = "".join(f",\n         {sql} AS {name}" for name, sql in found.items())
    relation = f"(\n  SELECT *{columns}\n  FROM (SELECT *, {asserted} AS _checks FROM source)\n)"
    return f"CASE {cases}ELSE [] END" if cases else "CAST([] AS VARCHAR[])", relation


def _without_scheme(column: Column) -> Column:
    """Return a variable whose values are read from files as a column of their names, which are no gold texts."""
    if column.kind != "text" or not column.present or not all(v.startswith("file://") for v in column.present):
        return column
    values = [None if value is None else value.removeprefix("file://") for value in column.values]
    return text_column(f"{column.name}_file", values, f"replace({column.sql}, 'file://', '')")


def _shown(counted: Counter[str], kinds: Sequence[str]) -> str:
    return ", ".join(f"{kind} ({counted[kind]})" for kind in sorted(kinds))
