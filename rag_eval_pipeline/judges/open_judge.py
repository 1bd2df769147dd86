"""Open the judge that the settings describe, and its fingerprint; the code of no other judge is loaded."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rag_eval_pipeline.judges.judge_settings import JudgeSettings, LexicalSettings, LlmSettings, NliSettings
from rag_eval_pipeline.judges.judgement import Judge


def judge_fingerprint(settings: JudgeSettings) -> str | None:
    """Return what changes whenever the judge may judge the same case differently; None for the kind `none`.

    Raises:
        InputError: `missing_model`, `label_order` of the kind `nli`.
        ServiceError: `missing_extra` of the same.
    """
    match settings.settings:
        case LlmSettings() as own:
            from rag_eval_pipeline.judges.llm import llm_fingerprint

            return llm_fingerprint(own)
        case NliSettings() as own:
            from rag_eval_pipeline.judges.nli import nli_fingerprint

            return nli_fingerprint(own)
        case LexicalSettings() as own:
            return own.fingerprint
    return None


@asynccontextmanager
async def open_judge(settings: JudgeSettings, cache_folder: Path) -> AsyncIterator[Judge | None]:
    """Open the judge; None for the kind `none`.

    Raises:
        InputError: `missing_model`, `label_order`, `bad_model` of the kind `nli`.
        ServiceError: `missing_secret`, `bad_secret`, `bad_ca_file`, `cache_unusable`, `missing_extra`.
    """
    match settings.settings:
        case LlmSettings() as own:
            from rag_eval_pipeline.judges.llm import open_llm_judge

            async with open_llm_judge(own, cache_folder) as judge:
                yield judge
        case NliSettings() as own:
            from rag_eval_pipeline.judges.nli import open_nli_judge

            yield open_nli_judge(own)
        case LexicalSettings() as own:
            from rag_eval_pipeline.judges.lexical import LexicalJudge

            yield LexicalJudge(own)
        case _:
            yield None
