"""`questions.parquet`: the accepted questions, one row each, with what `train.json` may not carry.

Metadata is JSON text in one column, so that benchmarks of any shape share one schema.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq

from rag_eval_pipeline.conversion.quarantine import QuarantineRecord
from rag_eval_pipeline.conversion.questions import Context, Question
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.arrow import read_batches
from rag_eval_pipeline.storage.atomic_files import ScratchFolder, publishing
from rag_eval_pipeline.storage.parquet_files import open_parquet

DOCUMENTS_STAGE = "documents"

FileNames = Mapping[tuple[str, str | None], str]  # document key and URL as written -> file name
Policy = Literal["quarantine", "keep", "fail"]
Item = TypeVar("Item")

_METADATA = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_INTEGERS = ("page", "start", "end", "relevance")
CONTEXT = pa.struct([(name, pa.int64() if name in _INTEGERS else pa.string()) for name in Context.__struct_fields__])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("question", pa.string(), nullable=False),
        pa.field("answer", pa.string(), nullable=False),
        pa.field("answers", pa.list_(pa.string()), nullable=False),
        pa.field("is_impossible", pa.bool_(), nullable=False),
        pa.field("contexts", pa.list_(CONTEXT), nullable=False),
        ("source_id", pa.string()),
        ("query_type", pa.string()),
        ("difficulty", pa.string()),
        pa.field("metadata", pa.string(), nullable=False),
        ("source_file", pa.string()),
        ("source_row", pa.int64()),
        ("source_item", pa.string()),
    ]
)


def write_batches(path: Path, batches: Iterable[pa.RecordBatch]) -> None:
    """Publish batches of `SCHEMA`; equal batches give equal bytes."""
    # Texts hardly repeat: dictionaries and statistics save nothing, and compression triples the time of writing.
    options: dict[str, Any] = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    with publishing(path) as file, pq.ParquetWriter(file, SCHEMA, **options) as table:
        for batch in batches:
            table.write_batch(batch)


def iterate_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the questions as record batches; a damaged file is an `InputError` (`bad_parquet`).

    `columns` may name single fields of contexts, as `contexts.list.element.text`; None means all.
    """
    try:
        with open_parquet(path) as file:
            for group in range(file.num_row_groups):
                yield from file.read_row_group(group, columns).combine_chunks().to_batches()
    except (pa.ArrowException, OSError, KeyError) as error:
        found, hint = str(error).splitlines()[0], "Convert the benchmark again."
        raise InputError("bad_parquet", path, "a questions.parquet", found=found, hint=hint) from None


def batch_of(questions: Sequence[Question]) -> pa.RecordBatch:
    """Return questions as a record batch of `SCHEMA`."""
    return record_batch({name: [getattr(question, name) for question in questions] for name in SCHEMA.names})


def record_batch(columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Return the columns of questions, by the names of `Question`, as a record batch of `SCHEMA`."""
    arrays: dict[str, Any] = {**columns}
    if not isinstance(columns["contexts"], pa.Array):
        arrays["contexts"] = _contexts(columns["contexts"])
    arrays["metadata"] = [_METADATA.encode(value) if value else "{}" for value in columns["metadata"]]
    return pa.RecordBatch.from_arrays(
        [
            values if isinstance(values, pa.Array) else pa.array(values, SCHEMA.field(name).type)
            for name, values in ((name, arrays[name]) for name in SCHEMA.names)
        ],
        schema=SCHEMA,
    )


def _contexts(rows: Sequence[Sequence[Context]]) -> pa.Array:
    flat = list(chain.from_iterable(rows))
    return context_lists(pa.array(map(len, rows), pa.int32()), flat, pa.array(range(len(flat)), pa.int64()))


def context_lists(lengths: pa.Array, contexts: Sequence[Context], places: pa.Array) -> pa.Array:
    """Return lists of these lengths whose items are, one after the other, the contexts at `places`."""
    values = zip(*map(msgspec.structs.astuple, contexts), strict=True) if contexts else [()] * len(CONTEXT)
    fields = [pa.array(column, field.type) for column, field in zip(values, CONTEXT, strict=True)]
    structs = pa.StructArray.from_arrays(fields, fields=list(CONTEXT)).take(places)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return pa.ListArray.from_arrays(offsets, structs, type=pa.list_(CONTEXT))


def questions_of(batch: pa.RecordBatch) -> list[Question]:
    """Return the questions of a record batch."""
    rows = [row | {"metadata": json.loads(row["metadata"])} for row in batch.to_pylist()]
    return msgspec.convert(rows, list[Question])


class QuestionSpool:
    """Accepted questions on disk, until all have been read and their documents can be given file names."""

    def __init__(self) -> None:
        self._folder = ScratchFolder("questions")
        self._path = self._folder.path / "questions.arrow"
        self._writer = pa.ipc.new_file(str(self._path), SCHEMA)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add questions as a batch of `SCHEMA`."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Finish the file; questions can be read from now on."""
        self._writer.close()

    def batches(self, names: FileNames, own_urls: Mapping[str, str | None]) -> Iterator[pa.RecordBatch]:
        """Yield the questions with the file names of their documents; the arguments are those of `Plan`."""
        # A URL belongs to one document, so its name needs no key.
        by_url = {url: name for (_, url), name in names.items() if url is not None}
        for batch in self.read():
            yield _with_file_names(batch, names, own_urls, by_url)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the questions without the file names of their documents."""
        yield from read_batches(self._path)


class Missing(NamedTuple):
    """The reason why a document is not in the corpus."""

    code: str
    reason: str


class MissingDocuments:
    """Drop or trim questions whose documents are missing, by `on_missing_document`.

    `quarantine` removes the question. `keep` removes the context and counts it. `fail` does the same, and a blocking
    check fails, so that everything else can be examined.
    """

    def __init__(self, missing: Mapping[str, Missing], policy: Policy) -> None:
        self.missing = missing  # by file name
        self.quarantined: list[QuarantineRecord] = []
        self.contexts_lost = 0  # removed from questions that stay
        # Removed contexts by the error code of their document, or `question_quarantined` if only another was missing.
        self.lost: Counter[str] = Counter()
        self._policy = policy

    def drop(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the questions that stay, without contexts whose document is missing."""
        absent = pa.array(list(self.missing), pa.string())
        for batch in batches:
            names = batch.column("contexts").flatten().field("file_name") if self.missing else None
            if names is None or not pc.any(pc.is_in(names, absent)).as_py():
                yield batch
            else:
                yield batch_of([kept for question in questions_of(batch) if (kept := self._kept(question))])

    def _kept(self, question: Question) -> Question | None:
        gone = [c.file_name for c in question.contexts if c.file_name is not None and c.file_name in self.missing]
        self.lost.update(self.missing[name].code for name in gone)
        if gone and self._policy == "quarantine":
            place = (question.source_file, None, question.source_row, question.id, "contexts")
            facts = (*place, "documents that can be had", f"{gone[0]}: {self.missing[gone[0]].reason}"[:200])
            record = QuarantineRecord(DOCUMENTS_STAGE, "missing_document", *facts, item=question.source_item)
            self.quarantined.append(record)
            if others := len(question.contexts) - len(gone):
                self.lost["question_quarantined"] += others
            return None
        self.contexts_lost += len(gone)
        contexts = tuple(context for context in question.contexts if context.file_name not in self.missing)
        return msgspec.structs.replace(question, contexts=contexts)


def relevant_contexts(batch: pa.RecordBatch) -> pa.ListArray:
    """Return the contexts of the questions without those of grade 0, which are judged as not relevant."""
    contexts = batch.column("contexts")
    items = contexts.flatten()
    is_kept = pc.fill_null(pc.not_equal(items.field("relevance"), 0), True)
    if is_kept.false_count == 0:
        return contexts
    kept = pc.list_parent_indices(contexts).filter(is_kept).to_numpy(zero_copy_only=False)
    offsets = np.append(0, np.cumsum(np.bincount(kept, minlength=len(contexts))))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items.filter(is_kept))


def distinct_items(contexts: pa.Array, values: pa.DictionaryArray) -> tuple[pa.Array, Any]:
    """Find the distinct values of the contexts' items, question by question; nulls are no values.

    Returns the places of the first of equal values among all contexts, and the number of values of each question.
    """
    codes = pc.fill_null(values.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    rows = pc.list_parent_indices(contexts).to_numpy(zero_copy_only=False).astype(np.int64)
    valid = np.flatnonzero(codes >= 0)
    pairs = rows[valid] * (len(values.dictionary) + 1) + codes[valid]
    ordered = np.sort(pairs)
    is_repeated = (ordered[1:] == ordered[:-1]).any()
    places = valid[np.sort(np.unique(pairs, return_index=True)[1])] if is_repeated else valid
    return pa.array(places), np.bincount(rows[places], minlength=len(contexts))


def count_without_document(questions: pa.RecordBatch, name: str) -> int:
    """Count answerable questions that have no relevant context with a document, which its field `name` names."""
    contexts = relevant_contexts(questions)
    named = pc.list_parent_indices(contexts).filter(contexts.flatten().field(name).is_valid())
    is_other = questions.column("is_impossible").to_numpy(zero_copy_only=False).copy()
    is_other[named.to_numpy(zero_copy_only=False)] = True
    return int(questions.num_rows - np.count_nonzero(is_other))


def _with_file_names(
    batch: pa.RecordBatch, names: FileNames, own_urls: Mapping[str, str | None], by_url: Mapping[str, str]
) -> pa.RecordBatch:
    contexts = batch.column("contexts")
    items = contexts.flatten()
    if items.field("document").null_count == len(items):
        return batch
    urls = items.field("url").dictionary_encode()
    found = pa.array([by_url[url] for url in urls.dictionary.to_pylist()], pa.string()).take(urls.indices)
    if found.null_count:  # of documents that are named in another way
        documents = items.field("document").dictionary_encode()
        own_names = [names.get((key, own_urls[key])) for key in documents.dictionary.to_pylist()]
        found = pc.coalesce(found, pa.array(own_names, pa.string()).take(documents.indices))
    columns = [found if f.name == "file_name" else items.field(f.name) for f in CONTEXT]
    structs = pa.StructArray.from_arrays(columns, fields=list(CONTEXT))
    filled = pa.ListArray.from_arrays(contexts.offsets, structs, type=pa.list_(CONTEXT))
    arrays = [filled if name == "contexts" else batch.column(name) for name in SCHEMA.names]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items in order; while one is used, a thread makes the next: Arrow releases the interpreter's lock."""
    iterator = iter(items)
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as pool:
        coming: Future[Item | object] = pool.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, iterator, end)
            yield item  # type: ignore[misc]  # what is not the end is an item
