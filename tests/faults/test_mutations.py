"""Three hundred mutated inputs for every parser: each is read, or refused by a typed error that names its file.

What must hold of each is in `tests/faults/fuzzing/parsers.py`; more than 2 s of processor time or 1 GiB are a failure,
too. `make fuzz` goes on with other inputs.
"""

from collections.abc import Iterator

import pytest

from tests.faults.fuzzing.parsers import PARSERS
from tests.faults.fuzzing.runner import AT_ONCE, Fuzzer

# Rows of docs/faults.md for which a parser stands.
ROWS = {
    "benchmark_yaml": (37,), "csv": (27, 30), "jsonl": (31,), "json": (32,), "parquet": (35,), "zip": (24,), "tar": (24,),
    "compressed": (25,), "pdf": (38,), "ground_truth": (39,), "stream": (48,), "reply": (47,), "judge_reply": (51,),
    "urls": (6, 19),
}  # fmt: skip


@pytest.fixture(scope="module")
def fuzzer() -> Iterator[Fuzzer]:
    with Fuzzer() as fuzzer:
        yield fuzzer


@pytest.mark.parametrize(
    "parser", [pytest.param(name, marks=[pytest.mark.fault(*ROWS[name])] if name in ROWS else []) for name in PARSERS]
)
def test_any_input_is_read_or_refused_by_name(parser: str, fuzzer: Fuzzer) -> None:
    failures, outcomes = fuzzer.run(parser, 0, AT_ONCE)

    assert not failures, "\n\n".join(f"{one.what}\n{one.command}" for one in failures[:3])
    assert outcomes.total() == AT_ONCE
    # Mutations that nothing survives, or everything, would show nothing; text of any kind is a URL or an answer.
    assert outcomes["read"] > 0.05 * AT_ONCE
    assert outcomes["read"] < AT_ONCE or parser in {"urls", "answer", "stored_state"}
