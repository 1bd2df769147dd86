"""What became of each question of a run, in one word: the chips, filters, lists and spreadsheets of all pages."""

from typing import Final, Literal, NamedTuple

import msgspec

from rag_eval_pipeline.formats.citation_marks import strip_citations
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.judges.judge_settings import LexicalSettings
from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.lexical import LexicalJudge
from rag_eval_pipeline.monitoring.history import ResultsHeader
from rag_eval_pipeline.site.data import ReportData

Outcome = Literal["right", "partly", "wrong", "rightly", "refused", "invented", "failed", "unscored"]

OUTCOMES: Final[dict[Outcome, str]] = {
    "right": "right",
    "partly": "partly right",
    "wrong": "wrong",
    "rightly": "rightly abstained",
    "refused": "wrongly abstained",
    "invented": "invented an answer",
    "failed": "failed",
    "unscored": "not scored",
}
GOOD: Final[frozenset[Outcome]] = frozenset({"right", "rightly"})
MEANING = (
    "Right: equals a gold answer, or contains it by the rules of the lexical judge; where a model judge is calibrated, "
    "its verdict decides. Partly right: has words of a gold answer. Of a gold answer in facts: all or some vital ones"
)
_BY_WORDS = ("lexical/", "nli/")  # fingerprints of judges whose correctness is the lexical judge's


class Given(msgspec.Struct, frozen=True, gc=False):
    """What a system answered on one night; the answer is None if nothing arrived."""

    answer: str | None
    status: str
    exact: float | None
    f1: float | None
    judged: float | None
    is_abstained: bool
    vital: float | None = None  # `vital_score`


class OutcomeRule(NamedTuple):
    """Which verdict decides whether an answer of a run is right.

    Args:
        is_judge_trusted: The stored verdicts do: of the lexical judge, whose rules are stated, or of a calibrated one.
        lexical: Otherwise the lexical judge with these settings; None if they are not known, or without a judge.
    """

    is_judge_trusted: bool
    lexical: LexicalSettings | None = None

    def outcome(self, given: Given, query: EvaluationQuery | None) -> Outcome:
        """Return what became of a question; `query` is None when the dataset is gone."""
        if given.status != "ok":
            return "failed"
        if given.exact is None or given.f1 is None:
            return self._by_facts(given)
        if given.is_abstained:
            return "rightly" if given.exact == 1 else "refused"
        if query is not None and query.is_impossible:
            return "invented"
        if given.exact == 1 or self._is_accepted(given, query):
            return "right"
        return "partly" if given.f1 > 0 else "wrong"

    def _by_facts(self, given: Given) -> Outcome:
        if given.vital is None or not self.is_judge_trusted:
            return "unscored"
        if given.is_abstained:
            return "refused"
        return "right" if given.vital == 1 else "partly" if given.vital > 0 else "wrong"

    def _is_accepted(self, given: Given, query: EvaluationQuery | None) -> bool:
        if self.is_judge_trusted:
            return given.judged == 1
        if self.lexical is None or query is None or not given.f1:
            return False
        accepted, answer = tuple(query.accepted_answers), strip_citations(given.answer or "")
        case = Case(query.query_id, query.query_text, accepted, is_impossible=False, answer=answer)
        correctness = LexicalJudge(self.lexical).judge_case(case).correctness
        return correctness is not None and correctness.verdict == "correct"


def outcome_rule(report: ReportData, header: ResultsHeader) -> OutcomeRule:
    """Return the rule of a run."""
    fingerprint = header.fingerprints.get("judge") or ""
    if fingerprint.startswith(_BY_WORDS) or not report.trust.doubt(header, "judged_correct"):
        return OutcomeRule(True)
    published = report.published.get((header.benchmark, header.system), ())
    settings = (
        run.record.settings.judge.settings for run in published if run.record.evaluation_id == header.evaluation_id
    )
    return OutcomeRule(False, getattr(next(settings, None), "lexical", None))
