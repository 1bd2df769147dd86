"""A compressed file is recognised by its content, and its stream is whole or an error; a bomb fills no memory."""

import bz2
import gzip
import lzma
import tracemalloc
import zlib

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.compression import UNPACKED, detect_compression, open_decoded


def zstandard(data):
    return pa.compress(data, codec="zstd", asbytes=True)


COMPRESS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard}
SKIPPABLE = b"\x50\x2a\x4d\x18\x04\0\0\0size"  # a zstandard frame of 4 bytes without data
ROWS = b'{"question": "Who?", "answer": "Ada"}\n' * 1000


@pytest.fixture(params=COMPRESS)
def kind(request):
    return request.param


def decoded(path, data, kind, **limits):
    path.write_bytes(data)
    with open_decoded(path, kind, shown="data/x", **limits) as stream:
        return stream.read()


def refusal(path, data, kind, **limits):
    with pytest.raises(InputError) as refused:
        decoded(path, data, kind, **limits)
    return refused.value


def test_skippable_frames_of_zstandard_are_skipped(tmp_path):
    data = SKIPPABLE + zstandard(ROWS) + SKIPPABLE

    assert detect_compression(data) == "zst"
    assert decoded(tmp_path / "x", data, "zst") == ROWS


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_zeros_after_the_end_are_padding(tmp_path, kind):
    assert decoded(tmp_path / "x", COMPRESS[kind](ROWS) + bytes(300_000), kind) == ROWS


SAMPLES = {
    "gzip": (gzip.compress(b"x"), "gz"),
    "bzip2": (bz2.compress(b"x"), "bz2"),
    "xz": (lzma.compress(b"x"), "xz"),
    "zstandard": (zstandard(b"x"), "zst"),
    "a CSV that begins like bzip2": (b"BZh9,question\n", None),
    "a zip": (b"PK\x03\x04\x14\0\0\0\0\0", None),
}


@pytest.mark.parametrize(("sample", "expected"), SAMPLES.values(), ids=SAMPLES)
def test_compression_is_detected_by_content(sample, expected):
    assert detect_compression(sample) == expected


def damaged(kind):
    data = COMPRESS[kind](ROWS)
    return {
        "cut in its middle": data[: len(data) // 2],
        "cut in its second member": data + data[:-3],
        "followed by something else": data + b"and more",
        "altered at its start": data[:10] + b"\xff" * 12 + data[22:],
        "not compressed": ROWS,
    }


@pytest.mark.parametrize("damage", damaged("gz"))
def test_damaged_data_is_refused_with_its_place(tmp_path, kind, damage):
    error = refusal(tmp_path / "x", damaged(kind)[damage], kind)

    assert (error.code, error.file) == ("bad_compression", "data/x")
    assert "(byte " in error.found


def test_wrong_checksum_of_zstandard_is_damage(tmp_path):
    # "question,answer\nWho?,Ada\n" as the zstd command wrote it, with its checksum at the end; Arrow writes none.
    data = bytes.fromhex("28b52ffd0458c900007175657374696f6e2c616e737765720a57686f3f2c4164610a267c1a34")

    assert decoded(tmp_path / "x", data, "zst") == b"question,answer\nWho?,Ada\n"
    assert refusal(tmp_path / "x", data.replace(b"Ada", b"Eve"), "zst").code == "bad_compression"


def test_data_compressed_twice_is_refused(tmp_path, kind):
    error = refusal(tmp_path / "x", COMPRESS[kind](gzip.compress(ROWS)), kind)

    assert error.code == "double_compression"
    assert f"gz data inside {kind} data" in error.found


def test_what_is_larger_than_the_limit_is_refused(tmp_path, kind):
    data = COMPRESS[kind](ROWS)

    assert decoded(tmp_path / "x", data, kind, limits=UNPACKED._replace(max_bytes=len(ROWS))) == ROWS
    assert refusal(tmp_path / "x", data, kind, limits=UNPACKED._replace(max_bytes=len(ROWS) - 1)).code == "archive_bomb"


def zeros(kind, size):
    """That many zeros in members of 1 MB each."""
    return COMPRESS[kind](bytes(1_000_000)) * (size // 1_000_000)


def test_high_ratio_is_refused_once_it_could_do_harm(tmp_path, kind):
    assert len(decoded(tmp_path / "x", zeros(kind, UNPACKED.floor_bytes), kind)) == UNPACKED.floor_bytes
    assert refusal(tmp_path / "x", zeros(kind, 200_000_000), kind).code == "archive_bomb"


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_bomb_is_decoded_within_flat_memory(tmp_path, kind):
    (tmp_path / "x").write_bytes(COMPRESS[kind](bytes(30_000_000)))
    tracemalloc.start()
    try:
        with open_decoded(tmp_path / "x", kind, shown="x", limits=UNPACKED._replace(ratio=1e9)) as stream:
            assert sum(map(len, iter(lambda: stream.read(65_536), b""))) == 30_000_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 16_000_000  # of which xz takes 8 MiB for its dictionary


def test_xz_dictionary_beyond_the_memory_is_refused(tmp_path):
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    # The block's header says 1 GiB (size code 36); the encoder would need ten times as much to write it itself.
    small = bytearray(lzma.compress(b"x" * 1000, filters=[{**filters[0], "dict_size": 1 << 20}]))
    header = small[12 : 12 + (small[12] + 1) * 4]
    assert header[4] == 16  # size code of 1 MiB
    header[4] = 36
    header[-4:] = zlib.crc32(bytes(header[:-4])).to_bytes(4, "little")
    small[12 : 12 + len(header)] = header

    error = refusal(tmp_path / "x", bytes(small), "xz")

    assert error.code == "bad_compression"
    assert "Memory usage limit" in error.found


@settings(deadline=None)
@given(st.sampled_from(list(COMPRESS)), st.lists(st.binary(max_size=500), min_size=1, max_size=6), st.integers(1, 300))
def test_any_members_come_out_in_pieces_of_any_size(tmp_path_factory, kind, parts, size):
    path = tmp_path_factory.getbasetemp() / "members"
    parts = [b"." * 10, *parts]  # so that no part can pass for compressed data
    path.write_bytes(b"".join(map(COMPRESS[kind], parts)))

    with open_decoded(path, kind, shown="x") as stream:
        assert b"".join(iter(lambda: stream.read(size), b"")) == b"".join(parts)
