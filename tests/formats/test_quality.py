"""Each quality check names its property, counts what it looked at, and lists who breaks it."""

import hashlib

import pytest

from rag_eval_pipeline.formats.annotation_checks import OFFENDERS_LISTED, check_quality
from rag_eval_pipeline.formats.ground_truth import DIMENSIONS, GroundTruth

TEXT = "The lamp was lit at dusk."
TEXTS = {"a.pdf": TEXT, "b.pdf": "First page.\fSecond page."}
OWN = ["annotation_ids_are_unique", "spans_are_disjoint", "scores_are_in_range", "overall_scores_are_means"]
AGAINST_TEXTS = [
    "every_cited_document_exists",
    "texts_are_those_annotated",
    "spans_are_in_bounds",
    "texts_stand_at_their_spans",
]


def span(start, end, text=None, file_name="a.pdf", **more):
    text = TEXTS.get(file_name, "")[start:end] if text is None else text
    return {"file_name": file_name, "start_char": start, "end_char": end, "text": text or "x"} | more


def cites(*spans, annotator="ann", number=1):
    return {"annotation_id": f"c{number}", "query_id": "q", "annotator_id": annotator, "citations": spans}


def judges(*scores, overall=None, number=1):
    return {
        "annotation_id": f"j{number}",
        "query_id": "q",
        "annotator_id": "ann",
        "answer_text": "",
        "quality_scores": dict(zip(DIMENSIONS, scores, strict=True)),
        "overall_score": overall,
    }


def checks(*annotations, texts=TEXTS, base="document", **more):
    truth = GroundTruth.model_validate({"dataset_id": "d", "version": "1.0.0", "annotations": annotations, **more})
    return {check.name: check for check in check_quality(truth, texts, base=base)}


def test_good_annotations_pass_every_check():
    found = checks(cites(span(4, 8), span(20, 24)), judges(0.9, 0.95, 0.9, 0.85, 0.8, overall=0.88))

    assert list(found) == [*AGAINST_TEXTS, *OWN]
    assert all(check.passed and check.failed == 0 and check.offenders == () for check in found.values())
    assert found["texts_stand_at_their_spans"].counts == {"exact": 2}
    # Five scores and the overall one.
    assert found["scores_are_in_range"].checked == 6


def test_without_texts_only_the_annotations_themselves_are_checked():
    assert list(checks(cites(span(4, 8)), texts=None)) == OWN


FAULTS = {
    #                                     annotations                                      check                            offender
    "a document that is not there":     ([cites(span(0, 4, "x", "z.pdf"))],               "every_cited_document_exists",   "annotation 'c1' of 'ann', citations[0]: no document 'z.pdf'"),
    "an end beyond the text":           ([cites(span(20, 26, "dusk."))],                  "spans_are_in_bounds",           "annotation 'c1' of 'ann', citations[0]: ends at 26, the document at 25"),
    "a text that is not there":         ([cites(span(4, 8), span(4, 8, "torch"))],        "texts_stand_at_their_spans",    "annotation 'c1' of 'ann', citations[1]: 'torch' is not in 'a.pdf'"),
    "an id used twice":                 ([cites(), cites(annotator="ann")],               "annotation_ids_are_unique",     "annotation 'c1' of 'ann': stands 2 times"),
    "overlapping spans":                ([cites(span(4, 12), span(20, 24), span(0, 5))],  "spans_are_disjoint",            "annotation 'c1' of 'ann', citations[0]: overlaps citations[2]"),
    "a span inside another":            ([cites(span(0, 12), span(4, 5), span(6, 8))],    "spans_are_disjoint",            "annotation 'c1' of 'ann', citations[1]: overlaps citations[0]"),
    "a score above one":                ([judges(1, 1, 1, 1, 1.5)],                       "scores_are_in_range",           "annotation 'j1' of 'ann': conciseness is 1.5"),
    "an overall score below zero":      ([judges(0, 0, 0, 0, 0, overall=-0.001)],         "scores_are_in_range",           "annotation 'j1' of 'ann': overall_score is -0.001"),
    "an overall score that is no mean": ([judges(1, 1, 1, 1, 0, overall=0.81)],           "overall_scores_are_means",      "annotation 'j1' of 'ann': overall_score is 0.81, the mean 0.8"),
}  # fmt: skip


@pytest.mark.parametrize(("annotations", "name", "offender"), FAULTS.values(), ids=FAULTS)
def test_fault(annotations, name, offender):
    check = checks(*annotations)[name]

    assert not check.passed
    assert check.offenders[0] == offender


def test_a_fault_of_one_kind_leaves_the_other_checks_alone():
    found = checks(cites(span(0, 4, "x", "z.pdf")))

    assert [name for name, check in found.items() if not check.passed] == ["every_cited_document_exists"]
    assert found["texts_stand_at_their_spans"].checked == 0


@pytest.mark.parametrize(("overall", "passed"), [(0.805, True), (0.795, True), (0.8051, False), (0.7949, False)])
def test_an_overall_score_may_be_off_by_rounding(overall, passed):
    # (1 + 1 + 1 + 1 + 0) / 5 = 0.8
    assert checks(judges(1, 1, 1, 1, 0, overall=overall))["overall_scores_are_means"].passed is passed


def test_texts_that_stand_elsewhere_pass_and_are_counted():
    found = checks(cites(span(5, 9, "lamp"), span(9, 16, "was  lit"), span(0, 3, "at\ndusk"), span(17, 19)))

    check = found["texts_stand_at_their_spans"]
    assert check.passed
    assert check.counts == {"moved": 1, "white_space": 1, "moved_white_space": 1, "exact": 1}


def test_touching_spans_and_those_of_other_documents_or_annotations_do_not_overlap():
    found = checks(
        cites(span(0, 4), span(4, 8), span(0, 4, file_name="b.pdf")), cites(span(0, 8), annotator="bob"), texts=None
    )

    assert found["spans_are_disjoint"].passed
    assert found["spans_are_disjoint"].checked == 4


def test_page_offsets_are_measured_on_their_page():
    spans = [span(0, 5, "First", "b.pdf", page_number=1), span(0, 6, "Second", "b.pdf", page_number=2)]

    assert all(check.passed for check in checks(cites(*spans), base="page").values())
    # "Second page." has 12 characters; a page 3 is not there, nor is one that is not stated.
    beyond = [span(7, 13, "page.", "b.pdf", page_number=2), span(0, 1, "x", "b.pdf", page_number=3), span(0, 1, "x", "b.pdf")]  # fmt: skip
    assert checks(cites(*beyond), base="page")["spans_are_in_bounds"].offenders == (
        "annotation 'c1' of 'ann', citations[0]: ends at 13, the page at 12",
        "annotation 'c1' of 'ann', citations[1]: no page 3 in 'b.pdf'",
        "annotation 'c1' of 'ann', citations[2]: no page None in 'b.pdf'",
    )


def test_another_extraction_than_the_one_annotated_is_named():
    right = hashlib.sha256(TEXT.encode()).hexdigest()

    same = checks(text_sha256={"a.pdf": right})["texts_are_those_annotated"]
    other = checks(text_sha256={"a.pdf": right, "b.pdf": right}, extractor="e 1")["texts_are_those_annotated"]

    assert (same.passed, same.checked) == (True, 1)
    assert (other.passed, other.checked, other.failed) == (False, 2, 1)
    assert other.offenders == ("'b.pdf': another text than the one annotated; extracted by e 1",)


def test_the_first_offenders_are_listed_and_all_are_counted():
    check = checks(*(judges(2, 0, 0, 0, 0, number=n) for n in range(OFFENDERS_LISTED + 5)))["scores_are_in_range"]

    assert (len(check.offenders), check.failed) == (OFFENDERS_LISTED, OFFENDERS_LISTED + 5)
