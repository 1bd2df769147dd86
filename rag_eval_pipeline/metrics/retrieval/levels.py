"""Levels: what a ranking of passages ranks, when it is the passages themselves, their pages, or their documents.

At a coarser level a page or document stands at the rank of its best passage, and later passages of it take no rank.
For questions over several documents `hit@k` asks for any of them, `recall@k` for their share, `all_hit@k` for all.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

Level = Literal["passage", "page", "document"]


class Passage(NamedTuple):
    """A retrieved passage: its document, its 1-based page, and its own id, where they are known."""

    document: str
    page: int | None = None
    passage: str | None = None


def unit(passage: Passage, level: Level) -> str | None:
    """The id at a level of a passage, or of a gold text; None where it names none."""
    if level == "document":
        return passage.document
    if level == "page":
        return None if passage.page is None else f"{passage.document}/{passage.page}"  # `/` stands in no file name
    return passage.passage


def reduce_to_level(passages: Iterable[Passage], level: Level) -> list[str] | None:
    """Units of a level in the order of their best passage.

    Args:
        passages: In rank order.
        level: At which they are judged.

    Returns:
        None when a passage names no unit of the level: a rank of it would be nobody's.
    """
    units = [unit(passage, level) for passage in passages]
    known = [one for one in units if one is not None]
    return reduce_to_documents(known) if len(known) == len(units) else None


def reduce_to_documents(passages: Iterable[str]) -> list[str]:
    """Documents in the order of their best passage.

    Args:
        passages: The document of each passage, in rank order.
    """
    return list(dict.fromkeys(passages))
