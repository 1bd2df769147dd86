"""The same source gives the same bytes, in the same place and in another, and only what has changed is done again."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rag_eval_pipeline.conversion.steps import convert
from rag_eval_pipeline.corpus.rendering.browser import EXECUTABLE_VARIABLE, find_browser
from rag_eval_pipeline.workspace import Workspace
from tests.e2e.reading import CONVERT_AND_DIE, NAMES, pdf_text, product_bytes, rag_eval
from tests.real_benchmarks import build

pytestmark = pytest.mark.browser

KILLED_AT_DOCUMENT = 5


def on_disk(workspace, name):
    """Which file stands behind each name of the corpus, and since when."""
    status = {path.name: path.stat() for path in workspace.benchmark(name).corpus.iterdir()}
    return {file: (found.st_ino, found.st_mtime_ns) for file, found in status.items()}


def test_a_second_conversion_starts_no_browser_and_leaves_every_byte(house, lend, tmp_path):
    workspace = lend(*NAMES)
    before = {name: product_bytes(workspace, name) for name in NAMES}
    files = {name: on_disk(workspace, name) for name in NAMES}
    started = tmp_path / "started"
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$@" >>{shlex.quote(str(started))}\nexec {shlex.quote(str(find_browser()))} "$@"\n'
    )
    browser.chmod(0o755)

    done = rag_eval("convert", *NAMES, "--workspace", workspace.root, env={EXECUTABLE_VARIABLE: str(browser)})

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(0 new or changed)") == len(NAMES)
    assert started.read_text() == "--version\n"  # asked for its version, because another one would print anew
    assert {name: product_bytes(workspace, name) for name in NAMES} == before
    assert {name: on_disk(workspace, name) for name in NAMES} == files
    assert before == {name: product_bytes(house.workspace, name) for name in NAMES}


def test_the_command_line_in_another_folder_gives_the_same_bytes(house, scratch):
    names = ("fetaqa", "squad2")
    for name in names:
        build(scratch, name)

    done = rag_eval("convert", *names, "--workspace", scratch)

    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if not line.startswith("  ")] == [
        f"fetaqa: 19 questions, 0 dropped, 0 quarantined, 17 files (17 new or changed), "
        f"{scratch}/data/datasets/fetaqa/train.json",
        f"squad2: 908 questions, 0 dropped, 0 quarantined, 3 files (3 new or changed), "
        f"{scratch}/data/datasets/squad2/train.json",
    ]
    for name in names:
        assert product_bytes(Workspace(scratch), name) == product_bytes(house.workspace, name)


def test_an_edited_page_is_the_only_one_that_is_printed_anew(lend):
    workspace = lend("fetaqa")
    page = workspace.benchmark("fetaqa").source / "pages" / "015.html"  # Julian_Dennison
    page.write_bytes(page.read_bytes().replace(b"</body>", b"<p>An added sentence about gannets.</p></body>"))
    before = on_disk(workspace, "fetaqa")

    reports = {report.record.step: report.record.counts for report in convert(workspace, "fetaqa")}

    after = on_disk(workspace, "fetaqa")
    assert reports["corpus"]["new_or_changed"] == 1
    assert {name for name in before if after[name] != before[name]} == {"Julian_Dennison.pdf"}
    assert "added sentence about gannets" in pdf_text(workspace.benchmark("fetaqa").corpus / "Julian_Dennison.pdf")


def test_a_document_taken_out_of_the_source_leaves_the_corpus(lend):
    workspace = lend("kg-rag-sec10q")
    paths = workspace.benchmark("kg-rag-sec10q")
    (paths.source / "docs" / "2022 Q3 AAPL.pdf").unlink()
    spec = paths.spec.read_text().partition("expect:")[0]
    paths.spec.write_text(spec.replace("version: 1.0.0", "version: 1.1.0"))

    convert(workspace, "kg-rag-sec10q")

    assert sorted(path.name for path in paths.corpus.iterdir()) == [
        "2022 Q3 NVDA.pdf",
        "2023 Q1 AAPL.pdf",
        "2023 Q1 NVDA.pdf",
        "2023 Q2 AAPL.pdf",
        "2023 Q2 NVDA.pdf",
        "2023 Q3 AAPL.pdf",
        "2023 Q3 NVDA.pdf",
    ]


@pytest.fixture
def temporary():
    """A folder for temp files that any user may enter: the browser of a root process runs as nobody."""
    folder = Path(tempfile.mkdtemp(prefix="rag-eval-e2e-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_conversion_that_was_killed_is_finished_by_the_next(house, scratch, temporary):
    build(scratch, "fetaqa")
    workspace = Workspace(scratch)
    killed = subprocess.run(
        [sys.executable, "-c", CONVERT_AND_DIE, scratch, "fetaqa", str(KILLED_AT_DOCUMENT)],
        env={**os.environ, "TMPDIR": str(temporary)},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(list(workspace.benchmark("fetaqa").corpus.iterdir())) >= KILLED_AT_DOCUMENT
    assert not workspace.benchmark("fetaqa").stamp.exists()

    done = rag_eval("convert", "fetaqa", "--workspace", scratch)

    assert done.returncode == 0, done.stderr
    assert product_bytes(workspace, "fetaqa") == product_bytes(house.workspace, "fetaqa")
    assert [path.name for path in (scratch / "corpus").iterdir()] == ["fetaqa"]  # no temp folder is left
