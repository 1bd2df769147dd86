"""People's annotations beside the spans that came with a benchmark, and what can be said of both.

Source: Citation Accuracy Evaluation 4.1 (agreement above 0.85), Evaluation Data Formats 2.2 (quality checks).
"""

from dataclasses import asdict
from typing import NamedTuple

from rag_eval_pipeline.conversion.stamp import Check, Conversion
from rag_eval_pipeline.corpus.text.pages import pages_by_document, read_pages
from rag_eval_pipeline.formats.agreement import citation_agreement
from rag_eval_pipeline.formats.annotations import import_annotations
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.quality import check_quality

LISTED = 20


class AnnotatedTruth(NamedTuple):
    """The ground truth of a dataset version.

    Args:
        truth: All annotations, the source's first; None when there are none.
        checks: Of the annotators' work; they warn.
        notes: What was not taken.
    """

    truth: GroundTruth | None
    checks: tuple[Check, ...]
    notes: tuple[str, ...]


def annotated_truth(conversion: Conversion, source: GroundTruth | None) -> AnnotatedTruth:
    """The source's annotations with those that people made of this dataset version.

    Args:
        conversion: Of the benchmark.
        source: Spans that came with it, located.
    """
    spec = conversion.spec
    found = import_annotations(conversion.workspace.annotations, dataset_id=spec.name, version=spec.version)
    own = [truth for truth in found.truths if (truth.dataset_id, truth.version) == (spec.name, spec.version)]
    people = GroundTruth(
        dataset_id=spec.name, version=spec.version, annotations=tuple(a for truth in own for a in truth.annotations)
    )
    annotations = (*(source.annotations if source is not None else ()), *people.annotations)
    whole = people.model_copy(update={"annotations": annotations}) if annotations else None
    texts = {}
    if people.annotations:
        pages = pages_by_document(read_pages(conversion.paths.pages))
        texts = {name: "\f".join(page.text for page in own_pages) for name, own_pages in pages.items()}
    notes = tuple(str(finding) for finding in found.findings)
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
                numbers={"checked": check.checked, "failed": check.failed, "offenders": list(check.offenders[:LISTED])},
            )
            for check in check_quality(people, texts)
        ),
    )
    return AnnotatedTruth(whole, checks, notes)


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
