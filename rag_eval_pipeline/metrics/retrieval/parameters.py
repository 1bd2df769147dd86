"""Parameters of measures as they are written: `5,10`, `0.2,0.5`, `1=3,2=9`, `p=0.8`.

Stricter than trec_eval, which reads `23.4` as the rank 23 and `x` as 0: what is no such number is no parameter.
"""

import re

from rag_eval_pipeline.metrics.retrieval.definition import Family, Parameters

_CUTOFF = re.compile(r"0*[1-9][0-9]{0,8}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_GRADE = re.compile(r"[0-9]{1,9}")


def cutoff(family: Family, k: int) -> Parameters:
    """The family's defaults with a cutoff; k is 0 where it takes none."""
    return Parameters(k=k, numbers=tuple(map(float, family.defaults)), named=dict(family.named))


def named(family: Family, parameters: Parameters) -> str:
    """Named parameters that are not the defaults, in brackets; nothing when there are none."""
    other = [f"{key}={value:g}" for key, value in parameters.named.items() if value != family.named[key]]
    return f"({','.join(other)})" if other else ""


def given(family: Family, text: str, parameters: Parameters) -> Parameters | None:
    """Parameters with those of a text in place of the defaults; None for a text that holds none of the kind.

    A family with a cutoff takes only named ones, besides the cutoff.
    """
    if family.takes == "numbers":
        numbers = _numbers(text)
        fitting = numbers is not None and (len(numbers) == len(family.defaults) or family.trec == "11pt_avg")
        return parameters._replace(numbers=numbers) if numbers is not None and fitting else None
    if family.takes not in ("pairs", "cutoff"):
        return None
    gains, by_name = {}, dict(parameters.named)
    for part in text.split(","):
        key, sign, value = part.partition("=")
        if not sign or not _NUMBER.fullmatch(value):
            return None
        if key in family.named:
            by_name[key] = float(value)
        elif family.takes == "pairs" and _GRADE.fullmatch(key):
            gains[int(key)] = float(value)
        else:
            return None
    return parameters._replace(gains=gains, named=by_name) if _in_range(by_name) else None


def trec_parameters(family: Family, text: str | None) -> list[tuple[str | None, Parameters]] | None:
    """What trec_eval's -m makes of parameters: (as printed, parameters) of each measure; None when they are bad.

    Args:
        family: One with a name of trec_eval's.
        text: What stands behind the name; None for the family's own defaults.
    """
    plain = cutoff(family, 0)
    if family.takes == "cutoff":
        ranks = family.defaults if text is None else _cutoffs(text)
        return None if ranks is None else [(str(int(k)), plain._replace(k=int(k))) for k in sorted(set(ranks))]
    if family.takes == "fraction":
        fractions = family.defaults if text is None else _numbers(text)
        if fractions is None:
            return None
        return [(f"{one:3.2f}", plain._replace(numbers=(float(one),))) for one in sorted(set(fractions))]
    if text is None:
        return [(None, plain)]
    found = given(family, text, plain)
    return None if found is None else [(text, found)]


def _cutoffs(text: str) -> tuple[int, ...] | None:
    parts = text.split(",")
    return tuple(map(int, parts)) if all(map(_CUTOFF.fullmatch, parts)) else None


def _numbers(text: str) -> tuple[float, ...] | None:
    parts = text.split(",")
    return tuple(map(float, parts)) if all(map(_NUMBER.fullmatch, parts)) else None


def _in_range(by_name: dict[str, float]) -> bool:
    top = by_name.get("max_grade", 1.0)
    return 0 < by_name.get("p", 0.5) < 1 and top >= 1 and float(top).is_integer()
