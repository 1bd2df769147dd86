"""Files become relations: typed by all their rows, each row with its position, and nothing outside the folder is read."""

import os

import pyarrow as pa
import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.batches import DecodedBatch
from rag_eval_pipeline.sources.relations import read_relation, spool_relation
from rag_eval_pipeline.sources.source_spec import SourceSpec
from tests.conversion.conftest import HEAD


def test_relation_of_a_glob_is_sorted_by_file_name(benchmark):
    paths = benchmark(HEAD, {"b.csv": "q,a\n1,2\n", "a.csv": "a,q,c\n3,4,5\n6,7,8\n"})

    relation = read_relation(paths, SourceSpec(path=("*.csv",)), source_columns=True)

    assert relation.table.to_pylist() == [
        {"a": "3", "q": "4", "c": "5", "source_file": "a.csv", "source_row": 1},
        {"a": "6", "q": "7", "c": "8", "source_file": "a.csv", "source_row": 2},
        {"a": "2", "q": "1", "c": None, "source_file": "b.csv", "source_row": 1},
    ]


def test_relation_of_a_table_has_no_source_columns(benchmark):
    paths = benchmark(HEAD, {"a.csv": "q\n1\n", "docs/x.pdf": b""})

    assert read_relation(paths, SourceSpec(path=("a.csv",))).table.column_names == ["q"]
    assert read_relation(paths, SourceSpec(files="docs/*")).table.column_names == ["file", "name"]


def test_relation_of_a_folder_lists_paths_and_basenames(benchmark):
    paths = benchmark(HEAD, {"docs/b c.pdf": b"%PDF-", "docs/a.pdf": b"%PDF-", "docs/n/a.pdf": b"%PDF-"})

    relation = read_relation(paths, SourceSpec(files="docs/**/*.pdf"))

    assert relation.table.to_pylist() == [
        {"file": "docs/a.pdf", "name": "a.pdf"},
        {"file": "docs/b c.pdf", "name": "b c.pdf"},
        {"file": "docs/n/a.pdf", "name": "a.pdf"},
    ]


def test_relation_keeps_columns_of_two_types_as_json_text(benchmark):
    paths = benchmark(HEAD, {"a.jsonl": '{"q": 1}', "b.jsonl": '{"q": "x"}'})

    assert read_relation(paths, SourceSpec(path=("*.jsonl",))).table.column("q").to_pylist() == ["1", '"x"']


@pytest.mark.fault(26)
def test_source_rejects_linked_file(benchmark, tmp_path):
    paths = benchmark(HEAD, {})
    (tmp_path / "secret.csv").write_text("q\nsecret\n")
    os.symlink(tmp_path / "secret.csv", paths.source / "q.csv")

    for path in ("q.csv", "*.csv"):
        with pytest.raises(InputError) as caught:
            read_relation(paths, SourceSpec(path=(path,)))
        assert caught.value.code == "path_outside"


@pytest.mark.parametrize("path", ["absent.csv", "*.absent", "docs", "x" * 300])
def test_source_names_missing_files(benchmark, path):
    paths = benchmark(HEAD, {"docs/a.pdf": b""})

    with pytest.raises(InputError, match="data/sources/scratch/") as caught:
        read_relation(paths, SourceSpec(path=(path,)))

    assert caught.value.code == "missing_file"


def test_source_requires_encoding_of_unmarked_utf16(benchmark):
    paths = benchmark(HEAD, {"q.csv": "q\n1\n".encode("utf-16-le")})

    with pytest.raises(InputError) as caught:
        read_relation(paths, SourceSpec(path=("q.csv",)))
    stated = read_relation(paths, SourceSpec(path=("q.csv",), encoding="utf-16-le"))

    assert caught.value.code == "bad_encoding"
    assert stated.table.column("q").to_pylist() == ["1"]


def read(columns):
    """A reader of one file with some columns."""
    batch = pa.RecordBatch.from_pydict(columns)
    return lambda name, kinds: iter([DecodedBatch(batch, range(1, batch.num_rows + 1))])


def test_relation_renames_columns_called_like_source_columns():
    own = {"source_row": ["x"], "Source_File": ["y"], "source_row_": ["z"]}

    made = spool_relation({"f": None}, read(own), "f", source_columns=True)

    assert made.table.to_pylist() == [
        {"source_row__": "x", "Source_File_": "y", "source_row_": "z", "source_file": "f", "source_row": 1}
    ]


@pytest.mark.parametrize("stated", [{"path": "../q.csv"}, {"files": "/etc/*"}, {"path": "a.zip", "member": "../q.csv"}])
def test_source_rejects_paths_outside(stated):
    with pytest.raises(ValueError, match="a path inside the benchmark's folder"):
        SourceSpec.model_validate(stated)
