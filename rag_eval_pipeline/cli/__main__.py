"""`python -m rag_eval_pipeline.cli`."""

from rag_eval_pipeline.cli import main

main()
