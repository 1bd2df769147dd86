"""The source digest changes exactly when a name or a byte of the benchmark's folder does."""

import os

from rag_eval_pipeline.conversion.stamp import source_digest
from tests.conversion.conftest import PLAIN, write_benchmark

FILES = {"questions.csv": "q,a\nx,y\n", "docs/a.html": "<p>a"}


def test_it_depends_on_names_and_contents_and_on_nothing_else(tmp_path):
    one = write_benchmark(tmp_path / "one", PLAIN, FILES)
    two = write_benchmark(tmp_path / "two", PLAIN, dict(reversed(FILES.items())))
    os.utime(two.source / "questions.csv", (1, 1))

    assert source_digest(one) == source_digest(two)


def test_a_changed_byte_a_new_file_and_a_new_name_change_it(benchmark):
    paths = benchmark(PLAIN, FILES)
    digests = [source_digest(paths)]

    (paths.source / "docs" / "a.html").write_text("<p>bb")
    digests.append(source_digest(paths))
    (paths.source / "docs" / "b.html").write_text("")
    digests.append(source_digest(paths))
    (paths.source / "docs" / "b.html").rename(paths.source / "docs" / "c.html")
    digests.append(source_digest(paths))
    paths.spec.write_text("broken: [")
    digests.append(source_digest(paths))

    assert len(set(digests)) == len(digests)


def test_what_a_link_leads_to_is_not_read(benchmark, tmp_path):
    paths = benchmark(PLAIN, FILES)
    before = source_digest(paths)

    os.symlink(tmp_path, paths.source / "loop")
    os.symlink("/dev/zero", paths.source / "endless")

    assert source_digest(paths) == before
