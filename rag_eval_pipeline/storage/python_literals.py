"""Lists and dictionaries as Python, pandas and numpy print them into the cells of a table."""

import ast
import io
import json
import math
import re
import tokenize
from typing import Any

_ADJACENT = re.compile(r"""['"]\s*[rRuU]?['"]|\)\s*array\(""")


def python_literal(text: str) -> Any:
    """Return the value of a literal of Python that JSON can hold; sets and tuples are lists.

    Items in brackets without a comma between them are items, as numpy prints arrays; but where the first is a text that
    ends with white space and the second begins a line, `pprint` may have broken one text in two.

    Raises:
        ValueError: No such literal, a text that may be one of two, a repeated key, or a value that JSON cannot hold.
    """
    try:
        return _value(ast.parse(_with_commas(text.strip()), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError, tokenize.TokenError) as error:
        raise ValueError("no literal of Python") from error


def literal_json(text: str | None, kind: str) -> str | None:
    """Return a Python list or dictionary (`kind`) as JSON text; None if it is no such literal."""
    if text is None:
        return None
    try:
        value = python_literal(text)
        if not isinstance(value, {"list": list, "dict": dict}[kind]):
            return None
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
        written.encode()
    except (ValueError, RecursionError):
        return None
    return written


def _with_commas(text: str) -> str:
    """Put the commas that numpy leaves out between the texts, or the arrays, of an array."""
    if not _ADJACENT.search(text):
        return text
    lines = io.StringIO(text).readlines()  # as the tokenizer counts them; splitlines() also breaks at U+2028
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    opened: list[str] = []
    previous = None
    found = []
    for token in tokenize.generate_tokens(iter(lines).__next__):
        if token.type == tokenize.OP and token.string in "([{":
            opened.append(token.string)
        elif token.type == tokenize.OP and token.string in ")]}" and opened:
            opened.pop()
        if previous and opened[-1:] == ["["]:
            if token.type == previous.type == tokenize.STRING:
                if token.start[0] > previous.end[0] and ast.literal_eval(previous.string)[-1:].isspace():
                    raise ValueError("texts that may be one")
                found.append(starts[token.start[0] - 1] + token.start[1])
            elif (previous.string, token.string) == (")", "array"):
                found.append(starts[token.start[0] - 1] + token.start[1])
        if token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT):
            previous = token
    for place in reversed(found):
        text = f"{text[:place]},{text[place:]}"
    return text


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "array" and node.args:
        return _value(node.args[0])  # array([...], dtype=object)
    if isinstance(node, ast.Dict):
        names = [_key(key) for key in node.keys]
        if len(set(names)) < len(names):
            raise ValueError("a repeated key")
        return dict(zip(names, map(_value, node.values), strict=True))
    value = ast.literal_eval(node)
    if isinstance(value, set):  # `set()` is the only way to write an empty one
        return []
    if not (value is None or isinstance(value, str | bool | int | float)):
        raise ValueError("a value that JSON cannot hold")
    return value


def _key(node: ast.expr | None) -> str:
    value = () if node is None else ast.literal_eval(node)  # no node: `**other` in a dictionary
    if not (value is None or isinstance(value, str | int)) and not (isinstance(value, float) and math.isfinite(value)):
        raise ValueError("a key that JSON cannot hold")
    return str(value)
