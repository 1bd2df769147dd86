"""The metrics there are, as data: name, meaning, direction, range, level, what each needs, and its source.

A room of metrics is a module with `definitions()`; what it returns carries a `metric`. Own metrics join by an entry
point of the group `rag_eval_pipeline.metrics` or by an import path, and stand in every list beside the built-in ones.
"""

import importlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Literal, NamedTuple, Protocol

from rag_eval_pipeline.errors import InputError

GROUP = "rag_eval_pipeline.metrics"
ROOMS = ("rag_eval_pipeline.metrics.retrieval.catalogue", "rag_eval_pipeline.metrics.question_measures")

Direction = Literal["higher", "lower", "neither"]
Level = Literal["passage", "page", "document", "span", "claim", "question"]
Need = Literal[
    "ranking", "relevant", "grades", "judged_nonrelevant", "answer", "accepted_answers", "citations", "gold_spans",
    "contexts", "judge", "usage", "timings",
]  # fmt: skip


class Range(NamedTuple):
    """Least and greatest possible score; infinite where there is no bound."""

    low: float = 0.0
    high: float = 1.0

    def __str__(self) -> str:
        low = "-inf" if self.low == -math.inf else f"{self.low:g}"
        return f"{low} to {'inf' if self.high == math.inf else f'{self.high:g}'}"


SHARE = Range()
COUNT = Range(0.0, math.inf)
UNBOUNDED = Range(-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the registry.

    Args:
        name: As it stands in settings and results; `@k` at its end stands for a cutoff.
        meaning: One sentence; "top k" in it is the cutoff's.
        source: Paper, specification or scorer that defines it.
        needs: What a question must bring so that it can be scored.
        levels: At what it can be computed.
        direction: Which end is good; `neither` for counts and descriptions.
        range: Where scores lie.
        aliases: Other names that are understood.
        room: Which part of the results it belongs to.
        version: Raised whenever equal answers may score otherwise; part of the metrics' fingerprint of an evaluation
            that takes up this metric. Built-in metrics have one version together.
    """

    name: str
    meaning: str
    source: str
    needs: tuple[Need, ...]
    levels: tuple[Level, ...]
    direction: Direction = "higher"
    range: Range = SHARE
    aliases: tuple[str, ...] = ()
    room: str = "retrieval"
    version: str = "1"


class Definition(Protocol):
    """What a room holds of a metric: its row, and whatever computes it."""

    @property
    def metric(self) -> Metric:
        """The row."""


def definitions(paths: Iterable[str] = ()) -> tuple[Definition, ...]:
    """Every metric: of the rooms in their order, of entry points by name, of import paths as given.

    Args:
        paths: `package.module:NAME` of further definitions.

    Raises:
        InputError: `bad_metric` for what cannot be loaded or is none, `duplicate_metric` for a name that is taken.
    """
    found = [*built_in_definitions(), *custom_definitions(paths)]
    taken: set[str] = set()
    for definition in found:
        for name in (definition.metric.name, *definition.metric.aliases):
            if name in taken:
                raise InputError("duplicate_metric", "metrics", "each name and alias once", found=name)
            taken.add(name)
    return tuple(found)


def built_in_definitions() -> list[Definition]:
    """The metrics of this package, room by room."""
    return [definition for room in ROOMS for definition in importlib.import_module(room).definitions()]


def custom_definitions(paths: Iterable[str] = ()) -> list[Definition]:
    """The metrics that are not built in; arguments and errors as in `definitions`."""
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return [custom_definition(point.value) for point in points] + [custom_definition(path) for path in paths]


def named_definition(name: str) -> Definition:
    """The metric that is not built in of an import path, an entry point's name, or its own name.

    Raises:
        InputError: `unknown_metric`, `bad_metric`.
    """
    if ":" in name:
        return custom_definition(name)
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    for point in points:
        if point.name == name:
            return custom_definition(point.value)
    for point in points:
        if (found := custom_definition(point.value)).metric.name == name:
            return found
    known = ", ".join(point.name for point in points) or "none is installed"
    raise InputError(
        "unknown_metric", "metrics", f"an import path such as package.module:NAME, or an entry point of {GROUP}",
        found=name, hint=f"Entry points: {known}.",
    )  # fmt: skip


def metrics(paths: Iterable[str] = ()) -> tuple[Metric, ...]:
    """The rows of all metrics; arguments and errors as in `definitions`."""
    return tuple(definition.metric for definition in definitions(paths))


def metric_table(rows: Sequence[Metric]) -> str:
    """The rows as a Markdown table, for the README and reports."""
    lines = ["| metric | meaning | range | better | levels | source |", "|---|---|---|---|---|---|"]
    lines += [
        f"| `{row.name}` | {row.meaning} | {row.range} | {row.direction} | {', '.join(row.levels)} | {row.source} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def custom_definition(path: str) -> Definition:
    """The metric at an import path, `package.module:NAME`.

    Raises:
        InputError: `bad_metric`.
    """
    parts = re.fullmatch(r"([\w.]+):(\w+)", path)
    if parts is None:
        raise _bad(path, "an import path such as package.module:NAME", path)
    try:
        definition: Definition = getattr(importlib.import_module(parts[1]), parts[2])
    except Exception as error:  # whatever people's code raises while it is imported
        found = f"{type(error).__name__}: {error}".splitlines()[0]
        raise _bad(path, "a definition that can be imported", found) from error
    if not isinstance(getattr(definition, "metric", None), Metric):
        raise _bad(path, "an object whose `metric` is a Metric", type(definition).__name__)
    return definition


def _bad(path: str, expected: str, found: str) -> InputError:
    return InputError("bad_metric", f"metric {path}", expected, found=found)
