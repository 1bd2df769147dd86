"""The built-in RAG system: BM25 passages and an extractive answer, without a model and without a server."""
