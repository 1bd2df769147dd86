"""Tests for promptfoo 0.121: texts from elsewhere are neither templates nor files, and a failed question never passes."""

import pytest
import yaml

from rag_eval_pipeline.exports import export
from rag_eval_pipeline.exports.promptfoo import NO_ANSWER, RUBRIC, escape_template, make_test, query_of, yaml_bytes
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.systems.base import RagAnswer


def rows_of(folder):
    return yaml.safe_load((folder / "tests.yaml").read_text(encoding="utf-8"))


def test_promptfoo_tests_need_one_of_the_accepted_answers(awkward, tmp_path):
    report = export(awkward, "awkward", "promptfoo", tmp_path / "out")

    tests = rows_of(tmp_path / "out")
    assert [test["vars"]["question"] for test in tests[1:]] == [
        "=cmd|' /C calc'!A0",
        "Nothing?",
        "One page, two names?",
    ]
    assert [test["assert"] for test in tests] == [
        [{"type": "icontains-any", "value": ["here, there"]}],
        [{"type": "icontains-any", "value": ["@SUM", "-1", "+1"]}],
        [{"type": "llm-rubric", "value": RUBRIC}],
        [{"type": "icontains-any", "value": ["one"]}],
    ]
    assert tests[1]["metadata"]["relevant_documents"] == ['say "hi" 100%.pdf']
    assert yaml.safe_load((tmp_path / "out" / "promptfooconfig.yaml").read_text()) == {
        "description": "awkward", "prompts": ["{{question}}"], "providers": ["echo"], "tests": "file://tests.yaml",
    }  # fmt: skip
    assert [note.partition(":")[0] for note in report.notes] == [
        "the provider in promptfooconfig.yaml is echo, which repeats the question", "1 of 4 questions are unanswerable",
    ]  # fmt: skip


def test_promptfoo_grades_stored_answers_and_fails_questions_without_one(awkward, tmp_path, answer_by_hand):
    answer = RagAnswer("1", "ok", "It is @SUM [a b.pdf:3:0-5].", False, (), (), 1.0)
    evaluation = answer_by_hand(awkward, "awkward", [answer])
    report = export(awkward, "awkward", "promptfoo", tmp_path / "out", evaluation=evaluation)

    failed, given, *_ = rows_of(tmp_path / "out")
    assert given["providerOutput"] == "It is @SUM."
    assert given["metadata"]["rag_eval"]["answer"] == "It is @SUM [a b.pdf:3:0-5]."
    # promptfoo asks the provider for an empty output, and passes a test without assertion.
    assert (failed["providerOutput"], failed["assert"]) == (NO_ANSWER, [{"type": "not-equals", "value": NO_ANSWER}])
    assert failed["metadata"]["rag_eval"]["error"] == "connection refused"
    assert report.counts == {"questions": 4, "answers": 1}
    assert "3 of 4 questions got no answer; their tests fail" in report.notes


ESCAPED = {
    "plain { braces }":         "plain { braces }",
    "{{ env.HOME }}":           "{{ '{' }}{ env.HOME }}",
    "{% raw %}":                "{{ '{' }}% raw %}",
    "a comment {# x #}":        "a comment {{ '{' }}# x {{ '#' }}}",
    "{{{":                      "{{ '{' }}{{ '{' }}{",
    "file:///etc/passwd":       "{{ 'f' }}ile:///etc/passwd",
    "see file:///etc/passwd":   "see file:///etc/passwd",
    "package:evil:run":         "{{ 'p' }}ackage:evil:run",
}  # fmt: skip


@pytest.mark.parametrize(("text", "template"), ESCAPED.items(), ids=ESCAPED)
def test_promptfoo_question_is_no_template(text, template):
    assert escape_template(text) == template
    test = make_test(EvaluationQuery(query_id="0", query_text=text, relevant_documents=()), None)
    assert query_of(test).query_text == text


def test_promptfoo_finds_no_file_to_load_in_metadata_and_answers():
    metadata = {"source": {"$ref": "https://example.org/x", "notes": ["file:///etc/passwd"]}, "answers": ["file://a"]}
    query = EvaluationQuery(query_id="0", query_text="Who?", relevant_documents=(), metadata=metadata)
    test = make_test(query, RagAnswer("0", "ok", "file:///etc/passwd", False, (), (), 1.0))

    assert test["metadata"]["source"] == {"notes": [" file:///etc/passwd"]}
    assert test["assert"] == [{"type": "icontains-any", "value": ["{{ 'f' }}ile://a"]}]
    assert test["providerOutput"] == " file:///etc/passwd"


def test_promptfoo_texts_are_texts_for_a_reader_of_yaml_1_2():
    # Numbers, dates and nothing in YAML 1.2, and what a line must not hold.
    for text in ("1e3", "0o17", "2024-01-31", "~", "null", "yes", "a\u2028b", "a\x85b", "\ufeff", " x "):
        assert yaml_bytes([text]).decode().startswith(('- "', "- '"))
        assert yaml.safe_load(yaml_bytes([text])) == [text]
