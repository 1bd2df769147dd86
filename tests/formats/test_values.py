"""Fields take what they are, and unquoted YAML; nothing else becomes a number, a truth or a time."""

from datetime import UTC, datetime

import pydantic
import pytest

from rag_eval_pipeline.formats.fields import Moment, Number, Offset, Open, Score, Share, Text, Truth, Version
from rag_eval_pipeline.formats.yaml import Unquoted

READ = {
    #                                       type     value                              read
    "an offset":                           (Offset,  12,                                12),
    "a whole number as a score":           (Share,   1,                                 1.0),
    "a time of another zone":              (Moment,  "2024-01-15T12:30:45.5+02:00",     datetime(2024, 1, 15, 10, 30, 45, 500_000, UTC)),
    "a version":                           (Version, "v1.2.0",                          "v1.2.0"),
}  # fmt: skip

REFUSED = {
    "a truth as an offset, though it is an int": (Offset, True),
    "a float as an offset":                      (Offset, 12.0),
    "a text as an offset":                       (Offset, "12"),
    "a negative offset":                         (Offset, -1),
    "a negative unquoted offset":                (Offset, Unquoted("-1")),
    "a truth as a number":                       (Number, True),
    "a text as a number":                        (Number, "0.9"),
    "NaN":                                       (Number, float("nan")),
    "a number that no float holds":              (Number, 10**400),
    "a share above one":                         (Share, 1.01),
    "one as a truth":                            (Truth, 1),
    "a text as a truth":                         (Truth, "true"),
    "a time without a zone":                     (Moment, "2024-01-15T10:30:45"),
    "a number as a time":                        (Moment, 1705314645),
    "digits as a time":                          (Moment, "1705314645"),
    "a time before all times in UTC":            (Moment, "0001-01-01T00:00:00+14:00"),
    "a version of two parts":                    (Version, "1.2"),
    "an infinity in an open object":             (Open, {"a": [float("inf")]}),
    "a lone surrogate in an open object":        (Open, {"a": "\ud800"}),
    "a lone surrogate in a text":                (Text, "\ud800"),
    "bytes in an open object":                   (Open, {"a": b"x"}),
    "a key that is no text":                     (Open, {"a": {1: 2}}),
    "an infinite score":                         (Score, float("-inf")),
    "a list as a score":                         (Score, [1]),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "expected"), READ.values(), ids=READ)
def test_read(kind, value, expected):
    assert pydantic.TypeAdapter(kind).validate_python(value) == expected


@pytest.mark.parametrize(("kind", "value"), REFUSED.values(), ids=REFUSED)
def test_refused(kind, value):
    with pytest.raises(pydantic.ValidationError):
        pydantic.TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize("score", [1, 1.0, True, False, 0, 0.0, "excellent", "", None, 4, 1e300])
def test_a_score_keeps_its_kind(score):
    adapter = pydantic.TypeAdapter(Score)

    again = adapter.validate_json(adapter.dump_json(adapter.validate_python(score)))

    assert (again, type(again)) == (score, type(score))
