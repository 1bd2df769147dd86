"""The judge fills a whole judgement, the same bytes everywhere, for any text, in bounded time."""

import os
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.judges.judgement import Case, CitedText, Judge
from rag_eval_pipeline.judges.lexical.judge import LexicalJudge
from rag_eval_pipeline.judges.lexical.settings import LexicalSettings
from tests.conftest import REPOSITORY

ANSWER = "The lamp was lit in 1887 [1]. It stood 33 metres high. [2][3] Is it still there? It was sold [4]."
TEXTS = ("The lamp was lit in 1887 by Ada Thorne.", "It stood 31 metres high.", None, "It was sold in 1901.")


def case(answer=ANSWER, **changes):
    cited = tuple(
        CitedText("a.pdf", text, answer.index(f"[{n}]"), answer.index(f"[{n}]") + 3)
        for n, text in enumerate(TEXTS, start=1)
        if f"[{n}]" in answer
    )
    made = {"citations": cited, "contexts": ("The lamp was lit in 1887. It was sold.", "Nothing.")} | changes
    return Case("q1", "When was the lamp lit?", ("1887",), False, answer, **made)


async def test_a_judgement_says_all_there_is_to_say():
    judge: Judge = LexicalJudge()

    found = await judge.judge(case())

    assert (found.query_id, found.status, found.ratings, found.error) == ("q1", "completed", {}, None)
    assert found.correctness.verdict == "correct"
    assert [ANSWER[claim.start : claim.end] for claim in found.claims] == [
        "The lamp was lit in 1887 [1].",
        "It stood 33 metres high. [2][3]",
        "It was sold [4].",
    ]
    assert [claim.citations for claim in found.claims] == [(0,), (1, 2), (3,)]
    assert [claim.by_citations.outcome for claim in found.claims] == ["supported", "conflicting", "supported"]
    assert [claim.by_contexts.outcome for claim in found.claims] == ["supported", "not_found", "supported"]
    assert [support and support.outcome for support in found.citation_support] == [
        "supported",
        "conflicting",
        None,
        "supported",
    ]


def test_a_claim_is_judged_by_all_of_its_texts_together():
    answer = "The lamp was lit by Ada Thorne [1][2]."
    texts = ["The lamp was lit by somebody.", "Ada Thorne kept a diary."]
    cited = tuple(CitedText("a.pdf", text, *place) for text, place in zip(texts, ((31, 34), (34, 37)), strict=True))

    found = LexicalJudge().judge_case(Case("q1", "Who?", (), False, answer, cited))

    # lamp 24, lit 23, ada 23, thorne 26 = 96: 47 of them in the first text, 49 in the second.
    assert [support.score for support in found.citation_support] == [0.4, 0.510417]
    assert found.claims[0].by_citations.reason.startswith("recall 1.00")


def test_a_refusal_has_no_claims():
    found = LexicalJudge().judge_case(case("The documents do not answer this question [1]."))

    assert (found.correctness.verdict, found.claims, found.citation_support) == ("refused", (), (None,))


def test_without_texts_there_is_no_support():
    found = LexicalJudge().judge_case(case("The lamp was lit. [3]", contexts=("", "...")))

    assert (found.claims[0].by_citations, found.claims[0].by_contexts) == (None, None)


def test_what_is_kept_between_cases_changes_nothing():
    cases = [case(), case("It stood 31 metres high [2]."), case()]

    assert list(map(LexicalJudge().judge_case, cases)) == list(map(LexicalJudge(kept_characters=0).judge_case, cases))


@pytest.mark.parametrize(
    "changed", [{"language": "de"}, {"unsure_band": 0.2}, {"decimal_comma": True}, {"support_recall": 0.8}]
)
def test_settings_change_the_fingerprint(changed):
    assert LexicalJudge(LexicalSettings(**changed)).fingerprint != LexicalJudge().fingerprint


def test_equal_settings_have_one_fingerprint():
    assert LexicalJudge().fingerprint == LexicalJudge(LexicalSettings()).fingerprint
    assert LexicalJudge().fingerprint.startswith("lexical/")


SCRIPT = """
import msgspec, sys
from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.lexical.judge import LexicalJudge
judge = LexicalJudge()
cases = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Case])
sys.stdout.buffer.write(judge.fingerprint.encode() + msgspec.json.encode([judge.judge_case(one) for one in cases]))
"""


def test_every_hash_seed_gives_the_same_bytes():
    answers = [
        ANSWER,
        "Revenue fell by 12% to $4.5 million, and Bob Hale never sold the Skarn tower [2].",
        "I'm sorry, the provided context does not say. Please consult the harbour office.",
        "The keepers, the bell, the harbour, the tower and the green lamp were sold by the old city in 1901 [4].",
    ]
    told = msgspec.json.encode([case(answer) for answer in answers])

    said = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=told,
            capture_output=True,
            check=True,
            cwd=REPOSITORY,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "4242")
    }

    assert len(said) == 1


HOSTILE = {
    "brackets": "[", "unclosed citations": "[a.pdf:1:2-3", "ends of citations": ":1:2-3]", "excerpts": '| excerpt: "',
    "full stops": ".", "blanks": " ", "fillers": ".\x1a", "quotes": '" ', "digits and commas": "1,", "hyphens": "1-",
    "months": "may 1 ", "number words": "two and ", "refusals": "i cannot ", "sources": "the provided context ",
    "bars": "| ", "stars": "**a", "one word": "a", "one sentence": "Ab cd. ", "marks": "a\u0301", "no letters": "。",
    "surrogates": "\ud800", "links": "[a](b",
}  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_a_hundred_thousand_hostile_characters_are_judged(unit):
    text = (unit * (100_000 // len(unit) + 1))[:100_000]

    found = LexicalJudge().judge_case(
        Case("q1", text[:2000], (text[:200],), False, text, (CitedText("a.pdf", text, 0, 5),), (text,))
    )

    assert found.status == "completed"


def test_thousands_of_claims_that_share_their_words_are_judged():
    text = "".join(f"Ab cd {number}. " for number in range(3_000))

    assert len(LexicalJudge().judge_case(Case("q1", "?", (), False, text, (), (text,))).claims) == 3_000


@given(
    answer=st.text(),
    context=st.text(),
    language=st.sampled_from(["en", "de", "fr", "ru", "zh", "ja", "ar", "hi"]),
    mark=st.tuples(st.integers(-2, 20), st.integers(-2, 20)),
)
def test_any_text_in_any_language_is_judged(answer, context, language, mark):
    judge = LexicalJudge(LexicalSettings(language=language))

    found = judge.judge_case(
        Case("q1", context, (context,), False, answer, (CitedText("a", context, *mark),), (context,))
    )

    scores = [support.score for claim in found.claims for support in (claim.by_citations, claim.by_contexts) if support]
    assert all(0 <= score <= 1 and score == round(score, 6) for score in scores)
    assert len(found.citation_support) == 1
