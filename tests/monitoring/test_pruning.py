"""Prune removes what is old, keeps what anything refers to, and finishes a removal that was killed."""

import itertools
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.monitoring.baselines import pin
from rag_eval_pipeline.monitoring.history import FILE, published_results
from rag_eval_pipeline.monitoring.night_records import Nights
from rag_eval_pipeline.monitoring.retention import prune
from rag_eval_pipeline.workspace import Workspace
from tests.formats.result_values import results_value
from tests.monitoring.made_runs import START, made_evaluation, made_history, made_run

LATER = START + timedelta(days=100)


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)


def settings(workspace, **values):
    workspace.config.mkdir(parents=True, exist_ok=True)
    (workspace.config / "retention.config.yaml").write_text(yaml.safe_dump(values))


def left(workspace):
    return sorted(path.name for path in workspace.runs.glob("eval_run_*"))


@pytest.mark.fault(65)
def test_prune_removes_old_evaluations_and_keeps_the_newest_of_each_pair(workspace):
    old, newest = (made_evaluation(workspace, day, size=5000) for day in (0, 1))
    only = made_evaluation(workspace, 0, system="t")

    planned = prune(workspace, now=LATER, dry_run=True)
    assert left(workspace) == sorted([old, newest, only])
    found = prune(workspace, now=LATER)

    assert left(workspace) == sorted([newest, only])
    assert [path.name for path in found.paths] == [old]
    assert set(found.kept) == {newest, only}
    assert (planned.paths, planned.size_bytes, planned.kept) == (found.paths, found.size_bytes, found.kept)
    assert 5000 < found.size_bytes < 10_000
    assert list(planned.lines())[0] == f"would remove {workspace.runs / old}"
    assert list(found.lines())[-1] == "removed 1 file or folder, 0.0 MB"
    assert (workspace.results / f"{old}.results.json").exists()  # results are kept for ever unless set otherwise


@pytest.mark.fault(65)
def test_prune_refuses_bad_settings_a_damaged_baseline_and_a_clock_that_is_behind(workspace):
    before = [made_evaluation(workspace, day) for day in (0, 1)]
    baseline = workspace.baselines / "b" / "s.json"
    baseline.parent.mkdir(parents=True)

    def refused():
        with pytest.raises(InputError) as caught:
            prune(workspace, now=LATER)
        assert set(before) <= set(left(workspace))
        return caught.value.code

    settings(workspace, evaluation_days=7)
    assert refused() == "bad_format"
    settings(workspace)
    baseline.write_text("{")
    assert refused() == "bad_json"
    baseline.unlink()
    made_evaluation(workspace, 101)
    assert refused() == "clock_behind"


def test_prune_removes_abandoned_evaluations_that_were_never_published(workspace):
    made_evaluation(workspace, 0, state="answered")
    of_another = made_evaluation(workspace, 0, system="t", state="open")  # its newest
    newest = made_evaluation(workspace, 1)

    prune(workspace, now=LATER)

    assert left(workspace) == sorted([of_another, newest])


def test_prune_doubts_a_clock_that_is_far_ahead(workspace):
    old, newest = (made_evaluation(workspace, day) for day in (0, 1))
    now = START + timedelta(days=1 + 366)

    with pytest.raises(InputError, match=r"\[clock_ahead\].*rag-eval prune --yes"):
        prune(workspace, now=now)
    assert left(workspace) == [old, newest]
    prune(workspace, now=now, is_clock_right=True)
    assert left(workspace) == [newest]


def test_prune_removes_temporary_files_after_a_day(workspace):
    made_evaluation(workspace, 0)
    left = [
        workspace.root / "data" / "datasets" / "b" / ".tmp-a",
        workspace.root / "data" / "reports" / ".tmp-page",
        workspace.root / "corpus" / ".tmp-b" / "link",
    ]
    kept = [
        workspace.root / "data" / "sources" / "b" / ".tmp-of-a-person",
        workspace.root / "data" / "datasets" / "b" / "train.json",
        workspace.root / "corpus" / "b" / ".tmp-is-a-document.pdf",
    ]
    for path in (*left, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    now = datetime.now(UTC)

    assert prune(workspace, now=now + timedelta(hours=23)).paths == []
    assert len(prune(workspace, now=now + timedelta(hours=25)).paths) == len(left)

    assert [path for path in left if path.exists()] == []
    assert [path for path in workspace.root.rglob(".*") if path.is_dir()] == []
    assert all(path.exists() for path in kept)


@pytest.mark.fault(65)
def test_prune_keeps_the_last_night_and_its_rerun(workspace):
    night, rerun, _ = (made_evaluation(workspace, day) for day in (0, 1, 2))
    history = made_history(made_run(night, range(20)), made_run(rerun, range(20), hours=3))
    book = Nights(benchmark="b", system="s", baseline=("x",), nights=history)
    book.write(workspace.nights / "b" / "s" / "x.json")

    prune(workspace, now=LATER)

    assert {night, rerun} < set(left(workspace))


@pytest.mark.fault(65)
def test_prune_keeps_the_evaluation_whose_answers_were_copied(workspace):
    measured, other, newest = (made_evaluation(workspace, day) for day in (0, 1, 2))
    reuse = {"performance_metrics": {"reused_from": measured}}
    (workspace.results / f"{newest}.results.json").write_text(json.dumps(reuse))

    prune(workspace, now=LATER)

    assert left(workspace) == [measured, newest]
    assert other not in left(workspace)


def test_prune_removes_results_if_so_set_and_their_evaluation_is_gone(workspace):
    settings(workspace, results_days=60)
    old, newest = (made_evaluation(workspace, day) for day in (0, 1))
    for name in (old, newest):
        os.utime(workspace.results / f"{name}.results.json", (0, 0))

    prune(workspace, now=LATER)
    assert (workspace.results / f"{old}.results.json").exists()  # its folder was there until now
    prune(workspace, now=LATER)

    assert [path.name for path in workspace.results.iterdir()] == [f"{newest}.results.json"]


def test_prune_removes_downloads_that_no_benchmark_names(workspace):
    spec = workspace.benchmark("b").spec
    spec.parent.mkdir(parents=True)
    spec.write_text("source: {url: 'https://data.example/used.csv'}\n")
    bodies = {"https://data.example/used.csv": "a" * 64, "https://data.example/former.csv": "b" * 64}
    index = {url: _record(url, sha) for url, sha in bodies.items()}
    for name in ("b", "gone"):
        folder = workspace.benchmark(name).downloads
        folder.mkdir(parents=True)
        (folder / "index.json").write_text(json.dumps(index))
        for sha in bodies.values():
            (folder / sha).write_bytes(b"x")
            os.utime(folder / sha, (0, 0))

    found = prune(workspace, now=LATER)

    assert [(path.parent.parent.parent.name, path.name[0]) for path in found.paths] == [
        ("b", "b"), ("gone", "a"), ("gone", "b"),
    ]  # fmt: skip


def _record(url, sha):
    return {
        "sha256": sha, "final_url": url, "size": 1, "etag": None, "last_modified": None, "content_type": None,
        "first_bytes": "",
    }  # fmt: skip


@pytest.mark.fault(65)
def test_prune_keeps_the_newest_results_of_a_pair(workspace):
    settings(workspace, results_days=30)
    for name in ("eval_run_20260101_001", "eval_run_20260102_001"):
        path = workspace.results / f"{name}.results.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            json.dumps(results_value(name, timestamp=f"{name[9:13]}-{name[13:15]}-{name[15:17]}T02:00:00Z"))
        )
        os.utime(path, (0, 0))

    prune(workspace, now=LATER)

    assert [path.name for path in workspace.results.iterdir()] == ["eval_run_20260102_001.results.json"]
    assert [row.evaluation_id for row in published_results(workspace)] == ["eval_run_20260102_001"]
    remembered = pq.ParquetFile(workspace.history / FILE).read(["evaluation_id"])["evaluation_id"].to_pylist()
    assert remembered == ["eval_run_20260101_001", "eval_run_20260102_001"]  # with the digest of what is gone


def four_old_ones(root):
    """Four old evaluations of one pair, the second of them pinned, and one that is the newest."""
    workspace = Workspace(root)
    settings(workspace, results_days=60)
    ids = [made_evaluation(workspace, day) for day in range(5)]
    for name in ids:
        (workspace.runs / name / "answer_scores.parquet").write_bytes(b"x" * 10)
    gone = workspace.results / "eval_run_20260101_001.results.json"  # its evaluation is gone, its tables are there
    for path in (gone, workspace.history / "figures" / "eval_run_20260101_001.parquet"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}")
        os.utime(path, (0, 0))
    pin(workspace, "b", "s", [ids[1]], now=LATER)
    return workspace, ids


def killed_at(step, workspace):
    """Prunes in a process that is killed by the kernel before its n-th change of the disk; whether it was."""

    def dying():
        done = 0
        change = {name: getattr(os, name) for name in ("rename", "unlink", "rmdir", "mkdir")}

        def counting(name):
            def changing(*arguments, **options):
                nonlocal done
                done += 1
                if done == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return change[name](*arguments, **options)

            return changing

        for name in change:
            setattr(os, name, counting(name))
        prune(workspace, now=LATER)

    process = multiprocessing.get_context("fork").Process(target=dying)
    process.start()
    process.join()
    return process.exitcode == -signal.SIGKILL


def files_of(workspace, name):
    return sorted(path.name for path in (workspace.runs / name).glob("*"))


@pytest.mark.fault(66)
def test_prune_killed_at_any_step_leaves_whole_folders_and_is_finished_by_the_next(tmp_path):
    made, ids = four_old_ones(tmp_path / "made")
    whole = Workspace(shutil.copytree(made.root, tmp_path / "whole"))
    complete = files_of(whole, ids[0])
    planned = prune(whole, now=LATER, dry_run=True)
    prune(whole, now=LATER)
    assert len(planned.paths) == 5  # three evaluations; results and a table

    for step in itertools.count(1):
        workspace = Workspace(shutil.copytree(made.root, tmp_path / str(step)))
        was_killed = killed_at(step, workspace)

        for name in ids:
            assert files_of(workspace, name) in ([], complete), f"a part of {name} after step {step}"
        assert {ids[1], ids[4]} <= set(left(workspace))
        prune(workspace, now=LATER)
        assert left(workspace) == left(whole) == [ids[1], ids[4]]
        assert not (workspace.runs.parent / ".trash").exists()
        assert [path.name for path in workspace.results.iterdir()] == [path.name for path in whole.results.iterdir()]
        if not was_killed:
            break
    assert step > 15  # 5 renames and what lies in the folders: the removal was cut everywhere


DAYS = st.integers(0, 99)
EVALUATIONS = st.lists(st.tuples(DAYS, st.sampled_from("st"), st.sampled_from(["published", "scored"])), max_size=8)


@pytest.mark.fault(65)
@given(EVALUATIONS, st.data())
@hypothesis_settings(max_examples=25, deadline=None)
def test_prune_keeps_pinned_newest_and_young_ones_and_nothing_else(evaluations, data):
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        made = {
            made_evaluation(workspace, day, system=system, state=state): (day, system, state)
            for day, system, state in evaluations
        }
        published = {name: (day, system) for name, (day, system, state) in made.items() if state == "published"}
        pinned = set()
        for one in ("s", "t"):
            own = [name for name, (_, system) in published.items() if system == one]
            if own and data.draw(st.booleans()):
                chosen = data.draw(st.sets(st.sampled_from(own), min_size=1))
                pin(workspace, "b", one, sorted(chosen), now=LATER)
                pinned |= chosen
        opened_last = {system: name for name, (_, system, _) in made.items()}  # what the files by pair name
        last = {}
        for name, (_, system) in sorted(published.items(), key=lambda item: (item[1][0], item[0])):
            last[system] = name
        young = {name for name, (day, _, _) in made.items() if day > 70}  # less than 30 days before `LATER`

        planned = prune(workspace, now=LATER, dry_run=True)
        assert set(left(workspace)) == made.keys()
        done = prune(workspace, now=LATER)

        stays = pinned | set(opened_last.values()) | set(last.values()) | young
        assert set(left(workspace)) == stays
        assert (planned.paths, planned.size_bytes, planned.kept) == (done.paths, done.size_bytes, done.kept)
        assert {path.name for path in done.paths} == made.keys() - stays
        assert all(done.kept[name].startswith("a baseline of b x ") for name in pinned - young)
        assert prune(workspace, now=LATER).paths == []
