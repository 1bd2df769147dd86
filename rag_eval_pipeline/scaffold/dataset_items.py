"""Datasets of tracing and evaluation platforms: items with an input, an expected output and metadata.

LangSmith (`inputs`, `outputs`), Langfuse (`input`, `expectedOutput`), Inspect (`input`, `target`), MLflow (`inputs`,
`expectations`), Braintrust (`input`, `expected`) and OpenAI evals (`input`, `ideal`) differ in names; the parts are
texts, objects with fields of the user's choice, or chat messages. Exported traces look alike, but their output is what
a system answered: it is never taken for the truth.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from rag_eval_pipeline.conversion.mapping import identifier
from rag_eval_pipeline.scaffold.columns import Column, read_cell
from rag_eval_pipeline.scaffold.derived import Derived, draft_derived, text_column
from rag_eval_pipeline.scaffold.links import free_word
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile
from rag_eval_pipeline.scaffold.roles import ROLES, normalised
from rag_eval_pipeline.scaffold.rows import FILL_IN_COLUMN, rows, skeleton
from rag_eval_pipeline.scaffold.selection import splits_in_order
from rag_eval_pipeline.scaffold.writer import Draft, Guess

INPUTS = ("inputs", "input")
EXPECTED = ("reference_outputs", "expected_output", "expectations", "expected", "ideal", "target", "outputs")
# Columns of exported traces and runs: where one is, an output is what a system answered.
TRACE = frozenset(
    "run_type parent_run_id parent_id trace_id session_id span_kind span_id start_time end_time latency total_tokens "
    "prompt_tokens completion_tokens total_cost observation_count feedback_stats first_token_time dotted_order".split()
)
OUTPUTS = frozenset("output outputs response completion".split())
# Columns of items that are not part of the question: what a system said, and what the platform noted.
PLATFORM_COLUMNS = frozenset(
    "attachments choices created_at dataset_id dataset_name epoch error error_retries events events_data "
    "completed_at html_source_path media_references messages model_usage modified_at name output project_id "
    "role_usage scores source_observation_id source_run_id source_trace_id started_at status store timelines "
    "trajectory turn_count updated_at uuid".split()
)
USER, ASSISTANT = ("user", "human"), ("assistant", "ai")
FROM_TRACES = ("source_trace_id", "source_run_id")


def dataset_items(profile: FolderProfile) -> Draft | None:
    """Draft items with an input and an expected output; None if both are plain texts of unknown origin."""
    traces = [file for file in profile.data if _is_traces(file)]
    others = tuple(file for file in profile.data if file not in traces)
    for file in splits_in_order(others):
        names = _named(file)
        given, expected = _first(names, INPUTS), _first(names, EXPECTED)
        if given is None or expected is None:
            continue
        if _tool(names) or not {given.kind, expected.kind} <= {"text"} or _is_encoded(given):
            return draft_derived(profile, file, _derived(file, given, expected, names))
    if not traces:
        return None
    return rows(replace(profile, data=others)) or _traces(profile, traces[0])


def _named(file: DataFile) -> dict[str, Column]:
    return {normalised(column.name): column for column in reversed(file.columns)}


def _first(names: dict[str, Column], words: Iterable[str]) -> Column | None:
    return next((names[word] for word in words if word in names), None)


def _is_traces(file: DataFile) -> bool:
    """Return whether a file's output is what a system answered, and nothing beside it is an expected one."""
    names = _named(file)
    references = {*ROLES["answer"], *ROLES["answers"], *EXPECTED} - OUTPUTS
    return len(TRACE & names.keys()) >= 2 and not OUTPUTS.isdisjoint(names) and references.isdisjoint(names)


def _tool(names: Iterable[str]) -> str | None:
    known = set(names)
    if {"expected_output", "source_trace_id"} <= known or {"expected_output", "dataset_id", "status"} <= known:
        return "Langfuse dataset items"
    if {"input", "target", "epoch"} <= known:
        return "Inspect log"
    if {"inputs", "expectations"} <= known:
        return "MLflow evaluation dataset"
    if {"inputs", "outputs"} <= known or {"inputs", "reference_outputs"} <= known:
        return "LangSmith examples"
    return None


def _traces(profile: FolderProfile, file: DataFile) -> Draft:
    """Return a draft in which the user names the truth."""
    draft = skeleton(file)
    remark = (
        "answer: the file holds traces, whose outputs are what a system answered, not what it should have answered. "
        "Export a dataset with reference answers instead, or name the column with the truth."
    )
    assert not isinstance(draft.questions, str), "a skeleton has an expression for each column"
    missing = (*(text for text in draft.missing if not text.startswith("answer:")), remark)
    questions = {**draft.questions, "answer": FILL_IN_COLUMN}
    return replace(draft, shape="exported traces", questions=questions, missing=missing)


def _derived(file: DataFile, given: Column, expected: Column, names: dict[str, Column]) -> Derived:
    word = free_word("message", file.columns)
    asked, others = _part(file, given, (*ROLES["question"], "content"), USER, word)
    answer, more = _part(file, expected, (*ROLES["answer"], *ROLES["answers"], "content"), ASSISTANT, word)
    columns, origins, guesses = [], [], []
    if (
        answer is not None
        and (choices := names.get("choices")) is not None
        and choices.kind == "texts"
        and choices.present
    ):
        answer = _chosen(answer, choices)
        text = f"answer: letters in {expected.name!r} stand for one of 'choices'; the choices are not asked."
        guesses.append(Guess("questions", text))
    for role, found in (("question", asked), ("answer", answer)):
        if found is not None:
            role = "answers" if role == "answer" and found.kind == "texts" else role
            columns.append(replace(found, name=role, path=found.sql))
            origins.append((role, found.name))
    noted = [column for name, column in names.items() if name in PLATFORM_COLUMNS]
    taken = {given.name, expected.name, *(column.name for column in noted)}
    rest = [_unquoted(column) for column in file.columns if column.name not in taken]
    rest = [c for c in rest if c.kind != "text" or not any(n.name.startswith(f"{c.name}.") for n in file.nested)]
    nested = [c for c in file.nested if c.name.partition(".")[0] not in taken]
    known = {column.name for column in (*columns, *rest)}
    leaves = [replace(c, name=c.name.partition(".")[2]) for c in (*others, *more)]
    leaves = [column for column in leaves if column.name not in known]
    traced = [names[name] for name in FROM_TRACES if name in names]
    copied = sum(len(_unquoted(column).present) for column in traced)
    if copied:
        text = (
            f"answer: {copied} items were made from traces ({traced[0].name!r}). Their expected output is what a "
            "system answered unless somebody corrected it: check them."
        )
        guesses.append(Guess("questions", text))
    elif normalised(expected.name) == "outputs":
        text = f"answer: {expected.name!r} are the reference outputs of a dataset; outputs of a run are no truth."
        guesses.append(Guess("questions", text))
    where = []
    status, epoch = names.get("status"), names.get("epoch")
    status = _unquoted(status) if status is not None else None
    if status is not None and "ARCHIVED" in status.values:
        where.append(("status <> 'ARCHIVED'", status, tuple(value != "ARCHIVED" for value in status.values)))
        guesses.append(Guess("where", f"where: {status.values.count('ARCHIVED')} archived items are left out."))
    # A log has the samples of one epoch after those of another, so the sampled rows may be of the first one only.
    if epoch is not None and epoch.kind == "integer" and len(file.table.column(epoch.name).unique()) > 1:
        where.append(("epoch = 1", epoch, tuple(value == 1 for value in epoch.values)))
        guesses.append(Guess("where", "where: each sample was run in several epochs, and is one question."))
    if file.origin.member is not None:
        text = "source: the samples of the first epoch, as the log keeps them; its summaries cut long texts."
        guesses.append(Guess("source", text))
    return Derived(
        _tool(names) or f"items with {given.name!r} and {expected.name!r}",
        (*columns, *leaves, *rest, *nested),
        tuple(guesses),
        where=tuple(where),
        names=tuple(origins),
        unused=tuple(noted),
    )


def _chosen(answer: Column, choices: Column) -> Column:
    def text(value: Any, listed: Sequence[str] | None) -> Any:
        place = ord(value) - ord("A") if isinstance(value, str) and re.fullmatch("[A-Z]", value) else -1
        return listed[place] if listed and 0 <= place < len(listed) else value

    pairs = zip(answer.values, choices.values, strict=True)
    if answer.kind == "texts":
        values = tuple(None if v is None else [text(one, listed) for one in v] for v, listed in pairs)
        sql = f"list_transform({answer.sql}, lambda letter: {_choice_sql('letter', choices)})"
        return Column(answer.name, "texts", values, path=sql)
    return text_column(answer.name, [text(v, listed) for v, listed in pairs], _choice_sql(answer.sql, choices))


def _choice_sql(letter: str, choices: Column) -> str:
    chosen = f"{choices.sql}[ascii({letter}) - 64]"
    return f"CASE WHEN regexp_full_match({letter}, '[A-Z]') THEN coalesce({chosen}, {letter}) ELSE {letter} END"


def _part(
    file: DataFile, column: Column, words: Sequence[str], speakers: Sequence[str], word: str
) -> tuple[Column | None, list[Column]]:
    """Return the text of an input or output, and its other fields; None if it is not known which field it is."""
    fields = [field for field in file.nested if field.name.startswith(f"{column.name}.")]
    texts = {
        normalised(field.name.partition(".")[2]): text
        for field in reversed(fields)
        if (text := _last_text(field, words, speakers, word)) is not None
    }
    found = next((texts[each] for each in words if each in texts), None)
    plain = [text for text in texts.values() if text.kind in {"text", "texts"}]
    if found is None:
        found = plain[0] if len(plain) == 1 else _last_text(column, words, speakers, word)
    return found, [field for field in fields if found is None or field.name != found.name]


def _last_text(column: Column, words: Sequence[str], speakers: Sequence[str], word: str) -> Column | None:
    """Return a text, or the last message of some speakers, as plain text; None for anything else."""
    if column.kind == "texts":
        return column
    if column.kind in {"integer", "number", "boolean"}:
        return text_column(column.name, [None if v is None else str(v) for v in column.values], column.as_text)
    if column.kind == "structs":
        field = next((f.name for f in column.fields if f.name in ("role", "type")), None)
        if field is None or column.field_kind("content") != "text":
            return None
        values = [_last([] if value is None else value, field, speakers) for value in column.values]
        return text_column(column.name, values, _last_sql(column.sql, field, speakers, word))
    return _decoded(column, words, speakers, word) if column.kind == "text" else None


def _decoded(column: Column, words: Sequence[str], speakers: Sequence[str], word: str) -> Column | None:
    """Return the texts of cells in which a platform wrote JSON: a text, a list of texts, messages, or an object."""
    cells = [_json(value) for value in column.values]
    text = f"CAST({column.sql} AS VARCHAR)"
    objects = [cell for cell in cells if isinstance(cell, dict)]
    keys = {normalised(key): key for cell in objects for key in reversed(cell)}
    key = next((keys[each] for each in ("messages", *words) if each in keys), None)
    key = next(iter(keys.values())) if key is None and len(keys) == 1 else key
    if objects and key is None:
        return None
    # What stands under the key of an object is read as if it were the cell.
    inner = [cell.get(key) if isinstance(cell, dict) else cell for cell in cells]
    source = text if key is None else f"json_extract({text}, '$.{json.dumps(key)}')"
    source = f"CASE WHEN {text} LIKE '{{%' THEN CAST({source} AS VARCHAR) ELSE {text} END" if objects else text
    lists = [cell for cell in inner if isinstance(cell, list)]
    if not any(cell is not None for cell in inner):
        return column
    if lists and all(isinstance(item, str) for cell in lists for item in cell):
        sql = f"""CASE WHEN {source} LIKE '[%' THEN from_json({source}, '["VARCHAR"]') ELSE [{source}] END"""
        found = [value if cell is None else cell for cell, value in zip(inner, column.values, strict=True)]
        texts = tuple(value if isinstance(value, list) or value is None else [value] for value in found)
        return Column(column.name, "texts", texts, path=sql)
    cases = []
    if lists:
        messages = [item for cell in lists for item in cell]
        if not all(isinstance(item, dict) and isinstance(item.get("content"), str) for item in messages):
            return None  # such as messages with images
        field = "role" if any("role" in item for cell in lists for item in cell) else "type"
        sql = f"""from_json({source}, '[{{"{field}":"VARCHAR","content":"VARCHAR"}}]')"""
        cases.append(f"WHEN {source} LIKE '[%' THEN {_last_sql(sql, field, speakers, word)}")
        inner = [_last(cell, field, speakers) if isinstance(cell, list) else cell for cell in inner]
    if any(isinstance(cell, str) for cell in cells):
        cases.append(f"""WHEN {text} LIKE '"%"' AND json_valid({text}) THEN json_extract_string({text}, '$')""")
    values = [value if cell is None else cell for cell, value in zip(inner, column.values, strict=True)]
    sql = f"CASE {' '.join(cases)} ELSE {source} END" if cases else source
    return text_column(column.name, values, sql)


def _unquoted(column: Column) -> Column:
    """Return a column in which each cell is a text of JSON without the quotes."""
    cells = [_json(value) for value in column.values]
    if column.kind != "text" or not cells or not all(isinstance(cell, str) for cell in cells):
        return column
    return text_column(column.name, cells, f"json_extract_string({column.sql}, '$')")


def _is_encoded(column: Column) -> bool:
    cells = [_json(value) for value in column.present]
    return bool(cells) and column.kind == "text" and any(isinstance(cell, dict | list | str) for cell in cells)


def _json(cell: Any) -> Any:
    is_json = isinstance(cell, str) and cell.startswith(("{", "[", '"'))
    value = read_cell(json.loads, cell) if is_json else None
    return value if isinstance(value, dict | list | str) else None


def _last(messages: Sequence[Any], field: str, speakers: Sequence[str]) -> str | None:
    texts = [m["content"] for m in messages if m is not None and m.get(field) in speakers]
    return texts[-1] if texts else None


def _last_sql(messages: str, field: str, speakers: Sequence[str], word: str) -> str:
    among = ", ".join(f"'{speaker}'" for speaker in speakers)
    return f"list_filter({messages}, lambda {word}: {word}.{identifier(field)} IN ({among}))[-1].content"
