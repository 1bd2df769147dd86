"""Gold texts are found in printed prose whatever was done to their wording, and texts of other articles are not."""

import random

import pytest

from rag_eval_pipeline.corpus.text.alignment import TextIndex
from tests.corpus.text.prose import PERTURBATIONS, bundled_articles, foreign, printed, shared

SPANS = 4  # of an article

ARTICLES = bundled_articles()
INDEXES = [TextIndex(printed(article, random.Random(article.name))) for article in ARTICLES]


def test_bundled_prose_is_enough():
    assert len(ARTICLES) >= 20
    assert min(len(article.paragraphs) for article in ARTICLES) >= SPANS


@pytest.mark.parametrize("perturb", PERTURBATIONS.values(), ids=PERTURBATIONS)
def test_locate_finds_97_of_100_perturbed_texts(perturb):
    rng = random.Random(1)
    results = [
        (index.locate(perturb(text, rng)), index.locate(text))
        for article, index in zip(ARTICLES, INDEXES, strict=True)
        for text in rng.sample(article.paragraphs, SPANS)
    ]

    found = [(places, whole) for places, whole in results if places]
    assert len(found) >= 0.97 * len(results)
    if perturb is not PERTURBATIONS["cut out of it"]:
        overlaps = [shared(places, whole) for places, whole in found]
        assert sum(overlaps) / len(overlaps) > 0.95


def test_locate_finds_no_text_of_other_articles():
    rng = random.Random(2)
    for article, index in zip(ARTICLES, INDEXES, strict=True):
        texts = rng.sample(list(foreign(article, ARTICLES)), 12)

        assert [index.locate(text) for text in texts] == [()] * len(texts)
