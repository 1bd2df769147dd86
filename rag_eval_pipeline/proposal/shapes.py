"""The registry of recognised shapes: what a folder's files are, and the draft of their benchmark.yaml.

Shapes are tried in this order and the first that says yes is taken, so the peculiar stand before the general; a new one
is a function from what was seen to a draft, and a line here.
"""

from collections.abc import Callable

from rag_eval_pipeline.proposal.draft import Draft
from rag_eval_pipeline.proposal.evret import evret
from rag_eval_pipeline.proposal.flat import flat, skeleton
from rag_eval_pipeline.proposal.hotpot import hotpot
from rag_eval_pipeline.proposal.judged import judged
from rag_eval_pipeline.proposal.looking import Seen
from rag_eval_pipeline.proposal.squad import flat_squad, nested_squad

SHAPES: dict[str, Callable[[Seen], Draft | None]] = {
    "squad": nested_squad,
    "squad rows": flat_squad,
    "hotpotqa": hotpot,
    "judgements": judged,
    "evret": evret,
    "rows": flat,
}


def recognise(seen: Seen) -> Draft | None:
    """The draft of the first shape that fits; a skeleton for rows of unknown columns, None without any rows."""
    for shape in SHAPES.values():
        draft = shape(seen)
        if draft is not None:
            return draft
    filled = [file for file in seen.data if file.columns]
    return skeleton(seen, max(filled, key=lambda file: file.rows)) if filled else None
