"""docs/explanation/verdicts-figures.md has what bench/verdicts.py finds, and the real nights are decided as they are due."""

import importlib
import re
import sys

import numpy as np
import pytest

from tests.conftest import REPOSITORY

PAGE = (REPOSITORY / "docs" / "explanation" / "verdicts-figures.md").read_text()


@pytest.fixture(scope="module")
def bench():
    sys.path.insert(0, str(REPOSITORY / "bench"))
    yield importlib.import_module("verdicts")
    sys.path.remove(str(REPOSITORY / "bench"))


def block(name):
    return re.search(f"<!-- {name} -->\n(.*?)\n\nSeed (\\d+)", PAGE, re.DOTALL).groups()


def test_every_table_is_written_and_none_fails(bench):
    for name in bench.TABLES:
        text, _ = block(name)
        assert "FAIL" not in text, name


def test_real_nights_are_decided_as_they_are_due(bench):
    if not bench.REAL.exists():
        pytest.skip("no ../shared")
    lines = list(bench.real(0, 1.0))

    assert [line.split(" | ")[-1] for line in lines[3:]] == ["pass |"] * len(bench.REAL_NIGHTS)
    assert [line for line in block("real")[0].splitlines() if line] == lines


def test_share_found_of_fifty_questions_is_that_of_the_page(bench):
    text, seed = block("power")
    [row] = [line for line in text.splitlines() if line.startswith("| 50 | 10 points |")]
    repetitions = int(re.search(r"(\d+) repetitions", text)[1])

    share = bench.found_share(np.random.default_rng(int(seed) + 60), 50, 0.02, 0.10, 5, repetitions)

    assert row.split(" | ")[2] == f"{share:.2f}"
