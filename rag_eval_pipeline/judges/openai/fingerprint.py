"""What a model's verdicts depend on, as one short text; made without the network."""

import hashlib

import msgspec

from rag_eval_pipeline.judges.openai.settings import OpenAiJudgeSettings

CODE = "openai/3"  # raised whenever the same replies may be read otherwise


def openai_fingerprint(settings: OpenAiJudgeSettings, lexical: str) -> str:
    """Changes whenever the same case may be judged otherwise; limits, prices, secrets and budgets are no part of it.

    Args:
        settings: Of the judge.
        lexical: Fingerprint of the judge that splits answers into claims and looks over verdicts.
    """
    from rag_eval_pipeline.judges.openai import label_prompts, prompts, rating_prompts

    wording = [
        prompts.VERSIONS, prompts.SYSTEM, prompts.CORRECTNESS, prompts.SUPPORT, prompts.CORRECTNESS_FORM,
        prompts.SUPPORT_FORM, prompts.SUPPORT_VALUES, prompts.BESIDE, prompts.REPAIR, rating_prompts.SYSTEM,
        rating_prompts.FORM, label_prompts.VERSION, label_prompts.TASK, label_prompts.FORM,
    ]  # fmt: skip
    parts = [
        CODE,
        lexical,
        settings.endpoint.base_url,
        settings.chat.model_dump(exclude={"prices"}),
        [rating.model_dump(mode="json") for rating in settings.ratings],
        settings.evidence_chars,
        settings.claims_per_call,
        settings.claim_labels,
        settings.repeats,
        settings.fallback_scoring,
        settings.same_model,
        wording,
    ]
    return f"{CODE} {settings.chat.model} {hashlib.sha256(msgspec.json.encode(parts, order='sorted')).hexdigest()[:16]}"
