"""Evaluation datasets from files and back: `.eval.json`, `.eval.json.gz`, `.eval.yaml`, `.eval.yml`, `.eval.csv`.

The form follows from the name's ending alone. What is read equals what was written, in every form.
Source: Evaluation Data Formats 3.1, 3.3, 3.4.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.csv_table import read_csv_table
from rag_eval_pipeline.formats.dataset_csv import DATASET_ID, dataset_csv, dataset_value
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset
from rag_eval_pipeline.formats.findings import Finding, finding, model_findings
from rag_eval_pipeline.formats.forms import present_json
from rag_eval_pipeline.formats.json_text import read_json_text
from rag_eval_pipeline.formats.model_files import JSON, YAML, parse_json, parse_value, read_yaml_value, write_file
from rag_eval_pipeline.formats.versions import split_version
from rag_eval_pipeline.storage.atomic import atomic_write

CSV = (".csv",)
FORMS = JSON + YAML + CSV
UNVERSIONED = "0.0.0"  # of a dataset of which nobody states a version


class ReadDataset(NamedTuple):
    """A dataset, and what its reader has to say about its file."""

    dataset: EvaluationDataset
    findings: tuple[Finding, ...]


def read_evaluation_dataset(path: Path) -> ReadDataset:
    """The dataset of a file; the older form, which lacks name or version, is filled in and named as a finding.

    Raises:
        InputError: The file's fault (`missing_file`, `unreadable_file`, `bad_gzip`, `bad_json`, `bad_yaml`, `bad_csv`,
            `bad_encoding`, `unknown_form`), or the first of the content's (`bad_format`, `bad_version`,
            `duplicate_id`, `newer_schema`), with the number of the others.
    """
    try:
        return parse_evaluation_dataset(path)
    except pydantic.ValidationError as error:
        first, *others = dataset_findings(path, error)
        raise first.raised(len(others)) from error


def parse_evaluation_dataset(path: Path) -> ReadDataset:
    """The same, for callers who want every fault.

    Raises:
        InputError: The file's fault.
        pydantic.ValidationError: The content's.
    """
    form = EvaluationDataset.form
    if path.name.endswith(JSON):
        text = present_json(form, read_json_text(path), path)
        try:
            return ReadDataset(parse_json(EvaluationDataset, text), ())
        except pydantic.ValidationError as error:
            absent = {fault["loc"] for fault in error.errors(include_url=False) if fault["type"] == "missing"}
            if absent.isdisjoint({("name",), ("version",)}):
                raise
        value = json.loads(text)
    elif path.name.endswith(YAML):
        value = read_yaml_value(path)
        value = form.migrated(value, path) if isinstance(value, dict) else value
    elif path.name.endswith(CSV):
        value = dataset_value(read_csv_table(path), path)
    else:
        raise InputError("unknown_form", path, f"a name ending in {', '.join(FORMS)}")
    findings = _fill(value, path)
    return ReadDataset(parse_value(EvaluationDataset, value), findings)


def dataset_findings(path: Path, error: pydantic.ValidationError) -> list[Finding]:
    """Every error in a dataset's content; those of a CSV by row and column."""
    rows_of = "queries" if path.name.endswith(CSV) else None
    return model_findings(path, error, schema="evaluation_dataset", rows_of=rows_of)


def write_evaluation_dataset(dataset: EvaluationDataset, path: Path) -> None:
    """Publishes a dataset atomically; JSON in gzip is compact.

    Raises:
        InputError: `unknown_form`.
    """
    if path.name.endswith(CSV):
        atomic_write(path, dataset_csv(dataset))
    elif path.name.endswith(FORMS):
        write_file(dataset, path)
    else:
        raise InputError("unknown_form", path, f"a name ending in {', '.join(FORMS)}")


def is_evaluation_dataset(path: Path) -> bool:
    """Whether a JSON or CSV file is one of these by its content, and not Evret's: it has a `dataset_id`.

    Raises:
        InputError: The file's fault.
    """
    if path.name.endswith(CSV):
        return DATASET_ID in read_csv_table(path).columns
    return has_key(read_json_text(path), "dataset_id")


def has_key(text: bytes, key: str) -> bool:
    """Whether JSON text is an object with a key, found without building anything else."""
    probe = msgspec.defstruct("Probe", [("found", Any, msgspec.UNSET)], rename={"found": key})
    try:
        return msgspec.json.decode(text, type=probe).found is not msgspec.UNSET  # type: ignore[attr-defined]
    except msgspec.ValidationError:  # another kind of value
        return False


def _fill(value: Any, path: Path) -> tuple[Finding, ...]:
    """Puts name and version where they are absent, in place.

    Source: Evaluation Data Formats 3.3, whose schema asks for neither.
    """
    if not isinstance(value, dict) or not isinstance(value.get("dataset_id"), str):
        return ()
    absent = [key for key in ("name", "version") if key not in value]
    if not absent:
        return ()
    value.setdefault("name", value["dataset_id"])
    value.setdefault("version", split_version(stem(path)).version or UNVERSIONED)
    filled = {key: str(value[key]) for key in absent}
    hint = f"Read as {', '.join(f'{key} {text!r}' for key, text in filled.items())}; state them in the file."
    return (finding("warning", "older_form", path, f"the fields {' and '.join(absent)}", hint=hint),)


def stem(path: Path) -> str:
    """The file's name without what says its form: `x_v1.0.0` of `x_v1.0.0.eval.json.gz`."""
    name = path.name
    for ending in FORMS:
        if name.endswith(ending):
            name = name.removesuffix(ending)
            break
    for kind in (".eval", ".gt", ".results", ".evret"):
        if name.endswith(kind):
            return name.removesuffix(kind) or path.name
    return name or path.name
