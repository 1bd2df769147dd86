"""`rag-eval export`: converted benchmarks, and one system's answers, in the formats of other tools."""

from rag_eval_pipeline.exports.export import export
from rag_eval_pipeline.exports.source import ExportOptions

__all__ = ["ExportOptions", "export"]
