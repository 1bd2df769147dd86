"""Two machines, each with a folder of its own, and one store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.storage.lease import Lease
from rag_eval_pipeline.storage.session import Session, reserve_id, stop_if_lost, working_on
from rag_eval_pipeline.storage.store import FolderStore
from rag_eval_pipeline.storage.working_copy import WorkingCopy
from rag_eval_pipeline.workspace import STORE_VARIABLE

ALL = ("data/*", "corpus/*")
POINTER = "data/datasets/frames/conversion.json"
JOURNAL = "data/evaluation/runs/eval_run_20300101_001/journal.jsonl"


class CountingStore(FolderStore):
    """Counts its puts, and fails from one on."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.put_paths: list[str] = []
        self.fails_at: str | None = None

    def put(self, path: str, data: bytes, *, replaces: str | None) -> str:
        if path == self.fails_at:
            raise ServiceError("store_unreachable", "gone")
        self.put_paths.append(path)
        return super().put(path, data, replaces=replaces)


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    return CountingStore(tmp_path / "store")


@pytest.fixture
def machines(tmp_path: Path, store: CountingStore) -> Iterator[tuple[WorkingCopy, WorkingCopy]]:
    copies = WorkingCopy(tmp_path / "a", store), WorkingCopy(tmp_path / "b", store)
    yield copies
    for copy in copies:
        copy.close()


def write(copy: WorkingCopy, files: dict[str, str]) -> None:
    for path, text in files.items():
        (copy.root / path).parent.mkdir(parents=True, exist_ok=True)
        (copy.root / path).write_text(text)


def files_of(root: Path) -> dict[str, str]:
    found = (path for path in root.rglob("*") if path.is_file() and ".store" not in path.parts)
    return {path.relative_to(root).as_posix(): path.read_text() for path in found if path.name != ".lock"}


def put(copy: WorkingCopy, *, whole: bool = True) -> None:
    copy.put(ALL, lambda: None, whole=whole)


def test_what_one_machine_puts_another_fetches_and_only_changes_are_sent(
    machines: tuple[WorkingCopy, WorkingCopy], store: CountingStore
) -> None:
    one, other = machines
    files = {"corpus/frames/Å b.pdf": "pdf", "data/datasets/frames/train.json": "[]", POINTER: "{}"}
    write(one, files | {"data/datasets/frames/.lock": "", "corpus/.tmp-frames/x": "half", "data/x.lock": "1"})
    put(one)
    other.fetch(ALL)

    assert files_of(other.root) == files
    write(other, {"data/datasets/frames/train.json": "[]", POINTER: "{1}"})  # the first with the same bytes
    (other.root / "corpus/frames/Å b.pdf").unlink()
    store.put_paths.clear()
    put(other)
    assert store.put_paths == [POINTER]
    one.fetch(ALL)
    assert files_of(one.root) | {"data/x.lock": "1"} == {
        "data/datasets/frames/train.json": "[]", POINTER: "{1}", "corpus/.tmp-frames/x": "half", "data/x.lock": "1",
    }  # fmt: skip
    times = [{path: (copy.root / path).stat().st_mtime_ns for path in (POINTER,)} for copy in machines]
    other.fetch(ALL)
    assert {path: (other.root / path).stat().st_mtime_ns for path in (POINTER,)} == times[0]


def test_a_put_that_fails_leaves_the_old_pointers(
    machines: tuple[WorkingCopy, WorkingCopy], store: CountingStore
) -> None:
    one, other = machines
    write(one, {"corpus/frames/a.pdf": "old", "data/datasets/frames/.steps/corpus.json": "old", POINTER: "old"})
    put(one)
    for file in ("corpus/frames/a.pdf", "data/datasets/frames/.steps/corpus.json", POINTER):
        write(one, {file: "new"})
    store.fails_at = "data/datasets/frames/.steps/corpus.json"

    with pytest.raises(ServiceError):
        put(one)
    other.fetch(ALL)
    assert (other.root / POINTER).read_text() == "old"
    store.fails_at = None
    put(one)
    assert store.put_paths[-3:] == ["corpus/frames/a.pdf", "data/datasets/frames/.steps/corpus.json", POINTER]


def test_what_a_killed_process_left_is_undone_only_by_who_writes_there(
    machines: tuple[WorkingCopy, WorkingCopy],
) -> None:
    one, _ = machines
    write(one, {"data/datasets/frames/train.json": "put", "data/datasets/frames/web.json": "put"})
    put(one)
    write(one, {"data/datasets/frames/train.json": "not put", "data/datasets/frames/new.json": "not put"})
    (one.root / "data/datasets/frames/web.json").unlink()

    one.fetch(ALL)
    assert (one.root / "data/datasets/frames/train.json").read_text() == "not put"
    one.fetch(ALL, exactly=True)
    assert files_of(one.root) == {"data/datasets/frames/train.json": "put", "data/datasets/frames/web.json": "put"}


def test_a_journal_goes_up_in_parts_and_is_continued_elsewhere(
    machines: tuple[WorkingCopy, WorkingCopy], store: CountingStore
) -> None:
    one, other = machines
    write(one, {JOURNAL: "1\n2\n3"})
    put(one, whole=False)
    (one.root / JOURNAL).write_text("1\n2\n3\n4\n")
    put(one, whole=False)
    (one.root / JOURNAL).write_text("1\n2\n3\n4\n5\n6")
    other.fetch(ALL)

    assert files_of(other.root) == {JOURNAL: "1\n2\n3\n4\n"}
    assert sum(JOURNAL in path for path in store.put_paths) == 2
    with (other.root / JOURNAL).open("a") as file:
        file.write("five\n")
    put(other, whole=False)
    with pytest.raises(ServiceError, match="was changed by somebody else"):
        put(one, whole=False)
    put(other)
    assert [found.path for found in store.list("data")] == [JOURNAL]
    one.fetch(ALL, exactly=True)
    assert (one.root / JOURNAL).read_text() == "1\n2\n3\n4\nfive\n"
    with (one.root / JOURNAL).open("a") as file:
        file.write("6\n")
    put(one, whole=False)
    other.fetch(ALL)
    assert (other.root / JOURNAL).read_text() == "1\n2\n3\n4\nfive\n6\n"
    (one.root / JOURNAL).unlink()
    put(one)
    assert list(store.list("data")) == []


def test_an_object_that_somebody_else_has_changed_is_not_overwritten(
    machines: tuple[WorkingCopy, WorkingCopy], store: CountingStore
) -> None:
    one, other = machines
    for copy, text in ((one, "first"), (other, "second")):
        write(copy, {POINTER: text})
    put(one)

    with pytest.raises(ServiceError) as raised:
        put(other)
    assert raised.value.code == "changed_meanwhile"
    assert store.get(POINTER)[0] == b"first"  # type: ignore[index]


def test_a_folder_that_is_no_copy_of_the_store_is_refused(tmp_path: Path, store: CountingStore) -> None:
    (tmp_path / "mine" / "data" / "sources").mkdir(parents=True)
    WorkingCopy(tmp_path / "copy", store).close()

    for root, to in ((tmp_path / "mine", store), (tmp_path / "copy", FolderStore(tmp_path / "another"))):
        with pytest.raises(InputError) as raised:
            WorkingCopy(root, to)
        assert raised.value.code == "foreign_workspace"


def test_an_evaluation_id_is_given_once_to_all_machines(tmp_path: Path, store: CountingStore) -> None:
    store.put("data/evaluation/runs/eval_run_20300101_002/evaluation.json", b"{}", replaces=None)  # copied there
    names = {"benchmark": "frames", "system": "mine"}
    sessions = [Session(tmp_path / one, store, "evaluate", [names]) for one in "ab"]
    ids = [f"eval_run_20300101_{number:03d}" for number in range(1, 5)]

    taken = [next(one for one in ids if session.reserve(one)) for session in sessions]

    assert taken == ["eval_run_20300101_001", "eval_run_20300101_003"]
    assert reserve_id("eval_run_20300101_001")  # without a store
    for session in sessions:
        session.close()


def test_a_session_that_lost_its_lease_puts_nothing(
    tmp_path: Path, store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STORE_VARIABLE, store.url)
    monkeypatch.setattr(Lease, "_renew_always", lambda lease: None)
    monkeypatch.setenv("RAG_EVAL_LEASE_SECONDS", "0.2")
    train = "data/datasets/frames/train.json"

    def convert(machine: str, text: str) -> None:
        with working_on(tmp_path / machine, "convert", {"benchmark": "frames"}):
            stop_if_lost()
            if machine == "a":
                (tmp_path / "b").mkdir()
                heir = Session(tmp_path / "b", store, "convert", [{"benchmark": "frames"}])
                heir.open()
                write(heir.copy, {train: "b"})
                heir.put()
                heir.close()
            (tmp_path / machine / train).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / machine / train).write_text(text)

    with pytest.raises(ServiceError) as raised:
        convert("a", "a")
    assert raised.value.code == "lease_lost"
    assert store.get(train)[0] == b"b"  # type: ignore[index]


def test_an_evaluation_reads_no_half_of_a_conversion(tmp_path: Path, store: CountingStore) -> None:
    eval_json, names = "data/evaluation/datasets/frames_v1.eval.json", {"benchmark": "frames", "system": "mine"}
    for path in (eval_json, POINTER):
        store.put(path, b"old", replaces=None)
    conversion = Session(tmp_path / "a", store, "convert", [names])
    evaluation = Session(tmp_path / "b", store, "evaluate", [names])
    fetch = evaluation.copy.fetch

    def convert_meanwhile(patterns: list[str], *, exactly: bool = False) -> None:
        fetch(patterns, exactly=exactly)
        if POINTER in {found.path for found in store.list("data/datasets")} and not conversion_done:
            conversion_done.append(True)
            conversion.open()
            write(conversion.copy, {eval_json: "new", POINTER: "new"})
            conversion.put()
            conversion.close()

    conversion_done: list[bool] = []
    evaluation.copy.fetch = convert_meanwhile  # type: ignore[method-assign]
    evaluation.open()

    assert {path: (tmp_path / "b" / path).read_text() for path in (eval_json, POINTER)} == {
        eval_json: "new", POINTER: "new",
    }  # fmt: skip
    evaluation.close()


def test_of_what_several_add_the_first_stays_and_a_name_must_be_utf8(
    machines: tuple[WorkingCopy, WorkingCopy], store: CountingStore
) -> None:
    reply = "data/evaluation/judge_cache/replies/s/ab/abc.json"
    for copy, text in zip(machines, ("first", "second"), strict=True):
        write(copy, {reply: text})
        copy.put((), lambda: None, adds=("data/evaluation/judge_cache/*",), whole=True)
    assert store.get(reply)[0] == b"first"  # type: ignore[index]

    write(machines[0], {"corpus/frames/\udce9.pdf": "pdf"})
    with pytest.raises(InputError, match="bad_name"):
        put(machines[0])


def test_holder_that_loses_its_lease_while_it_deletes_deletes_no_more(
    machines: tuple[WorkingCopy, WorkingCopy], store: CountingStore
) -> None:
    one, _ = machines
    write(one, {"corpus/frames/1.pdf": "1", "corpus/frames/2.pdf": "2"})
    put(one)
    for file in (one.root / "corpus/frames").iterdir():
        file.unlink()

    def confirm() -> None:
        if len(list(store.list("corpus"))) < 2:
            raise ServiceError("lease_lost", "taken over")

    with pytest.raises(ServiceError, match="lease_lost"):
        one.put(ALL, confirm, whole=True)

    assert [found.path for found in store.list("corpus")] == ["corpus/frames/2.pdf"]


def test_lines_that_are_put_after_another_machine_took_over_are_removed_again(
    machines: tuple[WorkingCopy, WorkingCopy], store: CountingStore
) -> None:
    one, other = machines
    write(one, {JOURNAL: "1\n"})
    put(one, whole=False)

    def confirm() -> None:
        """Another machine publishes the journal while this one stands still, just before it puts its next lines."""
        if JOURNAL not in {found.path for found in store.list("data")}:
            other.fetch(ALL)
            write(other, {JOURNAL: "1\nb\n"})
            put(other)
        elif any(".parts/" in found.path for found in store.list("data")):
            raise ServiceError("lease_lost", "taken over")

    with (one.root / JOURNAL).open("a") as file:
        file.write("a\n")
    with pytest.raises(ServiceError, match="lease_lost"):
        one.put(ALL, confirm, whole=False)

    assert [found.path for found in store.list("data")] == [JOURNAL]
