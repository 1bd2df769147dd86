"""The record of an upload is believed only when it is whole and of this collection."""

import json

import pytest

from rag_eval_pipeline.systems.nvidia.ledger import UploadLedger


def begun(path):
    ledger = UploadLedger(path, "http://a", "docs")
    ledger.save(is_ours=True, sending=["a.pdf"])
    ledger.task_begun("task-1", ["a.pdf"])
    return ledger


def test_what_was_saved_is_read_again(tmp_path):
    record = begun(tmp_path / "x.json").record

    assert (record.is_ours, record.tasks, record.sending) == (True, {"task-1": ["a.pdf"]}, [])
    assert UploadLedger(tmp_path / "x.json", "http://a", "docs").record == record


def test_a_task_that_ended_is_forgotten(tmp_path):
    ledger = begun(tmp_path / "x.json")
    ledger.task_ended("task-1")

    assert UploadLedger(tmp_path / "x.json", "http://a", "docs").record.tasks == {}


def test_another_collection_has_another_record(tmp_path):
    begun(tmp_path / "x.json")

    assert UploadLedger(tmp_path / "x.json", "http://a", "other").record.is_ours is False


@pytest.mark.parametrize("damage", ["changed", "cut", "empty", "not_json", "no_record", "wrong_shape"])
def test_a_damaged_record_is_none(tmp_path, damage):
    path = tmp_path / "x.json"
    begun(path)
    whole = path.read_text()
    path.write_text(
        {
            "changed": whole.replace("a.pdf", "b.pdf"),
            "cut": whole[:-20],
            "empty": "",
            "not_json": "upload",
            "no_record": "{}",
            "wrong_shape": json.dumps({"sha256": "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b", "record": None}),
        }[damage]
    )  # fmt: skip

    assert UploadLedger(path, "http://a", "docs").record.is_ours is False
