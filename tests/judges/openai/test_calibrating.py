"""A model is asked twice, and with the texts the other way round: neither may change much."""

import json
from datetime import UTC, datetime

import msgspec
import pytest

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.evaluation.judging import judge_purse
from rag_eval_pipeline.evaluation.spending import spent_today
from rag_eval_pipeline.judges.calibration import calibrate
from rag_eval_pipeline.judges.calibration_labels import Label
from rag_eval_pipeline.judges.calibration_text import card_markdown
from rag_eval_pipeline.judges.calibration_trust import Occasion
from rag_eval_pipeline.judges.settings import JudgeSettings
from rag_eval_pipeline.workspace import Workspace
from tests.judges.openai.judge_server import data_of, honest


async def test_what_a_second_judging_and_the_order_of_texts_change(opened, case):
    """Of four answers, one verdict differs the second time and one grade depends on the order."""
    cases = [msgspec.structs.replace(case, query_id=f"{n}", question=f"Question {n}?") for n in range(4)]
    labels = [Label(query_id=f"{n}", task="correctness", label="correct") for n in range(4)]
    asked = []

    def answer(body):
        nonce, data = data_of(body)
        if data["task"] == "rating":
            is_third = data["question"] == "Question 3?"
            return json.dumps({"nonce": nonce, "rationale": "-", "rating": 2 if is_third and data["turned"] else 4})
        reply = json.loads(honest(body))
        asked.append(data["question"])
        if asked.count("Question 2?") == 2 and data["question"] == "Question 2?":
            reply["correctness"]["verdict"] = "incorrect"
        return json.dumps(reply)

    async with opened(answer, ratings=["answer_accuracy"]) as (judge, server):
        card = await calibrate(judge, cases, labels, Occasion("lights", "openai judge", "own"))

    (trust,) = card.tasks
    assert trust.confusion.both_yes == 4
    assert (trust.repeat_agreement.value, trust.repeat_agreement.n) == (0.75, 4)
    (swap,) = card.position_swaps
    # Grades 4 4 4 4 one way and 4 4 4 2 the other: 3 of 4 equal, and (0 + 0 + 0 + 0.5) / 4 apart.
    assert (swap.rating, swap.equal.value, swap.difference) == ("answer_accuracy", 0.75, 0.125)
    assert card.models == ("judge-1",)
    text = card_markdown(card)
    assert "Judged twice, 0.750 of 4 verdicts are equal" in text
    assert "| answer_accuracy | 0.750 |" in text


async def test_judged_once_when_that_is_enough(opened, case):
    labels = [Label(query_id=case.query_id, task="correctness", label="correct")]

    async with opened() as (judge, server):
        card = await calibrate(judge, [case], labels, Occasion("lights", "openai judge", "own", asks_twice=False))

    assert (card.tasks[0].repeat_agreement, len(server.bodies)) == (None, 1)


def priced(url, **budget):
    chat = {"model": "judge", "prices": {"usd_per_request": 0.01}}
    endpoint = {"base_url": url, "max_retries": 0}
    value = {"kind": "openai", "budget": budget, "settings": {"endpoint": endpoint, "chat": chat}}
    return JudgeSettings.model_validate(value)


def labelled(case, count):
    cases = [msgspec.structs.replace(case, query_id=f"{n}", question=f"Question {n}?") for n in range(count)]
    return cases, [Label(query_id=f"{n}", task="correctness", label="correct") for n in range(count)]


async def test_what_calibrating_takes_is_booked_with_the_judge_s_budget(opened, case, tmp_path):
    workspace = Workspace(tmp_path)
    chat = {"prices": {"usd_per_request": 0.01}}

    async with opened(chat=chat, ratings=["answer_accuracy"]) as (judge, server):
        with judge_purse(workspace, priced(server.url), "calibration_x") as purse:
            await calibrate(judge, *labelled(case, 2), Occasion("lights", "openai judge", "own"), purse=purse)

    # Two answers: verdicts once and again, each with a rating of two directions; what a swap asks is in the cache.
    assert len(server.bodies) == 2 * 2 * 3
    spent = spent_today(workspace.spending, "judge-openai", datetime.now(UTC))
    assert (spent.requests, spent.tokens, round(spent.usd, 9)) == (12, 12 * 120, 0.12)


async def test_ratings_that_are_asked_again_for_their_direction_are_booked(opened, case, tmp_path):
    workspace = Workspace(tmp_path)

    def answer(body):
        return honest(body) if data_of(body)[1]["task"] == "judgement" else "no grade"

    async with opened(answer, ratings=["answer_accuracy"]) as (judge, server):
        with judge_purse(workspace, priced(server.url), "calibration_x") as purse:
            occasion = Occasion("lights", "openai judge", "own", asks_twice=False)
            await calibrate(judge, *labelled(case, 1), occasion, purse=purse)

    # The verdicts, the rating and its repair; then the rating and its repair once more.
    assert len(server.bodies) == 5
    assert spent_today(workspace.spending, "judge-openai", datetime.now(UTC)).requests == 5


async def test_calibrating_stops_where_the_day_s_budget_ends(opened, case, tmp_path):
    workspace = Workspace(tmp_path)

    async with opened() as (judge, server):
        with judge_purse(workspace, priced(server.url, requests=1), "eval_run_20261121_001") as evaluating:
            evaluating.book((await judge.judge(case)).usage)
        with (
            judge_purse(workspace, priced(server.url, requests=1), "calibration_x") as purse,
            pytest.raises(ServiceError) as error,
        ):
            await calibrate(judge, *labelled(case, 2), Occasion("lights", "openai judge", "own"), purse=purse)

    assert (error.value.code, len(server.bodies)) == ("budget_spent", 1)
    assert spent_today(workspace.spending, "judge-openai", datetime.now(UTC)).requests == 1
