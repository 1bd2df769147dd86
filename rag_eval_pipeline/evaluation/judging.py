"""The judge's part of an evaluation: each answer as a case, its judgement kept whole, and the scores that follow.

A judge that could not be used, or a reply that could not be read, is a failed question of this part alone: the other
scores of the evaluation stand.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import NamedTuple

import msgspec

from rag_eval_pipeline.evaluation.corpus_files import CorpusFiles
from rag_eval_pipeline.evaluation.evidence import CorpusTexts
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.responses_file import iter_responses
from rag_eval_pipeline.evaluation.runs import Evaluation
from rag_eval_pipeline.evaluation.scores_file import QueryScores
from rag_eval_pipeline.evaluation.spending import Spending, Spent
from rag_eval_pipeline.formats.citations import strip_citations
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.judges.judgement import (
    LANGUAGE_NOT_SUPPORTED,
    Case,
    CitedText,
    Claim,
    Judge,
    Judgement,
    JudgeUsage,
)
from rag_eval_pipeline.judges.label_scores import label_scores
from rag_eval_pipeline.judges.opening import open_judge
from rag_eval_pipeline.judges.settings import JudgeSettings
from rag_eval_pipeline.metrics.claims import JudgedCitation, JudgedClaim, claim_scores
from rag_eval_pipeline.storage.atomic import publishing
from rag_eval_pipeline.systems.answer import RagAnswer
from rag_eval_pipeline.workspace import Workspace

NO_JUDGE = "no_judge"
CORRECTNESS_MEASURES = ("judged_correct", "judged_correct_upper", "judged_refused", "judged_unsure")
CASES_AT_ONCE = 256  # in memory; how many are with the judge is its own limit


class JudgePurse(NamedTuple):
    """What judging may cost today, and where it is booked."""

    spending: Spending

    async def reserve(self) -> None:
        """Waits for room; raises `ServiceError` `budget_spent` when there is nothing left today."""
        await self.spending.reserve()

    def book(self, usage: JudgeUsage) -> None:
        """Books what one answer took."""
        self.spending.add(Spent(usage.requests, usage.total_tokens, usage.estimated_cost_usd))


@contextmanager
def judge_purse(workspace: Workspace, settings: JudgeSettings, account: str) -> Iterator[JudgePurse]:
    """The purse of a judge, written when the block ends.

    Args:
        workspace: Where accounts lie.
        settings: Whose budget it is.
        account: Whoever spends: an evaluation's id, or a calibration of one; unlike that of any other process.
    """
    clock = partial(datetime.now, UTC)
    with Spending(workspace.spending, f"judge-{settings.kind}", account, settings.budget, clock=clock) as spending:
        yield JudgePurse(spending)


def judge_answers(workspace: Workspace, evaluation: Evaluation, pair: Pair) -> list[QueryScores]:
    """Judges every answer and keeps the judgements beside it.

    Returns:
        Scores by question, in the dataset's order; all skipped without a judge.

    Raises:
        ServiceError: The judge cannot be used, or its day's budget is used up: what was judged is kept in its cache.
    """
    return asyncio.run(_judge_answers(workspace, evaluation, pair))


def cases_of(pair: Pair, answers: Iterable[RagAnswer]) -> Iterator[Case | None]:
    """Each answer with what it is judged by, in order; None for one that did not arrive.

    Args:
        pair: Whose questions they answer, in the dataset's order.
        answers: One a question.
    """
    files = CorpusFiles.read(pair.paths)
    texts = CorpusTexts(files.pages())
    for query, answer in zip(pair.queries, answers, strict=True):
        yield _case(query, answer, files, texts)


def _case(query: EvaluationQuery, answer: RagAnswer, files: CorpusFiles, texts: CorpusTexts) -> Case | None:
    if answer.status != "ok" or answer.answer is None:
        return None
    cited = tuple(
        CitedText(
            document=citation.file_name,
            text=texts.cited(files.canonical(citation.file_name), citation.start_char, citation.end_char),
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
    )


def read_judgements(evaluation: Evaluation) -> Iterator[Judgement]:
    """What the judge said of each answer that arrived, in the dataset's order; nothing without a judge."""
    if evaluation.judgements.exists():
        decoder = msgspec.json.Decoder(Judgement)
        with evaluation.judgements.open("rb") as file:
            yield from (decoder.decode(line) for line in file)


class JudgingReport(NamedTuple):
    """How many answers a judge could judge.

    Args:
        judged: Answers with its verdict.
        failed: Answers without one.
        reasons: Code of a failure -> answers.
    """

    judged: int
    failed: int
    reasons: dict[str, int]

    @property
    def sentence(self) -> str:
        """One line for people; empty when every answer was judged."""
        codes = ", ".join(f"{count} {code}" for code, count in self.reasons.items())
        judged = self.judged + self.failed
        return f"the judge could not judge {self.failed} of {judged} answers: {codes}" if self.failed else ""


def judging_report(evaluation: Evaluation) -> JudgingReport:
    """What the judge could not judge of an evaluation; answers that never arrived are not its failures."""
    statuses: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for judgement in read_judgements(evaluation):
        statuses[judgement.status] += 1
        if judgement.status != "completed":
            reasons[judgement.error_code or judgement.status] += 1
    failed = statuses.total() - statuses["completed"]
    return JudgingReport(statuses["completed"], failed, dict(reasons.most_common()))


async def _judge_answers(workspace: Workspace, evaluation: Evaluation, pair: Pair) -> list[QueryScores]:
    settings = pair.settings.judge
    async with open_judge(settings, workspace.judge_cache) as judge:
        if judge is None:
            evaluation.judgements.unlink(missing_ok=True)
            return [QueryScores(query.query_id, "skipped", NO_JUDGE) for query in pair.queries]
        rows: list[QueryScores] = []
        answers = iter_responses(evaluation.responses)
        account = evaluation.record.evaluation_id
        with judge_purse(workspace, settings, account) as purse, publishing(evaluation.judgements) as file:
            cases = cases_of(pair, iter_responses(evaluation.responses))
            while batch := list(islice(cases, CASES_AT_ONCE)):
                for case, judgement in zip(batch, await _judge_batch(judge, batch, purse), strict=True):
                    answer = next(answers)
                    if case is None or judgement is None:
                        rows.append(_not_judged(answer))
                        continue
                    file.write(msgspec.json.encode(judgement) + b"\n")
                    rows.append(judgement_scores(case, judgement))
        return rows


async def _judge_batch(judge: Judge, cases: list[Case | None], purse: JudgePurse) -> list[Judgement | None]:
    async def one(case: Case | None) -> Judgement | None:
        if case is None:
            return None
        await purse.reserve()
        judgement = await judge.judge(case)
        purse.book(judgement.usage)
        return judgement

    return list(await asyncio.gather(*(one(case) for case in cases)))


def _not_judged(answer: RagAnswer) -> QueryScores:
    if answer.status == "ok":  # a recording of retrieval alone
        return QueryScores(answer.query_id, "skipped", "no_answer_recorded")
    return QueryScores(answer.query_id, "failed", answer.status)


def judgement_scores(case: Case, judgement: Judgement) -> QueryScores:
    """The scores that follow from a judgement; failed, with its code, for one that failed."""
    if judgement.status != "completed":
        return QueryScores(case.query_id, "failed", judgement.error_code)
    scores: dict[str, float] = {}
    faults: dict[str, str] = {}
    if LANGUAGE_NOT_SUPPORTED in judgement.flags:
        # Failed, not skipped: a mean over the answers that could be decided would not be the system's.
        line = f"{LANGUAGE_NOT_SUPPORTED}: the lexical judge decides correctness in English only"
        faults = {name: line for name in CORRECTNESS_MEASURES if name != "judged_refused"}
        scores["judged_refused"] = 0.0
    if judgement.correctness is not None:
        verdict = judgement.correctness.verdict
        scores["judged_correct"] = float(verdict == "correct")
        scores["judged_correct_upper"] = float(verdict in ("correct", "unsure"))
        scores["judged_refused"] = float(verdict == "refused")
        scores["judged_unsure"] = float(verdict == "unsure")
    claims = [
        JudgedClaim(
            is_cited=_is_cited(case, claim),
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
    scores |= claim_scores(claims, citations, answer_length=len(case.answer))
    scores |= label_scores(case, judgement)
    return QueryScores(case.query_id, "scored", None, scores | judgement.ratings, faults)


def _is_cited(case: Case, claim: Claim) -> bool:
    """A mark stands with it, or what is cited beside the text supports it: else one source would cite every claim."""
    is_supported = claim.by_citations is not None and claim.by_citations.outcome == "supported"
    return is_supported or any(not case.citations[number].is_beside for number in claim.citations)
