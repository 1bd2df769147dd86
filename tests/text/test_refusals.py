"""A refusal is an answer that says it does not know, or that the documents do not tell; a reservation is none.

`refusals.txt` and `answers.txt` hold one example a line; lines that begin with `#` are headings.
"""

import re
from importlib import resources
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.lexical import LexicalJudge
from rag_eval_pipeline.systems.parsing import AnswerReader
from rag_eval_pipeline.text.folding import plain
from rag_eval_pipeline.text.refusals import find_refusal, is_refusing, knows_language
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


LANGUAGES = yaml.safe_load(Path(__file__).with_name("refusals_by_language.yaml").read_text(encoding="utf-8"))
HELD_OUT = {
    # language: refusals found, answers taken for refusals, of 15 each
    "en": (13, 0), "de": (15, 0), "fr": (14, 0), "es": (15, 1), "it": (15, 1), "pt": (15, 0), "nl": (14, 0),
    "zh": (14, 0), "tr": (15, 0),
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_refusals_in_languages(language):
    rows, held_out = LANGUAGES[language], LANGUAGES[language]["held_out"]

    assert [answer for answer in rows["refusals"] if not find_refusal(plain(answer)).is_refusal] == []
    assert [answer for answer in rows["answers"] if find_refusal(plain(answer)).is_refusal] == []
    counts = [
        sum(find_refusal(plain(answer)).is_refusal for answer in held_out[kind]) for kind in ("refusals", "answers")
    ]
    assert counts == list(HELD_OUT[language])


def test_phrase_of_refusal_has_an_example():
    text = resources.files("rag_eval_pipeline.text").joinpath("refusal_words.yaml").read_text(encoding="utf-8")
    phrases = [(one, example) for row in yaml.safe_load(text).values() for one, example in row["phrases"].items()]

    assert [example for phrase, example in phrases if not re.search(phrase, example.lower())] == []
    assert [example for _, example in phrases if not find_refusal(plain(example)).is_refusal] == []


QUESTIONS = {
    "Who built the mill?": True,
    "Wer hat die Mühle gebaut?": True,
    "Değirmeni kim yaptı?": True,
    "谁建造了磨坊？": True,
    "Vem byggde kvarnen?": False,
    "Kuka rakensi myllyn?": False,
    "Ποιος έχτισε τον μύλο;": False,
}


def test_language_of_a_question_is_known_by_its_words():
    assert {question: knows_language(question) for question in QUESTIONS} == QUESTIONS


FAMILIES = {
    "I don't know.": "no_know",
    "I cannot determine it.": "cannot",
    "The passages do not say.": "context",
    "There is no mention of it.": "absent",
    "That is beyond my capabilities.": "policy",
    "Je ne sais pas.": "other_language",
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
