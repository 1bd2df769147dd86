"""Which file of a folder has the questions, and what became of the others.

Files are compared by what a question needs: its text counts most, then an answer, then something that leads to
documents. Of splits with equal scores the one to test with comes first.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from rag_eval_pipeline.scaffold.columns import Column
from rag_eval_pipeline.scaffold.headers import ROLES, is_gold, names_documents, normalised
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile, Origin
from rag_eval_pipeline.scaffold.roles import find_roles
from rag_eval_pipeline.scaffold.row_links import NOT_DOCUMENTS, holds_urls
from rag_eval_pipeline.scaffold.source_tables import SPLITS
from rag_eval_pipeline.scaffold.structs import find_structs
from rag_eval_pipeline.scaffold.writer import Draft, Guess

# Words in the names of files with gold answers, and in those of files with the answers of a system.
GOLD_FILES = frozenset("gold golden truth truths gt reference references labels labelled annotated".split())
OUTPUT_FILES = frozenset(
    "answer answers output outputs response responses prediction predictions generated result results run runs".split()
)
MAX_NAMED = 10  # files of one kind in a sentence

_POINTS = {"question": 4, "answer": 3, "documents": 2, "unanswerable": 1}


class Score(NamedTuple):
    """What a file has of a question's parts; without a question it is 0."""

    has: tuple[str, ...]

    @property
    def points(self) -> int:
        """The sum of the parts' points."""
        return sum(_POINTS[part] for part in self.has) if "question" in self.has else 0

    @property
    def shown(self) -> str:
        """The points with their reasons."""
        return f"score {self.points}: {', '.join(self.has) if self.points else 'no question'}"


def score_file(file: DataFile) -> Score:
    """Return what a file has of a question, an answer, a document and a mark of what is unanswerable."""
    roles = find_roles(file)
    taken = set(roles.columns.values())
    parts = {
        "question": "question" in roles.exprs,
        "answer": not {"answer", "answers"}.isdisjoint(roles.exprs),
        "documents": find_structs(file) is not None or any(_leads(c) for c in file.columns if c.name not in taken),
        "unanswerable": "is_impossible" in roles.exprs,
    }
    return Score(tuple(part for part, is_there in parts.items() if is_there))


def best_file(files: Iterable[DataFile]) -> DataFile | None:
    """Return the file with the highest score, of equal ones the split to test with; None if none has questions."""
    scored = [(score_file(file), file) for file in files]
    best = max(scored, key=lambda item: (*_truth(*item), item[0].points, -split_of(item[1].origin)), default=None)
    return best[1] if best is not None and best[0].points else None


def _truth(score: Score, file: DataFile) -> tuple[bool, int]:
    """Return whether a file has questions with answers, and how its name ranks these: gold, unknown, a system's."""
    is_complete = {"question", "answer"} <= set(score.has)
    words = origin_words(file.origin)
    return is_complete, is_complete * (bool(words & GOLD_FILES) - bool(words & OUTPUT_FILES))


def split_of(origin: Origin) -> int:
    """Return the place in `SPLITS` of the split that an origin is named for."""
    words = origin_words(origin)
    return next((place for place, name in enumerate(SPLITS) if name in words), len(SPLITS))


def origin_words(origin: Origin) -> set[str]:
    """Return the words of a relation's name: of its list in a file, or of its file."""
    return set(re.split(r"[\W_]+", (origin.root or origin.first or origin.shown).lower()))


def splits_in_order(files: Iterable[DataFile]) -> list[DataFile]:
    """Return files in their order, those of the split to test with first."""
    return sorted(files, key=lambda file: split_of(file.origin))


def file_guesses(profile: FolderProfile, draft: Draft) -> list[Guess]:
    """Return what was used of several files, what was left out, and why."""
    used = {draft.source.shown, *(origin.shown for origin in (draft.tables or {}).values())}
    source = next((file for file in profile.data if file.origin.shown == draft.source.shown), None)
    others = [file for file in profile.data if file.origin.shown not in used]
    guesses = []
    if others:
        text = f"source: {draft.source.shown}"
        text += f" ({score_file(source).shown})" if source is not None else ""
        guesses.append(Guess("source", f"{text}. Left out: {_listed(_why(file, source) for file in others)}."))
    if source is not None and _truth(score_file(source), source) == (True, -1):
        text = f"source: {source.origin.shown} is named as if a system had answered: check that its answers are right."
        guesses.append(Guess("source", text))
    covered = {str(origin.files) for origin in (draft.tables or {}).values() if origin.files}
    bodies = _paths_in_tables(profile, draft)
    if not covered and (unused := [name for name in profile.documents if name not in bodies]):
        text = f"Files that could be documents were left out, because nothing leads to them: {_listed(unused)}."
        guesses.append(Guess("documents", text))
    return guesses


def _why(file: DataFile, source: DataFile | None) -> str:
    if _truth(score_file(file), file) == (True, -1):
        return f"{file.origin.shown} (named as if a system had answered)"
    if source is not None and [c.name for c in file.columns] == [c.name for c in source.columns]:
        return f"{file.origin.shown} (the columns of the source; to use both, list them as `source`)"
    return f"{file.origin.shown} ({score_file(file).shown})"


def _paths_in_tables(profile: FolderProfile, draft: Draft) -> set[str]:
    """Return the files that the columns of the tables name: pages of a mirror."""
    tables = {origin.shown for origin in (draft.tables or {}).values()}
    columns = [column for file in profile.data if file.origin.shown in tables for column in file.columns]
    return {value for column in columns if column.kind == "text" for value in column.present}


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - MAX_NAMED} more" if len(every) > MAX_NAMED else ""
    return ", ".join(every[:MAX_NAMED]) + more


def _leads(column: Column) -> bool:
    words = normalised(column.name).split("_")
    if not is_gold(column) or not column.present or not NOT_DOCUMENTS.isdisjoint(words):
        return False
    return holds_urls(column) or normalised(column.name) in ROLES["passage"] or names_documents(column)
