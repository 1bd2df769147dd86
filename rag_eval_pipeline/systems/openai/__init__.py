"""An OpenAI-compatible server as a system under test, alone or behind the built-in retrieval."""
