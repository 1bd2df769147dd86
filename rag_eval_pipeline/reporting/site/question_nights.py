"""Each question of a pair over the nights: its scores then, as the page of a question draws them."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rag_eval_pipeline.evaluation.publishing import results_path
from rag_eval_pipeline.reporting.history import ResultsHeader
from rag_eval_pipeline.reporting.site.inert import inert
from rag_eval_pipeline.reporting.site.questions import NightRow, read_night
from rag_eval_pipeline.workspace import Workspace

MEASURES = (("f1", "F1"), ("rank", "nDCG@10"), ("citations", "Citation overlap"))


class Scores(NamedTuple):
    """A question's scores on one night."""

    text: int  # of the question, as Python hashes it: equal ids of two dataset versions are not always one question
    f1: float | None
    rank: float | None
    citations: float | None


class QuestionNight(NamedTuple):
    """One evaluation's scores by question, and the digest of its results file."""

    header: ResultsHeader
    digest: str
    scores: Mapping[str, Scores]


def read_question_night(workspace: Workspace, header: ResultsHeader) -> QuestionNight:
    """The questions of an evaluation; none where they cannot be read, its figures are shown all the same."""
    data = results_path(workspace, header.evaluation_id).read_bytes()
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    try:
        rows = read_night(data)
    except msgspec.MsgspecError:
        rows = []
    is_page = header.retrieval_level == "page"
    return QuestionNight(header, digest, {row.query_id: _scores(row, is_page) for row in rows})


def nights_value(nights: Sequence[QuestionNight]) -> dict[str, Any]:
    """What the page of a question loads: nights, question ids, and for each measure a list of nights a question."""
    newest = nights[-1].scores
    return {
        "nights": [[n.header.evaluation_id, f"{n.header.timestamp:%Y-%m-%d}"] for n in nights],
        "measures": MEASURES,
        "ids": [inert(query_id) for query_id in newest],
        "values": [
            [[_value(night, query_id, scores.text, name) for night in nights] for query_id, scores in newest.items()]
            for name, _ in MEASURES
        ],
    }


def change(now: Scores | None, before: QuestionNight | None, query_id: str) -> float | None:
    """F1 now less F1 on another night; None where either has none."""
    if now is None or before is None or now.f1 is None:
        return None
    then = before.scores.get(query_id)
    return now.f1 - then.f1 if then and then.text == now.text and then.f1 is not None else None


def _value(night: QuestionNight, query_id: str, text: int, name: str) -> float | None:
    scores = night.scores.get(query_id)
    if scores is None or scores.text != text:
        return None
    value: float | None = getattr(scores, name)
    return None if value is None else round(value, 3)


def _scores(row: NightRow, is_page: bool) -> Scores:
    found = row.individual_metrics
    if row.status != "ok":
        return Scores(hash(row.query_text), None, None, None)
    rank = found.page_ndcg if is_page else found.ndcg
    return Scores(hash(row.query_text), found.f1, rank, found.citation_span_accuracy)
