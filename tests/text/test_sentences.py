"""Sentences end at terminators, except in quotations, abbreviations, initials and dates; list items and rows are pieces."""

import pytest

from rag_eval_pipeline.text.sentences import pieces, sentence_ends

SENTENCES = {
    #                                text, with | at each end of a sentence but the last
    "two sentences":                "It was lit.| It went dark.",
    "a question":                   "Who lit it?| Ada did.",
    "straight quotes":              'She said "It is lit. We go" and left.| It was dark.',
    "curly quotes":                 "She said “It is lit. We go” and left.| It was dark.",
    "German quotes":                "Sie sagte „Es brennt. Wir gehen“ und ging.| Es war dunkel.",
    "guillemets":                   "Elle dit «C'est allumé. Allons» et partit.| Il fit noir.",
    "a title and initials":         "Dr. A. B. Thorne lit it.| She left.",
    "an abbreviation and a number": "See No. 7 of vol. 3 there.| It is lit.",
    "a German date":                "Am 3. Oktober brannte es.| Dann nicht.",
    "a decimal":                    "It cost 3.5 million.| It stood.",
    "Chinese":                      "灯亮了。|灯灭了。",
    "an ellipsis in a sentence":    "It was ... lit.| It went dark.",
}  # fmt: skip


@pytest.mark.parametrize("marked", SENTENCES.values(), ids=SENTENCES)
def test_sentence_ends(marked):
    *sentences, _ = marked.split("|")
    text = marked.replace("|", "")

    assert list(sentence_ends(text)) == [len("".join(sentences[: n + 1])) for n in range(len(sentences))]


def test_pieces_are_sentences_headings_items_and_rows():
    text = "# Lamps\nThe lamp has:\n- a wick. It burns.\n\n| name | year |\n|---|---|\n| Ada | 1887 |\n```\nWho lit it?\n---"

    found = [(text[piece.start : piece.end], piece.kind) for piece in pieces(text)]

    assert found == [
        ("Lamps", "heading"), ("The lamp has:", "heading"), ("a wick.", "sentence"), ("It burns.", "sentence"),
        ("| name | year |", "heading"), ("| Ada | 1887 |", "row"), ("Who lit it?", "question"),
    ]  # fmt: skip
