"""The commands compare, history, pin and ab: what they print and write, and how they exit."""

import json
import re
import shutil
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from typer.testing import CliRunner

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation, published_evaluations
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.score_tables import QueryScores, read_scores, write_scores
from rag_eval_pipeline.monitoring.baselines import pin_first_nights
from rag_eval_pipeline.monitoring.causes import WorseQuestion
from rag_eval_pipeline.monitoring.comparison_files import write_junit, write_markdown
from rag_eval_pipeline.monitoring.history import read_history
from rag_eval_pipeline.monitoring.regressions import write_comparisons
from rag_eval_pipeline.monitoring.status import read_status
from rag_eval_pipeline.monitoring.verdict_records import Comparison, MovedQuestion
from rag_eval_pipeline.monitoring.weekly import run_ab_tests
from rag_eval_pipeline.workspace import Workspace
from tests.json_server import json_server
from tests.monitoring.made_nights import FIRST, publish_night, register
from tests.verdict_examples import verdict_of

RAILWAY = "skarn-railway"


@pytest.fixture
def rag_eval(evaluated):
    """Run a command in the workspace and return what it prints; in stderr where it fails."""

    def run(*words, code=0):
        done = CliRunner().invoke(app, [*map(str, words), "--workspace", str(evaluated.root)])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == code, done.output
        return done.stdout

    return run


@pytest.fixture
def ids(evaluated):
    """The good system's evaluation and the weak one's, which differ in 40 questions that are about 12 documents."""
    by_pair = read_history(evaluated).by_pair
    return [by_pair[RAILWAY, system][-1].evaluation_id for system in ("embedded", "embedded-weak")]


@pytest.fixture
def settings(evaluated):
    return evaluated.config / "verdicts.config.yaml"


def exact_match(text):
    return json.loads(text)["verdicts"]["exact_match"]


def test_compare_prints_a_table_and_writes_it_as_files(rag_eval, ids, tmp_path):
    junit, markdown, html = (tmp_path / name for name in ("junit.xml", "summary.md", "page.html"))
    files = ("--junit", junit, "--markdown", markdown, "--html", html)

    lines = rag_eval("compare", *ids, *files, code=3).splitlines()

    assert f"<h1>{ids[1]} against {ids[0]}</h1>" in html.read_text()

    assert lines[0].startswith("REGRESSED  Exact match 28 → 0 (−27.5 points, p = 0.")
    assert ", 0.01 is needed)" in lines[0]
    assert lines[1] == f"{RAILWAY}: {ids[1]} against {ids[0]}"
    assert lines[2].startswith("Of single runs: ")
    [exact] = [line for line in lines if line.startswith("Exact match ")]
    assert exact.split()[2:5] == ["0.275", "->", "0.000"]
    assert "regressed: Exact match fell 27.5 points" in exact
    worst = lines[lines.index("Questions that got worse most:") + 1 :]
    assert len(worst) == 3 * 4
    assert [line.split()[0] for line in worst[1:4]] == ["expected", "before", "now"]
    assert worst[1].split()[1:] == worst[2].split()[1:] != worst[3].split()[1:]
    text = markdown.read_text()
    assert "**Regressed: Exact match 28 → 0 (" in text
    [*_, first, _, _] = text.splitlines()
    # The id that users know, the question and the answers, as in the terminal.
    assert first.startswith(f"| `{worst[0].split()[0]}` | `{worst[0].split(maxsplit=1)[1]}` | ")
    assert [cell.strip() for cell in first.split("|")[3:6]] == [f"`{line.split(maxsplit=1)[1]}`" for line in worst[1:4]]
    assert "- question " not in text
    suite = ElementTree.parse(junit).getroot()
    failed = {case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None}
    rows = [line.split(" | ") for line in markdown.read_text().splitlines() if line.startswith("| ")]
    assert int(suite.get("failures")) == len(failed) > 0
    assert int(suite.get("tests")) == len(list(suite.iter("testcase")))
    assert {row[0].removeprefix("| ") for row in rows if row[3] == "regressed"} == failed
    assert "single runs" in markdown.read_text()


def test_junit_is_valid_xml_whatever_ids_hold(tmp_path):
    moved = (MovedQuestion(query_id="q\x02\ufffe1", before=1.0, after=0.0),)
    verdicts = {"f1": verdict_of("regressed").model_copy(update={"questions": moved})}
    row = Comparison(kind="evaluations", benchmark="b\x01", old="eval\x1b1", new="eval_2", verdicts=verdicts)

    write_junit(tmp_path / "j.xml", row)

    [failure] = ElementTree.parse(tmp_path / "j.xml").getroot().iter("failure")
    assert failure.text == "question q\\x02\\ufffe1: 1.000 -> 0.000"


def test_compare_shows_the_night_of_a_rerun_and_names_both_datasets_where_none_is_shared(rag_eval, tmp_path):
    register(workspace := Workspace(tmp_path), ["harbour"], ["asked"])
    for night, skill in enumerate([0.7] * 5 + [0.2]):
        publish_night(workspace, "harbour", "asked", night, questions=120, skill=skill, number=1)
    again = publish_night(workspace, "harbour", "asked", 5, questions=120, skill=0.2, number=2)
    load_evaluation(workspace, again).save(opened_at=FIRST + timedelta(days=5, hours=3))

    def compare(code):
        words = ["compare", "harbour", "asked", "--workspace", str(tmp_path)]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == code, done.output
        return done.stdout or str(done.exception)

    pin_first_nights(workspace, "harbour", "asked", published_evaluations(workspace, "harbour", "asked"))
    before = compare(3)
    assert "in both runs; p < 1e-12" in before
    write_comparisons(workspace)
    assert compare(3) == before
    assert "(confirmed by a rerun)" in read_status(workspace, now=FIRST + timedelta(days=5, hours=5)).pairs[0].verdict
    again = publish_night(workspace, "harbour", "asked", 6, questions=120, skill=0.2, number=1)
    record = load_evaluation(workspace, again).record
    prints = record.fingerprints.model_copy(update={"dataset": "0123456789"})
    load_evaluation(workspace, again).save(fingerprints=prints, dataset_version="2.0.0")
    shutil.copy(workspace.eval_json(record.dataset_id, "1.0.0"), workspace.eval_json(record.dataset_id, "2.0.0"))
    refused = compare(1)
    assert re.search(r"different_dataset: \S+ 1\.0\.0 \([^)]+\) before, \S+ 2\.0\.0 \(01234567\) now", refused)
    assert "rag-eval pin harbour asked --ask" in refused
    [row] = write_comparisons(workspace).rows
    assert row.note in refused
    assert read_status(workspace, now=FIRST + timedelta(days=6)).pairs[0].verdict == row.note


def test_markdown_shows_texts_of_systems_as_code_in_one_cell(tmp_path):
    row = Comparison(kind="evaluations", benchmark="b", old="eval_1", new="eval_2")
    one = WorseQuestion("0", "q-1", "a | b\n<b>?</b>", None, "`x` @all", "![](http://x.example)", 1.0, 0.0)

    write_markdown(tmp_path / "v.md", row, "Regressed", worst=[one])

    expected = "| `q-1` | `a \\| b <b>?</b>` | `a refusal: the documents hold no answer` | `'x' @all` | `![](http://x.example)` |"
    assert (tmp_path / "v.md").read_text().splitlines()[-1] == expected


def test_compare_tests_questions_of_deterministic_systems_and_else_documents(rag_eval, ids, settings, evaluated):
    settings.unlink()
    found = exact_match(rag_eval("compare", *ids, "--json", code=3))
    assert (found["kind"], found["confirmation"], found["is_clustered"]) == ("regressed", "not_needed", False)
    assert found["p_corrected"] == 8 * 2**-11
    assert found["questions"][0].keys() == {"query_id", "before", "after"}
    assert rag_eval("compare", *reversed(ids)).startswith("IMPROVED  Exact match 0 → 28 (+27.5 points, p = 0.")
    assert rag_eval("compare", ids[0], ids[0]).startswith("INCONCLUSIVE  Exact match 28 → 28 (0.0 points, p = 1, ")

    for name in ids:
        load_evaluation(evaluated, name).save(deterministic=False)
    found = exact_match(rag_eval("compare", *ids, "--json"))
    assert (found["kind"], found["is_clustered"]) == ("inconclusive", True)
    # 11 answers of 40 became wrong, those of 7 documents: 8 metrics x 2^-7 is far above 0.01, and 10 are needed.
    assert found["p_corrected"] == 7 * 2**-7
    assert found["sentence"].endswith("points, in 10 of its 20 groups.")


def test_compare_of_results_files_equals_that_of_their_evaluations(rag_eval, ids, evaluated, tmp_path):
    values = ("baseline_mean", "current_mean", "estimate", "n", "fell", "rose")
    files = [shutil.copy(evaluated.results_file(name), tmp_path) for name in ids]

    by_id, by_file = (
        {
            name: [found[value] for value in values]
            for name, found in json.loads(rag_eval("compare", *names, "--json", code=code))["verdicts"].items()
        }
        for names, code in ((ids, 3), (files, 0))  # files do not say that a system is deterministic
    )
    shutil.rmtree(evaluated.runs / ids[0])  # pruned: the results are left

    assert by_file == by_id
    rag_eval("compare", files[0], files[0])
    shutil.rmtree(evaluated.evaluation_datasets)
    lines = rag_eval("compare", *files, code=3).splitlines()
    assert lines[3] == "The dataset is not here: each question counts by itself, also where questions share a document."
    assert any(line.startswith("  Exact match, question ") for line in lines)


def test_leaderboard_takes_a_benchmark_a_metric_to_sort_by_and_csv(rag_eval, ids):
    by_f1, by_speed, one = (
        [row.split(",")[1] for row in rag_eval("leaderboard", "--benchmark", RAILWAY, "--csv", *more).splitlines()[1:]]
        for more in (("--sort", "f1"), ("--sort", "latency_p50_ms"), ())
    )

    assert by_f1 == ["embedded", "embedded-weak"]
    assert sorted(by_speed) == sorted(one) == by_f1
    assert "cairnmoor" not in rag_eval("leaderboard", "--benchmark", RAILWAY)
    records = json.loads(rag_eval("leaderboard", "--benchmark", RAILWAY, "--json"))
    assert [(row["queries"], type(row["failed"])) for row in records] == [(40, int), (40, int)]


FAULTS = {
    "no such metric": (("leaderboard", "--sort", "f2"), "unknown_metric"),
    "no id": (("compare", "nothing", "nowhere"), "no_evaluation"),
    "no file": (("compare", "/no/such.results.json", "/no/such.results.json"), "missing_file"),
    "different datasets": (("compare", RAILWAY, "cairnmoor-observatory"), "not_comparable"),
    "no baseline": (("compare", RAILWAY, "embedded"), "no_baseline"),
    "no such system": (("compare", RAILWAY, "embeded"), "no_system"),
    "nobody to pin": (("pin", RAILWAY, "nobody"), "no_system"),
    "a path": (("pin", "../x", "embedded"), "bad_name"),
    "not a query": (("history", "--sql", "DROP"), "bad_query"),
    "no query": (("history", "--sql", ""), "bad_query"),
}


def test_commands_refuse_bad_input_with_its_code(rag_eval, evaluated):
    newest = {header.benchmark: header.evaluation_id for header in read_history(evaluated).newest()}
    for words, code in FAULTS.values():
        if code == "not_comparable":
            words = (words[0], *(newest[name] for name in words[1:]))

        with pytest.raises(Exception, match=rf"\[{code}\]"):
            rag_eval(*words)


def test_results_of_other_tools_are_compared(rag_eval, tmp_path):
    rows = [{"query_id": str(n), "individual_metrics": {"hit@1": float(n % 2)}} for n in range(60)]
    better = [row | {"individual_metrics": {"hit@1": 1.0}} for row in rows]
    files = []
    for name, queries in (("one", rows), ("two", better)):
        value = {
            "evaluation_id": name,
            "dataset_id": "theirs_v1.0.0",
            "retrieval_metrics": {},
            "query_results": queries,
        }
        files.append(tmp_path / f"{name}.results.json")
        files[-1].write_text(json.dumps(value))

    assert "Hit@1         50.0 -> 100.0" in rag_eval("compare", *files) or "IMPROVED" in rag_eval("compare", *files)


def test_pin_ask_evaluates_what_is_missing(rag_eval, evaluated):
    shutil.rmtree(evaluated.runs)
    shutil.rmtree(evaluated.results)

    line = rag_eval("pin", RAILWAY, "embedded", "--ask", "--note", "first").splitlines()[0]

    [name] = [path.name for path in evaluated.runs.glob("eval_run_*")]  # deterministic: one run is enough
    assert line == f"{RAILWAY} x embedded is compared with {name}."


def test_pin_ask_stops_at_a_run_with_too_few_answers(rag_eval, evaluated):
    """Such a run is no part of a baseline, and another one would be as bad: the system is asked once, not for ever."""
    asked = []

    def answer(path, body):
        asked.append(body)
        return {"answer": "Yes."} if len(asked) == 1 else (500, "out of memory")

    with json_server(answer) as server:
        settings = {"endpoint": {"base_url": server.url, "max_retries": 0}, "path": "/", "body": {"q": "{question}"}}
        file = {"kind": "http", "settings": {**settings, "answer": "answer"}}
        file["evaluation"] = {"stop_after_failures": None}
        evaluated.system_file("flaky").write_text(json.dumps(file))
        with pytest.raises(ServiceError, match="39 of 40 questions failed in .*out of memory") as stopped:
            rag_eval("pin", RAILWAY, "flaky", "--ask")
        with pytest.raises(InputError, match="with enough answers"):
            rag_eval("pin", RAILWAY, "flaky")

    assert stopped.value.code == "too_few_answers"
    assert len(asked) <= 40


def test_pin_warns_of_failed_questions_and_of_runs_without_retrieval(rag_eval, ids, evaluated):
    assert json.loads(rag_eval("pin", RAILWAY, "embedded", "--json"))["warnings"] == []
    evaluation = load_evaluation(evaluated, ids[0])
    rows = list(read_scores(evaluation.scores("answer_scores")))
    rows[0] = QueryScores(rows[0].query_id, "failed", "timeout", {})
    write_scores(evaluation.scores("answer_scores"), rows, ["exact_match", "f1"], evaluation_id=ids[0])
    nothing = [QueryScores(row.query_id, "skipped", "no_contexts", {}) for row in rows]
    write_scores(evaluation.scores("retrieval_scores"), nothing, [], evaluation_id=ids[0])

    assert json.loads(rag_eval("pin", RAILWAY, "embedded", "--json"))["warnings"] == [
        f"questions failed in the pinned runs (1 of 40 in {ids[0]}): a question counts in the nights only with 5 "
        "scored runs or more",
        "no retrieval scores in the pinned runs: later nights get no verdict on retrieval",
    ]


def test_compare_with_the_baseline_takes_the_newest_evaluation(rag_eval, ids, evaluated):
    rag_eval("pin", RAILWAY, "embedded")
    with pytest.raises(InputError, match="is_baseline"):
        rag_eval("compare", RAILWAY, "embedded")
    evaluated.system_file("embedded").write_text(evaluated.system_file("embedded-weak").read_text())
    evaluated.system_file("embedded-weak").unlink()
    done = rag_eval("evaluate", RAILWAY)  # of the only system

    lines = rag_eval("compare", RAILWAY, code=3).splitlines()
    assert f"\n  {lines[0]}. Look at " in done
    reported = CliRunner().invoke(app, ["report", "--workspace", str(evaluated.root)])
    assert f"rag-eval: {RAILWAY} x embedded: {lines[0]}\n" in reported.stderr
    assert lines[1] == f"{RAILWAY}: embedded against baseline"
    (cause,) = (line for line in lines if line.startswith("Look at "))
    assert re.search(r"\. Changed since \d+ \w+: retrieval_k 10 → 1, .*; no other change is known\.$", cause)
    assert not any("single runs" in line for line in lines)
    # The weak system is now the newest of both: against the good one's evaluation, the changes are the same.
    verdicts = [
        {name: (one["estimate"], one["fell"], one["rose"]) for name, one in json.loads(found)["verdicts"].items()}
        for found in (
            rag_eval("compare", RAILWAY, "embedded", "--json", code=3),
            rag_eval("compare", *ids, "--json", code=3),
        )
    ]
    assert verdicts[0] == verdicts[1]


def test_history_prints_each_evaluation_with_its_role_and_verdict(rag_eval, ids, evaluated):
    write_comparisons(evaluated)
    evaluate(evaluated, load_pair(evaluated, RAILWAY, "embedded"))
    write_comparisons(evaluated)

    lines = rag_eval("history", RAILWAY, "embedded").splitlines()

    assert len(lines) == 2
    assert lines[0].startswith(f"{ids[0]} (baseline)  {RAILWAY} x embedded  Hit@1 by page 1.000")
    assert lines[1].endswith(": nothing was flagged")


def test_ab_writes_a_new_file_for_each_test(rag_eval, ids, evaluated):
    shutil.rmtree(
        evaluated.runs / read_history(evaluated).nights["cairnmoor-observatory", "embedded"][-1].evaluation_id
    )
    shown = [rag_eval("ab"), rag_eval("ab")]

    names = [f"ab_test_embedded-weak_vs_embedded_{number}.results.json" for number in ("001", "002")]
    assert [text.splitlines()[0].rpartition("/")[2] for text in shown] == names
    record = json.loads((evaluated.results / names[0]).read_text())
    kinds = {row["benchmark"]: row["verdicts"].get("exact_match", {}).get("kind") for row in record["benchmarks"]}
    assert kinds == {RAILWAY: "improved", "cairnmoor-observatory": None}
    assert record["benchmarks"][0]["reason"] == "no evaluation of embedded"
    assert record["benchmarks"][1]["runs_of_a"] == ids[1:]


def test_ab_json_has_the_evaluations_of_the_data_models(rag_eval):
    (test,) = json.loads(rag_eval("ab", "--json"))

    found = {(one["evaluator_name"], one["target_event_id"]): one for one in test["evaluations"]}
    compared = [one["comparison_data"] for (name, _), one in found.items() if name == "ab_test_comparison"]
    assert all(0 <= one["preference_score"] <= 1 and one["sample_size"] > 0 for one in compared)
    assert compared
    named = [one["metadata"] for one in test["evaluations"] if one["evaluator_name"] == "ab_test_comparison"]
    stated = [(one["benchmark"], one["metric"]) for one in named]
    assert (RAILWAY, "exact_match") in stated
    assert len(set(stated)) == len(named)
    (file,) = rag_eval("ab").splitlines()[:1]
    assert [one["metadata"] for one in json.loads(Path(file).read_text())["evaluations"] if "metadata" in one] == named
    temporal = found["temporal_exact_match", f"{RAILWAY}|embedded"]
    assert temporal["historical_scores"][-1] == temporal["current_score"]


def test_ab_without_settings_says_what_to_write(tmp_path):
    with pytest.raises(InputError, match=r"\[no_ab_tests\].*tests: \[\{a: "):
        run_ab_tests(Workspace(tmp_path), now=FIRST)


def test_ab_refuses_a_system_that_is_not_there(rag_eval, tmp_path):
    config = tmp_path / "ab.yaml"
    config.write_text(yaml.safe_dump({"tests": [{"a": "embedded", "b": "nobody"}]}))

    with pytest.raises(Exception, match=r'"tests\[0\]".*\[no_system\]'):
        rag_eval("ab", "--config", config)
