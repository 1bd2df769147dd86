"""Long evidence is chosen by sentences, for the claims; nothing is cut in the middle of a sentence."""

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.judges.evidence import choose_evidence

FILLER = "The harbour has many boats and nets in it. " * 60


def test_what_fits_is_not_touched():
    assert choose_evidence(["A b.  C\n", ""], ["x"], 8) == ("A b.  C\n", "")


def test_the_sentence_that_matters_is_found_far_behind():
    """The specification's judge reads the first 200 characters of a source."""
    text = FILLER + "The tower was built in 1874 by Ada Wren. " + FILLER

    (chosen,) = choose_evidence([text], ["Ada Wren built the tower in 1874."], 100)

    assert "The tower was built in 1874 by Ada Wren." in chosen
    assert chosen.count("[…]") >= 1


def test_every_claim_gets_its_sentence_before_any_gets_a_second():
    text = FILLER + "Red paint came first. Red paint came later. " + FILLER + "The lens is of glass. " + FILLER

    (chosen,) = choose_evidence([text], ["red paint came", "the lens is of glass"], 60)

    assert "Red paint came first." in chosen
    assert "The lens is of glass." in chosen


def test_sentences_keep_their_order_and_neighbours_their_space():
    text = FILLER + "Second comes the lens. First came the lamp. " + FILLER

    (chosen,) = choose_evidence([text], ["first came the lamp", "second comes the lens"], 48)

    assert chosen == " […] Second comes the lens. First came the lamp. […]"


def test_texts_stay_apart():
    first, second = choose_evidence([FILLER, "The lens is of glass."], ["the lens is of glass"], 30)

    assert (first, second) == ("", "The lens is of glass.")


def test_scripts_without_spaces():
    text = "港には船がある。" * 200 + "灯台は一八七四年に建てられた。" + "港には船がある。" * 200

    (chosen,) = choose_evidence([text], ["灯台は一八七四年に建てられた"], 40)

    assert "灯台は一八七四年に建てられた。" in chosen


def test_a_table_without_sentences():
    text = "cell value " * 200 + "lamp height 41 metres " + "cell value " * 200

    (chosen,) = choose_evidence([text], ["The lamp has a height of 41 metres"], 700)

    assert "lamp height 41 metres" in chosen


PROSE = st.text(st.sampled_from("ab c.?!\n。 "), max_size=400)


@given(st.lists(PROSE, max_size=4), st.lists(PROSE, max_size=3), st.integers(0, 300))
def test_what_is_chosen_stands_in_the_text_and_within_the_limit(texts, wanted, limit):
    chosen = choose_evidence(texts, wanted, limit)

    assert len(chosen) == len(texts)
    if sum(map(len, texts)) <= limit:
        assert chosen == tuple(texts)
        return
    for text, found in zip(texts, chosen, strict=True):
        at = 0
        for piece in found.split("[…]"):
            at = text.index(piece.strip(), at) + len(piece.strip())
    pieces = [piece.strip() for found in chosen for piece in found.split("[…]")]
    assert sum(len(piece.replace(" ", "").replace("\n", "")) for piece in pieces) <= limit
