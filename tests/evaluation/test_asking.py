"""Asking a system that fails, spends and is set up anew: what is asked again and what is not."""

from datetime import UTC, datetime

import pytest

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.evaluation.budget import Usage, estimate, spent_today
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.evaluation.storage import read_responses

OBSERVATORY = "cairnmoor-observatory"  # 16 questions
NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
CODE = """
import pathlib

HERE = pathlib.Path(__file__).parent

def answer(query):
    with (HERE / "asked.txt").open("a") as log:
        log.write(query.query_id + "\\n")
    if query.query_id in (HERE / "failing.txt").read_text().split():
        raise ConnectionError("connection refused")
    return {"answer": "It is 4.", "usage": {"total_tokens": 10, "estimated_cost_usd": 0.5}}
"""


@pytest.fixture
def scripted(workspace):
    """The workspace with a system that fails on the questions of a file and writes down what it was asked."""
    folder = workspace.config / "systems"
    (folder / "scripted_system.py").write_text(CODE)
    (folder / "failing.txt").write_text("")
    write_system(workspace)
    return workspace


def write_system(workspace, more="", *, at_once=1):
    workspace.system_file("scripted").write_text(
        "kind: python\nsettings:\n  callable: scripted_system:answer\n  path: [.]\n"
        f"evaluation: {{concurrency: {at_once}}}\n" + more
    )


def fail_on(workspace, *query_ids):
    (workspace.config / "systems" / "failing.txt").write_text("\n".join(query_ids))


def asked(workspace):
    """What was asked since the last look."""
    path = workspace.config / "systems" / "asked.txt"
    lines = path.read_text().split() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


def pair_of(workspace):
    return load_pair(workspace, OBSERVATORY, "scripted")


def test_failed_answers_are_terminal_in_a_resumed_evaluation(scripted):
    fail_on(scripted, "3", "5")
    first = ask(scripted, pair_of(scripted), now=NIGHT)
    asked(scripted)

    again = ask(scripted, pair_of(scripted), now=NIGHT)

    assert asked(scripted) == []
    assert (again.evaluation_id, again.resumed, again.failed) == (first.evaluation_id, 16, 2)


def test_failed_ones_are_asked_again_on_demand_and_only_they(scripted):
    fail_on(scripted, "3", "5")
    first = ask(scripted, pair_of(scripted), now=NIGHT)
    asked(scripted)
    fail_on(scripted, "5")

    again = ask(scripted, pair_of(scripted), now=NIGHT, which="failed")

    assert sorted(asked(scripted)) == ["3", "5"]
    assert (again.evaluation_id, again.asked, again.failed) == (first.evaluation_id, 2, 1)
    answers = read_responses(load_evaluation(scripted, again.evaluation_id).responses)
    assert [answer.query_id for answer in answers if answer.status != "ok"] == ["5"]


def test_failed_ones_of_a_published_evaluation_are_asked_in_a_new_one(scripted):
    fail_on(scripted, "3")
    _, first = evaluate(scripted, pair_of(scripted))
    published = first.path.read_bytes()
    asked(scripted)
    fail_on(scripted)

    answered, second = evaluate(scripted, pair_of(scripted), which="failed")

    assert asked(scripted) == ["3"]
    assert (answered.report.asked, answered.report.reused, answered.report.failed) == (1, 15, 0)
    assert second.evaluation_id != first.evaluation_id
    assert first.path.read_bytes() == published


def test_nothing_failed_is_said(scripted):
    with pytest.raises(InputError) as never_asked:
        ask(scripted, pair_of(scripted), now=NIGHT, which="failed")
    evaluate(scripted, pair_of(scripted))
    with pytest.raises(InputError) as all_good:
        ask(scripted, pair_of(scripted), now=NIGHT, which="failed")

    assert (never_asked.value.code, all_good.value.code) == ("nothing_failed", "nothing_failed")


def test_a_budget_that_is_used_up_stops_and_keeps_what_was_answered(scripted):
    write_system(scripted, "budget: {usd: 2.0}\n")  # half a dollar a question

    with pytest.raises(ServiceError) as error:
        ask(scripted, pair_of(scripted), now=NIGHT)
    assert asked(scripted) == ["0", "1", "2", "3"]
    write_system(scripted)
    report = ask(scripted, pair_of(scripted), now=NIGHT)

    assert error.value.code == "budget_spent"
    assert "system scripted has used 2 of 2 US dollars" in str(error.value)
    assert (report.resumed, report.asked) == (4, 12)
    assert spent_today(scripted.spending, "system-scripted", datetime.now(UTC)) == Usage(16, 160, 8.0)


def test_code_that_changed_begins_a_new_evaluation_and_is_never_mixed(scripted):
    write_system(scripted, "budget: {usd: 2.0}\n")
    with pytest.raises(ServiceError):
        ask(scripted, pair_of(scripted), now=NIGHT)
    asked(scripted)
    write_system(scripted)
    code = scripted.config / "systems" / "scripted_system.py"
    code.write_text(code.read_text().replace("It is 4.", "It is 5."))

    report = ask(scripted, pair_of(scripted), now=NIGHT)

    answers = read_responses(load_evaluation(scripted, report.evaluation_id).responses)
    assert {answer.answer for answer in answers} == {"It is 5."}
    assert (report.asked, report.resumed, len(asked(scripted))) == (16, 0, 16)


def test_an_estimate_goes_by_what_was_measured_and_spends_nothing(scripted):
    before = estimate(scripted, pair_of(scripted), now=NIGHT)
    evaluate(scripted, pair_of(scripted))
    asked(scripted)
    write_system(scripted, "budget: {usd: 10}\n")

    after = estimate(scripted, pair_of(scripted), now=datetime.now(UTC))

    assert (before.to_ask, before.requests, before.tokens, before.basis) == (16, 16.0, None, None)
    assert (after.to_ask, after.requests, after.tokens, after.usd) == (16, 16.0, 160.0, 8.0)
    assert (after.spent.usd, after.exceeds) == (8.0, ("usd",))
    assert asked(scripted) == []


def test_an_estimate_says_what_a_judge_is_asked(scripted):
    assert estimate(scripted, pair_of(scripted), now=NIGHT).judge_requests == 0
    judge = "{endpoint: {base_url: 'http://127.0.0.1:9/v1'}, chat: {model: m}, repeats: 2, claim_labels: true}"
    with (scripted.config / "evaluation_defaults.config.yaml").open("a") as file:
        file.write(f"judge: {{kind: openai, settings: {judge}}}\n")

    # Twice a verdict and labels for each of 16 answers.
    assert estimate(scripted, pair_of(scripted), now=NIGHT).judge_requests == 2 * 2 * 16


def test_an_estimate_knows_what_a_resumed_evaluation_has(scripted):
    write_system(scripted, "budget: {usd: 2.0}\n")
    with pytest.raises(ServiceError):
        ask(scripted, pair_of(scripted), now=NIGHT)
    write_system(scripted)

    assert estimate(scripted, pair_of(scripted), now=NIGHT).to_ask == 12


@pytest.mark.parametrize("at_once", [1, 8, 64])
def test_a_budget_holds_whatever_is_asked_at_once(at_once, scripted):
    write_system(scripted, "budget: {usd: 2.0}\n", at_once=at_once)

    with pytest.raises(ServiceError) as error:
        ask(scripted, pair_of(scripted), now=NIGHT)

    assert (error.value.code, len(asked(scripted))) == ("budget_spent", 4)


SLOW = """
import threading

running, most = [], []
together = threading.Barrier({0})

def answer(question):
    running.append(1)
    most.append(len(running))
    together.wait(60)
    running.pop()
    together.wait(60)
    return f"{max(most)} at once"
"""


@pytest.mark.parametrize("at_once", [2, 16])
def test_concurrency_is_how_many_questions_a_python_system_is_asked_at_once(at_once, scripted):
    code = scripted.config / "systems" / "scripted_system.py"
    code.write_text(SLOW.replace("{0}", str(at_once)))
    write_system(scripted, at_once=at_once)

    report = ask(scripted, pair_of(scripted), now=NIGHT)

    answers = read_responses(load_evaluation(scripted, report.evaluation_id).responses)
    assert {answer.answer for answer in answers} == {f"{at_once} at once"}


@pytest.mark.parametrize("setting", ["in_flight", "threads"])
def test_a_second_knob_is_refused(setting, scripted):
    path = scripted.system_file("scripted")
    path.write_text(path.read_text().replace("  path: [.]\n", f"  path: [.]\n  {setting}: 4\n"))

    with pytest.raises(InputError) as error:
        pair_of(scripted)

    assert (error.value.code, error.value.field) == ("bad_format", f"settings.{setting}")
