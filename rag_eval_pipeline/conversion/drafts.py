"""Accepted questions before their documents have file names: a `questions.parquet` that still lacks them.

File names are known only when all questions were seen: which document keeps a name depends on all that want it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rag_eval_pipeline.conversion.questions_file import iterate_batches, schema, write_batches, writer
from rag_eval_pipeline.storage.ahead import Behind
from rag_eval_pipeline.storage.atomic import publish
from rag_eval_pipeline.storage.scratch import ScratchFolder

if TYPE_CHECKING:
    import pyarrow as pa

Names = Mapping[tuple[str, str | None], str]  # document key and URL as written -> file name


class Drafts:
    """Questions in the order of their ids, to be written once and read any number of times.

    Args:
        beside: Where the finished file will lie; drafts that need no names are then moved there.
    """

    def __init__(self, beside: Path | None = None) -> None:
        self._folder = ScratchFolder("drafts", None if beside is None else beside.parent)
        self._path = self._folder.path / "questions.parquet"
        self._file = self._path.open("wb")
        self._table = writer(self._file)
        self._behind = Behind(self._table.write_batch)
        self._names_documents = False

    def add(self, batch: "pa.RecordBatch") -> None:
        """Adds questions, in the columns of `questions.parquet`."""
        documents = batch.column("contexts").flatten().field("document")
        self._names_documents = self._names_documents or documents.null_count < len(documents)
        self._behind.put(batch)

    def close(self) -> None:
        """Ends the file."""
        self._behind.close()
        self._table.close()
        self._file.close()

    def batches(self, names: Names, own_url: Mapping[str, str | None]) -> "Iterator[pa.RecordBatch]":
        """The questions with their documents' file names.

        Args:
            names: File name by document and the URL that a question uses for it.
            own_url: URL of a document that a question names in another way.
        """
        for batch in iterate_batches(self._path):
            yield _named(batch, names, own_url) if self._names_documents else batch

    def publish(self, path: Path, names: Names, own_url: Mapping[str, str | None]) -> None:
        """Makes the file of the questions; drafts that were begun beside it are gone then.

        Args:
            path: `questions.parquet`.
            names: As in `batches`.
            own_url: As in `batches`.
        """
        if self._names_documents or self._folder.path.parent != path.parent:
            write_batches(path, self.batches(names, own_url))
        else:
            publish(self._path, path)

    def source_ids(self) -> Iterator[str | None]:
        """Each question's own id."""
        for batch in iterate_batches(self._path, ["source_id"]):
            yield from batch.column("source_id").to_pylist()


def _named(batch: "pa.RecordBatch", names: Names, own_url: Mapping[str, str | None]) -> "pa.RecordBatch":
    import pyarrow as pa

    contexts = batch.column("contexts")
    items = contexts.flatten()
    places = zip(items.field("document").to_pylist(), items.field("url").to_pylist(), strict=True)
    found = [None if key is None else names[key, own_url[key] if url is None else url] for key, url in places]
    kind = schema().field("contexts").type
    columns = [pa.array(found, f.type) if f.name == "file_name" else items.field(f.name) for f in kind.value_type]
    structs = pa.StructArray.from_arrays(columns, fields=list(kind.value_type))
    named = pa.ListArray.from_arrays(contexts.offsets, structs, type=kind)
    arrays = [named if name == "contexts" else batch.column(name) for name in batch.schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema())
