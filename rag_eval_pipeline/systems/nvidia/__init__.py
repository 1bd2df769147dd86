"""An NVIDIA RAG Blueprint server as a system under test: its corpus uploaded, its streams read."""
