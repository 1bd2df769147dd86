"""Questions for a benchmark from production: those unlike any that it has, and those with thumbs down.

Two questions are as alike as the cosine of their TF-IDF vectors, over word stems without function words. A question in
another case, with other punctuation or with a misspelled word is the same question.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.audit.audit_benchmark import has_documents
from rag_eval_pipeline.audit.audited_texts import content_words, question_words
from rag_eval_pipeline.audit.near_duplicates import near_pairs
from rag_eval_pipeline.audit.trace_questions import Trace, TraceFile, read_traces
from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.conversion.question_spool import iterate_batches
from rag_eval_pipeline.storage.atomic_files import atomic_write_json
from rag_eval_pipeline.workspace import Workspace

ALIKE = 0.5  # similarity from which two questions are alike: measured in docs/how-to/suggest.md
CELLS = 10_000_000  # similarities in memory at once


class Draft(NamedTuple):
    """A question from production that may become one of a benchmark."""

    id: str  # made of its words
    question: str  # in its most frequent spelling
    asked: int  # traces
    thumbs_down: int  # of these
    system_answer: str | None  # of the system in production, if possible one with thumbs down; never gold
    nearest: str | None  # question of the benchmark; None if none shares a word with it
    similarity: float  # to the nearest, in [0, 1]


class Suggestions(NamedTuple):
    """The drafts from production, those with thumbs down and the most frequent first, and counts of questions."""

    drafts: list[Draft]
    distinct: int  # in production
    known: int  # of these, those that the benchmark has
    known_down: int  # of `known`, those with thumbs down
    unlike: int  # of `drafts`, those that are unlike any of the benchmark


def suggest(workspace: Workspace, name: str, files: Sequence[Path]) -> tuple[Suggestions, list[TraceFile]]:
    """Write the drafts for a benchmark from files of traces, in place of earlier ones, and return both.

    Raises:
        InputError: A file that cannot be read or has no column of questions, or a benchmark that cannot be planned.
    """
    paths = workspace.existing_benchmark(name)
    read = [read_traces(file) for file in files]
    batches = iterate_batches(paths.questions, ["question"]) if has_documents(paths) else plan(paths).spool.read()
    questions = [text for batch in batches for text in batch.column("question").to_pylist()]
    found = find_drafts(questions, [trace for file in read for trace in file.traces])
    atomic_write_json(paths.drafts, [one._asdict() for one in found.drafts])
    return found, read


def find_drafts(questions: Sequence[str], traces: Sequence[Trace]) -> Suggestions:
    """Return the drafts for a benchmark with these questions."""
    spelled: dict[tuple[str, ...], list[Trace]] = {}
    for trace in traces:
        if words := question_words(trace.question):
            spelled.setdefault(tuple(words), []).append(trace)
    asked = list(map(question_words, questions))
    labels = _same([*asked, *spelled])
    in_benchmark = set(labels[: len(asked)])
    groups: defaultdict[int, list[Trace]] = defaultdict(list)
    for label, own in zip(labels[len(asked) :], spelled.values(), strict=True):
        groups[label] += own
    new = [own for label, own in groups.items() if label not in in_benchmark]
    texts = [min(Counter(one.question for one in own).items(), key=lambda item: (-item[1], item[0]))[0] for own in new]
    drafts = [
        _draft(text, own, *nearest) for text, own, nearest in zip(texts, new, _nearest(texts, questions), strict=True)
    ]
    drafts = [one for one in drafts if one.similarity < ALIKE or one.thumbs_down]
    return Suggestions(
        sorted(drafts, key=lambda one: (-one.thumbs_down, -one.asked, one.similarity, one.question)),
        distinct=len(groups),
        known=len(groups) - len(new),
        known_down=sum(any(one.is_disliked for one in own) for n, own in groups.items() if n in in_benchmark),
        unlike=sum(one.similarity < ALIKE for one in drafts),
    )


def _draft(question: str, traces: Sequence[Trace], nearest: str | None, similarity: float) -> Draft:
    disliked = [one for one in traces if one.is_disliked]
    answers = sorted(one.answer for one in (disliked or traces) if one.answer)
    answer = Counter(answers).most_common(1)[0][0] if answers else None
    digest = hashlib.blake2b(" ".join(question_words(question)).encode(), digest_size=4).hexdigest()
    return Draft(f"trace-{digest}", question, len(traces), len(disliked), answer, nearest, similarity)


def _same(words: Sequence[Sequence[str]]) -> list[int]:
    """Return a label for each question; those that ask the same have the same."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones, others = np.array(near_pairs(words), np.int64).reshape(-1, 2).T
    pairs = coo_array((np.ones(len(ones), np.int8), (ones, others)), shape=(len(words), len(words)))
    labels: list[int] = connected_components(pairs, directed=False)[1].tolist()
    return labels


def _nearest(texts: Sequence[str], questions: Sequence[str]) -> Iterator[tuple[str | None, float]]:
    """Yield, for each text, the most similar question and the similarity; None where no word is shared.

    Source: the smoothed weights of scikit-learn's TfidfVectorizer, ln((1 + n) / (1 + df)) + 1.
    """
    from scipy.sparse import coo_array, diags_array
    from scipy.sparse.linalg import norm

    words = [content_words(text) or question_words(text) for text in [*texts, *questions]]
    codes: dict[str, int] = {}
    columns = np.array([codes.setdefault(word, len(codes)) for own in words for word in own], np.int64)
    rows = np.repeat(np.arange(len(words)), [len(own) for own in words])
    shape = len(words), max(1, len(codes))
    frequency = np.bincount(columns[np.unique(rows * shape[1] + columns, return_index=True)[1]], minlength=shape[1])
    weights = np.log((1 + len(words)) / (1 + frequency)) + 1
    vectors = coo_array((weights[columns], (rows, columns)), shape=shape).tocsr()
    vectors = diags_array(1 / np.maximum(norm(vectors, axis=1), 1)) @ vectors  # no weight is below 1
    size = 1 + CELLS // max(1, len(questions))
    for start in range(0, len(texts), size):
        block = (vectors[start : min(start + size, len(texts))] @ vectors[len(texts) :].T).toarray()
        for similarities in block.round(2):
            place = int(similarities.argmax()) if len(questions) else 0
            found = float(similarities[place]) if len(questions) else 0.0
            yield (questions[place] if found else None), found
