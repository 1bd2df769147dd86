"""A folder of annotators becomes one ground truth a dataset; what is not taken is named, and everything adds up."""

import gzip
import json
import os

import pytest

from rag_eval_pipeline.formats.ground_truth import import_annotations

SPAN = {"file_name": "a.pdf", "start_char": 4, "end_char": 9, "text": "lamps"}
SCORES = {"completeness": 1, "accuracy": 1, "relevance": 1, "clarity": 1, "conciseness": 1}


def cites(query, number=1, **changes):
    return {"annotation_id": f"c{number}_{query}", "query_id": query, "citations": [SPAN]} | changes


def judges(query, answer="An answer.", **changes):
    return {"annotation_id": f"j_{query}", "query_id": query, "answer_text": answer, "quality_scores": SCORES} | changes


def put(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def ids(result):
    return [
        [(a.annotator_id, a.annotation_id) for a in truth.annotations] for truth in result.truths
    ]  # a list a dataset


def codes(result):
    return [finding.code for finding in result.findings]


def test_the_annotators_files_are_merged(tmp_path):
    put(tmp_path, "bob/d_v1.0.0.gt.json", [cites("q1"), judges("q1")])
    put(tmp_path, "ann/one.json", {"dataset_id": "d", "version": "1.0.0", "annotations": [cites("q2", annotator_id="ann")]})  # fmt: skip
    put(tmp_path, "ann/two.yaml", "dataset_id: d\nversion: 1.0.0\nannotations:\n- {annotation_id: y, query_id: q1, citations: []}\n")  # fmt: skip
    (tmp_path / "cid").mkdir()
    (tmp_path / "cid" / "d_v1.0.0.gt.json.gz").write_bytes(gzip.compress(json.dumps(cites("q1")).encode()))

    result = import_annotations(tmp_path)

    assert ids(result) == [[("ann", "c1_q2"), ("ann", "y"), ("bob", "c1_q1"), ("bob", "j_q1"), ("cid", "c1_q1")]]
    assert (result.truths[0].dataset_id, result.truths[0].version) == ("d", "1.0.0")
    assert (result.files, result.read, result.imported, result.refused, result.findings) == (4, 5, 5, 0, ())
    assert result.is_conserved


def test_each_dataset_version_has_its_own(tmp_path):
    put(tmp_path, "ann/d_v1.0.0.gt.json", [cites("q")])
    put(tmp_path, "ann/d_v1.1.0.gt.json", [cites("q")])
    put(tmp_path, "ann/mine.json", [cites("q")])

    result = import_annotations(tmp_path, dataset_id="c", version="2.0.0")

    assert [(truth.dataset_id, truth.version) for truth in result.truths] == [
        ("c", "2.0.0"),
        ("d", "1.0.0"),
        ("d", "1.1.0"),
    ]


def test_a_bad_annotation_or_file_costs_no_good_one(tmp_path):
    put(tmp_path, "ann/d_v1.0.0.gt.json", [cites("q1"), cites("q2", citations=[SPAN | {"end_char": 4}]), cites("q3")])
    put(tmp_path, "ann/cut.json", '[{"annotation_id": "x"')
    put(tmp_path, "ann/whose.json", [cites("q4")])
    put(tmp_path, "bob/d_v1.0.0.gt.json", [cites("q1")])

    result = import_annotations(tmp_path)

    assert ids(result) == [[("ann", "c1_q1"), ("ann", "c1_q3"), ("bob", "c1_q1")]]
    assert codes(result) == ["bad_json", "missing_dataset_id", "empty_span"]
    assert "annotation 'c1_q2'" in str(result.findings[2])
    assert "citations[0]" in str(result.findings[2])
    assert (result.files, result.read, result.imported, result.refused) == (2, 4, 3, 1)
    assert result.is_conserved


def test_an_annotation_in_somebody_elses_folder_is_refused(tmp_path):
    path = put(tmp_path, "ann/d_v1.0.0.gt.json", [cites("q1", annotator_id="bob"), cites("q2", annotator_id="ann")])

    result = import_annotations(tmp_path)

    assert ids(result) == [[("ann", "c1_q2")]]
    [finding] = result.findings
    assert (finding.code, finding.found) == ("annotator_mismatch", "'bob'")
    assert str(path) in str(finding)
    assert (result.read, result.imported, result.refused) == (2, 1, 1)


def test_different_annotations_of_one_question_are_both_named_and_neither_is_taken(tmp_path):
    put(tmp_path, "ann/a_v1.0.0.gt.json", [cites("q1"), cites("q2"), judges("q1")])
    put(tmp_path, "ann/a-again.json", {"dataset_id": "a", "version": "1.0.0", "annotations": [cites("q1", 2, citations=[])]})  # fmt: skip

    result = import_annotations(tmp_path)

    # A judgement of q1 is another thing than citations for q1.
    assert ids(result) == [[("ann", "c1_q2"), ("ann", "j_q1")]]
    first, second = (str(finding) for finding in result.findings)
    assert codes(result) == ["duplicate_annotation"] * 2
    assert "a-again.json, annotation 'c2_q1'" in first
    assert "a_v1.0.0.gt.json, annotation 'c1_q1'" in first
    assert "annotation 'c1_q1'" in second.partition("found")[0]
    assert (result.read, result.imported, result.refused) == (4, 2, 2)


def test_the_same_annotation_twice_is_taken_once(tmp_path):
    for name in ("a.json", "copy of a.json", "third.json"):
        put(tmp_path, f"ann/{name}", {"dataset_id": "d", "version": "1.0.0", "annotations": [cites("q1")]})

    result = import_annotations(tmp_path)

    assert ids(result) == [[("ann", "c1_q1")]]
    assert codes(result) == ["duplicate_annotation"] * 2
    assert (result.read, result.imported, result.refused) == (3, 1, 2)


def test_judgements_of_two_answers_to_one_question_are_two_annotations(tmp_path):
    put(tmp_path, "ann/d_v1.0.0.gt.json", [judges("q", "A"), judges("q", "B", annotation_id="j2")])

    assert ids(import_annotations(tmp_path)) == [[("ann", "j_q"), ("ann", "j2")]]


@pytest.mark.parametrize("name", ["-x", "a b", "a,b", "é", "a" * 129, "~"])
def test_a_folder_that_is_no_plain_name_is_not_opened(name, tmp_path):
    put(tmp_path, f"{name}/d_v1.0.0.gt.json", [cites("q")])

    result = import_annotations(tmp_path)

    assert (codes(result), result.truths) == (["unexpected_entry"], ())


def test_links_are_not_followed(tmp_path):
    folder = tmp_path / "annotations"
    outside = put(tmp_path / "outside", "d_v1.0.0.gt.json", [cites("q")])
    (folder / "ann").mkdir(parents=True)
    os.symlink(outside.parent, folder / "bob")
    os.symlink(outside, folder / "ann" / "d_v1.0.0.gt.json")
    os.mkfifo(folder / "ann" / "waiting.json")

    result = import_annotations(folder)

    assert codes(result) == ["unexpected_entry"] * 3
    assert result.truths == ()


def test_what_nobody_expects_is_named_and_hidden_files_are_not(tmp_path):
    put(tmp_path, "ann/d_v1.0.0.gt.json", [cites("q")])
    put(tmp_path, "ann/.DS_Store", "x")
    put(tmp_path, ".git/config", "x")
    put(tmp_path, "ann/notes.txt", "x")
    put(tmp_path, "ann/old/d_v1.0.0.gt.json", [cites("q")])
    put(tmp_path, "d_v1.0.0.gt.json", [cites("q")])

    result = import_annotations(tmp_path)

    assert ids(result) == [[("ann", "c1_q")]]
    assert [finding.file.removeprefix(f"{tmp_path}/") for finding in result.findings] == [
        "ann/notes.txt",
        "ann/old",
        "d_v1.0.0.gt.json",
    ]


def test_no_folder_is_an_import_of_nothing(tmp_path):
    result = import_annotations(tmp_path / "annotations")

    assert (result.truths, result.findings, result.read, result.is_conserved) == ((), (), 0, True)


def test_the_texts_annotated_are_kept_and_a_difference_is_named(tmp_path):
    def container(query, **texts):
        return {
            "dataset_id": "d",
            "version": "1.0.0",
            "text_sha256": texts,
            "extractor": "e 1",
            "annotations": [cites(query)],
        }

    put(tmp_path, "ann/x.json", container("q1", a="00", b="11"))
    put(tmp_path, "bob/x.json", container("q1", a="22", c="33"))

    result = import_annotations(tmp_path)

    [truth] = result.truths
    assert (truth.text_sha256, truth.extractor) == ({"a": "00", "b": "11", "c": "33"}, "e 1")
    assert codes(result) == ["different_text"]
    assert result.imported == 2


def test_inclusive_ends_are_converted_in_every_file(tmp_path):
    put(tmp_path, "ann/d_v1.0.0.gt.json", [cites("q")])

    [truth] = import_annotations(tmp_path, end_inclusive=True).truths

    assert truth.annotations[0].citations[0].end_char == 10
