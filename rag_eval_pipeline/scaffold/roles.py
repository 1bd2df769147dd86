"""Which column is the question, which the answer: decided by names first and by values second.

Names are compared without case, spaces and punctuation; of several words that match, the first in its list wins.
"""

import ast
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from rag_eval_pipeline.conversion.mapping import identifier, literal
from rag_eval_pipeline.conversion.questions import (
    DIFFICULTIES,
    IMPOSSIBLE,
    QUERY_TYPES,
    says_no_answer,
    stands_for_nothing,
)
from rag_eval_pipeline.scaffold.columns import Column, read_cell
from rag_eval_pipeline.scaffold.profile import DataFile
from rag_eval_pipeline.scaffold.writer import ColumnExpr, Guess

METADATA_CHARACTERS = 100  # of the longest value; longer ones are texts rather than labels

# In the tables of evaluation tools `answer` and `response` may be a system's output: words for the truth come first.
ROLES = {
    role: tuple(words.split())
    for role, words in {
        "question": "question query user_input query_text question_text input_question user_query user_question prompt "
        "instruction input question_stem problem utterance q",
        "answer": "ground_truth ground_truth_answer true_answer gold_answer golden_answer best_answer correct_answer "
        "reference_answer truth expected_answer expected_output expected_response expected ideal_answer ideal "
        "reference answer answer_text short_answer final_answer gold gold_truth target answer_value solution output "
        "response generation_gt completion label",
        "answers": "answers aliases short_answers answer_aliases accepted_answers acceptable_answers possible_answers "
        "correct_answers alternative_answers alternate_answers alt_ans alt_answers also_accepted gold_answers "
        "ground_truths reference_answers expected_answers generation_gt references answer_alias synonyms targets",
        "is_impossible": "is_impossible impossible unanswerable is_unanswerable not_answerable no_answer "
        "expected_refusal should_refuse must_refuse refusal expected_abstention should_abstain is_refusal out_of_scope",
        "answerable": "answerable is_answerable has_answer can_be_answered should_answer in_scope in_kb",
        "source_id": "id qid query_id question_id uid uuid guid example_id sample_id item_id source_id ref source_key "
        "key number no nr",
        "mark": "expected_score is_correct correctness gold_score is_gold is_relevant relevance relevant label score",
        "query_type": "query_type question_type type qtype category kind",
        "difficulty": "difficulty level difficulty_level hardness complexity",
    }.items()
}
ROLE_SUFFIXES = {"question": "_question", "answer": "_answer", "source_id": "_id"}
# The last word of a column's name in other languages; German compounds end in it.
OTHER_LANGUAGES = {
    role: tuple(words.split())
    for role, words in {
        "question": "frage question pregunta domanda pergunta vraag pytanie otázka soru вопрос 问题 問題 質問 질문",
        "answer": "antwort réponse reponse respuesta risposta resposta antwoord odpowiedź odpowiedz odpověď cevap "
        "yanıt ответ 答案 回答 답변 정답",
    }.items()
}
NOT_GOLD = frozenset(
    "actual adversarial bad bot candidate candidates distractor distractors generated gpt hard haystack incorrect ist "
    "llm model negative negatives neg plausible predicted prediction rag results retrieved search wrong".split()
)

ANSWER_TEXTS = ("text", "answer", "value", "answer_text", "input_text")
# Words for what a system wrote; in a file with one of the words below they are no truth.
OUTPUTS = frozenset("response output completion answer_text label".split())
SYSTEM_WORDS = frozenset("model generator retrieved adherence faithfulness groundedness hallucination".split())
SYSTEM_OUTPUTS = frozenset("completion output outputs response responses".split())  # used as truth with a warning
OUTPUT_WORDS = frozenset("actual bot generated gpt llm model predicted prediction rag".split())
RETRIEVED = frozenset("chunks context contexts docs hits passages retrieved_docs".split())  # beside a system's answers
METADATA_PARENTS = frozenset({"metadata", "meta", "additional_metadata"})

_BRACKETS = re.compile(r"(?<=\S)\s*[(\[][^)\]]*[)\]]")  # remarks after a name: Antwort (Soll)
_NO = ("no", "false", "0", "0.0", "n", "f")
_YES = ("yes", "true", "1", "1.0", "y", "t")
_SEPARATOR_NAMES = {";": "separated by ';'", "|": "separated by '|'", "\n": "one per line", ",": "separated by ','"}


class Roles(NamedTuple):
    """The meaning of a file's columns, except those that name documents."""

    exprs: dict[str, ColumnExpr]  # the columns of `questions`, in order
    used: frozenset[str]  # columns of the file that the expressions read
    metadata: dict[str, str]  # SQL of columns with short values, which are kept with the question
    guesses: tuple[Guess, ...]
    columns: dict[str, str]  # names of the columns that question, answer and the like were found in


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


def normalised(name: str) -> str:
    """Return a name as lower-case words joined by `_`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", unicodedata.normalize("NFKC", name))
    return re.sub(r"[\W_]+", "_", name.casefold()).strip("_")


def is_gold(column: Column) -> bool:
    """Return whether no word of the name means something other than the truth."""
    return NOT_GOLD.isdisjoint(normalised(column.name).split("_"))


def as_column(column: Column) -> ColumnExpr:
    """Return a column unchanged."""
    return ColumnExpr(column.sql, column.name if column.path is None else None)


def find_roles(file: DataFile, taken: Sequence[str] = ()) -> Roles:
    """Find the roles of a file's columns, except those taken by documents and links."""
    every = (*file.columns, *file.nested)
    words = {word for column in every for word in normalised(column.name).split("_")}
    if words & SYSTEM_WORDS:
        every = tuple(column for column in every if normalised(column.name) not in OUTPUTS)
    rest = [column for column in every if column.name not in taken and is_gold(column)]
    exprs: dict[str, ColumnExpr] = {}
    guesses: list[Guess] = []
    used: set[str] = set()
    found: dict[str, str] = {}

    def assign(role: str, column: Column | None, expr: ColumnExpr | None = None, remark: str = "") -> None:
        if column is not None and column.name not in used:
            exprs[role] = expr or as_column(column)
            used.add(column.name)
            found[role] = column.name
            guesses.append(Guess("questions", f"{role}: column {column.described}{remark}."))

    question = _find_named(rest, "question", _is_text) or _find_questions(rest)
    assign("question", question)
    rest = [column for column in rest if column is not question]
    if question is not None and normalised(question.name) == "instruction":  # of Alpaca's rows: with its input, if any
        details = next(
            (column for column in rest if normalised(column.name) == "input" and column.kind == "text"), None
        )
        if details is not None:
            sql = f"concat_ws(chr(10) || chr(10), {question.sql}, nullif(trim({details.sql}), ''))"
            exprs["question"] = ColumnExpr(sql)
            guesses[-1] = Guess(
                "questions", f"question: {question.name!r}, and {details.name!r} below it where it is given."
            )
            used.add(details.name)
            rest.remove(details)
    answer = _find_named(rest, "answer", _is_answer)
    answers = _find_named(rest, "answers", lambda c: c is not answer and (c.kind == "texts" or _is_text(c)))
    answers = answers or _find_named(rest, "answer", lambda column: column.kind == "texts")
    numbered = numbered_answers(rest) if answer is None and answers is None else []
    if answer is not None:
        is_output = not SYSTEM_OUTPUTS.isdisjoint(map(normalised, answer.name.split(".")))
        remark = "; a system's own answers are no truth: check that these are reference answers" if is_output else ""
        if (in_cells := _listed(answer)) is not None:
            assign("answers", answer, *in_cells)
            answers = None
        elif _is_true_or_false(answer) and answers is None:
            word = f"lower(trim({answer.as_text}))"
            accepted = f"CASE {word} WHEN 'true' THEN ['yes', 'true'] WHEN 'false' THEN ['no', 'false'] END"
            assign(
                "answers", answer, ColumnExpr(accepted), "; yes stands for true, no for false, and both are accepted"
            )
        else:
            assign("answer", answer, as_column(answer) if answer.kind == "text" else ColumnExpr(answer.as_text), remark)
    if answers is not None:
        assign("answers", answers, *_split_answers(answers))
    if numbered:
        first, last = numbered[0], numbered[-1]
        listed = ", ".join(f"nullif(trim({column.as_text}), '')" for column in numbered)
        assign(
            "answers",
            first,
            ColumnExpr(f"list_filter([{listed}], lambda given: given IS NOT NULL)"),
            f" to {last.name!r}",
        )
        used.update(column.name for column in numbered)
    elif answer is None and answers is None and (given := _answer_structs(rest)) is not None:
        assign("answers", given[0], ColumnExpr(given[1]), f", each one's {given[2]!r}")
    documents = [column for column in every if column.name in taken]
    flag = _impossible(rest, answer or answers, documents)
    if flag is not None:
        exprs["is_impossible"], source, remark = flag
        used.update([] if source is None else [source.name])
        guesses.append(Guess("questions", f"is_impossible: {remark}"))
    rest = [column for column in rest if column.name not in used]
    assign("source_id", _find_named(rest, "source_id", lambda column: column.is_unique))
    for role, known in (("query_type", QUERY_TYPES), ("difficulty", DIFFICULTIES)):
        assign(role, _find_named(rest, role, partial(_uses_words, known)))
    labels = [column for column in rest if column.name not in used and is_label(column)]
    used.update(column.name for column in labels)
    metadata = {column.name if column.path is None else _leaf(column): column.sql for column in reversed(labels)}
    metadata = dict(reversed(metadata.items()))
    if metadata:
        text = f"metadata: columns with short values, kept with the question: {', '.join(metadata)}."
        guesses.append(Guess("questions", text))
    order = ("source_id", "question", "answer", "answers", "is_impossible", "query_type", "difficulty")
    ordered = {role: exprs[role] for role in order if role in exprs}
    return Roles(ordered, frozenset(used), metadata, tuple(guesses), found)


def wrong_rows(file: DataFile, roles: Roles) -> tuple[Column, str, Guess] | None:
    """Return the column that marks right and wrong answers to the same questions, and the condition of right ones."""
    question = roles.columns.get("question")
    asked = next((c.values for c in (*file.columns, *file.nested) if c.name == question), ())
    mark = _find_named(file.columns, "mark", _is_flag_of_both)
    if mark is None or len(set(asked)) == len(asked):
        return None
    rows = sum(str(value).strip().lower() in _NO for value in mark.values)
    where = _is_one_of(f"metadata.{identifier(mark.name)}", _YES)
    text = (
        f"where: questions occur with right and wrong answers, and {mark.name!r} is 0 or false for {rows} of "
        f"{len(mark.values)} rows, which are left out. Turn it round if it marks the wrong ones."
    )
    return mark, where, Guess("where", text)


def retrieved_columns(file: DataFile, roles: Roles) -> tuple[list[str], str] | None:
    """Return the columns of passages that a system retrieved, and that of its answers; None without gold answers."""
    gold = {roles.columns[role] for role in ("answer", "answers") if role in roles.columns}
    outputs = [
        column.name
        for column in file.columns
        if gold and column.name not in gold and column.kind == "text" and column.present
        and (normalised(column.name) in {*SYSTEM_OUTPUTS, "answer"} or OUTPUT_WORDS & {*_words(column)})
    ]  # fmt: skip
    passages = [column.name for column in file.columns if normalised(column.name) in RETRIEVED]
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
        yield ListForm(f"[{column.as_text}]", [[str(value)] for value in cells], "one value", column.as_text)
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
    parsed = [_parse_list(cell.strip(), ast.literal_eval) for cell in cells]
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


def _find_named(columns: Sequence[Column], role: str, fits: Callable[[Column], bool]) -> Column | None:
    """Return the fitting column whose name comes first in a role's words, or else one whose name ends like them.

    Of a nested column the last part of the name (`outputs.answer`) is tried after the names of all columns.
    """
    named = [(normalised(_BRACKETS.sub("", column.name)), column) for column in columns]
    found = (column for word in ROLES[role] for name, column in named if name == word and fits(column))
    suffix = ROLE_SUFFIXES.get(role)
    ending = (column for name, column in named if suffix is not None and name.endswith(suffix) and fits(column))
    leaves = [(_leaf(column), column) for column in columns if "." in column.name]
    nested = (column for word in ROLES[role] for leaf, column in leaves if normalised(leaf) == word and fits(column))
    foreign = (
        column
        for word in OTHER_LANGUAGES.get(role, ())
        for name, column in named
        if any(part.endswith(word) for part in name.split("_")) and fits(column)
    )
    return next(found, None) or next(ending, None) or next(nested, None) or next(foreign, None)


def numbered_answers(columns: Sequence[Column]) -> list[Column]:
    """Return the columns of accepted answers that are numbered: answer1, answer2."""
    pattern = re.compile(rf"({'|'.join(ROLES['answer'])})_?(\d+)")
    found = [(match, c) for c in columns if c.kind == "text" and (match := pattern.fullmatch(normalised(c.name)))]
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
    cells = column.present if column.kind == "text" else []
    parsed = [read_cell(json.loads, cell) if cell.startswith("[") else None for cell in cells]
    lists = [value for value in parsed if isinstance(value, list)]
    if not lists:
        form = next(list_forms(column), None) if any(cell.lstrip().startswith("[") for cell in cells) else None
        return (ColumnExpr(form.sql), f", read as {form.shown}") if form is not None and form.item is None else None
    is_nested = all(isinstance(item, list) for value in lists for item in value)
    text = f"CAST({column.sql} AS VARCHAR)"  # of JSON, too
    each = f"json_extract_string({text}, '{'$[*][*]' if is_nested else '$[*]'}')"
    sql = f"CASE WHEN {text} LIKE '[%' THEN {each} WHEN {text} IS NOT NULL THEN [{text}] END"
    return ColumnExpr(sql), ", whose lists have one accepted answer in each item"


def _find_questions(columns: Sequence[Column]) -> Column | None:
    """Return a text column of which at least half of the values end with a question mark."""
    for column in columns:
        texts = column.present if column.kind == "text" else []
        if texts and 2 * sum(text.rstrip().endswith(("?", "？", "؟")) for text in texts) >= len(texts):
            return column
    return None


def _split_answers(column: Column) -> tuple[ColumnExpr, str]:
    """Return accepted answers as a list, and a remark on how the cells were split."""
    if column.kind == "texts":
        return as_column(column), ""
    forms = list(list_forms(column, separators=(";", "|", "\n")))
    for form in forms:
        if any(len(values) > 1 for values in form.values):
            return ColumnExpr(form.sql), f", read as {form.shown}"
    return (ColumnExpr(forms[0].sql), "") if forms else (as_column(column), "")


def _impossible(
    columns: Sequence[Column], answer: Column | None, documents: Sequence[Column]
) -> tuple[ColumnExpr, Column | None, str] | None:
    """Return what marks a question as unanswerable: a flag, its opposite, or an empty answer."""
    flag = _find_named(columns, "is_impossible", _is_flag)
    if flag is not None:
        is_plain = flag.kind == "boolean" or all(str(value).lower() in IMPOSSIBLE for value in flag.values)
        return (
            as_column(flag) if is_plain else ColumnExpr(_is_one_of(flag.sql, _YES)),
            flag,
            f"column {flag.described}.",
        )
    flag = _find_named(columns, "answerable", _is_flag)
    if flag is not None:
        sql = f"NOT {flag.sql}" if flag.kind == "boolean" else _is_one_of(flag.sql, _NO)
        return ColumnExpr(sql), flag, f"column {flag.described}, negated."
    return None if answer is None else _unanswered(answer, documents)


def _unanswered(answer: Column, documents: Sequence[Column]) -> tuple[ColumnExpr, Column | None, str] | None:
    """Return what marks rows without an answer, or whose answer says that there is none, as unanswerable.

    Where columns name documents, a row without an answer that names one has perhaps only lost it. Words such as N/A
    are answers, too, unless no document is named.
    """
    if answer.kind == "other":
        return None
    cells = [value if isinstance(value, list) else [value] for value in answer.values]
    texts = [
        [text for value in cell if (text := "" if value is None else str(value).strip().lower())] for cell in cells
    ]
    named = [["" if value is None else str(value) for value in column.values] for column in documents]
    has_document = [any(re.search(r"[^\W_]", column[row]) for column in named) for row in range(len(texts))]
    refusing = [row for row, cell in enumerate(texts) if cell and all(map(says_no_answer, cell))]
    nothing = [row for row, cell in enumerate(texts) if all(map(stands_for_nothing, cell)) and row not in {*refusing}]
    if documents:
        void = [row for row in nothing if not has_document[row]]
    else:
        void = [row for row in nothing if not texts[row]]
    left = [row for row in nothing if not texts[row] and has_document[row]]
    marked = sorted({*refusing, *void})
    if len(marked) == len(texts) or not (marked or left):
        return None

    def listed(rows: Iterable[int]) -> list[str]:
        return sorted({text for row in rows for text in texts[row]})

    words, missing = listed(refusing), listed(void)
    if documents:
        empty = " AND ".join([_says_only(answer, ["", *missing]), *map(_is_empty, documents)])
        conditions = [*([_says_only(answer, words)] if words else []), *([f"({empty})"] if void else [])]
    else:
        conditions = [_says_only(answer, [*([""] if void else []), *words])]
    remark = ""
    if refusing:
        remark = f"{len(refusing)} of {len(texts)} rows have the answer {', '.join(map(repr, words))}"
        remark += " and are treated as unanswerable: a correct system says that it does not know. "
    if void:
        names = " and no " + " or ".join(repr(column.name) for column in documents) if documents else ""
        other = f" or only {', '.join(map(repr, missing))}" if missing else ""
        remark += f"{len(void)} of {len(texts)} rows have no {answer.name!r}{other}{names} and are treated as "
        remark += "unanswerable. If their answers are only missing, remove this column: the rows are then quarantined. "
    if left:
        remark += f"{len(left)} of {len(texts)} rows have no {answer.name!r} but name a document: their answers are "
        remark += "perhaps only missing, so these rows are quarantined. If the documents do not answer them, use "
        remark += f"`{_says_only(answer, [''])} AS is_impossible`."
    return ColumnExpr(" OR ".join(conditions) or "false"), None, remark.rstrip()


def _says_only(answer: Column, words: Sequence[str]) -> str:
    """Return the SQL of whether an answer, or each of several, is one of some words; no answer is an empty one."""
    listed = ", ".join(map(literal, words))
    if answer.kind == "texts":
        said = f"list_filter({answer.sql}, lambda said: coalesce(lower(trim(said)), '') NOT IN ({listed}))"
        return f"coalesce(len({said}), 0) = 0" if "" in words else f"(len({said}) = 0 AND len({answer.sql}) > 0)"
    return f"coalesce(lower(trim({answer.as_text})), '') IN ({listed})"


def _is_empty(column: Column) -> str:
    if column.kind in {"texts", "text lists", "structs", "struct lists"}:
        return f"coalesce(len({column.sql}), 0) = 0"
    return f"NOT regexp_matches(coalesce({column.as_text}, ''), '[\\pL\\pN]')"  # an empty list in a cell names none


def _is_one_of(sql: str, words: Sequence[str]) -> str:
    listed = ", ".join(f"'{word}'" for word in words)
    return f"coalesce(lower(trim(CAST({sql} AS VARCHAR))) IN ({listed}), false)"


def _is_flag(column: Column) -> bool:
    words = {str(value).strip().lower() for value in column.present}
    return column.kind == "boolean" or (column.kind in {"text", "integer"} and bool(words) and words <= {*_YES, *_NO})


def _is_flag_of_both(column: Column) -> bool:
    words = {str(value).strip().lower() for value in column.present}
    return words <= {*_YES, *_NO} and not words.isdisjoint(_YES) and not words.isdisjoint(_NO)


def _is_answer(column: Column) -> bool:
    if column.kind in {"integer", "number"} and normalised(column.name) == "label":
        return not set(column.present) <= {0, 1}  # a class, or a mark of right and wrong answers
    return column.kind in {"text", "integer", "number", "boolean"}


def _is_true_or_false(column: Column) -> bool:
    words = {str(value).strip().lower() for value in column.present}
    return column.kind in {"text", "boolean"} and bool(words) and words <= {"true", "false"}


def _is_text(column: Column) -> bool:
    return column.kind == "text" and bool(column.present or not column.values)


def _uses_words(known: frozenset[str], column: Column) -> bool:
    """Return whether the column uses the specification's words; the conversion would note each row with others."""
    return column.kind == "text" and any(value in known for value in column.present)


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
