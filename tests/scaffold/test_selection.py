"""Of several files `init` takes the one with the most of a question, and says which it left out and why."""

import json

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.scaffold import profile
from tests.scaffold.test_shapes import jsonl

ROW = {"question": "A?", "answer": "a"}


def guess(proposal, key):
    """The one guess about a key, without its name."""
    [found] = [text.removeprefix(f"{key}: ") for text in proposal.guesses if text.startswith(f"{key}: ")]
    return found


def test_file_with_the_most_of_a_question_is_taken_and_the_others_are_named_with_reasons(started):
    files = {
        "about.csv": "name,founded\nx,1900\n",
        "drafts.jsonl": jsonl({"question": "A?"}),
        "questions.jsonl": jsonl({**ROW, "evidence": "It is a."}),
    }

    assert guess(started(files), "source") == (
        "questions.jsonl (score 9: question, answer, documents). Left out: about.csv (score 0: no question), "
        "drafts.jsonl (score 4: question)."
    )


def test_of_equal_files_the_one_with_a_systems_answers_is_left_out(started):
    files = {name: jsonl({**ROW, "documents": ["d"]}) for name in ("answer.jsonl", "ground_truth.jsonl")}
    proposal = started(files)

    assert "source: ground_truth.jsonl\n" in proposal.text
    assert "answer.jsonl (named as if a system had answered)" in guess(proposal, "source")


def test_file_that_is_named_like_a_systems_answers_is_taken_with_a_warning(started):
    assert "check that its answers are right" in guess(started({"answer.jsonl": jsonl(ROW)}), "source")


def test_files_of_one_object_are_one_relation(planned):
    rows = ({**ROW, "contexts": [{"text": "It is a."}]}, {**ROW, "question": "B?", "contexts": []})
    found = planned({f"qa/{place}.json": jsonl(row) for place, row in enumerate(rows)})

    assert [question.question for question in found.questions] == ["A?", "B?"]


def test_xml_files_of_one_element_are_documents_and_one_without_rows_is_named(started):
    case = '<case id="{}"><question>Where?</question><answer>Here {}.</answer><see n="1"/><see n="2"/></case>'
    cases = {f"{place % 2}/{place}.xml": case.format(place, place) for place in range(5)}
    assert 'source: {path: "*/*.xml", root: "$"}\n' in started(cases).text


def test_xml_file_is_read_by_its_list_and_one_without_is_named(started):
    item = "<item><question>{0}?</question><answer>{0}.</answer></item>"
    proposal = started({"faq.xml": f"<faq>{item.format('A')}{item.format('B')}</faq>", "pom.xml": "<project/>"})

    assert "source: faq.xml\n" in proposal.text
    assert any("pom.xml was not read: expected one outermost list" in text for text in proposal.guesses)


SQUAD_ROW = {"question": "A?", "context": "It is a.", "answers": {"text": ["a"], "answer_start": [6]}}
SPLITS = {
    "by columns": (ROW, ("train", "validation", "test"), "test"),
    "by shape": (SQUAD_ROW, ("train", "validation"), "validation"),
}


@pytest.mark.parametrize(("row", "splits", "taken"), SPLITS.values(), ids=SPLITS)
def test_split_to_test_with_is_taken(started, row, splits, taken):
    proposal = started({f"data/{split}.jsonl": jsonl(row) for split in splits})

    assert f"source: data/{taken}.jsonl\n" in proposal.text
    others = "data/train.jsonl (the columns of the source; to use both, list them as `source`)"
    assert others in guess(proposal, "source")


def test_every_language_of_nested_articles_is_named(started):
    article = {"title": "T", "paragraphs": [{"context": "It is a.", "qas": [{"question": "A?", "answers": []}]}]}
    files = {f"xquad.{language}.json": f'{{"data": {jsonl([article]).strip()}}}' for language in ("de", "en")}

    assert "Left out: xquad.en.json (data) (the columns of the source" in guess(started(files), "source")


def test_documents_that_nothing_leads_to_are_named(started):
    proposal = started({"q.csv": "question,answer,url\nA?,a,https://a.org/1\n", "notes/x.pdf": b"%PDF-"})

    [left_out] = [text for text in proposal.guesses if "were left out" in text]
    assert left_out.endswith("because nothing leads to them: notes/x.pdf.")


def test_what_the_reader_decided_about_a_file_is_said(started):
    content = "question,answer\nA?,a\n"

    assert "data/test: 1 of its 2 files are read." in started({"data/test-00000-of-00002.csv": content}).guesses


def test_of_large_rows_fewer_are_read(started, monkeypatch):
    monkeypatch.setattr(profile, "SAMPLE_BYTES", 10_000)

    text = started({"q.jsonl": jsonl(*({**ROW, "page": "x" * 1_000} for _ in range(101)))}).text

    assert "Values of q.jsonl were read from the first 100 rows only." in text


SAVE = "Save documents as PDF, and tables of questions as .xlsx or CSV."


def test_what_is_not_read_is_said_in_one_line_for_a_kind_and_a_reason(started):
    files = {
        "q.csv": "question,answer\nA?,a\n",
        **{f"{number:02}.docx": b"PK\x03\x04" for number in range(40)},
        **{f"{number:02}.json": "{" for number in range(12)},
        **{f"{number:02}.pt": b"\x00" for number in range(10)},
        "bad.parquet": b"PAR1", "old.ppt": b"x", "uv.lock": "x", "Makefile": "all:", "README": "x", "pay.pdf": b"%PDF-",
    }  # fmt: skip
    said = started(files).guesses

    assert [line.partition(", found")[0] for line in said if "not read" in line or "other kinds" in line] == [
        f"40 .docx files were not read (00.docx, 01.docx, 02.docx, ...). {SAVE}",
        f"old.ppt was not read. {SAVE}",
        "12 .json files were not read (00.json, 01.json, 02.json, ...); of the first: expected JSON: Expecting "
        "property name enclosed in double quotes at character 1",
        "bad.parquet was not read: expected a whole parquet or Arrow file",
        "Files of other kinds (.pt, .lock, no suffix) were left out: 12.",
    ]


def test_documents_of_office_programs_alone_are_refused_with_what_to_do(started):
    with pytest.raises(InputError, match=r"Travel\.docx was not read\. Save documents as PDF, and tables") as raised:
        started({"Travel.docx": b"PK\x03\x04", "pay.pdf": b"%PDF-"})

    assert raised.value.code == "nothing_to_propose"


def test_refused_files_are_named_with_their_remedies(started):
    rows = '{\n  "question": "A?"\n}\n{\n  "question": "B?"\n}\n'
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    with pytest.raises(InputError) as raised:
        started({"q.jsonl": rows, "q.parquet": pointer, "q.xlsx": b"\xd0\xcf\x11\xe0", "pay.pdf": b"%PDF-"})

    remedies = (
        "write each on one line",
        "Fetch the file itself: git lfs pull.",
        "Save it as .xlsx, without a password.",
    )
    assert all(remedy in str(raised.value) for remedy in ("q.jsonl was not read: ", *remedies))


def test_objects_by_split_and_id_are_rows_of_the_split_to_test_with(started):
    content = {split: {f"{split}-1": {"question": f"{split}?", "answer": {"text": "a"}}} for split in ("train", "dev")}

    assert 'source: {path: q.json, root: "dev.*"}' in started({"q.json": json.dumps(content)}).text


def test_rows_with_nan_are_read(planned):
    row = '{"question": "A?", "answer": "a", "score": NaN}\n'
    found = planned({"q.jsonl": row})

    assert [question.answers for question in found.questions] == [("a",)]
    assert found.counts.quarantined == 0
