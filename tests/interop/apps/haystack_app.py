"""A pipeline of Haystack, as its authors write it; no network, one passage."""

from typing import Any

from haystack import Document, Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

CATS = "Cats sleep."
ANSWER = "Cats do sleep."


@component
class Generator:
    """Answers the same to everything."""

    @component.output_types(replies=list[str], meta=list[dict[str, Any]])
    def run(self, prompt: str):
        """Answer a prompt."""
        return {"replies": [ANSWER], "meta": [{"model": "constant-1"}]}


store = InMemoryDocumentStore()
store.write_documents([Document(content=CATS, meta={"file_path": "/data/cats.pdf", "page_number": 1})])
pipeline = Pipeline()
pipeline.add_component("retriever", InMemoryBM25Retriever(store))
pipeline.add_component("prompt", PromptBuilder("{{ documents }} {{ query }}", required_variables="*"))
pipeline.add_component("llm", Generator())
pipeline.connect("retriever.documents", "prompt.documents")
pipeline.connect("prompt", "llm")
