"""A row is a question as it stands, or it is refused with field, expectation and finding; nothing is repaired."""

import datetime
import decimal
import json

import pyarrow as pa
import pytest

from rag_eval_pipeline.conversion.question_spool import questions_of
from rag_eval_pipeline.conversion.questions import Context, metadata_of
from rag_eval_pipeline.conversion.row_rules import BatchValidation
from rag_eval_pipeline.conversion.sql_checks import TRACE_FILE, TRACE_ITEM, TRACE_ROW
from rag_eval_pipeline.sources.arrow_types import JSON_TEXT
from rag_eval_pipeline.sources.batches import RowError


def resolve(contexts):
    return [Context(c.document, c.file, c.text, c.page, c.start, c.end, c.relevance, c.url) for c in contexts]


def validate(rows, *, as_json=False, **options):
    if as_json:  # as columns whose values share no type are kept
        rows = [{name: None if v is None else json.dumps(v) for name, v in row.items()} for row in rows]
    batch = pa.RecordBatch.from_pylist([{**row, TRACE_FILE: "f", TRACE_ROW: 1, TRACE_ITEM: "#1"} for row in rows])
    if as_json:
        own = [field if field.name.startswith("__") else field.with_metadata(JSON_TEXT) for field in batch.schema]
        batch = batch.cast(pa.schema(own))
    ids = pa.array(range(len(rows)), pa.int64())
    return BatchValidation(batch, ids, resolve, **{"retrieval_only": False, "skip_bad_urls": False} | options)


def draft(**values):
    found = validate([{"question": "Who?", "answer": "She.", **values}])
    for error in found.errors.values():
        raise error
    return questions_of(found.questions)[0]


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


@pytest.mark.fault(34)
def test_is_impossible_has_a_list_of_spellings_and_no_others():
    assert all(draft(is_impossible=value).is_impossible is True for value in TRUE)
    assert all(draft(is_impossible=value).is_impossible is False for value in FALSE)


SAID = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]
HISTORIES = {
    "OpenAI": SAID,
    "ShareGPT": [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Hello!"}],
    "MTRAG, with the question": [
        *({"speaker": "user", "text": "Hello"}, {"speaker": "agent", "text": "Hello!"}),
        {"speaker": "user", "text": "Who?"},
    ],
    "LangChain": [
        *({"type": "human", "content": "Hello"}, {"type": "ai", "data": {"content": "Hello!"}}),
    ],
    "a question and its answer": [["Hello", "Hello!"]],
    "an object of both": [{"human": "Hello", "ai": "Hello!"}],
    "lines that begin with who speaks": "User: Hello\nAssistant: Hello!",
    "OpenAI, with the question and its answer": [
        *SAID,
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "content": "Ada"},
    ],
    "JSON in a cell": json.dumps(SAID),
    "Python's notation, as pandas writes it": str(SAID),
}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_messages_before_a_question_are_its_history(history):
    found = draft(conversation="c1", turn="2", history=history, metadata={"topic": "x"})
    assert found.metadata == {"topic": "x", "conversation": "c1", "turn": 2, "history": SAID}
    assert draft(conversation=None, turn=None, history=[]).metadata == {}


FACTS = [{"text": "It is red", "importance": "vital"}, {"text": "It is old", "importance": "okay"}]
STATED = {
    "AutoNuggetizer": FACTS,
    "BenchmarkQED": [{"statement": "It is red", "score": 10}, {"statement": "It is old", "importance": "okay"}],
    "a text, in JSON": json.dumps(["It is red", FACTS[1]]),
}


@pytest.mark.parametrize("facts", STATED.values(), ids=STATED)
def test_facts_are_kept_and_stand_in_for_answers_where_there_are_none(facts):
    assert draft(facts=facts).metadata == {"facts": FACTS}
    assert draft(facts=[]).metadata == {}
    assert [one["text"] for one in draft(facts="[31, 0.5, true]").metadata["facts"]] == ["31", "0.5", "true"]

    alone = validate([{"question": "Who?", "facts": facts}, {"question": "Who else?", "facts": None}])
    beside = validate([{"question": "Who?", "answer": None, "facts": facts}])
    faults = [(error.code, error.field) for error in (alone.errors[1], beside.errors[0])]
    assert faults == [("empty_answer", "facts"), ("empty_answer", "answer")]
    assert [(one.answer, one.metadata) for one in questions_of(alone.questions)] == [("", {"facts": FACTS})]


FAULTS = {
    "a fact of unknown importance": ({"facts": [{"text": "x", "importance": "high"}]}, "bad_fact", "facts"),
    "a fact in a list of its own": ({"facts": [["x"]]}, "bad_type", "facts"),
    "a fact without a text": ({"facts": [{"importance": "okay"}]}, "bad_fact", "facts"),
    "facts that are no list": ({"facts": "It is red"}, "bad_fact", "facts"),
    "a turn that is no number": ({"turn": "second"}, "bad_turn", "turn"),
    "a message of nobody known": ({"history": [{"role": "tool", "content": "x"}]}, "bad_history", "history"),
    "a history that is no list": ({"history": "Hello"}, "bad_history", "history"),
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
        {"contexts": [{"document": "d", "relevance": decimal.Decimal(2**63)}]},
        "bad_relevance",
        "contexts.relevance",
    ),
    "a page that no column holds": (
        {"contexts": [{"document": "d", "page": decimal.Decimal(10**25)}]},
        "bad_page",
        "contexts.page",
    ),
    "an end that no column holds": (
        {"contexts": [{"document": "d", "start": 3, "end": decimal.Decimal(10**25)}]},
        "bad_span",
        "contexts.end",
    ),
    "a span without end": ({"contexts": [{"document": "d", "start": 3}]}, "bad_span", "contexts"),
    "a negative start": ({"contexts": [{"document": "d", "start": -1, "end": 3}]}, "bad_span", "contexts.start"),
    "a start that is true": ({"contexts": [{"document": "d", "start": True, "end": 3}]}, "bad_span", "contexts.start"),
    "page 0": ({"contexts": [{"document": "d", "page": 0}]}, "bad_page", "contexts.page"),
    "metadata that is no object": ({"metadata": "[1]"}, "bad_metadata", "metadata"),
    "metadata in which a key stands twice": ({"metadata": '{"a": {"b": 1, "b": 2}}'}, "duplicate_key", "metadata"),
    "metadata with half a character": ({"metadata": '"\\ud800"'}, "bad_encoding", "metadata"),
    "metadata with infinity": ({"metadata": {"a": float("inf")}}, "bad_number", "metadata"),
}


@pytest.mark.parametrize(("value", "hint"), [([["a"]], "flatten(answers)"), ([{"text": "a"}], "answers.text")])
def test_answer_inside_another_value_is_refused_with_the_sql_that_reads_it(value, hint):
    with pytest.raises(RowError) as caught:
        draft(answers=value)
    assert hint in caught.value.expected


@pytest.mark.fault(34)
@pytest.mark.parametrize(("values", "code", "field"), FAULTS.values(), ids=FAULTS)
def test_faults(values, code, field):
    with pytest.raises(RowError) as caught:
        draft(**values)
    assert (caught.value.code, caught.value.field) == (code, field)


CONTEXTS = {
    "urls": (
        {"urls": ["https://a.org", "http://b.org/x#y"]},
        [Context(None, None, url="https://a.org"), Context(None, None, url="http://b.org/x#y")],
    ),
    "the empty cell of a CSV": ({"urls": ""}, []),
    "texts": ({"contexts": ["gold"]}, [Context(None, None, text="gold")]),
    "a file with page and span": (
        {"contexts": [{"file": "a.pdf", "text": "t", "page": 2, "start": 0, "end": decimal.Decimal(4)}]},
        [Context(None, "a.pdf", text="t", page=2, start=0, end=4)],
    ),
}


@pytest.mark.parametrize(("values", "expected"), CONTEXTS.values(), ids=CONTEXTS)
def test_contexts(values, expected):
    assert list(draft(**values).contexts) == expected


def test_words_that_the_specification_does_not_know_are_kept_in_metadata():
    found = draft(query_type="bridge", difficulty="hard", metadata={"level": 3})

    assert (found.query_type, found.difficulty) == (None, "hard")
    assert found.metadata == {"level": 3, "query_type_source": "bridge"}


def test_metadata_becomes_json():
    found = metadata_of(
        {"day": datetime.date(2024, 9, 19), "n": decimal.Decimal("1.50"), "map": [("a", 1)], "list": [None, True]}
    )
    assert found == {"day": "2024-09-19", "n": 1.5, "map": {"a": 1}, "list": [None, True]}


def test_metadata_in_which_two_keys_are_one_as_text_is_refused():
    with pytest.raises(RowError) as caught:
        metadata_of([(1, "x"), ("1", "y")])
    assert (caught.value.code, caught.value.field) == ("duplicate_key", "metadata")


def test_row_is_refused_for_the_first_rule_that_it_breaks_and_the_others_are_questions():
    rows = [
        {"question": " ", "answer": "a", "urls": ["x"], "query_type": "bridge"},
        {"question": "q", "answer": "a", "urls": ["https://a.org/?b&amp;c"], "query_type": "bridge"},
        {"question": "q", "answer": "a", "urls": ["https://a.org", "x"], "query_type": "factual"},
    ]

    strict, lenient = validate(rows), validate(rows, skip_bad_urls=True)

    assert {row: error.code for row, error in strict.errors.items()} == {0: "empty_question", 2: "bad_url"}
    assert [question.id for question in questions_of(strict.questions)] == [1]
    assert strict.notes == [
        "urls: `&amp;` is read as `&`",
        "query_type: 'bridge' is kept as metadata.query_type_source",
    ]
    assert [question.id for question in questions_of(lenient.questions)] == [1, 2]
    assert lenient.bad_urls == ["'x'"]


def test_columns_of_texts_become_the_same_questions_as_values_of_mixed_types():
    rows = [
        {"question": "Who?", "source_id": "7", "urls": ["https://a.org", "https://b.org"], "query_type": "factual"},
        {"question": " 東京?", "source_id": "8", "urls": None, "difficulty": "hard"},
        {"question": "Where?", "source_id": "9", "urls": ["https://b.org"], "difficulty": "easy"},
    ]
    rows = [{"query_type": "temporal", "difficulty": "medium", "answer": "She.", **row} for row in rows]
    faults = [
        {"question": " "}, {"question": None}, {"question": "a\x00"}, {"urls": ["https://a.org", "ftp://b.org"]},
        {"urls": ["https://a.org/?b&amp;c"]}, {"urls": ["https://a.org", None]}, {"source_id": ""},
        {"source_id": "\x00"}, {"query_type": "bridge"}, {"difficulty": ""}, {"difficulty": None},
    ]  # fmt: skip

    for fault in [{}, *faults]:
        mixed = [*rows, {**rows[0], **fault}]
        texts, values = validate(mixed), validate(mixed, as_json=True)

        assert texts.questions == values.questions
        assert texts.notes == values.notes
        assert {row: vars(error) for row, error in texts.errors.items()} == {
            row: vars(error) for row, error in values.errors.items()
        }
