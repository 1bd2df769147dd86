"""Gold facts from a benchmark's file to the results, by the commands of docs/how-to/facts.md and by a model judge."""

import json
import re

import pytest
from typer.testing import CliRunner

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.evaluation.evaluation_folders import newest_evaluation
from rag_eval_pipeline.evaluation.judging import read_judgements
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.metrics.claims import FACT_MEASURES
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
def follow(tmp_path, monkeypatch):
    """Follows the page, with its nuggets or others; returns the workspace, and a function that runs the last command."""
    monkeypatch.chdir(tmp_path)
    workspace = Workspace(tmp_path / "docks-eval")
    *before, last = [line.removeprefix("$ rag-eval ").split() for line in block("console").splitlines()]

    def evaluate(system=None):
        (workspace.root / "answers.py").write_text(system or block("python"))
        output = run(last)
        evaluation = newest_evaluation(workspace, "docks", "mine")
        results = EvaluationResults.read(workspace.results_file(evaluation.record.evaluation_id))
        return output, results, list(read_judgements(evaluation))

    def steps(nuggets=None):
        (tmp_path / "nuggets").mkdir()
        (tmp_path / "nuggets" / "docks.jsonl").write_text(nuggets or block("json"))
        for command in before:
            run(command)
        workspace.system_file("mine").write_text(block("yaml", 1))
        return workspace, evaluate

    return steps


def means(results):
    return {name: results.judge_metrics[name].value for name in FACT_MEASURES}


def test_page_on_facts_is_followed_to_three_of_four_vital_facts(follow):
    _, evaluate = follow()
    output, results, (first, second) = evaluate()

    # The walls have no number or name; the other vital fact of the first question is the day of its opening.
    assert [fact.outcome for fact in first.facts] == ["support", "not_support", "support", "support", None]
    assert [fact.outcome for fact in second.facts] == ["not_support"]
    assert means(results) == dict.fromkeys(FACT_MEASURES, 3 / 8)
    scored = results.query_results[0].individual_metrics
    assert (scored["strict_vital_score"], scored["decided_facts"], scored["undecided_facts"]) == (0.75, 4, 1)
    assert "Vital facts 0.375" in output
    assert "1 of 6 gold facts are not decided by the default judge" in " ".join(results.warnings)


def test_model_judge_decides_every_fact_in_one_call_more_for_each_answer_or_fails(follow):
    def half(reply, data):
        for fact, given in zip(reply.get("facts", ()), data.get("facts", ()), strict=True):
            fact["verdict"] = "partial_support" if "granite" in given["text"] else "support"

    workspace, evaluate = follow()
    with judge_server(honest_but(half)) as server:
        set_judge(workspace, server)
        _, results, judgements = evaluate()
        asked = [data for data in sections(server) if data["task"] == "facts"]
        assert sorted(len(data["facts"]) for data in asked) == [1, 5]
        assert "vital" not in json.dumps(asked)

    assert means(results) == {"strict_vital_score": 1.0, "vital_score": 1.0, "strict_all_score": 0.9, "all_score": 0.95}
    assert sum(judgement.usage.requests for judgement in judgements) == len(server.bodies)
    assert not any("gold facts" in line for line in results.warnings)

    with judge_server(honest_but(lambda reply, _: "facts" in reply and reply["facts"].pop())) as server:
        set_judge(workspace, server)
        vital = evaluate()[1].judge_metrics["strict_vital_score"]
    assert (vital.value, vital.n_scored, vital.n_failed) == (None, 0, 2)


# Of the five facts of question n, four of them vital, it states the first ones.
SYSTEM = """
def answer(question):
    n = int(question.split()[1])
    return " ".join(f"Part {{k}} weighs {{1000 * (k + 2) + n}} kg." for k in range({stated})) or "Nothing is known."
"""


def test_counts_of_forty_questions_with_nuggets_are_exact_and_a_loss_of_facts_is_a_regression(follow):
    def nuggets(n):
        texts = {f"One weighs {1000 * (k + 2) + n} kg": "vital" if k < 4 else "okay" for k in range(5)}
        return [{"text": text, "importance": importance} for text, importance in texts.items()]

    rows = [{"qid": f"2024-{n}", "query": f"Engine {n} has which parts?", "nuggets": nuggets(n)} for n in range(1, 41)]
    _, evaluate = follow("".join(json.dumps(row) + "\n" for row in rows))

    found = [evaluate(SYSTEM.format(stated=stated))[1] for stated in ("n % 6", "n % 2")]

    # Of n % 6 facts, six questions in a row state 1 + 2 + 3 + 4 + 4 + 0 vital ones and 15 of all; then four are left.
    expected = [((6 * 14 / 4 + 10 / 4) / 40, (6 * 15 / 5 + 10 / 5) / 40), (20 / 4 / 40, 20 / 5 / 40)]
    for results, (vital, every) in zip(found, expected, strict=True):
        assert list(means(results).values()) == pytest.approx([vital, vital, every, every])
        assert results.judge_metrics["strict_vital_score"].n_scored == 40
    verdict = run(["compare", *(one.evaluation_id for one in found), "--workspace", "docks-eval"], code=3)
    assert verdict.startswith("REGRESSED  Vital facts 59 → 12 ")
