"""Sources lie in the benchmark's folder, in stated order, and nowhere else."""

import os

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.reading import read_relation
from rag_eval_pipeline.sources.source_spec import SourceSpec
from tests.conversion.conftest import HEAD


def test_files_of_a_glob_are_one_relation_sorted_by_name(benchmark):
    paths = benchmark(HEAD, {"b.csv": "q,a\n1,2\n", "a.csv": "a,q,c\n3,4,5\n6,7,8\n"})

    relation = read_relation(paths, SourceSpec(path=("*.csv",)), origin=True)

    assert relation.table.to_pylist() == [
        {"a": "3", "q": "4", "c": "5", "source_file": "a.csv", "source_row": 1},
        {"a": "6", "q": "7", "c": "8", "source_file": "a.csv", "source_row": 2},
        {"a": "2", "q": "1", "c": None, "source_file": "b.csv", "source_row": 1},
    ]


def test_a_table_has_no_columns_of_ours_that_a_join_would_make_ambiguous(benchmark):
    paths = benchmark(HEAD, {"a.csv": "q\n1\n", "docs/x.pdf": b""})

    assert read_relation(paths, SourceSpec(path=("a.csv",))).table.column_names == ["q"]
    assert read_relation(paths, SourceSpec(files="docs/*")).table.column_names == ["file", "name"]


def test_a_folder_can_be_the_source(benchmark):
    paths = benchmark(HEAD, {"docs/x.pdf": b"", "docs/y.pdf": b""})

    relation = read_relation(paths, SourceSpec(files="docs/*"), origin=True)

    assert relation.table.column("source_file").to_pylist() == ["docs/x.pdf", "docs/y.pdf"]


def test_listed_files_keep_their_order(benchmark):
    paths = benchmark(HEAD, {"b.csv": "q\n1\n", "a.csv": "q\n2\n"})

    assert read_relation(paths, SourceSpec(path=("b.csv", "a.csv"))).files == ("b.csv", "a.csv")


def test_a_file_whose_name_looks_like_a_glob_is_that_file(benchmark):
    paths = benchmark(HEAD, {"[x].csv": "q\n1\n", "x.csv": "q\n2\n"})

    assert read_relation(paths, SourceSpec(path=("[x].csv",))).table.column("q").to_pylist() == ["1"]


def test_a_folder_of_files_is_a_relation_of_paths_and_basenames(benchmark):
    paths = benchmark(HEAD, {"docs/b c.pdf": b"%PDF-", "docs/a.pdf": b"%PDF-", "docs/n/a.pdf": b"%PDF-"})

    relation = read_relation(paths, SourceSpec(files="docs/**/*.pdf"))

    assert relation.table.to_pylist() == [
        {"file": "docs/a.pdf", "name": "a.pdf"},
        {"file": "docs/b c.pdf", "name": "b c.pdf"},
        {"file": "docs/n/a.pdf", "name": "a.pdf"},
    ]


def test_columns_of_two_types_in_two_files_are_kept_as_json_text(benchmark):
    paths = benchmark(HEAD, {"a.jsonl": '{"q": 1}', "b.jsonl": '{"q": "x"}'})

    assert read_relation(paths, SourceSpec(path=("*.jsonl",))).table.column("q").to_pylist() == ["1", '"x"']


def test_a_linked_file_is_refused_and_what_it_leads_to_is_not_read(benchmark, tmp_path):
    paths = benchmark(HEAD, {})
    (tmp_path / "secret.csv").write_text("q\nsecret\n")
    os.symlink(tmp_path / "secret.csv", paths.source / "q.csv")

    for path in ("q.csv", "*.csv"):
        with pytest.raises(InputError) as caught:
            read_relation(paths, SourceSpec(path=(path,)))
        assert caught.value.code == "path_outside"


def test_a_file_in_a_linked_folder_is_refused(benchmark, tmp_path):
    paths = benchmark(HEAD, {})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "q.csv").write_text("q\nsecret\n")
    os.symlink(tmp_path / "elsewhere", paths.source / "data")

    with pytest.raises(InputError) as caught:
        read_relation(paths, SourceSpec(path=("data/q.csv",)))

    assert caught.value.code == "path_outside"


MISSING = {"a file": "absent.csv", "a glob": "*.absent", "a folder": "docs"}


@pytest.mark.parametrize("path", MISSING.values(), ids=MISSING)
def test_what_is_not_there_is_named(benchmark, path):
    paths = benchmark(HEAD, {"docs/a.pdf": b""})

    with pytest.raises(InputError, match="data/sources/scratch/") as caught:
        read_relation(paths, SourceSpec(path=(path,)))

    assert caught.value.code == "missing_file"


def test_utf16_without_a_mark_has_to_be_stated(benchmark):
    paths = benchmark(HEAD, {"q.csv": "q\n1\n".encode("utf-16-le")})

    with pytest.raises(InputError) as caught:
        read_relation(paths, SourceSpec(path=("q.csv",)))
    stated = read_relation(paths, SourceSpec(path=("q.csv",), encoding="utf-16-le"))

    assert caught.value.code == "bad_encoding"
    assert stated.table.column("q").to_pylist() == ["1"]
