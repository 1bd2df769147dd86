"""What was read once is not read again until its file changes; the index may be lost or damaged without a word lost."""

import contextlib
import json
import os
import shutil
import sqlite3

import pytest

from rag_eval_pipeline.reporting.history import read_history
from rag_eval_pipeline.reporting.history_index import FILE, HistoryIndex
from rag_eval_pipeline.reporting.history_table import query_history, update_history
from rag_eval_pipeline.reporting.results_headers import KEPT_UNPACKED, Headers, packed
from rag_eval_pipeline.reporting.seals import history_folder
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_nights import publish_night, register

NIGHTS = 4


@pytest.fixture
def workspace(tmp_path):
    """Four nights of one pair that are in the history and long settled."""
    workspace = Workspace(tmp_path)
    register(workspace, ["b"], ["s"])
    for night in range(NIGHTS):
        publish_night(workspace, "b", "s", night, questions=3, skill=0.5, number=1)
    assert update_history(workspace) == []
    read_history(workspace)  # the seals are new
    settle(workspace)
    return workspace


def index_file(workspace):
    return history_folder(workspace) / FILE


@contextlib.contextmanager
def opened(workspace):
    with contextlib.closing(sqlite3.connect(index_file(workspace))) as database, database:
        yield database


def settle(workspace):
    """As if everything had been read a minute after the last change, which time alone does otherwise."""
    with opened(workspace) as database:
        database.execute("UPDATE results SET read_at = read_at + ?", (60_000_000_000,))


def rows(workspace, columns="name, read_at"):
    with opened(workspace) as database:
        return database.execute(f"SELECT {columns} FROM results ORDER BY name").fetchall()


def results(workspace, night):
    return sorted(workspace.results.glob("*.results.json"))[night]


def flip(path):
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"total_queries": 3', b'"total_queries": 7'))


def shown(workspace):
    return [header.summary["total_queries"] for header in read_history(workspace).by_pair["b", "s"]]


def test_a_file_that_has_not_changed_is_not_read_again(workspace):
    before = rows(workspace)

    assert shown(workspace) == [3] * NIGHTS
    assert rows(workspace) == before


def test_a_file_that_has_changed_is_read_again_and_no_other(workspace):
    before = dict(rows(workspace))
    flip(results(workspace, 1))

    history = read_history(workspace)

    assert [header.summary["total_queries"] for header in history.by_pair["b", "s"]] == [3, 7, 3, 3]
    assert ["[changed_result]" in line for line in history.damaged] == [True]
    changed = [name for name, read_at in rows(workspace) if read_at != before[name]]
    assert changed == [results(workspace, 1).name]


def test_a_file_that_was_read_within_a_tick_of_its_change_is_read_again(workspace):
    path = results(workspace, 1)
    with opened(workspace) as database:
        state = path.stat().st_ctime_ns
        database.execute("UPDATE results SET read_at = ? WHERE name = ?", (state, path.name))

    read_history(workspace)

    [read_at] = [read_at for name, read_at in rows(workspace) if name == path.name]
    assert read_at > state


def test_a_file_that_is_gone_is_gone_from_the_index(workspace):
    results(workspace, 0).unlink()

    assert shown(workspace) == [3] * (NIGHTS - 1)
    assert len(rows(workspace)) == NIGHTS - 1


def test_a_seal_that_was_damaged_is_named(workspace):
    name = results(workspace, 2).name.partition(".")[0]
    (history_folder(workspace) / "seals" / f"{name}.json").write_text("{")

    [line] = read_history(workspace).damaged
    assert name in line


DAMAGE = {
    "no SQLite file": lambda path: path.write_bytes(b"nothing of the kind" * 100),
    "empty": lambda path: path.write_bytes(b""),
    "half of it": lambda path: os.truncate(path, path.stat().st_size // 2),
    "a page overwritten": lambda path: path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 4096),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_an_index_that_is_damaged_is_made_anew(damage, workspace):
    damage(index_file(workspace))

    assert shown(workspace) == [3] * NIGHTS
    assert len(rows(workspace)) == NIGHTS


def test_an_index_of_other_code_is_made_anew(workspace):
    with opened(workspace) as database:
        database.execute("PRAGMA user_version = 1")
        database.execute("ALTER TABLE results RENAME COLUMN header TO other")

    assert shown(workspace) == [3] * NIGHTS


def test_without_a_history_nothing_is_written(tmp_path):
    workspace = Workspace(tmp_path)
    register(workspace, ["b"], ["s"])
    publish_night(workspace, "b", "s", 0, questions=3, skill=0.5, number=1)

    assert shown(workspace) == [3]
    assert not history_folder(workspace).exists()


def test_a_bit_that_flipped_on_the_disk_is_found_by_reading_a_part_of_the_files_at_a_time(workspace):
    path = results(workspace, 3)
    flip(path)
    stat = path.stat()
    with opened(workspace) as database:  # no time tells of it: the index believes that it knows
        [(state,)] = database.execute("SELECT state FROM results WHERE name = ?", (path.name,))
        seal = state.split()[1]
        now = f"{max(stat.st_mtime_ns, stat.st_ctime_ns)}.{stat.st_size}.{stat.st_ino} {seal}"
        database.execute("UPDATE results SET state = ? WHERE name = ?", (now, path.name))
        database.execute("UPDATE results SET read_at = read_at + ?", (60_000_000_000,))
    assert read_history(workspace).damaged == []

    found = []
    for _ in range(NIGHTS):
        with HistoryIndex.opened(workspace) as index:
            index.verify(1)  # a file each time
            found.append(len(index.damaged()))
    assert found == [0, 0, 0, 1]
    assert read_history(workspace, anew=True).damaged != []


def test_tables_that_were_lost_are_written_again(workspace):
    for table in ("figures", "questions"):
        shutil.rmtree(history_folder(workspace) / table)

    assert update_history(workspace) == []

    [counts] = query_history(workspace, "SELECT count(DISTINCT evaluation_id) AS n FROM questions")
    assert counts == {"n": NIGHTS}


def test_tables_stay_as_published_when_the_file_has_changed(workspace):
    path = results(workspace, 1)
    value = json.loads(path.read_text())
    value["query_results"][0]["latency_ms"] += 1
    path.write_text(json.dumps(value))
    before = query_history(workspace, "SELECT * FROM questions ORDER BY ALL")

    assert len(update_history(workspace)) == 1

    assert query_history(workspace, "SELECT * FROM questions ORDER BY ALL") == before


def test_headers_are_a_sequence(workspace):
    headers = read_history(workspace).by_pair["b", "s"]

    ids = [header.evaluation_id for header in headers]
    assert [header.evaluation_id for header in headers[1:]] == ids[1:]
    assert (headers[-1].evaluation_id, len(headers), len(headers[:-1][-2:])) == (ids[-1], 4, 2)


def test_more_headers_than_are_kept_unpacked_are_all_there(workspace):
    [header, *_] = read_history(workspace).by_pair["b", "s"]

    many = Headers([packed(header)] * (KEPT_UNPACKED + 1))

    assert all(one == header for one in many)
