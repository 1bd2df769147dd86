"""The description of a metric: key, label, meaning, range, direction and source."""

import math
import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

OF_SEGMENT = " of "  # between a metric's key and the segment of the questions that a verdict is on
ENTRY_POINT_GROUP = "rag_eval_pipeline.metrics"  # of metrics that installed packages add
Direction = Literal["higher", "lower", "neither"]
Level = Literal["passage", "page", "document", "span", "claim", "question"]
Need = Literal[
    "ranking", "relevant", "grades", "judged_nonrelevant", "answer", "accepted_answers", "citations", "gold_spans",
    "contexts", "judge", "usage", "timings",
]  # fmt: skip


class Range(NamedTuple):
    """Lowest and highest possible score; infinite where there is no bound."""

    low: float = 0.0
    high: float = 1.0

    def __str__(self) -> str:
        low = "-inf" if self.low == -math.inf else f"{self.low:g}"
        return f"{low} to {'inf' if self.high == math.inf else f'{self.high:g}'}"


SHARE = Range()
COUNT = Range(0.0, math.inf)
UNBOUNDED = Range(-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """One row of the registry."""

    name: str  # key in settings, results and history; a trailing `@k` is a cutoff
    meaning: str  # one sentence; "top k" in it is replaced by the cutoff
    source: str  # paper, specification or scorer that defines it
    needs: tuple[Need, ...]  # what a question must have to be scored
    levels: tuple[Level, ...]
    direction: Direction = "higher"  # `neither` for counts and descriptions
    range: Range = SHARE
    aliases: tuple[str, ...] = ()
    category: str = "retrieval"  # or contexts, citations, answers, abstention, claims, performance
    version: str = "1"  # of a custom metric; raised whenever equal answers may score differently
    label: str = ""  # what people read; made from the key unless given

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", label_from_key(self.name))


# Spellings of the field; everything else is written as words.
_SPELLINGS = {
    "ndcg": "nDCG", "map": "MAP", "mrr": "MRR", "f1": "F1", "em": "exact match", "rouge": "ROUGE", "iou": "IoU",
    "rbp": "RBP", "err": "ERR", "jaccard": "Jaccard", "dcg": "DCG",
}  # fmt: skip


def label_from_key(key: str) -> str:
    """Write a key as words: `span_precision` becomes "Span precision"; any other text is unchanged."""
    if not re.fullmatch(r"[\w/]+(@[\w.]+)?", key):
        return key
    words, at, depth = key.replace("_", " ").replace("/", " ").partition("@")
    spelt = [_SPELLINGS.get(word, word) for word in words.split()]
    if spelt and spelt[0] not in _SPELLINGS.values():
        spelt[0] = spelt[0][:1].upper() + spelt[0][1:]
    return " ".join(spelt) + at + depth
