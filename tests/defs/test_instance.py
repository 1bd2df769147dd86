"""What `rag-eval` did without Dagster is shown by the instance of its workspace, and no other instance hears of it."""

import subprocess
import sys

import dagster as dg
import pytest

from rag_eval_pipeline import cli
from rag_eval_pipeline.defs.partitions import pair_key
from rag_eval_pipeline.evaluation.runs import SCORE_FILES

RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"
PAIR = pair_key(OBSERVATORY, "embedded")
EVALUATION = ("responses", *SCORE_FILES, "evaluation_results")


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "instance"
    folder.mkdir()
    return folder


@pytest.fixture
def rag_eval(workspace, monkeypatch, capsys):
    """Runs a command on the workspace; returns exit code, standard output, standard error."""
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.delenv("RAG_EVAL_WORKSPACE", raising=False)

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["rag-eval", *arguments, "--workspace", str(workspace.root)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        return exit_.value.code or 0, captured.out, captured.err

    return run


def materialized(folder, *assets):
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        return {asset: instance.get_materialized_partitions(dg.AssetKey(asset)) for asset in assets}


def test_evaluate_reports_to_the_instance_of_dagster_home(rag_eval, workspace, home, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("RAG_EVAL_WORKSPACE", str(workspace.root))

    code, out, err = rag_eval("evaluate", OBSERVATORY, "--system", "embedded")

    assert (code, err) == (0, "")
    assert materialized(home, *EVALUATION) == dict.fromkeys(EVALUATION, {str(PAIR)})
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert instance.get_dynamic_partitions("benchmarks") == [OBSERVATORY]
        assert instance.get_dynamic_partitions("systems") == ["embedded"]
        [record] = instance.fetch_materializations(dg.AssetKey("evaluation_results"), limit=1).records
    figures = record.asset_materialization.metadata
    assert figures["evaluation_id"].value == out.partition(":")[0]
    assert 0 < figures["f1"].value < 1


def test_convert_and_report_report_to_the_instance_of_the_workspace(rag_eval, workspace):
    own = workspace.root / ".dagster"
    own.mkdir()

    assert rag_eval("convert", OBSERVATORY)[0] == 0
    assert rag_eval("report")[0] == 0

    conversion = ("questions", "corpus", "corpus_text", "train_json", "evaluation_dataset", "ground_truth")
    assert materialized(own, *conversion) == dict.fromkeys(conversion, {OBSERVATORY})
    with dg.DagsterInstance.from_config(str(own)) as instance:
        for asset in ("leaderboard", "regressions", "report"):
            assert len(instance.fetch_materializations(dg.AssetKey(asset), limit=2).records) == 1


def test_evaluate_reports_nothing_to_the_instance_of_another_workspace(rag_eval, home, monkeypatch, tmp_path):
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("RAG_EVAL_WORKSPACE", str(tmp_path / "other"))

    assert rag_eval("evaluate", OBSERVATORY, "--system", "embedded")[0] == 0

    assert list(home.iterdir()) == []


def test_evaluate_succeeds_where_the_instance_cannot_be_used(rag_eval, workspace):
    own = workspace.root / ".dagster"
    own.mkdir()
    (own / "dagster.yaml").write_text("storage: {postgres: nonsense}\n")

    code, out, err = rag_eval("evaluate", OBSERVATORY, "--system", "embedded")

    assert (code, out.startswith("eval_run_"), err.count("\n")) == (0, True, 1)
    assert f"{own}: Dagster has no record of this and may show it as missing" in err


def test_evaluate_does_not_load_dagster_without_an_instance(workspace, tmp_path):
    code = (
        "import sys\n"
        "from rag_eval_pipeline.cli import app\n"
        f"app(['evaluate', {OBSERVATORY!r}, '--system', 'embedded'], standalone_mode=False)\n"
        "print('dagster' in sys.modules)\n"
    )
    environment = {"PATH": "", "DAGSTER_HOME": str(tmp_path / "nowhere"), "RAG_EVAL_WORKSPACE": str(workspace.root)}

    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "False"
