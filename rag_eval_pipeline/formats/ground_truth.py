"""`<id>_v<version>.gt.json`: the annotations of a dataset version, and the folder they are imported from.

An annotation holds one annotator's citations for a question, or one annotator's judgement of an answer; its
fields decide which. Spans are half-open `[start, end)` in code points of the document's text.

Evaluation Data Formats 2.2 shows single annotations and leaves their container open; ours is `{schema_version,
dataset_id, version, annotations}`. A bare list and a single annotation are read too; then the file's name or the caller
names the dataset. A bad annotation never costs a good one: its error names the file, the annotation's id, and the
field with the citation's index.
Source: Evaluation Data Formats 2.2, 3.2.
"""

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import pydantic
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.errors import InputError
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
from rag_eval_pipeline.formats.io import JSON, read_json
from rag_eval_pipeline.formats.model import (
    SCHEMA_VERSION,
    FileModel,
    Model,
    SchemaVersion,
    check_schema_version,
    code_of,
    expectation,
    field_path,
    model_errors,
    parse_value,
)
from rag_eval_pipeline.formats.yaml import YAML, read_yaml_data, resolve_scalars

Kind = Literal["citation", "quality"]
DIMENSIONS = ("completeness", "accuracy", "relevance", "clarity", "conciseness")
ENDINGS = JSON + YAML
GROUND_TRUTH_ENDINGS = tuple(f".gt{ending}" for ending in ENDINGS)
FILE_TYPE = "file of annotations"

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
        description="In the source's order; none means that nothing is to be cited. Read from `citation_spans` too."
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
    """Quality of an answer by dimension; scores outside [0, 1] are read and reported by the checks."""

    completeness: Number = pydantic.Field(description="Covers the question.")
    accuracy: Number = pydantic.Field(description="Is right.")
    relevance: Number = pydantic.Field(description="Keeps to the question.")
    clarity: Number = pydantic.Field(description="Is understood at once.")
    conciseness: Number = pydantic.Field(description="Has no more words than needed.")

    @property
    def mean(self) -> float:
        """Arithmetic mean of the five scores."""
        scores: list[float] = [getattr(self, dimension) for dimension in DIMENSIONS]
        return math.fsum(scores) / len(scores)


class AspectRatings(Model):
    """An answer's aspects in the annotator's words, such as `fully_correct`."""

    factual_correctness: Text | None = pydantic.Field(None, description="Whether the facts are right.")
    comprehensive_coverage: Text | None = pydantic.Field(None, description="Whether anything is left out.")
    answer_structure: Text | None = pydantic.Field(None, description="Whether it is in order.")
    language_quality: Text | None = pydantic.Field(None, description="Whether it reads well.")


class Feedback(Model):
    """Advice to the writer of the answer."""

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

    file_type: ClassVar[str] = FILE_TYPE

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
        """Return the annotations that cite."""
        return tuple(a for a in self.annotations if isinstance(a, CitationAnnotation))

    @property
    def quality_annotations(self) -> tuple[AnswerQualityAnnotation, ...]:
        """Return the annotations that judge an answer."""
        return tuple(a for a in self.annotations if isinstance(a, AnswerQualityAnnotation))

    @classmethod
    def read(
        cls, path: Path, *, dataset_id: str | None = None, version: str | None = None, end_inclusive: bool = False
    ) -> Self:
        """Return the content of a file; arguments as in `read_annotation_file`."""
        file = read_annotation_file(path, dataset_id=dataset_id, version=version, end_inclusive=end_inclusive)
        if file.errors:
            first, *others = file.errors
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


@dataclass(frozen=True, slots=True)
class AnnotationFile:
    """The good annotations of a file in order, and one error for each of the others."""

    dataset_id: str
    version: str
    text_sha256: dict[str, str] | None
    extractor: str | None
    annotations: tuple[CitationAnnotation | AnswerQualityAnnotation, ...]
    errors: tuple[InputError, ...]


class _Container(pydantic.BaseModel):
    """The fields around the annotations, which are not checked yet."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    schema_version: SchemaVersion = SCHEMA_VERSION
    dataset_id: Name | None = None
    version: Name | None = None
    text_sha256: Texts | None = None
    extractor: Text | None = None
    annotations: list[Any]

    @pydantic.field_validator("schema_version")
    @classmethod
    def _is_current(cls, version: str) -> str:
        return check_schema_version(version, FILE_TYPE, SCHEMA_VERSION)


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
        dataset_id: Of a file that names no dataset, neither inside nor by its name.
        version: Of that dataset, likewise; else 0.0.0.
        annotator_id: Of annotations without one.
        end_inclusive: The file's `end_char` is the last character, not the one after it.

    Raises:
        InputError: The file cannot be read, `unknown_form`, `bad_format`, `bad_version`, `newer_schema`,
            `missing_dataset_id`.
    """
    container = _container(path)
    ending = next((ending for ending in GROUND_TRUTH_ENDINGS if path.name.endswith(ending)), "")
    named = split_version(path.name.removesuffix(ending)) if ending else VersionedName("", None)
    dataset = container.dataset_id or (named.dataset_id if named.version else dataset_id)
    if dataset is None:
        raise InputError(
            "missing_dataset_id", path, "the dataset's id", field="dataset_id",
            hint="State it in the file, name the file <dataset_id>_v<version>.gt.json, or give it when importing.",
        )  # fmt: skip
    annotations: list[CitationAnnotation | AnswerQualityAnnotation] = []
    errors: list[InputError] = []
    for number, raw in enumerate(container.annotations, start=1):
        read = _annotation(raw, path, number, annotator_id, end_inclusive)
        if isinstance(read, InputError):
            errors.append(read)
        else:
            annotations.append(read)
    return AnnotationFile(
        dataset,
        container.version or named.version or version or UNVERSIONED,
        container.text_sha256,
        container.extractor,
        tuple(annotations),
        tuple(errors),
    )


def _container(path: Path) -> _Container:
    """Return the container of the annotations; one is made for a bare list or a single annotation."""
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
    elif not isinstance(value, dict):
        raise InputError("bad_format", path, "an object with annotations, a list of them, or one", found=value)
    try:
        return _Container.model_validate(value)
    except pydantic.ValidationError as error:
        raise _first_error(error, path) from None


def _annotation(
    raw: Any, path: Path, number: int, annotator_id: str | None, end_inclusive: bool
) -> CitationAnnotation | AnswerQualityAnnotation | InputError:
    name = raw.get("annotation_id") if isinstance(raw, dict) else None
    shown = f"{path}, annotation {number}" if name is None else f"{path}, annotation {str(name)!r}"
    kind = kind_of(raw)
    if kind is None:
        return InputError("unknown_kind", shown, _KINDS, found=sorted(raw) if isinstance(raw, dict) else raw)
    if annotator_id is not None:
        raw = {"annotator_id": annotator_id} | raw
    if end_inclusive:
        raw = {key: _half_open(item) if key in ("citations", "citation_spans") else item for key, item in raw.items()}
    try:
        if kind == "citation":
            return parse_value(CitationAnnotation, raw)
        return parse_value(AnswerQualityAnnotation, raw)
    except pydantic.ValidationError as error:
        return _first_error(error, shown)


def _half_open(citations: Any) -> Any:
    """Return the citations with each end moved one further; what is no whole number is left for validation."""
    if not isinstance(citations, list):
        return citations
    return [
        {key: _next(item) if key in ("end_char", "page_end") else item for key, item in citation.items()}
        if isinstance(citation, dict)
        else citation
        for citation in citations
    ]


def _next(value: Any) -> Any:
    number = resolve_scalars(value)
    return number + 1 if type(number) is int else value


def _first_error(error: pydantic.ValidationError, shown: Path | str) -> InputError:
    """Return the first of pydantic's errors with the number of the others; spans have separate codes."""
    first, *others = model_errors(error)
    code = first["type"] if first["type"] in _SPAN_CODES else code_of(first)
    found = None if first["type"] in ("missing", "empty_span") else first["input"]
    more = f"There are {len(others)} more in it." if others else None
    field = field_path(first["loc"]) if first["loc"] else None
    return InputError(code, shown, expectation(first), field=field, found=found, hint=more)


@dataclass(frozen=True, slots=True)
class AnnotationImport:
    """The annotations of a folder; every one that was read is either imported or refused."""

    truths: tuple[GroundTruth, ...]
    findings: tuple[InputError, ...]
    files: int
    read: int
    imported: int
    refused: int

    @property
    def is_conserved(self) -> bool:
        """Whether nothing was lost between reading and merging."""
        return self.read == self.imported + self.refused


class _File(NamedTuple):
    annotator_id: str
    path: Path
    content: AnnotationFile


class _Source(NamedTuple):
    """A good annotation and its file."""

    annotation: CitationAnnotation | AnswerQualityAnnotation
    path: Path

    @property
    def shown(self) -> str:
        return f"{self.path}, annotation {self.annotation.annotation_id!r}"

    @property
    def slot(self) -> tuple[str, ...]:
        """Equal for annotations of which an annotator makes one: a question's citations, an answer's judgement."""
        a = self.annotation
        judged = (a.answer_text,) if isinstance(a, AnswerQualityAnnotation) else ()
        return (a.annotator_id, a.query_id, str(kind_of(a)), *judged)


def import_annotations(
    folder: Path, *, dataset_id: str | None = None, version: str | None = None, end_inclusive: bool = False
) -> AnnotationImport:
    """Read `ground_truth/annotations/<annotator>/` into one ground truth per dataset version.

    A folder's name is its annotator's id. Links are never followed. If one annotator annotated a question twice, equal
    annotations count once; of different ones neither is imported, because only the annotator knows which is right.
    """
    findings: list[InputError] = []
    refused: list[InputError] = []
    files: defaultdict[tuple[str, str], list[_File]] = defaultdict(list)
    for annotator, path in _paths(folder, findings):
        try:
            content = read_annotation_file(
                path, dataset_id=dataset_id, version=version, annotator_id=annotator, end_inclusive=end_inclusive
            )
        except InputError as error:
            findings.append(error)
        else:
            files[content.dataset_id, content.version].append(_File(annotator, path, content))
    merged = [_merged(files[key], findings, refused) for key in sorted(files)]
    truths = tuple(truth for truth in merged if truth.annotations)
    contents = [file.content for group in files.values() for file in group]
    return AnnotationImport(
        truths=truths,
        findings=(*findings, *refused),
        files=len(contents),
        read=sum(len(content.annotations) + len(content.errors) for content in contents),
        imported=sum(len(truth.annotations) for truth in truths),
        refused=len(refused),
    )


def _paths(folder: Path, findings: list[InputError]) -> Iterator[tuple[str, Path]]:
    """Yield annotators and their files in order; anything else that is not hidden becomes a finding."""
    for entry in _entries(folder):
        if entry.is_symlink() or not entry.is_dir(follow_symlinks=False):
            findings.append(_unexpected(folder / entry.name, "a folder of an annotator, no link and no file"))
        elif not PLAIN_NAME.fullmatch(entry.name):
            expected = "an annotator's folder of letters, digits, dots, hyphens and underscores"
            findings.append(_unexpected(folder / entry.name, expected))
        else:
            yield from _files_of(folder / entry.name, findings)


def _files_of(folder: Path, findings: list[InputError]) -> Iterator[tuple[str, Path]]:
    for entry in _entries(folder):
        path = folder / entry.name
        if entry.is_symlink() or not entry.is_file(follow_symlinks=False):
            findings.append(_unexpected(path, "a file, no link and no folder"))
        elif not entry.name.endswith(ENDINGS):
            findings.append(_unexpected(path, f"a file ending in {', '.join(ENDINGS)}"))
        else:
            yield folder.name, path


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return sorted((e for e in entries if not e.name.startswith(".")), key=lambda entry: entry.name)


def _unexpected(path: Path, expected: str) -> InputError:
    return InputError("unexpected_entry", path, expected, hint="Nothing in it was read; move or rename it.")


def _merged(files: Sequence[_File], findings: list[InputError], refused: list[InputError]) -> GroundTruth:
    """Return one dataset's annotations; what is not imported goes to the lists."""
    sources: list[_Source] = []
    for file in files:
        refused += file.content.errors
        for annotation in file.content.annotations:
            source = _Source(annotation, file.path)
            if annotation.annotator_id == file.annotator_id:
                sources.append(source)
            else:
                refused.append(_annotator_mismatch(source, file.annotator_id))
    extractors = {file.content.extractor for file in files if file.content.extractor is not None}
    first = files[0].content
    return GroundTruth(
        dataset_id=first.dataset_id,
        version=first.version,
        text_sha256=_texts(files, findings) or None,
        extractor=extractors.pop() if len(extractors) == 1 else None,
        annotations=tuple(source.annotation for source in _without_repeats(sources, refused)),
    )


def _annotator_mismatch(source: _Source, annotator_id: str) -> InputError:
    return InputError(
        "annotator_mismatch", source.shown, f"the folder's annotator {annotator_id!r}", field="annotator_id",
        found=source.annotation.annotator_id, hint="Move the file to its annotator's folder, or correct the id.",
    )  # fmt: skip


def _without_repeats(sources: Iterable[_Source], refused: list[InputError]) -> list[_Source]:
    """Return the annotations without repeats; each refusal names the other annotation."""
    slots: defaultdict[tuple[str, ...], list[_Source]] = defaultdict(list)
    for source in sources:
        slots[source.slot].append(source)
    kept = []
    for same in slots.values():
        first, *others = same
        if all(other.annotation == first.annotation for other in others):
            kept.append(first)
            refused += [_repeated(other, first, "the first is imported") for other in others]
        else:
            refused.append(_repeated(first, others[0], "neither is imported"))
            refused += [_repeated(other, first, "neither is imported") for other in others]
    return kept


def _repeated(source: _Source, other: _Source, outcome: str) -> InputError:
    return InputError(
        "duplicate_annotation", source.shown,
        f"one {kind_of(source.annotation)} annotation of query {source.annotation.query_id!r} by this annotator",
        found=other.shown, hint=f"Of the two {outcome}; remove one.",
    )  # fmt: skip


def _texts(files: Iterable[_File], findings: list[InputError]) -> dict[str, str]:
    """Return the digests of the annotated texts; two different ones of a document are a finding."""
    seen: dict[str, tuple[str, Path]] = {}
    for file in files:
        for name, digest in (file.content.text_sha256 or {}).items():
            known, path = seen.setdefault(name, (digest, file.path))
            if known != digest:
                findings.append(
                    InputError(
                        "different_text",
                        file.path,
                        f"the text of {name!r} that {path} has",
                        field="text_sha256",
                        found=digest,
                        hint="One of the two was annotated in another extraction: check its spans.",
                    )  # fmt: skip
                )
    return {name: digest for name, (digest, _) in seen.items()}
