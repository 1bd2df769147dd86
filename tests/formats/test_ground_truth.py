"""Ground truth files hold both kinds of annotations, in three containers, and say what is wrong with which citation."""

import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.ground_truth import (
    AnnotatedCitation,
    AnswerQualityAnnotation,
    CitationAnnotation,
    GroundTruth,
    read_annotation_file,
)

# The specification's two examples.
CITES = {
    "annotation_id": "citation_gt_001",
    "query_id": "query_001",
    "annotator_id": "annotator_001",
    "timestamp": "2025-08-30T12:00:00Z",
    "citations": [
        {
            "citation_id": "cit_001",
            "file_name": "project_tool_guide.pdf",
            "page_number": 3,
            "start_char": 1250,
            "end_char": 1350,
            "text": "Key features include task tracking and team collaboration",
            "relevance_score": 1.0,
            "annotation_confidence": 0.9,
            "justification": "Directly answers the query about key features",
        }
    ],
    "quality_checks": {
        "span_accuracy": "verified",
        "text_extraction": "successful",
        "relevance_assessment": "high_confidence",
    },
    "metadata": {
        "annotation_time_seconds": 120,
        "tools_used": ["pdf_viewer", "text_selector"],
        "notes": "Clear and unambiguous citation span",
    },
}
JUDGES = {
    "annotation_id": "answer_quality_gt_001",
    "query_id": "query_001",
    "annotator_id": "annotator_002",
    "timestamp": "2025-08-30T12:30:00Z",
    "answer_text": "The new project management tool includes features such as task tracking.",
    "quality_scores": {"completeness": 0.9, "accuracy": 0.95, "relevance": 0.9, "clarity": 0.85, "conciseness": 0.8},
    "overall_score": 0.88,
    "aspect_ratings": {
        "factual_correctness": "fully_correct",
        "comprehensive_coverage": "mostly_comprehensive",
        "answer_structure": "well_structured",
        "language_quality": "good",
    },
    "feedback": {
        "strengths": ["Comprehensive feature list", "Clear language"],
        "weaknesses": ["Could mention specific tool capabilities"],
        "suggestions": ["Add examples of each feature"],
    },
    "metadata": {"annotation_time_seconds": 180, "expertise_level": "domain_expert", "review_status": "approved"},
}
SPAN = {"file_name": "a.pdf", "start_char": 4, "end_char": 9, "text": "lamps"}
CONTAINER = {"schema_version": "1.0", "dataset_id": "d", "version": "1.0.0", "annotations": [CITES, JUDGES]}


def written(tmp_path, value, name="d_v1.0.0.gt.json"):
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def refused(path, **options):
    with pytest.raises(InputError) as caught:
        GroundTruth.read(path, **options)
    assert "\n" not in str(caught.value)
    return caught.value


def cites(**span):
    return CITES | {"citations": [SPAN, SPAN | span]}


def test_the_specifications_examples_are_read_whole(tmp_path):
    path = written(tmp_path, CONTAINER)

    truth = GroundTruth.read(path)
    truth.write(path)

    # What was not in the examples is not in the file either, and the times are as they were.
    assert json.loads(path.read_text()) == CONTAINER
    assert [type(annotation) for annotation in truth.annotations] == [CitationAnnotation, AnswerQualityAnnotation]
    assert (len(truth.citation_annotations), len(truth.quality_annotations)) == (1, 1)


def test_the_overall_score_of_the_example_is_the_mean():
    # (0.9 + 0.95 + 0.9 + 0.85 + 0.8) / 5 = 4.4 / 5
    assert AnswerQualityAnnotation.model_validate(JUDGES).quality_scores.mean == pytest.approx(0.88, abs=1e-12)


SHAPES = {
    "the container": CONTAINER,
    "a bare list": [CITES, JUDGES],
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_container_gives_the_same(shape, tmp_path):
    assert GroundTruth.read(written(tmp_path, shape)) == GroundTruth.model_validate(CONTAINER)


def test_a_single_annotation_is_one_of_its_files_dataset(tmp_path):
    truth = GroundTruth.read(written(tmp_path, JUDGES, "chat_v2.1.0-rc.1.gt.json"))

    assert (truth.dataset_id, truth.version) == ("chat", "2.1.0-rc.1")
    assert [a.annotation_id for a in truth.annotations] == ["answer_quality_gt_001"]


def test_the_caller_names_the_dataset_where_neither_file_nor_name_does(tmp_path):
    path = written(tmp_path, [CITES], "mine.json")

    assert refused(path).code == "missing_dataset_id"
    truth = GroundTruth.read(path, dataset_id="d", version="3.0.0")
    assert (truth.dataset_id, truth.version) == ("d", "3.0.0")
    assert GroundTruth.read(path, dataset_id="d").version == "0.0.0"


def test_only_file_span_and_text_are_asked_of_a_foreign_annotator(tmp_path):
    bare = {"annotation_id": "1", "query_id": "q", "annotator_id": "ann", "citations": [SPAN]}

    [annotation] = GroundTruth.read(written(tmp_path, [bare])).annotations

    assert annotation.citations == (AnnotatedCitation(file_name="a.pdf", start_char=4, end_char=9, text="lamps"),)


def test_citation_spans_is_another_name_for_citations(tmp_path):
    renamed = {"citation_spans" if key == "citations" else key: value for key, value in CITES.items()}

    assert GroundTruth.read(written(tmp_path, [renamed, JUDGES])) == GroundTruth.model_validate(CONTAINER)
    assert refused(written(tmp_path, [CITES | {"citation_spans": []}])).code == "bad_format"


def test_yaml_says_the_same_with_less_quoting(tmp_path):
    text = """
dataset_id: d
version: 1.10.0
annotations:
  - annotation_id: 007
    query_id: 12
    annotator_id: ann
    citations:
      - {file_name: a.pdf, start_char: 4, end_char: 9, text: lamps, relevance_score: 0.5, page_number: 2}
    metadata: {annotation_time_seconds: 120, notes: no}
"""
    truth = GroundTruth.read(written(tmp_path, text, "d_v1.10.0.gt.yaml"))

    [annotation] = truth.annotations
    assert (truth.version, annotation.annotation_id, annotation.query_id) == ("1.10.0", "007", "12")
    [citation] = annotation.citations
    assert (citation.start_char, citation.relevance_score, citation.page_number) == (4, 0.5, 2)
    assert annotation.metadata == {"annotation_time_seconds": 120, "notes": "no"}


BAD_SPANS = {
    #                              change                                       code
    "an empty span":              ({"start_char": 9},                           "empty_span"),
    "a reversed span":            ({"start_char": 10},                          "empty_span"),
    "a negative start":           ({"start_char": -1},                          "bad_span"),
    "a truth as an offset":       ({"start_char": True},                        "bad_span"),
    "a float as an offset":       ({"end_char": 9.0},                           "bad_span"),
    "a text as an offset":        ({"end_char": "9"},                           "bad_span"),
    "no offset":                  ({"end_char": None},                          "bad_span"),
    "page zero":                  ({"page_number": 0},                          "bad_format"),
    "no text":                    ({"text": ""},                                "bad_format"),
    "a confidence above one":     ({"annotation_confidence": 1.5},              "bad_format"),
    "a confidence of true":       ({"annotation_confidence": True},             "bad_format"),
    "a key of the tool's own":    ({"colour": "yellow"},                        "bad_format"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "code"), BAD_SPANS.values(), ids=BAD_SPANS)
def test_a_bad_citation_is_named_by_annotation_and_index(change, code, tmp_path):
    error = refused(written(tmp_path, [JUDGES, cites(**change)]))

    assert error.code == code
    assert "annotation 'citation_gt_001'" in str(error)
    assert "citations[1]" in str(error)


BAD_ANNOTATIONS = {
    "of no kind":                     ({"annotation_id": "x", "query_id": "q", "annotator_id": "a"}, "unknown_kind"),
    "of both kinds":                  (CITES | JUDGES,                                              "unknown_kind"),
    "no object":                      (7,                                                           "unknown_kind"),
    "without a query":                ({k: v for k, v in CITES.items() if k != "query_id"},         "bad_format"),
    "of a number as query":           (CITES | {"query_id": 1},                                     "bad_format"),
    "with a score that is a text":    (JUDGES | {"overall_score": "0.88"},                          "bad_format"),
    "with a dimension missing":       (JUDGES | {"quality_scores": {"accuracy": 1}},                "bad_format"),
    "with a time without zone":       (CITES | {"timestamp": "2025-08-30T12:00:00"},                "bad_format"),
    "with citations that are null":   (CITES | {"citations": None},                                 "bad_format"),
}  # fmt: skip


@pytest.mark.parametrize(("annotation", "code"), BAD_ANNOTATIONS.values(), ids=BAD_ANNOTATIONS)
def test_a_bad_annotation_is_named_and_costs_no_good_one(annotation, code, tmp_path):
    path = written(tmp_path, [CITES, annotation, JUDGES])

    assert refused(path).code == code
    file = read_annotation_file(path)
    assert [a.annotation_id for a in file.annotations] == ["citation_gt_001", "answer_quality_gt_001"]
    assert len(file.errors) == 1


def test_the_first_fault_says_how_many_there_are(tmp_path):
    error = refused(written(tmp_path, [cites(start_char=9), CITES, cites(start_char=-1), 7]))

    assert error.code == "empty_span"
    assert "There are 2 more." in str(error)


BAD_FILES = {
    "a text":                         ("hello",                                     "bad_format"),
    "an object of something else":    ({"queries": []},                             "bad_format"),
    "annotations that are no list":   (CONTAINER | {"annotations": {}},             "bad_format"),
    "a key that nobody knows":        (CONTAINER | {"querys": []},                  "bad_format"),
    "a later form":                   (CONTAINER | {"schema_version": "1.1"},       "newer_schema"),
    "a much later form":              (CONTAINER | {"schema_version": "10.0"},      "newer_schema"),
    "a form that is no version":      (CONTAINER | {"schema_version": "one"},       "bad_version"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "code"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_file_that_holds_no_annotations_is_refused(content, code, tmp_path):
    assert refused(written(tmp_path, json.dumps(content))).code == code


def test_an_end_that_is_the_last_character_is_moved_behind_it(tmp_path):
    one_character = SPAN | {"start_char": 4, "end_char": 4, "page_start": 4, "page_end": 4, "text": "l"}
    path = written(tmp_path, [CITES | {"citations": [one_character]}, JUDGES])

    [citation] = GroundTruth.read(path, end_inclusive=True).citation_annotations[0].citations

    assert (citation.start_char, citation.end_char, citation.page_end) == (4, 5, 5)
    assert refused(path).code == "empty_span"
    reversed_span = written(tmp_path, [CITES | {"citations": [SPAN | {"start_char": 4, "end_char": 3}]}])
    assert refused(reversed_span, end_inclusive=True).code == "empty_span"
    assert refused(written(tmp_path, [cites(end_char=True)]), end_inclusive=True).code == "bad_span"


def test_a_span_is_checked_where_it_is_made_too():
    with pytest.raises(ValueError, match="end_char after start_char"):
        AnnotatedCitation(file_name="a.pdf", start_char=4, end_char=4, text="x")


def test_another_ending_is_not_written(tmp_path):
    with pytest.raises(InputError) as caught:
        GroundTruth.model_validate(CONTAINER).write(tmp_path / "d.gt.txt")

    assert caught.value.code == "unknown_form"
    assert list(tmp_path.iterdir()) == []


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
SHARE = st.floats(0, 1)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
OPEN = st.dictionaries(
    TEXT, st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2)), max_size=3
)  # fmt: skip
MOMENT = st.none() | st.builds(
    lambda seconds, zone: datetime.fromtimestamp(seconds / 1e6, zone),
    st.integers(0, 4 * 10**15),
    st.builds(lambda minutes: timezone(timedelta(minutes=minutes)), st.integers(-720, 840)),
)


@st.composite
def citations(draw):
    start = draw(st.integers(0, 10**9))
    return AnnotatedCitation(
        file_name=draw(NAME),
        start_char=start,
        end_char=start + draw(st.integers(1, 10**6)),
        page_number=draw(st.none() | st.integers(1, 999)),
        text=draw(NAME),
        relevance_score=draw(SHARE),
        annotation_confidence=draw(st.none() | SHARE),
        justification=draw(st.none() | TEXT),
    )


IDS = {"annotation_id": NAME, "query_id": NAME, "annotator_id": NAME, "timestamp": MOMENT, "metadata": OPEN}
CITATION_ANNOTATIONS = st.builds(
    CitationAnnotation,
    citations=st.lists(citations(), max_size=3),
    quality_checks=st.dictionaries(NAME, TEXT, max_size=2),
    **IDS,
)
QUALITY_ANNOTATIONS = st.builds(
    AnswerQualityAnnotation,
    answer_text=TEXT,
    quality_scores=st.fixed_dictionaries(
        dict.fromkeys(("completeness", "accuracy", "relevance", "clarity", "conciseness"), SHARE)
    ),
    overall_score=st.none() | SHARE,
    aspect_ratings=st.none() | st.fixed_dictionaries({"answer_structure": TEXT}),
    feedback=st.none() | st.fixed_dictionaries({"strengths": st.lists(TEXT, max_size=2)}),
    **IDS,
)
TRUTHS = st.builds(
    GroundTruth,
    dataset_id=NAME,
    version=NAME,
    text_sha256=st.none() | st.dictionaries(NAME, TEXT, max_size=2),
    extractor=st.none() | TEXT,
    annotations=st.lists(CITATION_ANNOTATIONS | QUALITY_ANNOTATIONS, max_size=4),
)


@given(truth=TRUTHS, ending=st.sampled_from(["json", "json.gz"]))
def test_reading_gives_what_was_written(truth, ending, tmp_path_factory):
    path = tmp_path_factory.mktemp("gt") / f"x.gt.{ending}"

    truth.write(path)
    again = GroundTruth.read(path)
    bytes_written = path.read_bytes()
    again.write(path)

    assert again == truth
    assert path.read_bytes() == bytes_written


@given(metadata=OPEN)
def test_the_order_of_keys_makes_no_difference_to_the_bytes(metadata, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gt")
    for name, keys in {"a.gt.json": list(metadata), "b.gt.json": list(reversed(metadata))}.items():
        annotation = CITES | {"metadata": {key: metadata[key] for key in keys}}
        GroundTruth.model_validate(CONTAINER | {"annotations": [annotation]}).write(folder / name)

    assert (folder / "a.gt.json").read_bytes() == (folder / "b.gt.json").read_bytes()
