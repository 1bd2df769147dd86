"""People's annotations beside the spans that came with a benchmark, and what can be said of both.

Source: Citation Accuracy Evaluation 4.1 (agreement above 0.85), Evaluation Data Formats 2.2 (quality checks).
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import NamedTuple

from rag_eval_pipeline.conversion.stamp import Check, Conversion
from rag_eval_pipeline.corpus.text.pages import pages_by_document, read_pages
from rag_eval_pipeline.formats.agreement import citation_agreement
from rag_eval_pipeline.formats.anchoring import offset_base, reanchor, shown
from rag_eval_pipeline.formats.annotations import import_annotations
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.quality import check_quality

LISTED = 20


class AnnotatedTruth(NamedTuple):
    """The ground truth of a dataset version.

    Args:
        truth: All annotations, the source's first; None when there are none.
        checks: Of the annotators' work; they warn.
        notes: What was not taken, and what was moved.
    """

    truth: GroundTruth | None
    checks: tuple[Check, ...]
    notes: tuple[str, ...]


def annotated_truth(conversion: Conversion, source: GroundTruth | None) -> AnnotatedTruth:
    """The source's annotations with those that people made of this dataset version.

    Args:
        conversion: Of the benchmark.
        source: Spans that came with it, located.

    Returns:
        The ground truth; people's citations stand in it where the corpus has their texts.
    """
    spec = conversion.spec
    found = import_annotations(conversion.workspace.annotations, dataset_id=spec.name, version=spec.version)
    empty = GroundTruth(dataset_id=spec.name, version=spec.version, annotations=())
    made = next((t for t in found.truths if (t.dataset_id, t.version) == (spec.name, spec.version)), empty)
    texts = {}
    if made.annotations:
        pages = pages_by_document(read_pages(conversion.paths.pages))
        texts = {name: "\f".join(page.text for page in own_pages) for name, own_pages in pages.items()}
    base = offset_base(made, texts)
    people = reanchor(made, texts, base=base).truth
    annotations = (*(source.annotations if source is not None else ()), *people.annotations)
    notes = (*(str(finding) for finding in found.findings), *_moves(made, people))
    checks = (
        Check(
            name="annotations_conserved",
            passed=found.is_conserved and not found.refused,
            blocking=False,
            numbers={"read": found.read, "imported": found.imported, "refused": found.refused},
        ),
        _agreement(people),
        *(
            Check(
                name=check.name,
                passed=check.passed,
                blocking=False,
                numbers={
                    "checked": check.checked,
                    "failed": check.failed,
                    **check.counts,
                    "offenders": list(check.offenders[:LISTED]),
                },
            )
            for check in check_quality(made, texts, base=base)
        ),
    )
    return AnnotatedTruth(empty.model_copy(update={"annotations": annotations}) if annotations else None, checks, notes)


def _moves(made: GroundTruth, placed: GroundTruth) -> Iterator[str]:
    """A line for each citation whose text stands elsewhere than its annotator's offsets say."""
    for before, after in zip(made.citation_annotations, placed.citation_annotations, strict=True):
        for index, (old, new) in enumerate(zip(before.citations, after.citations, strict=True)):
            if (old.start_char, old.end_char) != (new.start_char, new.end_char):
                yield (
                    f"{shown(before, index)}: its text stands at {new.start_char} to {new.end_char} of "
                    f"{new.file_name}, not at {old.start_char} to {old.end_char}; it was moved there."
                )


def _agreement(people: GroundTruth) -> Check:
    agreement = citation_agreement(people)
    return Check(
        name="annotators_agree",
        passed=agreement.verdict in (None, "meets_target"),
        blocking=False,
        numbers={
            "jaccard": agreement.jaccard,
            "verdict": agreement.verdict or agreement.reason,
            "alpha": asdict(agreement.alpha),
            "questions": agreement.n_queries,
            "pairs": agreement.n_pairs,
            "least_agreed": [query.query_id for query in agreement.worst],
        },
    )
