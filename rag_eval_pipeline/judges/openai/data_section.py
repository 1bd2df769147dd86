r"""What strangers wrote, as one JSON object between two lines that none of its text can contain.

```text
DATA 6f0c…
{"task": "judgement", "question": "…", "answer": "…"}
END 6f0c…
```

A JSON text has no line break, so no text of the data stands on a line of its own; and the nonce is a hash of the whole
data, which a text that is a part of them cannot know. Equal data have an equal nonce: a reply can be looked up again.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import regex

NONCE_HEX = 24  # 96 bits: to guess the nonce of data that contain the guess is out of reach
# Chat templates have tokens such as <|im_start|>, </s> and [INST]; characters that nobody sees can hide a text from its
# readers. JSON says both by their numbers, which a tokenizer does not take for the thing itself.
_ESCAPED = regex.compile(r"[<>|\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]|\[(?=/?INST\])")
_BEGIN = regex.compile(r"(?m)^DATA (?P<nonce>[0-9a-f]{24})\n(?P<data>\{.*\})\nEND (?P=nonce)$")


class DataSection(NamedTuple):
    """Data, and what marks them.

    Args:
        nonce: Lower-case hex; a reply has to bring it back.
        text: The lines from `DATA` to `END`.
    """

    nonce: str
    text: str


def data_section(data: Mapping[str, Any], *, salt: str = "") -> DataSection:
    """The data between their two lines.

    Args:
        data: What JSON can carry; texts may hold anything, lone surrogates included.
        salt: Told to nobody but the hash: other salts, other nonces for the same data.
    """
    body = _ESCAPED.sub(_by_number, json.dumps(data, ensure_ascii=False, allow_nan=False))
    nonce = hashlib.sha256(f"{salt}\n{body}".encode()).hexdigest()[:NONCE_HEX]
    return DataSection(nonce, f"DATA {nonce}\n{body}\nEND {nonce}")


def read_data_section(texts: Iterable[str]) -> tuple[str, dict[str, Any]] | None:
    """The nonce and the data of the first section in the texts of messages; None where there is none.

    Source: The inverse of `data_section`, for whoever answers in a judge's place.
    """
    for text in texts:
        found = _BEGIN.search(text)
        if found is not None:
            return found["nonce"], json.loads(found["data"])
    return None


def _by_number(found: regex.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
