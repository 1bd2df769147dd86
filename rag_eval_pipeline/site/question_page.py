"""The data of a question's page.

Texts are cut into segments here, where offsets are code points. Very long texts are shortened; the run's files hold
them whole.
"""

import re
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, Literal, NamedTuple

import msgspec

from rag_eval_pipeline.evaluation.conversations import Message
from rag_eval_pipeline.formats.citation_marks import find_citations, strip_citations
from rag_eval_pipeline.formats.dataset import OWN_METADATA, EvaluationQuery
from rag_eval_pipeline.judges.judgement import Claim, Judgement, Support
from rag_eval_pipeline.metrics.answers import normalise_answer
from rag_eval_pipeline.site.baseline_runs import Earlier
from rag_eval_pipeline.site.display_text import count, dollars, milliseconds, replace_control_chars, shortened
from rag_eval_pipeline.site.marked_pages import DocumentSpan, DocumentTexts, PageImage, stated_spans
from rag_eval_pipeline.site.outcomes import Outcome
from rag_eval_pipeline.site.question_nights import text_checksum
from rag_eval_pipeline.site.run_data import QuestionRow, rank_measure
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
    segments: list[Segment] = []
    for kind, first, last, start, end in _differences(_normal(wanted), _normal(had)):
        if kind == "equal":
            segments.append(Segment("same", "".join(had[start:end])))
            continue
        if last > first:
            segments.append(Segment("missing", "".join(wanted[first:last])))
        if end > start:
            segments.append(Segment("extra", "".join(had[start:end])))
    return segments


def _differences(before: Sequence[str], now: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    """Return the operations of `difflib`, at once where no word is the same."""
    if set(before).isdisjoint(now):
        return [("replace", 0, len(before), 0, len(now))]
    return SequenceMatcher(None, before, now, autojunk=False).get_opcodes()


def nearest_gold_answer(golds: Sequence[str], given: str) -> str | None:
    """Return the gold answer that shares most words with an answer, the first of equals."""
    had = set(_normal(_TOKEN.findall(given)))

    def shared(gold: str) -> float:
        words = set(_normal(_TOKEN.findall(gold)))
        return 2 * len(words & had) / (len(words) + len(had)) if words or had else 0.0

    return max(golds, key=shared, default=None)


def _normal(words: Sequence[str]) -> list[str]:
    return [_normal_word(word) for word in words]


@lru_cache(100_000)  # answers of many nights have the same words
def _normal_word(word: str) -> str:
    # A word that normalises to nothing ("the", ",") is itself: all of them equal would align at random.
    return normalise_answer(word) or word.strip()


Span = tuple[int, int]


def changed_words(before: str, now: str) -> tuple[list[Span], list[Span]]:
    """Return where the first text has words that the second lacks, and the other way round; citations do not count.

    Nothing is marked when either text has more than 400 words.
    """
    if before == now:
        return [], []
    texts = [_without_citations(text) for text in (before, now)]
    tokens = [list(re.finditer(r"\S+", text)) for text in texts]
    words = [_normal([token[0] for token in side]) for side in tokens]
    if words[0] == words[1] or max(map(len, tokens)) > _TOKENS_MAX:
        return [], []
    marked: tuple[list[Span], list[Span]] = ([], [])
    for kind, first, last, start, end in _differences(*words):
        if kind != "equal":
            for side, low, high in ((0, first, last), (1, start, end)):
                if high > low:
                    marked[side].append((tokens[side][low].start(), tokens[side][high - 1].end()))
    return marked


def _without_citations(text: str) -> str:
    """Return a text of the same length with spaces for its citations."""
    for marker in find_citations(text):
        text = text[: marker.start] + " " * (marker.end - marker.start) + text[marker.end :]
    return text


class AnswerPart(NamedTuple):
    """A stretch of an answer.

    Args:
        claim: Number of the claim it belongs to, the first of several; 0 for none.
        citations: Numbers of the citations whose mark it is, 0 for one that cites no place; empty if it is text.
        is_changed: Whether the other answer lacks it.
    """

    text: str
    claim: int
    citations: tuple[int, ...] = ()
    is_changed: bool = False


def annotate_answer(
    answer: str, claims: Sequence[Claim], citations: Sequence[Citation], changed: Sequence[Span] = ()
) -> list[AnswerPart]:
    """Split an answer where a claim, a citation's mark or changed words begin or end."""
    marks: dict[Span, tuple[int, ...]] = {}
    if not citations:
        marks = {(one.start, one.end): () for one in find_citations(answer)}
    for number, one in enumerate(citations, 1):
        if one.marker_start is not None and one.marker_end:
            place = one.marker_start, one.marker_end
            marks[place] = (*marks.get(place, ()), number)
    limits = {0, len(answer)}
    for start, end in [*((claim.start, claim.end) for claim in claims), *marks, *changed]:
        limits |= {min(max(0, start), len(answer)), min(max(0, end), len(answer))}
    cuts = sorted(limits)
    parts = []
    for start, end in zip(cuts, cuts[1:], strict=False):
        claim, mark = 0, tuple[int, ...]()
        if claims:
            claim = next((n for n, one in enumerate(claims, 1) if one.start <= start and end <= one.end), 0)
        if marks:
            within = (numbers or (0,) for (first, last), numbers in marks.items() if first <= start and end <= last)
            mark = next(within, ())
        is_changed = not mark and any(first <= start and end <= last for first, last in changed)
        parts.append(AnswerPart(replace_control_chars(answer[start:end]), claim, mark, is_changed))
    return parts


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
FACTS_SHOWN = 8
MESSAGES_SHOWN = 20


class SupportShown(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The judge's verdict on a claim against some texts."""

    outcome: str
    reason: str = ""


class ClaimShown(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A claim, the numbers of its citations, and its support; None if there was nothing to support it."""

    text: str
    citations: tuple[int, ...]
    by_citations: SupportShown | None = None
    by_contexts: SupportShown | None = None


class FactShown(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A gold fact, the judge's verdict (`undecided` without one), and the answer's sentences that state it."""

    text: str
    is_vital: bool
    outcome: str
    reason: str = ""
    sentences: list[str] = []


class PassageShown(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A retrieved passage; `is_gold` when it overlaps a gold span, `is_relevant` when its document is relevant."""

    rank: int
    document: str
    text: str
    page: int | None = None
    score: float | None = None
    is_relevant: bool = False
    is_gold: bool = False


class CitationShown(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A citation with its text; `file` is the document's name in the corpus, `is_gold` when it overlaps a gold span."""

    document: str
    start: int
    end: int
    text: str
    page: int | None = None
    file: str | None = None
    is_gold: bool = False
    support: SupportShown | None = None


class EarlierAnswer(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What was answered before: in which run, its parts, and its F1 score there."""

    run: str
    date: str
    label: str
    outcome: str
    answer: list[AnswerPart] = []
    is_same: bool = False
    f1: float | None = None


class Details(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The data of a question's page.

    Args:
        name: Its id as people know it.
        text_id: Checksum of the question.
        facts: Label and value: kind of question, difficulty, the source's own.
        history: Messages of the conversation before the question, the last ones: role, whose answer it is, and text.
        is_impossible: None if the dataset is gone.
        difference: Segments against the nearest gold answer: part and text.
        missed: Relevant documents that were not retrieved; none if retrieval is not scored.
        gold_places: Expected citations: document, page, start, end, text.
        costs: Label and text: latency, tokens, money.
        judgement: Verdict and reason of the judge on the whole answer.
        judged_facts: The gold facts.
        partial: What had arrived of an answer that was cut.
        raw: The answer as the system wrote it, with thoughts and special tokens; empty if it had none.
        record: What else is stored of the reply, besides its texts.
    """

    id: str
    name: str
    question: str
    text_id: int
    outcome: str
    facts: list[tuple[str, str]] = []
    history: list[tuple[str, str]] = []
    gold: list[str] = []
    is_impossible: bool | None = None
    answer: list[AnswerPart] = []
    earlier: EarlierAnswer | None = None
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
    judged_facts: list[FactShown] = []
    error: str = ""
    partial: str = ""
    raw: str = ""
    record: dict[str, Any] = {}


def question_details(
    row: QuestionRow,
    answer: RagAnswer,
    query: EvaluationQuery | None,
    judgement: Judgement | None,
    *,
    outcome: Outcome,
    texts: DocumentTexts,
    pictures: list[PageImage],
    earlier: Earlier | None = None,
    history: Sequence[Message] = (),
) -> Details:
    """Return the data of a question's page; `query` is None if the dataset is gone.

    Args:
        history: The messages before the question.
    """
    gold = query.accepted_answers if query else []
    given = (answer.answer or "")[:ANSWER_LENGTH]
    bare = strip_citations(given)
    before, changed = _earlier_answer(row, given, earlier, query)
    wanted = nearest_gold_answer(gold, bare)
    spans = [span for span in stated_spans(answer, query) if span.role == "gold"]
    relevant = {texts.canonical(name) for name in row.retrieval_results.ground_truth_relevant}
    is_ranked = any(rank_measure(level) in row.individual_metrics for level in ("document", "page"))
    missed = sorted(relevant - {texts.canonical(one.document) for one in answer.contexts}) if is_ranked else []
    passages = sorted(answer.contexts, key=lambda passage: passage.rank)[:PASSAGES_SHOWN]
    claims = judgement.claims if judgement else ()
    supports = judgement.citation_support if judgement else ()
    cited = zip(answer.citations[:CITATIONS_SHOWN], chain(supports, repeat(None)), strict=False)
    return Details(
        id=replace_control_chars(row.query_id),
        name=shortened(query.display_id if query else row.query_id, NAME_LENGTH),
        text_id=text_checksum(row.query_text),
        question=shortened(row.query_text, ANSWER_LENGTH),
        outcome=outcome,
        facts=_facts(query),
        history=[_message(one) for one in history[-MESSAGES_SHOWN:]],
        gold=[shortened(text, ANSWER_LENGTH) for text in gold[:GOLDS_SHOWN]],
        is_impossible=query.is_impossible if query else None,
        answer=annotate_answer(given, claims, answer.citations, changed),
        earlier=before,
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
        judged_facts=_judged_facts(query, judgement, given),
        error=shortened(row.error or (judgement.error if judgement else None) or "", ERROR_LENGTH),
        partial=shortened(answer.partial or "", ANSWER_LENGTH),
        raw=shortened(answer.raw or "", ANSWER_LENGTH),
        record=_record(answer),
    )


def _earlier_answer(
    row: QuestionRow, given: str, earlier: Earlier | None, query: EvaluationQuery | None
) -> tuple[EarlierAnswer | None, list[Span]]:
    """Return the earlier answer to a question, and where the present one has other words."""
    then = earlier.reference.given.get(row.query_id) if earlier else None
    if earlier is None or then is None:
        return None, []
    night = earlier.reference
    scores = night.scores[row.query_id]
    if scores.text != text_checksum(row.query_text):
        return None, []
    text = (then.answer or "")[:ANSWER_LENGTH]
    old, new = changed_words(text, given)
    found = EarlierAnswer(
        run=night.header.evaluation_id,
        date=f"{night.header.timestamp:%Y-%m-%d}",
        label=earlier.label,
        outcome=night.outcome(row.query_id, query),
        answer=annotate_answer(text, (), (), old),
        is_same=text == given,
        f1=scores.f1,
    )
    return found, new


def _message(message: Message) -> tuple[str, str]:
    whose = f" ({'own' if message.is_own else 'gold'})" if message.role == "assistant" else ""
    return f"{shortened(message.role, NAME_LENGTH)}{whose}", shortened(message.content, ANSWER_LENGTH)


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


def _judged_facts(query: EvaluationQuery | None, judgement: Judgement | None, answer: str) -> list[FactShown]:
    facts = query.facts if query else ()
    found = judgement.facts if judgement else ()
    return [
        FactShown(
            shortened(fact.text, ANSWER_LENGTH),
            fact.is_vital,
            (verdict and verdict.outcome) or "undecided",
            shortened(verdict.reason if verdict else "not judged", REASON_LENGTH),
            [shortened(strip_citations(answer[start:end]), PASSAGE_LENGTH) for start, end in verdict.places]
            if verdict
            else [],
        )
        for fact, verdict in zip(facts[:GOLDS_SHOWN], chain(found, repeat(None)), strict=False)
    ]


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
        file=None if name == citation.file_name else name,
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
    facts: list[tuple[str, object]] = [("Type", query.query_type), ("Difficulty", query.difficulty)]
    stated = {name: value for name, value in query.metadata.items() if name not in OWN_METADATA}
    if not stated.get("hops"):  # the number of its documents
        stated.pop("hops", None)
    facts += stated.items()
    known = [(label, value) for label, value in facts if isinstance(value, (str, int, float))]
    return [(shortened(label, 60), shortened(str(value), 200)) for label, value in known[:FACTS_SHOWN]]


def _record(answer: RagAnswer) -> dict[str, Any]:
    names = ("status", "error_code", "abstained", "latency_ms", "usage", "model", "raw_sha256")
    values = ((name, msgspec.to_builtins(getattr(answer, name))) for name in names)
    cut = ((name, shortened(value, NAME_LENGTH) if isinstance(value, str) else value) for name, value in values)
    return {name: value for name, value in cut if value is not None}


def _costs(answer: RagAnswer, judgement: Judgement | None) -> list[tuple[str, str]]:
    usage = answer.usage
    rows = [("Latency", milliseconds(answer.latency_ms))]
    for name, ms in answer.timings.items():
        rows.append((f"Latency, {replace_control_chars(name).replace('_', ' ')}", milliseconds(ms)))
    rows += [("Requests", count(usage.requests)), ("Tokens", count(usage.total_tokens))]
    if usage.prompt_tokens or usage.completion_tokens:
        rows.append(("Prompt and completion", f"{count(usage.prompt_tokens)} + {count(usage.completion_tokens)}"))
    rows.append(("Cost", dollars(usage.estimated_cost_usd or None)))  # 0 is what is not known, too
    if judgement and judgement.usage.requests:
        tokens, cost = count(judgement.usage.total_tokens), dollars(judgement.usage.estimated_cost_usd or None)
        rows.append(("Judge", f"{tokens} tokens, {cost}"))
    if answer.model:
        rows.append(("Model", shortened(answer.model, NAME_LENGTH)))
    if answer.reused_from:
        rows.append(("Measured in", answer.reused_from))
    return rows
