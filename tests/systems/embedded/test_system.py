"""The embedded system finds, cites, abstains, and does all that equally every time."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from rag_eval_pipeline.systems.base import PageText, Query
from rag_eval_pipeline.systems.bm25 import ABSTENTION, EmbeddedSettings, EmbeddedSystem

LIGHT = "The Marsh Point light was first lit on 3 May 1887 by Ada Thorne. Its tower is 31 metres tall."
HARBOUR = "The harbour of Tollan was built in 1901. It holds forty boats."
PAGES = [
    PageText("light.pdf", 1, 0, LIGHT),
    PageText("tollan.pdf", 1, 0, "Contents"),
    PageText("tollan.pdf", 2, 9, HARBOUR),
]


def ask(question, pages=PAGES, **settings):
    system = EmbeddedSystem(pages, EmbeddedSettings(**settings))
    return asyncio.run(system.answer(Query("1", question)))


def test_an_answer_carries_its_citation_in_the_specifications_format():
    answer = ask("When was the Marsh Point light first lit?")

    assert answer.answer == "3 May 1887 [light.pdf:1:0-64]"
    assert [(c.file_name, c.start_char, c.end_char) for c in answer.citations] == [("light.pdf", 0, 64)]


def test_offsets_count_from_the_documents_start_and_the_page_is_the_spans():
    answer = ask("When was the harbour of Tollan built?")

    assert answer.answer == "1901 [tollan.pdf:2:9-49]"
    assert HARBOUR[9 - 9 : 49 - 9] == "The harbour of Tollan was built in 1901."


def test_it_abstains_when_no_sentence_covers_the_question():
    answer = ask("Which bishop blessed the wooden chapel?")

    assert (answer.answer, answer.abstained, answer.citations, answer.status) == (ABSTENTION, True, (), "ok")


def test_a_threshold_of_zero_never_abstains():
    assert not ask("Which bishop blessed the harbour chapel?", abstention_threshold=0.0).abstained


def test_a_question_of_which_nothing_is_found_is_an_abstention_not_an_error():
    answer = ask("?", abstention_threshold=0.0)

    assert (answer.abstained, answer.contexts) == (True, ())


def test_whole_sentences_on_demand():
    answer = ask("When was the Marsh Point light first lit?", answer="sentence")

    assert answer.answer.startswith("The Marsh Point light was first lit on 3 May 1887 by Ada Thorne. [light.pdf")


def test_k_limits_the_passages_and_ranks_start_at_one():
    answer = ask("harbour light", k=2, passage_words=10, abstention_threshold=0.0)

    assert [context.rank for context in answer.contexts] == [1, 2]


def test_ties_are_ordered_by_document_page_and_start():
    pages = [PageText(name, 1, 0, "The ferry sails at noon.") for name in ("c.pdf", "a.pdf", "b.pdf")]

    answer = ask("When does the ferry sail?", pages)

    assert [context.document for context in answer.contexts] == ["a.pdf", "b.pdf", "c.pdf"]


@pytest.mark.parametrize("question", ["AND OR NOT", 'a "b', "title:x^2 -y +z", "(((", "what's o'clock?"])
def test_a_question_is_text_and_never_a_query_language(question):
    assert ask(question).status == "ok"


def test_answers_do_not_depend_on_the_process():
    script = (
        "import sys; sys.path.insert(0, 'tests/systems/embedded')\n"
        "from test_system import ask\n"
        "import msgspec\n"
        "answers = [ask(q) for q in ('When was the harbour built?', 'How tall is the light tower?')]\n"
        "print([msgspec.to_builtins(msgspec.structs.replace(a, latency_ms=0)) for a in answers])"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    ]

    assert runs[0] == runs[1] != ""


CHINESE = [json.loads(line) for line in (Path(__file__).parent / "chinese.jsonl").read_text().splitlines()]
ASKED = [(question, row["document"]) for row in CHINESE for question in row["questions"]]


def test_chinese_documents_are_found():
    """42 documents in Chinese, two questions each; a sentence without spaces is no single term."""
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
    "a line that ends in a word": ("白鹭灯塔位于岛的最东端。", "石门隧道是铁路上最长的隧\n道。", "最长的隧道在哪里？"),
}  # fmt: skip


@pytest.mark.parametrize(("other", "right", "question"), UNSPACED.values(), ids=UNSPACED)
def test_scripts_without_spaces_are_searched_by_pairs_of_characters(other, right, question):
    system = EmbeddedSystem([PageText("a.pdf", 1, 0, other), PageText("b.pdf", 1, 0, right)], EmbeddedSettings())

    assert [passage.document for passage in system.retrieve(question)][0] == "b.pdf"


def test_a_chinese_answer_is_the_clause_and_its_passages_are_cut_at_full_stops():
    text = "灯塔建于一八九二年。塔身用当地的花岗岩砌成，高二十七米。守塔人每晚添三次煤油。"
    answer = ask("塔身是用什么砌成的？", [PageText("灯塔.pdf", 1, 0, text)], passage_words=8)

    assert answer.answer == "塔身用当地的花岗岩砌成 [灯塔.pdf:1:10-28]"
    assert answer.contexts[0].text == "塔身用当地的花岗岩砌成，高二十七米。"
