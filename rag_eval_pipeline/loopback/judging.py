"""What the model `loopback-judge` says: a judge whose verdicts are known beforehand.

The last message of the user holds a line `DATA <nonce>` and, after it, the case as a JSON object.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from rag_eval_pipeline.loopback.lexical_replies import lexical_reply
from rag_eval_pipeline.loopback.openai_shapes import ChatTurn

JUDGE_MODEL = "loopback-judge"
_decoder = json.JSONDecoder()  # msgspec reads no value that text follows
_DATA = re.compile(r"^DATA (\S+)[ \t]*$", re.MULTILINE)


class JudgedCase(NamedTuple):
    """The nonce that a reply has to repeat, and the case."""

    nonce: str
    case: dict[str, Any]


def case_of(messages: Sequence[ChatTurn]) -> JudgedCase | None:
    """What is to be judged; None where no message says it."""
    for turn in reversed(messages):
        mark = _DATA.search(turn.text) if turn.role == "user" else None
        if mark is None:
            continue
        rest = turn.text[mark.end() :]
        try:
            value, _ = _decoder.raw_decode(rest, rest.index("{"))
        except ValueError:
            return None
        return JudgedCase(mark[1], value)
    return None


def without_nonce(text: str) -> str:
    """A prompt as it is counted: a second attempt has another nonce and is the same question."""
    mark = _DATA.search(text)
    return text if mark is None else text.replace(mark[1], "")


def judge_reply(messages: Sequence[ChatTurn]) -> str:
    """The lexical judge's verdicts on the case of a prompt; of a case in another form, a scripted yes."""
    judged = case_of(messages)
    if judged is None:
        return '{"error": "no case after a line DATA <nonce>"}'
    if "task" in judged.case:
        return lexical_reply(judged.nonce, judged.case)
    return msgspec.json.encode({"nonce": judged.nonce, "rationale": "scripted", "verdict": "yes"}).decode()
