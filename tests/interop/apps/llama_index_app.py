"""Query engines and a workflow of LlamaIndex, as their authors write them; no network, one passage."""

from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.schema import TextNode
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

CATS = "Cats sleep."
ANSWER = "Cats do sleep."


class Completion(CustomLLM):
    """Answers the same to everything."""

    @property
    def metadata(self):
        return LLMMetadata(model_name="constant-1")

    def complete(self, prompt, formatted=False, **options):
        return CompletionResponse(text=ANSWER)

    def stream_complete(self, prompt, formatted=False, **options):
        return (CompletionResponse(text=ANSWER[:end], delta=ANSWER[end - 1 : end]) for end in range(1, len(ANSWER) + 1))


node = TextNode(text=CATS, metadata={"file_name": "cats.pdf", "page_label": "1"})
index = VectorStoreIndex([node], embed_model=MockEmbedding(embed_dim=4))
engine = index.as_query_engine(llm=Completion())
streaming_engine = index.as_query_engine(llm=Completion(), streaming=True)


class Flow(Workflow):
    """A workflow of one step."""

    @step
    async def answer(self, event: StartEvent) -> StopEvent:
        """Ask the engine."""
        return StopEvent(result=await engine.aquery(event.query))


def flow(question):
    return Flow(timeout=60).run(query=question)


async def awaited_flow(question):
    return await Flow(timeout=60).run(query=question)
