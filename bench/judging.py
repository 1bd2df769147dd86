"""Measure the lexical judge: answers, refusals and sentences a second of one core.

    python bench/judging.py

Texts are made by this script: documents of a harbour town of 30 sentences, answers of four cited sentences and ten
retrieved passages, drawn from few documents as in a real run. Seconds are processor time of one thread, warmed up.
Compare the lines of one run with each other, not with another machine's.
"""

import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))


from rag_eval_pipeline.judges.claims import verbatim_share  # noqa: E402
from rag_eval_pipeline.judges.judgement import Case, CitedText  # noqa: E402
from rag_eval_pipeline.judges.lexical import LexicalJudge  # noqa: E402
from rag_eval_pipeline.text.normalise import mask_citations, plain  # noqa: E402
from rag_eval_pipeline.text.refusals import find_refusal  # noqa: E402
from rag_eval_pipeline.text.sentences import pieces  # noqa: E402

DOCUMENTS = 60
SENTENCES = 30  # of a document
PASSAGES = 10  # retrieved for a question
CASES = 600
SEED = 7

PEOPLE = [
    "Ada Thorne",
    "Bob Hale",
    "Mirela Szczepanska",
    "Jonas Skarn",
    "Edith Cairnmoor",
    "the harbour master",
    "Dr. Ilse Brandt",
]
THINGS = [
    "lamp",
    "harbour bell",
    "granite tower",
    "railway bridge",
    "observatory",
    "pilot cutter",
    "tide gauge",
    "fog signal",
    "quay",
]
DEEDS = ["repaired", "sold", "surveyed", "opened", "described", "rebuilt", "inspected", "lost", "financed", "moved"]
WHYS = [
    "after the storm of {year}",
    "because tolls had fallen by {percent} %",
    "at a cost of ${money} million",
    "for {count} families of the parish",
    "with stone from the quarry at Hov",
    "against the advice of the council",
    "although no money was left",
    "in the winter of {year}",
]
TAILS = ["", ", as No. 5 of the journal reports", ", which the keepers had asked for", " and never spoke of it"]
REFUSALS = (
    "I'm sorry, but the provided documents do not say who {deed} the {thing}. You may want to consult the office.",
    "There is no information about the {thing} in the context.",
    "I don't know.",
)


class Rate(NamedTuple):
    name: str
    per_second: float
    goal: float
    unit: str


def sentence(rng: random.Random) -> str:
    why = rng.choice(WHYS).format(
        year=rng.randint(1840, 1960),
        percent=rng.randint(2, 40),
        money=rng.randint(10, 99) / 10,
        count=rng.randint(2, 900),
    )
    said = (
        f"{rng.choice(PEOPLE)} {rng.choice(DEEDS)} the {rng.choice(THINGS)} of Skarn in {rng.randint(1840, 1960)} {why}"
    )
    return f"{said[0].upper()}{said[1:]}{rng.choice(TAILS)}."


def documents(rng: random.Random) -> list[list[str]]:
    return [[sentence(rng) for _ in range(SENTENCES)] for _ in range(DOCUMENTS)]


def passages(document: Sequence[str]) -> list[str]:
    return ["\n".join(document[start : start + 5]) for start in range(0, len(document), 5)]


def cases(rng: random.Random, made: Sequence[Sequence[str]]) -> list[Case]:
    return [one_case(rng, made, number) for number in range(CASES)]


def one_case(rng: random.Random, made: Sequence[Sequence[str]], number: int) -> Case:
    chosen = rng.choice(made)
    contexts = [rng.choice(passages(rng.choice(made))) for _ in range(PASSAGES - 4)] + passages(chosen)[:4]
    if number % 8 == 0:
        answer = rng.choice(REFUSALS).format(deed=rng.choice(DEEDS), thing=rng.choice(THINGS))
        return Case(str(number), "Who sold the lamp?", (chosen[0],), False, answer, (), tuple(contexts))
    answer, cited = "", []
    for said in rng.sample(chosen[:20], 3) + [sentence(rng)]:
        answer += said[:-1] + " "
        mark = f"[doc-{number % 9}.pdf:{rng.randint(1, 9)}:{rng.randint(0, 500)}-{rng.randint(501, 999)}]"
        cited.append(CitedText("doc.pdf", rng.choice(chosen), len(answer), len(answer) + len(mark)))
        answer += mark + ". "
    return Case(str(number), "Who sold the lamp?", (chosen[0],), False, answer, tuple(cited), tuple(contexts))


def rate(count: int, work: Callable[[], object]) -> float:
    """Things a second: the best of three, as other processes only ever slow one down."""
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return count / best


def main() -> None:
    rng = random.Random(SEED)
    made = documents(rng)
    asked = cases(rng, made)
    judge = LexicalJudge()
    judged = [judge.judge_case(case) for case in asked]

    answers = [plain(case.answer) for case in asked]
    text = "\n".join(" ".join(document) for document in made)
    masked = "\n".join(mask_citations(case.answer) for case in asked)
    rates = [
        Rate("judgements", rate(len(asked), lambda: [judge.judge_case(case) for case in asked]), 0, "answers"),
        Rate("verbatim shares", rate(len(asked), lambda: [verbatim_share(case) for case in asked]), 0, "answers"),
        Rate("refusals", rate(len(answers), lambda: [find_refusal(answer) for answer in answers]), 2_000, "answers"),
        Rate("splitting documents", rate(len(list(pieces(text))), lambda: list(pieces(text))), 90_000, "sentences"),
        Rate("splitting answers", rate(len(list(pieces(masked))), lambda: list(pieces(masked))), 90_000, "sentences"),
    ]  # fmt: skip
    print(f"{len(asked)} answers, {sum(len(one.claims) for one in judged)} claims\n")
    print(f"{'':30}{'a second':>12}{'a minute':>14}{'goal':>10}{'ratio':>8}")
    for one in rates:
        goal = f"{one.goal:10,.0f}{one.per_second / one.goal:7.1f}x" if one.goal else f"{'-':>10}{'-':>8}"
        print(f"{one.name:30}{one.per_second:12,.0f}{one.per_second * 60:14,.0f}{goal}  {one.unit}")


if __name__ == "__main__":
    main()
