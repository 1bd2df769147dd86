"""Metrics: the scores of one question, their means with intervals, and the nightly verdict.

These are pure functions of values, without clock or network; only `retrieval.files` and `span_files` read files. A
score that cannot be computed is None with a reason and a count, never 0.0.
"""
