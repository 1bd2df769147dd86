"""What JSON leaves to its reader is refused; YAML keeps unquoted scalars as they are written."""

import gzip

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.plain_files import read_plain
from rag_eval_pipeline.formats.yaml_reader import Plain

REFUSED = {
    #                                                        content                       code
    "a key twice, of which the last would win":             (b'{"a": 1, "a": 2}',          "bad_json"),
    "a key twice, deep inside":                             (b'[{"b": {"a": 1, "a": 2}}]', "bad_json"),
    "NaN":                                                  (b'{"a": NaN}',                "bad_json"),
    "an infinity":                                          (b'[-Infinity]',               "bad_json"),
    "a number that becomes an infinity":                    (b'[1e999]',                   "bad_json"),
    "a number of 5,000 digits":                             (b'[' + b'9' * 5000 + b']',    "bad_json"),
    "half of a surrogate pair, which no file can carry":    (b'["\\ud800"]',               "bad_json"),
    "nesting that would exhaust the stack":                 (b'[' * 100_000,               "bad_json"),
    "a cut file":                                           (b'{"a": [1, 2',               "bad_json"),
    "a second value":                                       (b'{}{}',                      "bad_json"),
    "nothing":                                              (b'',                          "bad_json"),
    "bytes of another encoding":                            (b'["\xe9"]',                  "bad_encoding"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "code"), REFUSED.values(), ids=REFUSED)
def test_refused(content, code, tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(content)

    with pytest.raises(InputError) as caught:
        read_plain(path)

    assert caught.value.code == code
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_and_a_whole_surrogate_pair_are_fine(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b'\xef\xbb\xbf["\\ud83d\\ude00", 1.10, 12]')

    assert read_plain(path) == ["\U0001f600", 1.1, 12]


def test_gzip_is_opened(tmp_path):
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(b'{"a": [1, null]}'))

    assert read_plain(path) == {"a": [1, None]}


def test_a_cut_gzip_is_named(tmp_path):
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}')[:-4])

    with pytest.raises(InputError) as caught:
        read_plain(path)

    assert caught.value.code == "bad_gzip"


def test_unquoted_yaml_keeps_its_spelling(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text('id: 007\nlanguage: no\nquoted: "1"\n')

    value = read_plain(path)

    assert value == {"id": "007", "language": "no", "quoted": "1"}
    assert isinstance(value["id"], Plain)
    assert not isinstance(value["quoted"], Plain)


@pytest.mark.parametrize(("name", "code"), [("absent.json", "missing_file"), ("absent.yaml", "missing_file"), ("absent.json.gz", "missing_file"), ("x.csv", "unknown_form")])  # fmt: skip
def test_files_that_cannot_be_read_at_all(name, code, tmp_path):
    with pytest.raises(InputError) as caught:
        read_plain(tmp_path / name)

    assert caught.value.code == code
