"""Benchmarks, the tables, archives and PDFs that they are made of, and URLs."""

import bz2
import contextlib
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from rag_eval_pipeline.conversion.benchmark_spec import read_spec
from rag_eval_pipeline.corpus.naming import NameRequest, assign_names, document_key
from rag_eval_pipeline.corpus.text.pdf import PdfLimits, PdfReader
from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.scaffold.init import propose
from rag_eval_pipeline.sources.relations import read_relation
from rag_eval_pipeline.web.urls import check_url
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace
from tests.conversion.conftest import HEAD, write_benchmark
from tests.faults.fuzzing.checks import Parser, encoded
from tests.faults.pdfs import deflated, many_pages, one_page, shown, stream

ROWS = [
    {"q": "Who lit it?", "a": "Ada Thorne", "n": 1, "tags": ["x", "y"]},
    {"q": "When, and “where”?", "a": "1887", "n": 2.5, "tags": []},
    {"q": "How tall?", "a": "31 m", "n": None, "tags": ["z"]},
    {"q": "Ist's grün?", "a": 'Ja, "immer"', "n": -7, "tags": None},
]
CSV = 'q,a,n\nWho lit it?,Ada Thorne,1\n"When, and\n""where""?",1887,2\nIst\'s grün?,"Ja",\nHow tall?,31 m,4\n'.encode()
JSONL = b"".join(line + b"\n" for line in encoded(*ROWS))
QRELS = b"q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\nq2 0 d%20x -1\n"
TOPICS = (
    b"<top>\n<num> Number: 301\n<title> Lights\n<desc> Description:\nWhich lights?\n<narr> Narrative:\nAny.\n</top>\n"
)


def _benchmark(folder: Path, name: str, data: bytes, source: str) -> BenchmarkPaths:
    paths = Workspace(folder).benchmark("scratch")
    if not paths.spec.exists():
        write_benchmark(folder, f"{HEAD}source: {source}\nquestions: {{question: q, answer: a}}\n", {})
    (paths.source / name).write_bytes(data)
    return paths


def _read_source(name: str, data: bytes, folder: Path, *, source: str = "") -> None:
    paths = _benchmark(folder, name, data, source or name)
    relation = read_relation(paths, read_spec(paths).source, source_columns=True)
    rows: dict[str, list[int]] = {}
    for batch in relation.batches():
        for file, row in zip(*(batch.column(column).to_pylist() for column in relation.schema.names[-2:]), strict=True):
            rows.setdefault(file, []).append(row)
    for rejected in relation.rejected:
        rows.setdefault(rejected.file, []).append(rejected.row)
    for found in rows.values():
        assert sorted(found) == list(range(1, len(found) + 1)), "a row is lost or there twice"


def _parquet(rows: list[dict[str, Any]], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file, **options)
    return file.getvalue()


def _workbook() -> bytes:
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in (["q", "a", "n"], ["Who?", "Ada", 1], ["When?", "1887", 2.5], ["How?", "=1+1", True]):
        book.active.append(row)
    book.save(file)
    return file.getvalue()


def _zipped(method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr(zipfile.ZipInfo("in/f.csv"), CSV, method)
        archive.comment = b"comment"
    return file.getvalue()


def _tarred(form: int) -> bytes:
    file, info = io.BytesIO(), tarfile.TarInfo(f"in/{'long/' * 25}é.csv")  # needs an extended header
    info.size = len(CSV)
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        archive.addfile(info, io.BytesIO(CSV))
    return file.getvalue()


def _packed(data: bytes) -> list[bytes]:
    zstd = pa.compress(data, codec="zstd", asbytes=True)
    return [gzip.compress(data, mtime=0), bz2.compress(data), lzma.compress(data), zstd]


MEMBER = '{path: f.bin, member: "in/**"}'
FULL_SPEC = b"""name: scratch
title: "A: title"
version: 1.10.0
license: Apache-2.0
released: 2025-03-14
language: en
source: {path: [f.csv], encoding: utf-8, delimiter: ","}
questions:
  question: q
  answer: a
  metadata: [n]
on_missing_document: keep
min_page_words: 0.3
inline_documents: no
expect: {rows: 4, questions: 4}
evaluation: {random_seed: 7, timeout_seconds: 30}
"""
SQL_SPEC = FULL_SPEC.replace(
    b"questions:\n  question: q\n  answer: a\n  metadata: [n]\n",
    b"tables: {docs: {files: 'docs/*.pdf'}}\nquestions: |\n  SELECT q AS question, a AS answer FROM source\n"
    b"documents: SELECT name, file FROM docs\nwhere: \"answer <> ''\"\n",
)


def _read_spec(data: bytes, folder: Path) -> None:
    paths = write_benchmark(folder, "", {"f.csv": CSV})
    paths.spec.write_bytes(data)
    read_spec(paths)


def _read_proposal(data: bytes, folder: Path) -> None:
    path = folder / ("f.csv" if data.startswith(b"q,") else "f.json" if data.lstrip()[:1] == b"[" else "f.jsonl")
    path.write_bytes(data)
    propose(Workspace(folder), "scratch", path)


URLS = [
    b"https://en.wikipedia.org/wiki/Ada_Lovelace#Early_life\nhttps://de.wikipedia.org/wiki/Ada_Lovelace\n",
    b"https://x.org/a/../b;p=1?id=1\nhttps://x.org/a/../b;p=1?id=2\nhttp://X.org/%C3%A9t%C3%A9.pdf\n",
    "http://exämple.org/été%2Fa\nhttp://[::1]:80/\nx\nhttps://a.b/~0123abcd.pdf\nhttps://u:p@h/\nhttp://h/a\\b\n".encode(),
]


def _read_urls(data: bytes, folder: Path) -> None:
    urls = data.decode("utf-8", "surrogateescape").split("\n")[:50]
    for url in urls:
        with contextlib.suppress(DocumentError):
            check_url(url)
    assign_names([NameRequest(document_key(url), url) for url in urls])


PDF_LIMITS = PdfLimits(cpu_s=20.0, deadline_s=120.0)


@cache
def _pdf_reader() -> PdfReader:
    return PdfReader(PDF_LIMITS)


def _pdf_seeds() -> list[bytes]:
    lock = b"<</Filter/Standard/V 1/R 2/Length 40/P -4/O<" + b"00" * 32 + b">/U<" + b"00" * 32 + b">>>"
    encrypted = one_page(stream(shown("secret")), more=[lock]).replace(b"/Root", b"/Encrypt 5 0 R/ID[<00><00>]/Root")
    return [one_page(stream(shown("a good page"))), one_page(deflated(shown("deflated"))), many_pages(5), encrypted]


def _read_pdf(data: bytes, folder: Path) -> None:
    assert _pdf_reader().texts(data), "a PDF without a page"


def _source(seeds: Callable[[], Sequence[bytes]], name: str, source: str = "") -> Parser:
    read = partial(_read_source, name, source=source)
    return Parser(seeds, read, places=(f"data/sources/scratch/{name}", "data/sources/scratch/benchmark.yaml"))


SOURCES: dict[str, Parser] = {
    "benchmark_yaml": Parser(lambda: [FULL_SPEC, SQL_SPEC], _read_spec, places=("data/sources/scratch/",)),
    "csv": _source(lambda: [CSV, CSV.replace(b",", b"\t"), CSV.decode().encode("utf-16"), CSV.replace(b"\n", b"\r\n")], "f.csv"),
    "jsonl": _source(lambda: [JSONL, JSONL.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + JSONL], "f.jsonl"),
    "json": _source(lambda: encoded(ROWS, {"a": {"q": "x", "a": "y"}}, {"q": ["x", "y"], "a": ["1", "2"]}, indent=1), "f.json"),
    "yaml": _source(lambda: [b"- q: Who?\n  a: Ada\n  n: [1, 2.5, true]\n- {q: 'When?', a: 1887}\n", *encoded(ROWS)], "f.yaml"),
    "parquet": _source(lambda: [_parquet(ROWS), _parquet(ROWS * 20, compression="zstd", data_page_version="2.0")], "f.parquet"),
    "xlsx": _source(lambda: [_workbook()], "f.xlsx"),
    "zip": _source(lambda: [_zipped(zipfile.ZIP_DEFLATED), _zipped(zipfile.ZIP_STORED)], "f.bin", MEMBER),
    "tar": _source(lambda: [_tarred(tarfile.PAX_FORMAT), *_packed(_tarred(tarfile.GNU_FORMAT))], "f.bin", MEMBER),
    "compressed": _source(lambda: [*_packed(CSV), gzip.compress(CSV[:40]) + gzip.compress(CSV[40:])], "f.csv"),
    "qrels": _source(lambda: [QRELS], "f.txt", "{path: f.txt, format: trec_qrels}"),
    "topics": _source(lambda: [TOPICS, b"301\tWhich lights?\n302\tWho?\n"], "f.txt", "{path: f.txt, format: trec_topics}"),
    "pdf": Parser(_pdf_seeds, _read_pdf, errors=(DocumentError,)),
    "proposal": Parser(lambda: [CSV, JSONL, *encoded(ROWS)], _read_proposal, places=("f.csv", "f.json", "f.jsonl")),
    "urls": Parser(lambda: URLS, _read_urls),
}  # fmt: skip
