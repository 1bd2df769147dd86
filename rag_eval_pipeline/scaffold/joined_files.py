"""Files, or sheets of a workbook, that have alike columns and different questions: one relation."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import pyarrow as pa

from rag_eval_pipeline.scaffold.columns import nested_columns
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile, columns_of
from rag_eval_pipeline.scaffold.roles import find_roles
from rag_eval_pipeline.scaffold.selection import OUTPUT_FILES, origin_words, split_of

SAME_SHARE = 0.1  # of the questions of a file may be another's; with more it is another version


def with_joined_files(profile: FolderProfile) -> FolderProfile:
    """Return a profile in which files of questions that belong together are one, such as one for each department.

    They have the same columns of questions and answers, and most others. Splits, and files that are named as if a
    system had answered, are not joined.
    """
    groups: dict[tuple[object, ...], list[DataFile]] = {}
    for file in profile.data:
        columns = find_roles(file).columns
        if (
            "question" in columns
            and file.origin.path is not None
            and OUTPUT_FILES.isdisjoint(origin_words(file.origin))
        ):
            # Of a workbook either the sheets are joined, or the workbooks.
            key = {**file.origin.keys(), "path": None} if file.origin.sheet is None else {"path": file.origin.path}
            answer = columns.get("answer") or columns.get("answers")
            groups.setdefault((columns["question"], answer, split_of(file.origin), str(key)), []).append(file)
    data = list(profile.data)
    for files in groups.values():
        if len(files) > 1 and _are_alike(files) and _ask_differently(files):
            data[data.index(files[0])] = _joined(files)
            data = [file for file in data if file not in files]
    return replace(profile, data=tuple(data))


def _are_alike(files: Sequence[DataFile]) -> bool:
    """Return whether columns of one name have one type, and at least half of all columns are in each file."""
    types = [{field.name: str(field.type) for field in file.table.schema} for file in files]
    shared = set.intersection(*(set(one) for one in types))
    every = set.union(*(set(one) for one in types))
    is_typed = all(one.get(name, other[name]) == other[name] for one, other in combinations(types, 2) for name in other)
    return 2 * len(shared) >= len(every) and is_typed


def _ask_differently(files: Iterable[DataFile]) -> bool:
    asked = []
    for file in files:
        name = find_roles(file).columns["question"]
        column = next(column for column in (*file.columns, *file.nested) if column.name == name)
        asked.append({str(value).strip().casefold() for value in column.present})
    return all(asked) and all(
        len(one & other) <= SAME_SHARE * min(len(one), len(other)) for one, other in combinations(asked, 2)
    )


def _joined(files: list[DataFile]) -> DataFile:
    first = files[0]
    table = pa.concat_tables([file.table for file in files], promote_options="default").combine_chunks()
    columns = columns_of(table)
    if first.origin.sheet is not None:
        sheets = tuple(str(file.origin.sheet) for file in files)
        origin, read = first.origin._replace(sheet=sheets), first.file
    else:
        read = tuple(file.origin.first for file in files)
        origin = first.origin._replace(path=read)
    what, apart = ("files", "run `init` with each") if first.origin.sheet is None else ("sheets", "state one `sheet`")
    text = (
        f"source: {len(files)} {what} with alike columns and different questions are one benchmark: {origin.shown}. "
        f"For a benchmark of one, {apart}."
    )
    notes = tuple(dict.fromkeys(note for file in files for note in file.notes))
    return DataFile(origin, tuple(columns), table, read, nested_columns(columns, table.num_rows), (text, *notes))
