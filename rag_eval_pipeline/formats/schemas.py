"""JSON Schemas (2020-12) of the files, generated from the models that read them.

The committed ones lie in `schemas/*.schema.json`, are part of the package, and are for other people's tools; the models
are faster and also find what a schema cannot say (ids that stand twice, spans that end before they start, a version of
the form that is newer than this release).
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pydantic

from rag_eval_pipeline.formats.benchmark_data import BENCHMARK_DATA
from rag_eval_pipeline.formats.comparison_files import AbTestResults, Regressions, WeeklyResults
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.train_json import TrainRow
from rag_eval_pipeline.storage.atomic import atomic_write

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
SUFFIX = ".schema.json"
# pydantic names a constraint as Python does where a check of ours stands before it.
_KEYWORDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum",
             "min_length": "minLength", "max_length": "maxLength"}  # fmt: skip
_NAMED = frozenset({"properties", "$defs", "patternProperties"})  # their keys are people's, not the schema's


def model_schema(model: type[pydantic.BaseModel], title: str) -> Schema:
    """The schema of what a model reads."""
    return {**_mended(model.model_json_schema(mode="validation")), "title": title}


def train_schema() -> Schema:
    """The schema of `train.json`."""
    return {**msgspec.json.schema(list[TrainRow]), "title": "train.json"}


SCHEMAS: dict[str, Callable[[], Schema]] = {
    "evaluation_dataset": lambda: model_schema(EvaluationDataset, "Evaluation Dataset"),
    "evaluation_results": lambda: model_schema(EvaluationResults, "Evaluation Results"),
    "ab_test_results": lambda: model_schema(AbTestResults, "A/B Test Results"),
    "ground_truth": lambda: model_schema(GroundTruth, "Ground Truth"),
    "regressions": lambda: model_schema(Regressions, "Regressions"),
    "train": train_schema,
    "weekly_results": lambda: model_schema(WeeklyResults, "Weekly Results"),
    **{name: partial(model_schema, model, model.__name__) for name, model in BENCHMARK_DATA.items()},
}
"""Name -> what makes the schema; other rooms add theirs by handing a larger mapping to `write_schemas`."""


@functools.cache
def json_schema(name: str) -> Schema:
    """One of the committed schemas, of whichever room; callers do not change it.

    Args:
        name: Such as `evaluation_dataset`.

    Raises:
        FileNotFoundError: There is none of this name.
    """
    schema: Schema = json.loads((schema_folder() / f"{name}{SUFFIX}").read_bytes())
    return schema


def write_schemas(folder: Path, makers: Mapping[str, Callable[[], Schema]] = SCHEMAS) -> list[Path]:
    """Publishes schemas as `<name>.schema.json`; equal models give equal bytes.

    Args:
        folder: Where; `schema_folder()` for the committed ones.
        makers: Name -> what makes the schema.

    Returns:
        The files, by name.
    """
    paths = []
    for name, make in sorted(makers.items()):
        path = folder / f"{name}{SUFFIX}"
        text = json.dumps(_complete(name, make()), indent=2, ensure_ascii=False)
        atomic_write(path, text.encode() + b"\n")
        paths.append(path)
    return paths


def schema_folder() -> Path:
    """Where the package has its schemas."""
    return Path(str(resources.files("rag_eval_pipeline.formats") / "schemas"))


def schema_place(name: str, location: Sequence[int | str]) -> str:
    """Where a schema speaks of a place in a file: `x.schema.json#/$defs/EvaluationQuery/properties/query_id`.

    Args:
        name: Of a committed schema.
        location: Keys and indices from the top; what the schema does not know ends the walk.
    """
    root = json_schema(name)
    node, pointer = _followed(root, root, "#")
    for part in location:
        step = _step(node, part)
        if step is None:
            break
        for key in step:
            node, pointer = node[key], f"{pointer}/{key}"
        node, pointer = _followed(root, node, pointer)
    return f"{name}{SUFFIX}{pointer}"


def _complete(name: str, schema: Schema) -> Schema:
    return {"$schema": DIALECT, "$id": f"{name}{SUFFIX}", "title": schema["title"], **schema}


def _mended(node: Any, *, is_named: bool = False) -> Any:
    if isinstance(node, list):
        return [_mended(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key if is_named else _KEYWORDS.get(key, key): _mended(value, is_named=not is_named and key in _NAMED)
        for key, value in node.items()
        # Values that are data, not schemas, stay as they are.
    } | {key: node[key] for key in ("default", "enum", "const", "examples") if key in node and not is_named}


def _step(node: Schema, part: int | str) -> tuple[str, ...] | None:
    """The keys that lead from a schema to that of one of its parts; None where it does not say."""
    if isinstance(part, int):
        return ("items",) if isinstance(node.get("items"), dict) else None
    if part in node.get("properties", {}):
        return ("properties", part)
    return ("additionalProperties",) if isinstance(node.get("additionalProperties"), dict) else None


def _followed(root: Schema, node: Schema, pointer: str) -> tuple[Schema, str]:
    """The schema behind references and behind "or null"."""
    while True:
        if "$ref" in node:
            pointer = node["$ref"]
            node = root
            for key in pointer.removeprefix("#/").split("/"):
                node = node[key]
        elif "anyOf" in node and (kinds := [kind for kind in node["anyOf"] if kind != {"type": "null"}]):
            number = node["anyOf"].index(kinds[0])
            node, pointer = kinds[0], f"{pointer}/anyOf/{number}"
        else:
            return node, pointer
