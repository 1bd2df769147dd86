"""A trust card for people, in Markdown."""

from collections.abc import Iterator

from rag_eval_pipeline.judges.calibration_card import KappaRecord, Limits, TaskTrust, TrustCard

_WHOSE = {
    "human": "people's labels",
    "own": "labels of this project's own: they calibrate nothing",
    "model ratings": "ratings of another model, which are no truth: they calibrate nothing",
}
_YES = {"correctness": "correct", "support": "supported", "refusal": "refused"}


def card_markdown(card: TrustCard) -> str:
    """The card's text, ending in a newline."""
    return "\n".join(_lines(card)) + "\n"


def _lines(card: TrustCard) -> Iterator[str]:
    yield f"# Trust card: {card.judge} on {card.benchmark}"
    yield ""
    yield f"Compared with {_WHOSE[card.labels_by]}."
    if card.systems:
        yield f"Answers by {', '.join(map(_cell, card.systems))}."
    if card.annotators:
        yield f"Labelled by {', '.join(map(_cell, card.annotators))}."
    if card.models:
        yield f"The server used {', '.join(map(_cell, card.models))}."
    yield f"Judge fingerprint: `{_cell(card.judge_fingerprint)}`."
    for trust in card.tasks:
        yield ""
        yield from _task(trust)
    if card.position_swaps:
        yield ""
        yield "## Order of the texts"
        yield ""
        yield "| rating | equal both ways | 95 % | n | first less second |"
        yield "|---|---|---|---|---|"
        for swap in card.position_swaps:
            equal = swap.equal
            limits = _limits(equal.interval)
            yield f"| {swap.rating} | {equal.value:.3f} | {limits} | {equal.n} | {swap.difference:+.3f} |"


def _task(trust: TaskTrust) -> Iterator[str]:
    yes = _YES[trust.task]
    yield f"## {trust.task.capitalize()}: {'calibrated' if trust.is_calibrated else 'not calibrated'}"
    yield ""
    yield from (f"- {sentence}" for sentence in trust.shortcomings)
    if trust.shortcomings:
        yield ""
    yield f"Kappa {_kappa(trust.kappa)}, over {trust.n_compared} of {trust.n_labels} labelled."
    if trust.n_unsure:
        yield f"The judge is unsure of {trust.n_unsure}, which count as no; without them {_kappa(trust.kappa_sure)}."
    if trust.bias is not None:
        yield f"The mean is moved by {trust.bias.value:+.3f} ({_limits(trust.bias.interval, '+.3f')})."
    if trust.not_judged or trust.n_ties:
        left_out = {**trust.not_judged, **({"tie": trust.n_ties} if trust.n_ties else {})}
        yield f"Left out: {', '.join(f'{count} {_cell(reason)}' for reason, count in sorted(left_out.items()))}."
    if trust.repeat_agreement is not None:
        share = trust.repeat_agreement
        yield f"Judged twice, {share.value:.3f} of {share.n} verdicts are equal ({_limits(share.interval)})."
    if trust.annotator_alpha is not None:
        yield f"Those who labelled the same agree with alpha {trust.annotator_alpha:.3f}."
    table = trust.confusion
    yield ""
    yield f"| | judge: {yes} | judge: not |"
    yield "|---|---|---|"
    yield f"| labels: {yes} | {table.both_yes} | {table.labels_yes_judge_no} |"
    yield f"| labels: not | {table.labels_no_judge_yes} | {table.both_no} |"
    if trust.worst:
        yield ""
        yield "| query | label | judge | score | reason | text | against |"
        yield "|---|---|---|---|---|---|---|"
        for one in trust.worst:
            label = yes if one.label else f"not {yes}"
            cells = (one.query_id, label, one.judge, f"{one.score:.2f}", one.reason, one.text, one.against)
            yield f"| {' | '.join(map(_cell, cells))} |"


def _kappa(kappa: KappaRecord) -> str:
    if kappa.value is None:
        return f"has no value ({kappa.reason})"
    return f"{kappa.value:.3f} ({_limits(kappa.interval)})" if kappa.interval else f"{kappa.value:.3f}"


def _limits(limits: Limits, form: str = ".3f") -> str:
    return f"{limits.low:{form}} to {limits.high:{form}}"


def _cell(text: str) -> str:
    """A text on one line that ends no cell and draws no markup: answers and rationales are others' words."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return "".join(f"\\{c}" if c in "\\|`*_[]<>!#" else c for c in plain)
