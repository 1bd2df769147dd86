"""A model is asked twice, and with the texts the other way round: neither may change much."""

import json

import msgspec

from rag_eval_pipeline.judges.calibration import calibrate
from rag_eval_pipeline.judges.calibration_labels import Label
from rag_eval_pipeline.judges.calibration_text import card_markdown
from rag_eval_pipeline.judges.calibration_trust import Occasion
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
