"""The data of a run's pages: questions, answers, judgements, dataset and corpus."""

import hashlib
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np

from rag_eval_pipeline.corpus.text.pages import read_pages
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.corpus import CorpusFiles
from rag_eval_pipeline.evaluation.judging import read_judgements
from rag_eval_pipeline.evaluation.results import results_path
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.evaluation.storage import iter_responses
from rag_eval_pipeline.formats.dataset import EvaluationQuery, open_dataset
from rag_eval_pipeline.formats.results import ROWS
from rag_eval_pipeline.formats.results import Status as AnswerStatus
from rag_eval_pipeline.formats.row_files import RowFile
from rag_eval_pipeline.judges.judgement import Judgement
from rag_eval_pipeline.report.data import ReportData
from rag_eval_pipeline.report.page_images import DocumentTexts
from rag_eval_pipeline.report.text import replace_control_chars
from rag_eval_pipeline.reporting.history import MetricHeader, ResultsHeader
from rag_eval_pipeline.storage.files import sha256_of
from rag_eval_pipeline.systems.base import Citation, RagAnswer, RetrievedPassage
from rag_eval_pipeline.workspace import Workspace

Outcome = Literal["exact", "partly", "wrong", "rightly", "refused", "invented", "failed", "unscored"]

# Judges have no part in these words: they hold whether the judge is calibrated or not.
OUTCOMES: Final[dict[Outcome, str]] = {
    "exact": "exact",
    "partly": "partly right",
    "wrong": "wrong",
    "rightly": "rightly abstained",
    "refused": "wrongly abstained",
    "invented": "invented an answer",
    "failed": "failed",
    "unscored": "not scored",
}
GOOD: Final[frozenset[Outcome]] = frozenset({"exact", "rightly"})


class CitedPlace(msgspec.Struct, frozen=True):
    """A citation as the results file has it."""

    file_name: str
    start_char: int
    end_char: int
    page_number: int | None = None


class Retrieved(msgspec.Struct, frozen=True):
    """Documents by rank, and those that are relevant."""

    retrieved_docs: tuple[str, ...] = ()
    relevance_scores: tuple[float | None, ...] = ()
    ground_truth_relevant: tuple[str, ...] = ()


class QuestionRow(msgspec.Struct, frozen=True):
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

    def outcome(self, *, is_impossible: bool | None) -> Outcome:
        """Return the outcome; `is_impossible` is None when the dataset is gone."""
        scores = self.score("exact_match"), self.score("f1")
        return outcome_of(self.status, *scores, is_abstained=self.abstained, is_impossible=is_impossible)


def outcome_of(
    status: str, exact: float | None, f1: float | None, *, is_abstained: bool, is_impossible: bool | None
) -> Outcome:
    """Return what became of a question; `is_impossible` is None when the dataset is gone."""
    if status != "ok":
        return "failed"
    if exact is None or f1 is None:
        return "unscored"
    if is_abstained:
        return "rightly" if exact == 1 else "refused"
    if is_impossible:
        return "invented"
    return "exact" if exact == 1 else "partly" if f1 > 0 else "wrong"


class _ShownScores(msgspec.Struct, frozen=True):
    """The scores that are shown over nights; decoding no others halves the time."""

    exact_match: float | None = None
    f1: float | None = None
    ndcg: float | None = msgspec.field(default=None, name="ndcg@10")
    page_ndcg: float | None = msgspec.field(default=None, name="page/ndcg@10")
    citation_span_accuracy: float | None = None


class NightRow(msgspec.Struct, frozen=True):
    """A question on one night."""

    query_id: str
    query_text: str
    status: str
    individual_metrics: _ShownScores


class _AnsweredRow(NightRow, frozen=True):
    """The same with its answer."""

    generated_answer: str | None
    abstained: bool


class CustomMetric(msgspec.Struct, frozen=True):
    """A custom metric as the results describe it."""

    meaning: str = ""
    direction: Literal["higher", "lower", "neither"] | None = None
    low: float | None = None
    high: float | None = None
    category: str = msgspec.field(default="other", name="room")


class QuestionsFile(msgspec.Struct, frozen=True):
    """The questions of a results file that are shown, and the custom metrics that scored them."""

    query_results: Sequence[QuestionRow] = []
    own_metrics: dict[str, CustomMetric] = {}
    dataset_id: str = ""


QUESTIONS_SHOWN = 20_000  # of a benchmark; a browser takes a second for the table, and the data has 15 MB
Shown = Collection[str] | None  # the questions that pages show; None for all

Head = TypeVar("Head", bound=msgspec.Struct)
Row = TypeVar("Row")


class _Rows(msgspec.Struct, frozen=True):
    query_results: list[msgspec.Raw] = []


def _open_rows(path: Path, head: type[Head], row: type[Row]) -> tuple[Head, Sequence[Row]]:
    """Return a results file without its questions, and these: more than are shown are parsed when they are asked for.

    Raises:
        FileNotFoundError: It is gone.
        msgspec.MsgspecError: It is damaged; also when a question is asked for.
    """
    decode = msgspec.json.Decoder(row).decode
    rows = RowFile.open(path, ROWS, decode)
    if rows is None:  # another layout
        data = path.read_bytes()
        try:
            found = msgspec.json.decode(data, type=_Rows).query_results
        except RecursionError as error:
            raise msgspec.DecodeError("nested too deeply") from error
        return msgspec.json.decode(data, type=head), [decode(one) for one in found]
    return msgspec.json.decode(rows.rest, type=head), list(rows) if len(rows) <= QUESTIONS_SHOWN else rows


def read_questions(path: Path, shown: Shown = None) -> QuestionsFile:
    """Read the questions of a results file; empty if they are damaged or the file is gone."""
    try:
        file, rows = _open_rows(path, QuestionsFile, QuestionRow)
        return msgspec.structs.replace(file, query_results=_chosen(rows, shown))
    except (ValueError, FileNotFoundError):
        return QuestionsFile()


def _chosen(rows: Sequence[QuestionRow], shown: Shown) -> Sequence[QuestionRow]:
    return rows if shown is None else [row for row in rows if row.query_id in shown]


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
    own_metrics: dict[str, CustomMetric] = {}
    metric_faults: list[MetricFailure] = []
    warnings: list[str] = []
    quality_thresholds: dict[str, ThresholdResult] = {}
    query_results: Sequence[QuestionRow] = []


@dataclass(frozen=True, slots=True)
class DatasetSources:
    """A benchmark's dataset and corpus of one version; both empty if they have changed since."""

    queries: Mapping[str, EvaluationQuery]
    texts: DocumentTexts
    has_corpus: bool


@dataclass(frozen=True, slots=True)
class RunSources:
    """One run; answers and judgements are by question id, `lost` has a line for each part that is missing.

    Args:
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
        stamp = self._report.stamps.get(header.benchmark)
        if stamp is None or stamp.corpus_fingerprint != header.fingerprints.get("corpus"):
            return DatasetSources(queries, DocumentTexts([], {}), False)
        paths = workspace.benchmark(header.benchmark)
        try:
            texts = DocumentTexts(read_pages(paths.pages), CorpusFiles.read(paths).aliases)
        except InputError:
            return DatasetSources(queries, DocumentTexts([], {}), False)
        return DatasetSources(queries, texts, True)


def read_run(workspace: Workspace, header: ResultsHeader, datasets: DatasetCache, shown: Shown = None) -> RunSources:
    """Read a run; missing and damaged parts are left out and named in `lost`."""
    lost = []
    rows: Sequence[QuestionRow] = []
    try:
        file, rows = _open_rows(results_path(workspace, header.evaluation_id), RunFile, QuestionRow)
        file = msgspec.structs.replace(file, query_results=_chosen(rows, shown))
    except (ValueError, FileNotFoundError) as error:
        file, rows, lost = RunFile(), [], [f"The questions of this run cannot be read: {error}"]
    answers: dict[str, RagAnswer] = {}
    judgements: dict[str, Judgement] = {}
    try:
        evaluation = load_evaluation(workspace, header.evaluation_id)
        given = iter_responses(evaluation.responses)
        answers = {one.query_id: one for one in given if shown is None or one.query_id in shown}
        judged = read_judgements(evaluation)
        judgements = {one.query_id: one for one in judged if shown is None or one.query_id in shown}
    except (InputError, FileNotFoundError, ValueError):
        lost.append("The run's folder is gone or damaged: passages, claims and timings are not shown.")
    dataset = datasets.of(header, file.dataset_id)
    if not dataset.queries:
        lost.append("The dataset has changed since this run: gold answers are not shown.")
    if not dataset.has_corpus:
        lost.append("The corpus has changed since this run: cited texts and pages are not shown.")
    for row in file.query_results:
        if row.query_id not in answers:
            answers[row.query_id] = _answer_of(row)
    return RunSources(header, file, rows, answers, judgements, dataset, lost)


class _ById(Mapping[str, Row]):
    """The rows of a file by their id, each parsed when it is asked for."""

    def __init__(self, rows: Sequence[Row], places: Mapping[str, int]) -> None:
        self._rows, self._places = rows, places

    def __getitem__(self, query_id: str) -> Row:
        return self._rows[self._places[query_id]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _Id(msgspec.Struct, frozen=True):
    query_id: str


@lru_cache(4)
def _places(query_ids: tuple[str, ...]) -> Mapping[str, int]:
    """Return the place of each id; the nights of a benchmark share it."""
    return {query_id: place for place, query_id in enumerate(query_ids)}


def _queries(workspace: Workspace, dataset_id: str, header: ResultsHeader) -> Mapping[str, EvaluationQuery]:
    if not dataset_id or "/" in dataset_id or "/" in header.dataset_version:
        return {}
    path = workspace.eval_json(dataset_id, header.dataset_version)
    try:
        if sha256_of(path) != header.fingerprints.get("dataset"):
            return {}
        queries = open_dataset(path).queries
        ids = RowFile.open(path, "queries", msgspec.json.Decoder(_Id).decode)
        if ids is None or len(ids) <= QUESTIONS_SHOWN:
            return {query.query_id: query for query in queries}
        return _ById(queries, _places(tuple(one.query_id for one in ids)))
    except (InputError, FileNotFoundError):
        return {}


def _answer_of(row: QuestionRow) -> RagAnswer:
    """Return an answer as far as the results file has it."""
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


class Scores(NamedTuple):
    """A question's scores on one night."""

    text: int  # checksum of the question: equal ids of two dataset versions are not always one question
    f1: float | None
    rank: float | None
    citations: float | None


class Given(NamedTuple):
    """What a system answered on one night; None if nothing arrived."""

    answer: str | None
    status: str
    exact: float | None
    is_abstained: bool


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

    def outcome(self, query_id: str, *, is_impossible: bool | None) -> Outcome:
        """Return what became of a question of `given`."""
        given = self.given[query_id]
        f1 = self.scores[query_id].f1
        return outcome_of(
            given.status, given.exact, f1, is_abstained=given.is_abstained, is_impossible=is_impossible
        )  # fmt: skip


class _NightScores(Mapping[str, Scores]):
    """The scores of very many questions, by column: 28 bytes each."""

    def __init__(self, rows: Sequence[NightRow], *, is_page: bool) -> None:
        ids, self._texts = [], np.empty(len(rows), np.uint32)
        self._values = np.empty((len(rows), 3))
        for place, row in enumerate(rows):
            ids.append(row.query_id)
            scores = _scores(row, is_page)
            self._texts[place], self._values[place] = scores.text, scores[1:]  # None becomes NaN
        self.places = _places(tuple(ids))

    def __getitem__(self, query_id: str) -> Scores:
        place = self.places[query_id]
        f1, rank, citations = (None if value != value else value for value in self._values[place].tolist())
        return Scores(int(self._texts[place]), f1, rank, citations)

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


class _GivenAnswers(Mapping[str, Given]):
    """The answers to very many questions, each read when it is asked for."""

    def __init__(self, rows: Mapping[str, _AnsweredRow]) -> None:
        self._rows = rows

    def __getitem__(self, query_id: str) -> Given:
        return _given(self._rows[query_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def read_question_night(workspace: Workspace, header: ResultsHeader, *, with_answers: bool = False) -> QuestionNight:
    """Read the scores of an evaluation; none if they are damaged, since its means can be shown all the same."""
    path = results_path(workspace, header.evaluation_id)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    is_page = header.retrieval_level == "page"
    scores: Mapping[str, Scores]
    given: Mapping[str, Given] = {}
    rows: Sequence[NightRow]
    try:
        if with_answers:
            head, answered = _open_rows(path, QuestionsFile, _AnsweredRow)
            rows = answered
        else:
            head, rows = _open_rows(path, QuestionsFile, NightRow)
        if len(rows) <= QUESTIONS_SHOWN:
            scores = {row.query_id: _scores(row, is_page) for row in rows}
            if with_answers:
                given = {row.query_id: _given(row) for row in answered}
        else:
            scores = night_scores = _NightScores(rows, is_page=is_page)
            if with_answers:
                given = _GivenAnswers(_ById(answered, night_scores.places))
    except ValueError:
        return QuestionNight(header, digest, {})
    return QuestionNight(header, digest, scores, given, head.dataset_id)


def _given(row: _AnsweredRow) -> Given:
    return Given(row.generated_answer, row.status, row.individual_metrics.exact_match, row.abstained)


def nights_value(nights: Sequence[QuestionNight], shown: Shown = None) -> dict[str, Any]:
    """Return the data of a pair's nights: for each measure a list of nights for each question."""
    newest = nights[-1].scores
    if shown is not None:
        newest = {query_id: scores for query_id, scores in newest.items() if query_id in shown}
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


def is_large(night: QuestionNight) -> bool:
    """Return whether a run has more questions than pages show."""
    return len(night.scores) > QUESTIONS_SHOWN


def select_questions(
    newest: Sequence[QuestionNight], changed: Sequence[Mapping[str, float]], named: Collection[str]
) -> frozenset[str]:
    """Return the questions that pages show of a benchmark with too many.

    They are those that are named elsewhere, then those that changed most, then those with the lowest F1, in any of the
    systems.

    Args:
        newest: The newest night of each system.
        changed: How much the F1 of each of its questions changed.
    """
    order: dict[str, tuple[float, float]] = {}
    for night, moved in zip(newest, changed, strict=True):
        for query_id, scores in night.scores.items():
            own = -abs(moved.get(query_id, 0.0)), -1.0 if scores.f1 is None else scores.f1
            order[query_id] = min(order.get(query_id, own), own)
    first = [query_id for query_id in named if query_id in order]
    most = nsmallest(QUESTIONS_SHOWN, order, key=order.__getitem__)
    return frozenset(list(dict.fromkeys(chain(first, most)))[:QUESTIONS_SHOWN])


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
