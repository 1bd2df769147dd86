"""Every retrieval measure by every name that is understood: this project's, trec_eval's, and its nicknames.

`ndcg@10`, `err(max_grade=5)@10` and `mrr` are ours, whatever their case. `P.5,10`, `ndcg.1=3,2=9` and `recall` are what
trec_eval's -m takes, `P_5` is what it prints; case counts there. `official`, `all_trec` and `set` are its nicknames.
`package.module:NAME` is a family of one's own, `package.module:NAME@10` with a cutoff.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterable
from functools import cache

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.registry import custom_definition, custom_definitions
from rag_eval_pipeline.metrics.retrieval import measures
from rag_eval_pipeline.metrics.retrieval.definition import Family, Measure, Parameters
from rag_eval_pipeline.metrics.retrieval.parameters import cutoff, given, named, trec_parameters

# In the order in which trec_eval prints.
TREC_ORDER = (
    "num_q", "num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref", "recip_rank", "iprec_at_recall",
    "P", "relstring", "recall", "infAP", "gm_bpref", "Rprec_mult", "utility", "11pt_avg", "binG", "G", "dcg",
    "ideal_dcg", "ndcg", "ndcg_rel", "Rndcg", "ndcg_cut", "map_cut", "relative_P", "success", "set_P",
    "set_relative_P", "set_recall", "set_map", "set_F", "num_nonrel_judged_ret", "yaap", "rbp", "rbp_resid", "unj",
)  # fmt: skip
NICKNAMES = {
    "official": TREC_ORDER[:11],
    "all_trec": tuple(name for name in TREC_ORDER if name not in ("dcg", "ideal_dcg", "yaap")),
    "set": ("num_q", "num_ret", "num_rel", "num_rel_ret", "utility", "set_P", "set_relative_P", "set_recall",
            "set_map", "set_F"),
}  # fmt: skip
RUN_ID = "runid"  # trec_eval's name of the run's tag, which is no measure
CUTOFFS = (1, 3, 5, 10)  # the specification's k
DEFAULT_MEASURES = (
    *(f"{family}@{k}" for family in ("hit", "all_hit", "recall", "precision", "ndcg", "map") for k in CUTOFFS),
    "mrr",
)


@cache
def definitions() -> tuple[Family, ...]:
    """The built-in families, by module."""
    found: list[Family] = []
    for module in sorted(part.name for part in pkgutil.iter_modules(measures.__path__)):
        found += importlib.import_module(f"{measures.__name__}.{module}").FAMILIES
    return tuple(found)


@cache
def parse_measure(name: str) -> Measure:
    """The one measure of a name such as `ndcg@10`, `mrr`, `P_5` or `rbp(p=0.95)@10`.

    Raises:
        InputError: `unknown_measure`.
    """
    found = _parsed(name)
    if len(found) == 1:
        return found[0]
    raise _unknown(name, hint=f"Choose one, such as {found[0].name}.")


def parse_measures(names: Iterable[str]) -> tuple[Measure, ...]:
    """The measures of names as -m takes them, each once: trec_eval's in its order, then ours in the order given.

    Args:
        names: Those of `parse_measure`; `P.5,10` and `recall`, which are several; and nicknames.

    Raises:
        InputError: `unknown_measure`.
    """
    found: dict[str, Measure] = {}
    for name in names:
        if name == RUN_ID:
            continue
        for measure in [one for part in NICKNAMES.get(name, (name,)) for one in _parsed(part)]:
            found.setdefault(measure.label, measure)
    return tuple(sorted(found.values(), key=_place))


def shows_run_id(names: Iterable[str]) -> bool:
    """Whether trec_eval would print the run's id for these names."""
    return any(name == RUN_ID or name in NICKNAMES for name in names)


def _place(measure: Measure) -> tuple[int, int]:
    trec = measure.family.trec
    if trec not in TREC_ORDER or measure.label != measure.trec_name:
        return (len(TREC_ORDER), 0)
    return (TREC_ORDER.index(trec), measure.parameters.k)


@cache
def _by_name() -> dict[str, Family]:
    return {name: family for family in _families() for name in (family.metric.name, *family.metric.aliases)}


@cache
def _by_trec_name() -> dict[str, Family]:
    return {family.trec: family for family in _families() if family.trec is not None}


@cache
def _families() -> tuple[Family, ...]:
    return (*definitions(), *(found for found in custom_definitions() if isinstance(found, Family)))


def _parsed(name: str) -> tuple[Measure, ...]:
    return _trec(name) or _ours(name)


def _trec(name: str) -> tuple[Measure, ...]:
    families = _by_trec_name()
    base, dot, parameters = name.partition(".")
    family = families.get(base)
    if family is None:
        # What trec_eval prints: the longest name of a family that the text begins with.
        known = [trec for trec in families if name.startswith(f"{trec}_")]
        if not known:
            return ()
        base = max(known, key=len)
        family, dot, parameters = families[base], ".", name[len(base) + 1 :]
    found = trec_parameters(family, parameters if dot else None)
    if found is None:
        raise _unknown(name, hint=f"Write its parameters like {_example(family)}.")
    return tuple(_measure(family, text, one, trec=True) for text, one in found)


def _ours(name: str) -> tuple[Measure, ...]:
    parts = re.fullmatch(r"([^@()]+)(?:\(([^()]*)\))?(?:@([1-9][0-9]{0,8}))?", name)
    if parts is None:
        raise _unknown(name)
    form = parts[1] + ("@k" if parts[3] else "")
    family = _imported(parts[1]) or _by_name().get(form) or _by_name().get(form.lower())
    if family is None or (family.takes in ("cutoff", "fraction") and not parts[3]):
        raise _unknown(name)
    plain = cutoff(family, int(parts[3] or 0))
    one = plain if parts[2] is None else given(family, parts[2], plain)
    if one is None:
        raise _unknown(name, hint=f"Write its parameters like {_example(family)}.")
    return (_measure(family, parts[2], one, trec=False),)


def _imported(path: str) -> Family | None:
    found = custom_definition(path) if ":" in path else None
    if found is None or isinstance(found, Family):
        return found
    raise InputError("unknown_measure", "measure", "a Family of retrieval measures", found=path)


def _measure(family: Family, text: str | None, one: Parameters, *, trec: bool) -> Measure:
    metric = family.metric
    trec_name = None if family.trec is None else family.trec + (f"_{text}" if text else "")
    if family.takes == "cutoff":
        name = metric.name.replace("@k", f"{named(family, one)}@{one.k}")
        trec_name = None if family.trec is None else f"{family.trec}_{one.k}"
    elif family.takes == "fraction":
        name = f"{metric.name}_{text}"
    else:
        name = f"{metric.name}({text})" if text else metric.name
    meaning = metric.meaning.replace("top k", f"top {one.k}")
    label = trec_name if trec and trec_name is not None else name
    return Measure(name, trec_name, label, meaning, family, one)


def _example(family: Family) -> str:
    return {
        "cutoff": f"{family.trec or family.metric.name}.5,10",
        "fraction": f"{family.trec}.0.2,0.5",
        "numbers": f"{family.trec}.{','.join(f'{number:g}' for number in family.defaults)}",
        "pairs": f"{family.trec}.{','.join(['1=3', *(f'{key}={value:g}' for key, value in family.named.items())])}",
        "nothing": f"{family.trec}, without any",
    }[family.takes]


def _unknown(name: str, *, hint: str = "Write it like ndcg@10.") -> InputError:
    known = sorted(family.metric.name for family in _families())
    accepted = ", ".join(name for name in known if name.endswith("@k") or name in ("map", "mrr", "ndcg"))
    return InputError("unknown_measure", "measure", f"{accepted}, or one of trec_eval's names", found=name, hint=hint)
