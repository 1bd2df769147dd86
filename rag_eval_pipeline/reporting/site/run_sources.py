"""What the pages of one run are made from: questions, answers, judgements, and the dataset and corpus behind them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from rag_eval_pipeline.corpus.text.pages import read_pages
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.corpus_files import CorpusFiles
from rag_eval_pipeline.evaluation.judging import read_judgements
from rag_eval_pipeline.evaluation.publishing import results_path
from rag_eval_pipeline.evaluation.responses_file import read_responses
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.formats.model import read_bytes
from rag_eval_pipeline.judges.judgement import Judgement
from rag_eval_pipeline.reporting.history import MetricHeader, ResultsHeader
from rag_eval_pipeline.reporting.site.morning import Morning
from rag_eval_pipeline.reporting.site.questions import OwnMetric, QuestionRow
from rag_eval_pipeline.reporting.site.texts import DocumentTexts
from rag_eval_pipeline.systems.answer import Citation, RagAnswer, RetrievedPassage
from rag_eval_pipeline.systems.answer import Status as AnswerStatus
from rag_eval_pipeline.workspace import Workspace


class MetricFault(msgspec.Struct, frozen=True):
    """A score that a metric of one's own could not give."""

    metric: str
    query_id: str
    message: str


class HeldThreshold(msgspec.Struct, frozen=True):
    """A quality threshold that people have set, and what was found of it."""

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
    own_metrics: dict[str, OwnMetric] = {}
    metric_faults: list[MetricFault] = []
    warnings: list[str] = []
    quality_thresholds: dict[str, HeldThreshold] = {}
    query_results: list[QuestionRow] = []


@dataclass(frozen=True, slots=True)
class DatasetSources:
    """A benchmark's dataset and corpus of one version.

    Args:
        queries: By id; empty where the dataset is not there any more as it was asked.
        texts: Of the corpus.
        has_corpus: Whether the corpus is that which the run saw.
    """

    queries: Mapping[str, EvaluationQuery]
    texts: DocumentTexts
    has_corpus: bool


@dataclass(frozen=True, slots=True)
class RunSources:
    """One run.

    Args:
        header: Figures.
        file: The rest of its results.
        answers: By question id; those of which only the results file knows have no texts.
        judgements: By question id.
        dataset: What was asked.
        lost: Why answers, dataset or corpus are missing, a line each.
    """

    header: ResultsHeader
    file: RunFile
    answers: Mapping[str, RagAnswer]
    judgements: Mapping[str, Judgement]
    dataset: DatasetSources
    lost: Sequence[str]


class DatasetShelf:
    """Datasets and corpora by fingerprint: all runs of a night share them, and reading one takes longer than a page."""

    def __init__(self, morning: Morning) -> None:
        self._morning = morning
        self._known: dict[tuple[str | None, ...], DatasetSources] = {}

    def of(self, header: ResultsHeader, dataset_id: str) -> DatasetSources:
        """What a run was asked, and what it could find."""
        prints = header.fingerprints
        key = (header.benchmark, dataset_id, header.dataset_version, prints.get("dataset"), prints.get("corpus"))
        if key not in self._known:
            self._known[key] = self._read(header, dataset_id)
        return self._known[key]

    def _read(self, header: ResultsHeader, dataset_id: str) -> DatasetSources:
        workspace = self._morning.workspace
        queries = _queries(workspace, dataset_id, header)
        stamp = self._morning.stamps.get(header.benchmark)
        if stamp is None or stamp.corpus_fingerprint != header.fingerprints.get("corpus"):
            return DatasetSources(queries, DocumentTexts([], {}), False)
        paths = workspace.benchmark(header.benchmark)
        try:
            texts = DocumentTexts(read_pages(paths.pages), CorpusFiles.read(paths).aliases())
        except InputError:
            return DatasetSources(queries, DocumentTexts([], {}), False)
        return DatasetSources(queries, texts, True)


def read_run(workspace: Workspace, header: ResultsHeader, shelf: DatasetShelf) -> RunSources:
    """Everything there is of a run; what is missing or damaged is left out, and said.

    Raises:
        OSError: The machine could not read a file, which says nothing of the run.
    """
    lost = []
    try:
        file = msgspec.json.decode(results_path(workspace, header.evaluation_id).read_bytes(), type=RunFile)
    except (msgspec.MsgspecError, FileNotFoundError) as error:
        file, lost = RunFile(), [f"The questions of this run cannot be read: {error}"]
    answers: dict[str, RagAnswer] = {}
    judgements: dict[str, Judgement] = {}
    try:
        evaluation = load_evaluation(workspace, header.evaluation_id)
        answers = {answer.query_id: answer for answer in read_responses(evaluation.responses)}
        judgements = {one.query_id: one for one in read_judgements(evaluation)}
    except (InputError, FileNotFoundError, msgspec.MsgspecError):
        lost.append("The run's folder is gone or damaged: passages, claims and timings are not shown.")
    dataset = shelf.of(header, file.dataset_id)
    if not dataset.queries:
        lost.append("The dataset has changed since this run: gold answers are not shown.")
    if not dataset.has_corpus:
        lost.append("The corpus has changed since this run: cited texts and pages are not shown.")
    for row in file.query_results:
        if row.query_id not in answers:
            answers[row.query_id] = _answer_of(row)
    return RunSources(header, file, answers, judgements, dataset, lost)


def _queries(workspace: Workspace, dataset_id: str, header: ResultsHeader) -> dict[str, EvaluationQuery]:
    if not dataset_id or "/" in dataset_id or "/" in header.dataset_version:
        return {}
    path = workspace.eval_json(dataset_id, header.dataset_version)
    try:
        if hashlib.sha256(read_bytes(path)).hexdigest() != header.fingerprints.get("dataset"):
            return {}
        return {query.query_id: query for query in EvaluationDataset.read(path).queries}
    except InputError:
        return {}


def _answer_of(row: QuestionRow) -> RagAnswer:
    """An answer as far as the results file has it."""
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
