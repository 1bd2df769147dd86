"""Gold facts from a benchmark's file to the results, by the commands of docs/how-to/facts.md and by a model judge."""

import json
import re
import textwrap

import pytest
from typer.testing import CliRunner

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.evaluation.evaluation_folders import newest_evaluation
from rag_eval_pipeline.evaluation.judging import read_judgements
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import REPOSITORY
from tests.judges.judge_server import honest_but, judge_server, sections
from tests.paid_server import set_judge

PAGE = (REPOSITORY / "docs" / "how-to" / "facts.md").read_text()


def block(kind, number=0):
    found = re.findall(rf"(?m)^    ```{kind}\n((?:    .*\n)*?)    ```$", PAGE)[number]
    return re.sub(r"(?m)^    ", "", found)


def run(command, code=0):
    found = CliRunner().invoke(app, command)
    assert found.exit_code == code, found.output
    return found.output


@pytest.fixture
def followed(tmp_path, monkeypatch):
    """The workspace of the page's commands, up to the conversion, and a function that runs the last one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nuggets").mkdir()
    (tmp_path / "nuggets" / "docks.jsonl").write_text(block("json"))
    *before, evaluate = [line.removeprefix("$ rag-eval ").split() for line in block("console").splitlines()]

    for command in before:
        run(command)
    workspace = Workspace(tmp_path / "docks-eval")
    (workspace.root / "answers.py").write_text(block("python"))
    workspace.system_file("mine").write_text(block("yaml", 1))

    def results():
        output = run(evaluate)
        evaluation = newest_evaluation(workspace, "docks", "mine")
        path = workspace.results_file(evaluation.record.evaluation_id)
        return output, EvaluationResults.read(path), list(read_judgements(evaluation))

    return workspace, results


def means(results):
    return {
        name: one.value for name, one in results.judge_metrics.items() if name.endswith(("vital_score", "all_score"))
    }


def test_page_on_facts_is_followed_to_three_of_four_vital_facts(followed):
    output, results, (first, second) = followed[1]()

    # The walls have no number or name; the other vital fact of the first question is the day of its opening.
    assert [fact.outcome for fact in first.facts] == ["support", "not_support", "support", "support", None]
    assert [fact.outcome for fact in second.facts] == ["not_support"]
    assert means(results) == dict.fromkeys(
        ["strict_vital_score", "vital_score", "strict_all_score", "all_score"], 3 / 8
    )
    scored = results.query_results[0].individual_metrics
    assert (scored["strict_vital_score"], scored["decided_facts"], scored["undecided_facts"]) == (0.75, 4, 1)
    assert "Vital facts 0.375" in output
    assert "1 of 6 gold facts are not decided by the default judge" in " ".join(results.warnings)


def test_model_judge_decides_every_fact_in_one_call_more_for_each_answer(followed):
    def half(reply, data):
        for fact, given in zip(reply.get("facts", ()), data.get("facts", ()), strict=True):
            fact["verdict"] = "partial_support" if "granite" in given["text"] else "support"

    workspace, run = followed
    with judge_server(honest_but(half)) as server:
        set_judge(workspace, server)
        _, results, judgements = run()
        asked = [data for data in sections(server) if data["task"] == "facts"]
        assert sorted(len(data["facts"]) for data in asked) == [1, 5]
        assert "vital" not in json.dumps(asked)

    assert means(results) == {"strict_vital_score": 1.0, "vital_score": 1.0, "strict_all_score": 0.9, "all_score": 0.95}
    assert sum(judgement.usage.requests for judgement in judgements) == len(server.bodies)
    assert not any("gold facts" in line for line in results.warnings)


# Of question n, the system states the first `stated(n)` of its five facts: four vital ones and an okay one.
SYSTEM = """
    def stated(n):
        return {before}

    def answer(question):
        n = int(question.split()[1])
        return " ".join(f"Part {{k}} weighs {{1000 * (k + 2) + n}} kg." for k in range(stated(n))) or "Nothing is known."
"""


def test_counts_of_forty_questions_with_nuggets_are_exact_and_a_loss_of_facts_is_a_regression(tmp_path):
    rows = [
        {
            "qid": f"2024-{n}",
            "query": f"Engine {n} has which parts?",
            "nuggets": [
                {"text": f"One weighs {1000 * (k + 2) + n} kg", "importance": "vital" if k < 4 else "okay"}
                for k in range(5)
            ],
        }
        for n in range(1, 41)
    ]
    (tmp_path / "nuggets").mkdir()
    (tmp_path / "nuggets" / "trec.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    workspace = Workspace(tmp_path / "w")
    run(["new", str(workspace.root)])
    run(["init", "trec", "--from", str(tmp_path / "nuggets"), "--workspace", str(workspace.root)])
    run(["convert", "trec", "--workspace", str(workspace.root)])
    workspace.system_file("mine").write_text(block("yaml", 1))
    found = {}
    for before in ("n % 6", "n % 2"):
        (workspace.root / "answers.py").write_text(textwrap.dedent(SYSTEM.format(before=before)))
        run(["evaluate", "trec", "--system", "mine", "--workspace", str(workspace.root)])
        evaluation = newest_evaluation(workspace, "trec", "mine").record.evaluation_id
        found[evaluation] = EvaluationResults.read(workspace.results_file(evaluation))

    # Of n % 6 facts, six questions in a row state 1 + 2 + 3 + 4 + 4 + 0 vital ones and 15 of all; then four are left.
    expected = [((6 * 14 / 4 + 10 / 4) / 40, (6 * 15 / 5 + 10 / 5) / 40), (20 / 4 / 40, 20 / 5 / 40)]
    for results, (vital, every) in zip(found.values(), expected, strict=True):
        names = {"strict_vital_score": vital, "vital_score": vital, "strict_all_score": every, "all_score": every}
        assert means(results) == pytest.approx(names)
        assert results.judge_metrics["strict_vital_score"].n_scored == 40
    verdict = run(["compare", *found, "--workspace", str(workspace.root)], code=3)
    assert verdict.startswith("REGRESSED  Vital facts 59 → 12 ")


def test_facts_that_a_model_judge_fails_on_have_no_scores_and_are_counted(followed):
    workspace, evaluate = followed
    with judge_server(honest_but(lambda reply, _: "facts" in reply and reply["facts"].pop())) as server:
        set_judge(workspace, server)
        _, results, _ = evaluate()

    vital = results.judge_metrics["strict_vital_score"]
    assert (vital.value, vital.n_scored, vital.n_failed) == (None, 0, 2)
    assert "the judge's rating facts failed for 2 of 2 answers" in " ".join(results.warnings)
