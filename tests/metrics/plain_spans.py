"""Span accuracy character by character, as the specification computes it, with its mistakes corrected.

A slow reference: sets of characters instead of intervals, a search of all matchings instead of the Hungarian method,
and loops instead of columns.
"""

from itertools import permutations

from rag_eval_pipeline.metrics.spans import Overlap, Span

EXACT_WEIGHT = 1e-6
GOOD_MATCH = 0.8


def is_comparable(gold, predicted):
    """Same file and, when both carry a page, same page."""
    same_page = gold.page is None or predicted.page is None or gold.page == predicted.page
    return same_page and gold.file_name == predicted.file_name


def snap(span, gold, tolerance):
    """The span with each end moved towards the gold end by at most `tolerance` characters."""
    start, end = (
        min(max(target, position - tolerance), position + tolerance)
        for position, target in zip(span, gold, strict=True)
    )
    return Span(start, end)


def pair_jaccard(gold, predicted):
    """Jaccard of two single spans."""
    left, right = set(range(*gold)), set(range(*predicted))
    return len(left & right) / len(left | right)


def plain_scores(gold, predicted, tolerance, min_overlap):
    """The counts and sums of one answer by the names of `SpanScores`."""
    gold, predicted = sorted(set(gold), key=place), sorted(set(predicted), key=place)
    exact = {}
    tolerant = {}
    for i, wanted in enumerate(gold):
        for j, given in enumerate(predicted):
            if is_comparable(wanted, given):
                moved = pair_jaccard(wanted.span, snap(given.span, wanted.span, tolerance))
                if moved > 0:
                    exact[i, j], tolerant[i, j] = pair_jaccard(wanted.span, given.span), moved
    matched = best_assignment(len(gold), len(predicted), exact, tolerant)
    best = [
        max((pair for pair in exact if pair[0] == i), key=lambda pair: (weight(exact, tolerant, pair), -pair[1]))
        for i in sorted({i for i, _ in exact})
    ]
    return {
        "n_gold": len(gold),
        "n_predicted": len(predicted),
        "weight": sum(weight(exact, tolerant, pair) for pair in matched),
        "best_exact": in_order(exact[pair] for pair in best),
        "best_tolerant": in_order(tolerant[pair] for pair in best),
        "n_found": sum(tolerant[pair] >= min_overlap for pair in best),
        "n_correct": len({j for (i, j), value in tolerant.items() if value >= min_overlap}),
        "characters": plain_characters(gold, predicted),
    }


def place(citation):
    """The canonical order."""
    return citation.file_name, citation.page or 0, citation.span


def in_order(values):
    """A running sum, whose last bit does not depend on the version of Python."""
    total = 0.0
    for value in values:
        total += value
    return total


def weight(exact, tolerant, pair):
    """What a matching makes large."""
    return tolerant[pair] + EXACT_WEIGHT * exact[pair]


def best_assignment(n_gold, n_predicted, exact, tolerant):
    """The best of all one-to-one matchings."""
    rows, columns = (range(n_gold), range(n_predicted))
    turned = n_gold > n_predicted
    short, long = (columns, rows) if turned else (rows, columns)
    best, most = [], -1.0
    for order in permutations(long, len(short)):
        pairs = [(other, one) if turned else (one, other) for one, other in zip(short, order, strict=True)]
        kept = [pair for pair in pairs if pair in exact]
        total = sum(weight(exact, tolerant, pair) for pair in kept)
        if total > most:
            best, most = kept, total
    return best


def plain_characters(gold, predicted):
    """Cited characters of all documents: in both, gold, predicted."""
    without_page = {citation.file_name for citation in (*gold, *predicted) if citation.page is None}
    sides = [
        {
            (citation.file_name, None if citation.file_name in without_page else citation.page, position)
            for citation in side
            for position in range(*citation.span)
        }
        for side in (gold, predicted)
    ]
    return Overlap(len(sides[0] & sides[1]), len(sides[0]), len(sides[1]))
