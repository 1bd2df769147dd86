"""`<id>_v<version>.eval.json`: questions with their relevant documents, accepted answers and expected citations.

Source: Evaluation Data Formats 2.1.
"""

from pathlib import Path
from typing import Any, Literal, Self

import pydantic

from rag_eval_pipeline.formats.citations import CitationSpan
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, Model

QueryType = Literal["factual", "analytical", "comparative", "temporal"]
Difficulty = Literal["easy", "medium", "hard"]


class EvaluationQuery(Model):
    """One question of an evaluation."""

    query_id: str = pydantic.Field(min_length=1, description="Unique; str(id) of train.json.")
    query_text: str = pydantic.Field(min_length=1, description="The question.")
    relevant_documents: tuple[str, ...] = pydantic.Field(description="Ids of the documents that hold the answer.")
    query_type: QueryType | None = pydantic.Field(None, description="Kind of question.")
    difficulty: Difficulty | None = pydantic.Field(None, description="As the source states it.")
    ground_truth_answer: str | None = pydantic.Field(None, description="The expected answer; absent when impossible.")
    citations: tuple[CitationSpan, ...] = pydantic.Field((), description="Where the corpus has the gold texts.")
    metadata: dict[str, Any] = pydantic.Field(
        default_factory=dict,
        description="`is_impossible`, `answers` (all accepted), `source_id`, `hops`, and the source's own.",
    )

    @property
    def is_impossible(self) -> bool:
        """The corpus has no answer."""
        return bool(self.metadata.get("is_impossible", False))

    @property
    def accepted_answers(self) -> list[str]:
        """All answers that count as right; empty when impossible."""
        if self.is_impossible:
            return []
        answers = self.metadata.get("answers")
        if isinstance(answers, list) and answers:
            return [str(answer) for answer in answers]
        return [] if self.ground_truth_answer is None else [self.ground_truth_answer]


class SourceDocument(Model):
    """A document, inline."""

    document_id: str = pydantic.Field(min_length=1, description="Exact basename in the corpus.")
    content: str = pydantic.Field(description="Full text.")
    title: str | None = pydantic.Field(None, description="Title.")
    file_path: str | None = pydantic.Field(None, description="Where the document lies.")
    metadata: dict[str, Any] = pydantic.Field(default_factory=dict, description="Author, date, ...")


class DatasetMetadata(pydantic.BaseModel):
    """About the dataset; open to more keys."""

    model_config = pydantic.ConfigDict(frozen=True, extra="allow")

    domain: str | None = pydantic.Field(None, description="Knowledge domain.")
    language: str | None = pydantic.Field(None, description="ISO 639-1.")
    size: int | None = pydantic.Field(None, description="Number of queries.")
    avg_query_length: float | None = pydantic.Field(None, description="Mean length of a query in code points.")
    source: str | None = pydantic.Field(None, description="Where the dataset comes from.")


class EvaluationDataset(FileModel):
    """An evaluation dataset."""

    schema_version: str = pydantic.Field(SCHEMA_VERSION, description="Version of this file's form.")
    dataset_id: str = pydantic.Field(min_length=1, description="Unique id of the dataset, without its version.")
    name: str = pydantic.Field(min_length=1, description="For people.")
    version: str = pydantic.Field(min_length=1, description="Semantic version.")
    description: str | None = pydantic.Field(None, description="What the dataset is.")
    created_at: pydantic.AwareDatetime | None = pydantic.Field(None, description="Release of the source, UTC.")
    metadata: DatasetMetadata = pydantic.Field(DatasetMetadata(), description="About the dataset.")
    queries: tuple[EvaluationQuery, ...] = pydantic.Field(description="The questions.")
    documents: tuple[SourceDocument, ...] | None = pydantic.Field(None, description="Left out unless asked for inline.")

    @pydantic.model_validator(mode="after")
    def _unique_ids(self) -> Self:
        seen: set[str] = set()
        for query in self.queries:
            if query.query_id in seen:
                raise ValueError(f"query ids without repeats, but {query.query_id!r} stands twice")
            seen.add(query.query_id)
        return self

    @classmethod
    def from_json(cls, path: Path) -> Self:
        """An alias of `read`, by the name that users of Evret know."""
        return cls.read(path)
