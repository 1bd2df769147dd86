"""What evaluation datasets and ground truths say of themselves, read without building their questions.

A header is cheap: a file of 100,000 questions gives its own in a twentieth of a second. That the rest of the file is
good is found out by reading it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset_files import FORMS, UNVERSIONED, read_evaluation_dataset, stem
from rag_eval_pipeline.formats.dataset_names import Claim
from rag_eval_pipeline.formats.forms import Form, present_json
from rag_eval_pipeline.formats.json_text import unpacked
from rag_eval_pipeline.formats.model import read_bytes
from rag_eval_pipeline.formats.model_files import JSON, YAML, read_yaml_value
from rag_eval_pipeline.formats.versions import parse_version, split_version

DATASET_ENDINGS = tuple(f".eval{form}" for form in FORMS)
GROUND_TRUTH_ENDINGS = tuple(f".gt{form}" for form in JSON + YAML)


@dataclass(frozen=True, slots=True)
class DatasetHeader:
    """A dataset without its questions.

    Args:
        dataset_id: As the file has it.
        name: For people; the id where the file has none.
        version: A semantic version; of an older form, the file name's or 0.0.0.
        description: Or None.
        size: Number of questions in the file.
        path: The file.
    """

    dataset_id: str
    name: str
    version: str
    description: str | None
    size: int
    path: Path

    @property
    def claim(self) -> Claim:
        """Id and version."""
        return Claim(self.path, self.dataset_id, self.version)


class _Skipped(msgspec.Struct):
    """An object of which nothing is wanted."""


class _DatasetFields(msgspec.Struct):
    dataset_id: str
    queries: list[_Skipped]
    name: str | None = None
    version: str | None = None
    description: str | None = None


class _TruthFields(msgspec.Struct):
    dataset_id: str | None = None
    version: str | None = None


def read_dataset_header(path: Path) -> DatasetHeader:
    """The header of an evaluation dataset in any form.

    Raises:
        InputError: The file's fault, `bad_format`, or `bad_version`.
    """
    if path.name.endswith(JSON):
        fields = decoded(path, _DatasetFields)
        version = fields.version or split_version(stem(path)).version or UNVERSIONED
        header = DatasetHeader(
            fields.dataset_id, fields.name or fields.dataset_id, version, fields.description, len(fields.queries), path
        )
    else:
        dataset = read_evaluation_dataset(path).dataset
        header = DatasetHeader(
            dataset.dataset_id, dataset.name, dataset.version, dataset.description, len(dataset.queries), path
        )
    if parse_version(header.version) is None:
        raise InputError(
            "bad_version", path, "a semantic version such as 1.2.0", field="version", found=header.version
        )  # fmt: skip
    return header


def read_ground_truth_claim(path: Path) -> Claim:
    """Whose annotations a file holds; where it does not say, its name does.

    Raises:
        InputError: The file's fault, or `bad_format`.
    """
    named = split_version(stem(path))
    fields = decoded(path, _TruthFields | list[_Skipped])
    if isinstance(fields, list):
        fields = _TruthFields()
    version = fields.version or named.version or UNVERSIONED
    return Claim(path, fields.dataset_id or named.dataset_id, version)


def decoded(path: Path, kind: Any, form: Form | None = None) -> Any:
    """The fields of a JSON or YAML file that a msgspec type asks for; others are passed over.

    Args:
        path: The file.
        kind: The type.
        form: What the file's version is one of; a file of an older one is brought forward first.

    Raises:
        InputError: The file's fault, that of its version, or `bad_format`.
    """
    try:
        if path.name.endswith(YAML):
            value = read_yaml_value(path)
            return msgspec.convert(form.migrated(value, path) if form and isinstance(value, dict) else value, kind)
        data = read_bytes(path)
        data = unpacked(data, path) if path.name.endswith(".gz") else data
        return msgspec.json.decode(present_json(form, data, path) if form else data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        message, _, place = str(error).partition(" - at ")
        raise InputError("bad_format", path, _lower(message), field=place.strip("`") or None) from None


def _lower(message: str) -> str:
    return (message[:1].lower() + message[1:]).removeprefix("expected ")
