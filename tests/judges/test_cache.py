"""The cache keeps verdicts across processes, drops damaged rows, and replaces a damaged file."""

import logging
import sqlite3

import pytest

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.judges.cache import FILE_NAME, CachedReply, JudgementCache, cache_key

REPLY = CachedReply('{"verdict": "correct"}', "m-1")
DAY = 86_400.0


@pytest.fixture
def now():
    """Seconds; a test moves it by hand."""
    return [1_000_000.0]


@pytest.fixture
def cache(tmp_path, now):
    with JudgementCache(tmp_path, clock=lambda: now[0]) as cache:
        yield cache


def test_cache_finds_what_was_kept_also_when_opened_again(cache, tmp_path):
    cache.keep("k", "server", REPLY)

    assert (cache.find("k"), cache.find("other")) == (REPLY, None)
    with JudgementCache(tmp_path) as other:
        assert other.find("k") == REPLY
    assert cache_key("a", {"x": 1, "y": 2}) == cache_key("a", {"y": 2, "x": 1})
    assert cache_key("a", "b") != cache_key("ab")


def test_cache_keeps_unusable_replies_apart_and_bounded(cache, tmp_path, monkeypatch):
    monkeypatch.setattr("rag_eval_pipeline.judges.cache.UNUSABLE_ROWS", 3)
    for number in range(10):
        cache.keep_unusable("k", "no JSON", f"reply {number} \ud800")

    assert cache.find("k") is None
    rows = sqlite3.connect(tmp_path / FILE_NAME).execute("SELECT reply FROM unusable ORDER BY number").fetchall()
    assert rows == [("reply 7 ?",), ("reply 8 ?",), ("reply 9 ?",)]


def test_cache_takes_a_changed_row_for_a_miss(cache, tmp_path):
    cache.keep("k", "server", REPLY)
    with sqlite3.connect(tmp_path / FILE_NAME) as database:
        database.execute("UPDATE replies SET reply = replace(reply, 'correct', 'incorrect')")

    assert cache.find("k") is None
    cache.keep("k", "server", REPLY)
    assert cache.find("k") == REPLY


def test_cache_moves_a_damaged_file_aside(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    content = b"this is no database, however long it may be" * 100
    (tmp_path / FILE_NAME).write_bytes(content)

    with JudgementCache(tmp_path) as cache:
        cache.keep("k", "server", REPLY)
        assert cache.find("k") == REPLY

    assert [path.read_bytes() for path in tmp_path.iterdir() if ".damaged-" in path.name] == [content]
    assert "moved to" in caplog.text


def test_cache_survives_damage_while_it_is_open(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    with JudgementCache(tmp_path) as cache:
        for number in range(500):
            cache.keep(f"{number}", "server", CachedReply("x" * 500, None))
    with JudgementCache(tmp_path) as cache:
        size = (tmp_path / FILE_NAME).stat().st_size
        with (tmp_path / FILE_NAME).open("r+b") as file:
            file.seek(4096)
            file.write(b"\x55" * (size - 4096))
        found = [cache.find(f"{number}") for number in range(500)]
        cache.keep("k", "server", REPLY)

        assert cache.find("k") == REPLY
    assert found.count(None) > 0
    assert "damaged" in caplog.text


def test_cache_that_cannot_be_opened_has_a_code(tmp_path):
    (tmp_path / FILE_NAME).mkdir()

    with pytest.raises(ServiceError, match="cache_unusable"):
        JudgementCache(tmp_path)


def test_cache_prune_by_age_spares_what_was_used(cache, now):
    cache.keep("old", "server", REPLY)
    cache.keep("used", "server", REPLY)
    now[0] += 10 * DAY
    assert cache.find("used") == REPLY
    now[0] += 25 * DAY
    cache.keep("new", "server", REPLY)

    assert cache.prune(max_age_days=30) == 1
    assert [key for key in ("old", "used", "new") if cache.find(key)] == ["used", "new"]


def test_cache_prune_by_size_removes_what_was_used_longest_ago(cache, now, tmp_path):
    for number in range(300):
        now[0] += 1
        cache.keep(f"{number:04}", "server", CachedReply("é" * 2_498, None))  # 4 + 4,996 bytes

    assert cache.prune(max_bytes=17_000) == 297
    assert [number for number in range(300) if cache.find(f"{number:04}")] == [297, 298, 299]
    cache.__exit__()
    assert (tmp_path / FILE_NAME).stat().st_size < 300 * 5_000 / 5  # the file has become smaller
