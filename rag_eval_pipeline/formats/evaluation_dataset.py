"""`<id>_v<version>.eval.json`: questions with their relevant documents, accepted answers and expected citations.

The same stands in `.eval.json.gz`, `.eval.yaml`, `.eval.yml` and `.eval.csv`; how, is in `dataset_files`.
Source: Evaluation Data Formats 2.1.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import pydantic
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.formats.citations import CitationSpan
from rag_eval_pipeline.formats.forms import Form
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, JsonObject, JsonValue, Model, SchemaVersion
from rag_eval_pipeline.formats.versions import SemanticVersion

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
    metadata: JsonObject = pydantic.Field(
        default_factory=dict,
        description="`is_impossible`, `answers` (all accepted), `expected_answers` (gold texts that a judge matches "
        "with what was retrieved), `source_id`, `hops`, and the source's own.",
    )

    @property
    def is_impossible(self) -> bool:
        """The corpus has no answer."""
        return self.metadata.get("is_impossible") is True

    @property
    def accepted_answers(self) -> list[str]:
        """All answers that count as right; empty when impossible."""
        if self.is_impossible:
            return []
        answers = self.metadata.get("answers")
        if isinstance(answers, list) and answers:
            return [str(answer) for answer in answers]
        return [] if self.ground_truth_answer is None else [self.ground_truth_answer]

    @property
    def expected_answers(self) -> list[str]:
        """Gold texts for a judge where the relevant documents have no ids; of Evret's datasets."""
        texts = self.metadata.get("expected_answers")
        return [str(text) for text in texts] if isinstance(texts, list) else []


class SourceDocument(Model):
    """A document, inline."""

    document_id: str = pydantic.Field(min_length=1, description="Exact basename in the corpus.")
    content: str = pydantic.Field(description="Full text.")
    title: str | None = pydantic.Field(None, description="Title.")
    file_path: str | None = pydantic.Field(None, description="Where the document lies.")
    metadata: JsonObject = pydantic.Field(default_factory=dict, description="Author, date, ...")


class DatasetMetadata(pydantic.BaseModel):
    """About the dataset; open to more keys."""

    model_config = pydantic.ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, JsonValue]

    domain: str | None = pydantic.Field(None, description="Knowledge domain.")
    language: str | None = pydantic.Field(None, description="ISO 639-1.")
    size: int | None = pydantic.Field(None, description="Number of queries.")
    avg_query_length: float | None = pydantic.Field(None, description="Mean length of a query in code points.")
    source: str | None = pydantic.Field(None, description="Where the dataset comes from.")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        # A null says what absence says, and is not written.
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data


class EvaluationDataset(FileModel):
    """An evaluation dataset."""

    form: ClassVar[Form] = Form("evaluation dataset")

    schema_version: SchemaVersion = pydantic.Field(SCHEMA_VERSION, description="Version of this file's form.")
    dataset_id: str = pydantic.Field(min_length=1, description="Unique id of the dataset, without its version.")
    name: str = pydantic.Field(min_length=1, description="For people.")
    version: SemanticVersion = pydantic.Field(description="Semantic version.")
    description: str | None = pydantic.Field(None, description="What the dataset is.")
    created_at: pydantic.AwareDatetime | None = pydantic.Field(None, description="Release of the source, UTC.")
    metadata: DatasetMetadata = pydantic.Field(DatasetMetadata(), description="About the dataset.")
    queries: tuple[EvaluationQuery, ...] = pydantic.Field(description="The questions.")
    documents: tuple[SourceDocument, ...] | None = pydantic.Field(None, description="Left out unless asked for inline.")

    @pydantic.model_validator(mode="after")
    def _unique_ids(self) -> Self:
        _once("query", (query.query_id for query in self.queries))
        _once("document", (document.document_id for document in self.documents or ()))
        return self

    # The readers and writers build on this model, so they are imported where they are called.

    @classmethod
    def read(cls, path: Path) -> Self:
        """The dataset of an evaluation dataset file in any form, recognised by the name's ending.

        A file of the older form, without name and version, is read with both filled in.

        Raises:
            InputError: What `read_evaluation_dataset` raises.
        """
        from rag_eval_pipeline.formats.dataset_files import read_evaluation_dataset

        return cls.model_validate(read_evaluation_dataset(path).dataset)

    @classmethod
    def from_json(cls, path: Path | str) -> Self:
        """The dataset of a JSON file: an evaluation dataset where it has a `dataset_id`, else Evret's.

        Raises:
            InputError: What `read_evaluation_dataset` or `read_evret_json` raises.
        """
        from rag_eval_pipeline.formats.dataset_files import is_evaluation_dataset
        from rag_eval_pipeline.formats.evret import read_evret_json

        path = Path(path)
        if is_evaluation_dataset(path):
            return cls.read(path)
        return cls.model_validate(read_evret_json(path).dataset)

    @classmethod
    def from_csv(cls, path: Path | str) -> Self:
        """The dataset of a CSV file: an evaluation dataset where it has a column `dataset_id`, else Evret's.

        Raises:
            InputError: What `read_evaluation_dataset` or `read_evret_csv` raises.
        """
        from rag_eval_pipeline.formats.dataset_files import is_evaluation_dataset
        from rag_eval_pipeline.formats.evret import read_evret_csv

        path = Path(path)
        if is_evaluation_dataset(path):
            return cls.read(path)
        return cls.model_validate(read_evret_csv(path).dataset)

    def write(self, path: Path) -> None:
        """Publishes the file atomically in the form that its name asks for; equal content gives equal bytes.

        Raises:
            InputError: `unknown_form`.
        """
        from rag_eval_pipeline.formats.dataset_files import write_evaluation_dataset

        write_evaluation_dataset(self, path)


def _once(what: str, ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            raise PydanticCustomError(
                "duplicate_id", "{what} ids without repeats, but {id} stands twice", {"what": what, "id": repr(one)}
            )
        seen.add(one)
