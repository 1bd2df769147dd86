"""Everything about one question: answer and gold answer, claims, citations, what was retrieved, time and cost.

Texts are cut into stretches here, where offsets are code points; the page only lays them out.
"""

from collections.abc import Sequence

import msgspec

from rag_eval_pipeline.formats.citations import strip_citations
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationQuery
from rag_eval_pipeline.judges.judgement import Claim, Judgement, Support
from rag_eval_pipeline.reporting.site.differences import difference, nearest
from rag_eval_pipeline.reporting.site.figures import count, dollars, milliseconds
from rag_eval_pipeline.reporting.site.inert import inert, shortened
from rag_eval_pipeline.reporting.site.page_pictures import PicturedPage, PlacedSpan
from rag_eval_pipeline.reporting.site.questions import QuestionRow
from rag_eval_pipeline.reporting.site.texts import DocumentTexts
from rag_eval_pipeline.systems.answer import Citation, RagAnswer, RetrievedPassage

PASSAGES_SHOWN = 10
PASSAGE_LENGTH = 600  # code points; the whole passages are in the run's responses.parquet
ANSWER_LENGTH = 20_000
GOLDS_SHOWN = 20
REASON_LENGTH = 400


class SupportShown(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the judge says of a claim against some texts."""

    outcome: str
    reason: str = ""


class ClaimShown(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim, which citations stand with it, and its support; none where there was nothing to support it."""

    text: str
    citations: tuple[int, ...]
    by_citations: SupportShown | None = None
    by_contexts: SupportShown | None = None


class PassageShown(msgspec.Struct, frozen=True, omit_defaults=True):
    """A retrieved passage; `is_gold` when it overlaps a gold span, `is_relevant` when its document is relevant."""

    rank: int
    document: str
    text: str
    page: int | None = None
    score: float | None = None
    is_relevant: bool = False
    is_gold: bool = False


class CitationShown(msgspec.Struct, frozen=True, omit_defaults=True):
    """A citation with the text it points at and whether that is gold."""

    document: str
    start: int
    end: int
    text: str
    page: int | None = None
    is_gold: bool = False
    support: SupportShown | None = None


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
        citations: Of the answer, in its order.
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
    citations: list[CitationShown] = []
    gold_places: list[tuple[str, int | None, int, int, str]] = []
    pictures: list[PicturedPage] = []
    scores: list[tuple[str, float | None]] = []
    costs: list[tuple[str, str]] = []
    judgement: tuple[str, str] | None = None
    error: str = ""
    partial: str = ""


def answer_stretches(
    answer: str, claims: Sequence[Claim], citations: Sequence[Citation]
) -> list[tuple[str, int, bool]]:
    """An answer cut where claims and the marks of citations begin and end; joined, they are the answer.

    Args:
        answer: As given.
        claims: With offsets into it.
        citations: With the offsets of their marks.

    Returns:
        Text, number of the claim it belongs to (the first of several, 0 for none), whether it is a mark.
    """
    marks = [(c.marker_start, c.marker_end) for c in citations if c.marker_start is not None and c.marker_end]
    limits = {0, len(answer)}
    for start, end in [*((claim.start, claim.end) for claim in claims), *marks]:
        limits |= {min(max(0, start), len(answer)), min(max(0, end), len(answer))}
    cuts = sorted(limits)
    return [
        (
            inert(answer[start:end]),
            next((n for n, claim in enumerate(claims, 1) if claim.start <= start and end <= claim.end), 0),
            any(first <= start and end <= last for first, last in marks),
        )
        for start, end in zip(cuts, cuts[1:], strict=False)
    ]


def placed_spans(answer: RagAnswer, query: EvaluationQuery | None) -> list[PlacedSpan]:
    """Gold and cited spans, to be drawn."""
    gold = (
        [PlacedSpan(span.file_name, span.start_char, span.end_char, True) for span in query.citations] if query else []
    )
    return gold + [PlacedSpan(span.file_name, span.start_char, span.end_char, False) for span in answer.citations]


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
    relevant = set(row.retrieval_results.ground_truth_relevant)
    bare = strip_citations(given)
    wanted = nearest(gold, bare)
    supports = judgement.citation_support if judgement else ()
    retrieved = {texts.canonical(passage.document) for passage in answer.contexts}
    return Details(
        id=row.query_id,
        question=inert(row.query_text),
        outcome=row.outcome(is_impossible=is_impossible),
        facts=_facts(query),
        gold=[shortened(text, ANSWER_LENGTH) for text in gold[:GOLDS_SHOWN]],
        is_impossible=is_impossible,
        answer=answer_stretches(given, claims, answer.citations),
        difference=[(s.part, inert(s.text)) for s in difference(wanted, bare)] if wanted and not row.abstained else [],
        claims=[_claim(claim, given) for claim in claims],
        passages=[
            _passage(passage, relevant, spans, texts)
            for passage in sorted(answer.contexts, key=lambda passage: passage.rank)[:PASSAGES_SHOWN]
        ],
        n_passages=len(answer.contexts),
        missed=[inert(name) for name in sorted(relevant) if texts.canonical(name) not in retrieved],
        citations=[
            _citation(citation, supports[place] if place < len(supports) else None, spans, texts)
            for place, citation in enumerate(answer.citations)
        ],
        gold_places=[
            (inert(span.document), texts.page_of(span.document, span.start), span.start, span.end,
             shortened(texts.cut(span.document, span.start, span.end), PASSAGE_LENGTH))
            for span in spans
        ],
        pictures=pictures,
        scores=[(name, value) for name, value in row.individual_metrics.items()],
        costs=_costs(answer, judgement),
        judgement=_verdict(judgement),
        error=inert(row.error or (judgement.error if judgement else None) or ""),
        partial=shortened(answer.partial or "", ANSWER_LENGTH),
    )  # fmt: skip


def _passage(
    passage: RetrievedPassage, relevant: set[str], spans: Sequence[PlacedSpan], texts: DocumentTexts
) -> PassageShown:
    name = texts.canonical(passage.document)
    overlaps = passage.start is not None and any(
        texts.canonical(span.document) == name and span.start < (passage.end or 0) and passage.start < span.end
        for span in spans
    )
    return PassageShown(
        rank=passage.rank,
        document=inert(passage.document),
        text=shortened(passage.text, PASSAGE_LENGTH),
        page=passage.page,
        score=passage.score,
        is_relevant=name in {texts.canonical(one) for one in relevant},
        is_gold=overlaps,
    )


def _citation(
    citation: Citation, support: Support | None, spans: Sequence[PlacedSpan], texts: DocumentTexts
) -> CitationShown:
    name = texts.canonical(citation.file_name)
    return CitationShown(
        document=inert(citation.file_name),
        start=citation.start_char,
        end=citation.end_char,
        text=shortened(texts.cut(name, citation.start_char, citation.end_char), PASSAGE_LENGTH),
        page=citation.page_number or texts.page_of(name, citation.start_char),
        is_gold=any(
            texts.canonical(span.document) == name and span.start < citation.end_char and citation.start_char < span.end
            for span in spans
        ),
        support=_support(support),
    )


def _claim(claim: Claim, answer: str) -> ClaimShown:
    return ClaimShown(
        inert(strip_citations(answer[claim.start : claim.end]).strip()),
        tuple(place + 1 for place in claim.citations),
        _support(claim.by_citations),
        _support(claim.by_contexts),
    )


def _support(support: Support | None) -> SupportShown | None:
    return None if support is None else SupportShown(support.outcome, shortened(support.reason, REASON_LENGTH))


def _verdict(judgement: Judgement | None) -> tuple[str, str] | None:
    if judgement is None:
        return None
    if judgement.correctness is None:
        return ("failed", inert(judgement.error_code or "")) if judgement.status == "failed" else None
    return judgement.correctness.verdict, shortened(judgement.correctness.reason, REASON_LENGTH)


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
        rows.append(("Model", inert(answer.model)))
    if answer.reused_from:
        rows.append(("Measured in", answer.reused_from))
    return rows
