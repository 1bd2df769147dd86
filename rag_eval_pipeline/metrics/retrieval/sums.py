"""Sums as trec_eval makes them: one addition after the other, in rank order.

Another order of addition changes the last bits. np.sum and np.add.reduceat add pairwise; np.bincount and np.cumsum do
not. Logarithms are those of math.log2, since np.log2 may differ in the last bit.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_discounts: Floats = np.array([math.inf])


def add_up(query: Ints, values: Floats, n: int) -> Floats:
    """The sum of each query's values in the order given; 0.0 for a query without any.

    Args:
        query: Of each value, in [0, n).
        values: What is added.
        n: How many queries there are.
    """
    # Without values bincount forgets the weights and counts in integers.
    return np.bincount(query, weights=values, minlength=n).astype(np.float64, copy=False)


def count_up(query: Ints, n: int) -> Ints:
    """How often each query occurs."""
    return np.bincount(query, minlength=n)


def ordinals(query: Ints, n: int) -> Ints:
    """The place of each element among those of its query, from 1; `query` ascends."""
    ends = np.cumsum(count_up(query, n))
    starts = np.concatenate(([0], ends[:-1])) if n else ends
    return np.arange(1, query.size + 1) - starts[query]


def by_ordinal(ordinal: Ints) -> Iterator[Ints]:
    """Indices of the first elements of all queries, then of the second ones, and so on."""
    order = np.argsort(ordinal, kind="stable")
    ends = np.cumsum(np.bincount(ordinal)) if ordinal.size else np.zeros(0, np.int64)
    yield from (order[start:end] for start, end in zip(ends[:-1], ends[1:], strict=True))


def running_sums(query: Ints, values: Floats, n: int) -> Floats:
    """Each query's sum up to and including each element; `query` ascends."""
    total = np.zeros(n)
    found = np.empty(values.size)
    for chosen in by_ordinal(ordinals(query, n)):
        total[query[chosen]] += values[chosen]
        found[chosen] = total[query[chosen]]
    return found


def discounts(highest: int) -> Floats:
    """log2(rank + 1) at index rank, from 0 to at least `highest`; infinite at 0, where no rank is."""
    global _discounts
    if highest >= _discounts.size:
        size = max(2 * _discounts.size, highest + 1)
        _discounts = np.array([math.inf, *(math.log2(rank + 1) for rank in range(1, size))])
    return _discounts


def ascending(first: Ints, second: Ints) -> Ints | slice:
    """What puts pairs into their order; pairs that are equal are one as good as the other.

    Args:
        first: At least 0.
        second: At least 0; with `first` it fits into 63 bits.
    """
    # One number a pair sorts four times as fast as two columns, and need not be sorted where it ascends.
    width = int(second.max(initial=0)) + 1
    if int(first.max(initial=0)) >= np.iinfo(np.int64).max // width:
        return np.lexsort((second, first))
    both = first * width + second
    return slice(None) if (both[1:] >= both[:-1]).all() else np.argsort(both)


def each(function: Callable[[float], float], values: Floats) -> Floats:
    """A function of the math module, value by value: numpy's own may differ in the last bit."""
    return np.array([function(value) for value in values.tolist()], dtype=np.float64)


def shares(part: Ints | Floats, whole: Ints | Floats) -> Floats:
    """Part over whole; 0.0 where the whole is 0."""
    found = np.zeros(part.shape)
    np.divide(part, whole, out=found, where=whole != 0)
    return found
