"""Packed, archived and remote files are read as the files they hold, under names that show where they are from."""

import gzip
import io
import json

import pyarrow as pa
import pyarrow.ipc
import pytest

from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.relations import read_relation
from rag_eval_pipeline.sources.source_spec import SourceSpec
from rag_eval_pipeline.workspace import Workspace
from tests.conversion.conftest import HEAD
from tests.sources.conftest import parquet, status, zipped

CSV = b"q,a\none,1\ntwo,2\n"
ROWS = [{"q": "one", "a": "1"}, {"q": "two", "a": "2"}]


PACKED = {
    "gz, under the name of a CSV": ("q.csv", gzip.compress(CSV)),
    "zst": ("q.zst", pa.compress(CSV, codec="zstd", asbytes=True)),
    "parquet, which is read from its end": ("q.bin", gzip.compress(parquet(ROWS))),
}


@pytest.mark.parametrize(("name", "content"), PACKED.values(), ids=PACKED)
def test_packed_files_are_read_by_what_they_hold(benchmark, name, content):
    paths = benchmark(HEAD, {name: content})

    relation = read_relation(paths, SourceSpec(path=(name,)), source_columns=True)

    rows = relation.table.to_pylist()
    assert [{"q": row["q"], "a": row["a"]} for row in rows] == ROWS
    assert {row["source_file"] for row in rows} == {name}


def arrow(rows):
    file = io.BytesIO()
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


def saved_dataset(folder, *, indices=()):
    """The files of `Dataset.save_to_disk`: rows in Arrow streams, which `state.json` names in order."""
    parts = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    state = {"_data_files": [{"filename": name} for name in parts], "_indices_data_files": list(indices)}
    files = {name: arrow([row]) for name, row in zip(parts, ROWS, strict=True)}
    files |= {"state.json": json.dumps(state), "dataset_info.json": "{}"}
    return {f"{folder}/{name}": content for name, content in files.items()}


def test_dataset_saved_to_disk_is_read_by_its_folder(benchmark):
    paths = benchmark(HEAD, saved_dataset("set/test"))

    relation = read_relation(paths, SourceSpec(path=("set/test",)))

    assert relation.table.to_pylist() == ROWS
    assert relation.notes == ()


FOLDERS = {
    "a DatasetDict, the test split first": (
        {"set/dataset_dict.json": '{"splits": ["train", "test"]}'},
        "expected one of its splits train, test [missing_split]. State `path: set/test`.",
    ),
    "a selection of rows": (saved_dataset("set", indices=[{"filename": "i"}]), "Save it again after `dataset.flatten"),
    "shards of splits, as in a repository": (
        {"set/README.md": "", "set/test-00000-of-00002.parquet": "", "set/test-00001-of-00002.parquet": ""},
        """found 'a folder with test-*.parquet' [missing_file]. State one, such as `path: "set/test-*.parquet"`""",
    ),
    "other files": (
        {"set/q.csv": ""},
        """found 'a folder with q.csv' [missing_file]. State one, such as `path: "set/q.csv"`""",
    ),
}


@pytest.mark.parametrize(("files", "message"), FOLDERS.values(), ids=FOLDERS)
def test_folder_that_is_no_table_names_what_to_state(benchmark, files, message):
    with pytest.raises(InputError) as caught:
        read_relation(benchmark(HEAD, files), SourceSpec(path=("set",)))
    assert message in str(caught.value)


def test_shards_are_one_table_and_missing_ones_and_several_splits_are_noted(benchmark):
    one, two = (CSV[:4] + row for row in CSV[4:].splitlines(keepends=True))
    files = {"test-00000-of-00002.csv": one, "test-00001-of-00002.csv": two, "dev-00001-of-00003.csv": one}
    paths = benchmark(HEAD, files)

    chosen = read_relation(paths, SourceSpec(path=("test-*.csv",)))
    several = read_relation(paths, SourceSpec(path=("*.csv",)))

    assert (chosen.table.to_pylist(), chosen.notes) == (ROWS, ())
    assert several.notes == ("dev: 1 of its 3 files are read", "dev, test: these splits are read as one table")


def test_members_are_chosen_by_a_glob_and_may_be_packed_themselves(benchmark):
    files = {"b/2.csv.gz": gzip.compress(b"q,a\nthree,3\n"), "b/1.csv": CSV, "README": b"no data"}
    paths = benchmark(HEAD, {"q.zip": zipped(files)})

    relation = read_relation(paths, SourceSpec(path=("q.zip",), member="b/*"), source_columns=True)

    assert relation.table.column("q").to_pylist() == ["one", "two", "three"]
    assert relation.files == ("q.zip/b/1.csv", "q.zip/b/2.csv.gz")


def test_archive_of_several_files_is_answered_with_their_names(benchmark):
    paths = benchmark(HEAD, {"q.zip": zipped({"a.csv": CSV, "b.csv": CSV})})

    with pytest.raises(InputError, match=r"a\.csv.*b\.csv.*member") as caught:
        read_relation(paths, SourceSpec(path=("q.zip",)))

    assert caught.value.code == "archive_member"


def test_what_a_mac_adds_to_a_folder_is_no_member_and_no_file(benchmark):
    made_by_mac = {"data.csv": CSV, "__MACOSX/._data.csv": b"\0\5\x16\7", ".DS_Store": b"\0\0\0\1Bud1"}
    paths = benchmark(HEAD, {"q.zip": zipped(made_by_mac), "docs/a.txt": "a", "docs/._a.txt": "", "docs/.DS_Store": ""})

    assert read_relation(paths, SourceSpec(path=("q.zip",))).table.to_pylist() == ROWS
    assert read_relation(paths, SourceSpec(files="docs/*")).files == ("docs/a.txt",)


def test_names_in_a_zip_that_states_no_encoding_are_noted(benchmark):
    data = zipped({"data.csv": CSV, "XXX.csv": CSV}).replace(b"XXX", "für".encode("cp437"))

    relation = read_relation(benchmark(HEAD, {"q.zip": data}), SourceSpec(path=("q.zip",), member="für*"))

    assert relation.files == ("q.zip/für.csv",)
    assert relation.notes == (
        "q.zip: 1 of its 2 names are in no stated encoding and were read as code page 437: für.csv",
    )


def test_documents_of_an_archive_are_listed_and_are_bodies(benchmark):
    spec = HEAD + (
        "source: q.csv\n"
        "tables: {docs: {path: docs.zip, files: '**/*.txt'}}\n"
        'questions: "SELECT q AS question, a AS answer, [{file: f, text: t}] AS contexts FROM source"\n'
    )
    files = {"q.csv": "q,a,f,t\none,1,x.txt,lamp\n", "docs.zip": zipped({"d/x.txt": "The lamp.", "d/y.pdf": "no"})}
    paths = benchmark(spec, files)

    found = plan(paths)

    assert [(document.names[0].name, document.path.read_text()) for document in found.documents] == [
        ("x.txt.pdf", "The lamp.")
    ]


def test_source_behind_a_url_is_downloaded_once_and_planned_without_the_network(
    benchmark, server, tmp_path, monkeypatch
):
    server.answers["/q.csv"] = status(200, body=CSV)
    monkeypatch.setenv("SOURCE_TOKEN", "secret")
    url = server.url("/q.csv")
    paths = benchmark(
        HEAD + f"source: {{url: '{url}', headers: {{Authorization: 'Bearer ${{SOURCE_TOKEN}}'}}}}\n"
        "questions: {question: q, answer: a}\n"
    )
    workspace = Workspace(tmp_path)
    workspace.config.mkdir(parents=True)

    with pytest.raises(InputError) as caught:
        plan(paths)
    assert caught.value.code == "not_downloaded"
    with pytest.raises(InputError) as caught:
        convert(workspace, "scratch")
    assert (caught.value.code, server.asked) == ("egress_blocked", [])

    workspace.egress_config.write_text(f"allowed_hosts: ['{server.host}']\n")
    convert(workspace, "scratch")
    convert(workspace, "scratch")

    assert [(path, headers["authorization"]) for path, headers in server.asked] == [("/q.csv", "Bearer secret")]
    assert plan(paths).counts.accepted == 2
    assert [question.source_file for question in plan(paths).questions] == [url, url]
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_qrels_and_topics_are_relations_whose_bad_lines_are_rejected(benchmark):
    paths = benchmark(HEAD, {"topics.tsv": "q1\twhere?\n", "qrels.txt": "q1 0 d1 2\nbroken line\nq1 0 d2 0\n"})

    topics = read_relation(paths, SourceSpec(path=("topics.tsv",), format="trec_topics"))
    qrels = read_relation(paths, SourceSpec(path=("qrels.txt",), format="trec_qrels"))

    assert topics.table.to_pylist() == [{"query_id": "q1", "title": "where?", "description": None, "narrative": None}]
    assert [tuple(row.values()) for row in qrels.table.to_pylist()] == [("q1", "d1", 2), ("q1", "d2", 0)]
    assert [(row.row, row.line, row.code) for row in qrels.rejected] == [(2, 2, "bad_fields")]
