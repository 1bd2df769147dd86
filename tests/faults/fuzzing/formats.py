"""Files of the specifications, and those of `rag-eval score`, `spans` and `calibrate`."""

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.span_report import ReadOptions, compare_spans, read_gold, read_predicted
from rag_eval_pipeline.evaluation.trec_scoring import score_file
from rag_eval_pipeline.formats.dataset import EvaluationDataset, read_evret_dataset
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.model import errors_in
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.train_json import read_train_json
from rag_eval_pipeline.formats.validation import examine
from rag_eval_pipeline.judges.labels import majority_labels, read_labels
from rag_eval_pipeline.metrics.retrieval.names import parse_measures
from tests.faults.fuzzing.checks import Parser, assert_printable, encoded, read_any
from tests.faults.fuzzing.sources import QRELS
from tests.formats.result_values import results_value
from tests.formats.test_evret import CSV_EXAMPLE, JSON_EXAMPLE
from tests.formats.test_ground_truth import CITES, JUDGES

TRAIN = [
    {"id": 0, "question": "Who?", "answer": "She.", "is_impossible": False, "contexts": [{"filename": "a.pdf", "text": "t"}]},
    {"id": 1, "question": "Why?", "answer": "", "is_impossible": True, "contexts": ["gold text"]},
]  # fmt: skip
DATASET = {
    "schema_version": "1.0", "dataset_id": "x", "name": "X", "version": "1.10.0", "created_at": "2025-08-30T12:00:00Z",
    "metadata": {"language": "en", "size": 2, "own": {"k": [1, 2.5, None]}},
    "queries": [
        {
            "query_id": "0", "query_text": "Who?", "relevant_documents": ["a.pdf"], "query_type": "factual", "difficulty": "easy",
            "ground_truth_answer": "She.", "metadata": {"is_impossible": False, "answers": ["She."]},
            "citations": [{"file_name": "a.pdf", "start_char": 0, "end_char": 4, "page_number": 1, "confidence_score": 0.5}],
        },
        {"query_id": "1", "query_text": "Why?", "relevant_documents": [], "citations": [], "metadata": {"is_impossible": True}},
    ],
    "documents": [{"document_id": "a.pdf", "content": "She lit it.", "title": "A", "file_path": "in/a.pdf", "metadata": {}}],
}  # fmt: skip
TRUTH = {"schema_version": "1.0", "dataset_id": "x", "version": "1.0.0", "annotations": [CITES, JUDGES]}
RESULTS = {"schema_version": "1.1", **results_value()}
DATASET_CSV = b"""dataset_id,name,version,query_id,query_text,relevant_documents,citations,metadata
x,X,1.0.0,0,Who?,"[""a.pdf""]","[{""file_name"": ""a.pdf"", ""start_char"": 0, ""end_char"": 4}]",{}
,,,1,"Why,
and how?",[],[],"{""is_impossible"": true}"
"""


def _read_file(names: dict[str, Callable[[Path], object]], data: bytes, folder: Path) -> None:
    """Examine the data under some names, and read it where nothing is found wrong."""
    for name, read in names.items():
        path = folder / name
        path.write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
        findings = errors_in(examine(path))
        for finding in findings:
            assert_printable(str(finding))
            assert name in str(finding), f"no place in {finding}"
        try:
            read(path)
        except InputError:
            if not findings:
                raise AssertionError("`validate` finds no error in a file that cannot be read") from None
            raise


def _read_truth(path: Path) -> None:
    GroundTruth.read(path, dataset_id="x")


def _read_evret(data: bytes, folder: Path) -> None:
    path = folder / ("f.json" if data.lstrip()[:1] == b"{" else "f.csv")
    path.write_bytes(data)
    read_evret_dataset(path)


SCORED = (QRELS, b"q1 Q0 d1 1 0.5 tag\nq1 Q0 d2 2 0.25 tag\nq2 Q0 d3 1 1e3 tag\n")
RUN_JSON = encoded({"q1": {"d1": 0.5, "d2": 0.25}, "q2": {"d3": 3}})[0]


def _read_score(data: bytes, folder: Path) -> None:
    """Score the data as the run, and as the qrels."""
    for name, content in (("run.txt", SCORED[1]), ("qrels.txt", SCORED[0]), ("f.txt", data)):
        (folder / name).write_bytes(content)
    pairs = (("f.txt", "qrels.txt"), ("run.txt", "f.txt"))
    measures = parse_measures(["nDCG@10", "RR"])
    read_any(*(partial(score_file, folder / run, folder / qrels, measures) for run, qrels in pairs), errors=InputError)


CITED = [
    {"query_id": 0, "citations": [{"file_name": "a.pdf", "start_char": 0, "end_char": 4, "page_number": 1}]},
    {"query_id": "1", "answer": "So [a.pdf:1:0-4] it is."},
]


def _read_spans(data: bytes, folder: Path) -> None:
    path, other = folder / "f.jsonl", folder / "gold.jsonl"
    path.write_bytes(data)
    other.write_bytes(encoded(CITED[0])[0])
    given = read_predicted(path, ReadOptions({"a.pdf"}))
    compare_spans(read_gold(other, ReadOptions()), given, tolerance=10, texts=None)


LABELS = [
    {"query_id": "0", "task": "correctness", "label": "correct", "annotator": "a"},
    {"query_id": "0", "task": "support", "label": "not_found", "claim": "It is.", "evidence": "x", "note": "n"},
]


def _read_labels(data: bytes, folder: Path) -> None:
    path = folder / ("f.jsonl" if data.lstrip()[:1] == b"{" else "f.csv")
    path.write_bytes(data)
    majority_labels(read_labels(path))


FORMATS: dict[str, Parser] = {
    "train_json": Parser(
        lambda: encoded(TRAIN, TRAIN, indent=2),
        partial(_read_file, {"train.json": read_train_json}),
        places=("train.json",),
    ),
    "dataset": Parser(
        lambda: [*encoded(DATASET, indent=2), *encoded(DATASET)],
        partial(_read_file, {"x.eval.json": EvaluationDataset.read, "x.eval.json.gz": EvaluationDataset.read}),
        places=("x.eval.json",),
    ),
    "dataset_yaml": Parser(
        lambda: encoded(DATASET), partial(_read_file, {"x.eval.yaml": EvaluationDataset.read}), places=("x.eval.yaml",)
    ),
    "dataset_csv": Parser(
        lambda: [DATASET_CSV], partial(_read_file, {"x.eval.csv": EvaluationDataset.read}), places=("x.eval.csv",)
    ),
    "ground_truth": Parser(
        lambda: [*encoded(TRUTH, indent=2), *encoded(TRUTH, [CITES], JUDGES)],
        partial(_read_file, {"x.gt.json": _read_truth, "x.gt.yaml": _read_truth}),
        places=("x.gt.json", "x.gt.yaml"),
    ),
    "results": Parser(
        lambda: [*encoded(RESULTS, indent=2), *encoded(RESULTS)],
        partial(_read_file, {"x.results.json": EvaluationResults.read}),
        places=("x.results.json",),
    ),
    "evret": Parser(lambda: [*encoded(JSON_EXAMPLE), CSV_EXAMPLE.encode()], _read_evret, places=("f.json", "f.csv")),
    "scores": Parser(lambda: [*SCORED, RUN_JSON, gzip.compress(SCORED[1], mtime=0)], _read_score, places=("f.txt",)),
    "spans": Parser(lambda: [b"\n".join(encoded(*CITED)), *encoded(CITED)], _read_spans, places=("f.jsonl",)),
    "labels": Parser(
        lambda: [b"\n".join(encoded(*LABELS)), b"query_id,task,label,claim\n0,refusal,answered,\n1,support,supported,It is.\n"],
        _read_labels,
        places=("f.jsonl", "f.csv"),
    ),
}  # fmt: skip
