"""Bodies of documents: fetched from URLs or read from files, and what they are."""
