"""What an evaluation would take is known from the pair's newest answers, without a look at all evaluations there are."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from rag_eval_pipeline.evaluation.estimating import LOOKED_AT, Measured, newest_measured
from rag_eval_pipeline.evaluation.responses_file import write_responses
from rag_eval_pipeline.evaluation.runs import load_evaluation, pair_pointer
from rag_eval_pipeline.systems.answer import RagAnswer, Usage
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.made_runs import made_evaluation

PAIR = SimpleNamespace(paths=SimpleNamespace(name="b"), system="s")


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)


def answered(workspace, day, tokens, *, benchmark="b", system="s", state="published"):
    """An evaluation with one answer that took so many tokens."""
    name = made_evaluation(workspace, day, system=system, state=state)
    evaluation = load_evaluation(workspace, name)
    usage = Usage(tokens, 0.0, 2, tokens, 0)
    answer = RagAnswer(
        query_id="0", status="ok", answer="a", abstained=False, contexts=(), citations=(), latency_ms=1.0, usage=usage
    )  # fmt: skip
    write_responses(evaluation.responses, [answer])
    if benchmark != "b":
        pointer = pair_pointer(workspace, benchmark, system)
        pointer.parent.mkdir(parents=True)
        pointer.write_text(json.dumps({"evaluation_id": name}))
        evaluation.save(benchmark=benchmark)
    return name


def test_the_newest_of_the_pair_is_the_basis(workspace):
    answered(workspace, 1, 100)
    newest = answered(workspace, 2, 300)

    assert newest_measured(workspace, PAIR) == Measured(newest, 1, 2, 300, 0.0)


def test_of_an_unfinished_one_the_one_before_is_the_basis(workspace):
    before = answered(workspace, 1, 100)
    answered(workspace, 2, 300, state="open")

    assert newest_measured(workspace, PAIR).evaluation_id == before


def test_another_benchmark_of_the_system_is_better_than_nothing_and_worse_than_the_pair(workspace):
    other = answered(workspace, 9, 100, benchmark="c")
    answered(workspace, 9, 100, system="t")
    assert newest_measured(workspace, PAIR).evaluation_id == other

    own = answered(workspace, 1, 200)
    assert newest_measured(workspace, PAIR).evaluation_id == own


def test_nothing_measured_is_no_basis(workspace):
    assert newest_measured(workspace, PAIR) is None


def test_records_are_not_read_for_being_there(workspace, monkeypatch):
    newest = answered(workspace, 500, 100)
    record = (workspace.runs / newest / "evaluation.json").read_text()
    for number in range(3 * LOOKED_AT):
        folder = workspace.runs / f"eval_run_20200101_{number:03d}"
        folder.mkdir()
        (folder / "evaluation.json").write_text(record.replace(newest, folder.name).replace('"b"', '"elsewhere"'))
    reads = []
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: reads.append(path.name) or read_bytes(path))

    assert newest_measured(workspace, PAIR).evaluation_id == newest
    assert reads.count("evaluation.json") == 1

    load_evaluation(workspace, newest).save(state="open")
    reads.clear()
    assert newest_measured(workspace, PAIR) is None
    assert reads.count("evaluation.json") <= LOOKED_AT + 1
