"""The measures once more, walked down one ranking at a time: what the arrays are compared with, to the last bit.

Written from the definitions, in trec_eval's order of operations, over the grade at each rank: None where the document
was never judged, negative where it is in the pool and was not judged.
"""

import math
from collections.abc import Mapping, Sequence

EPSILON = 0.00001
Grades = Sequence[int | None]


def ranked(scored: Mapping[str, float]) -> list[str]:
    """Higher scores first, equal scores by the ids' bytes, the greatest first."""
    return sorted(sorted(scored, key=str.encode, reverse=True), key=lambda document: -scored[document])


def plain_scores(scored: Mapping[str, float], judged: Mapping[str, int], *, level: int = 1) -> dict[str, float]:
    """Every measure of one query, by trec_eval's names and ours."""
    grades = [judged.get(document) for document in ranked(scored)]
    pool = list(judged.values())
    return (
        counted(grades, pool, level)
        | averaged(grades, pool, level)
        | gained(grades, pool, level)
        | {f"{name}@{k}": value for k in (1, 3, 10) for name, value in ours(grades, pool, k, level).items()}
    )


def is_relevant(grade: int | None, level: int) -> bool:
    return grade is not None and grade >= level


def counted(grades: Grades, pool: Sequence[int], level: int) -> dict[str, float]:
    hits = [is_relevant(grade, level) for grade in grades]
    n, found, relevant = len(grades), sum(hits), sum(grade >= level for grade in pool)
    scores: dict[str, float] = {
        "num_ret": n, "num_rel": relevant, "num_rel_ret": found,
        "num_nonrel_judged_ret": sum(grade is not None and 0 <= grade < level for grade in grades),
        "utility": 1.0 * found + -1.0 * (n - found) + 0.0 * (relevant - found) + 0.0 * (found - n - relevant),
        "recip_rank": 1.0 / (hits.index(True) + 1) if found else 0.0,
        "set_P": found / n if n else 0.0,
        "set_recall": found / relevant if relevant else 0.0,
        "set_relative_P": found / min(n, relevant) if n and relevant else 0.0,
        "set_map": (float(found) * found) / (float(n) * relevant) if n and relevant else 0.0,
        "set_F": 0.0,
        "Rprec": sum(hits[:relevant]) / relevant if relevant else 0.0,
    }  # fmt: skip
    if found:
        precision, recall = found / n, found / relevant
        scores["set_F"] = (1.0 + 1.0) * precision * recall / (1.0 * precision + recall)
    for k in (1, 3, 10):
        scores[f"P_{k}"] = sum(hits[:k]) / k
        scores[f"recall_{k}"] = sum(hits[:k]) / relevant if relevant else 0.0
        scores[f"success_{k}"] = 1.0 if any(hits[:k]) else 0.0
        scores[f"relative_P_{k}"] = sum(hits[:k]) / min(k, relevant) if relevant else 0.0
        scores[f"unj_{k}"] = sum(grade is None or grade < 0 for grade in grades[:k]) / k
    for multiple in (0.2, 1.0, 1.4):
        cut = int(multiple * relevant + 0.9)
        scores[f"Rprec_mult_{multiple:3.2f}"] = sum(hits[:cut]) / cut if cut else 0.0
    return scores


def averaged(grades: Grades, pool: Sequence[int], level: int) -> dict[str, float]:
    relevant = sum(grade >= level for grade in pool)
    nonrelevant = sum(0 <= grade < level for grade in pool)
    precisions: list[float] = []
    total = preferred = inferred = lagging = smooth = 0.0
    cuts = dict.fromkeys((1, 3, 10), 0.0)
    found = passed = unjudged = 0
    for i, grade in enumerate(grades):
        if grade is not None and grade < 0:
            unjudged += 1
        elif is_relevant(grade, level):
            found += 1
            precisions.append(found / (i + 1))
            total += found / (i + 1)
            for k in cuts:
                cuts[k] += found / (i + 1) if i < k else 0.0
            preferred += 1.0 - min(passed, relevant) / min(nonrelevant, relevant) if passed else 1.0
            lagging += 1.0 / math.log2(3 + i - found)
            if i == 0:
                inferred += 1.0
            else:
                above = float(i)
                inferred += 1.0 / (above + 1.0) + (above / (above + 1.0)) * (
                    (found - 1 + passed + unjudged) / above
                ) * ((found - 1 + EPSILON) / (found - 1 + passed + 2 * EPSILON))
        elif grade is not None:
            passed += 1
    smooth = math.log((1.0 + total) / (1.0 + relevant - total))
    parts = {"map": total, "bpref": preferred, "infAP": inferred, "binG": lagging}
    parts |= {f"map_cut_{k}": value for k, value in cuts.items()}
    scores = {name: value / relevant if relevant else 0.0 for name, value in parts.items()} | {"yaap": smooth}
    scores["gm_map"] = math.log(max(scores["map"], EPSILON))
    scores["gm_bpref"] = math.log(max(scores["bpref"], EPSILON))
    eleven = 0.0
    for tenth in range(10, -1, -1):
        cut = math.floor(tenth / 10 * relevant + 0.5)
        value = max(precisions[max(cut, 1) - 1 :], default=0.0) if cut <= found else 0.0
        scores[f"iprec_at_recall_{tenth / 10:3.2f}"] = value
        eleven += value
    return scores | {"11pt_avg": eleven / 11}


def gained(grades: Grades, pool: Sequence[int], level: int) -> dict[str, float]:
    gains = [max(grade or 0, 0) for grade in grades]
    ideal = sorted((grade for grade in pool if grade > 0), reverse=True)
    longest = max(len(gains), len(ideal))
    dcg, best = [0.0], [0.0]
    for i in range(longest):
        dcg.append(dcg[-1] + (gains[i] / math.log2(i + 2) if i < len(gains) else 0.0))
        best.append(best[-1] + (ideal[i] / math.log2(i + 2) if i < len(ideal) else 0.0))
    scores = {f"ndcg_cut_{k}": dcg[min(k, longest)] / best[min(k, longest)] if ideal else 0.0 for k in (1, 3, 10)}
    scores |= {"ndcg": dcg[-1] / best[-1] if ideal else 0.0, "dcg": dcg[-1], "ideal_dcg": best[-1]}

    at_relevant, n_found = 0.0, 0
    for i, gain in enumerate(gains):
        if gain:
            at_relevant += dcg[i + 1] / best[i + 1]
            n_found += 1
    if ideal:
        at_relevant += float(len(ideal) - n_found) * dcg[-1] / best[-1]
    scores["ndcg_rel"] = at_relevant / len(ideal) if at_relevant > 0 else 0.0

    steps, at_steps = 0, 0.0
    for i in range(1, len(ideal) + 1):
        if i == len(ideal) or ideal[i] != ideal[i - 1]:
            at_steps += dcg[i] / best[i]
            steps += 1
    if ideal and len(gains) > len(ideal) + 1:
        at_steps += dcg[-1] / best[-1]
        steps += 1
    scores["Rndcg"] = at_steps / steps if any(grade >= level for grade in pool) else 0.0

    cost = gain_so_far = normalised = 0.0
    for i, gain in enumerate(gains):
        cost += ideal[i] if i < len(ideal) else 1.0
        gain_so_far += gain
        if gain:
            normalised += gain / math.log2(2 + cost - gain_so_far)
    scores["G"] = normalised / float(sum(ideal)) if ideal else 0.0

    highest = max([1, *pool])
    weight, met, unmet, open_ranks = 1.0, 0.0, 0.0, 0
    for grade in grades:
        if grade is None or grade < 0:
            unmet += weight
            open_ranks += 1
        elif grade:
            met += grade / highest * weight
        weight *= 0.9
    scores["rbp"] = (1.0 - 0.9) * met
    scores["rbp_resid"] = weight + (1 - 0.9) * unmet if open_ranks else 0.0
    return scores


def ours(grades: Grades, pool: Sequence[int], k: int, level: int) -> dict[str, float]:
    hits = [is_relevant(grade, level) for grade in grades[:k]]
    relevant = sum(grade >= level for grade in pool)
    highest = max([1, *pool])
    biased = stopped = 0.0
    going_on = 1.0
    for i, grade in enumerate(max(grade or 0, 0) for grade in grades[:k]):
        biased += (1.0 - 0.8) * 0.8**i * (grade / highest)
        satisfied = (2 ** min(grade, 4) - 1) / 2**4
        if going_on >= 1e-10:
            stopped += (1.0 / (i + 1)) * satisfied * going_on
            going_on *= 1.0 - satisfied
    return {
        "all_hit": 1.0 if relevant and sum(hits) == relevant else 0.0,
        "mrr": 1.0 / (hits.index(True) + 1) if any(hits) else 0.0,
        "rbp": min(biased, 1.0),
        "err": min(stopped, 1.0),
    }
