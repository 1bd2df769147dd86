"""Proposals: a benchmark.yaml for foreign files, with what was guessed and from what."""

from rag_eval_pipeline.proposal.starting import Proposal, propose, start_benchmark

__all__ = ["Proposal", "propose", "start_benchmark"]
