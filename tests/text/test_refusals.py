"""A refusal is an answer that says it does not know, or that the documents do not tell; a reservation is none.

`refusals.txt` and `answers.txt` hold one example a line; lines that begin with `#` are headings.
"""

from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.lexical import LexicalJudge
from rag_eval_pipeline.systems.parsing import AnswerReader
from rag_eval_pipeline.text.normalise import plain
from rag_eval_pipeline.text.refusals import find_refusal, is_refusing
from tests.systems.conftest import corpus_in


def examples(name):
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


REFUSALS, ANSWERS = examples("refusals.txt"), examples("answers.txt")


def test_refusals_are_found_among_answers():
    assert [answer for answer in REFUSALS if not find_refusal(plain(answer)).is_refusal] == []
    assert [answer for answer in ANSWERS if find_refusal(plain(answer)).is_refusal] == []


def test_abstention_and_judge_decide_alike(tmp_path):
    reader, judge = AnswerReader(corpus_in(tmp_path)), LexicalJudge()
    refusals = [answer for answer in REFUSALS if any(map(str.isalnum, plain(answer)))]
    answers = [*refusals, *ANSWERS]

    verdicts = [judge.judge_case(Case("1", "Who?", ("Ada",), False, answer)).correctness.verdict for answer in answers]

    expected = [True] * len(refusals) + [False] * len(ANSWERS)
    assert [reader.abstained(answer) for answer in answers] == expected
    assert [verdict == "refused" for verdict in verdicts] == expected


def test_sentence_that_goes_on_to_answer_is_a_claim():
    assert is_refusing("I don't have details of the survey.")
    assert not is_refusing("I don't have details of the survey, but the headings were 11 cm out of line.")
    assert is_refusing("I don't have details of the survey, but I cannot find the year either.")


FAMILIES = {
    "I don't know.": "no_know",
    "I cannot determine it.": "cannot",
    "The passages do not say.": "context",
    "There is no mention of it.": "absent",
    "That is beyond my capabilities.": "policy",
    "Désolé.": "other_language",
    "": "empty",
}


def test_refusal_has_its_families():
    assert {answer: find_refusal(plain(answer)).families for answer in FAMILIES} == {
        answer: (family,) for answer, family in FAMILIES.items()
    }


@given(
    answer=st.sampled_from([text for text in (*REFUSALS, *ANSWERS) if "[" not in text and text]),
    mark=st.sampled_from(["[a.pdf:5:12-30]", "[1]", "【4†source】", "[file.pdf#page=4]"]),
    emphasis=st.sampled_from(["**", "__", "***"]),
    bullet=st.sampled_from(["", "- ", "> ", "1. "]),
)
@example('"I cannot find that in the documents."', "[1]", "**", "- ")
def test_citations_and_markdown_change_nothing(answer, mark, emphasis, bullet):
    first, space, rest = answer.partition(" ")
    dressed = f"{bullet}{emphasis}{first}{emphasis}{space}{rest} {mark}"

    assert find_refusal(plain(dressed)) == find_refusal(plain(answer))
