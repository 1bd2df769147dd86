"""What is exported: a benchmark as its conversion wrote it and, if requested, one system's answers to it."""

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from rag_eval_pipeline.conversion.stamp import Stamp, current_stamp, source_digest
from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.manifest import read_manifest
from rag_eval_pipeline.corpus.text.pages import Page, pages_by_document, read_pages
from rag_eval_pipeline.errors import InputError, did_you_mean
from rag_eval_pipeline.evaluation.corpus_names import CorpusFiles
from rag_eval_pipeline.evaluation.evaluation_folders import SCORE_FILES, Evaluation, load_evaluation, newest_evaluation
from rag_eval_pipeline.evaluation.score_tables import read_responses, read_scores, scored_evaluation_id
from rag_eval_pipeline.formats.dataset import EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.formats.train_json import TrainRow, read_train_json
from rag_eval_pipeline.storage.atomic_files import sha256_of
from rag_eval_pipeline.systems.base import RagAnswer, RetrievedPassage
from rag_eval_pipeline.workspace import NAME, BenchmarkPaths, Workspace

OURS = "rag_eval"  # the key of metadata under which other tools find what is not the source's


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The user's choices beyond the format."""

    documents: bool = False  # Evret: include the texts of the documents
    level: Literal["document", "page"] = "document"  # BEIR and TREC: what is judged and retrieved
    answerable_only: bool = False  # leave out the questions that the corpus does not answer
    overwrite: bool = False  # replace a target that holds no files except those that are written


class Written(NamedTuple):
    """What a format's writer reports: counts, numbers of lost values of answers by field, and notes for users."""

    counts: dict[str, int]
    lost: dict[str, int] = {}
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of one system, in the dataset's order."""

    evaluation_id: str
    system: str
    opened_at: datetime
    given: dict[str, RagAnswer]  # query id -> final answer, failed or not; questions beyond a system's limit have none
    scores: dict[str, dict[str, float]]  # query id -> metric -> score

    def of(self, query: EvaluationQuery) -> RagAnswer | None:
        """Return the answer to a question; None if it failed or was not asked."""
        answer = self.given.get(query.query_id)
        return answer if answer is not None and answer.status == "ok" else None

    @property
    def failed(self) -> int:
        """The number of questions that were asked and got no answer."""
        return sum(answer.status != "ok" for answer in self.given.values())

    @property
    def abstained(self) -> int:
        """The number of refusals."""
        return sum(answer.abstained for answer in self.given.values())

    @property
    def passage_scores(self) -> int:
        """The number of retrieved passages with a score."""
        return sum(passage.score is not None for answer in self.given.values() for passage in answer.contexts)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the files has to know."""
        note = f"{self.failed} of {len(self.given)} questions got no answer; their answers are absent, not empty"
        return (note,) if self.failed else ()


@dataclass(frozen=True, slots=True)
class ExportSource:
    """Everything that the writer of a format reads."""

    paths: BenchmarkPaths
    dataset: EvaluationDataset
    documents: tuple[CorpusDocument, ...]  # the files of the corpus, in the manifest's order
    names: CorpusFiles  # maps the names of one document to its first
    answers: Answers | None
    options: ExportOptions
    label: str  # the target's name; NVIDIA's driver uses it in file names

    def train_rows(self) -> list[TrainRow]:
        """Return the rows of `train.json`."""
        rows = read_train_json(self.paths.train_json)
        if self.options.answerable_only:
            rows = [row for row in rows if not row.is_impossible]
        if [str(row.id) for row in rows] != [query.query_id for query in self.dataset.queries]:
            raise _changed_dataset(self.paths.train_json, self.paths.name)
        return rows

    def pages(self) -> dict[str, list[Page]]:
        """Return the pages of each file of the corpus."""
        pages = pages_by_document(read_pages(self.paths.pages))
        return {document.file_name: pages.get(document.file_name, []) for document in self.documents}

    def judged(self, query: EvaluationQuery) -> dict[str, int]:
        """Return the ids of the relevant documents with their grades, or of the pages on which gold texts start.

        A document with two names counts once, under its first name and with its better grade; a page has grade 1.
        """
        found: dict[str, int] = {}
        if self.options.level == "document":
            for name, grade in query.grades.items():
                known = self.names.canonical(name)
                found[known] = max(grade, found.get(known, grade))
            return found
        pages = ((self.names.canonical(c.file_name), c.page_number) for c in query.citations if c.page_number)
        return dict.fromkeys((page_id(name, page) for name, page in pages), 1)

    def retrieved(self, passages: tuple[RetrievedPassage, ...]) -> dict[str, float | None]:
        """Return the ids of retrieved documents or pages with the score of the best passage of each, in its order.

        At page level, passages without a page are skipped.
        """
        found: dict[str, float | None] = {}
        for passage in sorted(passages, key=lambda passage: passage.rank):
            name = self.names.canonical(passage.document)
            if self.options.level == "document":
                found.setdefault(name, passage.score)
            elif passage.page is not None:
                found.setdefault(page_id(name, passage.page), passage.score)
        return found

    def refuse_answers(self, format: str) -> None:
        """Raise `no_answers_in_format` if answers are to be exported."""
        if self.answers is not None:
            expected = "a format that can hold answers: nvidia, trec, ragas, inspect, promptfoo"
            raise InputError("no_answers_in_format", "--evaluation", expected, found=format)


def page_id(file_name: str, page: int) -> str:
    """Return `<file name>#page=<1-based page>`, the fragment of RFC 8118; no corpus file's name ends like that."""
    return f"{file_name}#page={page}"


def answer_facts(answer: RagAnswer) -> dict[str, Any]:
    """Return what is known of an answer as JSON values: its text with its citations, and passages in rank order."""
    facts: dict[str, Any] = msgspec.to_builtins(answer)
    passages = sorted(facts["contexts"], key=lambda passage: passage["rank"])
    return {
        **{name: facts[name] for name in ("status", "answer", "error", "abstained")},
        "contexts": passages,
        **{name: facts[name] for name in ("citations", "latency_ms", "usage")},
    }


def load_source(
    workspace: Workspace, name: str, *, evaluation: str | None, options: ExportOptions, label: str
) -> ExportSource:
    """Load a benchmark whose conversion is current and whose files are unchanged; the caller holds its lock."""
    paths = workspace.benchmark(name)
    stamp = current_stamp(paths, source_digest(paths))
    dataset_path = workspace.eval_json(stamp.dataset_id, stamp.dataset_version)
    _check_digests(paths, stamp, dataset_path)
    dataset = EvaluationDataset.read(dataset_path)
    documents = [document for document in read_manifest(paths.documents) if document.origin != "missing"]
    answers = None if evaluation is None else find_answers(workspace, evaluation, stamp, dataset)
    if options.answerable_only:
        queries = tuple(query for query in dataset.queries if not query.is_impossible)
        dataset = dataset.model_copy(update={"queries": queries})
        if answers is not None:
            kept = {query.query_id for query in queries}
            given = {query_id: answer for query_id, answer in answers.given.items() if query_id in kept}
            answers = dataclasses.replace(answers, given=given)
    return ExportSource(
        paths=paths,
        dataset=dataset,
        documents=tuple(documents),
        names=CorpusFiles(paths, documents),
        answers=answers,
        options=options,
        label=label,
    )


def find_answers(workspace: Workspace, evaluation: str, stamp: Stamp, dataset: EvaluationDataset) -> Answers:
    """Return the answers of an evaluation, found by its id or by the system whose newest evaluation it is."""
    found = _find_evaluation(workspace, evaluation, stamp.benchmark)
    record, prints = found.record, found.record.fingerprints
    if record.benchmark != stamp.benchmark:
        raise InputError("other_benchmark", found.folder, f"an evaluation of {stamp.benchmark}", found=record.benchmark)
    found.require_answered()
    if (prints.dataset, prints.corpus) != (stamp.dataset_fingerprint, stamp.corpus_fingerprint):
        expected = f"answers to the current dataset and corpus of {stamp.benchmark}"
        hint = f"Evaluate again: rag-eval evaluate {stamp.benchmark} --system {record.system}"
        raise InputError("stale_evaluation", found.folder, expected, hint=hint)
    answers = read_responses(found.responses)
    if [answer.query_id for answer in answers] != [query.query_id for query in dataset.queries[: record.limit]]:
        expected = "one answer per question, in the dataset's order"
        raise InputError("foreign_answers", found.responses, expected, hint="Evaluate the pair again.")
    given = {answer.query_id: answer for answer in answers}
    return Answers(record.evaluation_id, record.system, record.opened_at, given, _read_scores(found))


def _find_evaluation(workspace: Workspace, evaluation: str, benchmark: str) -> Evaluation:
    if (workspace.runs / evaluation / "evaluation.json").is_file():
        return load_evaluation(workspace, evaluation)
    newest = newest_evaluation(workspace, benchmark, evaluation) if NAME.fullmatch(evaluation) else None
    if newest is not None:
        return newest
    pointers = (workspace.runs / "by_pair" / benchmark).glob("*.json")
    evaluated = sorted(pointer.stem for pointer in pointers)
    hint = f"Systems evaluated on it: {', '.join(evaluated) or 'none'}."
    if question := did_you_mean(evaluation, evaluated):
        hint = f"{question} {hint}"
    expected = f"an evaluation's id, or a system that was evaluated on {benchmark}"
    raise InputError("no_evaluation", workspace.runs, expected, found=evaluation, hint=hint)


def _read_scores(evaluation: Evaluation) -> dict[str, dict[str, float]]:
    scores: dict[str, dict[str, float]] = {}
    for kind in SCORE_FILES:
        path = evaluation.scores(kind)
        if scored_evaluation_id(path) == evaluation.record.evaluation_id:
            for row in read_scores(path):
                scores.setdefault(row.query_id, {}).update(row.scores)
    return scores


def _check_digests(paths: BenchmarkPaths, stamp: Stamp, dataset: Path) -> None:
    stamped = {dataset: stamp.dataset_fingerprint, **{paths.dataset / name: sha for name, sha in stamp.files.items()}}
    for path, sha256 in stamped.items():
        if not path.exists() or sha256_of(path) != sha256:
            raise _changed_dataset(path, paths.name)


def _changed_dataset(path: Path, benchmark: str) -> InputError:
    hint = f"Convert again: rag-eval convert {benchmark}"
    return InputError("changed_dataset", path, "the file that the conversion wrote", hint=hint)
