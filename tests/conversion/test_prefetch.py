"""Work in a background thread keeps its order and its errors."""

import threading

import pytest

from rag_eval_pipeline.conversion.question_spool import prefetch


def test_prefetch_keeps_the_order_and_makes_items_in_another_thread():
    makers = set()

    def numbers():
        for number in range(5):
            makers.add(threading.current_thread())
            yield number

    assert list(prefetch(numbers())) == [0, 1, 2, 3, 4]
    assert threading.current_thread() not in makers


def test_prefetch_raises_an_error_after_the_items_before_it():
    def numbers():
        yield 1
        raise ValueError("two")

    items = prefetch(numbers())
    assert next(items) == 1
    with pytest.raises(ValueError, match="two"):
        next(items)


def test_prefetch_that_is_closed_early_leaves_no_thread():
    items = prefetch(range(100))
    next(items)

    items.close()

    assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]
