"""`<id>_v<version>.gt.json`: annotations, one per question with located gold texts.

Source: Evaluation Data Formats 2.2 for the annotations; their container, which it leaves open, is ours.
"""

from typing import Any

import pydantic

from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, Model


class AnnotatedCitation(Model):
    """A gold text and its place."""

    citation_id: str = pydantic.Field(description="Unique within the file.")
    file_name: str = pydantic.Field(description="Exact basename in the corpus.")
    page_number: int = pydantic.Field(ge=1, description="1-based page on which the span starts.")
    start_char: int = pydantic.Field(ge=0, description="First code point in the document's extracted text.")
    end_char: int = pydantic.Field(description="One past the last code point.")
    page_start: int = pydantic.Field(ge=0, description="start_char counted from the page's first character.")
    page_end: int = pydantic.Field(ge=0, description="end_char counted from the page's first character.")
    text: str = pydantic.Field(description="The gold text as the source has it.")
    relevance_score: float = pydantic.Field(1.0, ge=0, le=1, description="How relevant the annotator found it.")
    annotation_confidence: float = pydantic.Field(ge=0, le=1, description="Similarity of gold text and located text.")
    justification: str | None = pydantic.Field(None, description="Why it is gold.")


class CitationAnnotation(Model):
    """One annotator's citations for one question."""

    annotation_id: str = pydantic.Field(description="Unique within the file.")
    query_id: str = pydantic.Field(description="As in the dataset.")
    annotator_id: str = pydantic.Field(description='"source" for spans that came with the benchmark.')
    timestamp: pydantic.AwareDatetime | None = pydantic.Field(None, description="When it was made.")
    citations: tuple[AnnotatedCitation, ...] = pydantic.Field(description="In the source's order.")
    quality_checks: dict[str, str] = pydantic.Field(
        default_factory=dict, description="What was checked, and how it went."
    )
    metadata: dict[str, Any] = pydantic.Field(default_factory=dict, description="Tools, notes.")


class GroundTruth(FileModel):
    """All annotations of a dataset version."""

    schema_version: str = pydantic.Field(SCHEMA_VERSION, description="Version of this file's form.")
    dataset_id: str = pydantic.Field(description="As in the dataset.")
    version: str = pydantic.Field(description="As in the dataset.")
    annotations: tuple[CitationAnnotation, ...] = pydantic.Field(description="In the dataset's order.")
