"""Which format a benchmark's files have: a known one by its recipe, any other by a guess.

The first shape in `SHAPES` that fits is used, so special ones come before general ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from rag_eval_pipeline.scaffold.inner_questions import inner_questions
from rag_eval_pipeline.scaffold.judgements import qrels
from rag_eval_pipeline.scaffold.multiple_choice import with_chosen_answers
from rag_eval_pipeline.scaffold.profile import FolderProfile
from rag_eval_pipeline.scaffold.recipe import Recipe
from rag_eval_pipeline.scaffold.recipe_draft import draft_by_recipe
from rag_eval_pipeline.scaffold.rows import rows, skeleton
from rag_eval_pipeline.scaffold.selection import file_guesses
from rag_eval_pipeline.scaffold.traces import traces
from rag_eval_pipeline.scaffold.writer import Draft

SHAPES: tuple[Callable[[FolderProfile], Draft | None], ...] = (
    qrels,
    traces,
    rows,
    inner_questions,
)


class Recognised(NamedTuple):
    """A draft with the profile that it is of, in which options are chosen answers unless a recipe read them."""

    draft: Draft | None
    profile: FolderProfile
    notes: list[str]


def recognise(profile: FolderProfile, recipes: Mapping[str, Recipe]) -> Recognised:
    """Return the draft of the most special recipe that fits, else a guess.

    The guess is a skeleton for unknown columns, and None without any rows.
    """
    draft, notes = draft_by_recipe(profile, recipes)
    if draft is not None:
        return Recognised(_with_files(profile, draft), profile, notes)
    profile = replace(profile, data=tuple(map(with_chosen_answers, profile.data)))
    for shape in SHAPES:
        draft = shape(profile)
        if draft is not None:
            return Recognised(_with_files(profile, draft), profile, notes)
    filled = [file for file in profile.data if file.columns]
    draft = _with_files(profile, skeleton(max(filled, key=lambda file: file.rows))) if filled else None
    return Recognised(draft, profile, notes)


def _with_files(profile: FolderProfile, draft: Draft) -> Draft:
    return replace(draft, guesses=(*file_guesses(profile, draft), *draft.guesses))
