"""A row is a question as it stands, or it is refused with field, expectation and finding; nothing is repaired."""

import datetime
import decimal

import pytest

from rag_eval_pipeline.conversion.questions import NamedContext, RowError, check_url, validate_row


def draft(**values):
    return validate_row({"question": "Who?", "answer": "She.", **values})


def test_white_space_of_question_and_answer_is_kept():
    found = draft(question="  Who?\n", answer="\tShe. ")
    assert (found.question, found.answer) == ("  Who?\n", "\tShe. ")


ANSWERS = {
    "aliases after the answer, each once": ({"answer": "a", "answers": ["b", "a", "b"]}, "a", ("a", "b")),
    "aliases alone: the first is the answer": ({"answer": None, "answers": ["b", "c"]}, "b", ("b", "c")),
    "a whole number": ({"answer": 7}, "7", ("7",)),
    "a whole number in a column of doubles": ({"answer": 12.0}, "12", ("12",)),
    "a number with a fraction": ({"answer": 0.1}, "0.1", ("0.1",)),
    "a boolean": ({"answer": True}, "true", ("true",)),
    "one alias that is a number": ({"answer": None, "answers": 7}, "7", ("7",)),
    "impossible with the source's own words": ({"answer": "I do not know", "is_impossible": True}, "I do not know", ()),
    "impossible with plausible answers, which do not leak": (
        {"answer": "", "answers": ["wrong"], "is_impossible": True},
        "",
        (),
    ),
}


@pytest.mark.parametrize(("values", "answer", "answers"), ANSWERS.values(), ids=ANSWERS)
def test_answers(values, answer, answers):
    found = draft(**values)
    assert (found.answer, found.answers) == (answer, answers)


TRUE = (True, "true", "TRUE", "1", 1)
FALSE = (False, "false", "False", "0", 0, None)


def test_is_impossible_has_a_list_of_spellings_and_no_others():
    assert all(draft(is_impossible=value).is_impossible is True for value in TRUE)
    assert all(draft(is_impossible=value).is_impossible is False for value in FALSE)


FAULTS = {
    "a blank question": ({"question": " \n"}, "empty_question", "question"),
    "a question that is a number": ({"question": 7}, "bad_type", "question"),
    "an answer that is a list": ({"answer": ["a"]}, "bad_type", "answer"),
    "no answer": ({"answer": None}, "empty_answer", "answer"),
    "an empty alias": ({"answers": ["a", ""]}, "empty_answer", "answers"),
    "NUL in a question": ({"question": "a\x00"}, "bad_character", "question"),
    "a question of 10 MB": ({"question": "a" * 10_000_001}, "text_too_long", "question"),
    "impossible: no": ({"is_impossible": "no"}, "bad_boolean", "is_impossible"),
    "a URL that is a note": ({"urls": ["NOT REQUIRED"]}, "bad_url", "urls"),
    "urls of another type": ({"urls": 7}, "bad_type", "urls"),
    "a context without anything": ({"contexts": [{"file": None, "text": None}]}, "empty_context", "contexts"),
    "a context of two documents": ({"contexts": [{"file": "a", "url": "https://a.org"}]}, "bad_context", "contexts"),
    "a context with a bad URL": ({"contexts": [{"url": "file:///etc/passwd"}]}, "bad_url", "contexts.url"),
    "a context with a field that none has": ({"contexts": [{"text": "t", "doc": "d"}]}, "bad_context", "contexts"),
    "a grade below zero": ({"contexts": [{"document": "d", "relevance": -1}]}, "bad_relevance", "contexts.relevance"),
    "a grade that no column holds": (
        {"contexts": [{"document": "d", "relevance": 2**63}]},
        "bad_relevance",
        "contexts.relevance",
    ),
    "a page that no column holds": (
        {"contexts": [{"document": "d", "page": decimal.Decimal(10**25)}]},
        "bad_page",
        "contexts.page",
    ),
    "an end that no column holds": (
        {"contexts": [{"document": "d", "start": 3, "end": 10**25}]},
        "bad_span",
        "contexts.end",
    ),
    "a span without end": ({"contexts": [{"document": "d", "start": 3}]}, "bad_span", "contexts"),
    "a negative start": ({"contexts": [{"document": "d", "start": -1, "end": 3}]}, "bad_span", "contexts.start"),
    "a start that is true": ({"contexts": [{"document": "d", "start": True, "end": 3}]}, "bad_span", "contexts.start"),
    "page 0": ({"contexts": [{"document": "d", "page": 0}]}, "bad_page", "contexts.page"),
    "metadata that is no object": ({"metadata": "[1]"}, "bad_metadata", "metadata"),
    "metadata in which a key stands twice": ({"metadata": '{"a": {"b": 1, "b": 2}}'}, "duplicate_key", "metadata"),
    "metadata in which two keys are one as text": ({"metadata": [(1, "x"), ("1", "y")]}, "duplicate_key", "metadata"),
    "metadata with half a character": ({"metadata": '"\\ud800"'}, "bad_encoding", "metadata"),
    "metadata with infinity": ({"metadata": {"a": float("inf")}}, "bad_number", "metadata"),
}


@pytest.mark.parametrize(("values", "code", "field"), FAULTS.values(), ids=FAULTS)
def test_faults(values, code, field):
    with pytest.raises(RowError) as caught:
        draft(**values)
    assert (caught.value.code, caught.value.field) == (code, field)


CONTEXTS = {
    "urls": (
        {"urls": ["https://a.org", "http://b.org/x#y"]},
        [NamedContext(url="https://a.org"), NamedContext(url="http://b.org/x#y")],
    ),
    "the empty cell of a CSV": ({"urls": ""}, []),
    "texts": ({"contexts": ["gold"]}, [NamedContext(text="gold")]),
    "a file with page and span": (
        {"contexts": [{"file": "a.pdf", "text": "t", "page": 2, "start": 0, "end": decimal.Decimal(4)}]},
        [NamedContext(file="a.pdf", text="t", page=2, start=0, end=4)],
    ),
}


@pytest.mark.parametrize(("values", "expected"), CONTEXTS.values(), ids=CONTEXTS)
def test_contexts(values, expected):
    assert list(draft(**values).contexts) == expected


def test_words_that_the_specification_does_not_know_are_kept_in_metadata():
    found = draft(query_type="bridge", difficulty="hard", metadata={"level": 3})

    assert (found.query_type, found.difficulty) == (None, "hard")
    assert found.metadata == {"level": 3, "query_type_source": "bridge"}
    assert found.notes == ("query_type: 'bridge' is kept as metadata.query_type_source",)


def test_metadata_becomes_json():
    found = draft(
        metadata={
            "day": datetime.date(2024, 9, 19),
            "n": decimal.Decimal("1.50"),
            "map": [("a", 1)],
            "list": [None, True],
        }
    )
    assert found.metadata == {"day": "2024-09-19", "n": 1.5, "map": {"a": 1}, "list": [None, True]}


URLS = {
    "https": ("https://en.wikipedia.org/wiki/Diana,_Princess_of_Wales", True),
    "a fragment, a port, parentheses, an apostrophe": ("http://a.org:8080/O'Neil_(x)?q=1#b/c", True),
    "letters beyond ASCII": ("https://münchen.de/Hiyō", True),
    "no scheme": ("en.wikipedia.org/wiki/Ada", False),
    "no host but a user": ("http://#@a.org", False),
    "a user": ("https://user:pw@a.org", False),
    "a blank": ("https://a.org/x y", False),
    "a line end": ("https://a.org/\r\nHost: b", False),
    "a backslash": ("https://a.org\\@b.org", False),
    "NUL, encoded": ("https://a.org/%00", False),
    "digits of another script in an address": ("http://①②⑦.0.0.1/", False),
    "a port that is none": ("http://a.org:99999/", False),
    "half a character": ("http://a.org/\ud800", False),
}


@pytest.mark.parametrize(("url", "good"), URLS.values(), ids=URLS)
def test_urls(url, good):
    if good:
        assert check_url(url) == url
        return
    with pytest.raises(RowError) as caught:
        check_url(url)
    assert caught.value.code == "bad_url"
