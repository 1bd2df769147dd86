"""The overall citation score of an answer rests on several parts: what one of them lost is no missing part."""

import pytest

from rag_eval_pipeline.evaluation.means import ScoredRun
from rag_eval_pipeline.evaluation.storage import QueryScores
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.systems.base import RagAnswer

SPANS = QueryScores("0", "scored", None, {"tolerance_jaccard": 0.5})
NO_SPANS = QueryScores("0", "skipped", "no_gold_spans")
JUDGED = QueryScores("0", "scored", None, {"citation_correctness": 1.0})
LOST = QueryScores("0", "failed", "bad_judge_reply")
NO_JUDGE = QueryScores("0", "skipped", "no_judge")

CASES = {
    # 0.30 x 0.5 + 0.30 x 1 over 0.60; each part alone is all there is.
    "spans and a judge":                      (SPANS,    JUDGED,   ("scored", 0.75)),
    "spans alone":                            (SPANS,    NO_JUDGE, ("scored", 0.5)),
    "a judge alone":                          (NO_SPANS, JUDGED,   ("scored", 1.0)),
    "a judge that failed is not left out":    (SPANS,    LOST,     ("failed", None)),
    "neither":                                (NO_SPANS, NO_JUDGE, ("skipped", None)),
}  # fmt: skip


def parts(citations, judged, status="ok"):
    query = EvaluationQuery(query_id="0", query_text="Who?", relevant_documents=("a.pdf",))
    answer = RagAnswer("0", status, "x" if status == "ok" else None, False, (), (), 1.0)
    plain = QueryScores("0", "scored")
    return ScoredRun([query], [answer], [plain], [citations], [plain], [judged])


@pytest.mark.parametrize(("citations", "judged", "expected"), CASES.values(), ids=CASES)
def test_the_overall_score_of_an_answer(citations, judged, expected):
    [row] = parts(citations, judged).overall

    assert (row.outcome, row.scores.get("overall_citation_accuracy")) == expected


def test_a_question_without_an_answer_failed():
    [row] = parts(NO_SPANS, NO_JUDGE, status="timeout").overall

    assert (row.outcome, row.reason) == ("failed", "timeout")
