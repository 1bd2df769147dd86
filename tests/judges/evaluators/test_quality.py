"""Quality: the five dimensions by their stated measures, and what is left out without evidence."""

import pytest

from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.judges.evaluators.quality import clarity, coherence
from rag_eval_pipeline.judges.evaluators.running import Means
from rag_eval_pipeline.judges.judgement import Claim, Correctness, Judgement, Support

COHERENCE = {
    "one sentence": (("The line opened.",), 1.0),
    "a shared word": (("The line opened.", "Lines rust."), 1.0),
    "a word that points back": (("Ada built the line.", "She was rich."), 1.0),
    "two subjects": (("The line opened.", "Bananas are yellow."), 0.0),
    "one link of two": (("The line opened.", "The line rusts.", "Bananas are yellow."), 0.5),
    "a sentence again": (("The line opened.", "The line opened."), 0.0),
}


@pytest.mark.parametrize(("sentences", "score"), COHERENCE.values(), ids=COHERENCE)
def test_coherence(sentences, score):
    assert coherence(sentences, "en") == score


def test_clarity_falls_with_the_length_of_sentences():
    assert clarity(("word " * 30,)) == 1.0
    assert clarity(("word " * 60, "word")) == (30 / 60 + 1.0) / 2


def judged(**fields):
    return Judgement(query_id="e", status="completed", **fields)


CLAIMS = tuple(
    Claim(0, 1, (), None, support)
    for support in (Support("supported", 0.9), Support("not_found", 0.2), Support("conflicting", 0.1), None)
)

ACCURACY = {
    "the judge's correctness": ({"judgement": judged(correctness=Correctness("correct", 0.75, ""), claims=CLAIMS)}, 0.75),
    "the share of checked claims": ({"judgement": judged(claims=CLAIMS)}, 1 / 3),
    "words of the gold answer": ({"accepted": ("granite marbles",)}, 0.5),
    "an answer to an impossible question": ({"is_impossible": True}, 0.0),
    "nothing to check against": ({}, None),
    "a judgement that checked nothing": ({"judgement": judged()}, None),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "accuracy"), ACCURACY.values(), ids=ACCURACY)
async def test_accuracy(fields, accuracy, evaluated):
    found = await evaluated("quality", Event("e", "What is it made of?", "Granite.", **fields))

    assert found.dimensions.get("accuracy") == accuracy
    assert found.score == pytest.approx(sum(found.dimensions.values()) / len(found.dimensions), abs=1e-12)
    assert (found.metadata is None) == (accuracy is not None)


async def test_a_judge_that_fails_is_a_failed_evaluation(evaluated):
    class Down:
        fingerprint = "down"

        async def judge(self, case):
            return Judgement(query_id=case.query_id, status="failed", error="no reply", error_code="judge_down")

    found = await evaluated("quality", Event("e", "?!", "Granite."), means=Means(judge=Down()))

    assert (found.status, found.score, found.error.code, found.error.message) == (
        "failed", None, "judge_down", "no reply",
    )  # fmt: skip
