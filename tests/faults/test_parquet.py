"""Rows 35 and 36: a parquet file that is damaged, strange or made to hurt costs itself, in bounded memory.

Cut files and texts that are no text: tests/sources/test_readers.py (TestParquet).
"""

import io
import json
import os
import random
import re
import subprocess
import sys
import textwrap

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources import decoder
from rag_eval_pipeline.sources.batches import InputFile
from rag_eval_pipeline.sources.compression import DECODED
from rag_eval_pipeline.sources.parquet import plain_type, read_parquet
from rag_eval_pipeline.sources.source_spec import SourceSpec
from tests.conftest import REPOSITORY
from tests.conversion.conftest import HEAD


def parquet(table, **options):
    file = io.BytesIO()
    pq.write_table(pa.table(table) if isinstance(table, dict) else table, file, **options)
    return file.getvalue()


def pieces(raw):
    return list(read_parquet(io.BytesIO(raw), InputFile(None, "f", "f", SourceSpec(path=("f",)))))


GOOD = parquet({"q": ["Who?", "What?"], "a": ["She.", "It."]})

REFUSED = {
    "another length of the footer": (GOOD[:-8] + b"\xff\xff\xff\x7f" + GOOD[-4:], "bad_parquet"),
    "a footer of zeros": (GOOD[:-60] + bytes(52) + GOOD[-8:], "bad_parquet"),
    "a column twice": (parquet(pa.table([["x"], ["y"], ["z"]], names=["q", "q", "a"])), "duplicate_column"),
    "columns that differ in case": (parquet({"q": ["x"], "Q": ["y"], "a": ["z"]}), "duplicate_column"),
    "no column": (parquet(pa.table({})), "empty_source"),
}  # fmt: skip


@pytest.mark.fault(35)
@pytest.mark.parametrize(("raw", "code"), REFUSED.values(), ids=REFUSED)
def test_file_that_cannot_be_told_is_refused_by_name(raw, code, refuse):
    assert refuse(raw, "f.parquet").code == code


PLAIN = {
    "a category, in row groups with dictionaries of their own": (pa.array(["u", "v"]).dictionary_encode(), ["u", "v"]),
    "an extension type": (
        pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.int32(), [2]), pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))
        ),
        [[1, 2], [3, 4]],
    ),
    "a decimal of 50 digits": (pa.array(["1.50", None]).cast(pa.decimal256(50, 2)), ["1.50", None]),
    "structs and maps": (
        pa.array([{"m": [("k", 1)]}, None], pa.struct([("m", pa.map_(pa.string(), pa.int64()))])),
        [{"m": {"k": 1}}, None],
    ),
}


@pytest.mark.fault(35)
@pytest.mark.parametrize(("column", "expected"), PLAIN.values(), ids=PLAIN)
def test_what_only_its_writer_knows_is_read_as_what_it_holds(column, expected, benchmark):
    raw = parquet({"q": ["x", "y"], "a": ["x", "y"], "c": column}, row_group_size=1)
    select = "questions: |\n  SELECT q AS question, a AS answer, {'c': c} AS metadata FROM source\n"

    found = plan(benchmark(f"{HEAD}source: f.parquet\n{select}", {"f.parquet": raw}))

    assert [question.metadata for question in found.questions] == [{"c": value} for value in expected]


@pytest.mark.fault(35)
def test_no_type_is_registered_or_kept_that_could_run_code():
    class Foreign(pa.ExtensionType):
        def __init__(self):
            super().__init__(pa.string(), "tests.foreign")

        def __arrow_ext_serialize__(self):
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage, serialized):
            return cls()

    nested = pa.struct([("l", pa.large_list(Foreign())), ("d", pa.dictionary(pa.int8(), Foreign()))])

    assert plain_type(nested) == pa.struct([("l", pa.large_list(pa.string())), ("d", pa.string())])


@pytest.mark.fault(35)
def test_changed_bytes_are_read_or_refused_and_never_a_crash():
    raw = parquet({"q": [f"question {n}" for n in range(200)], "n": list(range(200))}, write_page_checksum=True)
    random.seed(20261121)
    refused = 0
    for _ in range(12):
        changed = bytearray(raw)
        for _ in range(3):
            changed[random.randrange(len(raw))] = random.randrange(256)
        try:
            pieces(bytes(changed))
        except InputError as error:
            assert error.code == "bad_parquet"  # noqa: PT017
            refused += 1
    assert refused


@pytest.mark.fault(35)
def test_page_whose_checksum_is_wrong_is_refused():
    raw = parquet({"q": ["marker of the page"] * 3}, write_page_checksum=True, compression="none", use_dictionary=False)
    statistics = 2  # of the page have the text, too, and stand before its data
    place = [match.start() for match in re.finditer(b"marker", raw)][statistics]

    with pytest.raises(InputError, match="bad_parquet"):
        pieces(raw[:place] + b"market" + raw[place + 6 :])


def value_bomb(rows, size):
    """One value of some size that stands in every row: the file holds it once, and compressed."""
    value = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["z" * size]))
    return parquet({"q": value}, compression="zstd")


LIMITS = {
    # the limit, its value here, a file that needs more, what is said
    "decoded bytes": (
        "DECODED",
        DECODED._replace(floor_bytes=50_000_000),
        (4_000, 100_000),
        "at most 50,000,000 decoded bytes",
    ),
    "memory of a row": ("MEMORY_BYTES", 64 << 20, (1, 80_000_000), "within 64 MB"),
    "time": ("DEADLINE_S", 0.01, (1, 1), "decoded within 0.01 s"),
}


@pytest.mark.fault(36)
@pytest.mark.usefixtures("started_workers")
@pytest.mark.parametrize(("limit", "value", "size", "message"), LIMITS.values(), ids=LIMITS)
def test_file_that_decodes_to_more_than_the_limits_allow_is_refused(limit, value, size, message, monkeypatch):
    monkeypatch.setattr(decoder, limit, value)
    raw = value_bomb(*size)

    with pytest.raises(InputError, match=message) as caught:
        pieces(raw)

    assert len(raw) < 50_000
    assert caught.value.code == "bad_parquet"


def test_large_rows_come_in_small_batches_and_in_order():
    sizes = [10] * 3_000 + [3_000_000] * 8 + [10] * 3_000
    texts = [os.urandom(size // 2).hex() for size in sizes]

    found = pieces(parquet({"q": texts}, compression="none"))

    assert [value for piece in found for value in piece.rows.column(0).to_pylist()] == texts
    assert [number for piece in found for number in piece.numbers] == list(range(1, len(texts) + 1))
    assert max(piece.rows.nbytes for piece in found) < 20_000_000


@pytest.mark.fault(36)
def test_bomb_leaves_the_reading_processs_memory_as_it_was(tmp_path):
    """44 kB were seen to become 403 MB; here 30 kB become 200 MB, which are fewer than are allowed, and are read."""
    (tmp_path / "small.parquet").write_bytes(GOOD)
    (tmp_path / "bomb.parquet").write_bytes(value_bomb(2_000, 100_000))
    code = """
        import json, resource, sys
        from pathlib import Path
        from rag_eval_pipeline.sources.batches import InputFile
        from rag_eval_pipeline.sources.parquet import read_parquet
        from rag_eval_pipeline.sources.source_spec import SourceSpec

        def read(name):
            path = Path(sys.argv[1]) / name
            with path.open("rb") as handle:
                file = InputFile(path, name, name, SourceSpec(path=(name,)))
                size = sum(piece.rows.nbytes for piece in read_parquet(handle, file))
            return size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

        print(json.dumps([read("small.parquet"), read("bomb.parquet")]))
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]

    done = subprocess.run(command, capture_output=True, check=True, cwd=REPOSITORY)

    (_, before), (size, after) = json.loads(done.stdout)
    assert size > 200_000_000
    assert after - before < 80_000_000
