"""What is odd about questions is named with the number of rows and the first of them; the rows stay."""

import json

import pytest

from rag_eval_pipeline.conversion.planning import plan
from tests.conversion.conftest import HEAD

SPEC = HEAD + "source: q.csv\nquestions: {question: question, answer: answer, is_impossible: mark}\n"
SHORT = SPEC.replace(", is_impossible: mark", "")

# The rows of a CSV with the columns question and answer; what a sentence has to contain.
FINDINGS = {
    "a header in other letters":       (["How deep?,31 m", "Question,ANSWER", "Who?,Ada"],
                                     ["(1 row: q.csv, row 2)", "`where: question NOT IN ('Question')`"]),
    "totals, units and types":      (["How deep?,31 m", "Total,66", "(text),(string)", "Who?,Ada"],
                                     ["look like totals, units or types, not like questions (2 rows: q.csv, rows 2, 3): 'Total', '(text)'."]),
    "words for no answer":          (["A?,NULL", "B?,n/a", "C?,-", "D?,keine Angabe", r"E?,\N", "F?,#REF!", "G?,31 m"],
                                     ["(6 rows: q.csv, rows 1, 2, 3 and 3 more)",
                                      r"answer NOT IN ('NULL', 'n/a', '-', 'keine Angabe', '\N', ...)"]),
    "swapped columns":              (["31 metres,How deep is it?", "Ada,Who built it?", "1904,When?"],
                                     ["(3 rows: q.csv, rows 1, 2, 3)", "swapped"]),
    "answers that are the question": (["How deep is it?,how deep is it? ", "Who?,Ada"], ["equal to their questions (1 row"]),
    "letters":                      (["Which?,B", "What?,c)", "Who?,Ada"], ["(2 rows: q.csv, rows 1, 2)", "'B', 'c)'"]),
    "true and false":               (["Is it?,TRUE", "Was it?,false", "Who?,Ada"], ["'TRUE', 'false' are the only"]),
    "HTML entities":                (["Who&#39;s he?,Ada", "Which firm?,Smith &amp; Co", "AT&T;?,R&D"],
                                     ["(2 rows: q.csv, rows 1, 2)"]),
    "another encoding":             (["Wo?,MÃ¼nchen", "Qui?,«CAFÉ»", "Wie?,er sagte „Spaß“", "Who?,itâ€™s him"],
                                     ["(2 rows: q.csv, rows 1, 4)", "If the file itself shows them so, repair them"]),
    "another answer":               (["How deep?,31 m", "how deep? ,9 m", "Who?,Ada", "How deep?,31 m"],
                                     ["1 question is asked more than once with different answers (3 rows: q.csv, rows 1, 2, 4)"]),
    "the same answer":              (["How deep?,31 m", "How deep?,31 M"], ["with the same answer (2 rows"]),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "parts"), FINDINGS.values(), ids=FINDINGS)
def test_odd_questions_are_named_with_their_rows(benchmark, rows, parts):
    found = plan(benchmark(SHORT, {"q.csv": "\n".join(["question,answer", *rows])}))

    [note] = found.notes
    assert [part for part in parts if part not in note] == []
    assert found.counts.accepted == len(rows)


def test_total_whose_word_is_in_another_column_is_named(benchmark):
    found = plan(benchmark(SPEC, {"q.csv": "no,question,answer,mark\n1,How deep?,31 m,\nTotal,2,,true\n"}))

    [note] = found.notes
    assert "look like totals" in note
    assert "'2'" in note


def test_history_that_ends_with_the_gold_answer_is_named(benchmark):
    said = [{"role": "user", "content": "when was it dug"}, {"role": "assistant", "content": "It was dug in 1874."}]
    rows = [
        {"q": "When was the dock dug?", "a": "1874", "h": said},
        {"q": "And how deep?", "a": "31 m", "h": said},
        {"q": "Was it 187 years ago?", "a": "187", "h": said},
    ]
    spec = HEAD + "source: q.json\nquestions: {question: q, answer: a, history: h}\n"
    found = plan(benchmark(spec, {"q.json": json.dumps(rows)}))

    [note] = found.notes
    assert note.startswith("history: the history ends with")
    assert "(1 row: q.json, row 1), such as '1874'" in note


@pytest.mark.parametrize(
    "stated", [{"history": []}, {"history": [1]}, {"was": {"history": [1]}}, {"history": ["1874"]}]
)
def test_metadata_of_a_source_that_is_called_history_is_no_history(stated, benchmark):
    spec = HEAD + "source: q.json\nquestions: SELECT q AS question, a AS answer, m AS metadata FROM source\n"
    rows = [{"q": "When was the dock dug?", "a": "1874", "m": stated}]

    found = plan(benchmark(spec, {"q.json": json.dumps(rows)}))

    assert (found.counts.accepted, list(found.notes)) == (1, [])


def test_mark_that_is_read_the_wrong_way_round_is_named(benchmark):
    rows = "question,answer,mark\nA?,31 m,true\nB?,not in the documents,false\nC?,,true\nD?,Unanswerable.,true\n"
    found = plan(benchmark(SPEC, {"q.csv": rows}))

    assert [note.partition(":")[0] for note in found.notes[:2]] == ["answer", "is_impossible"]
    assert "such as '31 m' (1 row: q.csv, row 1)" in found.notes[1]


def test_usual_questions_have_no_findings(benchmark):
    rows = (
        "What is 2 + 2?,4\nWho?,nobody\nWhich letter?,A\nWhy?,because of É» and Ü\nIs it &?,no\nWhich total?,sum of A-B"
    )
    found = plan(benchmark(SHORT, {"q.csv": "question,answer\n" + rows}))

    assert found.notes == []
