"""Labels are asked for in one further call by a setting, and taken whole or not at all."""

import json

import msgspec
import pytest

from rag_eval_pipeline.judges.judgement import CitationLabels, CitedText
from rag_eval_pipeline.judges.label_scores import label_scores
from rag_eval_pipeline.judges.openai.claims import CitedClaim
from rag_eval_pipeline.judges.settings import JudgeSettings
from tests.judges.openai.judge_server import MEANS, data_of, honest

SETTINGS = {"endpoint": {"base_url": "http://127.0.0.1:9"}, "chat": {"model": "m"}}


async def test_without_the_setting_nothing_more_is_asked(opened, case):
    async with opened() as (judge, server):
        judgement = await judge.judge(case)

    assert (len(server.bodies), judgement.entailment) == (1, None)
    assert [claim.labels for claim in judgement.claims] == [None, None]


async def test_one_call_more_gives_the_labels(opened, case):
    async with opened(claim_labels=True) as (judge, server):
        judgement = await judge.judge(case)

    assert [data["task"] for data in server.sections()] == ["judgement", "entailment"]
    data = server.sections()[1]
    # The first claim's second citation does not entail it alone, so it is asked whether the first is enough.
    assert [(claim["text"], claim["against"]) for claim in data["claims"]] == [
        ("The light was built in 1874", "gold_answer"),
        ("It was red", "gold_answer"),
        ("1874", "answer"),
        ("The light was built in 1874", ["s1"]),
    ]
    assert [passage["id"] for passage in data["passages"]] == ["p1", "p2"]
    found = judgement.entailment
    assert (found.gold, found.gold_claims) == ("1874", ("1874",))
    assert (found.correct, found.covered) == ((False, False), (True,))
    assert (found.grounded, found.retrieved) == (((True, False), (False, False)), ((True, False),))
    assert [claim.labels for claim in judgement.claims] == [
        CitationLabels((True, False), (None, True)),
        CitationLabels((True,), (None,)),
    ]
    assert (judgement.usage.requests, judgement.flags) == (2, ())
    scores = label_scores(case, judgement)
    assert (scores["citation_recall"], scores["citation_precision"]) == (1.0, 2 / 3)
    assert scores["ragchecker/claim_recall"] == 1.0


async def test_a_refusal_is_compared_by_the_gold_answer_s_claims_alone(opened, case):
    refusal = msgspec.structs.replace(case, answer="I do not know.", citations=())

    async with opened(claim_labels=True) as (judge, server):
        judgement = await judge.judge(refusal)

    assert [claim["against"] for claim in server.sections()[1]["claims"]] == ["answer"]
    assert (judgement.entailment.correct, judgement.entailment.covered) == ((), (False,))


async def test_an_impossible_question_without_spare_citations_needs_no_call(opened, case):
    impossible = msgspec.structs.replace(case, accepted=(), is_impossible=True, citations=case.citations[2:])

    async with opened(claim_labels=True) as (judge, server):
        judgement = await judge.judge(impossible)

    assert (len(server.bodies), judgement.entailment) == (1, None)
    assert [claim.labels for claim in judgement.claims] == [CitationLabels((), ()), CitationLabels((True,), (None,))]


async def test_many_claims_take_more_calls(opened, case):
    async with opened(claim_labels=True, claims_per_call=3) as (judge, server):
        judgement = await judge.judge(case)

    assert [len(data["claims"]) for data in server.sections()[1:]] == [3, 1]
    # Citations alone have no passages to be compared with.
    assert server.sections()[2]["passages"] == []
    assert judgement.claims[0].labels == CitationLabels((True, False), (None, True))


def without_a_label(reply):
    reply["labels"].pop()


def of_an_unknown_passage(reply):
    reply["labels"][0]["passages"] = ["p7"]


def passages_of_a_citation(reply):
    reply["labels"][-1]["passages"] = ["p1"]


def as_a_word(reply):
    reply["labels"][0]["entailed"] = "yes"


def another_nonce(reply):
    reply["nonce"] = "x"


@pytest.mark.parametrize(
    "spoil", [without_a_label, of_an_unknown_passage, passages_of_a_citation, as_a_word, another_nonce]
)
async def test_labels_that_cannot_be_read_are_missing_and_the_rest_stands(spoil, opened, case):
    def answer(body):
        reply = json.loads(honest(body))
        if data_of(body)[1]["task"] == "entailment":
            spoil(reply)
        return json.dumps(reply)

    async with opened(answer, claim_labels=True) as (judge, server):
        judgement = await judge.judge(case)

    assert (judgement.status, judgement.flags, judgement.entailment) == ("completed", ("labels_failed",), None)
    assert [claim.labels for claim in judgement.claims] == [None, None]
    assert judgement.correctness.verdict == "correct"
    assert len(server.bodies) == 3  # the verdicts, the labels, and their repair


SAID = {
    "most say yes": ([True, False, True], True),
    "most say no": ([True, False, False], False),
    "a tie is no": ([True, False], False),
}


@pytest.mark.parametrize(("said", "expected"), SAID.values(), ids=SAID)
async def test_most_of_several_judgings_win_in_labels_too(said, expected, opened, case):
    left = iter(said)

    def answer(body):
        reply = json.loads(honest(body))
        if data_of(body)[1]["task"] == "entailment":
            reply["labels"][0]["entailed"] = next(left)
            reply["labels"][1]["passages"] = ["p2"]
        return json.dumps(reply)

    async with opened(answer, claim_labels=True, repeats=len(said)) as (judge, _):
        judgement = await judge.judge(case)

    assert judgement.entailment.correct == (expected, False)
    assert judgement.entailment.grounded[1] == (False, True)
    assert judgement.claims[0].labels == CitationLabels((True, False), (None, True))


async def test_citations_beside_the_answer_are_checked_once_each(opened, case):
    end = len(case.answer)
    beside = tuple(CitedText(c.document, c.text, end, end) for c in case.citations)
    answered = msgspec.structs.replace(case, answer="The light was built in 1874. It was red", citations=beside)
    finding = [(0, 27, "The light was built in 1874"), (29, 39, "It was red")]

    means = MEANS._replace(find_claims=lambda _: [CitedClaim(*place, (0, 1, 2)) for place in finding])
    async with opened(means=means, claim_labels=True) as (judge, server):
        judgement = await judge.judge(answered)

    checks = server.sections()[0]["citation_checks"]
    assert [(check["claim"], check["cited"]) for check in checks] == [("any", "s1"), ("any", "s2"), ("any", "s3")]
    assert 'With the claim "any"' in server.bodies[0]["messages"][1]["content"]
    assert [one.outcome for one in judgement.citation_support] == ["supported", "not_found", "supported"]
    assert [claim.labels for claim in judgement.claims] == [None, None]


@pytest.mark.parametrize("claims_per_call", [1, 12], ids=["a call a claim", "one call"])
@pytest.mark.parametrize("turned", [False, True], ids=["second", "first"])
async def test_a_citation_beside_the_answer_counts_for_the_claim_it_supports_best(
    turned, claims_per_call, opened, case
):
    said = ["It was red", "Boats came"] if turned else ["Boats came", "It was red"]
    answer = ". ".join(said)
    beside = (CitedText("a.pdf", "It was red once.", len(answer), len(answer)),)
    finding = [CitedClaim(answer.index(text), answer.index(text) + len(text), text, (0,)) for text in said]
    means = MEANS._replace(find_claims=lambda _: finding)
    async with opened(means=means, claims_per_call=claims_per_call) as (judge, server):
        judgement = await judge.judge(msgspec.structs.replace(case, answer=answer, citations=beside))

    # A claim's only citation needs no check: the claim's verdict is its verdict.
    assert [data["citation_checks"] for data in server.sections()] == [[]] * len(server.bodies)
    assert [one.outcome for one in judgement.citation_support] == ["supported"]


async def test_prompts_of_answers_with_marks_are_what_they_were(opened, case):
    async with opened() as (judge, server):
        await judge.judge(case)

    assert "any" not in [check["claim"] for check in server.sections()[0]["citation_checks"]]
    assert 'With the claim "any"' not in server.bodies[0]["messages"][1]["content"]


CALLS = {
    #                              settings                                                        calls
    "verdicts":                    ({},                                                             1),
    "labels":                      ({"claim_labels": True},                                         2),
    "ratings of two prompts":      ({"ratings": ["answer_accuracy"]},                               3),
    "everything three times":      ({"ratings": ["answer_relevance"], "claim_labels": True, "repeats": 3}, 9),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "calls"), CALLS.values(), ids=CALLS)
def test_calls_of_an_answer(settings, calls):
    judge = JudgeSettings.model_validate({"kind": "openai", "settings": SETTINGS | settings})

    assert judge.calls_per_answer == calls


def test_a_judge_of_words_calls_nobody():
    assert [JudgeSettings.model_validate({"kind": kind}).calls_per_answer for kind in ("lexical", "none")] == [0, 0]
