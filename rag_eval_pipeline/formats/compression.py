"""Evaluation data as gzip: compact JSON at level 6, and how much smaller it gets.

Equal data gives equal bytes, because no time is written.
Source: Evaluation Data Formats 3.4.
"""

import gzip
import json
from pathlib import Path
from typing import Any

from rag_eval_pipeline.formats.json_text import checked_json, unpacked

LEVEL = 6


def compress_evaluation_data(data: Any, *, level: int = LEVEL) -> bytes:
    """A JSON value, compact, as gzip.

    Args:
        data: What JSON can carry.
        level: 1, fast, to 9, small.

    Raises:
        ValueError: A NaN or an infinity.
    """
    return pack(_json(data, separators=(",", ":")), level=level)


def decompress_evaluation_data(packed: bytes, *, of: Path | str = "compressed data") -> Any:
    """The JSON value of gzip bytes.

    Args:
        packed: The bytes.
        of: Where they come from, for messages.

    Raises:
        InputError: `bad_gzip`, `too_large`, `bad_encoding`, `bad_json`.
    """
    return json.loads(checked_json(unpacked(packed, of), of))


def compression_ratio(data: Any) -> float:
    """Bytes of the data as ordinary JSON over bytes as gzip; 1 means that nothing is gained.

    Source: Evaluation Data Formats 3.4, `estimate_compression_ratio`; UTF-8 is counted as it is written here, not in
    the six-byte escapes of the specification's sample.
    """
    return len(_json(data)) / len(compress_evaluation_data(data))


def pack(text: bytes, *, level: int = LEVEL) -> bytes:
    """Bytes as gzip."""
    return gzip.compress(text, compresslevel=level, mtime=0)


def _json(data: Any, separators: tuple[str, str] | None = None) -> bytes:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=separators).encode()
