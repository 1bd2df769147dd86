"""The loopback model reads the passages that it is handed, and nothing else."""

from rag_eval_pipeline.loopback.handed_passages import answer_from_passages
from rag_eval_pipeline.systems.answer import RetrievedPassage
from rag_eval_pipeline.systems.openai.prompts import messages

PASSAGES = [
    RetrievedPassage("a.pdf", 1, "The harbour has a bell of bronze.", 1.0, 1, 0, 33),
    RetrievedPassage("b.pdf", 2, "The light tower was built in 1887 by Ada Thorne.", 0.9, 2, 40, 88),
]


async def test_an_answer_names_the_passage_it_is_from():
    prompt = messages("When was the light tower built?", PASSAGES, None)[-1].content

    assert await answer_from_passages(prompt) == "1887 [2]"


async def test_a_prompt_of_another_form_is_not_answered_so():
    assert await answer_from_passages("When was the light tower built?") is None
    assert await answer_from_passages("Some text.\n\nQuestion: why?") is None
