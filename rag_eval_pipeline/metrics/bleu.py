"""BLEU by sacrebleu, where it is installed.

BLEU is made for whole corpora of translations; of single short answers it says little, so nothing depends on it, and
its package, which brings lxml along, is the optional extra `text-overlap`.
Source: Papineni et al. 2002; Post 2018, A Call for Clarity in Reporting BLEU Scores.
"""

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from rag_eval_pipeline.errors import ServiceError


class Bleu(NamedTuple):
    """A score in [0, 1], and sacrebleu's signature, without which it cannot be compared with any other."""

    value: float
    signature: str


def sentence_bleu(answer: str, accepted: Sequence[str]) -> float | None:
    """BLEU-4 of one answer with exponential smoothing, in [0, 1]; None without an accepted answer.

    Raises:
        ServiceError: `missing_package`.
    """
    if not accepted:
        return None
    score: float = _sacrebleu().sentence_bleu(answer, list(accepted)).score
    return min(1.0, score / 100.0)


def corpus_bleu(answers: Sequence[str], accepted: Sequence[Sequence[str]]) -> Bleu | None:
    """BLEU-4 of many answers as one corpus; None for no answers.

    Args:
        answers: One a question.
        accepted: The accepted answers of each, one or more.

    Raises:
        ServiceError: `missing_package`.
        ValueError: A question without an accepted answer, or sides of different length.
    """
    if len(answers) != len(accepted) or not all(accepted):
        raise ValueError(f"expected an accepted answer for each of {len(answers)} answers")
    if not answers:
        return None
    depth = max(map(len, accepted))
    # sacrebleu wants one list a reference; the first stands in where a question has fewer, which changes no maximum.
    columns = [[own[i] if i < len(own) else own[0] for own in accepted] for i in range(depth)]
    bleu = _sacrebleu().metrics.BLEU()
    score: float = bleu.corpus_score(list(answers), columns).score
    return Bleu(min(1.0, score / 100.0), str(bleu.get_signature()))


def _sacrebleu() -> Any:
    try:
        return importlib.import_module("sacrebleu")
    except ModuleNotFoundError:
        raise ServiceError(
            "missing_package", "BLEU needs the package sacrebleu",
            hint="Install the extra text-overlap, or the package alone: pip install 'sacrebleu>=2.6'.",
        ) from None  # fmt: skip
