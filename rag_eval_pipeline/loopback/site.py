"""What all interfaces of the server share: its options, its documents, its faults and its counts."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import pydantic

from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.loopback.answering import Answers, FoundAnswer, canned_answer
from rag_eval_pipeline.loopback.counts import Counts
from rag_eval_pipeline.loopback.faults import Fault, FaultPlan, FaultScript, read_mark
from rag_eval_pipeline.loopback.library import Library


class LoopbackOptions(Model):
    """How the server answers."""

    seed: int = pydantic.Field(0, description="Of the faults.")
    faults: FaultScript = pydantic.Field(FaultScript(), description="What goes wrong.")
    latency_ms: float = pydantic.Field(50.0, ge=0, description="From a question to the first of its answer.")
    is_canned: bool = pydantic.Field(False, description="Answer from the question's hash and read no document.")
    ingestion_ms: float = pydantic.Field(0.0, ge=0, description="For taking in one document, beside reading it.")
    media_every: int = pydantic.Field(
        5, ge=0, description="Every so manieth passage comes as a table, a chart or a picture; 0: none."
    )
    page_base: int = pydantic.Field(1, ge=0, le=1, description="Number of a document's first page.")
    unready: str | None = pydantic.Field(None, description="A dependency that /v1/health reports as down.")
    api_key_env: str | None = pydantic.Field(
        None, description="Environment variable with the bearer token that every request must carry."
    )


class AskedQuestion(NamedTuple):
    """A question as it is answered: without its mark, and with what is to go wrong."""

    interface: str
    text: str
    fault: Fault | None


class Site:
    """The server's state.

    Args:
        options: How to answer.
    """

    def __init__(self, options: LoopbackOptions) -> None:
        self.options = options
        self.library = Library(reads=not options.is_canned, ingestion_ms=options.ingestion_ms)
        self.counts = Counts()
        self.plan = FaultPlan(options.faults, options.seed)
        self._answers = Answers(page_base=options.page_base)

    def asked(self, interface: str, question: str, *, counted: str | None = None) -> AskedQuestion:
        """Counts an attempt and decides what becomes of it.

        Args:
            interface: `generate`, `search`, `chat`.
            question: As asked, with its mark.
            counted: What two attempts have in common, where the question has more.

        Raises:
            ValueError: The mark names no fault.
        """
        marked = read_mark(question)
        attempt, number = self.counts.attempt(interface, read_mark(counted or question).text)
        fault = self.plan.of_question(marked, attempt=attempt, number=number)
        if fault is not None:
            self.counts.fault(fault.name)
        return AskedQuestion(interface, marked.text, fault)

    def missing(self, names: Sequence[str]) -> str | None:
        """The first collection that does not exist; canned answers need none."""
        if self.options.is_canned:
            return None
        return next((name for name in names if name not in self.library.collections), None)

    async def answer(self, question: AskedQuestion, names: Sequence[str]) -> FoundAnswer:
        """The answer over collections that exist, after the latency; canned where there is no document."""
        if self.options.latency_ms:
            await asyncio.sleep(self.options.latency_ms / 1000)
        collections = [self.library.collections[name] for name in names if name in self.library.collections]
        if self.options.is_canned or not any(collection.documents for collection in collections):
            return canned_answer(question.text, [name for found in collections for name in found.documents])
        return await self._answers.find(question.text, collections)
