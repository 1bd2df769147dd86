"""`mended.jsonl`: rows of a source that a person gave other values; the source's files stay as they are.

A line that cannot be used costs its own row, which stays as it stands in the source, and is a finding that names the
line. A mend holds for the bytes it was made for: when the file has changed since, it is not applied.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.decoded import BadRow
from rag_eval_pipeline.sources.json_values import json_object
from rag_eval_pipeline.sources.source_spec import shown_path
from rag_eval_pipeline.storage.digests import file_sha256
from rag_eval_pipeline.workspace import BenchmarkPaths

MENDED = "mended.jsonl"
STAYS = "Until then the row stays as it is in the source."


class MendLine(BaseModel):
    """A line of `mended.jsonl`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    file: Annotated[str, Field(min_length=1, description="Source file, as quarantine records name it.")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="Of that file when the row was written out.")]
    row: Annotated[int, Field(ge=1, description="1-based row in it: a record, not a line of text.")]
    values: Annotated[
        dict[str, Any], Field(min_length=1, description="What the row reads as, by column; one left out is null.")
    ]
    was: str | None = Field(default=None, description="Why the row was quarantined: code and field.")
    undecoded: str | None = Field(
        default=None, description="What stands in the file; a line that still has this key is not finished."
    )


class RowPlace(NamedTuple):
    """A row of a file with certain bytes."""

    file: str
    sha256: str
    row: int


@dataclass(frozen=True, slots=True)
class Mend:
    """Values for a row.

    Args:
        place: Line of `mended.jsonl`, as messages name it.
        row: 1-based.
        values: JSON values by column.
    """

    place: str
    row: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Mends:
    """The mends of a benchmark's source.

    Args:
        stated: Rows that have a line, finished or not, current or not.
        findings: Lines that are not applied, and why.
    """

    stated: frozenset[RowPlace]
    findings: tuple[InputError, ...]
    by_file: Mapping[str, Mapping[int, Mend]]

    def for_file(self, name: str) -> Mapping[int, Mend]:
        """Mends of a file's rows, by row."""
        return self.by_file.get(name, {})


def read_mends(paths: BenchmarkPaths, files: Mapping[str, Path]) -> Mends:
    """The benchmark's mends; none when it has no such file.

    Args:
        paths: Of the benchmark.
        files: Of its source: where each lies, by name.

    Raises:
        InputError: `path_outside`, when `mended.jsonl` is a link.
    """
    shown, path = shown_path(paths, MENDED), paths.source / MENDED
    if path.is_symlink():
        raise InputError("path_outside", shown, "a file, not a link", hint="Copy the file into the folder.")
    findings: list[InputError] = []
    lines: dict[RowPlace, list[tuple[str, MendLine]]] = defaultdict(list)
    for place, raw in _lines(path, shown):
        try:
            line = MendLine.model_validate(json_object(raw))
        except BadRow as bad:
            findings.append(_finding(bad.code, place, bad.expected, hint=f"Mend the line. {STAYS}", shown=bad.found))
        except ValidationError as error:
            findings.append(_bad_line(place, error))
        else:
            lines[RowPlace(line.file, line.sha256, line.row)].append((place, line))
    by_file: dict[str, dict[int, Mend]] = defaultdict(dict)
    for row, stated in lines.items():
        fault = _fault(paths.name, row, stated, files)
        if fault is None:
            [(place, line)] = stated
            by_file[line.file][line.row] = Mend(place, line.row, line.values)
        else:
            findings.append(fault)
    return Mends(frozenset(lines), tuple(findings), by_file)


def _lines(path: Path, shown: str) -> Iterator[tuple[str, bytes]]:
    if not path.is_file():
        return
    with path.open("rb") as handle:
        for number, raw in enumerate(handle, start=1):
            text = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
            if text.strip():
                yield f"{shown}, line {number}", text.rstrip(b"\r\n")


def _fault(
    benchmark: str, row: RowPlace, stated: list[tuple[str, MendLine]], files: Mapping[str, Path]
) -> InputError | None:
    """Why the line, or the lines, of a row are not applied."""
    place, line = stated[0]
    if row.file not in files:
        known = f"Known: {', '.join(list(files)[:10])}."
        return InputError("unknown_file", place, "a file of the source", field="file", found=row.file, hint=known)
    if file_sha256(files[row.file]) != row.sha256:
        return InputError(
            "stale_mend",
            place,
            f"{row.file} as it was when row {row.row} was written out",
            field="sha256",
            found=row.sha256,
            hint=f"The file has changed, so the mend is not applied. Convert, run: rag-eval mend {benchmark}, move "
            "`values` to the row's new line if it has one, and delete this line.",
        )
    if len(stated) > 1:
        others = ", ".join(other.rpartition(" ")[2] for other, _ in stated[1:])
        return InputError(
            "repeated_mend",
            place,
            f"one line for row {row.row} of {row.file}; it is also in line {others}",
            field="row",
            hint=f"Delete all but one. {STAYS}",
        )
    if line.undecoded is not None:
        return InputError(
            "unfinished_mend",
            place,
            f"values for row {row.row} of {row.file}, which could not be decoded",
            field="undecoded",
            found=line.undecoded,
            hint=f"Fill in `values`, then delete the key `undecoded`. {STAYS}",
        )
    return None


def _finding(code: str, place: str, expected: str, *, hint: str, shown: str | None) -> InputError:
    error = InputError(code, place, expected, hint=hint)
    error.found = shown  # an excerpt already
    return error


def _bad_line(place: str, error: ValidationError) -> InputError:
    detail = error.errors()[0]
    name = ".".join(str(part) for part in detail["loc"])
    unknown, missing = detail["type"] == "extra_forbidden", detail["type"] == "missing"
    expected = detail["msg"].removeprefix("Input should be ")
    if unknown or missing:
        expected = f"the keys {', '.join(MendLine.model_fields)}" if unknown else f"the key `{name}`"
    found = None if missing else name if unknown else detail["input"]
    return InputError("bad_mend", place, expected, field=name, found=found, hint=f"Mend the line. {STAYS}")
