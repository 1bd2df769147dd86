"""Questions with options: the key into the options becomes the text of the right one.

The options are a list, a struct, or one column each; the key is a letter, a label or a place. Neither the key nor an
option is ever a gold answer or a gold text: where it is not clear what a key means, the user has to say it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rag_eval_pipeline.conversion.mapping import identifier, literal
from rag_eval_pipeline.scaffold.columns import Column
from rag_eval_pipeline.scaffold.headers import normalised
from rag_eval_pipeline.scaffold.profile import DataFile
from rag_eval_pipeline.scaffold.roles import list_forms

OPTIONS = "choices options endings answer_choices answer_options multiple_choices possible_choices".split()
KEYS = (
    "answer_key answer correct_answer correct correct_option correct_choice right_answer answer_idx answer_index "
    "answer_id answer_label correct_index correct_idx gold_label gold_idx gold label target cop ans key solution"
).split()
TEXT_FIELDS, LABEL_FIELDS = ("text", "choices", "choice", "content", "option"), ("label", "labels", "key", "letter")
ANSWER = "correct_answer"  # what the column of the right options' texts is called: the first name that roles look for
NO_KEY = frozenset({"", "-1"})  # of a question whose answer is kept secret

# The columns of single options: A to D, option_a, opa, choice1, sol1, ending0. Numbered answers are accepted answers.
_SINGLE = re.compile(r"(options?|choices?|opt|op|ending|sol|answer)?_?([a-h]|\d)")


class Options(NamedTuple):
    """The options of each row, and the SQL of the list of their texts."""

    names: tuple[str, ...]  # of the columns that hold them
    texts: list[list[str]]
    sql: str
    labels: list[list[str]] | None = None
    labels_sql: str = ""

    @property
    def shown(self) -> str:
        """The columns, for users."""
        return ", ".join(map(repr, self.names))


def with_chosen_answers(file: DataFile) -> DataFile:
    """Return a file in which a key into options is a column with the right options' texts, and the options are gone."""
    every = (*file.columns, *file.nested)
    keys = [c for word in KEYS for c in every if normalised(c.name.rpartition(".")[2]) == word]
    for options in _find_options(every):
        given = [key for key in keys if key.name not in options.names and key.kind in {"text", "integer", "number"}]
        cells = [(key, [_key(value) for value in key.values]) for key in given]
        if any(_are_texts(values, options) for _, values in cells):
            return _without(file, options.names)
        for key, values in cells:
            found = list(_places(key, values, options))
            if len(found) == 1:
                return _resolved(file, options, key, *found[0])
            if found:
                return _to_fill_in(file, options, key)
        if len(options.names) == 1:  # columns that are called A and B need a key to be options
            return _without(file, options.names)
    return file


def _find_options(columns: Sequence[Column]) -> Iterator[Options]:
    for column in columns:
        if normalised(column.name.rpartition(".")[2]) in OPTIONS and (found := _listed(column)) is not None:
            yield found
    single: dict[tuple[str, bool], list[tuple[str, Column]]] = {}
    for column in columns:
        match = _SINGLE.fullmatch(normalised(column.name))
        if match and column.kind in {"text", "integer", "number"}:
            single.setdefault((match[1] or "", match[2].isdecimal()), []).append((match[2].upper(), column))
    for (word, is_numbered), named in single.items():
        named.sort(key=lambda item: item[0])
        labels = [label for label, _ in named]
        is_run = all(ord(b) - ord(a) == 1 for a, b in zip(labels, labels[1:], strict=False)) and labels[0] in "A01"
        if is_run and len(named) > 1 and not (is_numbered and word in {"", "answer"}):
            yield _of_columns(named)


def _of_columns(found: Sequence[tuple[str, Column]]) -> Options:
    columns = [column for _, column in found]
    rows = zip(*(column.values for column in columns), strict=True)
    texts = [["" if value is None else str(value) for value in row] for row in rows]
    labels = [label for label, _ in found]
    sql = f"[{', '.join(column.as_text for column in columns)}]"
    every = [labels] * len(texts)
    return Options(tuple(column.name for column in columns), texts, sql, every, _list_sql(labels))


def _listed(column: Column) -> Options | None:
    """Return the options of a column of lists, of structs, or of JSON or Python lists in cells; None of any other."""
    names, sql, cells = (column.name,), column.sql, [value or () for value in column.values]
    fields = {item.name: item.kind for item in column.fields}
    text = next((name for name in TEXT_FIELDS if fields.get(name) in {"text", "texts"}), None)
    label = next((name for name in LABEL_FIELDS if fields.get(name) in {"text", "texts"}), None)
    if column.kind == "texts":
        return Options(names, [list(cell) for cell in cells], sql)
    if column.kind == "struct" and text is not None and fields[text] == "texts":
        texts = [list(cell[text] or ()) if cell else [] for cell in cells]
        if label is None:
            return Options(names, texts, f"{sql}.{identifier(text)}")
        labels = [list(cell[label] or ()) if cell else [] for cell in cells]
        return Options(
            names, texts, f"{sql}.{identifier(text)}", labels, _each(f"{sql}.{identifier(label)}", "upper(option)")
        )
    if column.kind == "structs" and text is not None:
        texts = [[item[text] for item in cell if item] for cell in cells]
        listed = _each(sql, f"option.{identifier(text)}")
        if label is None:
            return Options(names, texts, listed)
        labels = [[item[label] for item in cell if item] for cell in cells]
        return Options(names, texts, listed, labels, _each(sql, f"upper(option.{identifier(label)})"))
    if column.kind == "struct" and all(re.fullmatch("[A-Ha-h]", name) for name in fields):
        letters = list(fields)
        texts = [[cell.get(name) or "" for name in letters] if cell else [] for cell in cells]
        listed = f"[{', '.join(f'{sql}.{identifier(name)}' for name in letters)}]"
        return Options(names, texts, listed, [[n.upper() for n in letters]] * len(texts), _list_sql(letters))
    if column.kind == "text" and column.is_full and (form := next(list_forms(column), None)) is not None:
        return Options(names, form.values, form.sql) if form.item is None else None
    return None


def _each(sql: str, made: str) -> str:
    return f"list_transform({sql}, lambda option: {made})"


def _list_sql(labels: Iterable[str]) -> str:
    return f"[{', '.join(literal(label.upper()) for label in labels)}]"


def _key(value: Any) -> str:
    text = "" if value is None else str(value).strip()
    return text.removesuffix(".0") if isinstance(value, float) else text


def _are_texts(keys: Sequence[str], options: Options) -> bool:
    """Return whether most keys are the text of one of their options, and not only its label."""
    given = [(key, row) for key, row in enumerate(keys) if row not in NO_KEY]
    known = sum(key in options.texts[row] for row, key in given)
    return any(len(key) > 1 for _, key in given) and 2 * known > len(given)


def _places(key: Column, keys: Sequence[str], options: Options) -> Iterator[tuple[str, list[str | None]]]:
    """Yield what the keys can mean: the SQL of the option's place, and each row's option."""
    word = f"trim({key.as_text})"
    number = f"CAST(try_cast({word} AS DOUBLE) AS BIGINT)"
    ways = [
        (f"list_position({options.labels_sql}, upper({word}))" if options.labels else "", _label_places(keys, options)),
        (f"ascii(upper({word})) - 64", [ord(k.upper()) - 65 if re.fullmatch("[A-Ha-h]", k) else None for k in keys]),
        (f"{number} + 1", [int(k) if k.isdecimal() else None for k in keys]),
        (number, [int(k) - 1 if k.isdecimal() else None for k in keys]),
    ]
    for sql, places in ways:
        found = [
            row[place] if place is not None and 0 <= place < len(row) else None
            for place, row in zip(places, options.texts, strict=True)
        ]
        known = [text is not None or k in NO_KEY for text, k in zip(found, keys, strict=True)]
        if sql and any(text is not None for text in found) and all(known):
            yield sql, found
            if sql is ways[0][0] or sql is ways[1][0]:  # a label or a letter has one meaning
                return


def _label_places(keys: Sequence[str], options: Options) -> list[int | None]:
    labels = options.labels or [[]] * len(keys)
    upper = [[str(label).upper() for label in row] for row in labels]
    return [row.index(k.upper()) if k.upper() in row else None for k, row in zip(keys, upper, strict=True)]


def _resolved(file: DataFile, options: Options, key: Column, place: str, texts: list[str | None]) -> DataFile:
    # Place 0 is NULL; a negative one would count from the end. An answer that is kept secret is not one that is empty.
    answer = Column(ANSWER, "text", tuple(text or "?" for text in texts), path=f"({options.sql})[greatest({place}, 0)]")
    note = (
        f"answer: {key.name!r} says which of {options.shown} is right, and the answer is its text. The question is "
        "asked without its options: leave out questions that cannot be answered so (`where`)."
    )
    return _without(file, (*options.names, key.name), answer, note)


def _to_fill_in(file: DataFile, options: Options, key: Column) -> DataFile:
    row = next(row for row, value in enumerate(key.values) if _key(value) not in NO_KEY)
    note = (
        f"answer: {key.name!r} says which of {options.shown} is right, but not whether it counts from 0 or from 1: the "
        f"first is {key.values[row]!r} of {options.texts[row]!r}. The answer is `({options.sql})[{key.sql} + 1]`, or "
        f"`({options.sql})[{key.sql}]`."
    )
    return _without(file, (*options.names, key.name), Column("answer", "other", key.values, path=key.sql), note)


def _without(file: DataFile, names: Sequence[str], answer: Column | None = None, note: str = "") -> DataFile:
    made = [] if answer is None else [answer]
    is_gone = {*names, *(column.name for column in made)}
    columns = (*made, *(column for column in file.columns if column.name not in is_gone))
    nested = tuple(
        c for c in file.nested if c.name not in is_gone and not any(c.name.startswith(f"{name}.") for name in is_gone)
    )
    return replace(file, columns=columns, nested=nested, notes=(*file.notes, *([note] if note else [])))
