"""How long each document took to fetch and print: `documents.times.jsonl` among the records of the steps.

Kept apart from the manifest, whose bytes depend on the inputs only. A document that is taken over keeps the time
that it took when it was made.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.storage.atomic import atomic_write

logger = logging.getLogger(__name__)

_DIGITS = 3  # milliseconds


class _Time(msgspec.Struct):
    file_name: str
    seconds: float


def read_times(path: Path) -> dict[str, float]:
    """Seconds by file name; none when there is no file, or a damaged one: no product is made from it."""
    if not path.exists():
        return {}
    try:
        known = msgspec.json.Decoder(_Time).decode_lines(path.read_bytes())
    except msgspec.DecodeError as error:
        logger.warning("The times of the last conversion are left aside: %s: %s", path, error)
        return {}
    return {time.file_name: time.seconds for time in known}


def update_times(path: Path, documents: Sequence[CorpusDocument]) -> dict[str, float]:
    """Writes the times of a corpus that was just built.

    Args:
        path: Read for documents that were taken over, then written anew.
        documents: As `build_corpus` returned them.

    Returns:
        Seconds by file name; a document that nobody has a time for is left out.
    """
    known = read_times(path)
    times = {d.file_name: round(d.seconds, _DIGITS) if d.seconds else known.get(d.file_name) for d in documents}
    lines = [_Time(name, seconds) for name, seconds in times.items() if seconds is not None]
    atomic_write(path, msgspec.json.Encoder().encode_lines(lines))
    return {line.file_name: line.seconds for line in lines}
