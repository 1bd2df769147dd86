"""A RAG system that is none: it knows the gold answers and gives some of them, for pictures of a report of many nights.

What it answers depends on the question, its own name and the night alone, so that the same nights can be had again.
"""

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MEDIAN_SECONDS = 0.012  # of an answer: a night of pictures is simulated in a second
UNLUCKY = 0.03  # share of the questions that go otherwise than usual on a night
DISTRACTORS = 3


async def ask(query: str, name: str, skill: float, pace: float, folder: str) -> dict[str, Any]:
    """An answer with passages and citations.

    Args:
        query: The question's text.
        name: Of the system: two of them know different questions.
        skill: Share of the questions that it knows.
        pace: Factor of its latency and of its price.
        folder: With `gold.json` (question -> answer, benchmark, places) and `now.json` (the night, what is broken).
    """
    gold = json.loads((Path(folder) / "gold.json").read_text())
    now = json.loads((Path(folder) / "now.json").read_text())
    usual, tonight = random.Random(f"{name} {query}"), random.Random(f"{now['night']} {name} {query}")
    await asyncio.sleep(pace * MEDIAN_SECONDS * tonight.lognormvariate(0.0, 0.6))
    knows = (usual.random() < skill) != (tonight.random() < UNLUCKY) and query not in now["broken"].get(name, ())
    own = gold[query]
    others = [
        other
        for text, other in sorted(gold.items())
        if other["benchmark"] == own["benchmark"] and other["answer"] and other["places"] and text != query
    ]
    distractors = tonight.sample(others, DISTRACTORS)
    found = [*(own["places"][:2] if knows or usual.random() < 0.5 else ()), *(one["places"][0] for one in distractors)]
    if not knows:
        tonight.shuffle(found)
    said = {
        "contexts": [{**_place(place), "score": round(12 / (rank + 0.3), 4)} for rank, place in enumerate(found, 1)],
        "usage": {
            "prompt_tokens": tonight.randrange(800, 1100),
            "completion_tokens": tonight.randrange(60, 120),
            "cost_usd": 0.0004 * pace,
        },
    }
    return said | _answer(own, distractors[0], knows, tonight)


def _answer(own: dict[str, Any], other: dict[str, Any], knows: bool, tonight: random.Random) -> dict[str, Any]:
    if own["answer"] is None:
        if knows:
            return {"answer": "The documents do not say.", "abstained": True}
        return {"answer": _cited(other["answer"], other["places"], 0)}
    if knows:
        return {"answer": _cited(own["answer"], own["places"], tonight.choice((0, 0, 0, 14)))}
    if tonight.random() < 0.2:
        return {"answer": "I do not know.", "abstained": True}
    return {"answer": _cited(other["answer"], other["places"], 0)}


def _cited(answer: str, places: Sequence[dict[str, Any]], cut: int) -> str:
    """The answer with its first place as a citation, whose end is cut by so many characters."""
    if not places:
        return answer
    first = places[0]
    return f"{answer} [{first['file_name']}:{first['page_number']}:{first['start_char']}-{first['end_char'] - cut}]"


def _place(place: dict[str, Any]) -> dict[str, Any]:
    return {
        "document": place["file_name"], "page": place["page_number"], "text": place["context_text"],
        "start": place["start_char"], "end": place["end_char"],
    }  # fmt: skip
