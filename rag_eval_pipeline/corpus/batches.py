"""What is taken on at once: one document, or fifty short texts where there are very many.

Each text is printed on its own, so that its bytes do not depend on its batch (`rendering.text_printing`). What a batch
shares is the disk: its files are written together and waited for once, in half the time of one after the other.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from rag_eval_pipeline.corpus.documents import BodyKind

T = TypeVar("T")

TEXT_BATCH_ABOVE = 10_000  # below it a killed build shall lose no document that was printed
TEXT_BATCH_SIZE = 50  # a quarter of a second's work to lose; 600 kB of PDFs in memory


def batches(work: Sequence[T], body: Callable[[T], BodyKind]) -> Iterator[list[T]]:
    """Pieces of work by ones, and by fifties those with a text for body when they are more than 10,000.

    Args:
        work: In the order of the plan.
        body: Where the document of a piece of work comes from.
    """
    many = sum(body(piece) == "text" for piece in work) > TEXT_BATCH_ABOVE
    texts: list[T] = []
    for piece in work:
        if not many or body(piece) != "text":
            yield [piece]
            continue
        texts.append(piece)
        if len(texts) == TEXT_BATCH_SIZE:
            yield texts
            texts = []
    if texts:
        yield texts
