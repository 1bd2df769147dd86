"""RAG systems under test: each is asked a question and gives one normal form of answer."""
