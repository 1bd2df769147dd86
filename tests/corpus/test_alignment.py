"""Gold texts are found through what printing does to them, at the right place, and not where they are not."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.corpus.text.alignment import Hint, TextIndex, contains
from rag_eval_pipeline.corpus.text.page_drawing import marks_by_page
from rag_eval_pipeline.corpus.text.pages import Page, document_text

PAGES = [
    "The lighthouse\nThe lighthouse keeper of Skerryvore counted the ships that passed between dusk and dawn.[1] He\n"
    "wrote their names in a ledger, and on Sundays he read the list aloud to his dog.[2][3] It rained.\n",
    "Nobody knows what became of the ledger. A “second” keeper, Ailsa Macdonald, wrote in 1911 that the shelf was "
    "empty.\nThe office of the light-\nhouse board confirmed the ﬁnding in its report. It rained.\n",
    "Later years\nThe lamp was changed to paraffin and then to electricity. It rained. Heart disease ended his life.",
]
TEXT = "\f".join(PAGES)
KEEPER = "The lighthouse keeper of Skerryvore counted the ships that passed between dusk and dawn."
INDEX = TextIndex(PAGES)


def located(gold, hint=None):
    [found] = INDEX.locate(gold, hint)
    return found


FOUND = {
    "word for word": (KEEPER, "exact", KEEPER),
    "over a line break": ("He wrote their names in a ledger", "normalised", "He\nwrote their names in a ledger"),
    "another case": ("NOBODY KNOWS", "normalised", "Nobody knows"),
    "plain quotes for curly ones": ('A "second" keeper', "normalised", "A “second” keeper"),
    "hyphenated at the line's end": ("lighthouse board", "normalised", "light-\nhouse board"),
    "a ligature": ("the finding in its report", "normalised", "the ﬁnding in its report"),
    "citation marks in the document": (
        "read the list aloud to his dog. It rained.",
        "citations",
        "read the list aloud to his dog.[2][3] It rained.",
    ),
    "citation marks in the gold text": ("Nobody knows[4] what became", "citations", "Nobody knows what became"),
    "quotes at its edges": ('"second"', "normalised", "“second”"),
    "blanks around it": ("  Nobody knows \n", "exact", "Nobody knows"),
}


@pytest.mark.parametrize(("gold", "method", "span"), FOUND.values(), ids=FOUND)
def test_locate_finds(gold, method, span):
    found = located(gold)

    assert TEXT[found.start : found.end] == span
    assert (found.method, found.score) == (method, 100.0)


def test_locate_finds_a_text_with_slips_by_similarity():
    found = located("Nobody knew what had become of the ledgers. A second keeper, Ailsa MacDonald, wrote in 1911")

    assert found.method == "fuzzy"
    assert 80 <= found.score < 100
    assert TEXT[found.start : found.end].startswith("Nobody knows what became of the ledger")


NOT_FOUND = {
    "nothing": "",
    "a part of a word": "art",
    "two ends of words": "ked he",
    "a short text with a slip": "Ailsa Macdonell",
    "a text that holds the whole document": TEXT + " and very much more. " * 200,
}


@pytest.mark.parametrize("gold", NOT_FOUND.values(), ids=NOT_FOUND)
def test_locate_does_not_find(gold):
    assert INDEX.locate(gold) == ()
    assert TextIndex(["Nobody knows what became of the ledger."]).locate(TEXT) == ()


INSIDE_WORDS = {
    "German": ("Das Bundesverfassungsgericht hat entschieden.", "Verfassung"),
    "a decade": ("It was built in the 1970s by hand.", "1970"),
    "hyphenated at the line's end": ("Das Bundesverfas-\nsungsgericht hat entschieden.", "Verfassung"),
    "Thai": ("มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์", "อิสระ"),
    "Khmer": ("មនុស្សទាំងអស់កើតមកមានសេរីភាព", "សេរី"),
    "Burmese": ("လူတိုင်းသည်တူညီလွတ်လပ်သော", "တူညီ"),
    "Chinese": ("我能吞下玻璃而不伤身体。", "玻璃"),
}


@pytest.mark.parametrize(("text", "gold"), INSIDE_WORDS.values(), ids=INSIDE_WORDS)
def test_locate_finds_a_short_text_inside_a_longer_word(text, gold):
    [found] = TextIndex([text]).locate(gold)

    assert text[found.start : found.end].replace("-\n", "").casefold() == gold.casefold()


WHOLE_WORDS = {
    "Das Bundesverfassungsgericht schützt die Verfassung.": 41,
    "Reverfassung, Verfassungen, Verfassung": 28,  # one is cut at its start, one at its end
    "Verfassung, Verfassung": 0,
}


def test_locate_prefers_whole_words_and_cuts_no_number():
    for text, start in WHOLE_WORDS.items():
        [found] = TextIndex([text]).locate("Verfassung")

        assert found.start == start
    assert TextIndex(["Order 119705 of 2019701."]).locate("1970") == ()


REPETITIONS = {
    "no hint, the first": (None, 0),
    "by page": (Hint(page=2), 1),
    "by position near the end": (Hint(position=0.9), 2),
    "a page that has none, then position": (Hint(page=9, position=0.9), 2),
}


@pytest.mark.parametrize(("hint", "which"), REPETITIONS.values(), ids=REPETITIONS)
def test_locate_decides_between_repetitions_by_hint(hint, which):
    places = [match.start() for match in re.finditer("It rained", TEXT)]

    assert located("It rained", hint).start == places[which]


FEES = (
    "The old fee was 15 euros, 105 % of the first; now 1.5 euros, 10.5 % of it, for 12.5 million people at 5 °C. The\n"
    "tellers told us to resign by 2019-20. Then 125 million at -5 °C, and we re-\nsign in the US, or re-sign: 12.05.2019.\n"
)
NUMBERS = {
    # gold text, and what is found; None: nothing
    "a decimal": ("1.5 euros", "1.5 euros"),
    "its digits": ("15 euros", "15 euros"),
    "its last digit": ("5 euros", None),
    "a percentage": ("10.5 %", "10.5 %"),
    "the start of a number": ("The old fee was 1", None),
    "the end of a number in a long text": ("5 euros, 105 % of the first", None),
    "millions": ("125 million", "125 million"),
    "a decimal of millions": ("12.5 million", "12.5 million"),
    "a sign": ("-5 °C", "-5 °C"),
    "a typographic sign": ("−5 °C", "-5 °C"),
    "no sign": ("5 °C", "5 °C"),
    "another sign": ("+15 euros", None),
    "digits apart": ("12 5 million", None),
    "digits of a range": ("201920", None),
    "a range with another dash": ("2019 – 20", "2019-20"),
    "the year of a date": ("2019.", "2019."),
    "capitals": ("US", "US"),
    "small letters": ("us", "us"),
    "a hyphen": ("re-sign", "re-sign"),
    "no hyphen": ("resign", "resign"),
    "a slip and another number": ("Then 126 million at -5 °C, and we re-sign in the USA, or", None),
    "a slip and the same numbers": ("Thus 125 million at -5 °C, and we re-sign in the US, or", "Then 125 million at -5 °C, and we re-\nsign in the US, or"),
}  # fmt: skip


@pytest.mark.parametrize(("gold", "span"), NUMBERS.values(), ids=NUMBERS)
def test_locate_never_takes_another_number_or_word(gold, span):
    found = TextIndex([FEES]).locate(gold)

    assert [FEES[one.start : one.end] for one in found] == ([] if span is None else [span])


OTHER = {
    "an acronym": ("They told us.", "US"),
    "a hyphen": ("They resign.", "re-sign"),
    "a decimal point": ("It costs 15 euros.", "1.5 euros"),
    "a point in front": ("It weighs .5 mg.", "5 mg"),
    "a sign": ("It had -5 °C.", "5 °C"),
    "a page like another": ("Page 2: kappa02zebra, the keeper counted the ships that passed by.", "Page 3: kappa03zebra, the keeper counted the ships that passed by."),
}  # fmt: skip


@pytest.mark.parametrize(("text", "gold"), OTHER.values(), ids=OTHER)
def test_locate_finds_nothing_where_only_another_is(text, gold):
    assert TextIndex([text]).locate(gold) == ()
    assert not contains(text, gold) or not any(map(str.isdecimal, gold))


def test_locate_prefers_the_equal_text_to_the_first():
    text = "IT RAINED. It\nrained. It rained."

    for hint, start in ((None, 22), (Hint(position=0.4), 11)):
        [found] = TextIndex([text]).locate("It rained.", hint)
        assert found.start == start


OVERLEAF = {
    "on one page": ("A “second” keeper", 2, "A “second” keeper", "A “second” keeper"),
    "over a page break": ("It rained. Nobody knows", 1, "It rained.\n\fNobody knows", "It rained.\n"),
}


@pytest.mark.parametrize(("gold", "page", "span", "on_page"), OVERLEAF.values(), ids=OVERLEAF)
def test_locate_gives_offsets_in_the_document_and_on_the_first_page(gold, page, span, on_page):
    found = located(gold)

    assert (found.page, TEXT[found.start : found.end]) == (page, span)
    assert PAGES[page - 1][found.page_start : found.page_end] == on_page


@given(st.lists(st.text(max_size=60), min_size=1, max_size=4), st.data())
def test_locate_finds_any_part_of_a_document_in_it_or_not_at_all(pages, data):
    index = TextIndex(pages)
    start = data.draw(st.integers(0, len(index.text)))
    end = data.draw(st.integers(start, len(index.text)))

    for found in index.locate(index.text[start:end]):
        assert 0 <= found.start < found.end <= len(index.text)
        page = pages[found.page - 1]
        rest = index.text[found.start : found.end]
        # On its first page it has its own characters; what goes on overleaf comes behind that page's last one.
        assert rest.startswith(page[found.page_start : found.page_end])
        assert found.page_end == min(len(page), found.page_start + len(rest))
        if found.method == "exact":
            assert rest == index.text[start:end].strip()


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\f"), max_size=60)


@given(st.lists(TEXTS, min_size=1, max_size=5), st.data())
def test_marks_by_page_cover_any_span(texts, data):
    pages, start = [], 0
    for number, text in enumerate(texts, 1):
        pages.append(Page("a.pdf", number, start, text))
        start += len(text) + 1
    whole = document_text(pages)
    first = data.draw(st.integers(0, len(whole)))
    last = data.draw(st.integers(first, len(whole)))

    marks = marks_by_page(pages, first, last, "gold")

    cut = [texts[number - 1][mark.start : mark.end] for number, [mark] in marks.items()]
    assert "".join(cut) == whole[first:last].replace("\f", "")
