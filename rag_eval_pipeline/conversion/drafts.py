"""Accepted questions before their documents have file names, on disk, in the columns of `questions.parquet`.

File names are known only when all questions were seen: which document keeps a name depends on all that want it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rag_eval_pipeline.conversion.questions_file import schema as questions_schema
from rag_eval_pipeline.storage.scratch import ScratchFolder

if TYPE_CHECKING:
    import pyarrow as pa

Names = Mapping[tuple[str, str | None], str]  # document key and URL as written -> file name


class Drafts:
    """Questions in the order of their ids, to be written once and read any number of times."""

    def __init__(self) -> None:
        import pyarrow as pa

        self._folder = ScratchFolder("drafts")
        self._path = self._folder.path / "drafts.arrow"
        self._file = pa.OSFile(str(self._path), "wb")
        self._writer = pa.ipc.new_file(self._file, draft_schema())
        self._names_documents = False

    def add(self, batch: "pa.RecordBatch") -> None:
        """Adds questions of `draft_schema`."""
        documents = batch.column("contexts").flatten().field("document")
        self._names_documents = self._names_documents or documents.null_count < len(documents)
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Ends the file."""
        self._writer.close()
        self._file.close()

    def batches(self, names: Names, own_url: Mapping[str, str | None]) -> "Iterator[pa.RecordBatch]":
        """The questions in the columns of `questions.parquet`.

        Args:
            names: File name by document and the URL that a question uses for it.
            own_url: URL of a document that a question names in another way.
        """
        import pyarrow as pa

        with pa.OSFile(str(self._path)) as file, pa.ipc.open_file(file) as reader:
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                contexts = _named(batch.column("contexts"), names, own_url, plain=not self._names_documents)
                columns = [contexts if n == "contexts" else batch.column(n) for n in batch.schema.names]
                yield pa.RecordBatch.from_arrays(columns, schema=questions_schema())

    def first_source_id(self, hashes: "set[int]") -> str | None:
        """The first source id with one of the hashes."""
        import pyarrow as pa

        with pa.OSFile(str(self._path)) as file, pa.ipc.open_file(file) as reader:
            for number in range(reader.num_record_batches):
                for source_id in reader.get_batch(number).column("source_id").to_pylist():
                    if source_id is not None and hash(source_id) in hashes:
                        return str(source_id)
        return None


def draft_schema() -> "pa.Schema":
    """Columns of `questions.parquet`, and in a context `url`, as the question writes it."""
    import pyarrow as pa

    schema = questions_schema()
    place = schema.get_field_index("contexts")
    context = schema.field("contexts").type.value_type
    return schema.set(place, pa.field("contexts", pa.list_(pa.struct([*context, pa.field("url", pa.string())]))))


def batch_of(records: Sequence[dict[str, Any]]) -> "pa.RecordBatch":
    """Records with the names of `draft_schema` as columns."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist(list(records), schema=draft_schema())


def _named(contexts: "pa.Array", names: Names, own_url: Mapping[str, str | None], *, plain: bool) -> "pa.Array":
    import pyarrow as pa

    items = contexts.flatten()
    wanted = questions_schema().field("contexts").type
    columns = {field.name: items.field(field.name) for field in wanted.value_type}
    if not plain:
        places = zip(items.field("document").to_pylist(), items.field("url").to_pylist(), strict=True)
        columns["file_name"] = pa.array(
            [None if key is None else names[key, own_url[key] if url is None else url] for key, url in places],
            pa.string(),
        )
    structs = pa.StructArray.from_arrays(list(columns.values()), fields=list(wanted.value_type))
    # Offsets of a slice begin where its first list does; `flatten` begins at 0.
    lengths = contexts.value_lengths()
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), _sums(lengths)])
    return pa.ListArray.from_arrays(offsets, structs, type=wanted)


def _sums(lengths: "pa.Array") -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.cumulative_sum(lengths).cast(pa.int32())
