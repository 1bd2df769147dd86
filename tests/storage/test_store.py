"""The store of a folder, and leases in it; tests/cluster has the same of S3."""

import threading
from pathlib import Path

import pytest

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.storage.lease import Lease, lease_path, lease_term, wait_until_free
from rag_eval_pipeline.storage.store import ANY, ConflictError, FolderStore, check_store, open_store


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


def test_put_is_refused_unless_the_object_is_the_one_that_was_seen(store: FolderStore) -> None:
    first = store.put("a/b", b"1", replaces=None)
    second = store.put("a/b", b"2", replaces=first)

    assert store.put("a/b", b"2", replaces=None) == second  # sent again: what it was to do is done
    for replaces in (None, first, "another"):
        with pytest.raises(ConflictError):
            store.put("a/b", b"3", replaces=replaces)
    with pytest.raises(ConflictError):
        store.put("new", b"3", replaces=first)
    assert store.get("a/b") == (b"2", second)
    assert store.get("new") is None
    assert store.put("a/b", b"3", replaces=ANY) != second


def test_equal_bytes_put_again_have_another_tag(store: FolderStore) -> None:
    tag: str | None = None
    tags = {tag := store.put("a", b"same", replaces=tag) for _ in range(50)}

    assert len(tags) == 50


def test_list_names_what_is_below_a_folder(store: FolderStore) -> None:
    for path in ("a/b/1", "a/b/2", "a/bc/3", "d"):
        store.put(path, path.encode(), replaces=None)
    store.delete("a/b/2")
    store.delete("a/b/2")

    assert sorted(found.path for found in store.list("a/b")) == ["a/b/1"]
    assert {found.path: found.size for found in store.list()} == {"a/b/1": 5, "a/bc/3": 6, "d": 1}
    assert all(store.get(found.path) == (found.path.encode(), found.tag) for found in store.list())
    assert list(store.list("nothing")) == []


@pytest.mark.parametrize(
    "url", ["bucket", "http://bucket/x", "s3://", "s3:///prefix", "s3://bucket/x?y=1", "file://folder", "file:folder"]
)
def test_a_url_of_no_store_is_refused(url: str) -> None:
    with pytest.raises(InputError) as raised:
        open_store(url)

    assert raised.value.code == "bad_store"
    assert "RAG_EVAL_STORE" in str(raised.value)


def test_one_of_32_takers_of_an_object_wins(store: FolderStore) -> None:
    won = []

    def take(number: int) -> None:
        try:
            store.put("ids/1", b"%d" % number, replaces=None)
        except ConflictError:
            return
        won.append(number)

    takers = [threading.Thread(target=take, args=(number,)) for number in range(32)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()

    assert len(won) == 1
    assert store.get("ids/1")[0] == b"%d" % won[0]  # type: ignore[index]


def test_a_lease_keeps_others_out_until_it_is_given_back(store: FolderStore) -> None:
    first = Lease(store, "benchmark/frames", "the conversion of frames", term=60)
    first.acquire()
    second = Lease(store, "benchmark/frames", "another", term=60)

    with pytest.raises(ServiceError, match=r"benchmark/frames has been in use .* the conversion of frames on "):
        second.acquire(wait_seconds=0)
    first.release()
    second.acquire(wait_seconds=0)
    second.confirm()
    second.release()


def test_a_lease_without_a_sign_for_its_term_is_taken_over_and_its_holder_notices(store: FolderStore) -> None:
    frozen = Lease(store, "a", "frozen", term=0.2)
    frozen._renew_always = lambda: None  # type: ignore[method-assign]
    frozen._thread = threading.Thread()
    frozen.acquire()
    heir = Lease(store, "a", "heir", term=60)
    heir.acquire(wait_seconds=10)
    written = store.get(lease_path("a"))

    with pytest.raises(ServiceError) as raised:
        frozen.confirm()
    frozen.release()

    assert raised.value.code == "lease_lost"
    assert store.get(lease_path("a")) == written
    heir.release()


def test_a_lease_that_nobody_took_is_renewed_after_its_term(store: FolderStore) -> None:
    lease = Lease(store, "a", "one", term=1e-9)
    lease._thread = threading.Thread()
    lease.acquire()
    before = store.get(lease_path("a"))

    lease.confirm()

    assert store.get(lease_path("a")) != before
    lease.release()


def test_readers_wait_for_a_holder_but_not_for_a_dead_one(store: FolderStore) -> None:
    assert wait_until_free(store, "a", wait_seconds=0) is None
    lease = Lease(store, "a", "one", term=0.2)
    lease._thread = threading.Thread()
    lease.acquire()

    assert wait_until_free(store, "a", wait_seconds=10) == store.get(lease_path("a"))[1]  # type: ignore[index]
    lease.release()


@pytest.mark.parametrize("ignores_conditions", [False, True])
def test_a_store_that_ignores_conditions_is_found_out(store: FolderStore, ignores_conditions: bool) -> None:
    put = store.put
    if ignores_conditions:
        store.put = lambda path, data, *, replaces: put(path, data, replaces=ANY)  # type: ignore[method-assign]
        with pytest.raises(ServiceError, match=r"asked not to be there; .* replaced meanwhile \[store_unfit\]"):
            check_store(store)
    else:
        check_store(store)

    assert list(store.list()) == []


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
def test_term_of_a_lease_that_is_no_time_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RAG_EVAL_LEASE_SECONDS", text)

    with pytest.raises(InputError, match="bad_seconds"):
        lease_term()
