"""`<id>_v<version>.gt.json`: the annotations of a dataset version, and the folder they are imported from.

Evaluation Data Formats 2.2 shows single annotations and leaves their container open; ours is `{schema_version,
dataset_id, version, annotations}`. A bare list and a single annotation are read too; then the file's name or the caller
names the dataset. A bad annotation never costs a good one.
Source: Evaluation Data Formats 2.2, 3.2.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import pydantic
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.errors import InputError, excerpt, other_errors
from rag_eval_pipeline.formats.fields import (
    PLAIN_NAME,
    UNVERSIONED,
    Moment,
    Name,
    Number,
    Offset,
    Open,
    Share,
    Text,
    Texts,
    VersionedName,
    Whole,
    split_version,
)
from rag_eval_pipeline.formats.model import (
    SCHEMA_VERSION,
    FileModel,
    Model,
    SchemaVersion,
    code_of,
    expectation,
    field_path,
    first_of,
    model_errors,
    parse_value,
)
from rag_eval_pipeline.storage.json_files import JSON, read_json
from rag_eval_pipeline.storage.yaml_files import YAML, read_yaml_data, resolve_scalars

Kind = Literal["citation", "quality"]
DIMENSIONS = ("completeness", "accuracy", "relevance", "clarity", "conciseness")
ENDINGS = JSON + YAML
GROUND_TRUTH_ENDINGS = tuple(f".gt{ending}" for ending in ENDINGS)

_SPAN_CODES = ("empty_span", "bad_span", "unknown_kind")
_KINDS = "`citations`, or `answer_text` with `quality_scores`, and not both"


class AnnotatedCitation(Model):
    """A gold text and its span; file, span and text are required."""

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
    relevance_score: Share = pydantic.Field(1.0, description="Relevance, as the annotator rated it.")
    annotation_confidence: Share | None = pydantic.Field(
        None, description="The annotator's confidence; for spans of the benchmark, similarity of gold and located text."
    )
    justification: Text | None = pydantic.Field(None, description="Reason why the span is gold.")

    @pydantic.model_validator(mode="after")
    def _holds_a_character(self) -> Self:
        if self.end_char <= self.start_char:
            span = {"start": self.start_char, "end": self.end_char}
            raise PydanticCustomError("empty_span", "end_char after start_char, found [{start}, {end})", span)
        return self


class CitationAnnotation(Model):
    """One annotator's citations for one question."""

    annotation_id: Name = pydantic.Field(description="Unique among the annotations of this annotator.")
    query_id: Name = pydantic.Field(description="The dataset's value.")
    annotator_id: Name = pydantic.Field(description='"source" for spans that came with the benchmark.')
    timestamp: Moment | None = pydantic.Field(None, description="Time of the annotation.")
    citations: tuple[AnnotatedCitation, ...] = pydantic.Field(
        description="Citations in the source's order; empty if nothing is to be cited. Also read from `citation_spans`."
    )
    quality_checks: Texts = pydantic.Field(default_factory=dict, description="Checks and their results.")
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
    """Quality of an answer by dimension; scores outside [0, 1] are read and reported by the checks."""

    completeness: Number = pydantic.Field(description="The answer covers the question.")
    accuracy: Number = pydantic.Field(description="The answer is right.")
    relevance: Number = pydantic.Field(description="The answer keeps to the question.")
    clarity: Number = pydantic.Field(description="The answer is easy to understand.")
    conciseness: Number = pydantic.Field(description="The answer has no more words than needed.")

    @property
    def mean(self) -> float:
        """Arithmetic mean of the five scores."""
        return math.fsum(getattr(self, dimension) for dimension in DIMENSIONS) / len(DIMENSIONS)


class AspectRatings(Model):
    """Ratings of an answer in the annotator's words, such as `fully_correct`."""

    factual_correctness: Text | None = pydantic.Field(None, description="Whether the facts are right.")
    comprehensive_coverage: Text | None = pydantic.Field(None, description="Whether anything is left out.")
    answer_structure: Text | None = pydantic.Field(None, description="Whether the answer is well ordered.")
    language_quality: Text | None = pydantic.Field(None, description="Whether the answer reads well.")


class Feedback(Model):
    """Advice to the writer of the answer."""

    strengths: tuple[Text, ...] = pydantic.Field((), description="Strengths of the answer.")
    weaknesses: tuple[Text, ...] = pydantic.Field((), description="Weaknesses of the answer.")
    suggestions: tuple[Text, ...] = pydantic.Field((), description="Suggestions for a better answer.")


class AnswerQualityAnnotation(Model):
    """One annotator's judgement of one answer."""

    annotation_id: Name = pydantic.Field(description="Unique among the annotations of this annotator.")
    query_id: Name = pydantic.Field(description="The dataset's value.")
    annotator_id: Name = pydantic.Field(description="The person who judged.")
    timestamp: Moment | None = pydantic.Field(None, description="Time of the annotation.")
    answer_text: Text = pydantic.Field(description="The judged answer; only judgements of the same text are compared.")
    quality_scores: QualityScores = pydantic.Field(description="Scores by dimension.")
    overall_score: Number | None = pydantic.Field(None, description="Mean of the five scores.")
    aspect_ratings: AspectRatings | None = pydantic.Field(None, description="Ratings in words.")
    feedback: Feedback | None = pydantic.Field(None, description="Feedback to the writer of the answer.")
    metadata: Open = pydantic.Field(default_factory=dict, description="Time taken, expertise, state of review.")

    @property
    def citations(self) -> tuple[AnnotatedCitation, ...]:
        """Always empty, so that callers can walk the citations of all annotations."""
        return ()


def kind_of(annotation: Any) -> Kind | None:
    """Return an annotation's kind by its fields; None if they fit neither or both."""
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
    pydantic.Discriminator(kind_of, custom_error_type="unknown_kind", custom_error_message=_KINDS),
]
"""An annotation of either kind."""


class GroundTruth(FileModel):
    """All annotations of a dataset version."""

    file_type: ClassVar[str] = "file of annotations"

    schema_version: SchemaVersion = pydantic.Field(SCHEMA_VERSION, description="Version of this file format.")
    dataset_id: Name = pydantic.Field(description="The dataset's value.")
    version: Name = pydantic.Field(description="The dataset's value.")
    text_sha256: Texts | None = pydantic.Field(
        None, description="SHA-256 of each document's text, by file name; offsets hold for that text only."
    )
    extractor: Text | None = pydantic.Field(
        None, description="Name and version of the program that extracted the texts."
    )
    annotations: tuple[Annotation, ...] = pydantic.Field(description="Annotations in the dataset's order.")

    @property
    def citation_annotations(self) -> tuple[CitationAnnotation, ...]:
        """Annotations of citations."""
        return tuple(a for a in self.annotations if isinstance(a, CitationAnnotation))

    @property
    def quality_annotations(self) -> tuple[AnswerQualityAnnotation, ...]:
        """Annotations of answer quality."""
        return tuple(a for a in self.annotations if isinstance(a, AnswerQualityAnnotation))

    @classmethod
    def read(
        cls, path: Path, *, dataset_id: str | None = None, version: str | None = None, end_inclusive: bool = False
    ) -> Self:
        """Return the content of a file; arguments as in `read_annotation_file`."""
        file = read_annotation_file(path, dataset_id=dataset_id, version=version, end_inclusive=end_inclusive)
        if file.errors:
            raise first_of(file.errors)
        return cls.model_validate(file.truth)


class AnnotationFile(NamedTuple):
    """The good annotations of a file in order, and one error for each of the others."""

    truth: GroundTruth
    errors: tuple[InputError, ...]


def read_annotation_file(
    path: Path,
    *,
    dataset_id: str | None = None,
    version: str | None = None,
    annotator_id: str | None = None,
    end_inclusive: bool = False,
) -> AnnotationFile:
    """Return the annotations of a file.

    Args:
        path: `.json`, `.json.gz`, `.yaml` or `.yml`.
        dataset_id: Used if neither the file's content nor its name states one.
        version: Used in the same way; else 0.0.0.
        annotator_id: Used for annotations without one.
        end_inclusive: The file's `end_char` is the last character, not the one after it.
    """
    fields, items = _container(path)
    ending = next((ending for ending in GROUND_TRUTH_ENDINGS if path.name.endswith(ending)), "")
    named = split_version(path.name.removesuffix(ending)) if ending else VersionedName("", None)
    dataset = fields.setdefault("dataset_id", named.dataset_id if named.version else dataset_id)
    if dataset is None:
        raise InputError(
            "missing_dataset_id", path, "the dataset's id", field="dataset_id",
            hint="State it in the file, name the file <dataset_id>_v<version>.gt.json, or give it when importing.",
        )  # fmt: skip
    fields.setdefault("version", named.version or version or UNVERSIONED)
    try:
        truth = GroundTruth.model_validate({**fields, "annotations": ()})
    except pydantic.ValidationError as error:
        raise _first_error(error, path) from None
    read = [_annotation(raw, path, number, annotator_id, end_inclusive) for number, raw in enumerate(items, start=1)]
    good = tuple(one for one in read if not isinstance(one, InputError))
    return AnnotationFile(
        truth.model_copy(update={"annotations": good}), tuple(one for one in read if isinstance(one, InputError))
    )


def _container(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """Return the fields around the annotations, and the annotations; both unchecked."""
    if path.name.endswith(YAML):
        value = read_yaml_data(path)
    elif path.name.endswith(JSON):
        value = read_json(path)
    else:
        raise InputError("unknown_form", path, f"a name ending in {', '.join(ENDINGS)}")
    if isinstance(value, list):
        value = {"annotations": value}
    elif isinstance(value, dict) and "annotations" not in value and "annotation_id" in value:
        value = {"annotations": [value]}
    if not isinstance(value, dict) or not isinstance(value.get("annotations"), list):
        raise InputError("bad_format", path, "an object with annotations, a list of them, or one", found=value)
    items = value.pop("annotations")
    return {key: item for key, item in value.items() if item is not None}, items


def _annotation(
    raw: Any, path: Path, number: int, annotator_id: str | None, end_inclusive: bool
) -> CitationAnnotation | AnswerQualityAnnotation | InputError:
    name = raw.get("annotation_id") if isinstance(raw, dict) else None
    shown = f"{path}, annotation {number}" if name is None else f"{path}, annotation {excerpt(str(name))}"
    kind = kind_of(raw)
    if kind is None:
        return InputError("unknown_kind", shown, _KINDS, found=sorted(raw) if isinstance(raw, dict) else raw)
    if annotator_id is not None:
        raw = {"annotator_id": annotator_id} | raw
    if end_inclusive:
        _make_half_open(raw.get("citations", raw.get("citation_spans")))
    try:
        if kind == "citation":
            return parse_value(CitationAnnotation, raw)
        return parse_value(AnswerQualityAnnotation, raw)
    except pydantic.ValidationError as error:
        return _first_error(error, shown)


def _make_half_open(citations: Any) -> None:
    """Move each end one further, in place; what is no whole number is left for validation."""
    for citation in citations if isinstance(citations, list) else ():
        for key in ("end_char", "page_end") if isinstance(citation, dict) else ():
            end = resolve_scalars(citation.get(key))
            if type(end) is int:
                citation[key] = end + 1


def _first_error(error: pydantic.ValidationError, shown: Path | str) -> InputError:
    """Return the first of pydantic's errors, which names the others; spans have separate codes."""
    first, *others = model_errors(error)
    code = first["type"] if first["type"] in _SPAN_CODES else code_of(first)
    found = None if first["type"] in ("missing", "empty_span") else first["input"]
    more = other_errors([field_path(one["loc"]) for one in others])
    field = field_path(first["loc"]) if first["loc"] else None
    return InputError(code, shown, expectation(first), field=field, found=found, hint=more)


class AnnotationImport(NamedTuple):
    """The annotations of a folder; every one that was read is either imported or refused."""

    truths: tuple[GroundTruth, ...]
    findings: tuple[InputError, ...]
    read: int
    imported: int
    refused: int

    @property
    def is_conserved(self) -> bool:
        """Whether nothing was lost between reading and merging."""
        return self.read == self.imported + self.refused


class _Source(NamedTuple):
    annotation: CitationAnnotation | AnswerQualityAnnotation
    path: Path

    @property
    def shown(self) -> str:
        return f"{self.path}, annotation {excerpt(self.annotation.annotation_id)}"


def import_annotations(folder: Path, *, dataset_id: str | None = None, version: str | None = None) -> AnnotationImport:
    """Read `ground_truth/annotations/<annotator>/` into one ground truth per dataset version.

    A folder's name is its annotator's id. Links are never followed. If one annotator annotated a question twice, equal
    annotations count once; of different ones neither is imported, because only the annotator knows which is right.
    """
    findings: list[InputError] = []
    refused: list[InputError] = []
    files: defaultdict[tuple[str, str], list[tuple[Path, GroundTruth]]] = defaultdict(list)
    read = 0
    for path in _annotation_files(folder, findings):
        try:
            file = read_annotation_file(path, dataset_id=dataset_id, version=version, annotator_id=path.parent.name)
        except InputError as error:
            findings.append(error)
            continue
        read += len(file.truth.annotations) + len(file.errors)
        refused += file.errors
        files[file.truth.dataset_id, file.truth.version].append((path, file.truth))
    merged = [_merged(files[key], findings, refused) for key in sorted(files)]
    truths = tuple(truth for truth in merged if truth.annotations)
    imported = sum(len(truth.annotations) for truth in truths)
    return AnnotationImport(truths, (*findings, *refused), read, imported, len(refused))


def _annotation_files(folder: Path, findings: list[InputError]) -> Iterator[Path]:
    for annotator in _entries(folder):
        if annotator.is_symlink() or not annotator.is_dir() or not PLAIN_NAME.fullmatch(annotator.name):
            expected = "an annotator's folder of letters, digits, dots, hyphens and underscores; no link and no file"
            findings.append(_unexpected(annotator, expected))
            continue
        for path in _entries(annotator):
            if path.is_symlink() or not path.is_file() or not path.name.endswith(ENDINGS):
                findings.append(_unexpected(path, f"a file ending in {', '.join(ENDINGS)}; no link and no folder"))
            else:
                yield path


def _entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".")) if folder.is_dir() else []


def _unexpected(path: Path, expected: str) -> InputError:
    return InputError("unexpected_entry", path, expected, hint="Nothing in it was read; move or rename it.")


def _merged(
    files: Sequence[tuple[Path, GroundTruth]], findings: list[InputError], refused: list[InputError]
) -> GroundTruth:
    """Return one dataset's annotations; what is not imported goes to the lists."""
    slots: defaultdict[tuple[object, ...], list[_Source]] = defaultdict(list)
    for path, truth in files:
        for annotation in truth.annotations:
            source = _Source(annotation, path)
            if annotation.annotator_id != path.parent.name:
                refused.append(_annotator_mismatch(source))
                continue
            # An annotator has one annotation of a question's citations, and one judgement of an answer.
            judged = annotation.answer_text if isinstance(annotation, AnswerQualityAnnotation) else None
            slots[annotation.annotator_id, annotation.query_id, judged].append(source)
    annotations = []
    for first, *others in slots.values():
        if all(other.annotation == first.annotation for other in others):
            annotations.append(first.annotation)
            refused += [_repeated(other, first, "the first is imported") for other in others]
        else:
            refused.append(_repeated(first, others[0], "neither is imported"))
            refused += [_repeated(other, first, "neither is imported") for other in others]
    extractors = {truth.extractor for _, truth in files if truth.extractor is not None}
    return GroundTruth(
        dataset_id=files[0][1].dataset_id,
        version=files[0][1].version,
        text_sha256=_digests(files, findings) or None,
        extractor=extractors.pop() if len(extractors) == 1 else None,
        annotations=tuple(annotations),
    )


def _annotator_mismatch(source: _Source) -> InputError:
    return InputError(
        "annotator_mismatch", source.shown, f"the folder's annotator {source.path.parent.name!r}", field="annotator_id",
        found=source.annotation.annotator_id, hint="Move the file to its annotator's folder, or correct the id.",
    )  # fmt: skip


def _repeated(source: _Source, other: _Source, outcome: str) -> InputError:
    return InputError(
        "duplicate_annotation", source.shown,
        f"one {kind_of(source.annotation)} annotation of query {source.annotation.query_id!r} by this annotator",
        found=other.shown, hint=f"Of the two {outcome}; remove one.",
    )  # fmt: skip


def _digests(files: Iterable[tuple[Path, GroundTruth]], findings: list[InputError]) -> dict[str, str]:
    """Return the digests of the annotated texts; two different ones of a document are a finding."""
    seen: dict[str, tuple[str, Path]] = {}
    for path, truth in files:
        for name, digest in (truth.text_sha256 or {}).items():
            known, first = seen.setdefault(name, (digest, path))
            if known != digest:
                expected = f"the text of {name!r} that {first} has"
                hint = "One of the two was annotated in another extraction: check its spans."
                findings.append(
                    InputError("different_text", path, expected, field="text_sha256", found=digest, hint=hint)
                )
    return {name: digest for name, (digest, _) in seen.items()}
