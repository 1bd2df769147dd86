"""What is written is read again, and equal documents give equal bytes."""

import base64
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.corpus.documents import CorpusDocument, FileName, PlannedDocument
from rag_eval_pipeline.corpus.manifest import (
    read_manifest,
    read_metadata,
    read_planned,
    write_manifest,
    write_planned,
)
from rag_eval_pipeline.errors import InputError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
DOCUMENTS = st.builds(
    CorpusDocument,
    key=TEXT,
    file_name=TEXT,
    url=st.none() | TEXT,
    final_url=st.none() | TEXT,
    flags=st.lists(TEXT, max_size=2).map(tuple),
    origin=st.sampled_from(["rendered", "kept", "missing"]),
    body_sha256=st.none() | TEXT,
    pdf_sha256=st.none() | TEXT,
    renderer=st.none() | TEXT,
    pages=st.integers(0, 10_000),
    images_expected=st.integers(0, 100),
    images_drawn=st.integers(0, 100),
    shown_url=st.none() | TEXT,
    resources=st.lists(TEXT, max_size=2).map(tuple),
    error_code=st.none() | TEXT,
    error=st.none() | TEXT,
)


@given(st.lists(DOCUMENTS, max_size=4))
def test_manifest_is_read_as_it_was_written(tmp_path_factory, documents):
    path = tmp_path_factory.mktemp("m") / "documents.parquet"

    write_manifest(path, documents)

    assert read_manifest(path) == documents


def test_plan_is_read_in_another_place(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    names = (FileName("A.pdf", "https://h/A"), FileName("A#x.pdf", "https://h/A#x", ("collision",)))
    planned = [
        PlannedDocument("h/A", names, "file", "https://h/A", one / "sources" / "a.html"),
        PlannedDocument("h/B", (FileName("B.pdf", "https://h/B"),), "url", "https://h/B"),
        PlannedDocument("T", (FileName("T.pdf"),), "text", None, None, "a\nb"),
    ]

    write_planned(one / "data" / "planned.parquet", planned, base=one / "sources")
    (other / "data").mkdir(parents=True)
    moved = Path((one / "data" / "planned.parquet").rename(other / "data" / "planned.parquet"))
    again = read_planned(moved, base=other / "sources")

    assert again[0].path == other / "sources" / "a.html"
    assert again[1:] == planned[1:]
    assert again[0].names == names


def with_four_bit_integers():
    """A file whose schema has a type that Arrow does not implement."""
    file, schema = io.BytesIO(), pa.schema([("a", pa.int8())]).serialize().to_pybytes()
    pq.write_table(pa.table({"a": pa.array([1], pa.int8())}), file)
    narrow = schema[:124] + bytes([4]) + schema[125:]
    return file.getvalue().replace(base64.b64encode(schema), base64.b64encode(narrow))


@pytest.mark.parametrize("read", [read_manifest, read_metadata])
@pytest.mark.parametrize("data", [b"", b"PAR1 cut", b"x" * 100, with_four_bit_integers()])
def test_manifest_that_is_damaged_is_an_input_error(tmp_path, data, read):
    path = tmp_path / "documents.parquet"
    path.write_bytes(data)

    with pytest.raises(InputError) as refused:
        read(path)

    assert refused.value.code == "bad_manifest"
    assert not read(tmp_path / "none.parquet")
