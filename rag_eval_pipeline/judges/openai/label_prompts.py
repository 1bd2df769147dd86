"""The further call for labels: which text entails which claim, for ALCE's and RAGChecker's figures.

`entailment/1` is asked once the verdicts of an answer are known: claims of the answer against the gold answer, claims
of the gold answer against the answer, both against each passage, and claims against their citations less one.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from rag_eval_pipeline.endpoints.chat import Message
from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.openai.data_section import data_section
from rag_eval_pipeline.judges.openai.evidence import choose_evidence
from rag_eval_pipeline.judges.openai.prompts import SYSTEM, Prompt, shown_evidence

VERSION = "entailment/1"
TASK = """\
entailment/1. `entailed`, for each of `claims`, in order: do the texts that `against` names entail it, taken together? \
They do when they state it or it follows from them without doubt, every name, number and date included; what the \
question says is known. `against` is "gold_answer", "answer", or ids of `cited_texts`.
`passages` of each claim: the ids of all `passages` that entail it, each by itself; an empty list where none does, and \
where `against` names cited texts."""
FORM = '"labels": [{"id": "c1", "rationale": "…", "entailed": true | false, "passages": ["p1", …]}, …]'


class Labelled(NamedTuple):
    """A claim of whose entailment a label is wanted.

    Args:
        text: The claim.
        against: What may entail it; a tuple of indexes of citations for some of its citations.
    """

    text: str
    against: Literal["gold_answer", "answer"] | tuple[int, ...]


class LabelPrompt(NamedTuple):
    """One call.

    Args:
        prompt: What is sent.
        items: Whose labels are wanted; ids are `c1`, `c2`, … in this order.
        passages: Index in the case's contexts of each passage that was shown, as `p1`, `p2`, …
    """

    prompt: Prompt
    items: tuple[Labelled, ...]
    passages: tuple[int, ...]


def label_prompt(
    case: Case, gold: str | None, items: Sequence[Labelled], *, evidence_chars: int, salt: str
) -> LabelPrompt:
    """The prompt of one call.

    Args:
        case: What is judged.
        gold: The gold answer of the comparison; None without one, when only citations are asked about.
        items: Claims; all of them, or those that this call is for.
        evidence_chars: Of cited texts and passages together.
        salt: Of the nonce.
    """
    wanted = sorted({i for item in items if isinstance(item.against, tuple) for i in item.against})
    passages = [i for i, text in enumerate(case.contexts) if text.strip()] if _needs_passages(items) else []
    texts = [item.text for item in items]
    cited, shown = shown_evidence(
        [(case.citations[i].text or "").strip() for i in wanted], [case.contexts[i] for i in passages], texts,
        evidence_chars,
    )  # fmt: skip
    names = {citation: f"s{number}" for number, citation in enumerate(wanted, start=1)}
    data: dict[str, Any] = {"task": "entailment", "question": case.question}
    if any(item.against == "gold_answer" for item in items):
        data["gold_answer"] = gold
    if any(item.against == "answer" for item in items):
        (data["answer"],) = choose_evidence([case.answer], [case.question, *texts], evidence_chars)
    data["claims"] = [
        {
            "id": f"c{number}",
            "text": item.text,
            "against": [names[i] for i in item.against] if isinstance(item.against, tuple) else item.against,
        }
        for number, item in enumerate(items, start=1)
    ]
    data["cited_texts"] = [{"id": names[i], "text": text} for i, text in zip(wanted, cited, strict=True)]
    data["passages"] = [{"id": f"p{number}", "text": text} for number, text in enumerate(shown, start=1)]
    section = data_section(data, salt=salt)
    content = "\n\n".join([TASK, section.text, f'Reply: {{"nonce": "{section.nonce}", {FORM}}}.'])
    messages = (Message("system", SYSTEM), Message("user", content))
    return LabelPrompt(Prompt(messages, section.nonce), tuple(items), tuple(passages))


def _needs_passages(items: Sequence[Labelled]) -> bool:
    return any(not isinstance(item.against, tuple) for item in items)
