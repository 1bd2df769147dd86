"""What a language model wrote for its reader: its output without thoughts and special tokens."""

import json

import regex

_NAME = r"(?:think|thinking|thoughts?|reasoning|seed:think)"
_OPEN = rf"(?:<{_NAME}>|\[THINK\]|◁think▷)"
_CLOSE = rf"(?:</{_NAME}>|\[/THINK\]|◁/think▷)"
# A tag within a line, or in backticks, may be what an answer is about.
_THOUGHT = regex.compile(rf"^[ \t]*+{_OPEN}.*?{_CLOSE}", regex.DOTALL | regex.MULTILINE | regex.IGNORECASE)
_TAG = regex.compile(_OPEN, regex.IGNORECASE)
_UNCLOSED = regex.compile(rf"^[ \t]*+{_OPEN}", regex.MULTILINE | regex.IGNORECASE)
_PREFILLED = regex.compile(rf"\A.*(?<!`){_CLOSE}(?!`)", regex.DOTALL | regex.IGNORECASE)  # opened in the prompt

# OpenAI's harmony, as it is and as servers write it that drop its tokens.
_CHANNELS = regex.compile(r"\A\s*+(?:<\|start\|>\w*+)?<\|channel\|>")
_FINAL = regex.compile(r"\A.*<\|channel\|>\s*+final\b.*?<\|message\|>", regex.DOTALL)
_CHANNEL_END = regex.compile(r"<\|(?:end|return|start|channel|call)\|>")
_BARE_CHANNELS = regex.compile(
    r"\A\s*+(?:analysis|commentary)(?=\S).*?assistant(?:commentary.*?assistant)*+final", regex.DOTALL
)

_TOKEN = r"(?:<\|[A-Za-z][\w ]{0,40}\|>|<｜[^<>｜\n]{1,40}｜>|<(?:eos|bos|pad|end_of_turn|start_of_turn)>|\[/?INST\])"
_FIRST = regex.compile(
    rf"\A(?:\s*+(?:{_TOKEN}|<s>(?!.*</s>\s*+\S))(?:(?:assistant|model)(?=[ \t]*+(?:\n|{_TOKEN})))?+)++\s*+",
    regex.DOTALL,
)
_LAST = regex.compile(rf"(?:\s*+(?:{_TOKEN}|</s>))++\s*+\Z")
# A model that is not stopped at its end goes on with the next turn.
_NEXT_TURN = regex.compile(
    r"(?:<\|(?:im_end|eot_id|end|endoftext)\|>|<end_of_turn>|</s>)\s*+"
    r"(?:<\|(?:im_start|start_header_id|start|user|system)\|>|<start_of_turn>|<s>|\[INST\]).*\Z",
    regex.DOTALL,
)
_FENCED = regex.compile(r"\A```\w*+\s*\n(?P<inner>.*)\n\s*```\Z", regex.DOTALL)


def final_text(text: str) -> str | None:
    """Return a model's output without thoughts and without special tokens at its ends; None if it ends in a thought.

    Thoughts are `<think>...</think>` and their like, also where the prompt had the opening tag, and every channel of
    OpenAI's harmony but the final one. A text without any of these is returned as it is.
    """
    found = text
    if _CHANNELS.match(found):
        final = _FINAL.match(found)
        if final is None:
            return None
        found = _CHANNEL_END.split(found[final.end() :], 1)[0]
    elif bare := _BARE_CHANNELS.match(found):
        found = found[bare.end() :]
    found = _NEXT_TURN.sub("", found)
    found = _THOUGHT.sub("", found)
    if _UNCLOSED.search(found):
        return None
    if not _TAG.search(found):
        found = _PREFILLED.sub("", found)
    found = _FIRST.sub("", found)
    if "<s>" not in found:  # struck text in HTML
        found = _LAST.sub("", found)
    return text if found == text else found.strip()


def unfenced(text: str) -> str:
    """Return a text without white space and without one code fence around all of it."""
    found = _FENCED.match(text.strip())
    return text.strip() if found is None else found["inner"].strip()


def json_keys(text: str) -> list[str] | None:
    """Return the keys of a text that is a JSON object, in its order; None for any other text."""
    body = unfenced(text)
    if not (body.startswith("{") and body.endswith("}")):
        return None
    try:
        return list(json.loads(body))
    except (ValueError, RecursionError):
        return None
