"""A task shows questions and texts and nothing found so far; a blind sample depends on ids and seed alone."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.annotation_tasks import (
    AnnotationTask,
    blind_sample,
    citation_task,
    quality_task,
    write_blind_tasks,
    write_task,
)
from rag_eval_pipeline.formats.annotations import import_annotations
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset

TEXTS = {"a.pdf": "The lamp was lit at dusk.", "b.pdf": "It was put out at dawn.", "c.pdf": "Nothing."}
DATASET = EvaluationDataset.model_validate(
    {
        "dataset_id": "d",
        "name": "D",
        "version": "1.0.0",
        "queries": [
            {
                "query_id": f"q{number}",
                "query_text": f"When, {number}?",
                "relevant_documents": [f"{'ab'[number % 2]}.pdf"],
                "ground_truth_answer": "SECRET",
                "citations": [{"file_name": "a.pdf", "start_char": 16, "end_char": 24, "context_text": "SECRET"}],
            }
            for number in range(30)
        ],
    }
)

SIZES = {
    #                                    queries  share  chosen
    "none of none":                     (0,       0.10,  0),
    "at least one":                     (1,       0.10,  1),
    "a tenth":                          (30,      0.10,  3),
    "a tenth, rounded up":              (31,      0.10,  4),
    "a tenth of 70, not 7.0000000001":  (70,      0.10,  7),
    "all":                              (30,      1.00,  30),
}  # fmt: skip


@pytest.mark.parametrize(("queries", "share", "chosen"), SIZES.values(), ids=SIZES)
def test_size_of_a_sample(queries, share, chosen):
    assert len(blind_sample([f"q{n}" for n in range(queries)], share=share)) == chosen


def test_the_sample_is_the_smallest_hashes_in_the_order_given():
    ids = [f"q{n}" for n in range(20)]
    ranked = sorted(ids, key=lambda i: hashlib.sha256(f"7\0{i}".encode()).hexdigest())

    assert blind_sample(ids, seed=7) == [i for i in ids if i in ranked[:2]]
    assert blind_sample(ids, seed=7) != blind_sample(ids, seed=8)


@given(ids=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=30), seed=st.integers())
def test_order_and_repetition_do_not_change_the_sample(ids, seed):
    assert set(blind_sample(ids, seed=seed)) == set(blind_sample([*reversed(ids), *ids], seed=seed))


@pytest.mark.parametrize("share", [0, -0.1, 1.1])
def test_a_share_is_above_zero_and_at_most_one(share):
    with pytest.raises(ValueError, match="share"):
        blind_sample(["q"], share=share)


def test_a_citation_task_shows_questions_and_texts_only(tmp_path):
    task = citation_task(DATASET, "ann", TEXTS, query_ids=["q3", "q0"])

    path = write_task(tmp_path, task)

    assert path == tmp_path / "ann" / "d_v1.0.0.citations.task.json"
    assert "SECRET" not in path.read_text()
    assert json.loads(path.read_text()) == {
        "schema_version": "1.0",
        "dataset_id": "d",
        "version": "1.0.0",
        "purpose": "citations",
        "annotator_id": "ann",
        "queries": [
            {"annotation_id": "ann_q0", "query_id": "q0", "query_text": "When, 0?", "documents": ["a.pdf"]},
            {"annotation_id": "ann_q3", "query_id": "q3", "query_text": "When, 3?", "documents": ["b.pdf"]},
        ],
        "text_sha256": {name: hashlib.sha256(TEXTS[name].encode()).hexdigest() for name in ("a.pdf", "b.pdf")},
        "texts": {"a.pdf": TEXTS["a.pdf"], "b.pdf": TEXTS["b.pdf"]},
    }
    assert AnnotationTask.read(path) == task


def test_a_quality_task_shows_the_answers_to_judge(tmp_path):
    path = write_task(tmp_path, quality_task(DATASET, "ann", {"q1": "At dusk.", "q0": ""}))

    queries = AnnotationTask.read(path).queries
    assert [(query.query_id, query.answer_text) for query in queries] == [("q0", ""), ("q1", "At dusk.")]
    assert "SECRET" not in path.read_text()


def test_every_annotator_gets_the_same_blind_sample(tmp_path):
    paths = write_blind_tasks(tmp_path, DATASET, ["ann-again", "bob"], TEXTS, seed=3)
    tasks = [AnnotationTask.read(path) for path in paths]

    chosen = blind_sample([query.query_id for query in DATASET.queries], seed=3)
    assert [[query.query_id for query in task.queries] for task in tasks] == [chosen, chosen]
    assert [(task.annotator_id, task.purpose) for task in tasks] == [
        ("ann-again", "citations-blind"),
        ("bob", "citations-blind"),
    ]
    before = [path.read_bytes() for path in paths]
    write_blind_tasks(tmp_path, DATASET, ["ann-again", "bob"], TEXTS, seed=3)
    assert [path.read_bytes() for path in paths] == before


def test_tasks_are_no_annotations(tmp_path):
    write_blind_tasks(tmp_path, DATASET, ["ann"], TEXTS)

    result = import_annotations(tmp_path)

    assert (result.files, result.findings) == (0, ())


def test_what_a_task_cannot_be_made_of(tmp_path):
    with pytest.raises(InputError) as unknown:
        citation_task(DATASET, "ann", TEXTS, query_ids=["q99"])
    with pytest.raises(InputError) as missing:
        citation_task(DATASET, "ann", {"a.pdf": ""})
    with pytest.raises(InputError) as escaping:
        write_task(tmp_path, citation_task(DATASET, "../ann", TEXTS))

    assert [caught.value.code for caught in (unknown, missing, escaping)] == ["unknown_query", "missing_text", "bad_name"]  # fmt: skip
    assert list(tmp_path.iterdir()) == []
