"""The store by obstore on a server that speaks S3 (moto): the same promises as a folder's."""

import threading
import urllib.request
from collections.abc import Iterator

import pytest

pytest.importorskip("obstore")

from moto.server import ThreadedMotoServer

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.storage.lease import Lease
from rag_eval_pipeline.storage.store import ANY, ConflictError, Store, open_store

# Names of documents that a URL or a bucket's client could take for something else.
NAMES = (
    "a b#c.pdf",
    "50%.pdf",
    "50%25.pdf",
    "ø~漢字*[x]?.pdf",
    "a+b&c=d;e,f'g\"h.pdf",
    "x:y|z.pdf",
    "..a.pdf",
    "\\.pdf",
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")).close()
    yield url
    server.stop()


@pytest.fixture
def store(server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Store:
    for name, value in {
        "AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "us-east-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return open_store(f"s3://bucket/{request.node.name}")


def test_put_is_refused_unless_the_object_is_the_one_that_was_seen(store: Store) -> None:
    first = store.put("a/b", b"1", replaces=None)
    second = store.put("a/b", b"2", replaces=first)

    assert store.put("a/b", b"2", replaces=None) == second
    for path, replaces in (("a/b", None), ("a/b", first), ("new", first)):
        with pytest.raises(ConflictError):
            store.put(path, b"3", replaces=replaces)
    assert store.get("a/b") == (b"2", second)
    assert store.get("new") is None
    assert store.put("a/b", b"3", replaces=ANY) != second


def test_listed_tags_are_those_of_get_and_put(store: Store) -> None:
    put = {f"corpus/{name}": store.put(f"corpus/{name}", name.encode(), replaces=None) for name in NAMES}
    store.put("corpusX/other", b"", replaces=None)
    store.delete("nothing")

    assert {found.path: found.tag for found in store.list("corpus")} == put
    assert {path: store.get(path)[0].decode() for path in put} == {f"corpus/{name}": name for name in NAMES}  # type: ignore[index]
    for path, tag in put.items():
        store.put(path, b"again", replaces=tag)
        store.delete(path)
    assert [found.path for found in store.list()] == ["corpusX/other"]


def test_one_of_32_takers_wins(store: Store) -> None:
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


def test_a_lease_is_taken_over_after_its_term(store: Store) -> None:
    frozen = Lease(store, "a", "frozen", term=0.3)
    frozen._thread = threading.Thread()
    frozen.acquire()
    heir = Lease(store, "a", "heir", term=60)
    heir.acquire(wait_seconds=10)

    with pytest.raises(ServiceError, match="lease_lost"):
        frozen.confirm()
    frozen.release()
    heir.confirm()
    heir.release()
    Lease(store, "a", "next", term=60).acquire(wait_seconds=0)


def test_what_is_wrong_with_a_store_is_one_line(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = open_store("s3://absent/x")
    for call in (lambda: list(absent.list()), lambda: absent.get("a"), lambda: absent.put("a", b"", replaces=None)):
        with pytest.raises(ServiceError, match=r"^s3://absent/x: there is no such bucket \[no_store\]\.$"):
            call()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("rag_eval_pipeline.storage.store.RETRY_SECONDS", 0.5)
    with pytest.raises(ServiceError) as raised:
        open_store("s3://bucket/x").put("a", b"", replaces=None)
    assert raised.value.code == "store_unreachable"
    assert "\n" not in str(raised.value)
