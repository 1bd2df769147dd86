"""Nights of a system that answers the same, changes, or churns: scores of simulated runs, question by question.

There are twelve metrics: exact match, F1, precision and recall of an answer; hit@1, hit@5, MRR@10 and nDCG@10 of a
rank; four ratings of five steps.
- A question has a usual and another answer, one of them right, and a usual and another rank. Answers and ranks of a
  share 3 phi of the questions, drawn apart, are unstable: each run shows the other one with the question's own
  probability, uniform in (0, 1). Two runs then differ on a share phi of the answers. A rating moves by one step in 3 %.
- With phi = 0 nothing moves at all. Questions are independent, except in the table of document clusters, and where
  noise is shared: in each run, with a probability (the ICC), all unstable questions of a document then have the same
  luck, so that those about equally steady are right or wrong, ranked high or low together. Ratings move singly.
- A drop of x points makes x % of the questions, stable and right, wrong for good; ranks and ratings stay. Where
  equivalence is asked about the number is binomial, because the claim is about all questions that could be asked.
- Churn changes 12 % of the answers for good, half to right and half to wrong.
- Wrong answers' F1 is 0 in 45 % of the cases, else beta(2, 2); with `--shared` right, wrong and F1 are those of one
  published system on 1,190 questions (squad_em_f1). Precision is uniform where F1 leaves it free.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.metrics.answers import score_answer

NAMES = (
    "EM",
    "F1",
    "precision",
    "recall",
    "hit@1",
    "hit@5",
    "mrr@10",
    "ndcg@10",
    "faithful",
    "relevant",
    "complete",
    "clear",
)
ANSWER, RANK, RATING = slice(0, 4), slice(4, 8), slice(8, 12)
RATING_NOISE = 0.03

Scores = np.ndarray  # (metrics, questions)


class Pool(NamedTuple):
    """Where answers' scores are drawn from: the share that is right, and the F1 of wrong ones."""

    right: float
    wrong_f1: np.ndarray


class System(NamedTuple):
    """A system on a set: the usual and the other scores, how often each question shows the other, and documents."""

    usual: Scores
    other: Scores
    answer_flips: np.ndarray
    rank_flips: np.ndarray
    rating_noise: float
    documents: np.ndarray | None = None
    icc: float = 0.0

    @property
    def clusters(self) -> list[str] | None:
        """The name of each question's document; None where each has its own."""
        return None if self.documents is None else [str(one) for one in self.documents]


def synthetic_pool(rng: np.random.Generator) -> Pool:
    return Pool(0.75, np.where(rng.random(2000) < 0.45, 0.0, rng.beta(2, 2, 2000)))


def real_pool(folder: Path) -> Pool:
    predictions = json.loads((folder / "squad_em_f1" / "bert.predictions.json").read_text())
    articles = json.loads((folder / "squad_em_f1" / "xquad.en.json").read_text())["data"]
    questions = [qa for article in articles for paragraph in article["paragraphs"] for qa in paragraph["qas"]]
    found = [score_answer(predictions[qa["id"]], [gold["text"] for gold in qa["answers"]]) for qa in questions]
    wrong = [score.f1 for score in found if score.exact_match == 0]
    return Pool(1 - len(wrong) / len(found), np.array(wrong))


def answers(rng: np.random.Generator, right: np.ndarray, pool: Pool) -> Scores:
    f1 = np.where(right, 1.0, rng.choice(pool.wrong_f1, right.size))
    precision = rng.uniform(f1 / (2 - f1), 1.0) * (f1 > 0)
    recall = np.where(f1 > 0, f1 * precision / np.where(f1 > 0, 2 * precision - f1, 1.0), 0.0)
    return np.stack([right * 1.0, f1, precision, recall])


def ranks(rng: np.random.Generator, n: int) -> Scores:
    rank = rng.geometric(0.35, n) + 100 * (rng.random(n) < 0.1)
    found = rank <= 10
    return np.stack([rank == 1, rank <= 5, found / rank, found / np.log2(rank + 1)]) * 1.0


def new_system(rng: np.random.Generator, n: int, phi: float, pool: Pool) -> System:
    right = rng.random(n) < pool.right
    rating = rng.choice(5, (4, n), p=(0.03, 0.07, 0.15, 0.3, 0.45)) / 4
    usual = np.concatenate([answers(rng, right, pool), ranks(rng, n), rating])
    other = np.concatenate([answers(rng, ~right, pool), ranks(rng, n), rating])
    answer_flips, rank_flips = ((rng.random(n) < 3 * phi) * rng.random(n) for _ in range(2))
    return System(usual, other, answer_flips, rank_flips, RATING_NOISE if phi else 0.0)


def changed(rng: np.random.Generator, system: System, pool: Pool, *, fall: int = 0, rise: int = 0) -> System:
    """The system with so many stable questions made wrong and right for good."""
    usual = system.usual.copy()
    for number, now_right in ((fall, False), (rise, True)):
        candidates = np.flatnonzero((system.answer_flips == 0) & (system.usual[0] != now_right))
        moved = rng.permutation(candidates)[:number]
        usual[ANSWER, moved] = answers(rng, np.full(moved.size, now_right), pool)
    return system._replace(usual=usual)


def luck(rng: np.random.Generator, system: System, n_runs: int) -> np.ndarray:
    """A number in (0, 1) for each question of each run, the same throughout a document where its noise is shared."""
    n = system.usual.shape[1]
    single = rng.random((n_runs, n))
    if system.documents is None or not system.icc:
        return single
    n_documents = int(system.documents.max()) + 1
    shared, is_shared = rng.random((n_runs, n_documents)), rng.random((n_runs, n_documents)) < system.icc
    return np.where(is_shared[:, system.documents], shared[:, system.documents], single)


def runs(rng: np.random.Generator, system: System, n_runs: int) -> np.ndarray:
    """Runs of an unchanged system: (runs, metrics, questions)."""
    n = system.usual.shape[1]
    found = np.repeat(system.usual[np.newaxis], n_runs, axis=0)
    for part, flips in ((ANSWER, system.answer_flips), (RANK, system.rank_flips)):
        unstable = np.flatnonzero(flips)
        # Good luck is the better of the two, whichever is the usual one.
        is_better = system.other[part][:, unstable].sum(axis=0) > system.usual[part][:, unstable].sum(axis=0)
        luck_of = luck(rng, system, n_runs)[:, unstable]
        shows_other = np.where(is_better, luck_of < flips[unstable], luck_of > 1 - flips[unstable])[:, np.newaxis]
        found[:, part, unstable] = np.where(shows_other, system.other[part][:, unstable], found[:, part, unstable])
    if system.rating_noise:
        moved = rng.random((n_runs, 4, n)) < system.rating_noise
        steps = np.where(rng.random((n_runs, 4, n)) < 0.5, 0.25, -0.25)
        found[:, RATING] = np.clip(found[:, RATING] + moved * steps, 0, 1)
    return found
