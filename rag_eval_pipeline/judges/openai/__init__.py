"""A language model as judge: one call an answer, categorical verdicts, and nothing of a reply that is not whole."""
