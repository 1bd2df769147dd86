"""The data of a run's pages: questions, answers, judgements, dataset and corpus."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from rag_eval_pipeline.corpus.text.pages import read_pages
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.conversations import Message, conversations, own_history
from rag_eval_pipeline.evaluation.corpus_names import CorpusFiles
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.evaluation.judging import read_judgements
from rag_eval_pipeline.evaluation.score_tables import iter_responses
from rag_eval_pipeline.formats.dataset import EvaluationQuery, open_dataset
from rag_eval_pipeline.formats.results import ROWS
from rag_eval_pipeline.formats.results import Status as AnswerStatus
from rag_eval_pipeline.formats.row_files import WHOLE_BYTES, RowFile
from rag_eval_pipeline.judges.judgement import Judgement
from rag_eval_pipeline.monitoring.history import MetricHeader, ResultsHeader
from rag_eval_pipeline.site.data import ReportData
from rag_eval_pipeline.site.marked_pages import DocumentTexts
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


class CustomMetric(msgspec.Struct, frozen=True):
    """A custom metric as the results describe it."""

    meaning: str = ""
    direction: Literal["higher", "lower", "neither"] | None = None
    low: float | None = None
    high: float | None = None
    category: str = "other"


DAMAGED = (ValueError, RecursionError, FileNotFoundError)  # of a results file


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
    """A results file as the page of a run needs it, without the questions."""

    dataset_id: str = ""
    configuration: dict[str, Any] = {}
    judge: dict[str, Any] | None = None
    metadata: dict[str, Any] = {}
    further_metrics: dict[str, MetricHeader] = {}
    custom_metrics: dict[str, CustomMetric] = {}
    metric_faults: list[MetricFailure] = []
    warnings: list[str] = []
    quality_thresholds: dict[str, ThresholdResult] = {}


class _WholeFile(RunFile, frozen=True):
    query_results: list[QuestionRow] = []


class _HasRows(Protocol):
    @property
    def query_results(self) -> Sequence[Any]: ...


File = TypeVar("File", bound=_HasRows)


def read_results(path: Path, file: type[File], row: type[msgspec.Struct]) -> tuple[File, Sequence[Any]]:
    """Return a results file and its questions; of a large one each is read, and found damaged, when it is asked for."""
    if path.stat().st_size > WHOLE_BYTES:
        rows = RowFile.open(path, ROWS, msgspec.json.Decoder(row).decode)
        if rows is not None:
            return msgspec.json.decode(rows.rest, type=file), rows
    whole = msgspec.json.decode(path.read_bytes(), type=file)
    return whole, whole.query_results


class AskedRow(NamedTuple):
    """A question with its answer."""

    query_id: str
    query_text: str
    answer: str | None


class AskedQuestions(NamedTuple):
    """The questions of a run that are shown, with the names of their scores."""

    file: RunFile
    rows: Sequence[AskedRow]
    metrics: Collection[str]


def read_questions(path: Path, hidden: Collection[str] = ()) -> AskedQuestions:
    """Read the questions of a results file; empty if they are damaged or the file is gone."""
    asked, metrics = [], dict[str, None]()
    try:
        file, rows = read_results(path, _WholeFile, QuestionRow)
        for row in rows:
            if row.query_id not in hidden:
                asked.append(AskedRow(row.query_id, row.query_text, row.generated_answer))
                metrics |= dict.fromkeys(row.individual_metrics)
    except DAMAGED:
        return AskedQuestions(RunFile(), (), ())
    return AskedQuestions(file, asked, metrics)


@dataclass(frozen=True, slots=True)
class DatasetSources:
    """A benchmark's dataset and corpus of one version; both empty if they have changed since.

    Args:
        queries: The questions that are shown, and those of conversations.
        turns: Question -> all questions of its conversation in order; without those that belong to none.
        stored: All questions; `hidden` has the places of those that are not in `queries`.
    """

    queries: Mapping[str, EvaluationQuery]
    turns: Mapping[str, Sequence[EvaluationQuery]]
    texts: DocumentTexts
    has_corpus: bool
    stored: Sequence[EvaluationQuery]
    hidden: Mapping[str, int]

    def query(self, query_id: str) -> EvaluationQuery | None:
        """Return a question, shown or not; None if there is none."""
        place = self.hidden.get(query_id)
        return self.queries.get(query_id) if place is None else self.stored[place]

    @property
    def missing(self) -> list[str]:
        """`dataset`, `corpus`, or both: what has changed since."""
        return [name for name, has in (("dataset", self.queries), ("corpus", self.has_corpus)) if not has]


@dataclass(frozen=True, slots=True)
class RunSources:
    """One run; answers and judgements are by question id, `lost` has a line for each part that is missing.

    Args:
        is_damaged: Whether its own files are damaged or gone, not only those of the dataset or corpus.
        rows: All questions; of a large file each is read again whenever it is asked for.
        shown: Those that are shown; answers and judgements are theirs.
        is_shown: Whether each of all questions is.
        metrics: The names of the scores that any question has.
    """

    header: ResultsHeader
    file: RunFile
    rows: Sequence[QuestionRow]
    shown: Sequence[QuestionRow]
    is_shown: Sequence[bool]
    metrics: Collection[str]
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
    """Datasets and corpora by fingerprint, which all runs of a night share.

    Args:
        hidden: Benchmark -> questions that are not shown, known before its first dataset is asked for.
    """

    def __init__(self, report: ReportData, hidden: Mapping[str, Collection[str]] | None = None) -> None:
        self._report = report
        self._hidden = {} if hidden is None else hidden
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
        not_shown = self._hidden.get(header.benchmark, ())
        queries: dict[str, EvaluationQuery] = {}
        hidden: dict[str, int] = {}
        names: dict[frozenset[str], set[str]] = {}
        try:
            stored = _queries(workspace, dataset_id, header)
            for place, query in enumerate(stored):
                if query.query_id in not_shown and query.conversation is None:
                    hidden[query.query_id] = place
                else:
                    queries[query.query_id] = query
                    for model in (query, *query.citations):  # half of whose memory is the set of their fields
                        shared = names.setdefault(frozenset(model.model_fields_set), model.model_fields_set)
                        object.__setattr__(model, "__pydantic_fields_set__", shared)
        except (InputError, FileNotFoundError):
            stored, queries, hidden = (), {}, {}
        turns = {
            query.query_id: own
            for own in conversations(query for query in queries.values() if query.conversation is not None)
            for query in own
        }
        stamp = self._report.stamps.get(header.benchmark)
        texts, has_corpus = DocumentTexts([], {}), False
        if stamp is not None and stamp.corpus_fingerprint == header.fingerprints.get("corpus"):
            paths = workspace.benchmark(header.benchmark)
            with suppress(InputError):
                texts, has_corpus = DocumentTexts(read_pages(paths.pages), CorpusFiles.read(paths).aliases), True
        return DatasetSources(queries, turns, texts, has_corpus, stored, hidden)


_NOT_SHOWN = {"dataset": "gold answers", "corpus": "cited texts and pages"}


def read_run(
    workspace: Workspace, header: ResultsHeader, datasets: DatasetCache, hidden: Collection[str] = ()
) -> RunSources:
    """Read a run; missing and damaged parts are left out and named in `lost`."""
    lost = []
    rows: Sequence[QuestionRow] = ()
    is_shown: list[bool] = []
    metrics: dict[str, float | None] = {}
    try:
        file, rows = read_results(workspace.results_file(header.evaluation_id), _WholeFile, QuestionRow)
        for row in rows:
            is_shown.append(row.query_id not in hidden)
            metrics |= row.individual_metrics
    except DAMAGED as error:
        file, rows, is_shown, metrics = _WholeFile(), (), [], {}
        lost = [f"The questions of this run cannot be read: {error}"]
    places = compress(range(len(rows)), is_shown)
    shown = rows.take(places) if isinstance(rows, RowFile) else [rows[place] for place in places]
    dataset = datasets.of(header, file.dataset_id)
    # A turn is shown with those before it.
    unread = {query_id for query_id in hidden if query_id not in dataset.turns} if dataset.turns else hidden
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
    for row in shown:
        if row.query_id not in answers:
            answers[row.query_id] = _answer_of(row)
    return RunSources(header, file, rows, shown, is_shown, metrics, answers, judgements, dataset, lost, is_damaged)


def _queries(workspace: Workspace, dataset_id: str, header: ResultsHeader) -> Sequence[EvaluationQuery]:
    if not dataset_id or "/" in dataset_id or "/" in header.dataset_version:
        return ()
    path = workspace.eval_json(dataset_id, header.dataset_version)
    return open_dataset(path).queries if sha256_of(path) == header.fingerprints.get("dataset") else ()


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
