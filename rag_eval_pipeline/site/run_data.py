"""The data of a run's pages: questions, answers, judgements, dataset and corpus."""

import hashlib
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from rag_eval_pipeline.corpus.text.pages import read_pages
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.conversations import Message, conversations, own_history
from rag_eval_pipeline.evaluation.corpus_names import CorpusFiles
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.evaluation.judging import read_judgements
from rag_eval_pipeline.evaluation.score_tables import iter_responses
from rag_eval_pipeline.formats.dataset import EvaluationQuery, open_dataset
from rag_eval_pipeline.formats.results import Status as AnswerStatus
from rag_eval_pipeline.judges.judgement import Judgement
from rag_eval_pipeline.monitoring.history import MetricHeader, ResultsHeader
from rag_eval_pipeline.site.data import ReportData
from rag_eval_pipeline.site.display_text import replace_control_chars
from rag_eval_pipeline.site.marked_pages import DocumentTexts
from rag_eval_pipeline.site.outcomes import Given, Outcome, OutcomeRule, outcome_rule
from rag_eval_pipeline.storage.atomic_files import sha256_of
from rag_eval_pipeline.systems.base import Citation, RagAnswer, RetrievedPassage
from rag_eval_pipeline.workspace import Workspace


class CitedPlace(msgspec.Struct, frozen=True, gc=False):
    """A citation as the results file has it."""

    file_name: str
    start_char: int
    end_char: int
    page_number: int | None = None


class Retrieved(msgspec.Struct, frozen=True, gc=False):
    """Documents by rank, and those that are relevant."""

    retrieved_docs: tuple[str, ...] = ()
    relevance_scores: tuple[float | None, ...] = ()
    ground_truth_relevant: tuple[str, ...] = ()


class QuestionRow(msgspec.Struct, frozen=True, gc=False):
    """A question with its answer and scores."""

    query_id: str
    query_text: str
    status: str
    generated_answer: str | None
    abstained: bool
    individual_metrics: dict[str, float | None]
    latency_ms: float | None = None
    retrieval_results: Retrieved = Retrieved()
    citations: tuple[CitedPlace, ...] = ()
    error: str | None = None

    def score(self, name: str) -> float | None:
        """Return a score; None if it has none."""
        return self.individual_metrics.get(name)


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


class CustomMetric(msgspec.Struct, frozen=True):
    """A custom metric as the results describe it."""

    meaning: str = ""
    direction: Literal["higher", "lower", "neither"] | None = None
    low: float | None = None
    high: float | None = None
    category: str = "other"


QUESTIONS_SHOWN = 20_000  # of a benchmark; a browser takes a second for the table, and the data has 15 MB
DAMAGED = (ValueError, RecursionError, FileNotFoundError)  # of a results file


def _without(rows: Sequence[QuestionRow], hidden: Collection[str]) -> list[QuestionRow]:
    return [row for row in rows if row.query_id not in hidden]


def rank_measure(level: str) -> str:
    """Return the ranking score of the level that is shown first."""
    return "page/ndcg@10" if level == "page" else "ndcg@10"


class MetricFailure(msgspec.Struct, frozen=True):
    """A question that a custom metric could not score."""

    metric: str
    query_id: str
    message: str


class ThresholdResult(msgspec.Struct, frozen=True):
    """A quality threshold and its result."""

    limit: float
    bound: str
    value: float | None = None
    is_broken: bool | None = None
    answers_scored: int = 0
    answers_broken: int | None = None
    reason: str | None = None


class RunFile(msgspec.Struct, frozen=True):
    """A results file as the page of a run needs it."""

    dataset_id: str = ""
    configuration: dict[str, Any] = {}
    judge: dict[str, Any] | None = None
    metadata: dict[str, Any] = {}
    further_metrics: dict[str, MetricHeader] = {}
    custom_metrics: dict[str, CustomMetric] = {}
    metric_faults: list[MetricFailure] = []
    warnings: list[str] = []
    quality_thresholds: dict[str, ThresholdResult] = {}
    query_results: list[QuestionRow] = []


def read_questions(path: Path, hidden: Collection[str] = ()) -> RunFile:
    """Read the questions of a results file; empty if they are damaged or the file is gone."""
    try:
        file = msgspec.json.decode(path.read_bytes(), type=RunFile)
    except DAMAGED:
        return RunFile()
    return msgspec.structs.replace(file, query_results=_without(file.query_results, hidden))


@dataclass(frozen=True, slots=True)
class DatasetSources:
    """A benchmark's dataset and corpus of one version; both empty if they have changed since.

    Args:
        turns: Question -> all questions of its conversation in order; without those that belong to none.
    """

    queries: Mapping[str, EvaluationQuery]
    turns: Mapping[str, Sequence[EvaluationQuery]]
    texts: DocumentTexts
    has_corpus: bool

    @property
    def missing(self) -> list[str]:
        """`dataset`, `corpus`, or both: what has changed since."""
        return [name for name, has in (("dataset", self.queries), ("corpus", self.has_corpus)) if not has]


@dataclass(frozen=True, slots=True)
class RunSources:
    """One run; answers and judgements are by question id, `lost` has a line for each part that is missing.

    Args:
        is_damaged: Whether its own files are damaged or gone, not only those of the dataset or corpus.
        file: With the questions that are shown; answers and judgements are theirs.
        rows: All questions.
    """

    header: ResultsHeader
    file: RunFile
    rows: Sequence[QuestionRow]
    answers: Mapping[str, RagAnswer]
    judgements: Mapping[str, Judgement]
    dataset: DatasetSources
    lost: Sequence[str]
    is_damaged: bool

    def history(self, query: EvaluationQuery) -> list[Message]:
        """Return the messages before a question, with the system's answers if asked with these; none if not asked."""
        if self.header.fingerprints.get("history") != "own":
            return [Message(one["role"], one["content"]) for one in query.history]
        turns = [one.query_id for one in self.dataset.turns.get(query.query_id, ())]
        earlier = self.dataset.turns[query.query_id][: turns.index(query.query_id)] if turns else ()
        given = {one.query_id: self.answers[one.query_id].answer for one in earlier if one.query_id in self.answers}
        return [] if None in given.values() else own_history(query, earlier, given)


class DatasetCache:
    """Datasets and corpora by fingerprint, which all runs of a night share."""

    def __init__(self, report: ReportData) -> None:
        self._report = report
        self._known: dict[tuple[str | None, ...], DatasetSources] = {}

    def of(self, header: ResultsHeader, dataset_id: str) -> DatasetSources:
        """Return the dataset and corpus of a run."""
        prints = header.fingerprints.get("dataset"), header.fingerprints.get("corpus")
        key = header.benchmark, dataset_id, header.dataset_version, *prints
        if key not in self._known:
            self._known[key] = self._read(header, dataset_id)
        return self._known[key]

    def _read(self, header: ResultsHeader, dataset_id: str) -> DatasetSources:
        workspace = self._report.workspace
        queries = _queries(workspace, dataset_id, header)
        turns = {
            query.query_id: own
            for own in conversations(queries.values())
            for query in own
            if query.conversation is not None
        }
        stamp = self._report.stamps.get(header.benchmark)
        if stamp is None or stamp.corpus_fingerprint != header.fingerprints.get("corpus"):
            return DatasetSources(queries, turns, DocumentTexts([], {}), False)
        paths = workspace.benchmark(header.benchmark)
        try:
            texts = DocumentTexts(read_pages(paths.pages), CorpusFiles.read(paths).aliases)
        except InputError:
            return DatasetSources(queries, turns, DocumentTexts([], {}), False)
        return DatasetSources(queries, turns, texts, True)


_NOT_SHOWN = {"dataset": "gold answers", "corpus": "cited texts and pages"}


def read_run(
    workspace: Workspace, header: ResultsHeader, datasets: DatasetCache, hidden: Collection[str] = ()
) -> RunSources:
    """Read a run; missing and damaged parts are left out and named in `lost`."""
    lost = []
    try:
        file = msgspec.json.decode(workspace.results_file(header.evaluation_id).read_bytes(), type=RunFile)
    except DAMAGED as error:
        file, lost = RunFile(), [f"The questions of this run cannot be read: {error}"]
    rows = file.query_results
    file = msgspec.structs.replace(file, query_results=_without(rows, hidden))
    dataset = datasets.of(header, file.dataset_id)
    unread = {query_id for query_id in hidden if query_id not in dataset.turns}  # a turn is shown with those before it
    answers: dict[str, RagAnswer] = {}
    judgements: dict[str, Judgement] = {}
    try:
        evaluation = load_evaluation(workspace, header.evaluation_id)
        answers = {one.query_id: one for one in iter_responses(evaluation.responses) if one.query_id not in unread}
        judgements = {one.query_id: one for one in read_judgements(evaluation) if one.query_id not in unread}
    except (InputError, FileNotFoundError, ValueError):
        lost.append("The run's folder is gone or damaged: passages, claims and timings are not shown.")
    is_damaged = bool(lost)
    lost += [f"The {name} has changed since this run: {_NOT_SHOWN[name]} are not shown." for name in dataset.missing]
    for row in file.query_results:
        if row.query_id not in answers:
            answers[row.query_id] = _answer_of(row)
    return RunSources(header, file, rows, answers, judgements, dataset, lost, is_damaged)


def _queries(workspace: Workspace, dataset_id: str, header: ResultsHeader) -> Mapping[str, EvaluationQuery]:
    if not dataset_id or "/" in dataset_id or "/" in header.dataset_version:
        return {}
    path = workspace.eval_json(dataset_id, header.dataset_version)
    try:
        if sha256_of(path) != header.fingerprints.get("dataset"):
            return {}
        return {query.query_id: query for query in open_dataset(path).queries}
    except (InputError, FileNotFoundError):
        return {}


def _answer_of(row: QuestionRow) -> RagAnswer:
    found = row.retrieval_results
    scores = (*found.relevance_scores, *[None] * len(found.retrieved_docs))
    return RagAnswer(
        query_id=row.query_id,
        status=msgspec.convert(row.status, AnswerStatus),
        answer=row.generated_answer,
        abstained=row.abstained,
        contexts=tuple(
            RetrievedPassage(name, None, "", score, rank)
            for rank, (name, score) in enumerate(zip(found.retrieved_docs, scores, strict=False), 1)
        ),
        citations=tuple(Citation(c.file_name, c.start_char, c.end_char, c.page_number) for c in row.citations),
        latency_ms=row.latency_ms,
        error=row.error,
    )


MEASURES = (("f1", "F1"), ("rank", "nDCG@10"), ("citations", "Citation overlap"))


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

    def outcome(self, query_id: str, query: EvaluationQuery | None) -> Outcome:
        """Return what became of a question of `given`; `query` is None when the dataset is gone."""
        return self.rule.outcome(self.given[query_id], query)


def read_question_night(report: ReportData, header: ResultsHeader, *, with_answers: bool = False) -> QuestionNight:
    """Read the scores of an evaluation; none if they are damaged, since its means can be shown all the same."""
    data = report.workspace.results_file(header.evaluation_id).read_bytes()
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    file: _AnsweredFile | _NightFile
    try:
        if with_answers:
            file = msgspec.json.decode(data, type=_AnsweredFile)
        else:
            file = msgspec.json.decode(data, type=_NightFile)
    except DAMAGED:
        return QuestionNight(header, digest, {})
    is_page = header.retrieval_level == "page"
    scores = {row.query_id: _scores(row, is_page) for row in file.query_results}
    given = {
        row.query_id: Given(
            row.generated_answer,
            row.status,
            found.exact_match,
            found.f1,
            found.judged_correct,
            row.abstained,
            found.vital_score,
        )  # fmt: skip
        for row in file.query_results
        if isinstance(row, _AnsweredRow)
        for found in [row.individual_metrics]
    }
    return QuestionNight(header, digest, scores, given, file.dataset_id, outcome_rule(report, header))


def nights_value(nights: Sequence[QuestionNight], hidden: Collection[str]) -> dict[str, Any]:
    """Return the data of a pair's nights: for each measure a list of nights for each question."""
    newest = {query_id: scores for query_id, scores in nights[-1].scores.items() if query_id not in hidden}
    return {
        "nights": [[n.header.evaluation_id, f"{n.header.timestamp:%Y-%m-%d}"] for n in nights],
        "measures": MEASURES,
        "ids": [replace_control_chars(query_id) for query_id in newest],
        "values": [
            [[_value(night, query_id, scores.text, name) for night in nights] for query_id, scores in newest.items()]
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


def _value(night: QuestionNight, query_id: str, text: int, name: str) -> float | None:
    scores = night.scores.get(query_id)
    if scores is None or scores.text != text:
        return None
    value: float | None = getattr(scores, name)
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
