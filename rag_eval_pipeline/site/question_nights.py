"""Questions over the nights of a benchmark: scores and answers of each, how much they changed, and which are shown."""

import hashlib
import sys
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

import msgspec

from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.monitoring.history import ResultsHeader
from rag_eval_pipeline.site.data import ReportData
from rag_eval_pipeline.site.display_text import replace_control_chars
from rag_eval_pipeline.site.outcomes import Given, Outcome, OutcomeRule, outcome_rule
from rag_eval_pipeline.site.run_data import DAMAGED, read_results

QUESTIONS_SHOWN = 20_000  # of a benchmark; a browser takes a second for the table, and the data has 15 MB
MEASURES = (("f1", "F1"), ("rank", "nDCG@10"), ("citations", "Citation overlap"))


class _ShownScores(msgspec.Struct, frozen=True, gc=False):
    """The scores that are shown over nights; decoding no others halves the time."""

    exact_match: float | None = None
    f1: float | None = None
    ndcg: float | None = msgspec.field(default=None, name="ndcg@10")
    page_ndcg: float | None = msgspec.field(default=None, name="page/ndcg@10")
    citation_span_accuracy: float | None = None
    judged_correct: float | None = None
    vital_score: float | None = None


class NightRow(msgspec.Struct, frozen=True, gc=False):
    """A question on one night."""

    query_id: str
    query_text: str
    status: str
    individual_metrics: _ShownScores


class _AnsweredRow(NightRow, frozen=True, gc=False):
    generated_answer: str | None
    abstained: bool


class _NightFile(msgspec.Struct, frozen=True):
    query_results: list[NightRow] = []
    dataset_id: str = ""


class _AnsweredFile(msgspec.Struct, frozen=True):
    query_results: list[_AnsweredRow] = []
    dataset_id: str = ""


class Scores(msgspec.Struct, frozen=True, gc=False):
    """A question's scores on one night."""

    text: int  # checksum of the question: equal ids of two dataset versions are not always one question
    f1: float | None
    rank: float | None
    citations: float | None


class QuestionNight(NamedTuple):
    """One evaluation's scores by question, with the digest of its results file.

    Args:
        given: The answers, of the nights whose answers are shown; else empty.
    """

    header: ResultsHeader
    digest: str
    scores: Mapping[str, Scores]
    given: Mapping[str, Given] = {}
    dataset_id: str = ""
    rule: OutcomeRule = OutcomeRule(True)

    def scores_of(self, query_id: str, text: int) -> Scores | None:
        """Return the scores of a question with a checksum of its text; None if it was not asked that night."""
        scores = self.scores.get(query_id)
        return scores if scores is not None and scores.text == text else None

    def outcome(self, query_id: str, query: EvaluationQuery | None) -> Outcome:
        """Return what became of a question of `given`; `query` is None when the dataset is gone."""
        return self.rule.outcome(self.given[query_id], query)


def read_question_night(report: ReportData, header: ResultsHeader, *, with_answers: bool = False) -> QuestionNight:
    """Read the scores of an evaluation; none if they are damaged, since its means can be shown all the same."""
    path = report.workspace.results_file(header.evaluation_id)
    with path.open("rb") as opened:
        digest = hashlib.file_digest(opened, partial(hashlib.blake2b, digest_size=16)).hexdigest()
    is_page = header.retrieval_level == "page"
    scores: dict[str, Scores] = {}
    given: dict[str, Given] = {}
    file: _AnsweredFile | _NightFile
    try:
        if with_answers:
            file, rows = read_results(path, _AnsweredFile, _AnsweredRow)
        else:
            file, rows = read_results(path, _NightFile, NightRow)
        for row in rows:
            found = row.individual_metrics
            scores[row.query_id] = _scores(row, is_page)
            if with_answers:
                given[row.query_id] = Given(
                    row.generated_answer, sys.intern(row.status), found.exact_match, found.f1, found.judged_correct,
                    row.abstained, found.vital_score,
                )  # fmt: skip
    except DAMAGED:
        return QuestionNight(header, digest, {})
    return QuestionNight(header, digest, scores, given, file.dataset_id, outcome_rule(report, header))


def nights_value(nights: Sequence[QuestionNight], hidden: Collection[str]) -> dict[str, Any]:
    """Return the data of a pair's nights: for each measure a list of nights for each question."""
    newest = {query_id: scores.text for query_id, scores in nights[-1].scores.items() if query_id not in hidden}
    found = [[night.scores_of(query_id, text) for night in nights] for query_id, text in newest.items()]
    return {
        "nights": [[n.header.evaluation_id, f"{n.header.timestamp:%Y-%m-%d}"] for n in nights],
        "measures": MEASURES,
        "ids": [replace_control_chars(query_id) for query_id in newest],
        "values": [
            [[_rounded(getattr(scores, name, None)) for scores in of_nights] for of_nights in found]
            for name, _ in MEASURES
        ],
    }


def changes(now: QuestionNight, before: Sequence[QuestionNight], measure: str = "f1") -> dict[str, float]:
    """Return each question's score less its mean over earlier evaluations, where all of them have one."""
    found = {}
    for query_id, scores in now.scores.items():
        then = [night.scores.get(query_id) for night in before]
        old = [getattr(one, measure) for one in then if one is not None and one.text == scores.text]
        value = getattr(scores, measure)
        if value is not None and old and len(old) == len(before) and None not in old:
            found[query_id] = value - sum(old) / len(old)
    return found


def are_all_shown(nights: Iterable[QuestionNight]) -> bool:
    """Return whether pages show all questions of a benchmark's nights."""
    return len(set[str]().union(*(night.scores for night in nights))) <= QUESTIONS_SHOWN


def hidden_questions(
    nights: Iterable[QuestionNight], changed: Mapping[str, Mapping[str, float]], named: Collection[str]
) -> frozenset[str]:
    """Return the questions of a benchmark that pages do not show, because it has more than `QUESTIONS_SHOWN`.

    Shown are those that are named elsewhere, then those that changed most, then those with the lowest F1, in any of the
    systems.

    Args:
        nights: All nights of the benchmark.
        changed: Newest evaluation of each system -> how much the F1 of each of its questions changed.
    """
    order: dict[str, tuple[float, float]] = {}
    for night in nights:
        moved = changed.get(night.header.evaluation_id)
        for query_id, scores in night.scores.items():
            f1 = -1.0 if scores.f1 is None else scores.f1
            own = (0.0, 1.0) if moved is None else (-abs(moved.get(query_id, 0.0)), f1)
            order[query_id] = min(order.get(query_id, own), own)
    order |= {query_id: (-inf, 0.0) for query_id in named if query_id in order}
    return frozenset(sorted(order, key=order.__getitem__)[QUESTIONS_SHOWN:])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def text_checksum(text: str) -> int:
    """Return a checksum of a question's text."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def _scores(row: NightRow, is_page: bool) -> Scores:
    found = row.individual_metrics
    if row.status != "ok":
        return Scores(text_checksum(row.query_text), None, None, None)
    rank = found.page_ndcg if is_page else found.ndcg
    return Scores(text_checksum(row.query_text), found.f1, rank, found.citation_span_accuracy)
