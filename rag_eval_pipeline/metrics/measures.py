"""Retrieval measures by name; what they are stands in `retrieval`."""

from rag_eval_pipeline.metrics.retrieval.catalogue import DEFAULT_MEASURES, parse_measure, parse_measures
from rag_eval_pipeline.metrics.retrieval.definition import Measure

__all__ = ["DEFAULT_MEASURES", "Measure", "parse_measure", "parse_measures"]
