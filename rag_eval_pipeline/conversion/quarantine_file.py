"""`quarantine.jsonl`: a line for each row that was dropped or refused, and why."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from rag_eval_pipeline.conversion.records import QuarantineRecord
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.atomic import atomic_write

LISTED = 20  # rows that a message names; the file has them all


def quarantine_lines(records: Iterable[QuarantineRecord]) -> bytes:
    """The file's content; keys stand in the order of the record's fields."""
    return b"".join(msgspec.json.encode(record) + b"\n" for record in records)


def write_quarantine(path: Path, records: Iterable[QuarantineRecord]) -> None:
    """Publishes the file atomically."""
    atomic_write(path, quarantine_lines(records))


def read_quarantine(path: Path) -> list[QuarantineRecord]:
    """All records of the file, in its order.

    Raises:
        InputError: `bad_quarantine` with the line.
    """
    decoder = msgspec.json.Decoder(QuarantineRecord)
    records = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line:
            continue
        try:
            records.append(decoder.decode(line))
        except msgspec.MsgspecError as error:
            raise InputError(
                "bad_quarantine",
                path,
                "a quarantine record",
                row=number,
                found=str(error),
                hint="Convert the benchmark again.",
            ) from None
    return records


def quarantine_notes(benchmark: str, records: Sequence[QuarantineRecord]) -> Iterator[str]:
    """A line for each refused row, of many only the first; rows that `where` drops are as the spec wants them."""
    refused = [record for record in records if record.stage != "where"]
    yield from (record.message(benchmark) for record in refused[:LISTED])
    if len(refused) > LISTED:
        yield f"{benchmark}: {len(refused) - LISTED} more rows are quarantined; quarantine.jsonl lists them all"
