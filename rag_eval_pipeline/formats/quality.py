"""Quality checks of annotations against the documents and against themselves: named facts with counts and offenders.

Data only: whoever shows them decides what to do about a check that did not pass.
Source: Evaluation Data Formats 2.2, `quality_checks`; Citation Accuracy Evaluation 6.2, `validation_checks`.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rag_eval_pipeline.formats.anchoring import DocumentText, OffsetBase, shown
from rag_eval_pipeline.formats.annotation_records import AnnotatedCitation, AnswerQualityAnnotation, CitationAnnotation
from rag_eval_pipeline.formats.ground_truth import GroundTruth

OFFENDERS_LISTED = 20
OVERALL_TOLERANCE = 0.005  # an overall score is written with two decimals


@dataclass(frozen=True, slots=True)
class QualityCheck:
    """One property of an annotation set.

    Args:
        name: The property, as a sentence.
        passed: It holds for everything checked.
        checked: Citations, annotations or scores that were looked at; 0 passes.
        failed: Those without the property.
        offenders: The first twenty, in words.
        counts: Further numbers, by name.
    """

    name: str
    passed: bool
    checked: int
    failed: int
    offenders: tuple[str, ...]
    counts: Mapping[str, int]


def check_quality(
    truth: GroundTruth, texts: Mapping[str, str] | None = None, *, base: OffsetBase = "document"
) -> tuple[QualityCheck, ...]:
    """All checks, those against the documents only when there are texts.

    Args:
        truth: Of one dataset.
        texts: Every document of the corpus by file name, pages joined by form feeds.
        base: What the spans' offsets count from.
    """
    own = (
        annotation_ids_are_unique(truth),
        spans_are_disjoint(truth, base),
        scores_are_in_range(truth),
        overall_scores_are_means(truth),
    )
    if texts is None:
        return own
    documents = {name: DocumentText(text) for name, text in texts.items()}
    return (
        documents_exist(truth, documents),
        texts_are_those_annotated(truth, documents),
        spans_are_in_bounds(truth, documents, base),
        texts_stand_at_their_spans(truth, documents, base),
        *own,
    )


def documents_exist(truth: GroundTruth, documents: Mapping[str, DocumentText]) -> QualityCheck:
    """Every cited file is a document of the corpus, by its exact name."""
    citations = list(_citations(truth))
    offenders = [f"{place}: no document {citation.file_name!r}" for place, citation in citations
                 if citation.file_name not in documents]  # fmt: skip
    return _check("every_cited_document_exists", len(citations), offenders)


def texts_are_those_annotated(truth: GroundTruth, documents: Mapping[str, DocumentText]) -> QualityCheck:
    """The documents' texts have the hashes that the ground truth states; one without hashes passes with 0 checked."""
    stated = {name: digest for name, digest in (truth.text_sha256 or {}).items() if name in documents}
    offenders = [
        f"{name!r}: another text than the one annotated; extracted by {truth.extractor or 'an extractor not stated'}"
        for name, digest in stated.items()
        if hashlib.sha256(documents[name].text.encode()).hexdigest() != digest
    ]
    return _check("texts_are_those_annotated", len(stated), offenders)


def spans_are_in_bounds(truth: GroundTruth, documents: Mapping[str, DocumentText], base: OffsetBase) -> QualityCheck:
    """Every span ends inside its document, or its page when offsets count from pages (`span_accuracy`)."""
    checked, offenders = 0, []
    for place, citation in _citations(truth):
        document = documents.get(citation.file_name)
        if document is None:
            continue
        checked += 1
        limit = document.limit(citation, base)
        if limit is None:
            offenders.append(f"{place}: no page {citation.page_number} in {citation.file_name!r}")
        elif citation.end_char > limit:
            offenders.append(f"{place}: ends at {citation.end_char}, the {base} at {limit}")
    return _check("spans_are_in_bounds", checked, offenders)


def texts_stand_at_their_spans(
    truth: GroundTruth, documents: Mapping[str, DocumentText], base: OffsetBase
) -> QualityCheck:
    """Every quoted text is its span's slice or is found elsewhere in the document (`text_extraction`).

    `counts` says how many fitted how; those that were moved pass, because `reanchor` puts them right.
    """
    fits: Counter[str] = Counter()
    offenders = []
    for place, citation in _citations(truth):
        document = documents.get(citation.file_name)
        if document is not None:
            anchored = document.anchor(citation, base)
            fits[anchored.fit] += 1
            if anchored.start is None:
                offenders.append(f"{place}: {citation.text[:60]!r} is not in {citation.file_name!r}")
    return _check("texts_stand_at_their_spans", fits.total(), offenders, fits)


def annotation_ids_are_unique(truth: GroundTruth) -> QualityCheck:
    """No annotator uses an annotation id twice."""
    times = Counter((annotation.annotator_id, annotation.annotation_id) for annotation in truth.annotations)
    offenders = [f"annotation {i!r} of {who!r}: stands {n} times" for (who, i), n in times.items() if n > 1]
    return _check("annotation_ids_are_unique", len(times), offenders)


def spans_are_disjoint(truth: GroundTruth, base: OffsetBase) -> QualityCheck:
    """No two spans of one annotation share a character."""
    checked, offenders = 0, []
    for annotation in truth.citation_annotations:
        checked += len(annotation.citations)
        spans: defaultdict[tuple[str, int | None], list[tuple[int, int, int]]] = defaultdict(list)
        for index, citation in enumerate(annotation.citations):
            page = citation.page_number if base == "page" else None
            spans[citation.file_name, page].append((citation.start_char, citation.end_char, index))
        for own in spans.values():
            furthest, before = -1, -1
            for start, end, index in sorted(own):
                if start < furthest:
                    offenders.append(f"{shown(annotation, index)}: overlaps citations[{before}]")
                if end > furthest:
                    furthest, before = end, index
    return _check("spans_are_disjoint", checked, offenders)


def scores_are_in_range(truth: GroundTruth) -> QualityCheck:
    """Every score of an answer lies in [0, 1]."""
    checked, offenders = 0, []
    for annotation in truth.quality_annotations:
        scores = annotation.quality_scores.model_dump() | {"overall_score": annotation.overall_score}
        for name, score in scores.items():
            if score is not None:
                checked += 1
                if not 0 <= score <= 1:
                    offenders.append(f"{_shown(annotation)}: {name} is {score:g}")
    return _check("scores_are_in_range", checked, offenders)


def overall_scores_are_means(truth: GroundTruth) -> QualityCheck:
    """Every overall score is the mean of its five scores, within 0.005."""
    stated = [(a, a.overall_score) for a in truth.quality_annotations if a.overall_score is not None]
    offenders = [
        f"{_shown(annotation)}: overall_score is {overall:g}, the mean {annotation.quality_scores.mean:g}"
        for annotation, overall in stated
        if round(abs(overall - annotation.quality_scores.mean), 9) > OVERALL_TOLERANCE
    ]
    return _check("overall_scores_are_means", len(stated), offenders)


def _citations(truth: GroundTruth) -> Iterable[tuple[str, AnnotatedCitation]]:
    for annotation in truth.citation_annotations:
        for index, citation in enumerate(annotation.citations):
            yield shown(annotation, index), citation


def _shown(annotation: CitationAnnotation | AnswerQualityAnnotation) -> str:
    return f"annotation {annotation.annotation_id!r} of {annotation.annotator_id!r}"


def _check(name: str, checked: int, offenders: list[str], counts: Mapping[str, int] | None = None) -> QualityCheck:
    listed = tuple(offenders[:OFFENDERS_LISTED])
    return QualityCheck(name, not offenders, checked, len(offenders), listed, dict(counts or {}))
