"""Text in any script: the word tokenizer that metrics, judges and systems share."""
