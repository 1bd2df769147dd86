"""Columns of URLs: one a cell, lists, cells in which several are glued, and columns numbered from link_1 on."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rag_eval_pipeline.proposal.bodies import URL
from rag_eval_pipeline.proposal.columns import Column
from rag_eval_pipeline.proposal.draft import Piece, identifier
from rag_eval_pipeline.proposal.lists import list_forms
from rag_eval_pipeline.proposal.words import LINKS, PICTURES, normalised

_STARTS_AS_URL = re.compile(r"\s*[\[(]?\s*['\"]?https?://")
_ONE_URL = re.compile(r"https?://[^\s<>\"\\,;|]+")  # nothing that could be the border of two
_NUMBERED = re.compile(r"(.*?)(\d+)\W*")


class UrlColumns(NamedTuple):
    """The URLs of each row.

    Args:
        used: All columns that hold URLs, those that were left out included.
        found: URLs of the sample, without repeats.
        is_single: Each row has one, in one column.
        remark: What was guessed.
    """

    piece: Piece
    used: frozenset[str]
    found: list[str]
    is_single: bool
    remark: str

    @property
    def unnested(self) -> str:
        """SQL of a row a URL."""
        return self.piece.sql if self.is_single else f"unnest({self.piece.sql})"


def find_urls(columns: Sequence[Column]) -> UrlColumns | None:
    """The columns with the documents' URLs: the most of them first, then names that say so."""
    holding = [column for column in columns if _holds_urls(column)]
    if not holding:
        return None
    column = min(holding, key=lambda column: _rank(column, holding))
    spread = _spread(column, holding)
    if len(spread) > 1:
        listed = ", ".join(identifier(part.name) for part in spread)
        piece = Piece(f"url_split(concat_ws(' ', {listed}))")
        remark = f"urls: columns {spread[0].name!r} to {spread[-1].name!r}, joined and split again"
    else:
        piece, how = _piece(column)
        remark = f"urls: column {column.described}{how}"
    others = [part.name for part in holding if part not in spread]
    remark += f"; {', '.join(others)} were left out because they hold URLs too." if others else "."
    return UrlColumns(
        piece,
        frozenset(part.name for part in holding),
        list(dict.fromkeys(url for part in spread for url in _urls(part))),
        len(spread) == 1 and piece.column is not None and column.kind == "text",
        remark,
    )


def _holds_urls(column: Column) -> bool:
    if not PICTURES.isdisjoint(normalised(column.name).split("_")):
        return False
    cells = column.present if column.kind in {"text", "texts"} else []
    starts = [bool(_STARTS_AS_URL.match(str(next(iter(c), "") if isinstance(c, list) else c))) for c in cells]
    return bool(starts) and 2 * sum(starts) >= len(starts)


def _rank(column: Column, columns: Sequence[Column]) -> tuple[int, bool, int]:
    return (-len(_urls(column)), LINKS.isdisjoint(normalised(column.name).split("_")), columns.index(column))


def _spread(column: Column, columns: Sequence[Column]) -> list[Column]:
    """The columns of one numbered row, such as link_1 to link_10, in their numbers' order; else the column alone."""
    match = _NUMBERED.fullmatch(column.name)
    if match is None:
        return [column]
    numbered = [(other, _NUMBERED.fullmatch(other.name)) for other in columns]
    same = [(int(found[2]), other.name, other) for other, found in numbered if found and found[1] == match[1]]
    return [other for _, _, other in sorted(same, key=lambda item: item[:2])]


def _piece(column: Column) -> tuple[Piece, str]:
    """The column as it stands where each cell is one URL or a list of such, else its cells taken apart."""
    name = identifier(column.name)
    if column.kind == "texts":
        if all(v is not None and _ONE_URL.fullmatch(v) for cell in column.present for v in cell):
            return Piece(name, column.name), ""
        return Piece(f"url_split(array_to_string({name}, ', '))"), ", joined and split again because some are glued"
    if all(not cell or _ONE_URL.fullmatch(cell) for cell in column.values):
        return Piece(name, column.name), ""
    form = next(list_forms(column, separators=()))
    if form.is_single:
        return Piece(f"url_split({name})"), ", split before each http"
    return Piece(f"url_split(array_to_string({form.sql}, ', '))"), f" ({form.shown}), joined and split before each http"


def _urls(column: Column) -> list[str]:
    """The URLs of the sample cells; whatever stands between them is left out."""
    form = next(list_forms(column, separators=()))
    parts = [part for cell in form.values for value in cell for part in re.split(r"(?=https?://)", value)]
    return [url for part in parts if URL.fullmatch(url := part.strip(" ,;|\t\r\n"))]
