"""One annotation: an annotator's citations for a question, or an annotator's judgement of an answer.

Which of the two a record is follows from its fields. Spans are half-open `[start, end)` in code points of the
document's text; a source that counts the last character in is converted where it is read.
Source: Evaluation Data Formats 2.2.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.formats.values import Moment, Name, Number, Offset, Open, Share, Text, Texts, Whole

Kind = Literal["citation", "quality"]
DIMENSIONS = ("completeness", "accuracy", "relevance", "clarity", "conciseness")


class AnnotatedCitation(Model):
    """A gold text and its place; a person's tool has to give the file, the span and the text, and may give the rest."""

    citation_id: Name | None = pydantic.Field(None, description="Unique within the file.")
    file_name: Name = pydantic.Field(description="Exact basename in the corpus.")
    page_number: Annotated[Whole, pydantic.Field(ge=1)] | None = pydantic.Field(
        None, description="1-based page on which the span starts."
    )
    start_char: Offset = pydantic.Field(description="First code point in the document's extracted text.")
    end_char: Offset = pydantic.Field(description="One past the last code point.")
    page_start: Offset | None = pydantic.Field(None, description="start_char counted from the page's first character.")
    page_end: Offset | None = pydantic.Field(None, description="end_char counted from the page's first character.")
    text: Name = pydantic.Field(description="The gold text as the source has it.")
    relevance_score: Share = pydantic.Field(1.0, description="How relevant the annotator found it.")
    annotation_confidence: Share | None = pydantic.Field(
        None, description="The annotator's confidence; of a benchmark's own, similarity of gold text and located text."
    )
    justification: Text | None = pydantic.Field(None, description="Why it is gold.")

    @pydantic.model_validator(mode="after")
    def _holds_a_character(self) -> Self:
        if self.end_char <= self.start_char:
            span = {"start": self.start_char, "end": self.end_char}
            raise PydanticCustomError("empty_span", "end_char after start_char, found [{start}, {end})", span)
        return self


class CitationAnnotation(Model):
    """One annotator's citations for one question."""

    annotation_id: Name = pydantic.Field(description="Unique among the annotator's.")
    query_id: Name = pydantic.Field(description="As in the dataset.")
    annotator_id: Name = pydantic.Field(description='"source" for spans that came with the benchmark.')
    timestamp: Moment | None = pydantic.Field(None, description="When it was made.")
    citations: tuple[AnnotatedCitation, ...] = pydantic.Field(
        description="In the source's order; none says that nothing is to be cited. Read from `citation_spans` too."
    )
    quality_checks: Texts = pydantic.Field(default_factory=dict, description="What was checked, and how it went.")
    metadata: Open = pydantic.Field(default_factory=dict, description="Time taken, tools, notes.")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _one_name(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "citation_spans" not in data:
            return data
        if "citations" in data:
            raise ValueError("either citations or citation_spans, but both are there")
        return {"citations" if key == "citation_spans" else key: value for key, value in data.items()}


class QualityScores(Model):
    """How good an answer is, by dimension. Scores lie in [0, 1]; what lies outside is found by the quality checks."""

    completeness: Number = pydantic.Field(description="Covers what was asked.")
    accuracy: Number = pydantic.Field(description="Is right.")
    relevance: Number = pydantic.Field(description="Keeps to the question.")
    clarity: Number = pydantic.Field(description="Is understood at once.")
    conciseness: Number = pydantic.Field(description="Has no more words than needed.")

    @property
    def mean(self) -> float:
        """Arithmetic mean of the five."""
        scores: list[float] = [getattr(self, dimension) for dimension in DIMENSIONS]
        return math.fsum(scores) / len(scores)


class AspectRatings(Model):
    """An answer's aspects in the annotator's words, such as `fully_correct`."""

    factual_correctness: Text | None = pydantic.Field(None, description="Whether the facts are right.")
    comprehensive_coverage: Text | None = pydantic.Field(None, description="Whether anything is left out.")
    answer_structure: Text | None = pydantic.Field(None, description="Whether it is in order.")
    language_quality: Text | None = pydantic.Field(None, description="Whether it reads well.")


class Feedback(Model):
    """What the annotator would tell the writer."""

    strengths: tuple[Text, ...] = pydantic.Field((), description="What is good.")
    weaknesses: tuple[Text, ...] = pydantic.Field((), description="What is not.")
    suggestions: tuple[Text, ...] = pydantic.Field((), description="What to do.")


class AnswerQualityAnnotation(Model):
    """One annotator's judgement of one answer."""

    annotation_id: Name = pydantic.Field(description="Unique among the annotator's.")
    query_id: Name = pydantic.Field(description="As in the dataset.")
    annotator_id: Name = pydantic.Field(description="Who judged.")
    timestamp: Moment | None = pydantic.Field(None, description="When it was made.")
    answer_text: Text = pydantic.Field(description="The answer that was judged; only judgements of one text compare.")
    quality_scores: QualityScores = pydantic.Field(description="By dimension.")
    overall_score: Number | None = pydantic.Field(None, description="Mean of the five scores.")
    aspect_ratings: AspectRatings | None = pydantic.Field(None, description="In words.")
    feedback: Feedback | None = pydantic.Field(None, description="For the writer.")
    metadata: Open = pydantic.Field(default_factory=dict, description="Time taken, expertise, state of review.")

    @property
    def citations(self) -> tuple[AnnotatedCitation, ...]:
        """None: the answer is judged as a whole. Whoever walks all annotations' citations need not ask for the kind."""
        return ()


def kind_of(annotation: Any) -> Kind | None:
    """The kind by the fields; None when they fit neither or both."""
    if isinstance(annotation, CitationAnnotation):
        return "citation"
    if isinstance(annotation, AnswerQualityAnnotation):
        return "quality"
    if not isinstance(annotation, Mapping):
        return None
    cites = not annotation.keys().isdisjoint({"citations", "citation_spans"})
    judges = not annotation.keys().isdisjoint({"quality_scores", "answer_text"})
    if cites == judges:
        return None
    return "citation" if cites else "quality"


Annotation = Annotated[
    Annotated[CitationAnnotation, pydantic.Tag("citation")]
    | Annotated[AnswerQualityAnnotation, pydantic.Tag("quality")],
    pydantic.Discriminator(
        kind_of,
        custom_error_type="unknown_kind",
        custom_error_message="`citations`, or `answer_text` with `quality_scores`, and not both",
    ),
]
"""An annotation of either kind."""
