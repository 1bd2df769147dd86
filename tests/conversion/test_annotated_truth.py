"""What people annotate joins the ground truth of its dataset version, and is checked."""

import json

import pytest

from rag_eval_pipeline.conversion.convert import run_step
from rag_eval_pipeline.formats.ground_truth import GroundTruth

NAME, VERSION = "skarn-railway", "1.1.0"


def annotate(workspace, annotator, start, end, cut=0, **more):
    folder = workspace.annotations / annotator
    folder.mkdir(parents=True)
    truth = GroundTruth.read(workspace.gt_json(NAME, VERSION))
    first = next(annotation for annotation in truth.annotations if annotation.citations)
    citation = first.citations[0]
    made = {
        "annotation_id": f"{annotator}_1",
        "query_id": first.query_id,
        "annotator_id": annotator,
        "timestamp": "2026-01-01T00:00:00Z",
        "citations": [
            {
                "citation_id": "c1",
                "file_name": citation.file_name,
                "start_char": citation.start_char + start,
                "end_char": citation.end_char + end,
                "text": citation.text[cut:],
            }
        ],
    }
    (folder / f"{NAME}_v{VERSION}.gt.json").write_text(
        json.dumps({"dataset_id": NAME, "version": VERSION, "annotations": [made], **more})
    )
    return citation


def checks(report):
    return {check.name: check for check in report.record.checks}


def test_annotations_join_those_of_the_source_and_agreement_is_a_check(workspace):
    before = GroundTruth.read(workspace.gt_json(NAME, VERSION))
    annotate(workspace, "annotator_001", 0, 0)
    annotate(workspace, "annotator_002", 5, 0, cut=5)

    report = run_step(workspace, NAME, "ground_truth")

    after = GroundTruth.read(workspace.gt_json(NAME, VERSION))
    assert after.annotations[: len(before.annotations)] == before.annotations
    assert [annotation.annotator_id for annotation in after.annotations[len(before.annotations) :]] == [
        "annotator_001",
        "annotator_002",
    ]
    agreement = checks(report)["annotators_agree"]
    assert agreement.numbers["pairs"] == 1
    assert 0 < agreement.numbers["jaccard"] < 1
    assert checks(report)["annotations_conserved"].numbers == {"read": 2, "imported": 2, "refused": 0}


def test_agreement_below_its_target_is_a_note_of_the_conversion(workspace):
    citation = annotate(workspace, "annotator_001", 0, 0)
    length = citation.end_char - citation.start_char
    annotate(workspace, "annotator_002", length // 2, 0, cut=length // 2)

    [note] = run_step(workspace, NAME, "ground_truth").notes

    jaccard = (length - length // 2) / length
    assert f"character Jaccard {jaccard:.3f} over 1 question, more than 0.85 is wanted; least on " in note


@pytest.mark.fault(39)
def test_span_beyond_its_document_warns_and_blocks_nothing(workspace):
    annotate(workspace, "annotator_001", 0, 10_000_000)

    report = run_step(workspace, NAME, "ground_truth")

    found = checks(report)["spans_are_in_bounds"]
    assert (found.passed, found.blocking, found.numbers["failed"]) == (False, False, 1)
    assert workspace.benchmark(NAME).stamp.exists()


def test_citation_whose_text_stands_elsewhere_is_published_where_it_stands(workspace):
    citation = annotate(workspace, "annotator_001", 40, 40)

    report = run_step(workspace, NAME, "ground_truth")

    [made] = [a for a in GroundTruth.read(workspace.gt_json(NAME, VERSION)).annotations if a.annotator_id != "source"]
    [published] = made.citations
    assert (published.start_char, published.end_char, published.page_number) == (
        citation.start_char,
        citation.end_char,
        citation.page_number,
    )
    assert report.notes == (
        f"annotation 'annotator_001_1' of 'annotator_001', citations[0]: its text is at {citation.start_char} to "
        f"{citation.end_char} of {citation.file_name}, not at {citation.start_char + 40} to {citation.end_char + 40}; "
        "it was moved there.",
    )
    numbers = checks(report)["quoted_texts_are_in_documents"].numbers
    assert (numbers["checked"], numbers["failed"], numbers["moved_white_space"]) == (1, 0, 1)


def test_annotations_of_another_text_fail_the_check_with_their_file(workspace):
    citation = annotate(workspace, "annotator_001", 0, 0)
    annotate(workspace, "annotator_002", 0, 0, text_sha256={citation.file_name: "0" * 64})

    found = checks(run_step(workspace, NAME, "ground_truth"))["documents_match_annotated_digests"]

    assert (found.passed, found.numbers["checked"], found.numbers["failed"]) == (False, 1, 1)
    assert citation.file_name in found.numbers["offenders"][0]
