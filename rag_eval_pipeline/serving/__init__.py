"""Servers and supervision: `rag-eval up`, the report's server, the code server, and what is done beside the runs."""
