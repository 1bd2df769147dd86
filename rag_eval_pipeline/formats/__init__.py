"""The records and files of the five specifications: models, reading, writing. Knows nothing of the other rooms."""

from rag_eval_pipeline.formats.citations import CitationSpan
from rag_eval_pipeline.formats.compression import (
    compress_evaluation_data,
    compression_ratio,
    decompress_evaluation_data,
)
from rag_eval_pipeline.formats.dataset_files import read_evaluation_dataset, write_evaluation_dataset
from rag_eval_pipeline.formats.document_registry import DocumentRegistry
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset, EvaluationQuery, SourceDocument
from rag_eval_pipeline.formats.evret import read_evret_csv, read_evret_json, write_evret_csv, write_evret_json
from rag_eval_pipeline.formats.findings import Finding
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.results_files import ResultsFilter
from rag_eval_pipeline.formats.schemas import json_schema, write_schemas
from rag_eval_pipeline.formats.store import DatasetStore
from rag_eval_pipeline.formats.train_json import TrainContext, TrainRow, read_train_json, write_train_json
from rag_eval_pipeline.formats.validation import (
    examine,
    validate,
    validate_evaluation_dataset,
    validate_evaluation_results,
    validate_ground_truth,
)
from rag_eval_pipeline.formats.version_difference import version_difference

__all__ = [
    "CitationSpan",
    "DatasetStore",
    "DocumentRegistry",
    "EvaluationDataset",
    "EvaluationQuery",
    "EvaluationResults",
    "Finding",
    "GroundTruth",
    "ResultsFilter",
    "SourceDocument",
    "TrainContext",
    "TrainRow",
    "compress_evaluation_data",
    "compression_ratio",
    "decompress_evaluation_data",
    "examine",
    "json_schema",
    "read_evaluation_dataset",
    "read_evret_csv",
    "read_evret_json",
    "read_train_json",
    "validate",
    "validate_evaluation_dataset",
    "validate_evaluation_results",
    "validate_ground_truth",
    "version_difference",
    "write_evaluation_dataset",
    "write_evret_csv",
    "write_evret_json",
    "write_schemas",
    "write_train_json",
]
