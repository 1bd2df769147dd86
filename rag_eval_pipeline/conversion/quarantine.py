"""`quarantine.jsonl`: one line for each row that was dropped or refused, with the reason."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec
from msgspec.structs import replace

from rag_eval_pipeline.errors import InputError, counted, fault_line
from rag_eval_pipeline.storage.atomic_files import atomic_write

AUDIT_STAGE = "audit"
LISTED = 20  # errors that messages name; the file has them all


class QuarantineRecord(msgspec.Struct, frozen=True):
    """A row that was dropped or refused: the facts of an `InputError`."""

    stage: str  # `where`, `audit`: dropped on purpose; `validation`: a bad row; `documents`: its document is missing
    code: str
    file: str | None  # source file, relative to the benchmark's folder
    sha256: str | None  # of that file
    row: int | None  # 1-based row in that file (a record, not a line of text)
    question_id: int | None  # the id that the question would have had
    field: str | None  # the source's or the mapping's column name
    expected: str
    excerpt: str | None  # of the value found, at most 200 characters
    line: int | None = None  # 1-based physical line where known
    item: str | None = None  # the question, where several come from the row: its own id, or #2 for the second

    @property
    def is_dropped(self) -> bool:
        """Whether a person wants the row left out, so that it is no error."""
        return self.stage in ("where", AUDIT_STAGE)

    def message(self, benchmark: str) -> str:
        """Return the record as one line, with the file as it is named from the workspace's root."""
        file = None if self.file is None else f"data/sources/{benchmark}/{self.file}"
        return fault_line(
            self.code, file, self.expected, row=self.row, line=self.line, item=self.item, field=self.field,
            found=self.excerpt,
        )  # fmt: skip


def write_quarantine(path: Path, records: Iterable[QuarantineRecord]) -> None:
    """Publish the file atomically; the keys of a line are in the order of the record's fields."""
    atomic_write(path, msgspec.json.Encoder().encode_lines(list(records)))


def read_quarantine(path: Path) -> list[QuarantineRecord]:
    """Return all records of the file; a bad line is an `InputError` (`bad_quarantine`)."""
    decoder = msgspec.json.Decoder(QuarantineRecord)
    records = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line:
            continue
        try:
            records.append(decoder.decode(line))
        except (ValueError, RecursionError) as error:
            hint = "Convert the benchmark again."
            raise InputError(
                "bad_quarantine", path, "a quarantine record", row=number, found=str(error), hint=hint
            ) from None
    return records


def quarantine_notes(benchmark: str, records: Sequence[QuarantineRecord]) -> Iterator[str]:
    """Yield one line for each error, with the number of rows that have it; rows that are dropped are no error."""
    rows: dict[QuarantineRecord, list[QuarantineRecord]] = {}
    for record in records:
        if not record.is_dropped:
            # Why a document is missing is said with the document.
            excerpt = None if record.stage == "documents" else record.excerpt
            fault = replace(record, excerpt=excerpt, row=None, line=None, item=None, sha256=None, question_id=None)
            rows.setdefault(fault, []).append(replace(record, excerpt=excerpt))
    for same in islice(rows.values(), LISTED):
        more = f" {len(same)} rows have this fault." if len(same) > 1 else ""
        yield same[0].message(benchmark) + more
    if left := sum(map(len, islice(rows.values(), LISTED, None))):
        yield (
            f"{benchmark}: {counted(left, 'more row is', 'more rows are')} quarantined; quarantine.jsonl lists them all"
        )
