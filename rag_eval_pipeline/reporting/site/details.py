"""Everything about one question: answer and gold answer, claims, citations, what was retrieved, time and cost.

Texts are cut into stretches here, where offsets are code points; the page only lays them out. What a system sends
without end is shown up to a length: the run's own files have all of it.
"""

import msgspec

from rag_eval_pipeline.formats.citations import strip_citations
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.judges.judgement import Judgement
from rag_eval_pipeline.reporting.site.answer_stretches import answer_stretches
from rag_eval_pipeline.reporting.site.differences import difference, nearest
from rag_eval_pipeline.reporting.site.found_places import (
    NAME_LENGTH,
    CitationShown,
    PassageShown,
    citation_shown,
    gold_place,
    passage_shown,
    placed_spans,
)
from rag_eval_pipeline.reporting.site.inert import inert, shortened
from rag_eval_pipeline.reporting.site.judged_claims import ClaimShown, claim_shown, verdict_shown
from rag_eval_pipeline.reporting.site.numbers import count, dollars, milliseconds
from rag_eval_pipeline.reporting.site.page_pictures import PicturedPage
from rag_eval_pipeline.reporting.site.questions import QuestionRow
from rag_eval_pipeline.reporting.site.texts import DocumentTexts
from rag_eval_pipeline.systems.answer import RagAnswer

PASSAGES_SHOWN = 10
CITATIONS_SHOWN = 50
ANSWER_LENGTH = 20_000  # code points, also of questions and gold answers
ERROR_LENGTH = 2_000
GOLDS_SHOWN = 20
MISSED_SHOWN = 20


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question's page.

    Args:
        id: Of the question.
        question: As it was asked.
        outcome: A word of `OUTCOMES`.
        facts: Label and value: kind of question, difficulty, source id.
        gold: Accepted answers; empty for an impossible question.
        is_impossible: The documents do not answer it; None where that is not known.
        answer: Stretches: text, number of the claim (from 1; 0 for none), whether it is a citation's mark.
        difference: Stretches against the nearest gold answer: part and text.
        claims: Of the answer.
        passages: Retrieved, best first.
        n_passages: How many there were.
        missed: Relevant documents that were not retrieved.
        n_missed: How many there are.
        citations: Of the answer, in its order.
        n_citations: How many there are.
        gold_places: Expected citations: document, page, start, end, text.
        pictures: Pages with marks; empty where none were drawn.
        scores: Name and value.
        costs: Label and text: latency, tokens, money.
        judgement: Verdict and reason of the judge on the whole answer.
        error: Why there is no answer, or why the judge gave no verdict.
        partial: What had arrived of an answer that was cut.
    """

    id: str
    question: str
    outcome: str
    facts: list[tuple[str, str]] = []
    gold: list[str] = []
    is_impossible: bool | None = None
    answer: list[tuple[str, int, bool]] = []
    difference: list[tuple[str, str]] = []
    claims: list[ClaimShown] = []
    passages: list[PassageShown] = []
    n_passages: int = 0
    missed: list[str] = []
    n_missed: int = 0
    citations: list[CitationShown] = []
    n_citations: int = 0
    gold_places: list[tuple[str, int | None, int, int, str]] = []
    pictures: list[PicturedPage] = []
    scores: list[tuple[str, float | None]] = []
    costs: list[tuple[str, str]] = []
    judgement: tuple[str, str] | None = None
    error: str = ""
    partial: str = ""


def question_details(
    row: QuestionRow,
    answer: RagAnswer,
    query: EvaluationQuery | None,
    judgement: Judgement | None,
    *,
    texts: DocumentTexts,
    pictures: list[PicturedPage],
) -> Details:
    """What the page of a question shows.

    Args:
        row: Of the results file.
        answer: Of `responses.parquet`.
        query: Of the dataset; None where the dataset is not there any more.
        judgement: None without a judge, or where none arrived.
        texts: Of the corpus.
        pictures: Of pages with its spans.
    """
    is_impossible = query.is_impossible if query else None
    gold = query.accepted_answers if query else []
    claims = judgement.claims if judgement else ()
    given = (answer.answer or "")[:ANSWER_LENGTH]
    spans = [span for span in placed_spans(answer, query) if span.is_gold]
    relevant = {texts.canonical(name) for name in row.retrieval_results.ground_truth_relevant}
    bare = strip_citations(given)
    wanted = nearest(gold, bare)
    supports = judgement.citation_support if judgement else ()
    retrieved = {texts.canonical(passage.document) for passage in answer.contexts}
    missed = sorted(relevant - retrieved)
    return Details(
        id=inert(row.query_id),
        question=shortened(row.query_text, ANSWER_LENGTH),
        outcome=row.outcome(is_impossible=is_impossible),
        facts=_facts(query),
        gold=[shortened(text, ANSWER_LENGTH) for text in gold[:GOLDS_SHOWN]],
        is_impossible=is_impossible,
        answer=answer_stretches(given, claims, answer.citations),
        difference=[(s.part, inert(s.text)) for s in difference(wanted, bare)] if wanted and not row.abstained else [],
        claims=[claim_shown(claim, given) for claim in claims],
        passages=[
            passage_shown(passage, relevant, spans, texts)
            for passage in sorted(answer.contexts, key=lambda passage: passage.rank)[:PASSAGES_SHOWN]
        ],
        n_passages=len(answer.contexts),
        missed=[shortened(name, NAME_LENGTH) for name in missed[:MISSED_SHOWN]],
        n_missed=len(missed),
        citations=[
            citation_shown(citation, supports[place] if place < len(supports) else None, spans, texts)
            for place, citation in enumerate(answer.citations[:CITATIONS_SHOWN])
        ],
        n_citations=len(answer.citations),
        gold_places=[gold_place(span, texts) for span in spans[:CITATIONS_SHOWN]],
        pictures=pictures,
        scores=[(name, value) for name, value in row.individual_metrics.items()],
        costs=_costs(answer, judgement),
        judgement=verdict_shown(judgement),
        error=shortened(row.error or (judgement.error if judgement else None) or "", ERROR_LENGTH),
        partial=shortened(answer.partial or "", ANSWER_LENGTH),
    )


def _facts(query: EvaluationQuery | None) -> list[tuple[str, str]]:
    if query is None:
        return []
    facts = [
        ("Type", query.query_type),
        ("Difficulty", query.difficulty),
        ("Source id", query.metadata.get("source_id")),
    ]
    return [(label, shortened(str(value), 200)) for label, value in facts if value is not None]


def _costs(answer: RagAnswer, judgement: Judgement | None) -> list[tuple[str, str]]:
    usage = answer.usage
    rows = [("Latency", milliseconds(answer.latency_ms))]
    rows += [(f"Of that, {inert(name).replace('_', ' ')}", milliseconds(ms)) for name, ms in answer.timings.items()]
    rows += [("Requests", count(usage.requests)), ("Tokens", count(usage.total_tokens))]
    if usage.prompt_tokens or usage.completion_tokens:
        rows.append(("Prompt and completion", f"{count(usage.prompt_tokens)} + {count(usage.completion_tokens)}"))
    rows.append(("Cost", dollars(usage.estimated_cost_usd)))
    if judgement and judgement.usage.requests:
        rows.append(
            ("Judge", f"{count(judgement.usage.total_tokens)} tokens, {dollars(judgement.usage.estimated_cost_usd)}")
        )
    if answer.model:
        rows.append(("Model", shortened(answer.model, NAME_LENGTH)))
    if answer.reused_from:
        rows.append(("Measured in", answer.reused_from))
    return rows
