"""Evaluators by name: the built-in ones, those of installed packages, and functions by their import path."""

import importlib
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import EvaluationConfig
from rag_eval_pipeline.judges.evaluators.evaluator import Evaluator
from rag_eval_pipeline.judges.evaluators.factual_accuracy import factual_accuracy
from rag_eval_pipeline.judges.evaluators.length import LENGTH
from rag_eval_pipeline.judges.evaluators.quality import quality
from rag_eval_pipeline.judges.evaluators.relevance import RELEVANCE
from rag_eval_pipeline.judges.evaluators.shared_judge import SharedJudge
from rag_eval_pipeline.judges.evaluators.toxicity import TOXICITY

GROUP = "rag_eval_pipeline.evaluators"  # of entry points; each names an Evaluator or a function of an event

BUILT_IN: dict[str, Callable[[SharedJudge], Evaluator]] = {
    "quality": quality,
    "factual_accuracy": factual_accuracy,
    "toxicity": lambda judge: TOXICITY,
    "relevance": lambda judge: RELEVANCE,
    "length": lambda judge: LENGTH,
}


def find_evaluators(config: EvaluationConfig, judge: SharedJudge, own: Mapping[str, Evaluator]) -> list[Evaluator]:
    """The evaluators of a configuration, in its order.

    Args:
        config: Names of built-in evaluators, of entry points, or `package.module:name`.
        judge: Behind those that need one.
        own: The caller's, by name; they go before all others.

    Raises:
        InputError: `unknown_evaluator`, `bad_evaluator`, `duplicate_evaluator`.
    """
    found: list[Evaluator] = []
    for name in config.evaluators:
        evaluator = own.get(name) or find_evaluator(name, judge)
        if evaluator.name in {other.name for other in found}:
            raise InputError("duplicate_evaluator", "evaluators", "each evaluator once", found=evaluator.name)
        found.append(evaluator)
    return found


def find_evaluator(name: str, judge: SharedJudge) -> Evaluator:
    """One evaluator; a plain function is one of its own name, without version and scale.

    Raises:
        InputError: `unknown_evaluator`, `bad_evaluator`.
    """
    if name in BUILT_IN:
        return BUILT_IN[name](judge)
    if ":" in name:
        return _as_evaluator(_imported(name), name)
    points = tuple(entry_points(group=GROUP, name=name))
    if not points:
        known = sorted({*BUILT_IN, *(point.name for point in entry_points(group=GROUP))})
        raise InputError(
            "unknown_evaluator", "evaluators", f"one of {', '.join(known)}, or package.module:name", found=name
        )
    try:
        return _as_evaluator(points[0].load(), name)
    except (Exception, SystemExit) as error:  # somebody else's package may raise anything
        raise _bad(name, error) from error


def _imported(name: str) -> Any:
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        raise _bad(name, error) from error
    return found


def _as_evaluator(found: Any, name: str) -> Evaluator:
    if isinstance(found, Evaluator):
        return found
    if not callable(found):
        raise InputError("bad_evaluator", "evaluators", f"{name} to be an Evaluator or a function", found=found)
    function = found
    return Evaluator(name=getattr(function, "__name__", name), evaluate=lambda event, options: function(event))


def _bad(name: str, error: BaseException) -> InputError:
    if isinstance(error, InputError):
        return error
    told = " ".join(f"{type(error).__name__}: {error}".split())
    return InputError("bad_evaluator", "evaluators", f"{name} to be importable", found=told)
