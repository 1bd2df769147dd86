"""A converted benchmark in others' formats: NVIDIA's evaluation root, Evret, BEIR, TREC, ragas."""
