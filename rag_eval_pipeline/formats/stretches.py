"""Characters of a document that the same annotators marked, as stretches: what agreement on spans is counted in.

Interval arithmetic: a stretch ends where anyone begins or ends, and its length costs nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from rag_eval_pipeline.formats.annotation_records import CitationAnnotation
from rag_eval_pipeline.formats.krippendorff import Unit


class Stretch(NamedTuple):
    """Characters that the same annotators marked."""

    length: int
    marked_by: frozenset[str]


def files_of(group: Mapping[str, CitationAnnotation]) -> list[str]:
    """The documents in which any of a question's annotators marked something, sorted."""
    return sorted({citation.file_name for annotation in group.values() for citation in annotation.citations})


def stretches_of(group: Mapping[str, CitationAnnotation], file_name: str) -> Iterator[Stretch]:
    """The marked characters of one document, cut where anyone begins or ends."""
    changes: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    for annotator, annotation in group.items():
        for citation in annotation.citations:
            if citation.file_name == file_name:
                changes[citation.start_char].append((annotator, 1))
                changes[citation.end_char].append((annotator, -1))
    depth: defaultdict[str, int] = defaultdict(int)  # an annotator's own spans may overlap
    for here, following in pairwise(sorted(changes)):
        for annotator, change in changes[here]:
            depth[annotator] += change
        marked_by = frozenset(annotator for annotator, spans in depth.items() if spans)
        if marked_by:
            yield Stretch(following - here, marked_by)


def units_of(stretches: Mapping[str, Sequence[Stretch]], annotators: int, lengths: Mapping[str, int]) -> list[Unit]:
    """The units of nominal alpha: characters, 1 for an annotator who marked them and 0 for one who did not.

    Args:
        stretches: Of one question, by file name.
        annotators: How many annotated the question.
        lengths: Characters of each document; what nobody marked of a document without one is no unit.
    """
    units = []
    for file_name, own in stretches.items():
        for stretch in own:
            marked = len(stretch.marked_by)
            units.append(Unit((1,) * marked + (0,) * (annotators - marked), stretch.length))
        rest = lengths.get(file_name, 0) - sum(stretch.length for stretch in own)
        if rest > 0:
            units.append(Unit((0,) * annotators, rest))
    return units


def jaccard_of(stretches: Iterable[Stretch], one: str, other: str) -> float | None:
    """Shared characters among those that either marked; None when both marked none."""
    shared = either = 0
    for stretch in stretches:
        marks = (one in stretch.marked_by) + (other in stretch.marked_by)
        shared += stretch.length * (marks == 2)
        either += stretch.length * (marks > 0)
    return shared / either if either else None
