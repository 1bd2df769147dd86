"""`quarantine.jsonl`: a line for each row that was dropped or refused, and why."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from rag_eval_pipeline.conversion.records import QuarantineRecord
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.atomic import atomic_write

LISTED = 20  # faults that messages name; the file has them all


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
    """Yield a line for each fault, once for all rows that have it; rows that `where` drops are no fault."""
    rows: dict[tuple[str | None, ...], list[QuarantineRecord]] = {}
    for record in records:
        if record.stage != "where":
            fault = (record.code, record.file, record.field, record.expected, record.excerpt)
            rows.setdefault(fault, []).append(record)
    for same in islice(rows.values(), LISTED):
        more = f" {len(same)} rows have this fault." if len(same) > 1 else ""
        yield same[0].message(benchmark) + more
    if left := sum(map(len, islice(rows.values(), LISTED, None))):
        yield f"{benchmark}: {left} more rows are quarantined; quarantine.jsonl lists them all"
