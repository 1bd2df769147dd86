"""Citation spans against the specification's sets of characters: processor time, and whether the results are the same.

    python bench/spans.py [--answers N]

A million gold spans, five an answer, three documents of two pages, 40 to 400 characters; six of ten predictions are
copies that are off by up to 15 characters. The specification's sets are its own code, mended so far that each gold span
gets a best match of its own in its file and on its page. They are run on a few hundred answers, because all would take
minutes, and on the same answers sets with the tolerance of this project have to give the same Jaccards to the last bit.
Every time is the median of some runs.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rag_eval_pipeline.metrics.span_matching import (
    EXACT_WEIGHT,
    add_tokens,
    find_pairs,
    match_best,
    score_columns,
    score_spans,
)
from rag_eval_pipeline.metrics.spans import (
    Citation,
    Span,
    SpanColumns,
    find_tokens,
    measure_coverage,
    number_files,
    sort_distinct,
    to_columns,
)

SPANS_PER_ANSWER = 5
FILES, PAGES, CHARACTERS = 3, 2, 5_000
SHORTEST, LONGEST = 40, 400
OFF_BY = 15
TOLERANCE = 10
PLAIN_ANSWERS = 200  # that the specification's sets are run on: a fifth of a second a round
ROUNDS = 5
SEED = 1

Answers = list[list[Citation]]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=200_000, help="with five gold spans each")
    n_answers = parser.parse_args().answers
    gold, predicted = columns(n_answers)
    some = min(n_answers, 20_000)
    gold_objects, predicted_objects = citations(gold, some), citations(predicted, some)
    wanted, given = sort_distinct(gold), sort_distinct(predicted)
    n_plain = min(n_answers, PLAIN_ANSWERS)
    answers = pairs_of_answers(gold_objects, predicted_objects, n_plain)
    check_equal([plain_sets(*pair) for pair in answers], wanted, given)
    check_coverage(gold_objects[:n_plain], predicted_objects[:n_plain])

    n_spans, n_plain_spans = n_answers * SPANS_PER_ANSWER, n_plain * SPANS_PER_ANSWER
    sets = timed(lambda: [spec_sets(*pair) for pair in answers])[0] / n_plain_spans
    union = timed(lambda: [spec_union(*pair) for pair in answers])[0] / n_plain_spans
    both = sets + union
    print(f"{n_answers:,} answers, {n_spans:,} gold spans; a gold span:")
    show("the specification's sets: best match", sets, sets)
    taken, _ = timed(lambda: match_best(find_pairs(sort_distinct(gold), sort_distinct(predicted), TOLERANCE)))
    show("  columns", taken / n_spans, sets)
    show("the specification's sets: precision and recall", union, union)
    show("  columns", timed(lambda: measure_coverage(wanted, given, n_answers))[0] / n_spans, union)
    show("the specification's sets: both", both, both)
    taken, _ = timed(lambda: score_columns(sort_distinct(gold), sort_distinct(predicted), n_answers).columns())
    show("  columns: both, and one to one", taken / n_spans, both)
    taken, _ = timed(lambda: from_objects(gold_objects, predicted_objects))
    show("  objects to columns, and all of these", taken / (some * SPANS_PER_ANSWER), both)
    texts = {f"{file}.pdf": find_tokens("word and " * (CHARACTERS // 9)) for file in range(FILES)}
    files = {name: number for number, name in enumerate(texts)}
    scores = score_columns(wanted, given, n_answers)
    taken, _ = timed(lambda: add_tokens(scores, wanted, given, files, texts))
    show("  columns: tokens", taken / n_spans, both)
    taken, _ = timed(lambda: gold.start.sum() + gold.end.sum() + predicted.start.sum() + predicted.end.sum())
    show("  one pass over the offsets", taken / n_spans, both)
    alone = pairs_of_answers(gold_objects, predicted_objects, 200)
    taken, _ = timed(lambda: [score_spans([pair[0]], [pair[1]]).rows() for pair in alone])
    print(f"one answer alone, five spans a side: {taken / len(alone) * 1e3:.3f} ms (the specification's target: 5 ms)")
    long = [Citation("a.pdf", 1, Span(10_000 * i, 10_000 * i + 10_000)) for i in range(10)]
    taken, _ = timed(lambda: [score_spans([long], [long]).rows() for _ in range(20)])
    print(f"ten spans of 10,000 characters a side: {taken / 20 * 1e3:.3f} ms")


def columns(n_answers: int) -> tuple[SpanColumns, SpanColumns]:
    """Gold and predicted spans, in the order of answers and in no order within one."""
    rng = np.random.default_rng(SEED)
    sides = [_side(rng, n_answers) for _ in range(2)]
    gold, predicted = sides
    near = np.flatnonzero(rng.random(gold.size) < 0.6)
    for name in ("file", "page"):
        getattr(predicted, name)[near] = getattr(gold, name)[near]
    off = rng.integers(-OFF_BY, OFF_BY + 1, (2, near.size))
    predicted.start[near] = np.maximum(gold.start[near] + off[0], 0)
    predicted.end[near] = np.maximum(gold.end[near] + off[1], predicted.start[near] + 1)
    return gold, predicted


def _side(rng: np.random.Generator, n_answers: int) -> SpanColumns:
    n = n_answers * SPANS_PER_ANSWER
    start = rng.integers(0, CHARACTERS, n)
    return SpanColumns(
        np.repeat(np.arange(n_answers), SPANS_PER_ANSWER), rng.integers(0, FILES, n), rng.integers(1, PAGES + 1, n),
        start, start + rng.integers(SHORTEST, LONGEST, n),
    )  # fmt: skip


def citations(spans: SpanColumns, n_answers: int) -> Answers:
    """The first answers as objects."""
    answers: Answers = [[] for _ in range(n_answers)]
    for answer, file, page, start, end in zip(
        *(c[: n_answers * SPANS_PER_ANSWER].tolist() for c in spans), strict=True
    ):
        answers[answer].append(Citation(f"{file}.pdf", page, Span(start, end)))
    return answers


def pairs_of_answers(gold: Answers, predicted: Answers, n: int) -> Sequence[tuple[list[Citation], list[Citation]]]:
    """The sides of the first answers."""
    return list(zip(gold[:n], predicted[:n], strict=True))


def spec_sets(gold: list[Citation], predicted: list[Citation]) -> list[dict[str, float]]:
    """The specification's evaluate_citation_spans, a best match a gold span: every character is widened by itself."""
    found = []
    for wanted in gold:
        own = set(range(*wanted.span))
        best = {"exact_jaccard": 0.0, "tolerance_jaccard": 0.0}
        for given in predicted:
            if (given.file_name, given.page) != (wanted.file_name, wanted.page):
                continue
            other, wide = set(range(*given.span)), set[int]()
            for position in other:
                wide.update(range(max(0, position - TOLERANCE), position + TOLERANCE + 1))
            scores = {"exact_jaccard": _jaccard(own, other), "tolerance_jaccard": _jaccard(own, wide)}
            best = max(best, scores, key=lambda pair: pair["tolerance_jaccard"])
        found.append(best)
    return found


def plain_sets(gold: list[Citation], predicted: list[Citation]) -> list[tuple[float, float]]:
    """Exact and tolerance Jaccard of the best match of each gold span, in the order of files and places."""
    found = []
    for wanted in sorted(set(gold)):
        own, best = set(range(*wanted.span)), (0.0, 0.0)
        for given in sorted(set(predicted)):
            if (given.file_name, given.page) != (wanted.file_name, wanted.page):
                continue
            exact = _jaccard(own, set(range(*given.span)))
            moved = [min(max(w, g - TOLERANCE), g + TOLERANCE) for g, w in zip(given.span, wanted.span, strict=True)]
            best = max(best, (exact, _jaccard(own, set(range(*moved)))), key=lambda two: two[1] + EXACT_WEIGHT * two[0])
        found.append(best)
    return found


def _jaccard(one: set[int], other: set[int]) -> float:
    return len(one & other) / len(one | other)


def spec_union(gold: list[Citation], predicted: list[Citation]) -> tuple[int, int, int]:
    """Characters in both sides, in gold, in predicted."""
    one, other = ({(c.file_name, c.page, i) for c in side for i in range(*c.span)} for side in (gold, predicted))
    return len(one & other), len(one), len(other)


def from_objects(gold: Answers, predicted: Answers) -> object:
    """The scores of citations as an evaluation has them."""
    files = number_files(gold, predicted)
    return score_columns(to_columns(gold, files), to_columns(predicted, files), len(gold)).columns()


def check_equal(by_sets: list[list[tuple[float, float]]], gold: SpanColumns, predicted: SpanColumns) -> None:
    """Stops when a Jaccard is another one than the specification's sets give, in the last bit."""
    best = match_best(find_pairs(gold, predicted, TOLERANCE))
    table = np.zeros((gold.size, 2))
    table[best.gold] = np.stack([best.exact, best.tolerant], axis=1)
    n = sum(len(rows) for rows in by_sets)
    if not np.array_equal(table[:n], np.array([row for rows in by_sets for row in rows])):
        raise SystemExit("the columns give other Jaccards than the sets")
    print(f"{n:,} gold spans: both Jaccards equal to the last bit")


def check_coverage(gold: Answers, predicted: Answers) -> None:
    """Stops when a count of characters differs."""
    files = number_files(gold, predicted)
    found = measure_coverage(to_columns(gold, files), to_columns(predicted, files), len(gold))
    wanted = [spec_union(*pair) for pair in zip(gold, predicted, strict=True)]
    if [tuple(row) for row in np.stack(found, axis=1).tolist()] != wanted:
        raise SystemExit("the columns count other characters than the sets")


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds, the median of some runs, and the last result."""
    seconds = []
    for _ in range(ROUNDS):
        gc.collect()
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds), result


def show(what: str, seconds: float, against: float) -> None:
    """A line of the table."""
    print(f"  {what:52} {seconds * 1e9:12,.1f} ns  {against / seconds:10,.1f}x")


if __name__ == "__main__":
    main()
