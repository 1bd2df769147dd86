"""A judge, ready to judge, from its settings; and its fingerprint without opening it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rag_eval_pipeline.judges.judgement import Judge
from rag_eval_pipeline.judges.settings import JudgeSettings


@asynccontextmanager
async def open_judge(settings: JudgeSettings, cache_folder: Path) -> AsyncIterator[Judge | None]:
    """The judge; None for the kind `none`.

    Args:
        settings: `judge:` of the evaluation settings.
        cache_folder: Where replies that cost something are kept; made when missing.

    Raises:
        ServiceError: `missing_secret`, `bad_secret`, `bad_ca_file`, `cache_unusable`.
    """
    if settings.kind == "none":
        yield None
    elif settings.kind == "lexical":
        yield _lexical(settings)
    else:
        from rag_eval_pipeline.judges.openai.judge import open_openai_judge
        from rag_eval_pipeline.judges.openai.settings import OpenAiJudgeSettings

        assert isinstance(settings.settings, OpenAiJudgeSettings)
        async with open_openai_judge(settings.settings, cache_folder) as judge:
            yield judge


def judge_fingerprint(settings: JudgeSettings) -> str | None:
    """Changes whenever the judge may judge the same case otherwise; None for the kind `none`. Asks nobody."""
    if settings.kind == "none":
        return None
    if settings.kind == "lexical":
        return _lexical(settings).fingerprint
    from rag_eval_pipeline.judges.lexical.judge import LexicalJudge
    from rag_eval_pipeline.judges.openai.fingerprint import openai_fingerprint
    from rag_eval_pipeline.judges.openai.settings import OpenAiJudgeSettings

    assert isinstance(settings.settings, OpenAiJudgeSettings)
    return openai_fingerprint(settings.settings, LexicalJudge(settings.settings.lexical).fingerprint)


def _lexical(settings: JudgeSettings) -> Judge:
    from rag_eval_pipeline.judges.lexical.judge import LexicalJudge
    from rag_eval_pipeline.judges.lexical.settings import LexicalSettings

    assert isinstance(settings.settings, LexicalSettings)
    return LexicalJudge(settings.settings)
