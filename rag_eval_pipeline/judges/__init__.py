"""Judges: correctness, refusals and claim support of answers, and how far a judge agrees with people."""
