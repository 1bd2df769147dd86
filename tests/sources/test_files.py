"""Packed, archived and remote files are read as the files they hold, under names that show where they are from."""

import gzip
import io
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.conversion.steps import convert
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.relations import read_relation
from rag_eval_pipeline.sources.spec import SourceSpec
from rag_eval_pipeline.workspace import Workspace
from tests.conversion.conftest import HEAD
from tests.sources.conftest import status

CSV = b"q,a\none,1\ntwo,2\n"
ROWS = [{"q": "one", "a": "1"}, {"q": "two", "a": "2"}]


def parquet(rows):
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


def zipped(files):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file.getvalue()


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
