"""Work is taken on one by one, and texts by fifties where there are very many; nothing is lost or taken twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.corpus import batches as module
from rag_eval_pipeline.corpus.batches import TEXT_BATCH_ABOVE, TEXT_BATCH_SIZE, batches

BODIES = st.lists(st.sampled_from(["url", "file", "html", "markdown", "text"]), max_size=300)


def taken(bodies: list[str]) -> list[list[tuple[int, str]]]:
    return list(batches(list(enumerate(bodies)), lambda piece: piece[1]))


@given(BODIES)
def test_up_to_ten_thousand_texts_everything_goes_one_by_one_in_order(bodies):
    assert taken(bodies) == [[piece] for piece in enumerate(bodies)]


@given(BODIES)
def test_each_piece_is_in_one_batch_and_batches_hold_texts_only(bodies):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TEXT_BATCH_ABOVE", 0)
        made = taken(bodies)

    assert sorted(piece for batch in made for piece in batch) == list(enumerate(bodies))
    assert all(0 < len(batch) <= TEXT_BATCH_SIZE for batch in made)
    assert all({body for _, body in batch} == {"text"} for batch in made if len(batch) > 1)
    texts = [batch for batch in made if batch[0][1] == "text"]
    assert texts == sorted(texts)
    assert all(len(batch) == TEXT_BATCH_SIZE for batch in texts[:-1])


@pytest.mark.parametrize(("count", "sizes"), [(TEXT_BATCH_ABOVE, {1}), (TEXT_BATCH_ABOVE + 1, {1, 50})])
def test_the_threshold_counts_texts_and_nothing_else(count, sizes):
    # 10,001 texts are 200 batches of 50 and one of 1.
    assert {len(batch) for batch in taken(["text"] * count + ["html"] * 5)} == sizes
