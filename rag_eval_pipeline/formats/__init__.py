"""The records and files of the five specifications: models, reading, writing. Knows nothing of the other rooms."""

from rag_eval_pipeline.formats.citations import CitationSpan
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.train_json import TrainContext, TrainRow, read_train_json, write_train_json
from rag_eval_pipeline.formats.validation import validate

__all__ = [
    "CitationSpan",
    "EvaluationDataset",
    "EvaluationQuery",
    "EvaluationResults",
    "GroundTruth",
    "TrainContext",
    "TrainRow",
    "read_train_json",
    "validate",
    "write_train_json",
]
