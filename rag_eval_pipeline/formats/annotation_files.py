"""One file of annotations, read annotation by annotation: a bad one never costs a good one.

The container is `{schema_version, dataset_id, version, annotations}`; a bare list of annotations and a single one are
read too. A fault names the file, the annotation's id, and the field with the citation's index.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.annotation_records import AnswerQualityAnnotation, CitationAnnotation, kind_of
from rag_eval_pipeline.formats.forms import Form
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, SchemaVersion, check_version, code_of, expectation, place
from rag_eval_pipeline.formats.plain_files import read_plain
from rag_eval_pipeline.formats.values import Name, Text, Texts
from rag_eval_pipeline.formats.yaml_reader import plain_value

UNVERSIONED = "0.0.0"  # of annotations whose dataset version nobody states
SPAN_CODES = ("empty_span", "bad_span", "unknown_kind")
_FILE_NAME = re.compile(
    r"(?P<id>.+)_v(?P<version>\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+?)?(?:\+[0-9A-Za-z.-]+?)?)\.gt\.(?:json|json\.gz|ya?ml)"
)


@dataclass(frozen=True, slots=True)
class AnnotationFile:
    """What one file of annotations holds, good and bad.

    Args:
        dataset_id: As the file states it, else its name, else the caller.
        version: Likewise.
        text_sha256: As in `GroundTruth`.
        extractor: As in `GroundTruth`.
        annotations: The good ones in order.
        faults: One for each of the others, with the annotation's id and the citation's index.
    """

    dataset_id: str
    version: str
    text_sha256: dict[str, str] | None
    extractor: str | None
    annotations: tuple[CitationAnnotation | AnswerQualityAnnotation, ...]
    faults: tuple[InputError, ...]


ANNOTATIONS = Form("file of annotations")


class _Container(pydantic.BaseModel):
    """The fields around the annotations, in whatever state those are."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    schema_version: SchemaVersion = SCHEMA_VERSION
    dataset_id: Name | None = None
    version: Name | None = None
    text_sha256: Texts | None = None
    extractor: Text | None = None
    annotations: list[Any]

    @pydantic.field_validator("schema_version")
    @classmethod
    def _is_read(cls, version: str) -> str:
        check_version(ANNOTATIONS, version)
        return version


class _Named(NamedTuple):
    """What a file's name says."""

    dataset_id: str | None
    version: str | None


def read_annotation_file(
    path: Path,
    *,
    dataset_id: str | None = None,
    version: str | None = None,
    annotator_id: str | None = None,
    end_inclusive: bool = False,
) -> AnnotationFile:
    """The annotations of a file, each good one read whatever the others are.

    Args:
        path: `.json`, `.json.gz`, `.yaml` or `.yml`.
        dataset_id: As in `GroundTruth.read`.
        version: As in `GroundTruth.read`; 0.0.0 when nobody states one.
        annotator_id: Of annotations that do not say who made them.
        end_inclusive: As in `GroundTruth.read`.

    Raises:
        InputError: Nothing can be read: what `read_plain` raises, `bad_format`, `bad_version`, `newer_schema`,
            `missing_dataset_id`.
    """
    container = _container(read_plain(path), path)
    match = _FILE_NAME.fullmatch(path.name)
    named = _Named(match["id"], match["version"]) if match else _Named(None, None)
    dataset = container.dataset_id or named.dataset_id or dataset_id
    if dataset is None:
        raise InputError(
            "missing_dataset_id", path, "the dataset's id", field="dataset_id",
            hint="State it in the file, name the file <dataset_id>_v<version>.gt.json, or give it when importing.",
        )  # fmt: skip
    annotations: list[CitationAnnotation | AnswerQualityAnnotation] = []
    faults: list[InputError] = []
    for number, raw in enumerate(container.annotations, start=1):
        read = _annotation(raw, path, number, annotator_id, end_inclusive)
        if isinstance(read, InputError):
            faults.append(read)
        else:
            annotations.append(read)
    return AnnotationFile(
        dataset,
        container.version or named.version or version or UNVERSIONED,
        container.text_sha256,
        container.extractor,
        tuple(annotations),
        tuple(faults),
    )


def _container(value: Any, path: Path) -> _Container:
    """The container around the annotations; one is made for a bare list or a single annotation."""
    if isinstance(value, list):
        value = {"annotations": value}
    elif isinstance(value, dict) and "annotations" not in value and "annotation_id" in value:
        value = {"annotations": [value]}
    elif not isinstance(value, dict):
        raise InputError("bad_format", path, "an object with annotations, a list of them, or one", found=value)
    try:
        return _Container.model_validate(value)
    except pydantic.ValidationError as error:
        raise _fault(error, path) from None


def _annotation(
    raw: Any, path: Path, number: int, annotator_id: str | None, end_inclusive: bool
) -> CitationAnnotation | AnswerQualityAnnotation | InputError:
    """One annotation, or what is wrong with it."""
    named = raw.get("annotation_id") if isinstance(raw, dict) else None
    shown = f"{path}, annotation {number}" if named is None else f"{path}, annotation {str(named)!r}"
    kind = kind_of(raw)
    if kind is None:
        expected = "`citations`, or `answer_text` with `quality_scores`, and not both"
        found = sorted(raw) if isinstance(raw, dict) else raw
        return InputError("unknown_kind", shown, expected, found=found)
    if annotator_id is not None:
        raw = {"annotator_id": annotator_id} | raw
    if end_inclusive:
        raw = {key: _half_open(item) if key in ("citations", "citation_spans") else item for key, item in raw.items()}
    try:
        model = CitationAnnotation if kind == "citation" else AnswerQualityAnnotation
        return model.model_validate(raw)
    except pydantic.ValidationError as error:
        return _fault(error, shown)


def _half_open(citations: Any) -> Any:
    """The citations with each end moved behind its last character; what is no whole number is left for validation."""
    if not isinstance(citations, list):
        return citations
    return [
        {key: _next(item) if key in ("end_char", "page_end") else item for key, item in citation.items()}
        if isinstance(citation, dict)
        else citation
        for citation in citations
    ]


def _next(value: Any) -> Any:
    number = plain_value(value)
    return number + 1 if type(number) is int else value


def _fault(error: pydantic.ValidationError, shown: Path | str) -> InputError:
    """The first of pydantic's findings, with the others counted; spans have codes of their own."""
    first, *others = error.errors()
    code = first["type"] if first["type"] in SPAN_CODES else code_of(first)
    found = None if first["type"] in ("missing", "empty_span") else first["input"]
    more = f"There are {len(others)} more in it." if others else None
    return InputError(code, shown, expectation(first), field=_field(first["loc"]), found=found, hint=more)


def _field(location: Sequence[int | str]) -> str | None:
    return place(location) if location else None
