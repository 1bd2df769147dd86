"""Ground truth files hold both kinds of annotations, and a folder of annotators' files becomes one of a dataset version."""

import gzip
import json
import os

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.ground_truth import (
    AnswerQualityAnnotation,
    CitationAnnotation,
    GroundTruth,
    import_annotations,
    read_annotation_file,
)

# Evaluation Data Formats 2.2, the two examples.
CITES = json.loads("""{"annotation_id": "citation_gt_001", "query_id": "query_001", "annotator_id": "annotator_001",
    "timestamp": "2025-08-30T12:00:00Z", "citations": [{"citation_id": "cit_001", "file_name": "project_tool_guide.pdf",
        "page_number": 3, "start_char": 1250, "end_char": 1350, "relevance_score": 1.0, "annotation_confidence": 0.9,
        "text": "Key features include task tracking and team collaboration",
        "justification": "Directly answers the query about key features"}],
    "quality_checks": {"span_accuracy": "verified", "text_extraction": "successful",
        "relevance_assessment": "high_confidence"},
    "metadata": {"annotation_time_seconds": 120, "tools_used": ["pdf_viewer", "text_selector"],
        "notes": "Clear and unambiguous citation span"}}""")
JUDGES = json.loads("""{"annotation_id": "answer_quality_gt_001", "query_id": "query_001", "annotator_id": "annotator_002",
    "timestamp": "2025-08-30T12:30:00Z", "overall_score": 0.88,
    "answer_text": "The new project management tool includes features such as task tracking.",
    "quality_scores": {"completeness": 0.9, "accuracy": 0.95, "relevance": 0.9, "clarity": 0.85, "conciseness": 0.8},
    "aspect_ratings": {"factual_correctness": "fully_correct", "comprehensive_coverage": "mostly_comprehensive",
        "answer_structure": "well_structured", "language_quality": "good"},
    "feedback": {"strengths": ["Comprehensive feature list", "Clear language"],
        "weaknesses": ["Could mention specific tool capabilities"], "suggestions": ["Add examples of each feature"]},
    "metadata": {"annotation_time_seconds": 180, "expertise_level": "domain_expert", "review_status": "approved"}}""")
SPAN = {"file_name": "a.pdf", "start_char": 4, "end_char": 9, "text": "lamps"}
CONTAINER = {"schema_version": "1.0", "dataset_id": "d", "version": "1.0.0", "annotations": [CITES, JUDGES]}


def written(tmp_path, value, name="d_v1.0.0.gt.json"):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def refused(path, **options):
    with pytest.raises(InputError) as caught:
        GroundTruth.read(path, **options)
    assert "\n" not in str(caught.value)
    return caught.value


def with_span(**span):
    return CITES | {"citations": [SPAN, SPAN | span]}


def test_ground_truth_of_the_specification_is_read_whole(tmp_path):
    path = written(tmp_path, CONTAINER)

    truth = GroundTruth.read(path)
    truth.write(path)

    # What was not in the examples is not in the file either, and the times are as they were.
    assert json.loads(path.read_text()) == CONTAINER
    assert [type(annotation) for annotation in truth.annotations] == [CitationAnnotation, AnswerQualityAnnotation]
    assert (len(truth.citation_annotations), len(truth.quality_annotations)) == (1, 1)
    # (0.9 + 0.95 + 0.9 + 0.85 + 0.8) / 5 = 4.4 / 5
    assert truth.annotations[1].quality_scores.mean == pytest.approx(0.88, abs=1e-12)


def test_ground_truth_may_be_a_list_or_a_single_annotation(tmp_path):
    renamed = {"citation_spans" if key == "citations" else key: value for key, value in CITES.items()}
    for listed in ([CITES, JUDGES], [renamed, JUDGES]):
        assert GroundTruth.read(written(tmp_path, listed)) == GroundTruth.model_validate(CONTAINER)

    truth = GroundTruth.read(written(tmp_path, JUDGES, "chat_v2.1.0-rc.1.gt.json"))
    assert (truth.dataset_id, truth.version) == ("chat", "2.1.0-rc.1")
    assert [a.annotation_id for a in truth.annotations] == ["answer_quality_gt_001"]


def test_ground_truth_takes_its_dataset_from_the_caller_last(tmp_path):
    path = written(tmp_path, [CITES], "mine.json")

    assert refused(path).code == "missing_dataset_id"
    truth = GroundTruth.read(path, dataset_id="d", version="3.0.0")
    assert (truth.dataset_id, truth.version) == ("d", "3.0.0")
    assert GroundTruth.read(path, dataset_id="d").version == "0.0.0"
    named = GroundTruth.read(written(tmp_path, [CITES]), dataset_id="other", version="3.0.0")
    assert (named.dataset_id, named.version) == ("d", "1.0.0")


BAD_ANNOTATIONS = {
    #                             annotation                                                  code            place
    "an empty span":             (with_span(start_char=9),                                    "empty_span",   "citations[1]"),
    "a negative start":          (with_span(start_char=-1),                                   "bad_span",     "citations[1]"),
    "a float as an offset":      (with_span(end_char=9.0),                                    "bad_span",     "citations[1]"),
    "no text":                   (with_span(text=""),                                         "bad_format",   "citations[1]"),
    "neither kind":              ({"annotation_id": "x", "query_id": "q", "annotator_id": "a"}, "unknown_kind", "annotation 'x'"),
    "both names of citations":   (CITES | {"citation_spans": []},                             "bad_format",   "annotation 'citation_gt_001'"),
    "no object":                 (7,                                                          "unknown_kind", "annotation 2"),
    "a text as a score":         (JUDGES | {"overall_score": "0.88"},                         "bad_format",   "overall_score"),
    "a time without zone":       (CITES | {"timestamp": "2025-08-30T12:00:00"},               "bad_format",   "timestamp"),
    "a long id":                 (CITES | {"annotation_id": "x" * 20_000, "citations": 5},    "bad_format",   f"annotation '{'x' * 198}…"),
}  # fmt: skip


@pytest.mark.parametrize(("annotation", "code", "place"), BAD_ANNOTATIONS.values(), ids=BAD_ANNOTATIONS)
def test_ground_truth_names_a_bad_annotation_and_keeps_the_others(annotation, code, place, tmp_path):
    path = written(tmp_path, [CITES, annotation, JUDGES])

    error = refused(path)
    assert error.code == code
    assert str(error).startswith(f"{path}, ")
    assert place in str(error)
    assert len(str(error)) < 1_000
    file = read_annotation_file(path)
    assert [a.annotation_id for a in file.truth.annotations] == ["citation_gt_001", "answer_quality_gt_001"]
    assert [one.code for one in file.errors] == [code]


@pytest.mark.parametrize("content", ["hello", CONTAINER | {"annotations": {}}], ids=["a text", "an object"])
def test_ground_truth_refuses_a_file_without_a_list_of_annotations(content, tmp_path):
    assert refused(written(tmp_path, json.dumps(content))).code == "bad_format"


def test_ground_truth_converts_inclusive_ends(tmp_path):
    one_character = SPAN | {"start_char": 4, "end_char": 4, "page_start": 4, "page_end": 4, "text": "l"}
    path = written(tmp_path, [CITES | {"citations": [one_character]}, JUDGES])

    [citation] = GroundTruth.read(path, end_inclusive=True).citation_annotations[0].citations

    assert (citation.start_char, citation.end_char, citation.page_end) == (4, 5, 5)
    assert refused(path).code == "empty_span"
    assert refused(written(tmp_path, [with_span(end_char=3)]), end_inclusive=True).code == "empty_span"
    assert refused(written(tmp_path, [with_span(end_char=True)]), end_inclusive=True).code == "bad_span"


def cites(query, number=1, **changes):
    return {"annotation_id": f"c{number}_{query}", "query_id": query, "citations": [SPAN]} | changes


def judges(query, answer="An answer.", **changes):
    scores = dict.fromkeys(JUDGES["quality_scores"], 1)
    return {"annotation_id": f"j_{query}", "query_id": query, "answer_text": answer, "quality_scores": scores} | changes


def container(*annotations, **fields):
    return {"dataset_id": "d", "version": "1.0.0", "annotations": annotations, **fields}


def ids(result):
    """A list for each dataset."""
    return [[(a.annotator_id, a.annotation_id) for a in truth.annotations] for truth in result.truths]


def codes(result):
    return [finding.code for finding in result.findings]


def test_import_merges_the_annotators_files(tmp_path):
    written(tmp_path, [cites("q1"), judges("q1")], "bob/d_v1.0.0.gt.json")
    written(tmp_path, container(cites("q2", annotator_id="ann")), "ann/one.json")
    written(tmp_path, "dataset_id: d\nversion: 1.0.0\nannotations:\n- {annotation_id: 007, query_id: q1, citations: []}\n",
            "ann/two.yaml")  # fmt: skip
    written(tmp_path, cites("q1"), "cid/d_v1.0.0.gt.json.gz")
    written(tmp_path, [cites("q")], "ann/d_v1.1.0.gt.json")
    written(tmp_path, [cites("q")], "ann/mine.json")

    result = import_annotations(tmp_path, dataset_id="c", version="2.0.0")

    named = [(truth.dataset_id, truth.version) for truth in result.truths]
    assert named == [("c", "2.0.0"), ("d", "1.0.0"), ("d", "1.1.0")]
    assert ids(result)[1] == [("ann", "c1_q2"), ("ann", "007"), ("bob", "c1_q1"), ("bob", "j_q1"), ("cid", "c1_q1")]
    assert (result.read, result.imported, result.refused, result.findings) == (7, 7, 0, ())
    assert result.is_conserved
    assert import_annotations(tmp_path / "nowhere").truths == ()


def test_import_keeps_good_annotations_beside_bad_ones(tmp_path):
    bad = cites("q2", citations=[SPAN | {"end_char": 4}])
    written(tmp_path, [cites("q1"), bad, cites("q3"), cites("q4", annotator_id="bob")], "ann/d_v1.0.0.gt.json")
    written(tmp_path, '[{"annotation_id": "x"', "ann/cut.json")
    written(tmp_path, [cites("q4")], "ann/whose.json")
    written(tmp_path, [cites("q1")], "bob/d_v1.0.0.gt.json")

    result = import_annotations(tmp_path)

    assert ids(result) == [[("ann", "c1_q1"), ("ann", "c1_q3"), ("bob", "c1_q1")]]
    assert codes(result) == ["bad_json", "missing_dataset_id", "empty_span", "annotator_mismatch"]
    assert "annotation 'c1_q2', field \"citations[0]" in str(result.findings[2])
    assert str(tmp_path / "ann" / "d_v1.0.0.gt.json") in str(result.findings[3])
    assert (result.read, result.imported, result.refused) == (5, 3, 2)
    assert result.is_conserved


def test_import_refuses_different_annotations_of_one_question(tmp_path):
    # A judgement of q1 is not compared with citations for q1, nor with a judgement of another answer.
    written(tmp_path, [cites("q1"), cites("q2"), judges("q1"), judges("q1", "B", annotation_id="j2")], "ann/d_v1.0.0.gt.json")  # fmt: skip
    written(tmp_path, container(cites("q1", 2, citations=[])), "ann/a-again.json")
    written(tmp_path, container(cites("q1")), "bob/one.json")
    written(tmp_path, container(cites("q1")), "bob/the same.json")

    result = import_annotations(tmp_path)

    assert ids(result) == [[("ann", "c1_q2"), ("ann", "j_q1"), ("ann", "j2"), ("bob", "c1_q1")]]
    first, second, equal = (str(finding) for finding in result.findings)
    assert codes(result) == ["duplicate_annotation"] * 3
    assert "the first is imported" in equal
    assert "a-again.json, annotation 'c2_q1'" in first
    assert "d_v1.0.0.gt.json, annotation 'c1_q1'" in first
    assert "annotation 'c1_q1'" in second.partition("found")[0]
    assert (result.read, result.imported, result.refused) == (7, 4, 3)


@pytest.mark.fault(23)
@pytest.mark.parametrize("name", ["-x", "a" * 129])
def test_import_opens_no_folder_without_a_plain_name(name, tmp_path):
    written(tmp_path, [cites("q")], f"{name}/d_v1.0.0.gt.json")

    result = import_annotations(tmp_path)

    assert (codes(result), result.truths) == (["unexpected_entry"], ())


def test_import_names_unexpected_entries_and_follows_no_links(tmp_path):
    folder = tmp_path / "annotations"
    outside = written(tmp_path / "outside", [cites("q")])
    written(folder, [cites("q")], "ann/d_v1.0.0.gt.json")
    written(folder, "x", "ann/.DS_Store")
    written(folder, "x", ".git/config")
    written(folder, "x", "ann/notes.txt")
    written(folder, [cites("q")], "ann/old/d_v1.0.0.gt.json")
    written(folder, [cites("q")], "d_v1.0.0.gt.json")
    os.symlink(outside, folder / "ann" / "link.json")
    os.mkfifo(folder / "ann" / "waiting.json")
    os.symlink(outside.parent, folder / "bob")

    result = import_annotations(folder)

    assert ids(result) == [[("ann", "c1_q")]]
    assert codes(result) == ["unexpected_entry"] * 6
    assert [finding.file.removeprefix(f"{folder}/") for finding in result.findings] == [
        "ann/link.json", "ann/notes.txt", "ann/old", "ann/waiting.json", "bob", "d_v1.0.0.gt.json",
    ]  # fmt: skip


def test_import_reports_annotations_of_different_texts(tmp_path):
    written(tmp_path, container(cites("q1"), text_sha256={"a": "00", "b": "11"}, extractor="e 1"), "ann/x.json")
    written(tmp_path, container(cites("q1"), text_sha256={"a": "22", "c": "33"}, extractor="e 1"), "bob/x.json")

    result = import_annotations(tmp_path)

    [truth] = result.truths
    assert (truth.text_sha256, truth.extractor) == ({"a": "00", "b": "11", "c": "33"}, "e 1")
    assert codes(result) == ["different_text"]
    assert result.imported == 2
