"""Which shape a benchmark's files have.

The first shape in `SHAPES` that fits is used, so special ones come before general ones.
"""

from collections.abc import Callable

from rag_eval_pipeline.scaffold.profile import FolderProfile
from rag_eval_pipeline.scaffold.rows import rows, skeleton
from rag_eval_pipeline.scaffold.shapes import evret, flat_squad, hotpot, nested_squad, qrels
from rag_eval_pipeline.scaffold.special_rows import byte_offsets, translated
from rag_eval_pipeline.scaffold.writer import Draft

SHAPES: tuple[Callable[[FolderProfile], Draft | None], ...] = (
    nested_squad,
    flat_squad,
    hotpot,
    qrels,
    evret,
    translated,
    byte_offsets,
    rows,
)


def recognise(profile: FolderProfile) -> Draft | None:
    """Return the draft of the first shape that fits; a skeleton for unknown columns, None without any rows."""
    for shape in SHAPES:
        draft = shape(profile)
        if draft is not None:
            return draft
    filled = [file for file in profile.data if file.columns]
    return skeleton(profile, max(filled, key=lambda file: file.rows)) if filled else None
