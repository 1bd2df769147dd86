"""A few mutated inputs for every parser: each is read, or refused by a typed error that names its file.

What must hold of each is in `tests/faults/fuzzing`; more than 1 GiB, or 20 s of processor time, is a failure,
too. `make fuzz` goes on with other inputs, and allows 5 s.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.fuzzing.parsers import PARSERS
from tests.faults.fuzzing.runner import Fuzzer

COUNT = 20


@pytest.fixture(scope="module")
def fuzzer() -> Iterator[Fuzzer]:
    with Fuzzer() as fuzzer:
        yield fuzzer


@pytest.mark.fault(6, 19, 24, 25, 27, 30, 31, 32, 35, 37, 38, 39, 47, 48, 51, 68)
@pytest.mark.parametrize("parser", PARSERS)
def test_any_input_is_read_or_refused_by_name(parser: str, fuzzer: Fuzzer) -> None:
    failures, outcomes = fuzzer.run(parser, 0, COUNT)

    assert not failures, "\n\n".join(f"{one.what}\n{one.command}" for one in failures[:3])
    assert outcomes.total() == COUNT


@pytest.mark.parametrize(
    "data", [b'{"x":' + b"[" * 5_000, b'{"query_results":' + b"[" * 5_000], ids=["any key", "rows"]
)
def test_state_that_nests_too_deeply_is_damaged(data: bytes, tmp_path: Path) -> None:
    PARSERS["stored_state"].read(data, tmp_path)
