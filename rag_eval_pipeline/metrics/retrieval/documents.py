"""Documents of many rankings as numbers: what is equal has the same key.

Keys are 32 bits. Codes of one vocabulary are keys as they are; of ids the key is a hash, and what has the same key is
compared by name before it counts as equal. Only documents with equal scores are ordered by name.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.metrics.retrieval.sums import Ints

Keys = NDArray[np.uint32]

HASHED_AT_ONCE = 1 << 16  # ids; their bytes and words stay in the processor's cache
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads what is near
_SHIFT = np.uint64(29)
# Keeps the first n bytes of a word, n from 0 to 8.
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)


class Documents:
    """One document a row; made by `coded` or `named`.

    Args:
        keys: (rows,)
        names: Arrow array of ids, by row or by code; None when codes stand in the order of their ids' bytes.
        is_exact: Equal keys are equal documents, and keys are codes.
    """

    def __init__(self, keys: Keys, names: Any, *, is_exact: bool) -> None:
        self.keys = keys
        self.is_exact = is_exact
        self._names = names

    @classmethod
    def coded(cls, codes: NDArray[np.integer[Any]], vocabulary: Any = None) -> "Documents":
        """Documents by their place in a vocabulary that run and qrels share.

        Args:
            codes: (rows,) in [0, 2^32).
            vocabulary: Ids by code, as an Arrow array or a list; None when the codes' order is that of the ids' bytes.
        """
        if isinstance(vocabulary, Sequence):
            vocabulary = _arrow(vocabulary)
        return cls(np.ascontiguousarray(codes, dtype=np.uint32), vocabulary, is_exact=True)

    @classmethod
    def named(cls, names: Any) -> "Documents":
        """Documents by id: an Arrow array of strings or binaries without nulls, or a list of strings."""
        array = _arrow(names) if isinstance(names, Sequence) else names
        return cls(hashed(array), array, is_exact=False)

    def same(self, rows: Ints, other: "Documents", other_rows: Ints) -> NDArray[np.bool_]:
        """Whether documents of equal keys are equal, row by row."""
        if self.is_exact or not rows.size:
            return np.ones(rows.size, bool)
        import pyarrow as pa
        import pyarrow.compute as pc

        equal = pc.equal(self._names.take(pa.array(rows)), other._names.take(pa.array(other_rows)))
        found: NDArray[np.bool_] = equal.to_numpy(zero_copy_only=False)
        return found

    def order_descending(self, group: Ints, rows: Ints) -> Ints:
        """Indices of rows, by group and within a group by id, the greatest bytes first."""
        if self._names is None:
            return np.lexsort((-self.keys[rows].astype(np.int64), group))
        import pyarrow as pa
        import pyarrow.compute as pc

        names = self._names.take(pa.array(self.keys[rows] if self.is_exact else rows))
        table = pa.table({"group": group, "name": names})
        order: Ints = pc.sort_indices(table, sort_keys=[("group", "ascending"), ("name", "descending")]).to_numpy()
        return order.astype(np.int64, copy=False)

    def name(self, row: int) -> str:
        """The id of a row, or its code where nothing is known but that."""
        if self._names is None:
            return str(self.keys[row])
        found = self._names[int(self.keys[row]) if self.is_exact else row].as_py()
        return found.decode(errors="backslashreplace") if isinstance(found, bytes) else str(found)

    def rows(self, chosen: Ints) -> "Documents":
        """Some rows, in the order given."""
        if self.is_exact:
            return Documents(self.keys[chosen], self._names, is_exact=True)
        import pyarrow as pa

        return Documents(self.keys[chosen], self._names.take(pa.array(chosen)), is_exact=False)

    def repeated(self, start: int, end: int) -> str | None:
        """A document that stands twice in the rows from start to end, some of which have equal keys."""
        seen: set[str] = set()
        for row in range(start, end):
            name = self.name(row)
            if name in seen:
                return name
            seen.add(name)
        return None


def hashed(array: Any) -> Keys:
    """A 32-bit hash of each id's bytes; equal ids have equal hashes.

    Args:
        array: Arrow array of strings or binaries, without nulls.
    """
    width = np.int64 if str(array.type).startswith("large") else np.int32
    _, offsets_buffer, data_buffer = array.buffers()
    if not len(array):
        return np.zeros(0, np.uint32)
    offsets = np.frombuffer(offsets_buffer, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    keys = np.empty(len(array), np.uint32)
    for start in range(0, len(array), HASHED_AT_ONCE):
        block = offsets[start : start + HASHED_AT_ONCE + 1]
        # 8 bytes more, so that a whole word can be read at every byte.
        text = np.concatenate((data[block[0] : block[-1]], np.zeros(8, np.uint8)))
        keys[start : start + block.size - 1] = _hash_block(text, block - block[0])
    return keys


def _hash_block(text: NDArray[np.uint8], offsets: Ints) -> Keys:
    words = np.ndarray((text.size - 7,), dtype="<u8", buffer=text, strides=(1,))
    starts, lengths = offsets[:-1], np.diff(offsets)
    mixed = lengths.astype(np.uint64) * _FACTOR
    shortest, longest = int(lengths.min()), int(lengths.max())
    for done in range(0, longest, 8):
        rows = slice(None) if done < shortest else np.flatnonzero(lengths > done)
        word = words[starts[rows] + done] & _FIRST_BYTES[np.minimum(lengths[rows] - done, 8)]
        part = (mixed[rows] ^ word) * _FACTOR
        mixed[rows] = part ^ (part >> _SHIFT)
    mixed *= _FACTOR
    return (mixed >> np.uint64(32)).astype(np.uint32)


def _arrow(names: Sequence[str]) -> Any:
    import pyarrow as pa

    return pa.array(names, type=pa.string())
