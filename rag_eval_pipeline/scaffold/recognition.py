"""Which shape a benchmark's files have.

The first shape in `SHAPES` that fits is used, so special ones come before general ones.
"""

from collections.abc import Callable
from dataclasses import replace

from rag_eval_pipeline.scaffold.assertions import promptfoo
from rag_eval_pipeline.scaffold.dataset_items import dataset_items
from rag_eval_pipeline.scaffold.gold_contexts import gold_contexts, keyed_by_ids
from rag_eval_pipeline.scaffold.inner_questions import inner_questions
from rag_eval_pipeline.scaffold.profile import FolderProfile
from rag_eval_pipeline.scaffold.rows import rows, skeleton
from rag_eval_pipeline.scaffold.selection import file_guesses
from rag_eval_pipeline.scaffold.shapes import evret, flat_squad, hotpot, nested_squad, qrels
from rag_eval_pipeline.scaffold.special_rows import byte_offsets, translated
from rag_eval_pipeline.scaffold.writer import Draft

SHAPES: tuple[Callable[[FolderProfile], Draft | None], ...] = (
    nested_squad,
    flat_squad,
    hotpot,
    qrels,
    evret,
    promptfoo,
    gold_contexts,
    keyed_by_ids,
    dataset_items,
    translated,
    byte_offsets,
    rows,
    inner_questions,
)


def recognise(profile: FolderProfile) -> Draft | None:
    """Return the draft of the first shape that fits; a skeleton for unknown columns, None without any rows."""
    for shape in SHAPES:
        draft = shape(profile)
        if draft is not None:
            return _with_files(profile, draft)
    filled = [file for file in profile.data if file.columns]
    return _with_files(profile, skeleton(max(filled, key=lambda file: file.rows))) if filled else None


def _with_files(profile: FolderProfile, draft: Draft) -> Draft:
    return replace(draft, guesses=(*file_guesses(profile, draft), *draft.guesses))
