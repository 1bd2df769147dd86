"""`rag-eval init`: propose a benchmark.yaml for files in any layout, and say what was guessed from what."""

from rag_eval_pipeline.scaffold.init import Proposal, propose, start_benchmark

__all__ = ["Proposal", "propose", "start_benchmark"]
