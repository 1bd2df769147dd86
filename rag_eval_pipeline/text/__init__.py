"""Text in any script, for metrics, judges and systems: one spelling, tokens, sentences, numbers, refusals."""
