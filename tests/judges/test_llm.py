"""An answer is judged in one call; a reply is read whole or not at all, and a failure is no number."""

import base64
import logging
import urllib.parse

import msgspec
import pytest

from rag_eval_pipeline.judges.judge_settings import LlmSettings
from rag_eval_pipeline.judges.judgement import CitationLabels, CitedText, Support
from rag_eval_pipeline.judges.llm import llm_fingerprint
from tests.judges.judge_server import Completion, data_of, honest, honest_but, sections, verdict_is

ENDPOINT = {"base_url": "http://127.0.0.1:9/v1"}


async def test_judgement_takes_one_call(opened, case):
    async with opened() as (judge, server):
        judgement = await judge.judge(case)

    assert judgement.status == "completed"
    assert (judgement.correctness.verdict, judgement.correctness.score) == ("correct", 1.0)
    assert [(claim.start, claim.end, claim.citations) for claim in judgement.claims] == [
        (0, 36, (0, 1)),
        (37, 52, (2,)),
    ]
    assert [claim.by_citations.outcome for claim in judgement.claims] == ["supported", "supported"]
    assert [claim.by_contexts.outcome for claim in judgement.claims] == ["supported", "not_found"]
    # Each citation of a claim with several is compared with it alone.
    assert [support.outcome for support in judgement.citation_support] == ["supported", "not_found", "supported"]
    assert (judgement.usage.requests, judgement.usage.cached, judgement.usage.total_tokens) == (1, 0, 120)
    assert (judgement.model, judgement.flags, len(server.bodies)) == ("judge-1", (), 1)
    # The second claim's only citation needs no check of its own: the claim's verdict is its verdict.
    (data,) = sections(server)
    assert [(check["claim"], check["cited"]) for check in data["citation_checks"]] == [("c1", "s1"), ("c1", "s2")]


async def test_many_claims_take_more_calls_and_one_verdict(opened, case):
    answer = " ".join(f"Boat {number} came." for number in range(7))
    many = msgspec.structs.replace(case, answer=answer, citations=())

    async with opened(claims_per_call=3) as (judge, server):
        judgement = await judge.judge(many)

    assert [len(data["claims"]) for data in sections(server)] == [3, 3, 1]
    assert ["answer" in data for data in sections(server)] == [True, False, False]
    assert " ".join(answer[claim.start : claim.end] for claim in judgement.claims) == answer


NO_CALL = {
    #                         accepted   impossible answer   verdict
    "nothing was said":      (("1874",), False,     " \n",   ("refused", 0.0)),
    "nothing, rightly":      ((),        True,      "…",     ("correct", 1.0)),
    "nothing to compare":    ((),        False,     "",      None),
}  # fmt: skip


@pytest.mark.parametrize(("accepted", "impossible", "answer", "expected"), NO_CALL.values(), ids=NO_CALL)
async def test_empty_answer_takes_no_call(accepted, impossible, answer, expected, opened, case):
    empty = msgspec.structs.replace(case, answer=answer, accepted=accepted, is_impossible=impossible, citations=())

    async with opened() as (judge, server):
        judgement = await judge.judge(empty)

    found = judgement.correctness
    assert (found and (found.verdict, found.score)) == expected
    assert (judgement.status, judgement.claims, server.bodies) == ("completed", (), [])


async def test_refusal_has_no_claims(opened, case):
    async with opened(verdict_is("refused")) as (judge, _):
        judgement = await judge.judge(case)

    assert (judgement.correctness.verdict, judgement.claims) == ("refused", ())
    assert judgement.citation_support == (None, None, None)


async def test_repair_names_the_fault_and_quotes_no_reply(opened, case):
    replies = iter(["Score: 0.9 SECRETIVE WORDS", None])

    async with opened(lambda body: next(replies) or honest(body)) as (judge, server):
        judgement = await judge.judge(case)

    assert (judgement.status, judgement.usage.requests, judgement.usage.total_tokens) == ("completed", 2, 240)
    repair = server.bodies[1]["messages"][-1]["content"]
    assert "no JSON object of the form" in repair
    # The reply may quote the data, and outside of their section nothing would mark it.
    assert "SECRETIVE" not in repair
    assert server.bodies[1]["messages"][:-1] == server.bodies[0]["messages"]


FAILURES = {
    #                             what the server says                                        code                   requests
    "prose":                     (Completion("It is correct."),                               "judge_unparsable",     2),
    "a refusal in words":        (Completion("I'm sorry, but I can't help with that."),       "judge_refused",        2),
    "cut":                       (Completion('{"nonce": "', finish_reason="length"),          "judge_truncated",      2),
    "a broken server":           (Completion("down", status=500),                             "judge_http_500",       1),
}  # fmt: skip


@pytest.mark.fault(51)
@pytest.mark.parametrize(("said", "code", "requests"), FAILURES.values(), ids=FAILURES)
async def test_failure_has_a_code_and_no_number(said, code, requests, opened, case):
    async with opened(lambda body: said) as (judge, server):
        judgement = await judge.judge(case)

    assert (judgement.status, judgement.error_code, len(server.bodies)) == ("failed", code, requests)
    assert (judgement.correctness, judgement.claims, judgement.ratings) == (None, (), {})
    assert judgement.error
    assert "\n" not in judgement.error


@pytest.mark.fault(51)
async def test_fallback_score_is_optional_and_flagged(opened, case):
    async with opened(lambda body: "nan", fallback_scoring=0.5, ratings=["groundedness"]) as (judge, _):
        judgement = await judge.judge(case)

    assert (judgement.status, judgement.flags) == ("completed", ("fallback_score",))
    assert (judgement.correctness.verdict, judgement.correctness.score) == ("unsure", 0.5)
    assert {claim.by_citations for claim in judgement.claims} == {Support("not_found", 0.5, "fallback_scoring")}
    async with opened(url="http://127.0.0.1:9/v1", fallback_scoring=0.5, folder="other") as (judge, _):
        unreachable = await judge.judge(case)
    assert (unreachable.status, unreachable.error_code) == ("failed", "judge_connection_refused")


@pytest.mark.fault(52)
async def test_another_model_within_a_run_is_a_failure_and_no_paid_reply_is_lost(opened, case):
    said = {"model": "m-old"}
    cases = [msgspec.structs.replace(case, question=f"Question {n}?") for n in range(3)]

    async with opened(lambda body: Completion(honest(body), model=said["model"])) as (judge, server):
        runs = [[await judge.judge(cases[0])]]
        said["model"] = "m-new"
        runs[0] += [await judge.judge(each) for each in cases[1:]]
        for model in ("m-new", "m-old", "m-old"):
            said["model"] = model
            async with opened(url=server.url) as (judge, _):
                runs.append([await judge.judge(each) for each in cases])

    codes = [[judgement.error_code for judgement in run] for run in runs]
    assert codes[0] == [None, "judge_model_changed", "judge_model_changed"]
    assert runs[0][1].error == "the server now answers as 'm-new', earlier as 'm-old'"
    # The next run is of the new model, whose replies were kept; all questions have one then, so none is asked.
    assert [judgement.model for judgement in (*runs[1], *runs[2])] == ["m-new"] * 6
    assert [[judgement.usage.cached for judgement in run] for run in runs[1:]] == [[0, 1, 1], [1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize(
    ("reply", "code", "requests"),
    [
        (Completion("{", finish_reason="length"), "judge_truncated", 2),  # each with its repair
        (Completion("down", status=503), "judge_http_503", 1),
    ],
    ids=["cut", "down"],
)
async def test_judge_that_brings_no_verdict_is_not_asked_for_every_answer(reply, code, requests, opened, case):
    cases = [msgspec.structs.replace(case, question=f"Question {n}?") for n in range(20)]

    async with opened(lambda body: reply) as (judge, server):
        judgements = [await judge.judge(each) for each in cases]

    assert [judgement.error_code for judgement in judgements] == [code] * 10 + ["judge_stopped"] * 10
    assert len(server.bodies) == requests * 10


async def test_router_may_mix_models_and_is_flagged(opened, case):
    models = iter(["m-1", "m-2"])
    cases = [case, msgspec.structs.replace(case, question="And when?")]

    async with opened(lambda body: Completion(honest(body), model=next(models)), same_model=False) as (judge, _):
        judgements = [await judge.judge(each) for each in cases]

    assert [judgement.flags for judgement in judgements] == [(), ("models_mixed",)]


@pytest.mark.fault(53)
async def test_repeated_evaluation_comes_from_the_cache(opened, case):
    """Citation Accuracy Evaluation: more than 80 % of the replies on repeats."""
    cases = [msgspec.structs.replace(case, question=f"Question {n}?") for n in range(6)]
    broken = {"Question 3?"}

    def answer(body):
        return "nothing" if data_of(body)[1]["question"] in broken else honest(body)

    async with opened(answer) as (judge, server):
        first = [await judge.judge(each) for each in cases]
        asked = len(server.bodies)
        broken.clear()
        second = [await judge.judge(each) for each in cases]

    assert [judgement.status for judgement in first].count("failed") == 1
    # Failures were not kept: they are asked again, and only they.
    assert (asked, len(server.bodies) - asked) == (5 + 2, 1)
    assert sum(judgement.usage.cached for judgement in second) / len(cases) > 0.8
    for one, again in zip(first, second, strict=True):
        if again.usage.cached:
            assert msgspec.structs.replace(again, usage=one.usage) == one


@pytest.mark.fault(44)
async def test_secrets_are_in_no_judgement_file_or_log(opened, case, monkeypatch, caplog, tmp_path):
    key = "canary-key/+with=signs-5f3a"
    monkeypatch.setenv("JUDGE_KEY", key)
    caplog.set_level(logging.DEBUG)
    replies = iter([Completion(f"you sent {key}"), Completion("no", status=500), Completion(f"{key}", status=401)])
    repeating = honest_but(lambda reply, _: reply["correctness"].update(rationale=f"Bearer {key}"))

    async with opened(lambda body: next(replies, None) or repeating(body), endpoint={"api_key_env": "JUDGE_KEY"}) as (
        judge,
        server,
    ):
        judgements = [await judge.judge(case) for _ in range(3)]
        shown = repr(judge) + judge.fingerprint

    assert all(f"Bearer {key}" in head for head in server.headers)
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    seen = msgspec.json.encode(judgements) + files + (caplog.text + shown).encode()
    for spelling in (key, urllib.parse.quote(key, safe=""), base64.b64encode(key.encode()).decode()):
        assert spelling.encode() not in seen
    assert [judgement.status for judgement in judgements] == ["failed", "failed", "completed"]


def rating(value):
    """A judge that gives the rating, or what a function of the data returns; `ratings` for a dictionary."""

    def change(reply, data):
        if data["task"] == "rating":
            grade = value(data) if callable(value) else value
            del reply["rating"]
            reply["ratings" if isinstance(grade, dict) else "rating"] = grade

    return honest_but(change)


BREVITY = {
    "name": "brevity", "version": "brevity/1", "prompts": ["Is `answer` short? 1: yes. 2: no."],
    "scale": {1: 1.0, 2: 0.25}, "needs": ["answer"],
}  # fmt: skip
GRADES = {
    "answer_accuracy": lambda data: 2 if data["turned"] else 4,
    "quality": lambda data: {"relevance": 4, "coherence": 4, "clarity": 3, "completeness": 2, "accuracy": 0},
    "toxicity": lambda data: {"hate_speech": 0, "harassment": 2, "violence": 0, "sexual_content": 0, "profanity": 1, "identity_attack": 0},
    "brevity": lambda data: 2,
}  # fmt: skip


async def test_ratings_are_means_of_directions_and_dimensions(opened, case):
    wanted = ["answer_accuracy", "quality", "toxicity", "groundedness", BREVITY]
    graded = rating(lambda data: GRADES[data["protocol"]](data))
    async with opened(graded, ratings=wanted) as (judge, server):
        judgement = await judge.judge(msgspec.structs.replace(case, contexts=("",)))

    # Grades 4 and 2 of 4 by direction: (1.0 + 0.5) / 2; of quality the mean, of toxicity the worst.
    # Groundedness needs contexts, and is not asked for without.
    whole = {name: score for name, score in judgement.ratings.items() if "/" not in name}
    assert whole == {"answer_accuracy": 0.75, "quality": (1 + 1 + 0.75 + 0.5 + 0) / 5, "toxicity": 0.6, "brevity": 0.25}
    assert (judgement.ratings["quality/clarity"], judgement.ratings["toxicity/profanity"]) == (0.75, 0.25)
    _, first, second, *_ = sections(server)
    assert (first["first"], first["second"]) == (case.answer, ["1874"])
    assert (second["first"], second["second"]) == (["1874"], case.answer)
    asked = [body["messages"][1]["content"] for body in server.bodies]
    assert len(asked) == 1 + 2 + 1 + 1 + 1
    assert "Is `answer` short?" in asked[-1]
    assert all(f'"{dimension}": ' in asked[3] for dimension in GRADES["quality"](None))


async def test_rating_that_cannot_be_read_is_flagged_and_missing(opened, case):
    grades = dict.fromkeys(("relevance", "coherence", "clarity", "completeness", "accuracy", "wit"), 4)

    async with opened(rating(grades), ratings=["quality"]) as (judge, _):
        judgement = await judge.judge(case)

    assert (judgement.status, judgement.ratings) == ("completed", {})
    assert judgement.flags == ("rating_failed:quality",)
    assert judgement.correctness.verdict == "correct"


FINGERPRINTS = {
    #                              change                                                        same judge
    "another model":             ({"chat": {"model": "judge-2"}},                                False),
    "another server":            ({"endpoint": {"base_url": "http://127.0.0.1:8/v1"}},           False),
    "a rating":                  ({"ratings": ["groundedness"]},                                 False),
    "labels":                    ({"claim_labels": True},                                        False),
    "another lexical judge":     ({"lexical": {"unsure_band": 0.1}},                             False),
    "more at once, slower":      ({"endpoint": ENDPOINT | {"in_flight": 3, "attempt_seconds": 5.0}}, True),
    "other prices":              ({"chat": {"model": "judge", "prices": {"usd_per_request": 1.0}}}, True),
}  # fmt: skip


@pytest.mark.fault(52)
@pytest.mark.parametrize(("change", "same"), FINGERPRINTS.values(), ids=FINGERPRINTS)
def test_fingerprint_changes_with_what_can_change_a_verdict(change, same):
    settings = {"endpoint": ENDPOINT, "chat": {"model": "judge"}}

    judge, other = (LlmSettings.model_validate(settings | changed) for changed in ({}, change))

    assert (llm_fingerprint(judge) == llm_fingerprint(other)) is same


async def test_labels_take_one_call_more(opened, case):
    async with opened(claim_labels=True) as (judge, server):
        judgement = await judge.judge(case)

    assert [data["task"] for data in sections(server)] == ["judgement", "entailment"]
    # The first claim's second citation does not entail it alone, so it is asked whether the first is enough.
    data = sections(server)[1]
    assert [(claim["text"], claim["against"]) for claim in data["claims"]] == [
        ("The light was built in 1874 .", ["s1"])
    ]
    assert [one["id"] for one in data["cited_texts"]] == ["s1"]
    assert [claim.labels for claim in judgement.claims] == [
        CitationLabels((True, False), (None, True)),
        CitationLabels((True,), (None,)),
    ]
    assert (judgement.usage.requests, judgement.flags) == (2, ())


BARE = {
    "a refusal": {"answer": "I do not know.", "citations": ()},
    "a citation a claim": {"answer": "It was red [1].", "citations": (CitedText("a.pdf", "It was red.", 11, 14),)},
}


@pytest.mark.parametrize("change", BARE.values(), ids=BARE)
async def test_labels_take_no_call_where_no_claim_has_several_citations(change, opened, case):
    async with opened(claim_labels=True) as (judge, server):
        await judge.judge(msgspec.structs.replace(case, **change))

    assert [data["task"] for data in sections(server)] == ["judgement"]


async def test_labels_of_many_citations_take_more_calls(opened, case):
    # Each of the three entails nothing alone: "It was tall" and "red" and "old" are in one text each.
    texts, answer = ("It was tall.", "and red", "and old"), "It was tall and red and old [1][2][3]."
    cited = tuple(CitedText(f"{n}.pdf", text, 28 + 3 * n, 31 + 3 * n) for n, text in enumerate(texts))

    async with opened(claim_labels=True, claims_per_call=2) as (judge, server):
        judgement = await judge.judge(msgspec.structs.replace(case, answer=answer, citations=cited))

    assert [len(data["claims"]) for data in sections(server)[1:]] == [2, 1]
    assert [claim.labels for claim in judgement.claims] == [CitationLabels((False,) * 3, (False,) * 3)]


async def test_labels_that_cannot_be_read_are_flagged_and_missing(opened, case):
    answer = honest_but(lambda reply, _: "labels" in reply and reply["labels"].pop())

    async with opened(answer, claim_labels=True) as (judge, server):
        judgement = await judge.judge(case)

    assert (judgement.status, judgement.flags) == ("completed", ("labels_failed",))
    assert [claim.labels for claim in judgement.claims] == [None, None]
    assert judgement.correctness.verdict == "correct"
    assert len(server.bodies) == 3  # the verdicts, the labels, and their repair


async def test_citations_without_a_mark_are_checked_once_each(opened, case):
    end = len(case.answer)
    without_marks = tuple(CitedText(c.document, c.text, end, end) for c in case.citations)
    answered = msgspec.structs.replace(case, answer="The light was built in 1874. It was red.", citations=without_marks)

    async with opened(claim_labels=True) as (judge, server):
        judgement = await judge.judge(answered)

    checks = sections(server)[0]["citation_checks"]
    assert [(check["claim"], check["cited"]) for check in checks] == [("any", "s1"), ("any", "s2"), ("any", "s3")]
    assert 'With the claim "any"' in server.bodies[0]["messages"][1]["content"]
    assert [one.outcome for one in judgement.citation_support] == ["supported", "not_found", "supported"]
    assert [claim.labels for claim in judgement.claims] == [None, None]


@pytest.mark.parametrize("claims_per_call", [1, 12], ids=["a call a claim", "one call"])
async def test_citation_without_a_mark_counts_for_the_claim_it_supports_best(claims_per_call, opened, case):
    answer = "Boats came. It was red. Boats came."
    cited = (CitedText("a.pdf", "It was red once.", len(answer), len(answer)),)

    async with opened(claims_per_call=claims_per_call) as (judge, server):
        judgement = await judge.judge(msgspec.structs.replace(case, answer=answer, citations=cited))

    # A claim's only citation needs no check: the claim's verdict is its verdict.
    assert [data["citation_checks"] for data in sections(server)] == [[]] * len(server.bodies)
    assert [one.outcome for one in judgement.citation_support] == ["supported"]


DISAGREE = {
    #                                 impossible  answer                      model          disagree
    "the same":                      (False,     "It was built in 1874.",     "correct",     False),
    "the opposite":                  (False,     "It was built in 1911.",     "correct",     True),
    "right or refused":              (False,     "I do not know.",            "correct",     True),
    "the model is unsure":           (False,     "It was built in 1911.",     "unsure",      False),
    "declined or not":               (True,      "It was built in 1911.",     "refused",     True),
}  # fmt: skip


@pytest.mark.parametrize(("impossible", "answer", "verdict", "expected"), DISAGREE.values(), ids=DISAGREE)
async def test_contradiction_of_the_lexical_judge_is_flagged(impossible, answer, verdict, expected, opened, case):
    accepted = () if impossible else case.accepted
    asked = msgspec.structs.replace(case, answer=answer, citations=(), accepted=accepted, is_impossible=impossible)
    async with opened(verdict_is(verdict)) as (judge, _):
        judgement = await judge.judge(asked)

    assert ("judges_disagree" in judgement.flags) is expected
