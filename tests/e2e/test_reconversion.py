"""The same source gives the same bytes, in the same place and in another, and only what has changed is done again."""

import shlex

import pytest

from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.corpus.rendering.browser import EXECUTABLE_VARIABLE, find_browser
from tests.e2e.reading import NAMES, product_bytes, rag_eval

pytestmark = pytest.mark.browser


def on_disk(workspace, name):
    """Which file stands behind each name of the corpus, and since when."""
    status = {path.name: path.stat() for path in workspace.benchmark(name).corpus.iterdir()}
    return {file: (found.st_ino, found.st_mtime_ns) for file, found in status.items()}


def test_second_conversion_starts_no_browser_and_leaves_every_byte(converted, lend, tmp_path):
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
    assert before == {name: product_bytes(converted.workspace, name) for name in NAMES}


def test_document_taken_out_of_the_source_leaves_the_corpus(lend):
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
