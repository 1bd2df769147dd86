"""Models from files and back: JSON, gzip and YAML, recognised by the name's ending.

JSON says what is a number and what is text, so a text is never read as a number. YAML does not: an unquoted scalar is a
number, true or false where the model takes one, and text where it takes text (`query_id: 12`, `version: 1.10`).
"""

import json
from pathlib import Path
from typing import Any, TypeVar

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.compression import pack
from rag_eval_pipeline.formats.forms import present_json
from rag_eval_pipeline.formats.json_text import read_json_text
from rag_eval_pipeline.formats.model import FileModel, read_bytes
from rag_eval_pipeline.formats.yaml_reader import DATA, Plain, parse_yaml, plain_value
from rag_eval_pipeline.formats.yaml_writer import yaml_text
from rag_eval_pipeline.storage.atomic import atomic_write

JSON = (".json", ".json.gz")
YAML = (".yaml", ".yml")

Read = TypeVar("Read", bound=pydantic.BaseModel)


def parse_file(model: type[Read], path: Path) -> Read:
    """The model that a JSON or YAML file holds, of an older form too.

    Raises:
        InputError: The file cannot be read, is not JSON or YAML, or is of a form that is not read.
        pydantic.ValidationError: It is something else than the model; every error, for `model_findings`.
    """
    form = model.form if issubclass(model, FileModel) else None
    if path.name.endswith(JSON):
        text = read_json_text(path)
        return parse_json(model, text if form is None else present_json(form, text, path))
    if path.name.endswith(YAML):
        value = read_yaml_value(path)
        return parse_value(model, form.migrated(value, path) if form is not None and isinstance(value, dict) else value)
    raise InputError("unknown_form", path, f"a name ending in {', '.join(JSON + YAML)}")


def parse_json(model: type[Read], text: bytes) -> Read:
    """The model that checked JSON text holds.

    Raises:
        pydantic.ValidationError: It is something else.
    """
    return model.model_validate_json(text, strict=True)


def parse_value(model: type[Read], value: Any) -> Read:
    """The model that a value holds whose unquoted scalars are `Plain`.

    Raises:
        pydantic.ValidationError: It is something else.
    """
    typed = plain_value(value)
    try:
        return parse_json(model, _json(typed))
    except pydantic.ValidationError as error:
        wants_text = [fault["loc"] for fault in error.errors(include_url=False) if fault["type"] == "string_type"]
        if sum([_put_text(typed, value, location) for location in wants_text]) == 0:
            raise
    return parse_json(model, _json(typed))


def read_yaml_value(path: Path) -> Any:
    """The value of a YAML file of data, unquoted scalars as `Plain`.

    Raises:
        InputError: `missing_file`, `unreadable_file`, `bad_encoding`, `bad_yaml`.
    """
    return parse_yaml(read_bytes(path), str(path), DATA).value


def write_file(model: pydantic.BaseModel, path: Path, *, keep_nulls: bool = False) -> None:
    """Publishes a model atomically in the form that the name's ending asks for; equal content gives equal bytes.

    Raises:
        InputError: `unknown_form`, or `too_large` for YAML that could not be read again.
    """
    if path.name.endswith(".json.gz"):
        data = pack(model.model_dump_json(exclude_none=not keep_nulls).encode())
    elif path.name.endswith(".json"):
        data = model.model_dump_json(indent=2, exclude_none=not keep_nulls).encode() + b"\n"
    elif path.name.endswith(YAML):
        data = yaml_text(model.model_dump(mode="json", exclude_none=not keep_nulls))
        if len(data) > DATA.size_bytes:
            raise InputError("too_large", path, f"at most {DATA.size_bytes} bytes of YAML", hint="Write it as JSON.")
    else:
        raise InputError("unknown_form", path, f"a name ending in {', '.join(JSON + YAML)}")
    atomic_write(path, data)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _put_text(typed: Any, written: Any, location: tuple[int | str, ...]) -> bool:
    """Puts the text of an unquoted scalar where its value was; whether there was one."""
    *parents, last = location
    try:
        for part in parents:
            typed, written = typed[part], written[part]
        text = written[last]
        if not isinstance(text, Plain):
            return False
        typed[last] = str(text)
    except (KeyError, IndexError, TypeError):  # the place is none in the file: a key of a mapping, a union's member
        return False
    return True
