"""A reply is a verdict in the form that was asked for, or none: nothing is guessed, clamped or read out of prose."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.judges.claim_splitting import AnswerClaim
from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.prompts import judgement_prompt
from rag_eval_pipeline.judges.ratings import RatingProtocol
from rag_eval_pipeline.judges.replies import Unparsable, declines, parse_judgement, parse_rating

CASE = Case("1", "How high?", ("12 m",), False, "It is 12 m high.", contexts=("It is 12 m high.",))
ASKED = judgement_prompt(
    CASE, [AnswerClaim(0, 16, "It is 12 m high.", ())], asks_correctness=True, evidence_chars=10_000, salt=""
)
NONCE = ASKED.prompt.nonce
CLAIM = {"id": "c1", "rationale": "-", "by_citations": "no_text", "by_contexts": "supported"}
GOOD = {"nonce": NONCE, "correctness": {"rationale": "-", "verdict": "correct"}, "claims": [CLAIM], "citations": []}


def good(**changes):
    return json.dumps({**GOOD, **changes})


def overall(verdict):
    return good(correctness={"rationale": "-", "verdict": verdict})


def claim(**changes):
    return good(claims=[{**CLAIM, **changes}])


BAD = {
    "nothing":                      "",
    "nan":                          "nan",
    "infinity":                     "inf",
    "a number out of 100":          "85",
    "a percentage":                 "85%",
    "a grade":                      "8/10",
    "a decimal comma":              "0,8",
    "a number as Python writes it": "1_0",
    "Arabic digits":                "٠٫٨",
    "a refusal":                    "I'm sorry, but I can't judge this.",
    "a score in prose":             "Score: 0.9",
    "two numbers":                  "0.2 or 0.9",
    "a text":                       json.dumps(good()),
    "cut":                          good()[:-1],
    "two objects":                  good() + good(),
    "prose before":                 "Here you are: " + good(),
    "another nonce":                good(nonce="0" * 24),
    "no nonce":                     json.dumps({k: v for k, v in GOOD.items() if k != "nonce"}),
    "a key twice":                  good()[:-1] + ', "nonce": "' + NONCE + '"}',
    "a verdict twice":              good().replace('"verdict": "correct"', '"verdict": "incorrect", "verdict": "correct"'),
    "a key too many":               good(score=1.0),
    "a number as verdict":          overall(1.0),
    "NaN as verdict":               good().replace('"correct"}', "NaN}"),
    "a claim too few":              good(claims=[]),
    "an outcome that is none":      claim(by_contexts="contradicted"),
    "no verdict where there is text": claim(by_contexts="no_text"),
    "a verdict where there is none": claim(by_citations="supported"),
    "a citation nobody asked about": good(citations=[{"id": "k1", "rationale": "-", "verdict": "supported"}]),
    "half of a character":          good().replace('"-"', '"\\ud800"'),
    "a long key":                   good(**{"k" * 100_000: 1}),
    "a long number":                good().replace('"-"', "9" * 5_000),
}  # fmt: skip


@pytest.mark.fault(51)
@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_reply_is_refused(text):
    with pytest.raises(Unparsable) as error:
        parse_judgement(text, ASKED, CASE)

    assert error.value.fault
    assert "\n" not in error.value.fault
    assert len(error.value.fault) < 500


ALLOWED = {
    "as it was asked for": good(),
    "in a fence": f"```json\n{good()}\n```",
    "after thoughts": f"<think>8/10, no: {{}} hm</think>\n{good()}",
    "in another order": json.dumps(dict(reversed(GOOD.items()))),
}


@pytest.mark.parametrize("text", ALLOWED.values(), ids=ALLOWED)
def test_reply_is_read(text):
    part = parse_judgement(text, ASKED, CASE)

    assert (part.correctness.verdict, part.correctness.score) == ("correct", 1.0)
    assert part.claims[0].by_citations is None
    assert (part.claims[0].by_contexts.outcome, part.claims[0].by_contexts.score) == ("supported", 1.0)


@pytest.mark.fault(51)
@given(st.text() | st.text(alphabet='{}[]":,0123456789.eE-+ truefalsn\n') | st.floats().map(str))
def test_any_text_is_no_verdict(text):
    with pytest.raises(Unparsable):
        parse_judgement(text, ASKED, CASE)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["correct", "supported", "c1", "-", NONCE]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*GOOD, *CLAIM, "verdict", "score"]), inner, max_size=5)
    ),
)


@pytest.mark.fault(51)
@given(st.fixed_dictionaries({key: st.just(value) | JSON for key, value in GOOD.items()}))
def test_any_object_is_whole_or_no_verdict(value):
    try:
        part = parse_judgement(json.dumps(value), ASKED, CASE)
    except Unparsable:
        return
    assert part.correctness.verdict in {"correct", "incorrect", "refused", "unsure"}
    assert part.correctness.score in {0.0, 1.0}
    assert part.claims[0].by_contexts.score in {0.0, 1.0}
    assert value["nonce"] == NONCE


BRIEF = RatingProtocol(name="x", version="1", prompts=("?",), scale={0: 0.0, 1: 1.0}, needs=("answer",))


@pytest.mark.fault(51)
@given(st.text(max_size=50), JSON)
def test_no_grade_comes_out_of_garbage(text, value):
    for reply in (text, json.dumps({"nonce": NONCE, "rationale": "-", "rating": value})):
        try:
            scores = parse_rating(reply, BRIEF, NONCE)
        except Unparsable:
            continue
        assert (type(value), scores) == (int, {"x": float(value)})


def test_declines_is_told_from_a_verdict():
    assert declines("I’m sorry, but I can’t assist with that.")
    assert not declines("The answer is correct.")
    assert not declines('{"rationale": "the answer says: I cannot"}')
