"""A judge on loopback that judges labelled answers again: what is kept, and when it is said to have changed."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from rag_eval_pipeline.evaluation.compared_runs import Column
from rag_eval_pipeline.judges.judge_changes import check_judge
from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.labels import Item, Label
from rag_eval_pipeline.judges.recheck import (
    ANSWERS_MAX,
    Judging,
    KeptAnswers,
    KeptLabel,
    judge_again,
    keep_answers,
    repeat_of,
)
from rag_eval_pipeline.metrics.verdict_rules import FAILURE_RATE, Budget
from rag_eval_pipeline.monitoring.comparison import compare_runs
from tests.judges.judge_server import Completion, honest_but, judge_server
from tests.monitoring.made_runs import made_history, made_run

N = 48  # answers; the judge is wrong on each twelfth
LEVEL = Budget(0.5, 10).a
NIGHT = datetime(2026, 11, 18, 2, tzinfo=UTC)


def answers():
    """Half of them are right; every twelfth answer has the wrong words and the right meaning, or the other way."""
    is_right = [n % 2 == 0 for n in range(N)]
    says_red = [right != (n % 12 == 0) for n, right in enumerate(is_right)]
    cases = [
        Case(f"{n}", f"{n}?", ("red",), False, f"{n} is {'red' if red else 'blue'}.") for n, red in enumerate(says_red)
    ]
    labels = [
        Label(query_id=f"{n}", task="correctness", label="correct" if r else "incorrect")
        for n, r in enumerate(is_right)
    ]
    return cases, labels


class Drifting:
    """An honest judge whose verdict is the opposite for some answers, and whose model may be another one."""

    def __init__(self):
        self.flipped = set()
        self.model = "judge-1"

    def __call__(self, body):
        def change(reply, data):
            if data["answer"].split()[0] in self.flipped:
                verdict = reply["correctness"]["verdict"]
                reply["correctness"]["verdict"] = "incorrect" if verdict == "correct" else "correct"

        return Completion(honest_but(change)(body), model=self.model)


async def test_kept_answers_have_every_kind_and_stand_for_all_labels(opened):
    cases, labels = answers()
    async with opened() as (judge, server):
        kept = await keep_answers(judge, cases, labels, judgings=3)
        again = await keep_answers(judge, cases[::-1], labels[::-1], judgings=1)
        assert len(server.bodies) == N + 2 * ANSWERS_MAX

    kinds = [(one.label, verdict) for one, verdict in zip(kept.labels, kept.judgings[0].verdicts, strict=True)]
    # All four right answers that lack the words; nothing that the judge passes is wrong.
    assert {kind: kinds.count(kind) for kind in kinds} == {(True, "1"): 13, (True, "0"): 4, (False, "0"): 13}
    assert sum(one.weight for one in kept.labels) == pytest.approx(N)
    assert {case.query_id for case in again.cases} == {case.query_id for case in kept.cases}


async def test_judging_again_is_asked_for_once_an_evaluation_and_with_todays_model(opened):
    drifting, found = Drifting(), []
    with judge_server(drifting) as server:
        async with opened(url=server.url) as (judge, _):
            kept = await keep_answers(judge, *answers(), judgings=1)
        drifting.model = "judge-2"
        drifting.flipped = {f"{n}" for n in range(0, N, 3)}
        for name in ("night 1", "night 1", "night 2"):
            before = len(server.bodies)
            async with opened(url=server.url) as (judge, _):
                found.append(await judge_again(kept, judge, repeat_of(name)))
            assert len(server.bodies) - before == (0 if len(found) == 2 else ANSWERS_MAX)

    assert found[0] == found[1] == found[2]
    assert found[0].models == ("judge-2",)
    flips = {
        one.item.query_id
        for one, *v in zip(kept.labels, kept.judgings[0].verdicts, found[0].verdicts, strict=True)
        if v[0] != v[1]
    }
    assert flips == {case.query_id for case in kept.cases if int(case.query_id) % 3 == 0}


YES = "1" * 20 + "0" * 10
# Verdicts on 30 answers, the first 20 of which are right, and the model of each night.
STEADY = Judging("", YES, ("judge-1",))
STRICT, NOISE, ANOTHER, NO_BUDGET = (
    Judging("", "0" * 10 + YES[10:], ("judge-1",)),
    Judging("", "0" + YES[1:], ("judge-1",)),
    Judging("", YES, ("judge-2",)),
    Judging("", reason="budget_spent"),
)
NIGHTS = {
    "steady":                ([STEADY, STEADY],              ["steady", "steady"]),
    "an answer":             ([NOISE, NOISE],                ["steady", "steady"]),
    "a third":               ([STRICT, STRICT, STRICT],      ["open", "changed", "changed"]),
    "one bad night":         ([STRICT, STEADY],              ["open", "steady"]),
    "another version":       ([ANOTHER, STEADY],             ["changed", "steady"]),
    "no budget":             ([NO_BUDGET, STRICT, NO_BUDGET], ["not_checked", "open", "open"]),
}  # fmt: skip


@pytest.mark.parametrize(("nights", "states"), NIGHTS.values(), ids=NIGHTS)
def test_judge_has_changed_where_its_verdicts_or_its_version_did(nights, states):
    checks = checks_of(nights)

    assert [check.state for check in checks] == states
    for check, night in zip(checks, nights, strict=True):
        assert check.is_unsettled == check.explains("correctness", fell=True)
        assert check.explains("correctness", fell=False) == (check.is_unsettled)
        assert ("is used up" in (check.sentence or "")) == (night is NO_BUDGET)


def test_sentence_names_the_night_and_both_agreements():
    assert checks_of([STEADY, STRICT, STRICT])[-1].sentence == (
        "The judge changed on 19 November: it agreed with your 30 labels of correctness in 100 %, now in 67 % "
        "(p = 1e-13, 3e-05 is needed). Its metrics show nothing about the system until `rag-eval calibrate` is run again "
        "and a baseline is pinned with this judge."
    )
    assert "its server answers as judge-2, before as judge-1" in checks_of([ANOTHER])[0].sentence


def test_change_stays_open_after_a_new_calibration_until_a_baseline_is_pinned():
    kept = kept_answers()
    other = msgspec.structs.replace(kept, labels=kept.labels[::-1])
    *_, changed = checks_of([STRICT, STRICT])

    tonight = [msgspec.structs.replace(STRICT, answers=other.digest)]
    assert check_judge(other, tonight, (), changed, level=LEVEL, opened_at=NIGHT).state == "changed"
    assert check_judge(None, [], (), changed, level=LEVEL, opened_at=NIGHT).state == "changed"
    assert check_judge(None, [], (), None, level=LEVEL, opened_at=NIGHT) is None


def kept_answers():
    cases = tuple(Case(f"{n}", "?", ("red",), False, "red") for n in range(30))
    labels = tuple(KeptLabel(n, Item(f"{n}", "correctness", None, None), v == "1", 1.0) for n, v in enumerate(YES))
    return KeptAnswers(cases, labels)


def checks_of(nights):
    kept, checks = kept_answers(), [None]
    earlier = [msgspec.structs.replace(STEADY, answers=kept.digest)] * 5
    for number, night in enumerate(nights):
        tonight = [msgspec.structs.replace(night, answers=kept.digest)]
        opened_at = NIGHT + timedelta(days=number)
        checks.append(check_judge(kept, tonight, earlier, checks[-1], level=LEVEL, opened_at=opened_at))
    return checks[1:]


async def test_night_says_whether_judge_or_system_changed(opened):
    """Thirty questions, answered rightly on five nights; then a third is judged otherwise, or answered wrongly."""
    drifting = Drifting()
    async with opened(drifting) as (judge, _):
        kept = await keep_answers(judge, *answers(), judgings=1)

        async def runs(name, hours, wrong=()):
            given = [
                Case(f"{n}", "?", ("red",), False, f"{n} is {'blue' if n in wrong else 'red'}.") for n in range(30)
            ]
            judged = await asyncio.gather(*(judge.judge(case, repeat_of(name)) for case in given))
            scores = tuple(float(one.correctness.verdict == "correct") for one in judged)
            again = await judge_again(kept, judge, repeat_of(name))
            made = [made_run(f"{name}{hour}", wrong, hours=hour, n=30) for hour in hours]
            columns = {**made[0].columns, "judged_correct": Column(scores, (True,) * 30)}
            return [replace(one, columns=columns, recheck=again) for one in made]

        pinned = await runs("pinned", range(-120, 0, 24))
        worse = await runs("worse", (0, 3), range(10))
        drifting.flipped = {f"{n}" for n in range(0, N, 3)}
        flipped = await runs("flipped", (0, 3, 24))

    def nights(runs):
        return made_history(*runs, pinned=pinned, kept=kept, judged={"judged_correct"}, budget=Budget(0.5, 10))

    [first] = nights(flipped[:1])
    *by_judge, later = nights(flipped)
    [by_system] = nights(worse)

    assert (first.judge.state, first.awaits_rerun) == ("open", True)
    for night in (*by_judge, later):
        judged, others = night.metrics["judged_correct"], night.metrics.keys() - {"judged_correct"}
        assert judged.sentence.startswith("Withheld: the judge changed on 7 September; −33.3 points")
        assert {night.metrics[name].state for name in others} == {"unflagged"}
        assert (judged.kind, night.judge.state, night.joins_reference) == ("withheld", "changed", False)
        assert night.watch.bets.keys() == others
    assert not later.awaits_rerun
    assert "judged_correct" in by_system.watch.bets
    assert {name: found.state for name, found in by_system.metrics.items()} == {
        "exact_match": "regressed", "judged_correct": "regressed", FAILURE_RATE: "unflagged"
    }  # fmt: skip
    assert (by_system.judge.state, by_system.judge.sentence) == ("steady", None)


@pytest.mark.parametrize(("models", "kind"), [(("m-2",), "withheld"), (("m-1", "m-2"), "improved"), ((), "improved")])
def test_comparison_of_two_runs_leaves_metrics_of_another_judges_model_out(models, kind):
    before, now = (made_run(name, n=40) for name in ("before", "now"))
    judged = [Column((score,) * 40, (True,) * 40) for score in (0.0, 1.0)]
    before = replace(before, columns={**before.columns, "judged_correct": judged[0]}, judge_models=("m-1",))
    now = replace(now, columns={**now.columns, "judged_correct": judged[1]}, judge_models=models)

    found = compare_runs("evaluations", now, [before], old="before", new="now", judged=frozenset({"judged_correct"}))

    verdict = found.verdicts["judged_correct"]
    assert (verdict.kind, found.verdicts["exact_match"].reason) == (kind, None)
    assert kind != "withheld" or verdict.reason == "the judge's server answered as m-1 before, and now as m-2"
