"""Names of retrieval measures.

`ndcg@10`, `err(max_grade=5)@10` and `mrr` are ours, in any case. `P.5,10`, `ndcg.1=3,2=9` and `recall` are what
trec_eval's -m takes, and `P_5` is what it prints; there case matters. `official`, `all_trec` and `set` are trec_eval's
nicknames. `package.module:NAME` is a custom family, `package.module:NAME@10` one with a cutoff.
"""

import re
from collections.abc import Iterable
from functools import cache

from rag_eval_pipeline.errors import InputError, did_you_mean
from rag_eval_pipeline.metrics.custom import installed_metrics, load_metric
from rag_eval_pipeline.metrics.retrieval.families import FAMILIES, Family, Measure, Parameters

# In the order in which trec_eval prints.
TREC_ORDER = (
    "num_q", "num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref", "recip_rank",
    "iprec_at_recall", "P", "relstring", "recall", "infAP", "gm_bpref", "Rprec_mult", "utility", "11pt_avg", "binG",
    "G", "ndcg", "ndcg_rel", "Rndcg", "ndcg_cut", "map_cut", "relative_P", "success", "set_P", "set_relative_P",
    "set_recall", "set_map", "set_F", "num_nonrel_judged_ret", "rbp", "rbp_resid", "unj",
)  # fmt: skip
NICKNAMES = {
    "official": TREC_ORDER[:11],
    "all_trec": TREC_ORDER,
    "set": ("num_q", "num_ret", "num_rel", "num_rel_ret", "utility", "set_P", "set_relative_P", "set_recall",
            "set_map", "set_F"),
}  # fmt: skip
RUN_ID = "runid"  # trec_eval's name of the run's tag, which is no measure

_CUTOFF = re.compile(r"0*[1-9][0-9]{0,8}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_GRADE = re.compile(r"[0-9]{1,9}")


@cache
def parse_measure(name: str) -> Measure:
    """Return the one measure of a name such as `ndcg@10`, `mrr`, `P_5` or `rbp(p=0.95)@10`.

    Raises:
        InputError: `unknown_measure`.
    """
    found = _parse(name)
    if len(found) == 1:
        return found[0]
    raise _unknown(name, hint=f"Choose one, such as {found[0].name}.")


def parse_measures(names: Iterable[str]) -> tuple[Measure, ...]:
    """Return the measures of names as -m takes them, each once: trec_eval's in its order, then ours in the order given.

    Names are those of `parse_measure`, nicknames, and names of several measures such as `P.5,10` and `recall`.
    """
    found: dict[str, Measure] = {}
    for name in names:
        if name != RUN_ID:
            for measure in [one for part in NICKNAMES.get(name, (name,)) for one in _parse(part)]:
                found.setdefault(measure.label, measure)
    return tuple(sorted(found.values(), key=_print_order))


def shows_run_id(names: Iterable[str]) -> bool:
    """Whether trec_eval would print the run's id for these names."""
    return any(name == RUN_ID or name in NICKNAMES for name in names)


def _print_order(measure: Measure) -> tuple[int, int]:
    trec = measure.family.trec
    if trec not in TREC_ORDER or measure.label != measure.trec_name:
        return (len(TREC_ORDER), 0)
    return (TREC_ORDER.index(trec), measure.parameters.k)


@cache
def _families() -> tuple[Family, ...]:
    return (*FAMILIES, *(found for found in installed_metrics() if isinstance(found, Family)))


def _parse(name: str) -> tuple[Measure, ...]:
    return _parse_trec(name) or _parse_ours(name)


def _parse_trec(name: str) -> tuple[Measure, ...]:
    families = {family.trec: family for family in _families() if family.trec is not None}
    base, dot, text = name.partition(".")
    family = families.get(base)
    if family is None:
        # What trec_eval prints: the longest name of a family that the text begins with.
        known = [trec for trec in families if name.startswith(f"{trec}_")]
        if not known:
            return ()
        base = max(known, key=len)
        family, dot, text = families[base], ".", name[len(base) + 1 :]
    found = _parse_trec_parameters(family, text if dot else None)
    if found is None:
        raise _unknown(name)
    return tuple(_make_measure(family, shown, parameters, is_trec=True) for shown, parameters in found)


def _parse_ours(name: str) -> tuple[Measure, ...]:
    parts = re.fullmatch(r"([^@()]+)(?:\(([^()]*)\))?(?:@([1-9][0-9]{0,8}))?", name)
    if parts is None:
        raise _unknown(name)
    base, text, k = parts[1], parts[2], int(parts[3] or 0)
    if ":" in base:
        family = load_metric(base)
        if not isinstance(family, Family):
            raise InputError("unknown_measure", "measure", "a Family of retrieval measures", found=base)
    else:
        by_name = {key: one for one in _families() for key in (one.metric.name, *one.metric.aliases)}
        form = base + ("@k" if k else "")
        found = by_name.get(form) or by_name.get(form.lower())
        if found is None:
            raise _unknown(name)
        family = found
    if family.takes in ("cutoff", "fraction") and not k:
        raise _unknown(name)
    defaults = _defaults(family, k)
    parameters = defaults if text is None else _parse_parameters(family, text, defaults)
    if parameters is None:
        raise _unknown(name)
    return (_make_measure(family, text, parameters, is_trec=False),)


def _make_measure(family: Family, text: str | None, parameters: Parameters, *, is_trec: bool) -> Measure:
    metric = family.metric
    trec_name = None if family.trec is None else family.trec + (f"_{text}" if text else "")
    if family.takes == "cutoff":
        other = [f"{key}={value:g}" for key, value in parameters.named.items() if value != family.named[key]]
        bracket = f"({','.join(other)})" if other else ""
        name = metric.name.replace("@k", f"{bracket}@{parameters.k}")
        trec_name = None if family.trec is None else f"{family.trec}_{parameters.k}"
    elif family.takes == "fraction":
        name = f"{metric.name}_{text}"
    else:
        name = f"{metric.name}({text})" if text else metric.name
    label = trec_name if is_trec and trec_name is not None else name
    return Measure(name, trec_name, label, family, parameters)


def _defaults(family: Family, k: int) -> Parameters:
    return Parameters(k=k, numbers=tuple(map(float, family.defaults)), named=dict(family.named))


def _parse_parameters(family: Family, text: str, defaults: Parameters) -> Parameters | None:
    if family.takes == "numbers":
        numbers = _parse_numbers(text)
        if numbers is None or not (len(numbers) == len(family.defaults) or family.trec == "11pt_avg"):
            return None
        return defaults._replace(numbers=numbers)
    if family.takes not in ("pairs", "cutoff"):
        return None
    gains, named = {}, dict(defaults.named)
    for part in text.split(","):
        key, sign, value = part.partition("=")
        if not sign or not _NUMBER.fullmatch(value):
            return None
        if key in family.named:
            named[key] = float(value)
        elif family.takes == "pairs" and _GRADE.fullmatch(key):
            gains[int(key)] = float(value)
        else:
            return None
    highest = named.get("max_grade", 1.0)
    is_valid = 0 < named.get("p", 0.5) < 1 and highest >= 1 and float(highest).is_integer()
    return defaults._replace(gains=gains, named=named) if is_valid else None


def _parse_trec_parameters(family: Family, text: str | None) -> list[tuple[str | None, Parameters]] | None:
    """Return what trec_eval's -m makes of parameters: (as printed, parameters) of each measure; None if they are bad.

    `text` is what follows the name; None for trec_eval's defaults.
    """
    defaults = _defaults(family, 0)
    if family.takes == "cutoff":
        cutoffs = family.defaults if text is None else _parse_cutoffs(text)
        return None if cutoffs is None else [(str(int(k)), defaults._replace(k=int(k))) for k in sorted(set(cutoffs))]
    if family.takes == "fraction":
        fractions = family.defaults if text is None else _parse_numbers(text)
        if fractions is None:
            return None
        return [(f"{one:3.2f}", defaults._replace(numbers=(float(one),))) for one in sorted(set(fractions))]
    if text is None:
        return [(None, defaults)]
    found = _parse_parameters(family, text, defaults)
    return None if found is None else [(text, found)]


def _parse_cutoffs(text: str) -> tuple[int, ...] | None:
    parts = text.split(",")
    return tuple(map(int, parts)) if all(map(_CUTOFF.fullmatch, parts)) else None


def _parse_numbers(text: str) -> tuple[float, ...] | None:
    parts = text.split(",")
    return tuple(map(float, parts)) if all(map(_NUMBER.fullmatch, parts)) else None


def _unknown(name: str, *, hint: str | None = None) -> InputError:
    known = sorted(family.metric.name for family in _families())
    stated = name.rpartition("@")[2].lstrip("0")
    cutoff = stated if _CUTOFF.fullmatch(stated) else "10"
    hint = hint or did_you_mean(name, [form.replace("@k", f"@{cutoff}") for form in known]) or "Write it like ndcg@10."
    accepted = ", ".join(name for name in known if name.endswith("@k") or name in ("map", "mrr", "ndcg"))
    return InputError("unknown_measure", "measure", f"{accepted}, or one of trec_eval's names", found=name, hint=hint)
