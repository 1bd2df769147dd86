"""`rag-eval init`: propose a benchmark.yaml for files in any layout, and list what was guessed from what."""
