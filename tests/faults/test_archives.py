"""Rows 24 and 25: an archive with an unsafe member, or one that unpacks to too much, is refused whole.

Every kind of unsafe member and every cap by itself: tests/sources/test_archive.py and tests/sources/test_compression.py.
Here: that a benchmark with such an archive is refused by name, and nothing of it is left on the disk.
"""

import gzip
import io
import tarfile
import zipfile

import pytest

from rag_eval_pipeline.conversion.steps import run_step
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.workspace import Workspace
from tests.conversion.conftest import HEAD, write_benchmark

CSV = b"q,a\nx,y\n"
SPEC = HEAD + "source: {path: all.bin, member: q.csv}\nquestions: {question: q, answer: a}\n"


def zipped(*members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name) if isinstance(name, str) else name, data, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def tarred(*members):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, data, target in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if target is not None:
                info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


ARCHIVES = {
    "zip: a way up": (zipped(("q.csv", CSV), ("../up.txt", b"x")), "unsafe_archive"),
    "tar: a link out, and a file through it": (
        tarred(("q.csv", CSV, None), ("out", b"", "/tmp"), ("out/up.txt", b"x", None)),
        "unsafe_archive",
    ),
    "gzip: 12 MB of nothing": (gzip.compress(bytes(12_000_000), 1), "archive_bomb"),
}


@pytest.mark.fault(24, 25)
@pytest.mark.parametrize(("data", "code"), ARCHIVES.values(), ids=ARCHIVES)
def test_hostile_archive_refuses_its_benchmark_and_leaves_nothing(data, code, tmp_path):
    spec = SPEC if code == "unsafe_archive" else SPEC.replace(", member: q.csv", "")
    paths = write_benchmark(tmp_path, spec, {"all.bin": data})
    before = {file.relative_to(tmp_path) for file in tmp_path.rglob("*")}

    with pytest.raises(InputError) as caught:
        run_step(Workspace(tmp_path), "scratch", "questions")

    assert caught.value.code == code
    assert "data/sources/scratch/all.bin" in caught.value.file
    left = [
        file
        for file in tmp_path.rglob("*")
        if file.relative_to(tmp_path) not in before and file.is_file() and file.name != ".lock"
    ]
    assert [file for file in left if file.parent != paths.dataset or not file.name.startswith(".")] == []
    assert not paths.questions.exists()
