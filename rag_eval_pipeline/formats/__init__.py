"""The records and files of the five specifications: one model, one reader and one writer for each."""

from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.store import DatasetStore
from rag_eval_pipeline.formats.validation import validate

__all__ = ["DatasetStore", "EvaluationDataset", "EvaluationResults", "GroundTruth", "validate"]
