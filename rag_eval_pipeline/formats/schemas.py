"""JSON Schemas (2020-12) of the files, generated from the models that read them.

The committed ones in `schemas/*.schema.json` are part of the package, for other people's tools. The models are faster
and also find what a schema cannot express (repeated ids, spans that end before they start, a newer schema version).
"""

import functools
import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pydantic

from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.train_json import TrainRow
from rag_eval_pipeline.storage.atomic_files import atomic_write

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
SUFFIX = ".schema.json"


def model_schema(model: type[pydantic.BaseModel], title: str) -> Schema:
    """Return the schema of what a model reads."""
    return {**model.model_json_schema(mode="validation"), "title": title}


SCHEMAS: dict[str, Callable[[], Schema]] = {
    "evaluation_dataset": lambda: model_schema(EvaluationDataset, "Evaluation Dataset"),
    "evaluation_results": lambda: model_schema(EvaluationResults, "Evaluation Results"),
    "ground_truth": lambda: model_schema(GroundTruth, "Ground Truth"),
    "train": lambda: {**msgspec.json.schema(list[TrainRow]), "title": "train.json"},
}


@functools.cache
def json_schema(name: str) -> Schema:
    """Return one of the committed schemas, such as `evaluation_dataset`; callers do not change it."""
    schema: Schema = json.loads((schema_folder() / f"{name}{SUFFIX}").read_bytes())
    return schema


def write_schemas(folder: Path) -> list[Path]:
    """Publish the schemas as `<name>.schema.json` and return the files; equal models give equal bytes."""
    paths = []
    for name, make in sorted(SCHEMAS.items()):
        schema = make()
        complete = {"$schema": DIALECT, "$id": f"{name}{SUFFIX}", "title": schema["title"], **schema}
        path = folder / f"{name}{SUFFIX}"
        atomic_write(path, json.dumps(complete, indent=2, ensure_ascii=False).encode() + b"\n")
        paths.append(path)
    return paths


def schema_folder() -> Path:
    """Return the folder of the committed schemas."""
    return Path(str(resources.files("rag_eval_pipeline.formats") / "schemas"))
