"""YAML as data: text, lists and mappings with their line numbers, nothing else.

Tags, anchors, aliases, repeated keys and several documents are refused. An unquoted scalar stays the text that was
written, so that `no` is Norwegian and `1.10` is a version. `resolve_scalars` reads numbers and booleans where a caller
wants them; `read_settings` does so for a file of settings.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.json_files import decode_utf8, read_bytes

YAML = (".yaml", ".yml")


class YamlLimits(NamedTuple):
    """The largest size and the deepest nesting of a file."""

    size_bytes: int
    depth: int


SETTINGS = YamlLimits(1_000_000, 32)  # a benchmark.yaml of a hundred queries has 50 kB
DATA = YamlLimits(64_000_000, 128)  # 100,000 questions; larger datasets are written as JSON

NodePath = tuple[str | int, ...]

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,4000})")  # Python reads no more than 4,300 digits
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")


class Unquoted(str):
    """A scalar written without quotes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A YAML file's value and the 1-based line of each key or item, by its path from the top."""

    value: Any
    lines: dict[NodePath, int]

    def line(self, path: NodePath) -> int | None:
        """Return the line of the deepest part of `path` that the file has; parts it lacks are skipped."""
        known: NodePath = ()
        for part in path:
            if (*known, part) in self.lines:
                known = (*known, part)
        return self.lines.get(known)


@dataclass(slots=True)
class _Collection:
    value: Any
    path: NodePath
    key: str | None = None
    seen: set[str] = field(default_factory=set)


def read_yaml(path: Path, shown: str) -> YamlDocument:
    """Return the document of a benchmark.yaml; `shown` is its name in messages."""
    if not path.is_file():
        raise InputError("missing_spec", shown, "a YAML file", hint="Create it: rag-eval init NAME --from FILE|FOLDER")
    return parse_yaml(path.read_bytes(), shown)


def read_settings(path: Path, *, missing_ok: bool = False) -> dict[str, Any]:
    """Return a settings file as a mapping, unquoted scalars as numbers and booleans; `no` and `on` stay text.

    An empty file is an empty mapping, and so is a missing one if `missing_ok`.
    """
    if not path.is_file():
        if missing_ok and not path.exists():
            return {}
        raise InputError("missing_file", path, "a file")
    value = resolve_scalars(parse_yaml(path.read_bytes(), str(path)).value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError("bad_yaml", path, "a mapping of settings", found=value)
    return value


def read_yaml_data(path: Path) -> Any:
    """Return the value of a YAML file of records, unquoted scalars as `Unquoted`."""
    return parse_yaml(read_bytes(path), str(path), DATA).value


def parse_yaml(raw: bytes, shown: str, limits: YamlLimits = SETTINGS) -> YamlDocument:
    """Return the one document of YAML text in UTF-8; `shown` is its name in messages."""
    if len(raw) > limits.size_bytes:
        raise InputError("bad_yaml", shown, f"at most {limits.size_bytes} bytes", found=len(raw))
    try:
        return _build(decode_utf8(raw, shown), shown, limits.depth)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = shown if mark is None else f"{shown}, line {mark.line + 1}"
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError("bad_yaml", place, "YAML", found=problem, hint="Check quotes and indentation.") from None


def resolve_scalars(value: Any) -> Any:
    """Return the value with unquoted scalars read as in YAML 1.2: true, false, integers, floats; other text stays text.

    A number that no float can hold stays text too: `1e999` is not infinity, and `.inf` and `.nan` are words.
    """
    if isinstance(value, dict):
        return {key: resolve_scalars(item) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve_scalars(item) for item in value]
    if not isinstance(value, Unquoted):
        return value
    if value in _BOOLEAN:
        return _BOOLEAN[value]
    if _INTEGER.fullmatch(value):
        return int(value)
    if _FLOAT.fullmatch(value) and math.isfinite(number := float(value)):
        return number
    return str(value)


def _build(text: str, shown: str, depth: int) -> YamlDocument:
    """Build the value from events, not nodes: a thousand nested brackets then cost a comparison, not the stack."""
    lines: dict[NodePath, int] = {}
    stack: list[_Collection] = [_Collection([], ())]

    def line(event: Any) -> int:
        return int(event.start_mark.line) + 1

    def refuse(event: Any, expected: str, found: object) -> InputError:
        return InputError("bad_yaml", f"{shown}, line {line(event)}", expected, found=found)

    def add(event: Any, value: Any) -> NodePath:
        top = stack[-1]
        if isinstance(top.value, list):
            path: NodePath = (*top.path, len(top.value)) if len(stack) > 1 else ()
            top.value.append(value)
            lines[path] = line(event)
            return path
        assert top.key is not None
        path = (*top.path, top.key)
        top.value[top.key] = value
        top.key = None
        return path

    events: Iterable[Any] = yaml.parse(text, Loader=yaml.CSafeLoader)
    for event in events:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise refuse(event, "YAML without anchors and aliases", event.anchor)
        if getattr(event, "tag", None) is not None:
            raise refuse(event, "YAML without tags", event.tag)
        top = stack[-1]
        is_key = isinstance(top.value, dict) and top.key is None
        if isinstance(event, yaml.ScalarEvent):
            if is_key:
                if event.value in top.seen:
                    raise refuse(event, "each key once", event.value)
                top.seen.add(event.value)
                top.key = event.value
                lines[(*top.path, event.value)] = line(event)
                continue
            unquoted = event.implicit[0]
            add(event, None if unquoted and event.value in _NULL else (Unquoted if unquoted else str)(event.value))
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if is_key:
                raise refuse(event, "a text as key", "a collection")
            if len(stack) > depth:
                raise refuse(event, f"at most {depth} levels", len(stack))
            value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            stack.append(_Collection(value, add(event, value)))
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            stack.pop()
        elif isinstance(event, yaml.DocumentStartEvent) and stack[0].value:
            raise refuse(event, "one YAML document", "a second one")
    documents = stack[0].value
    return YamlDocument(documents[0] if documents else None, lines)
