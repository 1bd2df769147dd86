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

RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"


@pytest.fixture
def paths(workspace):
    return workspace.benchmark(OBSERVATORY)


def test_a_conversion_by_other_code_is_no_conversion(paths, monkeypatch):
    digest = source_digest(paths)
    assert is_converted(paths, digest)
    monkeypatch.setattr("rag_eval_pipeline.conversion.stamp.CODE_VERSION", "conversion/other")

    assert not is_converted(paths, digest)
    with pytest.raises(InputError) as error:
        current_stamp(paths, digest)
    assert error.value.code == "stale_conversion"


@pytest.mark.parametrize("step", list(STEPS))
def test_a_step_done_by_other_code_is_to_be_done_again(step, paths, monkeypatch):
    digest = source_digest(paths)
    assert require_step(paths, step, digest).step == step
    monkeypatch.setattr("rag_eval_pipeline.conversion.stamp.CODE_VERSION", "conversion/other")

    with pytest.raises(InputError) as error:
        require_step(paths, step, digest)

    assert error.value.code == "step_stale"


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


def test_a_step_on_its_own_holds_the_benchmark_while_it_runs(workspace, paths):
    free = []

    run_step(workspace, OBSERVATORY, "corpus", progress=lambda done, total: free.append(is_free(paths)))

    assert free
    assert not any(free)
    assert is_free(paths)


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
