"""What is old goes, what anything refers to stays, and a removal that was killed is finished by the next."""

import json
import os
from datetime import timedelta

import pytest
import yaml

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.reporting.baselines import pin
from rag_eval_pipeline.reporting.nightbook import nights_folder
from rag_eval_pipeline.reporting.nights import Nights, Yardstick, with_run
from rag_eval_pipeline.reporting.retention import prune
from rag_eval_pipeline.reporting.verdict_settings import VerdictSettings
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_runs import PRINTS, START, five_runs, made_evaluation, made_run

LATER = START + timedelta(days=100)


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)


def settings(workspace, **values):
    workspace.config.mkdir(parents=True, exist_ok=True)
    (workspace.config / "retention.config.yaml").write_text(yaml.safe_dump(values))


def left(workspace):
    return sorted(path.name for path in workspace.runs.glob("eval_run_*"))


def test_old_evaluations_go_and_the_newest_of_each_pair_stays(workspace):
    old, newest = (made_evaluation(workspace, day) for day in (0, 1))
    only = made_evaluation(workspace, 0, system="t")

    found = prune(workspace, now=LATER)

    assert left(workspace) == sorted([newest, only])
    assert [path.name for path in found.paths] == [old]
    assert set(found.kept) == {newest, only}
    assert (workspace.results / f"{old}.results.json").exists()  # results are kept for ever unless set otherwise


def test_thirty_days_are_kept(workspace):
    ids = [made_evaluation(workspace, day) for day in (0, 1, 2)]

    prune(workspace, now=START + timedelta(days=30, hours=1))

    assert left(workspace) == ids[1:]


def test_a_baseline_stays_however_old(workspace):
    pinned = [made_evaluation(workspace, day) for day in range(5)]
    pin(workspace, "b", "s", pinned, now=LATER)
    made_evaluation(workspace, 50, prints=PRINTS.model_copy(update={"system": "new"}))

    found = prune(workspace, now=LATER)

    assert set(pinned) < set(left(workspace))
    assert found.kept[pinned[0]] == "a baseline of b x s"


def test_the_last_night_and_its_rerun_stay(workspace):
    night, rerun, _ = (made_evaluation(workspace, day) for day in (0, 1, 2))
    history = ()
    for run in (made_run(night, range(20)), made_run(rerun, range(20), hours=3)):
        history = with_run(history, run, Yardstick(five_runs(), VerdictSettings()))
    book = Nights(benchmark="b", system="s", baseline=("x",), nights=history)
    book.write(nights_folder(workspace) / "b" / "s" / "x.json")

    prune(workspace, now=LATER)

    assert {night, rerun} < set(left(workspace))


def test_the_evaluation_in_which_copied_answers_were_measured_stays(workspace):
    measured, other, newest = (made_evaluation(workspace, day) for day in (0, 1, 2))
    reuse = {"performance_metrics": {"reused_from": measured}}
    (workspace.results / f"{newest}.results.json").write_text(json.dumps(reuse))

    prune(workspace, now=LATER)

    assert left(workspace) == [measured, newest]
    assert other not in left(workspace)


def test_a_dry_run_removes_nothing_and_says_the_same(workspace):
    for day in (0, 1):
        made_evaluation(workspace, day, size=5000)

    said = prune(workspace, now=LATER, dry_run=True)
    before = left(workspace)
    done = prune(workspace, now=LATER)

    assert (said.paths, said.size_bytes, said.kept) == (done.paths, done.size_bytes, done.kept)
    assert len(before) == 2
    assert said.size_bytes > 5000
    assert list(said.lines())[0].startswith("would remove ")


def test_a_clock_that_is_behind_removes_nothing(workspace):
    for day in (0, 40):
        made_evaluation(workspace, day)

    with pytest.raises(InputError) as caught:
        prune(workspace, now=START + timedelta(days=35))

    assert caught.value.code == "clock_behind"
    assert len(left(workspace)) == 2


def test_a_damaged_baseline_stops_the_removal(workspace):
    for day in (0, 1):
        made_evaluation(workspace, day)
    path = workspace.baselines / "b" / "s.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")

    with pytest.raises(InputError):
        prune(workspace, now=LATER)

    assert len(left(workspace)) == 2


def test_what_a_killed_removal_left_in_the_trash_is_removed_by_the_next(workspace):
    for day in (0, 1):
        made_evaluation(workspace, day)
    trash = workspace.runs.parent / ".trash"
    (trash / "0-eval_run_20260101_001").mkdir(parents=True)

    prune(workspace, now=LATER)

    assert not trash.exists()


def test_results_go_only_where_that_is_set_and_their_evaluation_is_gone(workspace):
    settings(workspace, results_days=60)
    old, newest = (made_evaluation(workspace, day) for day in (0, 1))
    for name in (old, newest):
        os.utime(workspace.results / f"{name}.results.json", (0, 0))

    prune(workspace, now=LATER)
    assert (workspace.results / f"{old}.results.json").exists()  # its folder was there until now
    prune(workspace, now=LATER)

    assert [path.name for path in workspace.results.iterdir()] == [f"{newest}.results.json"]


def test_less_than_thirty_days_is_refused(workspace):
    settings(workspace, evaluation_days=7)

    with pytest.raises(InputError) as caught:
        prune(workspace, now=LATER)

    assert (caught.value.code, caught.value.field) == ("bad_format", "evaluation_days")


def test_downloads_that_no_benchmark_names_go(workspace):
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
