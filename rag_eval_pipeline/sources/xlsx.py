"""Read a sheet of an Excel workbook (.xlsx, .xlsm) in a child process: every cell is text, as in a CSV.

Numbers are written as Excel computes with them (`1234.5`), those with a percent format or leading zeros as Excel shows
them (`12%`, `007`), dates in ISO 8601. A cell that has no value of its own, an error or a formula that no spreadsheet
program has computed, is null; how many there are is a note.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.batches import DecodedBatch, InputFile
from rag_eval_pipeline.sources.csv import header_names
from rag_eval_pipeline.sources.decoder import Decoder, decoded_batches, run_decoder
from rag_eval_pipeline.storage.atomic_files import ScratchFolder

_XLSX = Decoder("rag_eval_pipeline.sources.xlsx_cells", "an Excel workbook", "bad_xlsx")
ROW_NUMBER = "row"  # the worker's first column: the row's number in the sheet


def sheet_names(path: Path) -> list[str]:
    """Return the names of a workbook's sheets, without hidden ones, in their order.

    Raises:
        InputError: `bad_xlsx`, `archive_bomb`.
    """
    folder = ScratchFolder("xlsx")
    with path.open("rb") as handle:
        result = run_decoder(_XLSX, handle, folder.path, path.name, {"names_only": True})
    names: list[str] = result["names"]
    return names


def read_xlsx(handle: BinaryIO, file: InputFile) -> Iterator[DecodedBatch]:
    """Decode the stated sheet of a workbook, or the first that has cells."""
    folder = ScratchFolder("xlsx")
    has_header = not file.spec.columns or file.spec.header is not None
    sheet = next(iter(file.spec.sheet), None)
    job = {"sheet": sheet, "header_row": file.spec.header_row if has_header else 0}
    result = run_decoder(_XLSX, handle, folder.path, file.shown, job)
    found = result["header"]
    if file.spec.columns and len(file.spec.columns) != len(found):
        expected = f"{len(found)} names in `columns`, one for each used column of the sheet"
        raise InputError("row_width", file.shown, expected, field="columns", found=list(file.spec.columns))
    names = header_names(file.spec.columns or found, file, result["header_row"])
    notes, number = result["notes"], 1
    for batch in decoded_batches(folder.path):
        decoded = pa.RecordBatch.from_arrays(batch.columns[1 : 1 + len(names)], names=names)
        numbers, lines = range(number, number + batch.num_rows), batch.column(ROW_NUMBER).to_pylist()
        yield DecodedBatch(decoded, numbers, lines, types=dict.fromkeys(names, "text"), notes=notes)
        number, notes = number + batch.num_rows, ()
