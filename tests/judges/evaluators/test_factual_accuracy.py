"""Factual accuracy: each claim is borne out, not borne out, or not checked."""

from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.judges.evaluators.running import Means
from rag_eval_pipeline.judges.judgement import CitedText, Claim, Judgement, JudgeUsage, Support
from rag_eval_pipeline.judges.lexical.judge import LexicalJudge

ANSWER = "It opened in 1887 [a.pdf:1:0-9]. It is long. It is red."
CITATIONS = (CitedText("a.pdf", "It opened in 1887.", 18, 31),)
JUDGEMENT = Judgement(
    query_id="e",
    status="completed",
    claims=(
        Claim(0, 32, (0,), Support("not_found", 0.25), Support("supported", 0.75)),
        Claim(33, 44, (), None, Support("conflicting", 0.25)),
        Claim(45, 55, (), None, None),
    ),
    citation_support=(Support("not_found", 0.25),),
    usage=JudgeUsage(estimated_cost_usd=0.5),
    model="m-1",
)


async def test_claims_and_citations_of_a_judgement(evaluated):
    found = await evaluated("factual_accuracy", Event("e", "?", ANSWER, citations=CITATIONS, judgement=JUDGEMENT))

    assert [(claim.claim, claim.verified, claim.confidence, claim.sources) for claim in found.factual_claims] == [
        ("It opened in 1887.", True, 0.75, ("a.pdf", "retrieved contexts")),
        ("It is long.", False, 0.75, ("retrieved contexts",)),
        ("It is red.", None, None, ()),
    ]
    assert (found.score, found.confidence, found.citation_accuracy) == (0.5, 0.75, 0.0)
    assert found.hallucination_detected is True
    assert found.explanation == "1 of 2 checked claims borne out, 1 not checked"
    assert found.metadata == {"evaluator_model": "m-1"}
    assert found.cost_usd is None  # it was paid for when the judgement was made


async def test_without_a_judge_claims_are_there_and_none_is_checked(evaluated):
    found = await evaluated("factual_accuracy", Event("e", "?", ANSWER, citations=CITATIONS))

    assert [(claim.claim, claim.verified) for claim in found.factual_claims] == [
        ("It opened in 1887.", None), ("It is long.", None), ("It is red.", None),
    ]  # fmt: skip
    assert (found.status, found.score, found.hallucination_detected) == ("completed", None, None)


async def test_a_refusal_claims_nothing(evaluated):
    found = await evaluated("factual_accuracy", Event("e", "?", "I don't know."), means=Means(judge=LexicalJudge()))

    assert (found.factual_claims, found.score, found.explanation) == ((), None, "the answer claims nothing")


async def test_the_lexical_judge_checks_claims(evaluated):
    event = Event("e", "When did it open?", "The line opened in 1887.", contexts=("The line opened in 1887.",))
    right = await evaluated("factual_accuracy", event, means=Means(judge=LexicalJudge()))
    wrong = await evaluated(
        "factual_accuracy",
        Event("e", "When did it open?", "The line opened in 1901.", contexts=event.contexts),
        means=Means(judge=LexicalJudge()),
    )

    assert (right.score, right.hallucination_detected) == (1.0, False)
    assert (wrong.score, wrong.hallucination_detected) == (0.0, True)


async def test_evaluators_share_one_judgement(now, new_id):
    from rag_eval_pipeline.formats.evaluations import EvaluationConfig
    from rag_eval_pipeline.judges.evaluators.running import run_evaluators

    class Counting(LexicalJudge):
        asked = 0

        async def judge(self, case):
            Counting.asked += 1
            return await super().judge(case)

    config = EvaluationConfig(evaluators=("quality", "factual_accuracy"))
    events = [Event(str(number), "?", "It opened.", contexts=("It opened.",)) for number in range(3)]
    await run_evaluators(events, config, now=now, new_id=new_id, means=Means(judge=Counting()))

    assert Counting.asked == 3
