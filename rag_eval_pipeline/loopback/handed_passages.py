"""A model that reads what it is handed: an answer out of the numbered passages of a prompt, with the passage's number.

So a trial with a chat model and retrieval of the pipeline's own comes to scores that mean something.
"""

import re

from rag_eval_pipeline.formats.citations import find_citations
from rag_eval_pipeline.systems.answer import Query
from rag_eval_pipeline.systems.corpus import PageText
from rag_eval_pipeline.systems.embedded.settings import EmbeddedSettings
from rag_eval_pipeline.systems.embedded.system import EmbeddedSystem

_QUESTION = "\n\nQuestion: "
_PASSAGE = re.compile(r"^\[(\d+)\][^\n]*\n", re.MULTILINE)


async def answer_from_passages(prompt: str) -> str | None:
    """The answer to a prompt of numbered passages and a question; None for a prompt of another form."""
    before, mark, question = prompt.rpartition(_QUESTION)
    heads = list(_PASSAGE.finditer(before))
    if not mark or not heads:
        return None
    ends = [head.start() for head in heads[1:]] + [len(before)]
    pages = [PageText(head[1], 1, 0, before[head.end() : end].strip()) for head, end in zip(heads, ends, strict=True)]
    answer = (await EmbeddedSystem(pages, EmbeddedSettings()).answer(Query("-", question))).answer or ""
    markers = find_citations(answer, {page.document for page in pages})
    for marker in reversed(markers):
        answer = f"{answer[: marker.start]}[{marker.spans[0].file_name}]{answer[marker.end :]}"
    return answer
