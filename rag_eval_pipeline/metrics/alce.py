"""ALCE's citation recall and precision of one answer, from labels of entailment that any judge can give.

Recall: statements whose citations together entail them. Precision: citations that are needed; one is not needed when it
does not entail the statement by itself and the others still do. A statement that cites what is not there is unsupported
and its citations are not counted, as in the official scorer. That scorer looks at the first three citations of a
statement only, unless told otherwise; here whoever makes the labels decides.
Source: Gao et al. 2023, Enabling Large Language Models to Generate Text with Citations; princeton-nlp/ALCE eval.py.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class CitedStatement(NamedTuple):
    """One statement of an answer, usually a sentence, with what was found of its citations.

    Args:
        joint: All its citations together entail it; False without citations.
        alone: For each citation whether it entails the statement by itself; empty without citations.
        without: For each whether the others together entail it; asked only where `alone` is False and `joint` is True.
        in_range: Every citation names something that was retrieved.
    """

    joint: bool
    alone: Sequence[bool] = ()
    without: Sequence[bool | None] = ()
    in_range: bool = True


class AlceScores(NamedTuple):
    """Shares in [0, 1].

    Args:
        citation_recall: Supported statements / statements.
        citation_precision: Needed citations / citations; 0.0 without citations.
    """

    citation_recall: float
    citation_precision: float

    @property
    def citation_f1(self) -> float:
        """Their harmonic mean; 0.0 when both are 0."""
        recall, precision = self.citation_recall, self.citation_precision
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def alce_scores(statements: Iterable[CitedStatement]) -> AlceScores | None:
    """Recall and precision of one answer.

    Returns:
        None for an answer without statements, which the official scorer leaves out.

    Raises:
        ValueError: A label that is needed is missing.
    """
    supported = needed = n_citations = n_statements = 0
    for number, statement in enumerate(statements):
        n_statements += 1
        if not statement.alone or not statement.in_range:
            continue
        n_citations += len(statement.alone)
        if not statement.joint:
            continue
        supported += 1
        needed += _needed(statement, number)
    if not n_statements:
        return None
    return AlceScores(supported / n_statements, needed / n_citations if n_citations else 0.0)


def _needed(statement: CitedStatement, number: int) -> int:
    if len(statement.alone) == 1:
        return 1
    if len(statement.without) != len(statement.alone):
        raise ValueError(f"expected {len(statement.alone)} labels without a citation in statement {number}")
    count = 0
    for alone, without in zip(statement.alone, statement.without, strict=True):
        if not alone and without is None:
            raise ValueError(f"expected a label without each citation that does not entail alone in statement {number}")
        count += alone or not without
    return count
