"""Gzip and YAML are read strictly: damage and anything that could be more than data is an error with its place."""

import gzip

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage import json_files as io
from rag_eval_pipeline.storage.json_files import read_json
from rag_eval_pipeline.storage.yaml_files import DATA, parse_yaml, read_settings, read_yaml, resolve_scalars

DAMAGED = {
    "nothing": (b"", "bad_json"),  # an empty archive
    "no gzip": (b"{}", "bad_gzip"),
    "half of it": (gzip.compress(b'["a"]' * 99)[:-9], "bad_gzip"),
    "NaN inside": (gzip.compress(b"[NaN]"), "bad_json"),
}


@pytest.mark.parametrize(("packed", "code"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_gzip_is_an_error_that_names_its_file(packed, code, tmp_path):
    path = tmp_path / "x.json.gz"
    path.write_bytes(packed)

    with pytest.raises(InputError, match=r"x\.json\.gz") as error:
        read_json(path)
    assert error.value.code == code


def test_gunzip_reserves_no_memory_for_the_most_that_it_allows(monkeypatch):
    monkeypatch.setattr(io, "MAX_UNPACKED_BYTES", 1 << 60)

    assert io.gunzip(gzip.compress(b"text"), "x.gz") == b"text"


def read(tmp_path, text):
    path = tmp_path / "x.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_yaml(path, "x.yaml")


@pytest.mark.fault(37)
def test_yaml_keeps_unquoted_scalars_as_text(tmp_path):
    value = read(tmp_path, "language: no\nversion: 1.10\noctal: 010\ntime: 1:30\ndate: 2024-09-19\nyes: on\n").value

    assert value == {"language": "no", "version": "1.10", "octal": "010", "time": "1:30", "date": "2024-09-19", "yes": "on"}  # fmt: skip


def test_yaml_settings_have_types_and_lines(tmp_path):
    path = tmp_path / "x.yaml"
    long, endless = "9" * 100, "9" * 5000
    path.write_text(
        "k: [1, 2.5, true, no, '1', \"true\", 010, 1e3, null, ~, -3, .5]\n"
        f"b:\n  c: [1e999, -1e999, .inf, .nan, 1e-999, {long}, {endless}]\n  d:\n    - x\n    - y\n"
    )

    settings, document = read_settings(path), read_yaml(path, "x.yaml")

    assert settings["k"] == [1, 2.5, True, "no", "1", "true", "010", 1000.0, None, None, -3, 0.5]
    assert [type(item) for item in settings["k"][:4]] == [int, float, bool, str]
    assert settings["b"]["c"] == ["1e999", "-1e999", ".inf", ".nan", 0.0, int(long), endless]
    assert resolve_scalars(document.value) == settings
    assert [document.line(place) for place in (("k",), ("b", "c"), ("b", "d", 1), ("b", "absent"))] == [1, 3, 6, 2]


def test_yaml_settings_may_be_empty_or_missing(tmp_path):
    path = tmp_path / "x.yaml"
    assert read_settings(path, missing_ok=True) == {}
    with pytest.raises(InputError, match="missing_file"):
        read_settings(path)
    path.write_text("# nothing\n")
    assert read_settings(path) == {}
    path.write_text("- 1\n")
    with pytest.raises(InputError, match="bad_yaml"):
        read_settings(path)


REFUSED = {
    "a tag that would build an object": "a: 1\nb: !!python/object/apply:os.system [ls]\n",
    "an alias, of which nine levels make a billion items": "a: &x [1]\nb: *x\n",
    "a repeated key, of which the last would win": "a: 1\na: 2\n",
    "a second document": "a: 1\n---\nb: 2\n",
    "a collection as key": "? [1]\n: 2\n",
    "nesting that would exhaust the stack": "[" * 100_000,
}


@pytest.mark.fault(37)
@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_yaml_refuses_what_is_more_than_data(tmp_path, text):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)

    assert caught.value.code == "bad_yaml"
    assert "line " in caught.value.file


def test_yaml_names_bad_bytes_and_missing_files(tmp_path):
    with pytest.raises(InputError, match="byte 6") as caught:
        read(tmp_path, b"name: \xe9")
    assert caught.value.code == "bad_encoding"
    with pytest.raises(InputError) as caught:
        read_yaml(tmp_path / "absent.yaml", "absent.yaml")
    assert (caught.value.code, caught.value.file) == ("missing_spec", "absent.yaml")


def test_yaml_data_may_be_larger_and_deeper_than_settings():
    for text in (("[" * 100 + "]" * 100).encode(), b"a: " + b"x" * 2_000_000):
        parse_yaml(text, "x.yaml", DATA)
        with pytest.raises(InputError) as caught:
            parse_yaml(text, "x.yaml")
        assert caught.value.code == "bad_yaml"
