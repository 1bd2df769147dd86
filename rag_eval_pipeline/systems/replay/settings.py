"""Settings of a system whose answers were recorded."""

import pydantic

from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.systems.reading import AbstentionPatterns, EmptyAnswers, OffsetBase, PageBase

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
    page_base: PageBase = None
    offset_base: OffsetBase = "document"
    abstention: AbstentionPatterns = None
    empty_answer: EmptyAnswers | None = pydantic.Field(
        None,
        description="What an empty answer is, unless the recording states that the system abstained; by default "
        "abstained in SQuAD's predictions, where it is how a system abstains, else error.",
    )
