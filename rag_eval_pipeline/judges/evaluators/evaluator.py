"""What an evaluator is: data and one function from an event to the fields of an evaluation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import EvaluationConfig
from rag_eval_pipeline.formats.model import Model, bad_format
from rag_eval_pipeline.judges.evaluators.event import Event, Need
from rag_eval_pipeline.metrics.evaluation_scores import Scale

Fields = Mapping[str, Any]
"""Fields of an evaluation: `score`, `explanation`, `confidence`, `metadata`, `cost_usd` and the evaluator's own."""

Evaluate = Callable[[Event, Any], Any]
"""Event and options to `Fields` or a bare score, or to an awaitable of either."""


class EvaluatorError(Exception):
    """An evaluation that could not be made.

    Args:
        code: One cause, one code.
        message: One line.
        is_final: Another try would end the same way.
    """

    def __init__(self, code: str, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.is_final = is_final


class NotApplicable(Exception):
    """The evaluator has nothing to say of this event; its evaluation is skipped, with this text as the reason."""


@dataclass(frozen=True, slots=True)
class Evaluator:
    """One evaluator.

    Args:
        name: As configurations and evaluations have it.
        evaluate: Event and options to fields or a score; plain or async. It may raise `NotApplicable` or
            `EvaluatorError`; whatever else it raises is a failure that is tried again.
        version: Semantic; raised whenever the same event may be scored otherwise.
        scale: Range and better end of its scores; None for those of which nothing is known, and for true and false.
        needs: What an event must have; its evaluation is skipped without.
        options: Checks the evaluator's part of `evaluator_configs`; None hands it over as it is.
        in_thread: A plain function is called in a thread, where it can be given up when its time is over. Those that
            are quick by nature are called at once.
    """

    name: str
    evaluate: Evaluate
    version: str | None = None
    scale: Scale | None = None
    needs: frozenset[Need] = frozenset({"answer"})
    options: type[Model] | None = None
    in_thread: bool = True

    def options_of(self, config: EvaluationConfig) -> Any:
        """This evaluator's options, checked.

        Raises:
            InputError: `bad_format` naming the option.
        """
        given = config.evaluator_configs.get(self.name, {})
        if self.options is None:
            return given
        try:
            return self.options.model_validate(given)
        except pydantic.ValidationError as error:
            raise bad_format(f"evaluator_configs of {self.name}", error) from error

    def missing(self, event: Event) -> list[Need]:
        """What an event lacks, sorted."""
        return sorted(need for need in self.needs if not event.has(need))


def refuse_unknown_configs(config: EvaluationConfig, names: Mapping[str, Evaluator]) -> None:
    """Options of an evaluator that is not run are a misspelt name.

    Raises:
        InputError: `unknown_evaluator`.
    """
    for name in config.evaluator_configs:
        if name not in names:
            raise InputError(
                "unknown_evaluator", "evaluator_configs", f"one of {', '.join(sorted(names)) or '(none)'}", found=name
            )
