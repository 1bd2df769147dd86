"""A report of unchanged files opens none of them; any change of an input or of the report itself has it made again."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rag_eval_pipeline import cli
from rag_eval_pipeline.report.made_from import RECORD, MadeFrom, file_system_time_ns
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_nights import publish_night, register

PAIR = "railway", "asked"
OPENED = """
import sys
from pathlib import Path
from rag_eval_pipeline.report.made_from import MadeFrom
from rag_eval_pipeline.report.made_from import file_system_time_ns
from rag_eval_pipeline.workspace import Workspace
root = sys.argv[1]
sys.addaudithook(lambda event, given: event == "open" and str(given[0]).startswith(root) and print(given[0]))
made_from = MadeFrom(Workspace(Path(root)), time_ns=lambda folder: file_system_time_ns(folder) + 3600 * 10**9)
assert made_from.is_unchanged()
"""


def later(folder):
    """A clock an hour ahead: files written by a test were not changed just now."""
    return file_system_time_ns(folder) + 3600 * 10**9


def made_from(workspace, **options):
    return MadeFrom(workspace, **{"time_ns": later, **options})


def report(workspace):
    cli.app(["report", "--workspace", str(workspace.root)], standalone_mode=False)


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """Two nights and their report."""
    made = Workspace(tmp_path_factory.mktemp("made") / "nights")
    register(made, [PAIR[0]], [PAIR[1]])
    for night in range(2):
        publish_night(made, *PAIR, night, questions=30, skill=0.7, number=1)
    report(made)
    return made


@pytest.fixture
def workspace(reported, tmp_path):
    """A copy, whose files are on record."""
    copy = Workspace(tmp_path / "nights")
    shutil.copytree(reported.root, copy.root, ignore=shutil.ignore_patterns(RECORD))
    made_from(copy).save()
    return copy


def opened(workspace):
    """Return the files that are opened to see that nothing has changed."""
    command = [sys.executable, "-c", OPENED, str(workspace.root)]
    paths = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [path for path in paths if Path(path).is_file()]


def test_report_of_unchanged_files_opens_its_record_only(workspace):
    assert opened(workspace) == [str(workspace.reports / RECORD)]


def test_report_that_was_just_made_is_known_by_content(reported):
    assert MadeFrom(reported).is_unchanged()


def edit(path):
    path.write_bytes(path.read_bytes().replace(b"e", b"a"))


def newest(workspace):
    return max(workspace.results.iterdir())


CHANGES = {
    "a results file was edited": lambda w: edit(newest(w)),
    "a results file was removed": lambda w: newest(w).unlink(),
    "a run was pruned": lambda w: shutil.rmtree(w.runs / newest(w).name.partition(".")[0]),
    "a new night": lambda w: publish_night(w, *PAIR, 2, questions=30, skill=0.7, number=1),
    "settings were edited": lambda w: (w.config / "verdicts.config.yaml").write_text("alpha: 0.01\n"),
    "a system was removed": lambda w: w.system_file(PAIR[1]).unlink(),
    "another benchmark": lambda w: register(w, ["observatory"], []),
    "an alert was sent": lambda w: shutil.copytree(w.config, w.reports / "alerts"),
    "a page was edited": lambda w: edit(w.reports / "index.html"),
    "a page was removed": lambda w: (w.reports / "index.html").unlink(),
    "verdicts were edited": lambda w: edit(w.reports / "regressions.json"),
    "the record is damaged": lambda w: (w.reports / RECORD).write_text("{"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_change_has_the_report_made_again(workspace, change):
    change(workspace)

    assert not made_from(workspace).is_unchanged()


def converted(workspace):
    """Write files of a conversion anew; the stamp is first gone, as it is while one goes on."""
    name = PAIR[0]
    paths = workspace.benchmark(name)
    files = [paths.train_json, workspace.eval_json(name, "1.0.0"), workspace.gt_json(name, "1.0.0"), paths.stamp]
    for path in files:
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"the same")
    return files


def test_conversion_that_changes_no_byte_leaves_the_report_unchanged(workspace):
    converted(workspace)
    made_from(workspace).save()
    converted(workspace)

    assert made_from(workspace).is_unchanged()
    assert opened(workspace) == [str(workspace.reports / RECORD)]


@pytest.mark.parametrize("number", range(4))
def test_conversion_that_changes_a_byte_has_the_report_made_again(workspace, number):
    converted(workspace)
    made_from(workspace).save()
    edit(converted(workspace)[number])

    assert not made_from(workspace).is_unchanged()


def test_change_with_the_same_size_and_times_is_noticed_in_a_file_that_was_just_written(workspace):
    (workspace.reports / RECORD).unlink()
    made_from(workspace, time_ns=lambda folder: 0).save()
    path = newest(workspace)
    edit(path)
    record = json.loads((workspace.reports / RECORD).read_text())
    status, entry = path.stat(), record[f"data/evaluation/results/{path.name}"]
    entry[0] = status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
    (workspace.reports / RECORD).write_text(json.dumps(record))

    assert not made_from(workspace).is_unchanged()


def test_input_that_changed_while_the_report_was_made_has_it_made_again(workspace):
    (workspace.reports / RECORD).unlink()
    making = made_from(workspace)
    edit(newest(workspace))
    making.save()

    assert not made_from(workspace).is_unchanged()


def test_report_edited_by_hand_is_restored_to_the_byte(workspace):
    def digests():
        files = (path for path in workspace.reports.rglob("*") if path.is_file() and path.name != RECORD)
        return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    first = digests()
    edit(workspace.reports / "index.html")
    (workspace.reports / "leaderboard.csv").unlink()
    report(workspace)

    assert digests() == first


def test_report_that_left_something_out_is_made_again_to_say_so(workspace, caplog):
    (workspace.runs / newest(workspace).name.partition(".")[0] / "evaluation.json").write_text("{")

    report(workspace)

    assert "An evaluation is left out" in caplog.text
    assert not made_from(workspace).is_unchanged()


@pytest.mark.parametrize("file", ["team_metric.py", "team_metric/__init__.py"])
def test_metric_of_a_package_that_changed_has_the_report_made_again(workspace, tmp_path, monkeypatch, file):
    folder = tmp_path / "packages"
    information, code = folder / "team_metric-1.0.dist-info", folder / file
    for one in (information, code.parent):
        one.mkdir(parents=True, exist_ok=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: team-metric\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[rag_eval_pipeline.metrics]\nlength = team_metric:LENGTH\n")
    code.write_text("")
    monkeypatch.syspath_prepend(folder)
    made_from(workspace).save()
    assert made_from(workspace).is_unchanged()

    code.write_text("LENGTH = None\n")

    assert not made_from(workspace).is_unchanged()
