"""compare, history, pin, prune and ab as a person types them: what they print, what they write, how they exit."""

import json
import shutil
from xml.etree import ElementTree

import pytest
import typer
import yaml
from typer.testing import CliRunner

from rag_eval_pipeline.cli.evaluations import compare
from rag_eval_pipeline.cli.history import ab, history, pin, prune
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.results import results_path
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.formats.store import DatasetStore
from rag_eval_pipeline.reporting.regressions import write_comparisons

RAILWAY = "skarn-railway"
app = typer.Typer()
for command in (compare, history, pin, prune, ab):
    app.command()(command)


@pytest.fixture
def rag_eval(workspace):
    """Runs a command in the workspace; a fault of the input is raised."""

    def run(*words, code=0):
        result = CliRunner().invoke(app, [*map(str, words), "--workspace", str(workspace.root)])
        if isinstance(result.exception, InputError):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.stdout

    return run


@pytest.fixture
def ids(workspace):
    """The good system's evaluation and the weak one's, told apart by 40 questions that are about 12 documents."""
    (workspace.config / "verdicts.config.yaml").write_text("units: questions\n")
    return [
        evaluate(workspace, load_pair(workspace, RAILWAY, system))[1].evaluation_id
        for system in ("embedded", "embedded-weak")
    ]


def test_compare_prints_a_table_and_says_single_runs(rag_eval, ids):
    lines = rag_eval("compare", *ids, code=3).splitlines()

    assert lines[0] == f"{RAILWAY}: {ids[1]} against {ids[0]}"
    assert lines[1].startswith("Of single runs: ")
    [exact] = [line for line in lines if line.startswith("exact_match ")]
    assert exact.split()[1:4] == ["0.275", "->", "0.000"]
    assert "regressed: Exact match fell 27.5 points" in exact


def test_compare_counts_documents_where_that_is_set(rag_eval, ids, workspace, tmp_path):
    (workspace.config / "verdicts.config.yaml").write_text("units: documents\n")

    found = json.loads(rag_eval("compare", *ids, "--json"))["verdicts"]["exact_match"]

    # 11 answers of 40 became wrong, those of 7 documents: 8 metrics x 2^-7 is far above 0.01, and 10 are needed.
    assert (found["kind"], found["n"], found["estimate"]) == ("inconclusive", 40, -0.275)
    assert found["p_corrected"] == 7 * 2**-7
    assert found["sentence"].endswith("points, in 10 of its 20 groups by document.")


def test_compare_counts_questions_of_systems_that_answer_the_same_every_time(rag_eval, ids, workspace):
    """Eleven of 40 answers became wrong; no run would show anything else, whatever documents they are about."""
    (workspace.config / "verdicts.config.yaml").unlink()

    found = json.loads(rag_eval("compare", *ids, "--json", code=3))["verdicts"]["exact_match"]

    assert (found["kind"], found["confirmation"], found["is_clustered"]) == ("regressed", "not_needed", False)
    assert found["p_corrected"] == 8 * 2**-11


def test_compare_of_two_runs_that_may_differ_by_chance_counts_documents_and_says_why(rag_eval, ids, workspace):
    (workspace.config / "verdicts.config.yaml").unlink()
    for name in ids:
        evaluation = load_evaluation(workspace, name)
        evaluation.save(deterministic=False)

    found = json.loads(rag_eval("compare", *ids, "--json"))["verdicts"]["exact_match"]

    assert (found["kind"], found["is_clustered"], found["is_short_of_runs"]) == ("inconclusive", True, True)
    assert found["p_corrected"] == 7 * 2**-7
    assert "n = 40 in 20 groups by document, because fewer than 3 runs are pinned." in found["sentence"]


def test_files_without_their_dataset_are_compared_by_question_and_say_so(rag_eval, ids, workspace, tmp_path):
    (workspace.config / "verdicts.config.yaml").unlink()
    files = [shutil.copy(results_path(workspace, name), tmp_path) for name in ids]
    shutil.rmtree(workspace.evaluation_datasets)

    lines = rag_eval("compare", *files, code=3).splitlines()

    assert lines[2] == "The dataset is not here: each question counts by itself, also where questions share a document."


def test_an_improvement_and_the_same_answers_exit_0(rag_eval, ids):
    rag_eval("compare", ids[0], ids[0])
    regressed = json.loads(rag_eval("compare", *ids, "--json", code=3))["verdicts"]

    assert {name for name, found in regressed.items() if found["kind"] == "regressed"} >= {"exact_match"}
    assert regressed["exact_match"]["questions"][0].keys() == {"query_id", "before", "after"}


def test_results_files_are_compared_like_their_evaluations(rag_eval, ids, workspace, tmp_path):
    by_id = json.loads(rag_eval("compare", *ids, "--json", code=3))["verdicts"]
    files = [shutil.copy(results_path(workspace, name), tmp_path) for name in ids]
    by_file = json.loads(rag_eval("compare", *files, "--json", code=3))["verdicts"]

    figures = ("baseline_mean", "current_mean", "estimate", "n", "kind")
    assert {name: [found[figure] for figure in figures] for name, found in by_file.items()} == {
        name: [found[figure] for figure in figures] for name, found in by_id.items()
    }


def test_an_evaluation_whose_folder_was_pruned_is_compared_by_its_results(rag_eval, ids, workspace):
    shutil.rmtree(workspace.runs / ids[0])

    assert "regressed" in rag_eval("compare", *ids, code=3)


def test_junit_and_markdown_say_the_same(rag_eval, ids, tmp_path):
    junit, markdown = tmp_path / "junit.xml", tmp_path / "summary.md"
    rag_eval("compare", *ids, "--junit", junit, "--markdown", markdown, code=3)

    suite = ElementTree.parse(junit).getroot()
    failed = {case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None}
    rows = [line.split(" | ") for line in markdown.read_text().splitlines() if line.startswith("| ")]
    assert int(suite.get("failures")) == len(failed) > 0
    assert int(suite.get("tests")) == len(list(suite.iter("testcase")))
    assert {row[0].removeprefix("| ") for row in rows if row[3] == "regressed"} == failed
    assert "single runs" in markdown.read_text()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("compare", "nothing", "nowhere"), "missing_file"),
        (("compare", "/no/such.results.json", "/no/such.results.json"), "missing_file"),
        (("pin", RAILWAY, "embedded"), "no_evaluations"),
        (("pin", "../x", "embedded"), "bad_name"),
        (("history", "--sql", "DROP"), "bad_query"),
    ],
)
def test_faults_have_their_codes(words, code, rag_eval):
    with pytest.raises(InputError) as caught:
        rag_eval(*words)

    assert caught.value.code == code


def test_pin_ask_evaluates_what_is_missing(rag_eval, workspace):
    said = rag_eval("pin", RAILWAY, "embedded", "--ask", "--note", "first")

    [name] = [path.name for path in workspace.runs.glob("eval_run_*")]  # deterministic: one run stands for five
    assert said.splitlines()[0] == f"{RAILWAY} x embedded is compared with {name}."


def test_history_names_each_evaluations_part_and_what_was_said(rag_eval, ids, workspace):
    write_comparisons(workspace)
    evaluate(workspace, load_pair(workspace, RAILWAY, "embedded"))
    write_comparisons(workspace)

    lines = rag_eval("history", RAILWAY, "embedded").splitlines()

    assert len(lines) == 2
    assert lines[0].startswith(f"{ids[0]} (baseline)  {RAILWAY} x embedded  hit@1 1.000")
    assert lines[1].endswith(": nothing was flagged")


def test_history_exits_2_when_a_file_is_damaged(rag_eval, ids, workspace):
    results_path(workspace, ids[0]).write_text("{")

    assert len(rag_eval("history", code=2).splitlines()) == 1


def test_prune_says_what_it_would_do(rag_eval, ids):
    said = json.loads(rag_eval("prune", "--dry-run", "--json"))

    assert (said["dry_run"], said["removed"]) == (True, [])


def test_ab_writes_a_file_a_test_and_never_over_another(rag_eval, ids, workspace):
    said = [rag_eval("ab"), rag_eval("ab")]

    names = [f"ab_test_embedded-weak_vs_embedded_{number}.results.json" for number in ("001", "002")]
    assert [text.splitlines()[0].rpartition("/")[2] for text in said] == names
    record = json.loads((workspace.results / names[0]).read_text())
    kinds = {row["benchmark"]: row["verdicts"].get("exact_match", {}).get("kind") for row in record["benchmarks"]}
    assert kinds == {RAILWAY: "improved", "cairnmoor-observatory": None}
    assert record["benchmarks"][0]["reason"] == "no evaluation of embedded-weak, embedded"
    listed = DatasetStore(workspace.results.parent).list_evaluation_results()
    assert (len(listed.results), listed.findings) == (4, ())


def test_ab_json_has_the_evaluations_of_the_data_models(rag_eval, ids):
    (test,) = json.loads(rag_eval("ab", "--json"))

    found = {(one["evaluator_name"], one["target_event_id"]): one for one in test["evaluations"]}
    compared = [one["comparison_data"] for (name, _), one in found.items() if name == "ab_test_comparison"]
    assert all(0 <= one["preference_score"] <= 1 and one["sample_size"] > 0 for one in compared)
    assert compared
    temporal = found["temporal_exact_match", f"{RAILWAY}|embedded"]
    assert temporal["historical_scores"][-1] == temporal["current_score"]


def test_an_ab_test_of_a_system_that_is_not_there_is_refused(rag_eval, workspace, tmp_path):
    config = tmp_path / "ab.yaml"
    config.write_text(yaml.safe_dump({"tests": [{"a": "embedded", "b": "nobody"}]}))

    with pytest.raises(InputError) as caught:
        rag_eval("ab", "--config", config)

    assert (caught.value.code, caught.value.field) == ("no_system", "tests[0]")
