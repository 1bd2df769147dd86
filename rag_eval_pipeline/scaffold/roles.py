"""Which column is the question, which the answer: decided by names first and by values second.

If several columns fit a role equally well, they are its doubts, and a person has to decide.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from rag_eval_pipeline.conversion.mapping import identifier, literal
from rag_eval_pipeline.conversion.questions import DIFFICULTIES, QUERY_TYPES, messages_of
from rag_eval_pipeline.scaffold.columns import Column, read_cell
from rag_eval_pipeline.scaffold.headers import (
    QUESTION_MARKS,
    ROLES,
    bare,
    is_gold,
    is_numeric,
    is_whole,
    leaf,
    named_columns,
    normalised,
    says_truth,
)
from rag_eval_pipeline.scaffold.profile import DataFile
from rag_eval_pipeline.scaffold.row_flags import impossible
from rag_eval_pipeline.scaffold.writer import ColumnExpr, Guess, as_column
from rag_eval_pipeline.sources.batches import RowError
from rag_eval_pipeline.storage.python_literals import python_literal

ASKING_SHARE = 0.5  # of the values of a column of questions that has another name
METADATA_CHARACTERS = 100  # of the longest value; longer ones are texts rather than labels

ANSWER_TEXTS = ("text", "answer", "value", "answer_text", "input_text")
# Words for what a system wrote; in a file with one of the words below they are no truth.
OUTPUTS = frozenset("response output completion answer_text label".split())
SYSTEM_WORDS = frozenset("model generator retrieved adherence faithfulness groundedness hallucination".split())
SYSTEM_OUTPUTS = frozenset("completion output outputs response responses".split())  # used as truth with a warning
OUTPUT_WORDS = frozenset("actual bot generated gpt llm model predicted prediction rag".split())
RETRIEVED = frozenset("chunks context contexts docs hits passages retrieved_docs".split())  # beside a system's answers
ROLE_ORDER = (
    "source_id", "question", "answer", "answers", "is_impossible", "query_type", "difficulty", "facts", "conversation",
    "turn", "history",
)  # fmt: skip
METADATA_PARENTS = frozenset({"metadata", "meta", "additional_metadata"})

_DOCUMENT_NAME = re.compile(r"\s*(?:https?://\S+|\S.{0,200}\.(?:pdf|html?|txt|md|docx?|pptx?|xlsx?))\s*", re.IGNORECASE)
# A list, an object, or lines that say who speaks.
_MESSAGES = re.compile(r"\s*[\[{]|\s*\w+(?: \w+)?:\s.*\n\s*\w+(?: \w+)?:\s")
_SEPARATOR_NAMES = {";": "separated by ';'", "|": "separated by '|'", "\n": "one per line", ",": "separated by ','"}


class Roles(NamedTuple):
    """The meaning of a file's columns, except those that name documents."""

    exprs: dict[str, ColumnExpr]  # the columns of `questions`, in order
    used: frozenset[str]  # columns of the file that the expressions read
    metadata: dict[str, str]  # SQL of columns with short values, which are kept with the question
    guesses: tuple[Guess, ...]
    columns: dict[str, str]  # names of the columns that question, answer and the like were found in
    doubts: dict[str, tuple[Column, ...]]  # of a role that several columns fit equally well, these columns


class ListForm(NamedTuple):
    """One way to read a column's cells as lists of texts."""

    sql: str  # of the list; NULL for a NULL cell
    values: list[list[str]]  # of the sample cells that are not empty
    shown: str  # for users
    item: str | None = None  # the SQL of the value if each cell is a single one

    @property
    def distinct(self) -> list[str]:
        """The different values of the sample, in order."""
        return list(dict.fromkeys(value for cell in self.values for value in cell))


def find_roles(file: DataFile, taken: Sequence[str] = ()) -> Roles:
    """Find the roles of a file's columns, except those taken by documents and links."""
    search = _RoleSearch(file, taken)
    search.find_question()
    search.find_answers()
    search.find_unanswerable()
    search.find_details()
    search.find_conversation()
    return search.roles(search.find_metadata())


class _RoleSearch:
    """Gives columns their roles, one role after the other; a column has one role at most."""

    def __init__(self, file: DataFile, taken: Sequence[str]) -> None:
        every = (*file.columns, *file.nested)
        words = {word for column in every for word in normalised(column.name).split("_")}
        if words & SYSTEM_WORDS:
            every = tuple(column for column in every if normalised(column.name) not in OUTPUTS)
        # Of an object in a cell of text, the text is no answer, but one of its fields may be.
        objects = {column.name.rpartition(".")[0] for column in file.nested}
        self._rest = [
            c for c in every if c.name not in taken and is_gold(c) and not (c.kind == "text" and c.name in objects)
        ]
        self._documents = [column for column in every if column.name in taken]
        self._gold: Column | None = None  # the column of the answers
        self._exprs: dict[str, ColumnExpr] = {}
        self._guesses: list[Guess] = []
        self._used: set[str] = set()
        self._columns: dict[str, str] = {}
        self._doubts: dict[str, tuple[Column, ...]] = {}

    def roles(self, metadata: dict[str, str]) -> Roles:
        """Return what was found."""
        exprs = {role: self._exprs[role] for role in ROLE_ORDER if role in self._exprs}
        return Roles(exprs, frozenset(self._used), metadata, tuple(self._guesses), self._columns, self._doubts)

    def _assign(self, role: str, column: Column | None, expr: ColumnExpr | None = None, remark: str = "") -> None:
        if column is not None and column.name not in self._used:
            self._exprs[role] = expr or as_column(column)
            self._used.add(column.name)
            self._columns[role] = column.name
            self._say(f"{role}: column {column.described}{remark}.")

    def _choose(self, role: str, fitting: Sequence[Column]) -> Column | None:
        if len(rivals := _rivals(role, fitting)) > 1:
            self._doubts[role] = tuple(rivals)
        return fitting[0] if fitting else None

    def _say(self, text: str) -> None:
        self._guesses.append(Guess("questions", text))

    def find_question(self) -> None:
        """Find the question; of Alpaca's rows, an instruction with its input."""
        question = self._choose("question", named_columns(self._rest, "question", _asks) or _find_questions(self._rest))
        self._assign("question", question)
        doubts = self._doubts.get("question", ())
        self._rest = [column for column in self._rest if column is not question and column not in doubts]
        if question is None or normalised(question.name) != "instruction":
            return
        inputs = (column for column in self._rest if normalised(column.name) == "input" and column.kind == "text")
        if (details := next(inputs, None)) is not None:
            sql = f"concat_ws(chr(10) || chr(10), {question.sql}, nullif(trim({details.sql}), ''))"
            self._exprs["question"] = ColumnExpr(sql)
            self._guesses.pop()
            self._say(f"question: {question.name!r}, and {details.name!r} below it where it is given.")
            self._used.add(details.name)
            self._rest.remove(details)

    def find_answers(self) -> None:
        """Find the answer of each question, or all that are accepted."""
        rest = self._rest
        answer = self._choose("answer", named_columns(rest, "answer", _is_answer))
        lists = named_columns(rest, "answers", lambda c: c is not answer and (c.kind == "texts" or _is_text(c)))
        lists += named_columns(rest, "answer", lambda column: column.kind == "texts")
        answers = lists[0] if lists else None
        if answer is not None and _rank(answer, "answer") == 2 and any(bare(c.name) in ROLES["answers"] for c in lists):
            answer = None  # such as `well-formed answer` beside `answers`
            self._doubts.pop("answer", None)
        if answer is not None and (in_cells := _listed(answer)) is not None:
            self._assign("answers", answer, *in_cells)
        elif answer is not None and answers is None and _is_true_or_false(answer):
            self._assign("answers", answer, *_yes_or_no(answer))
        elif answer is not None or answers is not None:
            if answer is not None:
                self._assign("answer", answer, _one_answer(answer), _doubt_of_output(answer))
            if answers is not None:
                self._assign("answers", answers, *_split_answers(answers))
        elif numbered := numbered_answers(rest):
            listed = ", ".join(f"nullif(trim({column.as_text}), '')" for column in numbered)
            expr = ColumnExpr(f"list_filter([{listed}], lambda given: given IS NOT NULL)")
            self._assign("answers", numbered[0], expr, f" to {numbered[-1].name!r}")
            self._used.update(column.name for column in numbered)
        elif (given := _answer_structs(rest)) is not None:
            self._assign("answers", given[0], ColumnExpr(given[1]), f", each one's {given[2]!r}")
        self._gold = None if "answer" in self._doubts else answer or answers

    def find_unanswerable(self) -> None:
        """Find what says that a question has no answer, and leave used and doubtful columns behind."""
        self._used.update(column.name for columns in self._doubts.values() for column in columns)
        flag = impossible(self._rest, self._gold, self._documents)
        if flag is not None:
            self._exprs["is_impossible"], source, remark = flag
            self._used.update([] if source is None else [source.name])
            self._say(f"is_impossible: {remark}")
        self._rest = [column for column in self._rest if column.name not in self._used]

    def find_details(self) -> None:
        """Find the question's id, type and difficulty, and its facts."""
        details: dict[str, Callable[[Column], bool]] = {
            "source_id": lambda column: column.is_unique,
            "query_type": partial(_uses_words, QUERY_TYPES),
            "difficulty": partial(_uses_words, DIFFICULTIES),
            "facts": lambda column: column.kind in {"texts", "structs"},
        }
        for role, fits in details.items():
            self._assign(role, next(iter(named_columns(self._rest, role, fits)), None))

    def find_conversation(self) -> None:
        """Find what was said before a question, or its place in a conversation."""
        said = named_columns(self._rest, "history", lambda column: bool(column.present))
        history = next(filter(is_history, said), None)
        self._assign("history", history, remark=": what was said before the question")
        unread = [column.name for column in said if "history" in bare(column.name) and _is_like_messages(column)]
        if history is None and unread:
            form = "has no messages in a form that is read, so questions are asked without them"
            self._say(f"history: {unread[0]!r} {form}.")
        turns = [
            *named_columns(self._rest, "conversation", lambda column: not column.is_unique)[:1],
            *named_columns(self._rest, "turn", _is_turn)[:1],
        ]
        if len(turns) == 2:
            self._assign("conversation", turns[0])
            self._assign(
                "turn", turns[1], remark="" if history else "; the earlier turns are the history of a question"
            )

    def find_metadata(self) -> dict[str, str]:
        """Return the SQL of columns with short values that have no role; of equal names the first column's."""
        labels = [column for column in self._rest if column.name not in self._used and is_label(column)]
        self._used.update(column.name for column in labels)
        metadata = {column.name if column.path is None else _leaf(column): column.sql for column in reversed(labels)}
        metadata = dict(reversed(metadata.items()))
        if metadata:
            self._say(f"metadata: columns with short values, kept with the question: {', '.join(metadata)}.")
        return metadata


def _one_answer(column: Column) -> ColumnExpr:
    return as_column(column) if column.kind == "text" else ColumnExpr(column.as_text)


def _doubt_of_output(column: Column) -> str:
    is_output = not SYSTEM_OUTPUTS.isdisjoint(map(normalised, column.name.split(".")))
    return "; a system's own answers are no truth: check that these are reference answers" if is_output else ""


def _yes_or_no(column: Column) -> tuple[ColumnExpr, str]:
    word = f"lower(trim({column.as_text}))"
    accepted = f"CASE {word} WHEN 'true' THEN ['yes', 'true'] WHEN 'false' THEN ['no', 'false'] END"
    return ColumnExpr(accepted), "; yes stands for true, no for false, and both are accepted"


def _rivals(role: str, fitting: Sequence[Column]) -> list[Column]:
    """Return the likeliest column, and those with other values that may as well be meant.

    These have the same kind of name: nothing but a word for the role, or one beside other words. A number is as likely
    an answer as a text beside it.
    """
    if not fitting:
        return []
    best = fitting[0]
    same = [column for column in fitting if column.values != best.values and _rank(column, role) == _rank(best, role)]
    if role == "answer" and is_numeric(best):
        same += [column for column in fitting if column not in same and not is_numeric(column)]
    elif role == "answer" and bare(best.name) == "reference":  # of evaluation tools the truth, of people a document
        same = [column for column in fitting if _rank(column, role) == 0 and column.values != best.values]
    elif (role == "answer" and says_truth(best.name)) or _rank(best, role) == 1:
        return [best]
    return [best, *same]


def _rank(column: Column, role: str) -> int:
    if is_whole(column.name, role):
        return 0
    return 1 if bare(column.name) in ROLES[role] else 2


def retrieved_columns(file: DataFile, roles: Roles) -> tuple[list[str], str] | None:
    """Return the columns of passages that a system retrieved, and that of its answers; None without gold answers."""
    gold = {roles.columns[role] for role in ("answer", "answers") if role in roles.columns}
    outputs = [
        column.name
        for column in file.columns
        if gold and column.name not in gold and column.kind == "text" and column.present
        and (normalised(leaf(column.name)) in {*SYSTEM_OUTPUTS, "answer"} or OUTPUT_WORDS & {*_words(column)})
    ]  # fmt: skip
    passages = [column.name for column in file.columns if normalised(leaf(column.name)) in RETRIEVED]
    return (passages, outputs[0]) if outputs and passages else None


def list_forms(column: Column, *, separators: Sequence[str] = ()) -> Iterator[ListForm]:
    r"""Yield the ways to read a column of texts, lists of texts or integers as lists, the plainest first."""
    name = column.sql
    cells = column.present
    if column.kind == "texts":
        yield ListForm(name, [[v for v in cell if v is not None] for cell in cells], "a list")
    elif column.kind == "text lists":
        flat = [[v for inner in cell if inner for v in inner if v is not None] for cell in cells]
        yield ListForm(f"flatten({name})", flat, "a list of lists")
    elif column.kind == "integer":
        sql = f"[{column.as_text}]"
        single = sql if column.is_full else f"CASE WHEN {name} IS NOT NULL THEN {sql} ELSE [] END"
        yield ListForm(single, [[str(value)] for value in cells], "one value", column.as_text)
    elif column.kind == "number" and all(isinstance(value, float) and value.is_integer() for value in cells):
        # What pandas makes of ids where some are missing.
        sql = f"CASE WHEN isfinite({name}) THEN [{column.as_text}] ELSE [] END"
        yield ListForm(sql, [[str(value)] for value in cells], "one value", column.as_text)
    elif column.kind == "text" and cells:
        yield from _text_forms(column, name, separators)


def _text_forms(column: Column, name: str, separators: Sequence[str]) -> Iterator[ListForm]:
    cells = column.present
    json_list = f"""from_json(nullif(trim({name}), ''), '["VARCHAR"]')"""
    parsed = [_parse_list(cell, json.loads) for cell in cells]
    if all(value is not None for value in parsed):
        yield ListForm(json_list, [value or [] for value in parsed], "JSON lists")
        return
    if "," in separators and any(value is not None for value in parsed):
        # Evret's label cells are a JSON list or values separated by commas, row by row.
        pattern = _split_pattern(",")
        sql = f"CASE WHEN trim({name}) LIKE '[%' THEN {json_list} "
        sql += f"ELSE regexp_extract_all({name}, {literal(pattern)}) END"
        mixed = [re.findall(pattern, cell, re.ASCII) if v is None else v for v, cell in zip(parsed, cells, strict=True)]
        yield ListForm(sql, mixed, "JSON lists, or values separated by ','")
    parsed = [_parse_list(cell, python_literal) for cell in cells]
    if all(value is not None for value in parsed):
        yield ListForm(f"python_list({name})", [value or [] for value in parsed], "Python lists")
        return
    single = f"[{name}]" if column.is_full else f"CASE WHEN trim({name}) <> '' THEN [{name}] ELSE [] END"
    yield ListForm(single, [[cell] for cell in cells], "one value", name)
    for separator in separators:
        if any(separator in cell for cell in cells):
            pattern = _split_pattern(separator)
            values = [re.findall(pattern, cell, re.ASCII) for cell in cells]
            yield ListForm(f"regexp_extract_all({name}, {literal(pattern)})", values, _SEPARATOR_NAMES[separator])


def _split_pattern(separator: str) -> str:
    """Return a pattern that matches each trimmed, non-empty part between separators, in RE2 as in Python."""
    outside = r"\r\n" if separator == "\n" else re.escape(separator)
    return rf"[^{outside}\s](?:[^{outside}]*[^{outside}\s])?"


def _parse_list(cell: str, parse: Callable[[str], object]) -> list[str] | None:
    value = read_cell(parse, cell) if cell.lstrip().startswith("[") else None
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


def numbered_answers(columns: Sequence[Column]) -> list[Column]:
    """Return the columns of accepted answers that are numbered: answer1, answer2."""
    found = [(match, c) for c in columns if c.kind == "text" and (match := re.fullmatch(r"(.+?)_?(\d+)", bare(c.name)))]
    found = [(match, c) for match, c in found if match[1] in ROLES["answer"] or is_whole(match[1], "answer")]
    words = {match[1] for match, _ in found}
    return [c for _, c in sorted(found, key=lambda item: int(item[0][2]))] if len(words) == 1 and len(found) > 1 else []


def _answer_structs(columns: Sequence[Column]) -> tuple[Column, str, str] | None:
    """Return a column of answers that are objects, the SQL of the list of their texts, and the field of the text."""
    for word in (*ROLES["answers"], *ROLES["answer"]):
        for column in columns:
            if column.kind != "structs" or normalised(column.name) != word:
                continue
            texts = [field.name for field in column.fields if field.kind == "text"]
            text = next((name for name in ANSWER_TEXTS if name in texts), None)
            if text is not None:
                return column, f"list_transform({column.sql}, lambda given: given.{identifier(text)})", text
    return None


def _words(column: Column) -> list[str]:
    return normalised(column.name).split("_")


def _leaf(column: Column) -> str:
    return column.name.rpartition(".")[2]


def _listed(column: Column) -> tuple[ColumnExpr, str] | None:
    """Return the accepted answers in cells that are lists, or that are lists in some rows and texts in others."""
    cells = [cell for cell in column.present if column.kind == "text" and cell.startswith("[")]
    text = f"CAST({column.sql} AS VARCHAR)"  # of JSON, too
    lists = [read_cell(json.loads, cell) for cell in cells]
    if cells and all(isinstance(value, list) for value in lists):
        is_nested = all(isinstance(item, list) for value in lists for item in value)
        each, shown = f"json_extract_string({text}, '{'$[*][*]' if is_nested else '$[*]'}')", "lists"
    elif cells and all(_parse_list(cell, python_literal) is not None for cell in cells):
        each, shown = f"python_list({text})", "Python lists"
    else:
        return None
    sql = f"CASE WHEN {text} LIKE '[%' THEN {each} WHEN {text} IS NOT NULL THEN [{text}] END"
    return ColumnExpr(sql), f", whose {shown} have one accepted answer in each item"


def _find_questions(columns: Sequence[Column]) -> list[Column]:
    """Return the text columns with the largest share of values that end with a question mark, if it is a half."""
    texts = [column for column in columns if column.kind == "text" and column.present]
    shares = [sum(text.rstrip().endswith(QUESTION_MARKS) for text in c.present) / len(c.present) for c in texts]
    most = max(shares, default=0.0)
    return [column for column, share in zip(texts, shares, strict=True) if share == most >= ASKING_SHARE]


def _split_answers(column: Column) -> tuple[ColumnExpr, str]:
    """Return accepted answers as a list, and a remark on how the cells were split."""
    if column.kind == "texts":
        return as_column(column), ""
    forms = list(list_forms(column, separators=(";", "|", "\n")))
    for form in forms:
        if any(len(values) > 1 for values in form.values):
            return ColumnExpr(form.sql), f", read as {form.shown}"
    return (ColumnExpr(forms[0].sql), "") if forms else (as_column(column), "")


def _is_answer(column: Column) -> bool:
    if column.kind in {"integer", "number"} and normalised(column.name) == "label":
        return not set(column.present) <= {0, 1}  # a class, or a mark of right and wrong answers
    if not is_whole(column.name, "answer") and column.kind == "text":
        named = sum(map(bool, map(_DOCUMENT_NAME.fullmatch, column.present)))
        if named and 2 * named > len(column.present):
            return False
    return column.kind in {"text", "integer", "number", "boolean"}


def _is_true_or_false(column: Column) -> bool:
    words = {str(value).strip().lower() for value in column.present}
    return column.kind in {"text", "boolean"} and bool(words) and words <= {"true", "false"}


def _asks(column: Column) -> bool:
    return _is_text(column) and not is_numeric(column)


def _is_text(column: Column) -> bool:
    return column.kind == "text" and bool(column.present or not column.values)


def _uses_words(known: frozenset[str], column: Column) -> bool:
    """Return whether the column uses the specification's words; the conversion would note each row with others."""
    return column.kind == "text" and any(value in known for value in column.present)


def _is_turn(column: Column) -> bool:
    """Return whether a column numbers turns, as the conversion reads them."""
    return bool(column.present) and all(re.fullmatch(r"[0-9]{1,9}", str(value)) for value in column.present)


def is_history(column: Column) -> bool:
    """Return whether all cells are messages, as the conversion reads them."""
    try:
        return any([messages_of(value) for value in column.present])
    except RowError:
        return False


def _is_like_messages(column: Column) -> bool:
    """Return whether a column may hold messages: not one of texts, such as the history of a place."""
    return column.kind != "text" or any(map(_MESSAGES.match, column.present))


def is_label(column: Column) -> bool:
    """Return whether all values are short, so that a column can be kept as metadata."""
    parent = normalised(column.name.rpartition(".")[0])
    if column.path is not None and parent not in METADATA_PARENTS:
        return False
    if re.fullmatch(r"column_\d+|unnamed(_\d+)*|index(_\d+)*", normalised(column.name)) or not column.present:
        return False
    if column.kind in {"integer", "boolean"}:
        return True
    texts = column.present if column.kind == "text" else []
    return bool(texts) and all(len(text) <= METADATA_CHARACTERS and "://" not in text for text in texts)
