"""The answers of the mock judge model, read from the prompts of this project's judges."""

import json
import re
from collections.abc import Sequence
from typing import Any


def judge(prompt: str) -> str:
    """Return the reply of `mock-judge`, whose verdicts follow from the words that texts have in common."""
    section = re.search(r"(?m)^DATA (\S+)[ \t]*$", prompt)
    if section is None:
        return '{"error": "no case after a line DATA <nonce>"}'
    case, _ = json.JSONDecoder().raw_decode(prompt, prompt.index("{", section.end()))
    reply: dict[str, Any] = {"nonce": section[1]}
    reason = {"rationale": "common words"}
    if "task" not in case:
        return json.dumps({**reply, **reason, "verdict": "yes"})
    if case["task"] == "rating":
        form = prompt[prompt.rindex('"rating') :]  # of one grade, or of one for each dimension
        grades, names = sorted(map(int, re.findall(r"\d+", form))), re.findall(r'"(\w+)": \d', form)
        grade = grades[0] if case["protocol"] == "toxicity" else grades[-1]
        rated = {"rating": grade} if names == ["rating"] else {"ratings": dict.fromkeys(names, grade)}
        return json.dumps({**reply, **reason, **rated})
    if case["task"] == "facts":
        verdict = {True: "support", False: "not_support"}
        reply["facts"] = [
            {"id": fact["id"], **reason, "verdict": verdict[_words(fact["text"]) <= _words(case["answer"])]}
            for fact in case["facts"]
        ]
        return json.dumps(reply)
    cited = {text["id"]: text["text"] for text in case.get("cited_texts", ())}
    if case["task"] == "entailment":
        texts = {claim["id"]: [cited[number] for number in claim["against"]] for claim in case["claims"]}
        reply["labels"] = [
            {"id": claim["id"], **reason, "entailed": _support(claim["text"], texts[claim["id"]]) == "supported"}
            for claim in case["claims"]
        ]
        return json.dumps(reply)
    if "answer" in case:
        reply["correctness"] = {**reason, "verdict": _correctness(case)}
    claims = {claim["id"]: claim["text"] for claim in case["claims"]}
    reply["claims"] = [
        {
            "id": claim["id"],
            **reason,
            "by_citations": _support(claim["text"], [cited[number] for number in claim["cited"]]),
            "by_contexts": _support(claim["text"], case["contexts"]),
        }
        for claim in case["claims"]
    ]
    reply["citations"] = []
    for check in case["citation_checks"]:
        texts = [claims[check["claim"]]] if check["claim"] in claims else list(claims.values())
        verdicts = [_support(text, [cited[check["cited"]]]) for text in texts]
        verdict = "supported" if "supported" in verdicts else "not_found"
        reply["citations"].append({"id": check["id"], **reason, "verdict": verdict})
    return json.dumps(reply)


def _correctness(case: dict[str, Any]) -> str:
    if re.search(r"(?i)\b(?:not (?:know|say|contain|found)|no answer|cannot)\b", case["answer"]):
        return "refused"
    return "correct" if any(_words(gold) <= _words(case["answer"]) for gold in case["gold_answers"]) else "incorrect"


def _support(claim: str, texts: Sequence[str]) -> str:
    if not texts:
        return "no_text"
    return "supported" if _words(claim) <= _words(" ".join(texts)) else "not_found"


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
