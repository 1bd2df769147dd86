"""A workspace that version 0.1.0 wrote in November 2026 is opened, continued and reported.

`workspace-2026-11.tar.xz` is one of 40 questions about the bundled Skarn Valley Railway. Recorded nights of 2 to 8
November were evaluated at 02:00 (`RAG_EVAL_NOW`) and reported, the first five pinned; on the 8th half of the answers are
wrong, and the rerun is due. The built-in system was evaluated once. Pages of the report are left
out: they are written again.
"""

import hashlib
import tarfile
from pathlib import Path

import pytest

from rag_eval_pipeline.workspace import Workspace

ARCHIVE = Path(__file__).parent / "workspace-2026-11.tar.xz"
BENCHMARK, SYSTEM = "skarn-railway", "night-train"
PINNED = [f"eval_run_2026110{day}_001" for day in range(2, 7)]
RESCORE = ["rag-eval", "rescore", BENCHMARK, SYSTEM, *PINNED]
CHANGE = "regressed: Exact match −47.5, F1 −47.5 points"


@pytest.fixture
def workspace(tmp_path):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path / "workspace", filter="data")
    return Workspace(tmp_path / "workspace")


def test_earlier_workspace_is_opened_continued_and_reported(workspace, rag_eval, monkeypatch):
    kept = [*workspace.results.glob("eval_run_*"), *workspace.runs.glob("eval_run_*/*.json*")]
    assert kept
    recorded = workspace.root / "data" / "answers"
    before = {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in kept}

    monkeypatch.setenv("RAG_EVAL_NOW", "2026-11-08T06:00:00Z")
    assert rag_eval("validate", *map(str, sorted(workspace.results.glob("*.results.json"))))[0] == 0
    assert f"{CHANGE} (awaits its rerun)" in rag_eval("status")[1]
    # The conversion's rules have changed as well, and what they wrote here has not: it is the same dataset.
    assert "[stale_conversion]. Convert it again: rag-eval convert" in rag_eval("evaluate", BENCHMARK)[2]
    assert rag_eval("convert", BENCHMARK)[0] == 0
    code, printed, told = rag_eval("evaluate", BENCHMARK, "--system", SYSTEM)
    assert (code, "40 questions, 0 failed" in printed) == (0, True), printed + told
    # Scores have moved since then: the answers are scored again, the system is not asked.
    assert f"[not_comparable]. Score the pinned answers again, {' '.join(RESCORE)}, and" in printed
    again = rag_eval(*RESCORE[1:])[1].split()
    assert rag_eval("pin", BENCHMARK, SYSTEM, *again)[0] == 0
    for hour in ("07", "11"):
        monkeypatch.setenv("RAG_EVAL_NOW", f"2026-11-08T{hour}:00:00Z")
        (recorded / f"2026-11-08T{hour}.jsonl").write_bytes((recorded / "2026-11-08T06.jsonl").read_bytes())
        assert rag_eval("evaluate", BENCHMARK, "--system", SYSTEM)[0] == 0
        code, printed, told = rag_eval("report")
    assert (code, "REGRESSED  Exact match 98 → 50" in told) == (0, True), printed + told

    assert f"{CHANGE} (confirmed by a rerun)" in rag_eval("status")[1]
    assert rag_eval("compare", BENCHMARK, SYSTEM)[0] == 3
    assert before == {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in kept}
