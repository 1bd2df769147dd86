"""An evaluation that is killed is resumed from its journal, and its scores equal those of an undisturbed one."""

import json
import signal
import subprocess
import sys
import zlib

import pytest

from rag_eval_pipeline.evaluation.results import results_path
from rag_eval_pipeline.evaluation.runs import newest_evaluation
from rag_eval_pipeline.formats.results import EvaluationResults
from tests.e2e.reading import rag_eval

pytestmark = pytest.mark.browser

BENCHMARK = "kg-rag-sec10q"
QUESTIONS = 74
KILLED_AT = 60
TORN_AT = 30  # the line that a power cut leaves half written
EVALUATE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.workspace import Workspace

def die(done, total):
    if done == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

workspace = Workspace(Path(sys.argv[1]))
evaluate(workspace, load_pair(workspace, sys.argv[3], "embedded"), lambda phase: die)
"""


def whole_lines(journal):
    """The lines of a journal that end and whose checksum is right."""
    lines = journal.read_bytes().split(b"\n")[:-1]
    return [line for line in lines if b"%08x" % zlib.crc32(line[9:]) == line[:8]]


def query_ids(lines):
    return [json.loads(line[9:])["query_id"] for line in lines]


def torn(data):
    """Cut a journal in the middle of a line, as a power cut may leave it."""
    lines = data.split(b"\n")
    return b"\n".join(lines[: TORN_AT - 1]) + b"\n" + lines[TORN_AT - 1][: len(lines[TORN_AT - 1]) // 2]


def test_killed_evaluation_asks_only_what_is_missing(lend, results):
    workspace = lend(BENCHMARK)
    killed = subprocess.run(
        [sys.executable, "-c", EVALUATE_AND_DIE, workspace.root, str(KILLED_AT), BENCHMARK],
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    evaluation = newest_evaluation(workspace, BENCHMARK, "embedded")
    assert len(whole_lines(evaluation.journal)) >= KILLED_AT - 20  # 20 answers are written to disk together
    evaluation.journal.write_bytes(torn(evaluation.journal.read_bytes()))
    kept = whole_lines(evaluation.journal)
    assert len(kept) == TORN_AT - 1

    done = rag_eval("evaluate", BENCHMARK, "--system", "embedded", "--json", "--workspace", workspace.root)

    assert (done.returncode, done.stderr) == (0, "")
    [report] = json.loads(done.stdout)
    assert report["evaluation_id"] == evaluation.record.evaluation_id
    assert (report["counts"]["resumed"], report["counts"]["asked"]) == (len(kept), QUESTIONS - len(kept))
    journal = whole_lines(evaluation.journal)
    assert journal[: len(kept)] == kept
    assert sorted(query_ids(journal), key=int) == [str(number) for number in range(QUESTIONS)]
    resumed = EvaluationResults.read(results_path(workspace, report["evaluation_id"]))
    clean = results[BENCHMARK, "embedded"]
    for part in ("fingerprints", "retrieval_metrics", "citation_metrics", "answer_quality_metrics"):
        assert getattr(resumed, part) == getattr(clean, part)
    assert [row.generated_answer for row in resumed.query_results] == [
        row.generated_answer for row in clean.query_results
    ]
