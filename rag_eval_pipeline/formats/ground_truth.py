"""`<id>_v<version>.gt.json`: the annotations of a dataset version, of both kinds.

Evaluation Data Formats 2.2 shows single annotations and leaves their container open; ours is `{schema_version,
dataset_id, version, annotations}`. A bare list of annotations and a single one are read too: then the
file's name or the caller says whose they are. `.gt.yaml` and `.gt.json.gz` hold the same.
"""

from pathlib import Path
from typing import ClassVar, Self

import pydantic

from rag_eval_pipeline.formats.annotation_files import ANNOTATIONS, read_annotation_file
from rag_eval_pipeline.formats.annotation_records import (
    AnnotatedCitation,
    Annotation,
    AnswerQualityAnnotation,
    CitationAnnotation,
)
from rag_eval_pipeline.formats.forms import Form
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, SchemaVersion
from rag_eval_pipeline.formats.model_files import write_file
from rag_eval_pipeline.formats.values import Name, Text, Texts

__all__ = ["AnnotatedCitation", "AnswerQualityAnnotation", "CitationAnnotation", "GroundTruth"]


class GroundTruth(FileModel):
    """All annotations of a dataset version."""

    form: ClassVar[Form] = ANNOTATIONS

    schema_version: SchemaVersion = pydantic.Field(SCHEMA_VERSION, description="Version of this file's form.")
    dataset_id: Name = pydantic.Field(description="As in the dataset.")
    version: Name = pydantic.Field(description="As in the dataset.")
    text_sha256: Texts | None = pydantic.Field(
        None, description="SHA-256 of each document's text, by file name: offsets mean something in that text only."
    )
    extractor: Text | None = pydantic.Field(None, description="What extracted those texts, with its version.")
    annotations: tuple[Annotation, ...] = pydantic.Field(description="In the dataset's order.")

    @property
    def citation_annotations(self) -> tuple[CitationAnnotation, ...]:
        """Those that cite."""
        return tuple(a for a in self.annotations if isinstance(a, CitationAnnotation))

    @property
    def quality_annotations(self) -> tuple[AnswerQualityAnnotation, ...]:
        """Those that judge an answer."""
        return tuple(a for a in self.annotations if isinstance(a, AnswerQualityAnnotation))

    @classmethod
    def read(
        cls, path: Path, *, dataset_id: str | None = None, version: str | None = None, end_inclusive: bool = False
    ) -> Self:
        """The file's content.

        Args:
            path: The file.
            dataset_id: Whose annotations these are, where neither the file nor its name says.
            version: Of that dataset, likewise; else 0.0.0.
            end_inclusive: The file's `end_char` is the last character, not the one behind it.

        Raises:
            InputError: What `read_annotation_file` raises, and its first fault with the number of the others.
        """
        file = read_annotation_file(path, dataset_id=dataset_id, version=version, end_inclusive=end_inclusive)
        if file.faults:
            first, *others = file.faults
            if others:
                first.hint = " ".join(filter(None, (first.hint, f"There are {len(others)} more.")))
            raise first
        return cls(
            dataset_id=file.dataset_id,
            version=file.version,
            text_sha256=file.text_sha256,
            extractor=file.extractor,
            annotations=file.annotations,
        )

    def write(self, path: Path) -> None:
        """Publishes the file atomically, in the form of its name's ending; equal content gives equal bytes.

        Raises:
            InputError: `unknown_form`: another name than `.json`, `.json.gz` or `.yaml`.
        """
        write_file(self, path)
