"""Steps never mix two versions of a source, and only a conversion that went well to its end leaves a stamp."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rag_eval_pipeline.conversion.convert import convert, run_step
from rag_eval_pipeline.conversion.stamp import CHECKS, Stamp, is_converted, source_digest
from rag_eval_pipeline.conversion.steps import STEPS
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.journal import read_journal
from rag_eval_pipeline.workspace import Workspace
from tests.conversion.conftest import write_benchmark

NAME = "cairnmoor-observatory"


@pytest.fixture
def paths(workspace):
    return workspace.benchmark(NAME)


def test_first_step_takes_the_stamp_away_and_the_last_gives_it_back(workspace, paths):
    paths.stamp.write_text(paths.stamp.read_text()[:100])
    assert not is_converted(paths, source_digest(paths))  # a damaged stamp is no stamp

    reports = [run_step(workspace, NAME, "questions")]
    assert not paths.stamp.exists()
    reports += [run_step(workspace, NAME, step) for step in list(STEPS)[1:]]

    assert is_converted(paths, source_digest(paths))
    assert Stamp.read(paths.stamp).counts["train_json.accepted"] == 16
    found = {report.record.step: {check.name: check for check in report.record.checks} for report in reports}
    # Dagster needs the checks before anything has run.
    assert {step: set(checks) for step, checks in found.items()} == {step: set(facts) for step, facts in CHECKS.items()}
    assert [
        (step, name)
        for step, checks in found.items()
        for name, check in checks.items()
        if check.blocking and not CHECKS[step][name].may_block
    ] == []


def test_steps_refuse_what_failed_or_was_made_from_another_source(workspace, paths):
    record = paths.steps / "train_json.json"
    content = json.loads(record.read_text())
    content["checks"] = [check | {"passed": check["name"] != "rows_conserved"} for check in content["checks"]]
    record.write_text(json.dumps(content))
    with pytest.raises(InputError) as error:
        run_step(workspace, NAME, "evaluation_dataset")
    assert (error.value.code, error.value.found) == ("step_failed", "'rows_conserved'")

    paths.spec.write_text(paths.spec.read_text() + "\n# edited\n")
    for step in list(STEPS)[1:]:
        with pytest.raises(InputError, match=f"rag-eval convert {NAME}") as error:
            run_step(workspace, NAME, step)
        assert error.value.code == "step_stale"


def test_converting_again_writes_the_same_bytes(workspace, paths):
    def product():
        files = [*paths.dataset.rglob("*"), *paths.corpus.iterdir(), *workspace.root.glob("data/evaluation/*/*.json")]
        # A step's record says what the run had to do, and the lock who held it; neither is a product.
        return {p: p.read_bytes() for p in files if p.is_file() and p.name != ".lock" and p.parent != paths.steps}

    before = product()
    for table in (paths.documents, paths.pages):  # a damaged table is made again
        table.write_bytes(table.read_bytes()[:200])
    convert(workspace, NAME)

    after = product()
    assert before.keys() == after.keys()
    assert [path.name for path in before if before[path] != after[path]] == []


FAILED_CHECKS = {
    "counts that do not come out": ("expect: {questions: 17}", "'questions': {'expected': 17, 'found': 16}"),
    "no question left": ('where: "false"', "questions_left"),
}


@pytest.mark.parametrize(("setting", "found"), FAILED_CHECKS.values(), ids=FAILED_CHECKS)
def test_conversion_with_a_failed_check_ends_without_stamp(workspace, paths, setting, found):
    lines = [line for line in paths.spec.read_text().splitlines() if not line.startswith("expect")]
    paths.spec.write_text("\n".join([*lines, setting]))

    with pytest.raises(InputError) as error:
        convert(workspace, NAME)

    assert error.value.code == "check_failed"
    assert found in str(error.value)
    assert not paths.stamp.exists()


@pytest.mark.fault(26)
def test_corpus_link_is_relative_and_never_replaces_a_folder(workspace, paths):
    assert str(paths.corpus_link.readlink()) == f"../../../corpus/{NAME}"
    assert {path.suffix for path in paths.corpus.iterdir()} == {".pdf"}
    paths.corpus_link.unlink()
    paths.corpus_link.symlink_to("/elsewhere")
    convert(workspace, NAME)
    assert str(paths.corpus_link.readlink()) == f"../../../corpus/{NAME}"
    paths.corpus_link.unlink()
    paths.corpus_link.mkdir()

    with pytest.raises(InputError, match="foreign_folder"):
        convert(workspace, NAME)


PAGES_SPEC = """
name: scratch
version: 1.0.0
source: pages.jsonl
questions: "SELECT q AS question, 'a' AS answer, [{'url': url}] AS contexts FROM source"
documents: SELECT url, html FROM source
"""
CONVERT_AND_DIE = """
import os, signal, sys
from pathlib import Path
from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.workspace import Workspace

def die(step):
    return lambda done, total: os.kill(os.getpid(), signal.SIGKILL) if step == "corpus" and done == 3 else None

convert(Workspace(Path(sys.argv[1])), "scratch", progress=die)
"""


@pytest.fixture
def temporary():
    """A folder for temp files that any user may enter: the browser of a root process runs as nobody."""
    folder = Path(tempfile.mkdtemp(prefix="rag-eval-steps-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_killed_conversion_renders_only_the_rest(tmp_path, temporary):
    workspace = Workspace(tmp_path / "workspace")
    rows = (
        {"q": f"{n}?", "url": f"http://x.example/{n}", "html": f"<!doctype html><title>{n}</title><p>Page {n} of five."}
        for n in range(5)
    )
    paths = write_benchmark(workspace.root, PAGES_SPEC, {"pages.jsonl": "\n".join(map(json.dumps, rows))})
    command = [sys.executable, "-c", CONVERT_AND_DIE, str(workspace.root)]
    killed = subprocess.run(command, check=False, env={**os.environ, "TMPDIR": str(temporary)})
    assert killed.returncode == -signal.SIGKILL
    kept = len(list(read_journal(paths.corpus_journal)))
    counted = []

    convert(workspace, "scratch", progress=lambda step: lambda done, total: counted.append((step, done, total)))

    assert 1 <= kept <= 3
    assert counted[0] == ("corpus", kept, 5)
    assert not paths.corpus_journal.exists()
    assert is_converted(paths, source_digest(paths))


def test_what_a_killed_conversion_has_left_goes_with_the_next(workspace):
    paths = workspace.benchmark("skarn-railway")
    left = [
        paths.dataset / ".tmp-a",
        paths.steps / ".tmp-b",
        paths.corpus.parent / ".tmp-skarn-railway" / "link",
    ]
    another = paths.corpus.parent / ".tmp-cairnmoor-observatory"
    for path in (*left, another):
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")

    run_step(workspace, "skarn-railway", "questions")

    assert [path for path in left if path.exists()] == []
    assert {path.name for path in workspace.root.rglob(".*") if path.is_dir()} == {".steps"}
    assert another.exists()
