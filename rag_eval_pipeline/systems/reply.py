"""The words in which replies state usage, model and end of generation, and the answers that their ends spoil."""

from typing import Any, NamedTuple

from rag_eval_pipeline.errors import Failure

ERROR_LENGTH = 500  # characters

USAGE = ("usage", "usage_metadata", "token_usage")
PROMPT_TOKENS = ("prompt_tokens", "input_tokens", "prompt_token_count", "prompt_eval_count")
COMPLETION_TOKENS = ("completion_tokens", "output_tokens", "candidates_token_count", "eval_count")
MODELS = ("model", "model_name")
FINISH_REASONS = ("finish_reason", "stop_reason", "done_reason")
FACTS_IN = ("meta", "metadata", "response_metadata")  # of a message

# Why a generation ended, in the words of OpenAI, Anthropic, Gemini, Cohere, Mistral, Bedrock, DeepSeek, GLM and vLLM;
# any other word, such as stop, end_turn or tool_calls, is an end as it should be.
CUT = frozenset({"length", "max_length", "max_tokens", "max_output_tokens", "model_length", "error_limit",
                 "model_context_window_exceeded"})  # fmt: skip
FILTERED = frozenset({"content_filter", "content_filtered", "safety", "recitation", "blocklist", "prohibited_content",
                      "spii", "guardrail_intervened", "refusal", "error_toxic", "sensitive"})  # fmt: skip
FAILED = frozenset({"error", "abort", "aborted", "cancelled", "canceled", "user_cancel", "timeout", "failed", "other",
                    "malformed_function_call", "network_error", "insufficient_system_resource"})  # fmt: skip


class Incomplete(NamedTuple):
    """Why a reply is not a whole answer."""

    status: Failure
    code: str
    error: str


def incomplete_generation(finish_reason: Any, completion_tokens: int | None, refusal: Any = None) -> Incomplete | None:
    """Return why a model's text is not a whole answer; None if it is one."""
    reason = finish_reason.strip().lower() if isinstance(finish_reason, str) else ""
    refusal = refusal or (reason if reason in FILTERED else None)
    if isinstance(refusal, str) and refusal:
        return Incomplete("refused", "refused", " ".join(f"the server refused: {refusal}".split())[:ERROR_LENGTH])
    if reason in CUT:
        error = f"the answer was cut after {completion_tokens or 'all'} tokens allowed"
        return Incomplete("truncated", "max_tokens_reached", error)
    if reason in FAILED:
        return Incomplete("error", "generation_failed", f"the generation ended with finish_reason {reason!r}")
    return None
