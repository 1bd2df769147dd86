"""Many evaluations: in order, side by side, in time, tried again, and a failure is never a number."""

import asyncio
import threading
from datetime import UTC, datetime

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import EvaluationConfig, RetryConfig
from rag_eval_pipeline.judges.evaluators.evaluator import Evaluator, EvaluatorError, NotApplicable
from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.judges.evaluators.running import Means, run_evaluators
from rag_eval_pipeline.metrics.evaluation_scores import Scale

EVENT = Event("e", "Who?", "Ada.")
EVERY = ("quality", "factual_accuracy", "toxicity", "relevance", "length")


def only(evaluate, **fields):
    return Means(evaluators={"own": Evaluator("own", evaluate, **fields)})


async def run_one(evaluate, now, new_id, *, event=EVENT, sleep=asyncio.sleep, fields=None, **config):
    evaluator = Evaluator("own", evaluate, **(fields or {}))
    means = Means(evaluators={"own": evaluator}, sleep=sleep)
    batch = await run_evaluators(
        [event], EvaluationConfig(evaluators=("own",), **config), now=now, new_id=new_id, means=means
    )
    return batch.evaluations[0]


async def test_ids_times_and_order_are_those_of_events_and_configuration(now, new_id):
    gate = asyncio.Event()

    async def first(event, options):
        await gate.wait()
        return 1.0

    async def second(event, options):
        gate.set()
        return 0.5

    means = Means(evaluators={"late": Evaluator("late", first, version="1.2.0"), "early": Evaluator("early", second)})
    config = EvaluationConfig(evaluators=("late", "early"))
    events = [Event("b", "?", "x"), Event("a", "?", "x")]

    batch = await run_evaluators(events, config, now=now, new_id=new_id, batch_id="batch_7", means=means)

    assert [(e.evaluation_id, e.target_event_id, e.evaluator_name, e.score) for e in batch.evaluations] == [
        ("eval_1", "b", "late", 1.0), ("eval_2", "b", "early", 0.5), ("eval_3", "a", "late", 1.0), ("eval_4", "a", "early", 0.5),
    ]  # fmt: skip
    assert {e.timestamp for e in batch.evaluations} == {now}
    assert (batch.batch_id, batch.status, batch.batch_metadata.batch_size) == ("batch_7", "completed", 4)
    assert batch.batch_metadata.evaluator_versions == {"late": "1.2.0"}
    assert batch.batch_metadata.created_at == now


async def test_equal_events_give_an_equal_batch(now):
    from itertools import count

    events = [Event(str(n), "When did it open?", f"In 188{n}.", accepted=("1887",)) for n in range(5)]
    batches = []
    for _ in range(2):
        ids = count()
        means = Means(clock=lambda: 0.0)
        config = EvaluationConfig(evaluators=EVERY)
        batches.append(
            await run_evaluators(events, config, now=now, new_id=lambda ids=ids: f"eval_{next(ids)}", means=means)
        )

    assert batches[0] == batches[1]
    assert batches[0].model_dump_json() == batches[1].model_dump_json()


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "in threads"])
async def test_fifty_evaluations_are_made_at_once(is_async, now, new_id):
    together = threading.Barrier(50)
    waiting = 0
    gate = asyncio.Event()

    async def waits(event, options):
        nonlocal waiting
        waiting += 1
        if waiting == 50:
            gate.set()
        await asyncio.wait_for(gate.wait(), 60)
        return True

    def blocks(event, options):
        together.wait(60)
        return True

    events = [Event(str(number), "?", "x") for number in range(50)]
    config = EvaluationConfig(evaluators=("own",))
    batch = await run_evaluators(events, config, now=now, new_id=new_id, means=only(waits if is_async else blocks))

    assert [evaluation.score for evaluation in batch.evaluations] == [True] * 50


async def test_one_after_the_other_when_the_configuration_says_so(now, new_id):
    running = most = 0

    async def counts(event, options):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return True

    events = [Event(str(number), "?", "x") for number in range(5)]
    config = EvaluationConfig(evaluators=("own",), parallel_execution=False)
    await run_evaluators(events, config, now=now, new_id=new_id, means=only(counts))

    assert most == 1


async def test_no_more_at_once_than_allowed(now, new_id):
    running = most = 0

    async def counts(event, options):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    means = Means(evaluators={"own": Evaluator("own", counts)}, at_once=3)
    events = [Event(str(number), "?", "x") for number in range(9)]
    await run_evaluators(events, EvaluationConfig(evaluators=("own",)), now=now, new_id=new_id, means=means)

    assert most == 3


def fails_until(success, error):
    tries = 0

    def evaluate(event, options):
        nonlocal tries
        tries += 1
        if tries < success:
            raise error
        return {"score": 0.5}

    return evaluate


RETRIES = {
    #                                        error                                             succeeds at  pauses           status
    "the third try succeeds":               (OSError("gone"),                                  3,           [1.0, 2.0],      "completed"),
    "no try succeeds":                      (OSError("gone"),                                  9,           [1.0, 2.0, 4.0], "failed"),
    "an error that another try cannot mend": (EvaluatorError("bad", "no", is_final=True),       2,           [],              "failed"),
    "an error that another try may mend":   (EvaluatorError("busy", "no"),                      2,           [1.0],           "completed"),
    "bad input":                            (InputError("bad_scale", "x", "y"),                2,           [],              "failed"),
}  # fmt: skip


@pytest.mark.parametrize(("error", "success", "pauses", "status"), RETRIES.values(), ids=RETRIES)
async def test_failures_are_tried_again_after_growing_pauses(error, success, pauses, status, now, new_id):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    found = await run_one(fails_until(success, error), now, new_id, sleep=sleep, retry_config=RetryConfig())

    assert (slept, found.status) == (pauses, status)


async def test_without_a_retry_config_there_is_one_try(now, new_id):
    found = await run_one(fails_until(2, OSError("gone")), now, new_id)

    assert found.error.model_dump() == {
        "type": "OSError", "message": "OSError: gone", "code": "evaluator_error", "context": {"evaluator": "own", "tries": 1},
    }  # fmt: skip
    assert (found.score, found.duration_ms is not None) == (None, True)


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "in a thread"])
async def test_an_evaluation_that_takes_too_long_has_failed(is_async, now, new_id):
    released = threading.Event()

    async def waits(event, options):
        await asyncio.Event().wait()

    def blocks(event, options):
        released.wait()

    found = await run_one(waits if is_async else blocks, now, new_id, timeout_ms=50)
    released.set()

    assert (found.error.type, found.error.code, found.error.message) == (
        "TimeoutError", "timeout", "not evaluated within 0.05 s",
    )  # fmt: skip


RETURNS = {
    #                                    returned                                     code
    "no field of an evaluation":        ({"score": 1.0, "confidence": 2.0},           "bad_fields"),
    "a score that is a list":           ([1],                                         "bad_fields"),
    "a score of NaN":                   (float("nan"),                                "bad_fields"),
    "a score out of its range":         ({"score": 7.0},                              "score_out_of_range"),
}  # fmt: skip


@pytest.mark.parametrize(("returned", "code"), RETURNS.values(), ids=RETURNS)
async def test_what_is_no_evaluation_is_a_failure(returned, code, now, new_id):
    fields = {"scale": Scale()} if code == "score_out_of_range" else None
    found = await run_one(lambda event, options: returned, now, new_id, fields=fields)

    assert (found.status, found.score, found.error.code) == ("failed", None, code)
    assert "\n" not in found.error.message


KINDS = {
    "a truth": (True, True),
    "a whole number": (4, 4),
    "a category": ("good", "good"),
    "fields": ({"score": 0.5, "explanation": "half"}, 0.5),
    "an explanation alone": ({"explanation": "nothing to score"}, None),
}


@pytest.mark.parametrize(("returned", "score"), KINDS.values(), ids=KINDS)
async def test_scores_keep_their_kind(returned, score, now, new_id):
    found = await run_one(lambda event, options: returned, now, new_id)

    assert (found.status, found.score, type(found.score)) == ("completed", score, type(score))


async def test_an_evaluators_own_fields_are_kept(now, new_id):
    found = await run_one(lambda event, options: {"score": 0.5, "risk_level": "low"}, now, new_id)

    assert found.model_dump()["risk_level"] == "low"


async def test_an_evaluator_cannot_speak_for_another_event(now, new_id):
    found = await run_one(lambda e, o: {"score": 1.0, "target_event_id": "x", "evaluation_id": "y"}, now, new_id)

    assert (found.target_event_id, found.evaluation_id) == ("e", "eval_1")


NEEDS = {
    #                          needs                       event                                                    reason
    "no answer":              ({"answer"},                 Event("e", "?", None),                                   "needs answer, which the event does not have"),
    "a blank answer":         ({"answer"},                 Event("e", "?", " \n"),                                  "needs answer, which the event does not have"),
    "no gold and no texts":   ({"gold", "contexts"},       Event("e", "?", "a"),                                    "needs contexts, gold, which the event does not have"),
    "no evidence":            ({"evidence", "citations"},  Event("e", "?", "a"),                                    "needs citations, evidence, which the event does not have"),
    "impossible is gold":     ({"gold"},                   Event("e", "?", "a", is_impossible=True),                None),
}  # fmt: skip


@pytest.mark.parametrize(("needs", "event", "reason"), NEEDS.values(), ids=NEEDS)
async def test_what_an_event_lacks_skips_it(needs, event, reason, now, new_id):
    found = await run_one(lambda e, o: True, now, new_id, event=event, fields={"needs": frozenset(needs)})

    assert (found.status, found.explanation) == ("skipped" if reason else "completed", reason)


async def test_an_evaluator_may_have_nothing_to_say(now, new_id):
    def silent(event, options):
        raise NotApplicable("only for questions about dates")

    found = await run_one(silent, now, new_id)

    assert (found.status, found.explanation, found.score) == ("skipped", "only for questions about dates", None)


OWN_ENDS = {
    "the process's end": SystemExit(3),
    "a cancellation": asyncio.CancelledError(),
    "the end of an iteration": StopIteration(),
}


@pytest.mark.parametrize("error", OWN_ENDS.values(), ids=OWN_ENDS)
async def test_an_evaluator_cannot_end_the_others(error, now, new_id):
    def ends(event, options):
        if event.event_id == "bad":
            raise error
        return True

    events = [Event("bad", "?", "x"), Event("good", "?", "x")]
    batch = await run_evaluators(
        events, EvaluationConfig(evaluators=("own",)), now=now, new_id=new_id, means=only(ends)
    )

    assert [evaluation.status for evaluation in batch.evaluations] == ["failed", "completed"]


async def test_a_batch_in_which_everything_failed_has_failed(now, new_id):
    def fails(event, options):
        raise OSError

    config = EvaluationConfig(evaluators=("own",))
    batch = await run_evaluators([EVENT], config, now=now, new_id=new_id, means=only(fails))
    empty = await run_evaluators([], config, now=now, new_id=new_id, means=only(fails))

    assert (batch.status, empty.status, empty.evaluations) == ("failed", "completed", ())


CONFIGS = {
    "an unknown evaluator": ({"evaluators": ("nonsense",)}, "unknown_evaluator"),
    "options of nobody": ({"evaluators": ("length",), "evaluator_configs": {"lenght": {}}}, "unknown_evaluator"),
    "an unknown option": ({"evaluators": ("length",), "evaluator_configs": {"length": {"words": 3}}}, "bad_format"),
    "an unknown category": ({"evaluators": ("toxicity",), "evaluator_configs": {"toxicity": {"categories": ["spam"]}}}, "bad_format"),
    "a range upside down": ({"evaluators": ("length",), "evaluator_configs": {"length": {"min_words": 9, "max_words": 3}}}, "bad_format"),
}  # fmt: skip


@pytest.mark.parametrize(("config", "code"), CONFIGS.values(), ids=CONFIGS)
async def test_bad_configurations_are_refused_before_anything_runs(config, code, now, new_id):
    with pytest.raises(InputError) as error:
        await run_evaluators([EVENT], EvaluationConfig(**config), now=now, new_id=new_id)

    assert error.value.code == code
    assert "\n" not in str(error.value)


async def test_an_event_twice_is_refused(now, new_id):
    with pytest.raises(InputError) as error:
        await run_evaluators([EVENT, EVENT], EvaluationConfig(evaluators=("length",)), now=now, new_id=new_id)

    assert error.value.code == "duplicate_event"


async def test_a_time_without_its_zone_is_refused(new_id):
    naive = datetime.now(UTC).replace(tzinfo=None)

    with pytest.raises(ValueError, match="timezone"):
        await run_evaluators([EVENT], EvaluationConfig(evaluators=("length",)), now=naive, new_id=new_id)
