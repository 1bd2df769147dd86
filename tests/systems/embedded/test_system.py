"""The embedded system finds, cites, abstains, and does all that equally every time."""

import asyncio
import subprocess
import sys

import pytest

from rag_eval_pipeline.systems.answer import Query
from rag_eval_pipeline.systems.corpus import PageText
from rag_eval_pipeline.systems.embedded.settings import EmbeddedSettings
from rag_eval_pipeline.systems.embedded.system import ABSTENTION, EmbeddedSystem

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
