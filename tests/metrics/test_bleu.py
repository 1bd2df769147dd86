"""BLEU is sacrebleu's where it is installed; where it is not, the message says what to install."""

import importlib.util

import pytest

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.metrics.bleu import corpus_bleu, sentence_bleu

is_installed = importlib.util.find_spec("sacrebleu") is not None
FOX, DOG = "The quick brown fox jumps over the lazy dog.", "A quick brown dog outran the lazy fox!"


@pytest.mark.skipif(is_installed, reason="sacrebleu is installed")
def test_without_the_package_the_message_names_it():
    with pytest.raises(ServiceError, match="pip install sacrebleu") as error:
        sentence_bleu(FOX, [DOG])

    assert error.value.code == "missing_package"


@pytest.mark.skipif(not is_installed, reason="sacrebleu is not installed")
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
