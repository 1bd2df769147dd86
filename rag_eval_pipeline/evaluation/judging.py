"""Judging an evaluation: each answer becomes a case, its judgement is stored whole, and scores are derived from it.

Evaluators named in the settings run on the same cases (`<evaluation_id>.evaluations.json`; Source: Evaluation Data
Models), with their scores beside the judge's.
"""

import asyncio
import math
from array import array
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from itertools import count
from typing import NamedTuple, Self, get_args

import msgspec

from rag_eval_pipeline import clock
from rag_eval_pipeline.errors import counted
from rag_eval_pipeline.evaluation.budget import UsageLedger
from rag_eval_pipeline.evaluation.corpus_names import CorpusFiles
from rag_eval_pipeline.evaluation.evaluation_folders import JUDGE_MODEL, Evaluation
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.score_tables import QueryScores, ScoreTable, damaged
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.formats.citation_marks import strip_citations
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.judges.evaluators import Event, evaluate_events, evaluations_path
from rag_eval_pipeline.judges.judge_settings import JudgeSettings
from rag_eval_pipeline.judges.judgement import (
    FACTS,
    LANGUAGE_NOT_SUPPORTED,
    RATING_FAILED,
    Case,
    CitedText,
    Judge,
    Judgement,
    is_refusal,
)
from rag_eval_pipeline.judges.open_judge import open_judge
from rag_eval_pipeline.metrics.claims import (
    FACT_MEASURES,
    PARTIAL,
    CitedStatement,
    JudgedCitation,
    JudgedClaim,
    JudgedFact,
    alce_scores,
    claim_scores,
    fact_scores,
)
from rag_eval_pipeline.storage.atomic_files import publishing
from rag_eval_pipeline.systems.base import RagAnswer
from rag_eval_pipeline.workspace import Workspace

NO_JUDGE = "no_judge"
CORRECTNESS_MEASURES = ("judged_correct", "judged_correct_upper", "judged_refused", "judged_unsure")
SUPPORT_MEASURES = (
    "citation_correctness", "citation_support", "citation_support_all", "factual_consistency",
    "consistency_of_resolved", "faithfulness", "hallucination_vs_citations", "hallucination_vs_retrieved",
)  # fmt: skip
OPPOSITE_SHARE = 0.1  # of the answers, from which two judges that are sure of opposite verdicts are worth a warning
_SUPPORT = {"support": 1.0, "partial_support": PARTIAL, "not_support": 0.0, None: None}
CASES_AT_ONCE = 256  # in memory; the judge limits how many are sent at once
PREFIX = "evaluator/"  # of an evaluator's score among the judge's


class BudgetedJudge:
    """A judge whose usage is booked with its daily budget; a context manager.

    Args:
        account: The id of an evaluation or of a calibration.
    """

    def __init__(self, judge: Judge, workspace: Workspace, settings: JudgeSettings, account: str) -> None:
        self.fingerprint = judge.fingerprint
        self.judges_support = judge.judges_support
        self.may_differ = judge.may_differ
        self._judge = judge
        name = f"judge-{settings.kind}"
        self._ledger = UsageLedger(workspace.spending, name, account, settings.budget, clock=clock.now)

    async def judge(self, case: Case, repeat: int = 0) -> Judgement:
        """Judge one answer; raises `ServiceError` `budget_spent`."""
        await self._ledger.reserve()
        judgement = await self._judge.judge(case, repeat)
        self._ledger.book(judgement.usage)
        return judgement

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ledger.flush()


class JudgedAnswers(NamedTuple):
    """The scores of each question, the counts of the judgements, and what evaluators are to evaluate."""

    rows: ScoreTable
    counts: "JudgementCounts"
    events: list[Event]


def judge_answers(
    workspace: Workspace, evaluation: Evaluation, pair: Pair, progress: Callable[[int, int], None] | None = None
) -> JudgedAnswers:
    """Judge every answer and store the judgements; all questions are skipped without a judge.

    Raises:
        ServiceError: The judge cannot be used, or its daily budget is used up; judgements so far stay in its cache.
    """
    return asyncio.run(_judge_answers(workspace, evaluation, pair, progress))


def make_cases(pair: Pair, answers: Iterable[RagAnswer]) -> Iterator[Case | None]:
    """Yield a case for each answer, in the dataset's order; None for an answer that did not arrive."""
    for query, answer in zip(pair.queries, answers, strict=True):
        yield make_case(query, answer, pair.files)


def make_case(query: EvaluationQuery, answer: RagAnswer, files: CorpusFiles) -> Case | None:
    """Return an answer with its question, citations and passages as a case; None if it did not arrive."""
    if answer.status != "ok" or answer.answer is None:
        return None
    cited = tuple(
        CitedText(
            document=citation.file_name,
            text=files.texts.cited(files.canonical(citation.file_name), citation.start_char, citation.end_char),
            marker_start=len(answer.answer) if citation.marker_start is None else citation.marker_start,
            marker_end=len(answer.answer) if citation.marker_end is None else citation.marker_end,
        )
        for citation in answer.citations
    )
    return Case(
        query_id=query.query_id,
        question=query.query_text,
        accepted=() if query.is_impossible else tuple(query.accepted_answers),
        is_impossible=query.is_impossible,
        answer=answer.answer,
        citations=cited,
        contexts=tuple(passage.text for passage in sorted(answer.contexts, key=lambda passage: passage.rank)),
        facts=query.facts,
    )


def read_judgements(evaluation: Evaluation) -> Iterator[Judgement]:
    """Yield the judgement of each answer that arrived, in the dataset's order; nothing without a judge.

    Raises:
        InputError: `bad_judgements`.
    """
    path = evaluation.judgements
    if path.exists():
        decoder = msgspec.json.Decoder(Judgement)
        try:
            with path.open("rb") as file:
                yield from map(decoder.decode, file)
        except ValueError as error:
            raise damaged("bad_judgements", path, "the judgements of an evaluation", error) from error


class JudgingReport(NamedTuple):
    """Counts of answers with and without a verdict, and of the codes of those without."""

    judged: int
    failed: int
    reasons: dict[str, int]

    @property
    def sentence(self) -> str:
        """One line to display; empty when every answer was judged."""
        codes = ", ".join(f"{count} {code}" for code, count in self.reasons.items())
        judged = self.judged + self.failed
        return f"the judge could not judge {self.failed} of {judged} answers: {codes}" if self.failed else ""


class JudgementCounts:
    """The judgements of an evaluation in numbers; answers that never arrived have none."""

    def __init__(self) -> None:
        self._completed = 0
        self._reasons: Counter[str] = Counter()
        self._flags: Counter[str] = Counter()
        self._models: set[str] = set()
        self._fingerprints: set[str] = set()
        self._usage: dict[form.JudgeUsageName, array[float]] = {}
        self._facts = self._undecided = 0

    @classmethod
    def read(cls, evaluation: Evaluation) -> Self:
        """Count the stored judgements of an evaluation; raises `bad_judgements`."""
        counts = cls()
        for judgement in read_judgements(evaluation):
            counts.add(judgement)
        return counts

    def add(self, judgement: Judgement) -> None:
        """Count a judgement."""
        if judgement.status == "completed":
            self._completed += 1
        else:
            self._reasons[judgement.error_code or judgement.status] += 1
        self._flags.update(judgement.flags)
        self._facts += len(judgement.facts)
        self._undecided += sum(fact.outcome is None for fact in judgement.facts)
        if judgement.model is not None:
            self._models.add(judgement.model)
        if judgement.system_fingerprint is not None:
            self._fingerprints.add(judgement.system_fingerprint)
        for name in get_args(form.JudgeUsageName):
            self._usage.setdefault(name, array("d")).append(getattr(judgement.usage, name))

    @property
    def report(self) -> JudgingReport:
        """How many answers were judged."""
        return JudgingReport(self._completed, self._reasons.total(), dict(self._reasons.most_common()))

    def warnings(self) -> list[str]:
        """Return a line for each rating that failed, and one if answers may have talked the model judge over."""
        flags = ((*flag.partition(":"), n) for flag, n in self._flags.items())
        lines = [
            f"the judge's rating {name} failed for {n:,} of {self._completed:,} answers [{RATING_FAILED}]: they have "
            "no score of it"
            for code, _, name, n in flags
            if code == RATING_FAILED
        ]
        if self._undecided:
            lines.append(
                f"{self._undecided:,} of {self._facts:,} gold facts are not decided by the default judge, and no part "
                "of the scores: they have no number, name or quoted words beyond the question's. A model judge decides "
                "them"
            )
        counts = self._flags["judges_disagree"], self._flags["injection_suspect"]
        if counts[1] or counts[0] >= OPPOSITE_SHARE * max(1, self._completed):
            of = f"{self._completed:,} judged answers"
            lines.append(
                f"the lexical judge is sure of the opposite verdict on {counts[0]:,} of {of} (judges_disagree), and "
                f"{counted(counts[1], 'has texts that address', 'have texts that address')} the "
                f"judge (injection_suspect): read some of them in the report"
            )
        return lines

    @property
    def usage(self) -> dict[form.JudgeUsageName, float]:
        """The sums of what judging used; empty without a judge."""
        return {name: math.fsum(values) for name, values in self._usage.items()}

    @property
    def models(self) -> tuple[str, ...]:
        """The models that the judge's server reports, by name."""
        return tuple(sorted(self._models))

    @property
    def known(self) -> dict[str, tuple[str, ...]]:
        """What the judge's replies say of its server."""
        found = {JUDGE_MODEL: self._models, "judge system_fingerprint": self._fingerprints}
        return {name: tuple(sorted(values)) for name, values in found.items() if values}

    def record(self, kind: str, fingerprint: str) -> form.JudgeRecord:
        """Return which judge was used, with the counts."""
        return form.JudgeRecord(
            kind=kind,
            fingerprint=fingerprint,
            models=self.models,
            completed=self._completed,
            failed=self._reasons.total(),
            flags=dict(sorted(self._flags.items())),
        )


async def _judge_answers(
    workspace: Workspace, evaluation: Evaluation, pair: Pair, progress: Callable[[int, int], None] | None
) -> JudgedAnswers:
    settings, numbers = pair.settings.judge, count(1)
    account = evaluation.record.evaluation_id
    counts, events = JudgementCounts(), list[Event]()
    asked = zip(pair.queries, evaluation.answers, strict=True)
    cases = ((answer, make_case(query, answer, pair.files)) for query, answer in asked)

    def add_event(case: Case | None, judgement: Judgement | None = None) -> None:
        if case is not None and pair.settings.evaluators is not None:
            events.append(Event(f"{account}/{case.query_id}", case, judgement))

    def report() -> None:
        if progress is not None:
            progress(next(numbers), len(pair.queries))

    async with open_judge(settings, workspace.judge_cache) as judge:
        if judge is None:
            evaluation.judgements.unlink(missing_ok=True)
            if pair.settings.evaluators is not None:
                for _, case in cases:
                    add_event(case)
            skipped = (QueryScores(query.query_id, "skipped", NO_JUDGE) for query in pair.queries)
            return JudgedAnswers(ScoreTable.of(skipped, []), counts, events)
        parts = [ScoreTable.of([], [])]  # a list of rows would need ten times as much memory
        rows: list[QueryScores] = []
        with BudgetedJudge(judge, workspace, settings, account) as paid, publishing(evaluation.judgements) as file:
            async with aclosing(_judged_in_order(paid, cases, report)) as judged:
                async for answer, case, judgement in judged:
                    add_event(case, judgement)
                    if case is None or judgement is None:
                        rows.append(_not_judged(answer))
                    else:
                        counts.add(judgement)
                        file.write(msgspec.json.encode(judgement) + b"\n")
                        rows.append(judgement_scores(case, judgement, judges_support=judge.judges_support))
                    if len(rows) == CASES_AT_ONCE:
                        parts.append(ScoreTable.of_all(rows))
                        rows.clear()
        return JudgedAnswers(ScoreTable.joined([*parts, ScoreTable.of_all(rows)]), counts, events)


async def _judged_in_order(
    judge: "BudgetedJudge", cases: Iterable[tuple[RagAnswer, Case | None]], report: Callable[[], None]
) -> AsyncGenerator[tuple[RagAnswer, Case | None, Judgement | None], None]:
    """Yield each answer with its judgement; `CASES_AT_ONCE` are begun before the first of them has to be there."""

    async def judge_one(case: Case | None) -> Judgement | None:
        judgement = None if case is None else await judge.judge(case)
        report()
        return judgement

    begun: deque[tuple[RagAnswer, Case | None, asyncio.Task[Judgement | None]]] = deque()
    try:
        for answer, case in cases:
            begun.append((answer, case, asyncio.create_task(judge_one(case))))
            if len(begun) == CASES_AT_ONCE:
                answer, case, task = begun.popleft()
                yield answer, case, await task
        while begun:
            answer, case, task = begun.popleft()
            yield answer, case, await task
    finally:
        for _, _, task in begun:
            task.cancel()


def _not_judged(answer: RagAnswer) -> QueryScores:
    if answer.status == "ok":  # a recording of retrieval alone
        return QueryScores(answer.query_id, "skipped", "no_answer_recorded")
    return QueryScores(answer.query_id, "failed", answer.status)


def judgement_scores(case: Case, judgement: Judgement, *, judges_support: bool = True) -> QueryScores:
    """Return the scores that follow from a judgement; failed, with its code, for one that failed."""
    if judgement.status != "completed":
        return QueryScores(case.query_id, "failed", judgement.error_code)
    scores: dict[str, float] = {}
    failed = (flag.partition(":") for flag in judgement.flags)
    faults = {name: RATING_FAILED for code, _, name in failed if code == RATING_FAILED and name != FACTS}
    if len(judgement.facts) == len(case.facts):
        labels = zip(case.facts, judgement.facts, strict=True)
        scores |= fact_scores([JudgedFact(fact.is_vital, _SUPPORT[found.outcome]) for fact, found in labels])
    else:
        faults |= dict.fromkeys(FACT_MEASURES, RATING_FAILED)
    if LANGUAGE_NOT_SUPPORTED in judgement.flags:
        # Failed, not skipped: a mean over the answers that could be decided would not be the system's.
        line = f"{LANGUAGE_NOT_SUPPORTED}: the lexical judge decides correctness in English only"
        faults |= {name: line for name in CORRECTNESS_MEASURES if name != "judged_refused"}
        scores["judged_refused"] = 0.0
    if judgement.correctness is not None:
        verdict = judgement.correctness.verdict
        scores["judged_correct"] = float(verdict == "correct")
        scores["judged_correct_upper"] = float(verdict in ("correct", "unsure"))
        scores["judged_refused"] = float(is_refusal(case, judgement.correctness))
        scores["judged_unsure"] = float(verdict == "unsure")
    scores |= _claim_scores(case, judgement)
    if judges_support:
        scores |= label_scores(case, judgement)
    else:
        unknown = {*SUPPORT_MEASURES, "resolved_claims"}
        if any(cited.has_no_mark for cited in case.citations):
            # Only support shows which claims such a citation is for; otherwise one source would cite every claim.
            unknown |= {"cited_claims", "citation_completeness", "cited_text_share"}
        scores = {name: score for name, score in scores.items() if name not in unknown}
    return QueryScores(case.query_id, "scored", None, scores | judgement.ratings, faults)


def _claim_scores(case: Case, judgement: Judgement) -> dict[str, float]:
    claims = [
        JudgedClaim(
            # A citation without a mark cites the claims that it supports.
            is_cited=claim.is_supported or any(not case.citations[number].has_no_mark for number in claim.citations),
            by_citations=None if claim.by_citations is None else claim.by_citations.outcome == "supported",
            by_retrieved=None if claim.by_contexts is None else claim.by_contexts.outcome == "supported",
            length=len(strip_citations(case.answer[claim.start : claim.end])),
        )
        for claim in judgement.claims
    ]
    citations = [
        JudgedCitation(
            is_correct=support is not None and support.outcome == "supported",
            support=None if support is None else support.score,
            length=cited.marker_end - cited.marker_start,
        )
        for cited, support in zip(case.citations, judgement.citation_support, strict=True)
    ]
    return claim_scores(claims, citations, answer_length=len(case.answer))


def label_scores(case: Case, judgement: Judgement) -> dict[str, float]:
    """Return ALCE's scores, where the judge gave labels, and the relevance of citations."""
    scores: dict[str, float] = {}
    statements = [
        CitedStatement(
            joint=claim.is_supported,
            alone=claim.labels.alone,
            without=claim.labels.without,
            in_range=all(case.citations[number].text is not None for number in claim.citations),
        )
        for claim in judgement.claims
        if claim.labels is not None
    ]
    if len(statements) == len(judgement.claims):
        scores |= alce_scores(statements)
    if judgement.citation_support:
        # A wrong number beside the right passage is a relevant citation, though not a correct one.
        on_topic = [support is not None and support.outcome != "not_found" for support in judgement.citation_support]
        scores["citation_relevance"] = sum(on_topic) / len(on_topic)
    return scores


def add_evaluator_scores(workspace: Workspace, evaluation: Evaluation, pair: Pair, judged: JudgedAnswers) -> ScoreTable:
    """Run the evaluators that the settings name, publish their records, and add their scores to the judge's rows."""
    config = pair.settings.evaluators
    if config is None:
        return judged.rows
    evaluation_id = evaluation.record.evaluation_id
    batch = evaluate_events(judged.events, config, evaluation_id=evaluation_id, now=clock.now())
    batch.write(evaluations_path(workspace.evaluations, evaluation_id))
    scores: dict[str, dict[str, float]] = {}
    faults: dict[str, dict[str, str]] = {}
    for one in batch.evaluations:
        query_id, name = one.target_event_id.removeprefix(f"{evaluation_id}/"), PREFIX + one.evaluator_name
        if isinstance(one.score, int | float):  # a category has no mean
            scores.setdefault(query_id, {})[name] = float(one.score)
        elif one.error is not None and one.error.code == RATING_FAILED:
            faults.setdefault(query_id, {})[name] = RATING_FAILED
    rows = [
        replace(_joined(row, scores.get(row.query_id, {})), faults=row.faults | faults.get(row.query_id, {}))
        for row in judged.rows
    ]
    return ScoreTable.of_all(rows)


def _joined(row: QueryScores, more: dict[str, float]) -> QueryScores:
    if not more:
        return row
    scores = row.scores | more
    if row.outcome == "failed":  # the judge's scores are still missing, and its means count that
        return replace(row, scores=scores)
    return replace(row, outcome="scored", reason=None, scores=scores)
