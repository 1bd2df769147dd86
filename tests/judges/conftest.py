"""A model judge whose server replies as the test says, with a cache folder of its own."""

import contextlib

import pytest

from rag_eval_pipeline.judges.judge_settings import LlmSettings
from rag_eval_pipeline.judges.judgement import Case, CitedText
from rag_eval_pipeline.judges.llm import open_llm_judge
from tests.judges.judge_server import honest, judge_server


@pytest.fixture
def opened(tmp_path):
    """`async with opened(answer, **settings) as (judge, server)`."""

    @contextlib.asynccontextmanager
    async def opening(answer=honest, *, endpoint=None, chat=None, folder="cache", url=None, **settings):
        with judge_server(answer) as server:
            made = LlmSettings.model_validate(
                {
                    "endpoint": {"base_url": url or server.url, "max_retries": 0, **(endpoint or {})},
                    "chat": {"model": "judge", **(chat or {})},
                    **settings,
                }
            )
            async with open_llm_judge(made, tmp_path / folder) as judge:
                yield judge, server

    return opening


@pytest.fixture
def case():
    """An answer of two claims, the first with two citations, the second with one."""
    answer = "The light was built in 1874 [a] [b]. It was red [a]."
    return Case(
        query_id="7",
        question="When was the light built?",
        accepted=("1874",),
        is_impossible=False,
        answer=answer,
        citations=(
            CitedText("a.pdf", "The light was built in 1874.", 28, 31),
            CitedText("b.pdf", "The harbour is deep.", 32, 35),
            CitedText("a.pdf", "It was red once.", 48, 51),
        ),
        contexts=("The light was built in 1874.", "Boats came."),
    )
