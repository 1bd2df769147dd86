"""Values that Python wrote into a cell, such as `['a', "b's"]` or `{'topic': 'Art', 'n': 3}`, as JSON text."""

import ast
import io
import json
import math
import re
import tokenize
from typing import Any

_ADJACENT = re.compile(r"""['"]\s*[rRuU]?['"]""")


def literal_json(text: str | None, kind: str) -> str | None:
    """Return a Python list or dictionary as JSON text; None when the text is no such literal or JSON cannot hold it.

    Tuples and sets are lists; keys that are numbers, booleans or None become their text. A key that stands twice,
    bytes, infinities and half characters have no JSON. Texts in brackets without a comma between them are items of
    their own, as numpy prints arrays; but where the first ends with white space and the second begins a line, `pprint`
    may have broken one text in two, so there is no value.

    Args:
        text: The cell.
        kind: `list` or `dict`.
    """
    if text is None:
        return None
    try:
        value = _value(ast.parse(_with_commas(text.strip()), mode="eval").body)
        if not isinstance(value, {"list": list, "dict": dict}[kind]):
            return None
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
        written.encode()
    except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
        return None
    return written


def _with_commas(text: str) -> str:
    """Put the commas that numpy leaves out between the texts of an array.

    Raises:
        ValueError: `pprint` may have broken one text into lines there, which it does behind white space.
    """
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
        if previous and token.type == previous.type == tokenize.STRING and opened[-1:] == ["["]:
            if token.start[0] > previous.end[0] and ast.literal_eval(previous.string)[-1:].isspace():
                raise ValueError("texts that may be one")
            found.append(starts[token.start[0] - 1] + token.start[1])
        if token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT):
            previous = token
    for place in reversed(found):
        text = f"{text[:place]},{text[place:]}"
    return text


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        names = [_name(key) for key in node.keys]
        if len(set(names)) < len(names):
            raise ValueError("a key that stands twice")
        return dict(zip(names, map(_value, node.values), strict=True))
    value = ast.literal_eval(node)
    if isinstance(value, set):  # `set()` is the only way to write an empty one
        return []
    if not (value is None or isinstance(value, str | bool | int | float)):
        raise ValueError("a value that JSON cannot hold")
    return value


def _name(node: ast.expr | None) -> str:
    value = None if node is None else ast.literal_eval(node)  # no node: `**other` in a dictionary
    if node is None or not (value is None or isinstance(value, str | bool | int | float)):
        raise ValueError("a key that JSON cannot hold")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a key that JSON cannot hold")
    return str(value)
