"""Nightly evaluation of RAG systems."""
