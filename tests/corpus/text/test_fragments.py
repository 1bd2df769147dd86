"""A gold text between whose lines a table stands is located in pieces, and nothing of the table is in them."""

import random

import pytest

from rag_eval_pipeline.conversion.datasets import locate_gold, read_gold_spans, write_gold_spans
from rag_eval_pipeline.conversion.questions import Context, Question
from rag_eval_pipeline.corpus.text.alignment import Hint, TextIndex
from rag_eval_pipeline.corpus.text.pages import Page
from tests.corpus.text.prose import bundled_articles

FIRST = "The lighthouse keeper of Skerryvore counted the ships that passed between dusk and dawn, and wrote their"
SECOND = "names in a ledger that nobody asked for. On Sundays he read the list aloud to his dog, and in winter, when"
THIRD = "no ship had passed for a week, he read the one of the summer before. The ledger was found in 1911."
GOLD = f"{FIRST} {SECOND} {THIRD}"
TABLE = "Table 3: Ships seen by month and year\n" + "\n".join(
    f"month {n}: {n * 37} steamers, {n * 11} sails" for n in range(12)
)
BEFORE = "The history of the light is told elsewhere. It was built of granite.\n"
AFTER = "\nThe second keeper kept no ledger at all, and the third kept hens."


def pieces(index: TextIndex, gold: str = GOLD, hint: Hint | None = None) -> list[str]:
    return [index.text[at.start : at.end] for at in index.locate(gold, hint)]


LAYOUTS = {
    "a table at the head of the next page": ([BEFORE + FIRST, f"{TABLE}\n{SECOND} {THIRD}{AFTER}"], [FIRST, f"{SECOND} {THIRD}"]),
    "two tables": ([f"{BEFORE}{FIRST}\n{TABLE}\n{SECOND}", f"{TABLE}\n{THIRD}{AFTER}"], [FIRST, SECOND, THIRD]),
    "a table that begins as the text goes on": ([BEFORE + FIRST, f"names of ships\n{TABLE}\n{SECOND} {THIRD}"], [FIRST, f"{SECOND} {THIRD}"]),
    "a table that ends as the text has ended": ([BEFORE + FIRST, f"{TABLE} their\n{SECOND} {THIRD}"], [FIRST, f"{SECOND} {THIRD}"]),
    "a page break and nothing else": ([BEFORE + FIRST, f"{SECOND} {THIRD}{AFTER}"], [f"{FIRST}\f{SECOND} {THIRD}"]),
    "a page number": ([f"{BEFORE}{FIRST}\n17", f"{SECOND} {THIRD}{AFTER}"], [f"{FIRST}\n17\f{SECOND} {THIRD}"]),
}  # fmt: skip


@pytest.mark.parametrize(("pages", "expected"), LAYOUTS.values(), ids=LAYOUTS)
def test_fragments_are_what_the_text_and_the_document_share(pages, expected):
    index = TextIndex(pages)
    found = index.locate(GOLD)

    assert [index.text[at.start : at.end].rstrip(".") for at in found] == [piece.rstrip(".") for piece in expected]
    if len(found) > 1:
        assert [(at.method, at.score) for at in found] == [("pieces", 100.0)] * len(expected)
        assert [at.text.rstrip(".") for at in found] == [piece.rstrip(".") for piece in expected]
        assert all(pages[at.page - 1][at.page_start : at.page_end] == index.text[at.start : at.end] for at in found)


TORN_APART = {
    "each part some pages on": [BEFORE + FIRST, AFTER * 60, SECOND, AFTER * 60, THIRD],
    "the halves in another order": [f"{SECOND} {THIRD}\n{TABLE}\n{FIRST}"],
    "half of it": [f"{BEFORE}{FIRST}\n{TABLE}{AFTER}"],
}


@pytest.mark.parametrize("pages", TORN_APART.values(), ids=TORN_APART)
def test_fragments_that_are_missing_or_far_or_out_of_order_are_not_located(pages):
    assert TextIndex(pages).locate(GOLD) == ()


def test_fragments_of_repetitions_are_chosen_by_hint():
    once = f"{FIRST}\n{TABLE}\n{SECOND} {THIRD}\n"
    index = TextIndex([BEFORE + once, AFTER * 60 + once])

    assert [at.page for at in index.locate(GOLD)] == [1, 1]
    assert [at.page for at in index.locate(GOLD, Hint(page=2))] == [2, 2]
    assert [at.page for at in index.locate(GOLD, Hint(position=0.9))] == [2, 2]


TORN = [BEFORE + FIRST, f"{TABLE}\n{SECOND} {THIRD}{AFTER}"]
SLIPS = {
    "beside the tear": (
        TORN, {"and wrote their names in a ledger": "anq wrofe theer nameq ix a leqger"}, [FIRST, f"{SECOND} {THIRD}"]
    ),
    "at the edges": (
        [f"{BEFORE}{GOLD}{AFTER}"], {"The lighthouse": "Thq lighthoqse", "found in 1911": "foumd iq 1911"}, [GOLD]
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pages", "slips", "expected"), SLIPS.values(), ids=SLIPS)
def test_fragments_with_slips_are_not_shorter(pages, slips, expected):
    gold = GOLD
    for right, wrong in slips.items():
        gold = gold.replace(right, wrong)

    assert [piece.rstrip(".") for piece in pieces(TextIndex(pages), gold)] == [piece.rstrip(".") for piece in expected]


def test_locate_finds_a_text_with_a_slip_in_each_word_as_one_stretch():
    index = TextIndex([BEFORE * 5 + GOLD + AFTER * 5])
    words = [word if n % 3 else word[:-2] + "xx" for n, word in enumerate(GOLD.split())]

    [found] = index.locate(" ".join(words))

    assert found.method == "fuzzy"
    assert abs(found.start - 5 * len(BEFORE)) < 5
    assert abs(found.end - 5 * len(BEFORE) - len(GOLD)) < 5


def test_fragments_of_a_text_torn_anywhere_leave_out_the_table():
    rng = random.Random(5)
    for article in bundled_articles():
        text = max(article.paragraphs, key=len)
        words = text.split()
        at = rng.randrange(8, len(words) - 8)
        left, right = " ".join(words[:at]), " ".join(words[at:])
        index = TextIndex([left, f"{TABLE}\n{right}"])

        found = pieces(index, text)

        assert [piece.rstrip(".,;:—–- ") for piece in found] == [part.rstrip(".,;:—–- ") for part in (left, right)]


def located(*contexts: Context):
    pages = LAYOUTS["a table at the head of the next page"][0]
    sheets = [Page("Log.pdf", 1, 0, pages[0]), Page("Log.pdf", 2, len(pages[0]) + 1, pages[1])]
    return list(locate_gold([Question(7, "Who?", "he", ("he",), False, contexts)], [], sheets))


def test_gold_span_of_a_torn_text_has_its_pieces(tmp_path):
    spans = located(Context("log", "Log.pdf", GOLD), Context("log", "Log.pdf", "kept no ledger at all"))

    assert [(span.method, span.page, span.piece) for span in spans] == [
        ("pieces", 1, 0),
        ("pieces", 2, 1),
        ("exact", 2, 0),
    ]
    assert spans[0].text == FIRST
    write_gold_spans(tmp_path / "gold_spans.parquet", spans)
    assert list(read_gold_spans(tmp_path / "gold_spans.parquet")) == spans
