"""The comparison of two commits' products names each value that moved, and nothing that only a clock moved."""

import importlib.util
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import REPOSITORY

_spec = importlib.util.spec_from_file_location("golden", REPOSITORY / "tools" / "golden.py")
golden = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(golden)


def result(*, f1=0.5, low=0.4, metric="f1", answer="yes", evaluation_id="eval_run_20260101_001", latency=3.0):
    return {
        "evaluation_id": evaluation_id,
        "timestamp": f"at {latency}",
        "benchmark": "harbour",
        "system": "replayed",
        "quality_assurance": f"4 score files of {evaluation_id}",
        "answer_quality_metrics": {
            metric: {"value": f1, "confidence_interval": [low, 0.6], "n_scored": 2, "average_latency_ms": latency}
        },
        "query_results": [{"query_id": "7", "generated_answer": answer, "latency_ms": latency}],
    }


def write_workspace(root: Path, *, answers=("a", "b"), pdf=b"%PDF", **values) -> Path:
    files = {
        "data/evaluation/results/r.results.json": json.dumps(result(**values)).encode(),
        "data/reports/leaderboard.json": json.dumps([{"benchmark": "harbour", "queries": 2}]).encode(),
        "corpus/harbour/tide.pdf": pdf,
        "data/datasets/harbour/conversion.json": str(root).encode(),
        "data/datasets/harbour/.steps/times.jsonl": str(root).encode(),
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    pq.write_table(pa.table({"answer": list(answers)}), root / "data/datasets/harbour/questions.parquet")
    return root


CHANGES = {
    "a clock and an id": ({"latency": 9.0, "evaluation_id": "eval_run_20260102_004"}, []),
    "a value": ({"f1": 0.51}, ["results harbour replayed answer_quality_metrics f1 value"]),
    "an interval": ({"low": 0.3}, ["results harbour replayed answer_quality_metrics f1 confidence_interval"]),
    "an answer": ({"answer": "no"}, ["results harbour replayed query_results 7 generated_answer"]),
    "a document's bytes": ({"pdf": b"%PDG"}, ["corpus/harbour/tide.pdf"]),
    "a table": ({"answers": ("a", "c")}, ["data/datasets/harbour/questions.parquet answer"]),
}


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES)
def test_golden_names_what_moved(tmp_path, change, expected):
    before, after = write_workspace(tmp_path / "before"), write_workspace(tmp_path / "after", **change)

    assert [difference.where for difference in golden.compare(before, after, renames={})] == expected


def test_golden_takes_a_renamed_metric_for_the_same(tmp_path):
    before, after = write_workspace(tmp_path / "before"), write_workspace(tmp_path / "after", metric="token_f1")

    assert golden.compare(before, after, renames={"f1": "token_f1"}) == []


def test_golden_fails_unless_the_difference_is_allowed(tmp_path, capsys):
    differences = golden.compare(
        write_workspace(tmp_path / "before"), write_workspace(tmp_path / "after", f1=0.51), renames={}
    )

    assert golden.print_differences(differences, []) == 1
    assert "results harbour replayed answer_quality_metrics f1 value: 0.5 -> 0.51" in capsys.readouterr().out
    assert golden.print_differences(differences, ["results * answer_quality_metrics f1 *"]) == 0
