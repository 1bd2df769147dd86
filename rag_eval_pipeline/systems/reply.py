"""Read what replies say besides the answer: usage, model, end of generation, and the messages of agents.

Of conversations (LangChain's, Haystack's, LlamaIndex's and OpenAI's messages) only the messages after the last question
count, since they may have begun before: what their tools retrieved, and the usage of all their requests.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rag_eval_pipeline.errors import Failure
from rag_eval_pipeline.systems.foreign_values import joined_text, part, peek, whole_number
from rag_eval_pipeline.systems.passages import ParsedPassage, is_passage, parse_passages
from rag_eval_pipeline.text.folding import plain_text, scalar_text

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


ASKING = ("human", "user")
TOOLS = ("tool", "function")
SPEAKERS = ("ai", "assistant", "system", "developer", *ASKING, *TOOLS)
# Lists of passages, by the names that frameworks and their tutorials use; of equally good ones the first is read.
CONTEXTS = (
    "contexts", "source_documents", "context", "documents", "source_nodes", "retrieved_contexts", "passages",
    "generated_contexts", "sources", "docs", "retrieved_documents", "retrieved_docs", "chunks", "retrieved_chunks",
    "references", "nodes",
)  # fmt: skip
_DEPTH = 4  # of what a tool returned


def message_text(value: Any) -> str | None:
    """Return the text of a text, a number, or a message: `content` or `text`, which may be a list of parts."""
    if value is None or isinstance(value, str | int | float):
        return scalar_text(value)
    content = value if isinstance(value, list) else part(value, "answer", "content", "text")
    if isinstance(content, str | int | float):
        return scalar_text(content)
    return joined_text(content) if isinstance(content, list) else None


def stated_usage(value: Any) -> Any:
    """Return the usage that a value or its metadata states, as it is; None if it states none."""
    if value is None or isinstance(value, str):
        return None
    found = part(value, *USAGE)
    return found if found is not None else part(part(value, *FACTS_IN), *USAGE)


def stated_model(value: Any) -> str | None:
    """Return the name of the model that a value or its metadata states."""
    return _stated_text(value, MODELS)


def stated_finish(value: Any) -> str | None:
    """Return why the generation ended, as a value or its metadata states it."""
    details = None if value is None or isinstance(value, str) else part(value, "incomplete_details")
    return _stated_text(value, FINISH_REASONS) or _stated_text(details, ("reason",))


def _stated_text(value: Any, names: Sequence[str]) -> str | None:
    if value is None or isinstance(value, str):
        return None
    found = part(value, *names)
    found = found if found is not None else part(part(value, *FACTS_IN), *names)
    return plain_text(found) if isinstance(found, str) else None


def newest_turn(messages: Sequence[Any]) -> Sequence[Any]:
    """Return the messages after the last question."""
    asked = [number for number, message in enumerate(messages) if role_of(message) in ASKING]
    return messages[asked[-1] + 1 :] if asked else messages


def role_of(message: Any) -> str | None:
    """Return who speaks, in lower case: `ai`, `assistant`, `human`, `user`, `tool`, ...; None if it is not said."""
    role = part(message, "role", "type")
    role = getattr(role, "value", role)  # Haystack's and LlamaIndex's are enumerations
    return role.lower() if isinstance(role, str) else None


def summed_usage(messages: Sequence[Any]) -> dict[str, int] | None:
    """Return the tokens of all messages that state some, each of them a request; None if none does."""
    found = [usage for message in messages if (usage := stated_usage(message)) is not None]
    if not found:
        return None
    prompt = sum(_count(usage, *PROMPT_TOKENS) for usage in found)
    completion = sum(_count(usage, *COMPLETION_TOKENS) for usage in found)
    total = sum(
        _count(usage, "total_tokens") or _count(usage, *PROMPT_TOKENS) + _count(usage, *COMPLETION_TOKENS)
        for usage in found
    )
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, "requests": len(found)}


def _count(usage: Any, *names: str) -> int:
    return max(0, whole_number(part(usage, *names)) or 0)


def retrieved_by_tools(value: Any) -> tuple[ParsedPassage, ...]:
    """Return the passages that tools returned, in their order, each once.

    They are in `messages` (LangChain's `artifact`, Haystack's tool results), `intermediate_steps` (LangChain's
    AgentExecutor), `tool_calls` and `sources` (LlamaIndex).
    """
    passages = parse_passages([item for outcome in _outcomes(value) for item in _passages_in(outcome)])
    return tuple(dict.fromkeys(passages))


def _outcomes(value: Any) -> Iterator[Any]:
    messages = part(value, "messages")
    for message in newest_turn(messages) if isinstance(messages, list) else ():
        if role_of(message) in TOOLS:
            results = peek(message, "tool_call_results")
            content = peek(message, "content")
            parts = results or (content if isinstance(content, list) else [])
            results = [found for item in parts if (found := _tool_result(item)) is not None]
            artifact = part(message, "artifact")
            yield from results if artifact is None and results else [artifact if artifact is not None else content]
    for key in ("tool_calls", "sources"):
        calls = peek(value, key)
        for call in calls if isinstance(calls, list) else ():
            output = part(call, "tool_output") or call
            yield part(output, "raw_output")
    steps = part(value, "intermediate_steps")
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, tuple | list) and len(step) == 2:
            yield step[1]


def _tool_result(item: Any) -> Any:
    return part(part(item, "tool_call_result") or item, "result")


def _passages_in(value: Any, depth: int = 0) -> Iterable[Any]:
    """Return the items of a tool's outcome that look like passages; JSON in a text is read, other texts are not."""
    if value is None or depth > _DEPTH:
        return ()
    if isinstance(value, str):
        if not value.lstrip().startswith(("{", "[")):
            return ()
        try:
            return _passages_in(json.loads(value), depth + 1)
        except (ValueError, RecursionError):
            return ()
    if is_passage(value):
        return [value]
    if isinstance(value, list | tuple):
        return [item for one in value for item in _passages_in(one, depth + 1)]
    found = next((peek(value, key) for key in CONTEXTS if isinstance(peek(value, key), list)), None)
    return _passages_in(found, depth + 1)


def _is_document(item: Any) -> bool:
    return is_passage(item) and role_of(item) not in SPEAKERS  # a message has a text and metadata, too


def unread_documents(value: Any, prefix: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the keys under which a value has a list of documents: `state.hits`."""
    items: Mapping[Any, Any] = value if isinstance(value, Mapping) else getattr(value, "__dict__", None) or {}
    for key, inner in items.items() if depth < _DEPTH else ():
        path = f"{prefix}{key}"
        if isinstance(inner, list | tuple) and inner and all(map(_is_document, inner)):
            yield path
        elif inner is not None and not isinstance(inner, str | bytes | int | float | list | tuple | type):
            yield from unread_documents(inner, f"{path}.", depth + 1)
