"""Gold texts that stand several times are found where the source says that they stand."""

import pytest

from rag_eval_pipeline.conversion.datasets import GoldSpan, GoldTally, locate_gold, read_gold_spans, write_gold_spans
from rag_eval_pipeline.conversion.questions import Context, Question
from rag_eval_pipeline.corpus.documents import FileName, PlannedDocument
from rag_eval_pipeline.corpus.text.pages import Page

GOLD = "The lamp was lit at dusk."
FILLER = "Nothing of note was entered in the log that week. " * 4  # 200 characters
assert len(FILLER) == 200
# The same text three times, 225 characters apart; printing put a heading above it, so that every offset has moved.
BODY = (FILLER + GOLD) * 3 + FILLER
IN_BODY = [200, 425, 650]
HEADING = "Log of the Skerry light\n"
PAGES = [HEADING + (FILLER + GOLD) * 2, FILLER + GOLD + FILLER]
#         24 + 200, 24 + 425; page 1 has 474 characters and the break one, so page 2 starts at 475
IN_TEXT = [224, 449, 675]


def planned(content=BODY, key="log"):
    return PlannedDocument(key, (FileName("Log.pdf"),), "text" if content else "url", content=content)


def sheets(*texts, file_name="Log.pdf"):
    starts = [0]
    for text in texts:
        starts.append(starts[-1] + len(text) + 1)
    return [Page(file_name, n, start, text) for n, (start, text) in enumerate(zip(starts, texts, strict=False), 1)]


def question(*contexts, number=0):
    return Question(number, "When?", "at dusk", ("at dusk",), False, contexts)


def context(text=GOLD, **place):
    return Context("log", "Log.pdf", text, **place)


def located(*contexts, document=None):
    return list(locate_gold([question(*contexts)], [document or planned()], sheets(*PAGES)))


PLACES = {
    #                                                 place the source gives, which of the three
    "no place, the first":                            ({}, 0),
    "the second of the body":                         ({"start": IN_BODY[1]}, 1),
    "the third of the body":                          ({"start": IN_BODY[2]}, 2),
    "the page":                                       ({"page": 2}, 2),
    "the page before the place":                      ({"page": 1, "start": IN_BODY[2]}, 1),
    "the body's own text before the page":            ({"page": 1, "start": IN_BODY[2], "end": IN_BODY[2] + 25}, 2),
}  # fmt: skip


@pytest.mark.parametrize(("place", "which"), PLACES.values(), ids=PLACES)
def test_of_a_repeated_text_the_one_at_the_sources_place_is_taken(place, which):
    [span] = located(context(**place))

    page, page_start = [(1, 224), (1, 449), (2, 200)][which]
    assert (span.start, span.end) == (IN_TEXT[which], IN_TEXT[which] + len(GOLD))
    assert (span.page, span.page_start, span.page_end) == (page, page_start, page_start + len(GOLD))
    assert (span.method, span.score) == ("exact", 100.0)


ENTRIES = "".join(f"Entry {n}. The lamp was lit. The keeper slept.\n" for n in range(10, 40))
LONG_HEADING = "A heading that the printed page has above the body, many times as long as an entry. " * 8
STATED = {
    # body, printed, gold text, what stands before it in both
    "a repetition that print has moved further than to the next one": (ENTRIES, LONG_HEADING + ENTRIES, "The lamp was lit.", "Entry 20. "),
    "a repetition more, in print": (ENTRIES, "The lamp was lit. " + LONG_HEADING + ENTRIES, "The lamp was lit.", "Entry 20. "),
    "inside a word, where whole words are": ("Art is long. My heart aches.", "Art is long. My heart aches.", "art", "My he"),
    "other white space": (ENTRIES, LONG_HEADING + ENTRIES.replace("was lit", "was\nlit"), "The lamp  was lit.", "Entry 20. "),
}  # fmt: skip


@pytest.mark.parametrize(("body", "printed", "gold", "before"), STATED.values(), ids=STATED)
def test_stated_place_wins_where_the_body_has_the_text_there(body, printed, gold, before):
    start = body.index(before) + len(before)
    end = start + len(" ".join(gold.split()))

    [span] = locate_gold([question(context(gold, start=start, end=end))], [planned(body)], sheets(printed))

    assert span.start == printed.index(before) + len(before)


def test_place_is_measured_in_the_body_of_its_own_document():
    # In a body of 6,000 characters 650 is near the beginning; in this one of 875 it is three quarters down.
    other = PlannedDocument("other", (FileName("Other.pdf"),), "text", content="x" * 6000)

    [span] = locate_gold([question(context(start=650))], [other, planned(), other], sheets(*PAGES))

    assert span.start == IN_TEXT[2]


def test_each_document_is_searched_for_its_own_texts():
    both = [*sheets(*PAGES), *sheets("It was lit at dawn. " + GOLD, file_name="Other.pdf")]
    contexts = (context(), Context("other", "Other.pdf", GOLD))

    spans = list(locate_gold([question(*contexts), question(contexts[1], number=1)], [planned()], both))

    assert [(span.question_id, span.file_name, span.start) for span in spans] == [
        (0, "Log.pdf", 224), (0, "Other.pdf", 20), (1, "Other.pdf", 20),
    ]  # fmt: skip


def test_texts_that_are_only_similar_or_nowhere_are_counted_and_shown():
    similar, other = (
        "Nothing of note was written in the log that week.",
        "Nothing of note was entered in 12 logs of weeks.",
    )
    tally = GoldTally([])
    spans = list(
        tally.counting(
            locate_gold([question(context(), context(similar), context(other), number=4)], [], sheets(*PAGES))
        )
    )

    assert [span.method for span in spans] == ["exact", "fuzzy", None]
    assert (tally.gold_texts, tally.located, tally.similar) == (3, 2, 1)
    assert tally.notes(sheets(*PAGES)) == [
        f"gold text of question 4: {other!r} is not in Log.pdf.",
        f"gold text of question 4: {similar!r} is {spans[1].score:.0f} % alike in Log.pdf: "
        "'Nothing of note was entered in the log that week'",
    ]


OTHER_PAGES = {
    #                            contexts; pages that differ; what is said
    "the stated page":           ([context(page=1), context(page=2)], [], ""),
    "no page":                   ([context()], [], ""),
    "the page on which it ends": ([context(f"{FILLER}{FILLER}", page=2)], [], ""),
    "another":                   ([context("Log of the Skerry light", page=2)], [(1, 2)], "1 gold text is not on the page that the source states, and counts where the document has it: question 0: 'Log of the Skerry light' is on page 1 of Log.pdf, not 2."),
    "all one further":           ([context(page=3), context("Log of the Skerry light", page=2)], [(1, 3), (1, 2)], "2 gold texts are not on the page"),
    "pages that count from 0":   ([context(HEADING, page=4), context(HEADING, page=4)], [(1, 4), (1, 4)], "All differ by -3: the source may count pages from another number than 1."),
}  # fmt: skip


@pytest.mark.parametrize(("contexts", "differ", "said"), OTHER_PAGES.values(), ids=OTHER_PAGES)
def test_text_on_another_page_than_the_source_states_is_said(contexts, differ, said):
    pages = sheets(PAGES[0] + FILLER, FILLER + PAGES[1]) if said == "" else sheets(*PAGES)
    tally = GoldTally([])

    list(locate_gold([question(*contexts)], [], pages, on_other_page=tally.note_other_page))

    assert [(span.page, stated) for span, stated in tally.on_other_pages] == differ
    assert said in " ".join(tally.notes(pages))


NOWHERE = {
    "a text that the document has not": (context("Jackdaws love my big sphinx of quartz."), "Log.pdf"),
    "a document without pages": (Context("gone", "Gone.pdf", GOLD), "Gone.pdf"),
}


@pytest.mark.parametrize(("given", "file_name"), NOWHERE.values(), ids=NOWHERE)
def test_what_is_not_found_is_kept_without_a_place(tmp_path, given, file_name):
    spans = located(context(start=IN_BODY[1]), given)
    assert spans[1:] == [GoldSpan(0, file_name, given.text, None, 0.0, 1, 0, 0, 0, 0)]

    write_gold_spans(tmp_path / "gold_spans.parquet", spans)

    assert list(read_gold_spans(tmp_path / "gold_spans.parquet")) == spans


def test_context_without_text_or_without_document_is_no_gold_text():
    assert located(Context("log", "Log.pdf"), Context(None, None, GOLD)) == []
