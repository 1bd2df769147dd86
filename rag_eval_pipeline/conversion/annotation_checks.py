"""Checks of annotations against the documents, themselves and each other, and spans moved to their texts.

Offsets mean something in one extraction of a text only. A quoted text that is not at its span is searched: first as it
is, then with white space evened out; of several places the one nearest to the span counts. A document's text is its
pages joined by one form feed; offsets that count from a page's first character are converted.
Source: Evaluation Data Formats 2.2, `quality_checks`; Citation Accuracy Evaluation 4.1 (agreement above 0.85), 6.2.
"""

import bisect
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import combinations
from statistics import fmean
from typing import Literal, NamedTuple

from rag_eval_pipeline.conversion.stamp import Check, make_check
from rag_eval_pipeline.corpus.text.pages import PAGE_BREAK
from rag_eval_pipeline.errors import excerpt
from rag_eval_pipeline.formats.ground_truth import (
    AnnotatedCitation,
    AnswerQualityAnnotation,
    CitationAnnotation,
    GroundTruth,
)
from rag_eval_pipeline.metrics.spans import Span, overlap

OFFENDERS_LISTED = 20
OVERALL_TOLERANCE = 0.005  # an overall score is written with two decimals
MEETS_TARGET = "meets_target"
TARGET = 0.85  # agreement must exceed this
RECALIBRATE_BELOW = 0.8
MIN_ANNOTATORS = 2  # questions with fewer are not compared
DECIMALS = 12  # of comparisons with the thresholds: the last bit of a mean decides nothing
WORST_LISTED = 10

OffsetBase = Literal["document", "page"]
Fit = Literal["exact", "white_space", "moved", "moved_white_space", "not_found", "no_document", "no_page"]

_SPACE = re.compile(r"\s+")


class Anchored(NamedTuple):
    """The place of a citation's text in its document: offsets in code points, or None if it is not there.

    The text is at its span (`exact`, or but for `white_space`), elsewhere (`moved`, `moved_white_space`) or nowhere
    (`not_found`); or its document (`no_document`) or the page from which its offsets count (`no_page`) does not exist.
    """

    fit: Fit
    start: int | None = None
    end: int | None = None


class DocumentText:
    """One document's text, its pages joined by form feeds, ready for searches."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.page_starts = [0, *(at.end() for at in re.finditer(PAGE_BREAK, text))]

    def limit(self, citation: AnnotatedCitation, base: OffsetBase) -> int | None:
        """Return the largest offset that the citation may have; None without its page."""
        if base == "document":
            return len(self.text)
        page = citation.page_number
        if page is None or page > len(self.page_starts):
            return None
        return self.page_end(page) - self.page_starts[page - 1]

    def page_end(self, page: int) -> int:
        """Return the offset one past a page's last character; `page` is 1-based."""
        is_last = page == len(self.page_starts)
        return len(self.text) if is_last else self.page_starts[page] - len(PAGE_BREAK)

    def at_span(self, citation: AnnotatedCitation, base: OffsetBase = "document") -> Anchored | None:
        """Return the citation's span in document offsets if its text is there."""
        if self.limit(citation, base) is None:
            return None
        start, end = (self._offset(citation, base) + offset for offset in (citation.start_char, citation.end_char))
        if end > len(self.text):
            return None
        if self.text[start:end] == citation.text:
            return Anchored("exact", start, end)
        if _collapse_whitespace(self.text[start:end]) == _collapse_whitespace(citation.text):
            return Anchored("white_space", start, end)
        return None

    def anchor(self, citation: AnnotatedCitation, base: OffsetBase = "document") -> Anchored:
        """Return where the citation's text is: at its span, or else nearest to it."""
        if self.limit(citation, base) is None:
            return Anchored("no_page")
        return self.at_span(citation, base) or self._found(
            citation.text, self._offset(citation, base) + citation.start_char
        )

    def page(self, offset: int) -> int:
        """Return the 1-based page of a character."""
        return bisect.bisect_right(self.page_starts, offset)

    def _offset(self, citation: AnnotatedCitation, base: OffsetBase) -> int:
        """Return what the base adds to the offsets of a citation whose page exists."""
        return 0 if base == "document" else self.page_starts[(citation.page_number or 1) - 1]

    def _found(self, text: str, near: int) -> Anchored:
        at = _nearest(self.text, text, near)
        if at is not None:
            return Anchored("moved", at, at + len(text))
        collapsed = _collapse_whitespace(text)
        if not collapsed:
            return Anchored("not_found")
        document, origin = self._collapsed
        at = _nearest(document, collapsed, bisect.bisect_left(origin, near))
        if at is None:
            return Anchored("not_found")
        return Anchored("moved_white_space", origin[at], origin[at + len(collapsed) - 1] + 1)

    @cached_property
    def _collapsed(self) -> tuple[str, list[int]]:
        """The text with one space for each run of white space, and each character's offset in the original."""
        origin: list[int] = []
        end = 0
        for space in _SPACE.finditer(self.text):
            origin += [*range(end, space.start()), space.start()]
            end = space.end()
        origin += range(end, len(self.text))
        return _SPACE.sub(" ", self.text), origin


def offset_base(truth: GroundTruth, texts: Mapping[str, str]) -> OffsetBase:
    """Return the base in which more quoted texts are at their spans; `document` on a tie."""
    documents = {name: DocumentText(text) for name, text in texts.items()}
    at_place: Counter[OffsetBase] = Counter()
    for annotation in truth.citation_annotations:
        for citation in annotation.citations:
            document = documents.get(citation.file_name)
            if document is not None:
                at_place["document"] += document.at_span(citation, "document") is not None
                at_place["page"] += document.at_span(citation, "page") is not None
    return "page" if at_place["page"] > at_place["document"] else "document"


def reanchor(truth: GroundTruth, texts: Mapping[str, str], *, base: OffsetBase = "document") -> GroundTruth:
    """Return the ground truth in document offsets, each span moved to its text; a text that is nowhere stays."""
    documents = {name: DocumentText(text) for name, text in texts.items()}

    def placed(citation: AnnotatedCitation) -> AnnotatedCitation:
        document = documents.get(citation.file_name)
        anchored = Anchored("no_document") if document is None else document.anchor(citation, base)
        if document is None or anchored.start is None or anchored.end is None:
            return citation
        page = document.page(anchored.start)
        page_start = document.page_starts[page - 1]
        return citation.model_copy(
            update={
                "start_char": anchored.start,
                "end_char": anchored.end,
                "page_number": page,
                "page_start": anchored.start - page_start,
                "page_end": min(anchored.end, document.page_end(page)) - page_start,
            }
        )

    annotations = tuple(
        annotation.model_copy(update={"citations": tuple(map(placed, annotation.citations))})
        if isinstance(annotation, CitationAnnotation)
        else annotation
        for annotation in truth.annotations
    )
    return truth.model_copy(update={"annotations": annotations})


def citation_name(annotation: CitationAnnotation, index: int) -> str:
    """Return how messages name a citation; its index counts from 0, as in the file."""
    return f"{_annotation_name(annotation)}, citations[{index}]"


def check_quality(truth: GroundTruth, texts: Mapping[str, str], *, base: OffsetBase = "document") -> list[Check]:
    """Run all checks, none of which blocks; `numbers` are how many were checked and failed, and the first offenders."""
    documents = {name: DocumentText(text) for name, text in texts.items()}
    return [
        documents_exist(truth, documents),
        documents_match_annotated_digests(truth, documents),
        spans_are_in_bounds(truth, documents, base),
        quoted_texts_are_in_documents(truth, documents, base),
        annotation_ids_are_unique(truth),
        spans_are_disjoint(truth, base),
        scores_are_in_range(truth),
        overall_scores_are_means(truth),
    ]


def documents_exist(truth: GroundTruth, documents: Mapping[str, DocumentText]) -> Check:
    """Check that every cited file is a document of the corpus, by its exact name."""
    citations = list(_citations(truth))
    offenders = [
        f"{place}: no document {citation.file_name!r}"
        for place, citation in citations
        if citation.file_name not in documents
    ]
    return _check("every_cited_document_exists", len(citations), offenders)


def documents_match_annotated_digests(truth: GroundTruth, documents: Mapping[str, DocumentText]) -> Check:
    """Check that the documents' texts have the hashes that the ground truth states, if it states any."""
    stated = {name: digest for name, digest in (truth.text_sha256 or {}).items() if name in documents}
    offenders = [
        f"{name!r}: another text than the one annotated; extracted by {truth.extractor or 'an extractor not stated'}"
        for name, digest in stated.items()
        if hashlib.sha256(documents[name].text.encode()).hexdigest() != digest
    ]
    return _check("documents_match_annotated_digests", len(stated), offenders)


def spans_are_in_bounds(truth: GroundTruth, documents: Mapping[str, DocumentText], base: OffsetBase) -> Check:
    """Check that every span ends inside its document, or its page if offsets count from pages (`span_accuracy`)."""
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


def quoted_texts_are_in_documents(truth: GroundTruth, documents: Mapping[str, DocumentText], base: OffsetBase) -> Check:
    """Check that every quoted text is in its document (`text_extraction`); `counts` is by fit.

    A text that is elsewhere than its span passes, because `reanchor` moves the span.
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
    return _check("quoted_texts_are_in_documents", fits.total(), offenders, fits)


def annotation_ids_are_unique(truth: GroundTruth) -> Check:
    """Check that no annotator uses an annotation id twice."""
    times = Counter((annotation.annotator_id, annotation.annotation_id) for annotation in truth.annotations)
    offenders = [
        f"annotation {excerpt(own)} of {excerpt(who)}: occurs {n} times" for (who, own), n in times.items() if n > 1
    ]
    return _check("annotation_ids_are_unique", len(times), offenders)


def spans_are_disjoint(truth: GroundTruth, base: OffsetBase) -> Check:
    """Check that no two spans of one annotation share a character."""
    checked, offenders = 0, []
    for annotation in truth.citation_annotations:
        checked += len(annotation.citations)
        spans: defaultdict[tuple[str, int | None], list[tuple[int, int, int]]] = defaultdict(list)
        for index, citation in enumerate(annotation.citations):
            page = citation.page_number if base == "page" else None
            spans[citation.file_name, page].append((citation.start_char, citation.end_char, index))
        for places in spans.values():
            furthest, before = -1, -1
            for start, end, index in sorted(places):
                if start < furthest:
                    offenders.append(f"{citation_name(annotation, index)}: overlaps citations[{before}]")
                if end > furthest:
                    furthest, before = end, index
    return _check("spans_are_disjoint", checked, offenders)


def scores_are_in_range(truth: GroundTruth) -> Check:
    """Check that every score of an answer is in [0, 1]."""
    checked, offenders = 0, []
    for annotation in truth.quality_annotations:
        scores = annotation.quality_scores.model_dump() | {"overall_score": annotation.overall_score}
        for name, score in scores.items():
            if score is not None:
                checked += 1
                if not 0 <= score <= 1:
                    offenders.append(f"{_annotation_name(annotation)}: {name} is {score:g}")
    return _check("scores_are_in_range", checked, offenders)


def overall_scores_are_means(truth: GroundTruth) -> Check:
    """Check that every overall score is the mean of its five scores, within 0.005."""
    stated = [(a, a.overall_score) for a in truth.quality_annotations if a.overall_score is not None]
    offenders = [
        f"{_annotation_name(annotation)}: overall_score is {overall:g}, the mean {annotation.quality_scores.mean:g}"
        for annotation, overall in stated
        if round(abs(overall - annotation.quality_scores.mean), 9) > OVERALL_TOLERANCE
    ]
    return _check("overall_scores_are_means", len(stated), offenders)


def _citations(truth: GroundTruth) -> Iterable[tuple[str, AnnotatedCitation]]:
    for annotation in truth.citation_annotations:
        for index, citation in enumerate(annotation.citations):
            yield citation_name(annotation, index), citation


def _annotation_name(annotation: CitationAnnotation | AnswerQualityAnnotation) -> str:
    return f"annotation {excerpt(annotation.annotation_id)} of {excerpt(annotation.annotator_id)}"


def _check(name: str, checked: int, offenders: list[str], counts: Mapping[str, int] | None = None) -> Check:
    numbers = {"checked": checked, "failed": len(offenders), **(counts or {})}
    return make_check(name, not offenders, {**numbers, "offenders": offenders[:OFFENDERS_LISTED]}, blocking=False)


def _collapse_whitespace(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def _nearest(text: str, wanted: str, near: int) -> int | None:
    """Return the place of a text that is nearest to an offset, the earlier of two."""
    after = text.find(wanted, max(0, near))
    before = text.rfind(wanted, 0, max(0, near) + len(wanted) - 1)  # begins before `near`
    places = [at for at in (before, after) if at >= 0]
    return min(places, key=lambda at: (abs(at - near), at)) if places else None


def annotators_agree(truth: GroundTruth) -> Check:
    """Check that the annotators of a dataset cite the same characters; an annotator has one annotation of a question.

    Each question counts once, however many annotators it has. Two annotators who both cite nothing are counted and have
    no Jaccard.

    `jaccard` is the mean over questions of the mean over pairs of annotators; if no pair has one, `verdict` says why.
    """
    queries: defaultdict[str, dict[str, CitationAnnotation]] = defaultdict(dict)
    for annotation in truth.citation_annotations:
        queries[annotation.query_id][annotation.annotator_id] = annotation
    compared = {query: group for query, group in queries.items() if len(group) >= MIN_ANNOTATORS}
    means: dict[str, float] = {}
    n_pairs = 0
    for query, group in compared.items():
        pairs = [_jaccard(*pair) for pair in combinations(group.values(), 2)]
        known_pairs = [value for value in pairs if value is not None]
        n_pairs += len(known_pairs)
        if known_pairs:
            means[query] = fmean(known_pairs)
    jaccard = fmean(means.values()) if means else None
    verdict = "nothing_cited" if compared else "too_few_annotators"
    if jaccard is not None:
        verdict = _verdict(round(jaccard, DECIMALS))
    numbers = {
        "jaccard": jaccard,
        "verdict": verdict,
        "questions": len(means),
        "pairs": n_pairs,
        "least_agreed": sorted(means, key=lambda query: (means[query], query))[:WORST_LISTED],
    }
    return make_check("annotators_agree", jaccard is None or verdict == MEETS_TARGET, numbers, blocking=False)


def _jaccard(one: CitationAnnotation, other: CitationAnnotation) -> float | None:
    spans: defaultdict[str, tuple[list[Span], list[Span]]] = defaultdict(lambda: ([], []))
    for side, annotation in enumerate((one, other)):
        for citation in annotation.citations:
            spans[citation.file_name][side].append(Span(citation.start_char, citation.end_char))
    overlaps = [overlap(*sides) for sides in spans.values()]
    shared = sum(found.shared for found in overlaps)
    either = sum(found.gold + found.predicted for found in overlaps) - shared
    return shared / either if either else None


def _verdict(jaccard: float) -> str:
    if jaccard > TARGET:
        return MEETS_TARGET
    return "recalibrate" if jaccard < RECALIBRATE_BELOW else "below_target"
