"""`rag-eval init`: propose a benchmark.yaml for files in any layout, and say what was guessed from what."""
