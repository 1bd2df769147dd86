"""Checking files that people hand in: `rag-eval validate` and the pipeline's own checks.

The form is recognised by the file's name, and a file's findings come back as lines; nothing is raised for bad content.
"""

import re
from collections.abc import Callable
from pathlib import Path

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.train_json import read_train_json

SEMANTIC_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")


def validate_train_json(path: Path) -> list[str]:
    """Findings in a `train.json`; with a `corpus` folder beside it, every `filename` must be one of its files."""
    rows = read_train_json(path)
    corpus = path.parent / "corpus"
    files = {file.name for file in corpus.rglob("*") if file.is_file()} if corpus.is_dir() else None
    findings = []
    seen: set[int] = set()
    for number, row in enumerate(rows, start=1):
        if row.id in seen:
            findings.append(f"{path}, row {number}: id {row.id} stands twice [duplicate_id]")
        seen.add(row.id)
        if not row.question.strip():
            findings.append(f"{path}, row {number}: the question is empty [empty_question]")
        if not row.answer.strip() and not row.is_impossible:
            findings.append(f"{path}, row {number}: the answer is empty and the question not impossible [empty_answer]")
        for context in row.contexts:
            if files is not None and not isinstance(context, str) and context.filename not in files:
                findings.append(f"{path}, row {number}: {context.filename!r} is not in the corpus [missing_file]")
    return findings


def validate_evaluation_dataset(path: Path) -> list[str]:
    """Findings in an `.eval.json`."""
    dataset = EvaluationDataset.read(path)
    findings = []
    if not SEMANTIC_VERSION.fullmatch(dataset.version):
        findings.append(f"{path}: version {dataset.version!r} is no semantic version [bad_version]")
    if dataset.documents is not None:
        known = {document.document_id for document in dataset.documents}
        for query in dataset.queries:
            for document in query.relevant_documents:
                if document not in known:
                    findings.append(f"{path}: query {query.query_id!r} names {document!r} [missing_document]")
    return findings


def validate_ground_truth(path: Path) -> list[str]:
    """Findings in a `.gt.json`."""
    truth = GroundTruth.read(path)
    return [
        f"{path}: citation {citation.citation_id!r} ends at {citation.end_char}, not after its start [empty_span]"
        for annotation in truth.annotations
        for citation in annotation.citations
        if citation.end_char <= citation.start_char
    ]


def validate_results(path: Path) -> list[str]:
    """Findings in a `.results.json`: its counts must agree with its rows."""
    results = EvaluationResults.read(path)
    summary = results.summary
    findings = []
    if summary.total_queries != len(results.query_results):
        findings.append(f"{path}: total_queries {summary.total_queries}, rows {len(results.query_results)} [counts]")
    if summary.successful_queries + summary.failed_queries != summary.total_queries:
        findings.append(f"{path}: successful and failed queries do not add up to {summary.total_queries} [counts]")
    return findings


VALIDATORS: dict[str, Callable[[Path], list[str]]] = {
    "train.json": validate_train_json,
    ".eval.json": validate_evaluation_dataset,
    ".gt.json": validate_ground_truth,
    ".results.json": validate_results,
}


def validate(path: Path) -> list[str]:
    """Findings in a file of any of the known forms, a line each; none when it is good.

    Raises:
        InputError: `unknown_form`, for a file whose name says nothing; a missing file raises `missing_file`.
    """
    for ending, check in VALIDATORS.items():
        if path.name == ending or (ending.startswith(".") and path.name.endswith(ending)):
            try:
                return check(path)
            except InputError as error:
                if error.code == "missing_file":
                    raise
                return [str(error)]
    raise InputError("unknown_form", path, f"a name ending in {', '.join(VALIDATORS)}")
