"""What each measure is: its name for people, one line, and which way is better; from the registry where it is there.

A measure that nobody has heard of, such as one of a package that is not installed here, keeps its own name.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import cache, lru_cache

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.registry import Metric, built_in_definitions, metrics
from rag_eval_pipeline.reporting.site.known_figures import HEADINGS, Figure, Unit, known_figures
from rag_eval_pipeline.reporting.site.questions import OwnMetric

PAGE = "page/"

# Spellings of the field; other names are written as words.
_SPELLINGS = {
    "ndcg": "nDCG", "map": "MAP", "mrr": "MRR", "f1": "F1", "em": "EM", "rouge": "ROUGE", "iou": "IoU", "rbp": "RBP",
    "err": "ERR", "jaccard": "Jaccard", "hotpot": "HotpotQA", "ragchecker": "RAGChecker", "bleu": "BLEU", "dcg": "DCG",
}  # fmt: skip


@lru_cache(4096)
def figure_of(name: str) -> Figure:
    """What is known of a measure; its own name in words where nothing is."""
    bare = name.removeprefix(PAGE)
    known, row = _known().get(bare), _row(bare)
    if row is None:
        unknown = Figure(bare, label_of(bare), "", "ms" if bare.endswith("_ms") else "share", None)
        return (known or unknown)._replace(name=name)
    room = row.room if row.room in HEADINGS else "other"
    if known is not None:
        return known._replace(name=name, better=row.direction, source=row.source, room=room)
    unit: Unit = "share" if (row.range.low, row.range.high) == (0, 1) else "number"
    meaning = re.sub(r"\btop k\b", f"top {bare.partition('@')[2]}", row.meaning)
    return Figure(name, label_of(bare), meaning, unit, row.direction, room, row.source)


def own_figure(name: str, row: OwnMetric) -> Figure:
    """A metric that is not built in, by what the results say of it."""
    unit: Unit = "share" if (row.low, row.high) == (0, 1) else "number"
    room = row.room if row.room in HEADINGS else "other"
    return Figure(name, label_of(name), row.meaning, unit, row.direction, room, row.source)


def metric_label(metric: str) -> str:
    """A compared metric for people: `Hit@1 by page`."""
    label = figure_of(metric).label
    return f"{label} by page" if metric.startswith(PAGE) else label


def label_of(name: str) -> str:
    """A name as words: `span_precision` is "Span precision"; one that is no such name stays as it is."""
    if not re.fullmatch(r"[\w/]+(@[\w.]+)?", name):
        return name
    words, at, depth = name.replace("_", " ").replace("/", " ").partition("@")
    spelt = [_SPELLINGS.get(word, word) for word in words.split()]
    if spelt and spelt[0] not in _SPELLINGS.values():
        spelt[0] = spelt[0][:1].upper() + spelt[0][1:]
    return " ".join(spelt) + at + depth


@cache
def registry_digest() -> str:
    """Of the registry's rows: pages made with other rows are made again."""
    return hashlib.blake2b(repr(sorted(_rows().items())).encode(), digest_size=8).hexdigest()


def _row(name: str) -> Metric | None:
    rows = _rows()
    family, at, _ = name.partition("@")
    return rows.get(name) or (rows.get(f"{family}@k") if at else None)


@cache
def _known() -> Mapping[str, Figure]:
    return {figure.name: figure for figure in known_figures()}


@cache
def _rows() -> Mapping[str, Metric]:
    try:
        rows = list(metrics())
    except InputError:
        # A package of own metrics that cannot be loaded costs its own titles, not the report.
        rows = [found.metric for found in built_in_definitions()]
    return {name: row for row in rows for name in (row.name, *row.aliases)}
