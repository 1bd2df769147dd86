"""YAML is read as data: text stays text, and what could be more than data is refused with its line."""

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.yaml import DATA, parse_yaml, read_settings, read_yaml, resolve_scalars


def read(tmp_path, text):
    path = tmp_path / "x.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_yaml(path, "x.yaml")


def test_unquoted_scalars_stay_the_text_they_are(tmp_path):
    text = "language: no\nversion: 1.10\noctal: 010\ntime: 1:30\ndate: 2024-09-19\nyes: on\n"

    assert read(tmp_path, text).value == {
        "language": "no",
        "version": "1.10",
        "octal": "010",
        "time": "1:30",
        "date": "2024-09-19",
        "yes": "on",
    }


def test_plain_values_are_read_when_asked_for_and_quoted_ones_never(tmp_path):
    text = "k: [1, 2.5, true, no, '1', \"true\", 010, 1e3, null, ~]\n"

    value = resolve_scalars(read(tmp_path, text).value)

    assert value == {"k": [1, 2.5, True, "no", "1", "true", "010", 1000.0, None, None]}


def test_each_key_has_its_line(tmp_path):
    document = read(tmp_path, "a: 1\nb:\n  c: 2\n  d:\n    - x\n    - y\n")

    assert [document.line(path) for path in (("a",), ("b", "c"), ("b", "d", 1), ("b", "absent"))] == [1, 3, 6, 2]


REFUSED = {
    "a tag that would build an object": "a: 1\nb: !!python/object/apply:os.system [ls]\n",
    "an alias, of which nine levels make a billion items": "a: &x [1]\nb: *x\n",
    "a repeated key, of which the last would win": "a: 1\na: 2\n",
    "a second document": "a: 1\n---\nb: 2\n",
    "a collection as key": "? [1]\n: 2\n",
    "nesting that would exhaust the stack": "[" * 100_000,
    "an unclosed bracket": "a: [1\n",
    "a tab as indentation": "a:\n\tb: 1\n",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_refused(tmp_path, text):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)

    assert caught.value.code == "bad_yaml"
    assert "line " in caught.value.file


def test_bytes_that_are_no_utf8_are_an_error_with_their_place(tmp_path):
    with pytest.raises(InputError, match="byte 6") as caught:
        read(tmp_path, b"name: \xe9")
    assert caught.value.code == "bad_encoding"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError) as caught:
        read_yaml(tmp_path / "absent.yaml", "absent.yaml")
    assert (caught.value.code, caught.value.file) == ("missing_spec", "absent.yaml")


def test_settings_have_their_types(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("k: 10\nlanguage: no\nversion: '1.10'\nrerank: true\nbounds: [-3, .5, 1e-3]\n")

    assert read_settings(path) == {
        "k": 10,
        "language": "no",
        "version": "1.10",
        "rerank": True,
        "bounds": [-3, 0.5, 0.001],
    }


def test_a_number_that_no_float_can_hold_stays_text(tmp_path):
    assert resolve_scalars(read(tmp_path, "[1e999, -1e999, .inf, .nan, 1e-999]\n").value) == [
        "1e999",
        "-1e999",
        ".inf",
        ".nan",
        0.0,
    ]


def test_whole_numbers_may_be_long_and_not_endless(tmp_path):
    long, endless = "9" * 100, "9" * 5000

    assert resolve_scalars(read(tmp_path, f"[{long}, {endless}]\n").value) == [int(long), endless]


def test_data_may_be_larger_and_deeper_than_settings():
    deep = ("[" * 100 + "]" * 100).encode()

    parse_yaml(deep, "x.yaml", DATA)
    parse_yaml(b"a: " + b"x" * 2_000_000, "x.yaml", DATA)
    for text in (deep, b"a: " + b"x" * 2_000_000):
        with pytest.raises(InputError) as caught:
            parse_yaml(text, "x.yaml")
        assert caught.value.code == "bad_yaml"
