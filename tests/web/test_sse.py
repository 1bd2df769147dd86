"""Events do not depend on how their bytes are cut, and every form that servers send is parsed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.web.sse import EventParser, json_values, parse_events

FORMS = {
    "with a space":                    (b"data: a\n\n",                              [("a", None)]),
    "only one space is dropped":       (b"data:  a\n\n",                             [(" a", None)]),
    "a name holds for one event":      (b"event: x\ndata: a\n\ndata: b\n\n",         [("a", "x"), ("b", None)]),
    "several lines are one event":     (b"data: a\ndata: b\n\n",                     [("a\nb", None)]),
    "carriage returns":                (b"data: a\rdata: b\r\rdata: c\r\r",          [("a\nb", None), ("c", None)]),
    "both":                            (b"data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", [("a\nb", None), ("c", None)]),
    "comments and keep-alives":        (b": ping\n\n\n\n:\ndata: a\n:in between\ndata: b\n\n", [("a\nb", None)]),
    "an event without data":           (b"event: ping\n\ndata\n\ndata:\n\n",         []),
    "bare JSON lines":                 (b'{"a": 1}\n{"a": 2}\n',                     [('{"a": 1}', None), ('{"a": 2}', None)]),
    "bare JSON after data":            (b'data: x\n{"a": 2}\n',                      [("x", None), ('{"a": 2}', None)]),
    "no empty line at the end":        (b"data: a\n\ndata: [DONE]",                  [("a", None), ("[DONE]", None)]),
    "a byte order mark":               (b"\xef\xbb\xbfdata: a\n\n",                  [("a", None)]),
    "bytes that are no UTF-8":         (b"data: a\xffb\n\n",                         [("a\ufffdb", None)]),
    "line separators of Unicode":      ("data: a\u2028b\x85c\n\n".encode(),          [("a\u2028b\x85c", None)]),
    "nothing":                         (b"",                                         []),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), FORMS.values(), ids=FORMS)
def test_events_of_a_whole_body_and_byte_by_byte(body, expected):
    parser = EventParser()
    single = [event for at in range(len(body)) for event in parser.feed(body[at : at + 1])] + parser.close()

    assert [(event.data, event.event) for event in parse_events(body)] == expected
    assert [(event.data, event.event) for event in single] == expected


def test_events_of_a_cut_body_are_the_finished_ones():
    assert [event.data for event in EventParser().feed(b"data: a\n\ndata: b\n")] == ["a"]


PIECES = st.sampled_from(
    [b"data:", b" ", b"\r", b"\n", b"\r\n", b"event: x", b": c", b'{"a":1}', b"[DONE]", "é€𝄞".encode(), b"\xff", b"id"]
)


@pytest.mark.fault(48)
@given(pieces=st.lists(PIECES, max_size=30), cuts=st.lists(st.integers(1, 5), max_size=200))
def test_events_do_not_depend_on_chunks(pieces, cuts):
    body = b"".join(pieces)
    parser, events, at = EventParser(), [], 0
    for size in cuts:
        events += parser.feed(body[at : at + size])
        at += size
    events += [*parser.feed(body[at:]), *parser.close()]

    assert events == parse_events(body)


VALUES = {
    "one": ('{"a": 1}', [{"a": 1}]),
    "one a line": ('{"a": 1}\n{"a": 2}', [{"a": 1}, {"a": 2}]),
    "one and the end": ('{"a": 1}\n[DONE]', [{"a": 1}]),
    "cut": ('{"a": 1', None),
    "nested too deeply": ("[" * 100_000, None),
    "nested too deeply on its second line": ("{}\n" + "[" * 100_000, None),
}


@pytest.mark.parametrize(("data", "expected"), VALUES.values(), ids=VALUES)
def test_json_values_of_an_event(data, expected):
    if expected is not None:
        assert json_values(data) == expected
        return
    with pytest.raises(ValueError):  # noqa: PT011  # msgspec's errors are a kind of it
        json_values(data)
