"""Settings of a system whose answers were recorded."""

import pydantic

from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.systems.reading import ABSTENTION_PATTERNS, AbstentionPatterns, OffsetBase, PageBase

BENCHMARK = "{benchmark}"


class ReplaySettings(Model):
    """Where the recorded answers lie."""

    path: str = pydantic.Field(
        min_length=1,
        description="File with the answers, relative to this file; `{benchmark}` stands for the benchmark's name. "
        "JSON lines, a list in JSON, .results.json, responses.parquet or a TREC run, recognised by content.",
    )
    configuration: dict[str, str | int | float | bool | None] = pydantic.Field(
        default_factory=dict, description="What is published of the system that answered, such as model, retrieval_k."
    )
    page_base: PageBase | None = pydantic.Field(
        None, description="Number of a document's first page; by default 0 in LangChain's documents, else 1."
    )
    offset_base: OffsetBase = "document"
    abstention: AbstentionPatterns = ABSTENTION_PATTERNS
