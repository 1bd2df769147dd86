"""The cache keeps verdicts across processes and machines, drops damaged ones, and takes over an earlier release's."""

import subprocess
import sys

import msgspec
import pytest

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.judges import cache as cache_module
from rag_eval_pipeline.judges.cache import CachedReply, JudgementCache, cache_key
from rag_eval_pipeline.storage.atomic_files import temp_path

REPLY = CachedReply('{"verdict": "correct"}', "m-1")
SERVER = "http://judge m"
DAY = 86_400.0
WRITER = """
import sys
from pathlib import Path
from rag_eval_pipeline.judges.cache import CachedReply, JudgementCache
cache = JudgementCache(Path(sys.argv[1]))
for number in range(300):
    cache.keep(f"{number:03}", "server", CachedReply(sys.argv[2] * 5_000, None))
    assert cache.find(f"{number:03}", "server").reply in ("a" * 5_000, "b" * 5_000)
"""


@pytest.fixture
def now():
    """Seconds; a test moves it by hand."""
    return [1_000_000.0]


@pytest.fixture
def cache(tmp_path, now):
    return JudgementCache(tmp_path, clock=lambda: now[0])


def test_cache_finds_what_was_kept_also_when_opened_again(cache, tmp_path):
    cache.keep("k", SERVER, REPLY)

    assert (cache.find("k", SERVER), cache.find("other", SERVER), cache.find("k", "other")) == (REPLY, None, None)
    assert JudgementCache(tmp_path).find("k", SERVER) == REPLY
    assert cache_key("a", {"x": 1, "y": 2}) == cache_key("a", {"y": 2, "x": 1})
    assert cache_key("a", "b") != cache_key("ab")


def test_two_processes_that_write_the_same_replies_leave_whole_ones_and_nothing_else(cache, tmp_path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, letter]) for letter in "ab"]

    assert [writer.wait() for writer in writers] == [0, 0]
    assert {cache.find(f"{number:03}", "server").reply for number in range(300)} <= {"a" * 5_000, "b" * 5_000}
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 300


@pytest.mark.fault(53)
def test_cache_keeps_unusable_replies_apart_and_bounded(cache, now, tmp_path, monkeypatch):
    monkeypatch.setattr("rag_eval_pipeline.judges.cache.UNUSABLE_FILES", 3)
    for number in range(10):
        now[0] += 1
        cache.keep_unusable("k", "no JSON", f"reply {number} \ud800")

    assert cache.find("k", SERVER) is None
    kept = [msgspec.json.decode(path.read_bytes()) for path in sorted(tmp_path.glob("unusable/*"))]
    assert [one["reply"] for one in kept] == ["reply 7 ?", "reply 8 ?", "reply 9 ?"]


@pytest.mark.parametrize(
    "damage", [lambda data: data.replace(b"correct", b"corrupt"), lambda data: data[:-9], lambda _: b"\xff"]
)
def test_cache_takes_a_damaged_file_for_a_miss(cache, tmp_path, damage):
    cache.keep("k", SERVER, REPLY)
    (path,) = tmp_path.glob("replies/*/*/k.json")
    path.write_bytes(damage(path.read_bytes()))

    assert cache.find("k", SERVER) is None
    cache.keep("k", SERVER, REPLY)
    assert cache.find("k", SERVER) == REPLY


def test_file_that_another_process_is_writing_is_no_old_unusable_reply(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module, "UNUSABLE_FILES", 1)
    cache.keep_unusable("k", "fault", "first")
    being_written = temp_path(tmp_path / "unusable")
    being_written.write_bytes(b"")

    cache.keep_unusable("k", "fault", "second")

    assert being_written.exists()


def test_cache_that_cannot_be_opened_has_a_code(tmp_path):
    (tmp_path / "cache").write_text("")

    with pytest.raises(ServiceError, match="cache_unusable"):
        JudgementCache(tmp_path / "cache")


def test_cache_prune_by_age_spares_what_was_used(cache, now):
    cache.keep("old", SERVER, REPLY)
    cache.keep("used", SERVER, REPLY)
    now[0] += 10 * DAY
    assert cache.find("used", SERVER) == REPLY
    now[0] += 25 * DAY
    cache.keep("new", SERVER, REPLY)

    assert cache.prune(max_age_days=30) == 1
    assert [key for key in ("old", "used", "new") if cache.find(key, SERVER)] == ["used", "new"]


def test_cache_prune_by_size_removes_what_was_used_longest_ago(cache, now):
    for number in range(30):
        now[0] += 1
        cache.keep(f"{number:04}", SERVER, CachedReply("é" * 2_500, None))  # 5,000 bytes and some

    assert cache.prune(max_bytes=17_000) == 27
    assert [number for number in range(30) if cache.find(f"{number:04}", SERVER)] == [27, 28, 29]
