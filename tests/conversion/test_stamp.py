"""What a stamp vouches for: this source, this code, checks that passed, and a conversion that ran alone."""

import json
import os
import subprocess
import sys

import pytest

from rag_eval_pipeline.conversion.stamp import Stamp, current_stamp, is_converted, require_step, source_digest
from rag_eval_pipeline.conversion.steps import STEPS, convert, run_step
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.storage.lock import locked
from tests.conversion.conftest import PLAIN, write_benchmark

RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"


@pytest.fixture
def paths(workspace):
    return workspace.benchmark(OBSERVATORY)


def test_a_conversion_by_other_code_is_no_conversion(paths, monkeypatch):
    digest = source_digest(paths)
    assert is_converted(paths, digest)
    monkeypatch.setattr("rag_eval_pipeline.conversion.stamp.CODE_VERSION", "conversion/other")

    assert not is_converted(paths, digest)
    with pytest.raises(InputError, match="stale_conversion"):
        current_stamp(paths, digest)
    with pytest.raises(InputError, match="step_stale"):
        require_step(paths, "train_json", digest)


def test_the_last_steps_own_check_keeps_the_stamp_back(workspace, paths, monkeypatch):
    paths.stamp.unlink()
    with monkeypatch.context() as patch:
        # No benchmark is known whose .gt.json is written wrong, so the finding is made up.
        patch.setattr("rag_eval_pipeline.conversion.steps.validate", lambda path: [f"{path}: a finding"])
        report = run_step(workspace, OBSERVATORY, "ground_truth")
    assert report.record.failed == ["ground_truth_validates"]
    assert not paths.stamp.exists()

    run_step(workspace, OBSERVATORY, "ground_truth")

    assert is_converted(paths, source_digest(paths))
    assert Stamp.read(paths.stamp).checks["ground_truth.ground_truth_validates"] is True


def write_questions(paths, *, foreign):
    """A hundred questions with one gold text each, some of them texts that no document has."""
    source = paths.source / "questions.jsonl"
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    single = [row for row in rows if len(row["evidence"]) == 1]
    hundred = [{**single[n % len(single)], "id": f"q-{n}"} for n in range(100)]
    for row in hundred[:foreign]:
        row["evidence"] = [{**row["evidence"][0], "text": "Jackdaws love my big sphinx of quartz, said the vicar."}]
    source.write_text("".join(json.dumps(row) + "\n" for row in hundred))
    paths.spec.write_text(paths.spec.read_text().replace("expect: {questions: 40}", "expect: {questions: 100}"))


@pytest.mark.parametrize(("foreign", "passed"), [(3, True), (4, False)])
def test_97_of_100_gold_texts_are_enough_and_fewer_warn_without_blocking(foreign, passed, workspace):
    paths = workspace.benchmark(RAILWAY)
    write_questions(paths, foreign=foreign)

    reports = {report.record.step: report for report in convert(workspace, RAILWAY, replace=True)}

    check = next(c for c in reports["evaluation_dataset"].record.checks if c.name == "gold_texts_located")
    assert (check.passed, check.blocking) == (passed, False)
    assert (check.numbers["located"], check.numbers["gold_texts"]) == (100 - foreign, 100)
    assert [line.partition(":")[0] for line in check.numbers["not_located"]] == [
        f"question {n}" for n in range(foreign)
    ]
    assert is_converted(paths, source_digest(paths))
    assert Stamp.read(paths.stamp).checks["evaluation_dataset.gold_texts_located"] is passed


def is_free(paths):
    """Whether another process would get the benchmark at this moment; a second descriptor is as good as another."""
    try:
        with locked(paths.lock, holder="a test", exclusive=False, wait_seconds=0):
            return True
    except ServiceError:
        return False


def test_a_conversion_lets_nobody_in_between_its_steps(workspace, paths):
    free = {}

    convert(workspace, OBSERVATORY, done=lambda report: free.update({report.record.step: is_free(paths)}))

    assert free == dict.fromkeys(STEPS, False)
    assert is_free(paths)


FILES = {"questions.csv": "q,a\nx,y\n", "docs/a.html": "<p>a"}


def test_source_digest_depends_on_names_and_contents_and_on_nothing_else(tmp_path):
    one = write_benchmark(tmp_path / "one", PLAIN, FILES)
    two = write_benchmark(tmp_path / "two", PLAIN, dict(reversed(FILES.items())))
    os.utime(two.source / "questions.csv", (1, 1))

    assert source_digest(one) == source_digest(two)


def test_source_digest_changes_with_a_changed_byte_a_new_file_and_a_new_name_change_it(benchmark):
    paths = benchmark(PLAIN, FILES)
    digests = [source_digest(paths)]

    (paths.source / "docs" / "a.html").write_text("<p>bb")
    digests.append(source_digest(paths))
    (paths.source / "docs" / "b.html").write_text("")
    digests.append(source_digest(paths))
    (paths.source / "docs" / "b.html").rename(paths.source / "docs" / "c.html")
    digests.append(source_digest(paths))
    paths.spec.write_text("broken: [")
    digests.append(source_digest(paths))

    assert len(set(digests)) == len(digests)


def test_source_digest_reads_no_links(benchmark, tmp_path):
    paths = benchmark(PLAIN, FILES)
    before = source_digest(paths)

    os.symlink(tmp_path, paths.source / "loop")
    os.symlink("/dev/zero", paths.source / "endless")

    assert source_digest(paths) == before


CONVERT = """
import sys
from pathlib import Path
from rag_eval_pipeline.conversion.steps import convert
from rag_eval_pipeline.workspace import Workspace

sys.stdin.readline()
convert(Workspace(Path(sys.argv[1])), sys.argv[2])
"""


def test_two_processes_that_convert_a_benchmark_at_once_both_end_well(workspace, paths, tmp_path):
    paths.spec.write_text(paths.spec.read_text() + "\n# edited\n")
    command = [sys.executable, "-c", CONVERT, str(workspace.root), OBSERVATORY]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    pipe = subprocess.PIPE
    both = [subprocess.Popen(command, stdin=pipe, stderr=pipe, text=True, env=environment) for _ in range(2)]

    for process in both:  # loaded by now or soon: the line lets both begin together
        process.stdin.write("go\n")
        process.stdin.flush()
    errors = [process.communicate()[1] for process in both]

    assert [(process.returncode, error) for process, error in zip(both, errors, strict=True)] == [(0, ""), (0, "")]
    assert is_converted(paths, source_digest(paths))
