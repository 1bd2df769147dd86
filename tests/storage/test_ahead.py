"""Work done ahead is the same work, in the same order, with the same faults."""

import threading

import pytest

from rag_eval_pipeline.storage.ahead import Behind, ahead


def test_items_keep_their_order_and_are_made_in_another_thread():
    makers = set()

    def numbers():
        for number in range(5):
            makers.add(threading.current_thread())
            yield number

    assert list(ahead(numbers())) == [0, 1, 2, 3, 4]
    assert threading.current_thread() not in makers


def test_a_fault_comes_after_the_items_before_it():
    def numbers():
        yield 1
        raise ValueError("two")

    seen = []
    with pytest.raises(ValueError, match="two"):
        seen.extend(ahead(numbers()))

    items = ahead(numbers())
    assert next(items) == 1
    with pytest.raises(ValueError, match="two"):
        next(items)


def test_who_stops_early_leaves_no_thread():
    before = threading.active_count()
    items = ahead(range(100))
    next(items)

    items.close()

    assert threading.active_count() == before


def test_what_is_put_is_done_in_order_before_the_end():
    done = []

    with Behind(done.append) as behind:
        for number in range(20):
            behind.put(number)

    assert done == list(range(20))


def test_a_fault_of_the_work_is_raised():
    def refuse(number):
        raise ValueError(number)

    with pytest.raises(ValueError, match="1"), Behind(refuse) as behind:
        behind.put(1)
