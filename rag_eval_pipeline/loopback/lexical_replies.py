"""An honest judge behind a model's interface: the lexical judge's verdicts in the form that a prompt asks for.

A trial and a test can thus follow a whole evaluation with a judge over HTTP, and know what it must come to.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.lexical.judge import LexicalJudge
from rag_eval_pipeline.judges.openai.prompts import ANY_CLAIM
from rag_eval_pipeline.judges.openai.ratings import BUILT_IN

_JUDGE = LexicalJudge()
_REASON = {"rationale": "by its words"}


def lexical_reply(nonce: str, data: Mapping[str, Any]) -> str:
    """The reply to a case as `judges.openai.data_section` writes it; a rating is always the best one."""
    reply: dict[str, Any] = {"nonce": nonce}
    if data["task"] == "rating":
        return json.dumps({**reply, **_REASON, "rating": max(BUILT_IN[data["protocol"]].scale)})
    if data["task"] == "entailment":
        return json.dumps({**reply, "labels": [_label(claim, data) for claim in data["claims"]]})
    if "answer" in data:
        reply["correctness"] = _correctness(data)
    cited = {text["id"]: text["text"] for text in data["cited_texts"]}
    claims = {claim["id"]: claim["text"] for claim in data["claims"]}
    reply["claims"] = [
        {
            "id": claim["id"],
            **_REASON,
            "by_citations": _support(claim["text"], [cited[number] for number in claim["cited"]]),
            "by_contexts": _support(claim["text"], data["contexts"]),
        }
        for claim in data["claims"]
    ]
    reply["citations"] = [
        {"id": check["id"], **_REASON, "verdict": _best(check["claim"], claims, cited[check["cited"]])}
        for check in data["citation_checks"]
    ]
    return json.dumps(reply)


def _label(claim: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    against = claim["against"]
    if isinstance(against, str):
        texts, passages = [data[against]], data["passages"]
    else:
        texts, passages = [text["text"] for text in data["cited_texts"] if text["id"] in against], []
    entailing = [passage["id"] for passage in passages if _support(claim["text"], [passage["text"]]) == "supported"]
    is_entailed = _support(claim["text"], texts) == "supported"
    return {"id": claim["id"], **_REASON, "entailed": is_entailed, "passages": entailing}


def _best(claim: str, claims: Mapping[str, str], text: str) -> str:
    """The verdict on one cited text; of a citation that stands with any claim, on the claim which it supports best."""
    asked = list(claims.values()) if claim == ANY_CLAIM else [claims[claim]]
    found = [_support(one, [text]) for one in asked]
    return next((value for value in ("supported", "conflicting") if value in found), "not_found")


def _correctness(data: Mapping[str, Any]) -> dict[str, str]:
    case = Case("-", data["question"], tuple(data["gold_answers"]), data["is_impossible"], data["answer"])
    found = _JUDGE.judge_case(case).correctness
    if found is None:
        return {**_REASON, "verdict": "unsure"}
    # The prompt asks what the answer does; that a refusal is right here is the reader's to say.
    refused = data["is_impossible"] and found.verdict == "correct"
    return {"rationale": found.reason, "verdict": "refused" if refused else found.verdict}


def _support(claim: str, texts: Sequence[str]) -> str:
    if not texts:
        return "no_text"
    case = Case("-", "", ("-",), False, claim, contexts=tuple(texts))
    outcomes = [found.by_contexts.outcome for found in _JUDGE.judge_case(case).claims if found.by_contexts]
    worst = next((outcome for outcome in outcomes if outcome != "supported"), None)
    return worst or ("supported" if outcomes else "not_found")
