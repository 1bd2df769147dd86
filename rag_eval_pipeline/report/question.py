"""The data of a question's page, and the table and the spreadsheet of all questions of a run.

Texts are cut into segments here, where offsets are code points. Very long texts are shortened; the run's files hold
them whole.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import chain, repeat
from typing import Any, Literal, NamedTuple

import msgspec

from rag_eval_pipeline.formats.citations import strip_citations
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.judges.judgement import Claim, Judgement, Support
from rag_eval_pipeline.metrics.answers import normalise_answer
from rag_eval_pipeline.report.page_images import DocumentSpan, DocumentTexts, PageImage
from rag_eval_pipeline.report.runs import GOOD, OUTCOMES, Outcome, QuestionRow, RunSources, rank_measure
from rag_eval_pipeline.report.text import Cell, count, dollars, milliseconds, replace_control_chars, shortened
from rag_eval_pipeline.systems.base import Citation, RagAnswer, RetrievedPassage

Part = Literal["same", "missing", "extra"]

_TOKEN = re.compile(r"\s*\S+\s*")
_TOKENS_MAX = 400  # the time grows by the square; a longer answer is shown without its difference


class Segment(NamedTuple):
    """Words of both answers, of the gold answer only (`missing`), or of the answer only (`extra`)."""

    part: Part
    text: str


def answer_diff(gold: str, given: str) -> list[Segment]:
    """Return what is missing and what is extra against the gold answer; words are compared as SQuAD does.

    Empty when either text has more than 400 words.
    """
    wanted, had = _TOKEN.findall(gold), _TOKEN.findall(given)
    if max(len(wanted), len(had)) > _TOKENS_MAX:
        return []
    matcher = SequenceMatcher(None, _normal(wanted), _normal(had), autojunk=False)
    segments: list[Segment] = []
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind == "equal":
            segments.append(Segment("same", "".join(had[start:end])))
            continue
        if last > first:
            segments.append(Segment("missing", "".join(wanted[first:last])))
        if end > start:
            segments.append(Segment("extra", "".join(had[start:end])))
    return segments


def nearest_gold_answer(golds: Sequence[str], given: str) -> str | None:
    """Return the gold answer that shares most words with an answer, the first of equals."""
    had = set(_normal(_TOKEN.findall(given)))

    def shared(gold: str) -> float:
        words = set(_normal(_TOKEN.findall(gold)))
        return 2 * len(words & had) / (len(words) + len(had)) if words or had else 0.0

    return max(golds, key=shared, default=None)


def _normal(words: Sequence[str]) -> list[str]:
    # A word that normalises to nothing ("the", ",") is itself: all of them equal would align at random.
    return [normalise_answer(word) or word.strip() for word in words]


def annotate_answer(answer: str, claims: Sequence[Claim], citations: Sequence[Citation]) -> list[tuple[str, int, bool]]:
    """Split an answer into segments.

    Returns:
        Text, number of the claim it belongs to (the first of several, 0 for none), whether it is a citation's mark.
    """
    marks = [(c.marker_start, c.marker_end) for c in citations if c.marker_start is not None and c.marker_end]
    limits = {0, len(answer)}
    for start, end in [*((claim.start, claim.end) for claim in claims), *marks]:
        limits |= {min(max(0, start), len(answer)), min(max(0, end), len(answer))}
    cuts = sorted(limits)
    return [
        (
            replace_control_chars(answer[start:end]),
            next((n for n, claim in enumerate(claims, 1) if claim.start <= start and end <= claim.end), 0),
            any(first <= start and end <= last for first, last in marks),
        )
        for start, end in zip(cuts, cuts[1:], strict=False)
    ]


# Code points that are shown of a text.
REASON_LENGTH = 400
PASSAGE_LENGTH = 600  # the whole passages are in the run's responses.parquet
NAME_LENGTH = 255  # a file system takes no more, but a server may return anything
ANSWER_LENGTH = 20_000  # also of questions and gold answers
ERROR_LENGTH = 2_000
PASSAGES_SHOWN = 10
CITATIONS_SHOWN = 50
GOLDS_SHOWN = 20
MISSED_SHOWN = 20


class SupportShown(msgspec.Struct, frozen=True, omit_defaults=True):
    """The judge's verdict on a claim against some texts."""

    outcome: str
    reason: str = ""


class ClaimShown(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim, the numbers of its citations, and its support; None if there was nothing to support it."""

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
    """A citation with its text; `is_gold` when it overlaps a gold span."""

    document: str
    start: int
    end: int
    text: str
    page: int | None = None
    is_gold: bool = False
    support: SupportShown | None = None


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """The data of a question's page.

    Args:
        facts: Label and value: kind of question, difficulty, source id.
        gold: Accepted answers.
        is_impossible: None if the dataset is gone.
        answer: Segments: text, number of the claim (0 for none), whether it is a citation's mark.
        difference: Segments against the nearest gold answer: part and text.
        missed: Relevant documents that were not retrieved.
        gold_places: Expected citations: document, page, start, end, text.
        scores: Metric and value.
        costs: Label and text: latency, tokens, money.
        judgement: Verdict and reason of the judge on the whole answer.
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
    pictures: list[PageImage] = []
    scores: list[tuple[str, float | None]] = []
    costs: list[tuple[str, str]] = []
    judgement: tuple[str, str] | None = None
    error: str = ""
    partial: str = ""


def document_spans(answer: RagAnswer, query: EvaluationQuery | None) -> list[DocumentSpan]:
    """Return the gold and cited spans of a question."""
    gold = query.citations if query else ()
    return [
        DocumentSpan(span.file_name, span.start_char, span.end_char, is_gold)
        for spans, is_gold in ((gold, True), (answer.citations, False))
        for span in spans
    ]


def question_details(
    row: QuestionRow,
    answer: RagAnswer,
    query: EvaluationQuery | None,
    judgement: Judgement | None,
    *,
    texts: DocumentTexts,
    pictures: list[PageImage],
) -> Details:
    """Return the data of a question's page; `query` is None if the dataset is gone."""
    is_impossible = query.is_impossible if query else None
    gold = query.accepted_answers if query else []
    given = (answer.answer or "")[:ANSWER_LENGTH]
    bare = strip_citations(given)
    wanted = nearest_gold_answer(gold, bare)
    spans = [span for span in document_spans(answer, query) if span.is_gold]
    relevant = {texts.canonical(name) for name in row.retrieval_results.ground_truth_relevant}
    missed = sorted(relevant - {texts.canonical(passage.document) for passage in answer.contexts})
    passages = sorted(answer.contexts, key=lambda passage: passage.rank)[:PASSAGES_SHOWN]
    claims = judgement.claims if judgement else ()
    supports = judgement.citation_support if judgement else ()
    cited = zip(answer.citations[:CITATIONS_SHOWN], chain(supports, repeat(None)), strict=False)
    return Details(
        id=replace_control_chars(row.query_id),
        question=shortened(row.query_text, ANSWER_LENGTH),
        outcome=row.outcome(is_impossible=is_impossible),
        facts=_facts(query),
        gold=[shortened(text, ANSWER_LENGTH) for text in gold[:GOLDS_SHOWN]],
        is_impossible=is_impossible,
        answer=annotate_answer(given, claims, answer.citations),
        difference=[(s.part, replace_control_chars(s.text)) for s in answer_diff(wanted, bare)]
        if wanted and not row.abstained
        else [],
        claims=[_claim(claim, given) for claim in claims],
        passages=[_passage(passage, relevant, spans, texts) for passage in passages],
        n_passages=len(answer.contexts),
        missed=[shortened(name, NAME_LENGTH) for name in missed[:MISSED_SHOWN]],
        n_missed=len(missed),
        citations=[_citation(citation, support, spans, texts) for citation, support in cited],
        n_citations=len(answer.citations),
        gold_places=[_gold_place(span, texts) for span in spans[:CITATIONS_SHOWN]],
        pictures=pictures,
        scores=list(row.individual_metrics.items()),
        costs=_costs(answer, judgement),
        judgement=_verdict(judgement),
        error=shortened(row.error or (judgement.error if judgement else None) or "", ERROR_LENGTH),
        partial=shortened(answer.partial or "", ANSWER_LENGTH),
    )


def _claim(claim: Claim, answer: str) -> ClaimShown:
    return ClaimShown(
        replace_control_chars(strip_citations(answer[claim.start : claim.end]).strip()),
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
        return ("failed", replace_control_chars(judgement.error_code or "")) if judgement.status == "failed" else None
    return judgement.correctness.verdict, shortened(judgement.correctness.reason, REASON_LENGTH)


def _passage(
    passage: RetrievedPassage, relevant: Collection[str], gold: Sequence[DocumentSpan], texts: DocumentTexts
) -> PassageShown:
    name = texts.canonical(passage.document)
    return PassageShown(
        rank=passage.rank,
        document=shortened(passage.document, NAME_LENGTH),
        text=shortened(passage.text, PASSAGE_LENGTH),
        page=passage.page,
        score=passage.score,
        is_relevant=name in relevant,
        is_gold=passage.start is not None and _meets(name, passage.start, passage.end or 0, gold, texts),
    )


def _citation(
    citation: Citation, support: Support | None, gold: Sequence[DocumentSpan], texts: DocumentTexts
) -> CitationShown:
    name = texts.canonical(citation.file_name)
    return CitationShown(
        document=shortened(citation.file_name, NAME_LENGTH),
        start=citation.start_char,
        end=citation.end_char,
        text=shortened(texts.cut(name, citation.start_char, citation.end_char), PASSAGE_LENGTH),
        page=citation.page_number or texts.page_of(name, citation.start_char),
        is_gold=_meets(name, citation.start_char, citation.end_char, gold, texts),
        support=_support(support),
    )


def _gold_place(span: DocumentSpan, texts: DocumentTexts) -> tuple[str, int | None, int, int, str]:
    text = shortened(texts.cut(span.document, span.start, span.end), PASSAGE_LENGTH)
    page = texts.page_of(span.document, span.start)
    return shortened(span.document, NAME_LENGTH), page, span.start, span.end, text


def _meets(name: str, start: int, end: int, gold: Sequence[DocumentSpan], texts: DocumentTexts) -> bool:
    return any(texts.canonical(span.document) == name and span.start < end and start < span.end for span in gold)


def _facts(query: EvaluationQuery | None) -> list[tuple[str, str]]:
    if query is None:
        return []
    source_id = query.metadata.get("source_id")
    facts = (("Type", query.query_type), ("Difficulty", query.difficulty), ("Source id", source_id))
    return [(label, shortened(str(value), 200)) for label, value in facts if value is not None]


def _costs(answer: RagAnswer, judgement: Judgement | None) -> list[tuple[str, str]]:
    usage = answer.usage
    rows = [("Latency", milliseconds(answer.latency_ms))]
    for name, ms in answer.timings.items():
        rows.append((f"Of that, {replace_control_chars(name).replace('_', ' ')}", milliseconds(ms)))
    rows += [("Requests", count(usage.requests)), ("Tokens", count(usage.total_tokens))]
    if usage.prompt_tokens or usage.completion_tokens:
        rows.append(("Prompt and completion", f"{count(usage.prompt_tokens)} + {count(usage.completion_tokens)}"))
    rows.append(("Cost", dollars(usage.estimated_cost_usd)))
    if judgement and judgement.usage.requests:
        tokens, cost = count(judgement.usage.total_tokens), dollars(judgement.usage.estimated_cost_usd)
        rows.append(("Judge", f"{tokens} tokens, {cost}"))
    if answer.model:
        rows.append(("Model", shortened(answer.model, NAME_LENGTH)))
    if answer.reused_from:
        rows.append(("Measured in", answer.reused_from))
    return rows


PICTURED_QUESTIONS = 12  # a run: changed most, then wrong, then the first
TEXT_IN_TABLE = 240  # code points; the whole text is on the question's page

_MEANINGS = {
    "f1": "Words shared with the gold answer",
    "rank": "How high the relevant documents are ranked",
    "citation": "Overlap of cited and gold spans",
    "change": "F1 less that of the night before, in points",
}


def question_table(run: RunSources, outcomes: Sequence[Outcome], changes: Sequence[float | None]) -> dict[str, Any]:
    """Return the table of questions as the page of a run loads it, a list for each column."""
    rows = run.file.query_results
    rank = rank_measure(run.header.retrieval_level)
    places = {name: place for place, name in enumerate(OUTCOMES)}
    answers = [row.error or "" if row.generated_answer is None else row.generated_answer for row in rows]
    columns: list[tuple[str, str, str, list[Any]]] = [
        ("id", "Id", "id", [replace_control_chars(row.query_id) for row in rows]),
        ("outcome", "Outcome", "outcome", [places[outcome] for outcome in outcomes]),
        ("question", "Question", "text", [shortened(row.query_text, TEXT_IN_TABLE) for row in rows]),
        ("answer", "Answer", "text", [shortened(answer, TEXT_IN_TABLE) for answer in answers]),
        ("f1", "F1", "number", [_rounded(row.score("f1")) for row in rows]),
        ("rank", "nDCG@10", "number", [_rounded(row.score(rank)) for row in rows]),
        ("citation", "Citations", "number", [_rounded(row.score("citation_span_accuracy")) for row in rows]),
        ("change", "Δ F1", "points", [_rounded(value) for value in changes]),
        ("latency", "Latency", "ms", [_rounded(row.latency_ms) for row in rows]),
    ]
    return {
        "caption": "Questions of this run",
        "columns": [_column(name, label, kind) for name, label, kind, _ in columns],
        "values": [values for *_, values in columns],
        "filters": [{"column": "outcome", "label": "Outcome"}, {"column": "change", "label": "Since the night before"}],
        "links": [{"column": "question", "href": "question.html#"}],
    }


def _column(name: str, label: str, kind: str) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "label": label, "kind": kind}
    if name in _MEANINGS:
        column["meaning"] = _MEANINGS[name]
    if kind == "outcome":
        column["words"] = list(OUTCOMES.items())
    return column


def question_sheet(
    run: RunSources, outcomes: Sequence[Outcome], changes: Sequence[float | None]
) -> tuple[list[str], Iterator[list[Cell]]]:
    """Return header and rows of a spreadsheet: whole texts, and a column for each metric."""
    rows = run.file.query_results
    names = list(dict.fromkeys(name for row in rows for name in row.individual_metrics))
    header = ["query_id", "outcome", "status", "question", "answer", "error", "latency_ms", "change_f1", *names]

    def cells() -> Iterator[list[Cell]]:
        for row, outcome, moved in zip(rows, outcomes, changes, strict=True):
            texts: list[Cell] = [row.query_id, OUTCOMES[outcome], row.status]
            texts += [row.query_text, row.generated_answer, row.error]
            yield [*texts, row.latency_ms, moved, *(row.score(name) for name in names)]

    return header, cells()


def select_for_images(outcomes: Sequence[Outcome], changes: Sequence[float | None]) -> set[int]:
    """Return the questions whose pages are drawn: changed most, then wrong, then the first."""

    def order(place: int) -> tuple[float, bool, int]:
        return -abs(changes[place] or 0.0), outcomes[place] in GOOD, place

    return set(sorted(range(len(outcomes)), key=order)[:PICTURED_QUESTIONS])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
