"""Labelled answers of several systems to one benchmark, compared with a judge at once.

A benchmark of forty questions never has the hundred labels that calibrate a judge by the answers of one system. A card
holds for a benchmark and a judge, whoever answered, so the answers of several systems count together.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rag_eval_pipeline.judges.calibration_labels import Label
from rag_eval_pipeline.judges.judgement import Case


class LabelledAnswers(NamedTuple):
    """One system's answers and what people say of them.

    Args:
        system: Whose answers, by a name that is its own among several.
        cases: The answers that arrived.
        labels: Of those answers; others are counted as `no_answer`.
    """

    system: str
    cases: Sequence[Case]
    labels: Sequence[Label]


def pooled(answers: Sequence[LabelledAnswers]) -> tuple[list[Case], list[Label]]:
    """Cases and labels of all systems; of several, question 12 of `ours` is called `ours/12` in both."""
    if len(answers) == 1:
        return list(answers[0].cases), list(answers[0].labels)
    cases, labels = [], []
    for system, own_cases, own_labels in answers:
        cases += [msgspec.structs.replace(case, query_id=f"{system}/{case.query_id}") for case in own_cases]
        labels += [label.model_copy(update={"query_id": f"{system}/{label.query_id}"}) for label in own_labels]
    return cases, labels
