"""A journal gives back what was appended, loses at most a torn tail, and says when bits have changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.storage import journal as journal_module
from rag_eval_pipeline.storage.journal import JournalIndex, JournalWriter, read_journal

RECORDS = st.lists(
    st.dictionaries(st.text(), st.one_of(st.text(), st.integers(-(2**53), 2**53), st.none())), max_size=8
)


@given(records=RECORDS)
def test_reading_gives_what_was_appended(records, tmp_path_factory):
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    with JournalWriter(path) as journal:
        for record in records:
            journal.append(record)

    assert list(read_journal(path)) == records


@pytest.mark.fault(68)
@given(records=st.lists(st.text(max_size=5), min_size=1, max_size=5), cut=st.integers(1, 200), data=st.data())
def test_journal_cut_anywhere_gives_a_prefix_and_goes_on(records, cut, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    with JournalWriter(path) as journal:
        for record in records:
            journal.append(record)
    whole = path.read_bytes()
    path.write_bytes(whole[: max(0, len(whole) - cut)])

    kept = list(read_journal(path))
    with JournalWriter(path) as journal:
        journal.append("after")

    assert kept == records[: len(kept)]
    assert list(read_journal(path)) == [*kept, "after"]


@pytest.mark.fault(68)
@pytest.mark.parametrize(
    "damage", [b"sekond", b"\0\0\0\0\0\0"], ids=["a changed bit", "a page that never came to disk"]
)
def test_damaged_line_costs_no_good_one(damage, tmp_path, caplog):
    path = tmp_path / "journal.jsonl"
    with JournalWriter(path) as journal:
        journal.extend(["first", "second", "third"])
    path.write_bytes(path.read_bytes().replace(b"second", damage))

    with JournalWriter(path) as journal:
        journal.append("fourth")

    assert list(read_journal(path)) == ["first", "third", "fourth"]
    assert f"{path}: 1 damaged lines are left out" in caplog.text


def test_lines_longer_than_what_is_read_of_the_end_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "TAIL_BYTES", 16)
    path = tmp_path / "journal.jsonl"
    with JournalWriter(path) as journal:
        journal.extend(["a" * 500, "b" * 3000])
    path.write_bytes(path.read_bytes() + b"0123abcd {torn")

    with JournalWriter(path) as journal:
        journal.append("c")

    assert list(read_journal(path)) == ["a" * 500, "b" * 3000, "c"]


def test_index_gives_the_last_record_of_each_key_in_the_order_asked_for(tmp_path):
    path = tmp_path / "journal.jsonl"
    with JournalWriter(path) as journal:
        journal.extend([["a", 1], ["b", 2], ["a", 3]])

    index = JournalIndex(path, tuple[str, int], lambda record: record[0])

    assert (len(index), "a" in index, "c" in index) == (2, True, False)
    assert list(index.records(["b", "a"])) == [("b", 2), ("a", 3)]
