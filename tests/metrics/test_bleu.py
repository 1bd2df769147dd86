"""BLEU is sacrebleu's where it is installed; where it is not, the message says what to install."""

import sys

import pytest

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.metrics.bleu import corpus_bleu, sentence_bleu

FOX, DOG = "The quick brown fox jumps over the lazy dog.", "A quick brown dog outran the lazy fox!"


def test_without_the_package_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)  # an import then fails as for a package that is not there

    with pytest.raises(ServiceError) as error:
        sentence_bleu(FOX, [DOG])

    assert error.value.code == "missing_package"
    assert "text-overlap" in str(error.value)


def test_with_the_package_the_score_is_its_own():
    # Printed by sacrebleu 2.6.0: 13.134549472120794.
    assert sentence_bleu(FOX, [DOG]) == pytest.approx(0.13134549472120794)
    assert corpus_bleu([FOX, DOG], [[FOX], [FOX, DOG]]).value == pytest.approx(1.0)


def test_nothing_to_compare_has_no_score():
    assert sentence_bleu(FOX, []) is None
    assert corpus_bleu([], []) is None


def test_a_corpus_needs_an_accepted_answer_each():
    with pytest.raises(ValueError, match="each of 1 answers"):
        corpus_bleu([FOX], [[]])
