"""The embedded system retrieves, cites and abstains, and does so equally in every process."""

import asyncio
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.systems.base import PageText, Query
from rag_eval_pipeline.systems.embedded_bm25 import (
    EmbeddedSystem,
    inverse_document_frequency,
    split_passages,
    split_sentences,
)
from rag_eval_pipeline.systems.kind_settings import EmbeddedSettings
from rag_eval_pipeline.systems.parsing import ABSTENTION
from tests.systems.conftest import PAGES

TEXT = st.text(st.sampled_from("aB1 .!?\n'\"(é"), max_size=80)
LIT = "When was the Marsh Point light first lit?"


def ask(question, pages=PAGES, **settings):
    system = EmbeddedSystem(pages, EmbeddedSettings(**settings))
    return asyncio.run(system.answer(Query("1", question)))


def test_sentences_do_not_end_at_abbreviations_and_decimals():
    page = PageText(
        "a.pdf",
        1,
        0,
        "Dr. Smith measured 3.5 m. See Fig. 3 and\nSec. 2 of Prof. Li. It was lit in 1887.[2] No. 4 stayed dark.\n\nthen",
    )

    assert [s.text for s in split_sentences(page)] == [
        "Dr. Smith measured 3.5 m.", "See Fig. 3 and\nSec. 2 of Prof. Li.", "It was lit in 1887.[2]", "No. 4 stayed dark.", "then",
    ]  # fmt: skip


@given(text=TEXT, start=st.integers(0, 1000))
def test_sentences_have_their_offsets_and_lose_no_word(text, start):
    found = list(split_sentences(PageText("a.pdf", 1, start, text)))

    assert all(text[s.start - start : s.end - start] == s.text for s in found)
    assert "".join("".join(s.text.split()) for s in found) == "".join(text.split())


@given(text=TEXT, words=st.integers(1, 20))
def test_passages_hold_every_sentence_once_in_order(text, words):
    page = PageText("a.pdf", 1, 0, text)

    found = list(split_passages([page], words=words))

    assert [s for passage in found for s in passage.sentences] == list(split_sentences(page))
    assert all(len(p.text.split()) <= words or len(p.sentences) == 1 for p in found)


ANSWERS = {
    "date":             (LIT, {}, "3 May 1887 [light.pdf:1:0-64]", (0, 64)),
    "document offsets": ("When was the harbour of Tollan built?", {}, "1901 [tollan.pdf:2:9-49]", (9, 49)),
    "name":             ("Who first lit the Marsh Point light?", {}, "Ada Thorne [light.pdf:1:0-64]", (0, 64)),
    "number":           ("How tall is the light's tower?", {}, "31 metres [light.pdf:1:65-93]", (65, 93)),
    "sentence":         (LIT, {"answer": "sentence"}, "The Marsh Point light was first lit on 3 May 1887 by Ada Thorne. [light.pdf:1:0-64]", (0, 64)),
}  # fmt: skip


@pytest.mark.parametrize(("question", "settings", "expected", "span"), ANSWERS.values(), ids=ANSWERS)
def test_answer_carries_its_citation(question, settings, expected, span):
    answer = ask(question, **settings)

    assert answer.answer == expected
    assert [(c.start_char, c.end_char) for c in answer.citations] == [span]


def test_name_is_no_first_word_of_a_sentence():
    pages = [PageText("boats.pdf", 1, 0, "Boats carried Ada Thorne.")]

    assert ask("Who was carried?", pages, abstention_threshold=0.0).answer == "Ada Thorne [boats.pdf:1:0-25]"


def test_rare_terms_weigh_more():
    assert inverse_document_frequency(["rope lamp", "lamp"]) == {"rope": math.log(3), "lamp": math.log(2)}


def test_abstention_follows_from_the_threshold():
    answer = ask("Which bishop blessed the wooden chapel?")

    assert (answer.answer, answer.abstained, answer.citations, answer.status) == (ABSTENTION, True, (), "ok")
    assert not ask("Which bishop blessed the harbour chapel?", abstention_threshold=0.0).abstained
    nothing = ask("?", abstention_threshold=0.0)
    assert (nothing.abstained, nothing.contexts) == (True, ())


def test_ties_are_ordered_by_document():
    pages = [PageText(name, 1, 0, "The ferry sails at noon.") for name in ("c.pdf", "a.pdf", "b.pdf")]

    answer = ask("When does the ferry sail?", pages)

    assert [context.document for context in answer.contexts] == ["a.pdf", "b.pdf", "c.pdf"]


@pytest.mark.parametrize("question", ["AND OR NOT", 'a "b', "title:x^2 -y +z", "(((", "what's o'clock?"])
def test_question_is_never_read_as_a_query_language(question):
    assert ask(question).status == "ok"


def test_answers_do_not_depend_on_the_process():
    questions = ("When was the harbour built?", "How tall is the light tower?")
    script = (
        "from rag_eval_pipeline.systems.embedded_bm25 import *\n"
        f"system = EmbeddedSystem([PageText(*page) for page in {[tuple(page) for page in PAGES]}], EmbeddedSettings())\n"
        f"print([system.retrieve(question) for question in {questions}])"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "1"}
    )

    system = EmbeddedSystem(PAGES, EmbeddedSettings())
    assert run.stdout == f"{[system.retrieve(question) for question in questions]}\n"


CHINESE = [json.loads(line) for line in (Path(__file__).parent / "chinese.jsonl").read_text().splitlines()]
ASKED = [(question, row["document"]) for row in CHINESE for question in row["questions"]]


def test_chinese_documents_are_found():
    """42 documents in Chinese, two questions each: a sentence without spaces must not be a single term."""
    system = EmbeddedSystem([PageText(row["document"], 1, 0, row["text"]) for row in CHINESE], EmbeddedSettings())

    found = [(system.retrieve(question)[0].document, document) for question, document in ASKED]
    answered = [not asyncio.run(system.answer(Query("1", question))).abstained for question, _ in ASKED]

    assert len(ASKED) == 84
    assert sum(first == document for first, document in found) / len(found) >= 0.90
    assert sum(answered) / len(answered) >= 0.80


# Documents of one topic each, and a question about the second.
UNSPACED = {
    "Japanese": ("東京タワーは1958年に完成した。高さは333メートルである。", "琵琶湖は日本で最も大きい湖である。水は大阪に送られる。", "日本で最も大きい湖は何ですか"),
    "Thai": ("สะพานข้ามแม่น้ำเปิดใช้ในปี 2475", "ตลาดน้ำแห่งนี้ขายผลไม้และดอกไม้ทุกเช้า", "ตลาดน้ำขายอะไร"),
    "Khmer": ("ប្រាសាទអង្គរវត្តត្រូវបានសាងសង់នៅសតវត្សទី១២", "ទន្លេសាបជាបឹងទឹកសាបធំជាងគេ", "បឹងទឹកសាបធំជាងគេឈ្មោះអ្វី"),
    "Chinese beside Latin": ("新款电脑的屏幕是14英寸。", "iPhone手机的电池可以用两天。", "iPhone手机的电池能用多久？"),
    "line that ends in a word": ("白鹭灯塔位于岛的最东端。", "石门隧道是铁路上最长的隧\n道。", "最长的隧道在哪里？"),
}  # fmt: skip


@pytest.mark.parametrize(("other", "right", "question"), UNSPACED.values(), ids=UNSPACED)
def test_unspaced_scripts_are_searched_by_pairs_of_characters(other, right, question):
    system = EmbeddedSystem([PageText("a.pdf", 1, 0, other), PageText("b.pdf", 1, 0, right)], EmbeddedSettings())

    assert [passage.document for passage in system.retrieve(question)][0] == "b.pdf"


def test_chinese_answer_is_a_clause_and_passages_end_at_full_stops():
    text = "灯塔建于一八九二年。塔身用当地的花岗岩砌成，高二十七米。守塔人每晚添三次煤油。"
    answer = ask("塔身是用什么砌成的？", [PageText("灯塔.pdf", 1, 0, text)], passage_words=8)

    assert answer.answer == "塔身用当地的花岗岩砌成 [灯塔.pdf:1:10-28]"
    assert answer.contexts[0].text == "塔身用当地的花岗岩砌成，高二十七米。"
