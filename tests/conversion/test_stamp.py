"""What a stamp vouches for: this source, this code, checks that passed, and a conversion that ran alone."""

import json
import os
import subprocess
import sys

import pytest

from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.conversion.stamp import Stamp, current_stamp, is_converted, require_step, source_digest
from rag_eval_pipeline.conversion.steps import STEPS
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.storage.lock import locked
from tests.conversion.conftest import PLAIN, write_benchmark

RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"


@pytest.fixture
def paths(workspace):
    return workspace.benchmark(OBSERVATORY)


def test_conversion_by_other_code_is_no_conversion(paths, monkeypatch):
    digest = source_digest(paths)
    assert is_converted(paths, digest)
    monkeypatch.setattr("rag_eval_pipeline.conversion.stamp.CODE_VERSION", "conversion/other")

    assert not is_converted(paths, digest)
    with pytest.raises(InputError, match="stale_conversion"):
        current_stamp(paths, digest)
    with pytest.raises(InputError, match="step_stale"):
        require_step(paths, "train_json", digest)


def test_settings_of_evaluations_make_no_conversion_stale(paths):
    text = paths.spec.read_text()
    digest = source_digest(paths)
    for extra in ("evaluation: {measures: [hit@1]}\n", "evaluation:\n  judge:\n    kind: none\n", "evaluation: [\n"):
        paths.spec.write_text(f"{text}{extra}")
        assert is_converted(paths, source_digest(paths)) is not extra.endswith("[\n")
        paths.spec.write_text(f"{extra}{text}")
        assert is_converted(paths, source_digest(paths)) is not extra.endswith("[\n")
    paths.spec.write_text(f"evaluation: {{}}\n{text}# edited\n")

    assert source_digest(paths) != digest


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


def test_97_of_100_gold_texts_are_enough_and_fewer_warn_without_blocking(workspace):
    paths = workspace.benchmark(RAILWAY)
    for foreign, passed in ((3, True), (4, False)):
        write_questions(paths, foreign=foreign)

        reports = {report.record.step: report for report in convert(workspace, RAILWAY, replace=True)}

        check = next(c for c in reports["evaluation_dataset"].record.checks if c.name == "gold_texts_located")
        assert (check.passed, check.blocking) == (passed, False)
        assert (check.numbers["located"], check.numbers["gold_texts"]) == (100 - foreign, 100)
        found = [line.partition(":")[0] for line in check.numbers["not_located"]]
        assert found == [f"question {n}" for n in range(foreign)]
        assert Stamp.read(paths.stamp).checks["evaluation_dataset.gold_texts_located"] is passed


FILES = {"questions.csv": "q,a\nx,y\n", "docs/a.html": "<p>a"}


def test_source_digest_depends_on_names_and_contents_and_on_nothing_else(tmp_path):
    paths = write_benchmark(tmp_path / "one", PLAIN, FILES)
    two = write_benchmark(tmp_path / "two", PLAIN, dict(reversed(FILES.items())))
    os.utime(two.source / "questions.csv", (1, 1))
    os.symlink(tmp_path, two.source / "loop")
    os.symlink("/dev/zero", two.source / "endless")
    digests = [source_digest(paths)]
    assert source_digest(two) == digests[0]

    (paths.source / "docs" / "a.html").write_text("<p>bb")
    digests.append(source_digest(paths))
    (paths.source / "docs" / "b.html").write_text("")
    digests.append(source_digest(paths))
    (paths.source / "docs" / "b.html").rename(paths.source / "docs" / "c.html")
    digests.append(source_digest(paths))
    paths.spec.write_text("broken: [")
    digests.append(source_digest(paths))

    assert len(set(digests)) == len(digests)


CONVERT = """
import sys
from pathlib import Path
from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.workspace import Workspace

print("ready", flush=True)
convert(Workspace(Path(sys.argv[1])), sys.argv[2])
"""


def test_two_processes_that_convert_a_benchmark_at_once_both_end_well(workspace, paths, tmp_path):
    """No step of one is between two steps of the other."""
    paths.spec.write_text(paths.spec.read_text() + "\n# edited\n")
    command = [sys.executable, "-c", CONVERT, str(workspace.root), OBSERVATORY]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    other = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    free = {}

    def wait_for_the_other(report):
        if not free:
            other.stdout.readline()  # it is loaded, and waits for the lock
        free[report.record.step] = is_free(paths)

    convert(workspace, OBSERVATORY, done=wait_for_the_other)

    assert free == dict.fromkeys(STEPS, False)
    assert (other.communicate()[1], other.returncode) == ("", 0)
    assert is_free(paths)
    assert is_converted(paths, source_digest(paths))


def is_free(paths):
    """Whether another process would get the benchmark at this moment; a second descriptor is as good as another."""
    try:
        with locked(paths.lock, holder="a test", exclusive=False, wait_seconds=0):
            return True
    except ServiceError:
        return False
