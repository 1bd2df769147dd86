"""Each fault in a user's files is one line that names the place; everything else goes on."""

import re

import pytest

from rag_eval_pipeline.workspace import Workspace
from tests.e2e.reading import rag_eval
from tests.real_benchmarks import build

pytestmark = pytest.mark.browser

GOOD = "kg-rag-sec10q"  # eight ready PDFs: converted in a second, without a browser
SEC, HOTPOT = "kg-rag-sec10q", "hotpotqa"


def edited(old, new):
    """A fault made by editing benchmark.yaml."""

    def edit(source):
        spec = source / "benchmark.yaml"
        text = spec.read_text()
        assert text.count(old) == 1
        spec.write_text(text.replace(old, new))

    return edit


def cut(file, size):
    """A fault made by a download that broke off."""
    return lambda source: (source / file).write_bytes((source / file).read_bytes()[:size])


def removed(file):
    return lambda source: (source / file).unlink()


# What is wrong -> the benchmark it is made from, the fault, and the place and code that the line must name.
FAULTS = {
    "a brace that is not closed": (
        SEC,
        edited('"docs/*.pdf"}}', '"docs/*.pdf"}'),
        "benchmark.yaml, line 9: ",
        "bad_yaml",
    ),
    "a column the SQL misspells": (
        SEC,
        edited('"Answer" AS answer', '"Anser" AS answer'),
        'benchmark.yaml, line 10, field "questions": ',
        "bad_sql",
    ),
    "a source that is not there": (SEC, removed("qna_data.csv"), "qna_data.csv: ", "missing_file"),
    "half a parquet file": (HOTPOT, cut("hotpot_sample.parquet", 5000), "hotpot_sample.parquet: ", "bad_parquet"),
    "another number of questions than was promised": (
        SEC,
        edited("questions: 74", "questions: 75"),
        "benchmark.yaml: ",
        "check_failed",
    ),
}


@pytest.fixture
def broken(scratch):
    """`broken(id)` makes a benchmark with that fault and returns its name."""

    def make(fault):
        benchmark, break_it, *_ = FAULTS[fault]
        name = re.sub(r"\W+", "-", fault).lower()
        build(scratch, benchmark).rename(scratch / "data" / "sources" / name)
        source = scratch / "data" / "sources" / name
        edited(f"name: {benchmark}\n", f"name: {name}\n")(source)
        break_it(source)
        return name

    return make


def test_convert_reports_each_fault_on_one_line_and_finishes_the_good_benchmark(broken, scratch):
    names = {broken(fault): fault for fault in FAULTS}
    build(scratch, GOOD)

    done = rag_eval("convert", *names, GOOD, "nowhere", "--workspace", scratch)

    assert done.returncode == 2
    assert [line.partition(":")[0] for line in done.stdout.splitlines() if line[0] != " "] == [GOOD]
    assert Workspace(scratch).benchmark(GOOD).stamp.exists()
    notes = ("is kept as metadata", "texts were decoded with another encoding")  # on accepted rows
    lines = [line for line in done.stderr.splitlines() if not any(note in line for note in notes)]
    assert len(lines) == len(names) + 1
    for name, fault in names.items():
        *_, place, code = FAULTS[fault]
        pattern = rf"rag-eval: \S*data/sources/{name}/{re.escape(place)}expected .+ \[{code}\]\..*"
        assert [line for line in lines if re.fullmatch(pattern, line)], fault
