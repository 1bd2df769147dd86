"""Intervals and tests at size: seconds, memory, and how often the intervals hold the truth.

    python bench/intervals.py [--coverage-samples 1000]

CPU seconds of this process, best of three where a line takes less than a second; compare the lines of one run with each
other, not with another machine's. Scores are synthetic: ranks are geometric, graded scores beta distributed, and
questions of one document share a document effect.
"""

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.stats

from rag_eval_pipeline.metrics.intervals import (
    RESAMPLES,
    Column,
    bootstrap_interval,
    bootstrap_intervals,
    clustered_wilson_interval,
    wilson_interval,
)
from rag_eval_pipeline.metrics.significance import exact_sign_flip_p, sign_flip_p_values

N_METRICS = 20


def measured(name: str, work: Callable[[], object]) -> float:
    times = []
    while not times or (len(times) < 3 and times[0] < 1):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    print(f"  {name:58}{1000 * min(times):11.1f} ms", flush=True)
    return min(times)


def scores(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    rank = rng.geometric(0.25, n)
    return {
        "hit@5": (rank <= 5) * 1.0,
        "mrr@10": np.where(rank <= 10, 1 / rank, 0.0),
        "graded": rng.beta(5, 2, n),
    }


def speed(rng: np.random.Generator, n: int) -> None:
    columns = scores(rng, n)
    graded, documents = columns["graded"], [str(i // 5) for i in range(n)]
    print(f"\n{n:,} questions, {RESAMPLES:,} resamples")
    few = sum(
        measured(f"bootstrap, {name}", partial(bootstrap_interval, columns[name])) for name in ("hit@5", "mrr@10")
    )
    print(f"  {'hit@5 and mrr@10 together':58}{1000 * few:11.1f} ms")
    own = measured("bootstrap, graded (every value its own)", lambda: bootstrap_interval(graded))
    measured("bootstrap over documents of 5, graded", lambda: bootstrap_interval(graded, clusters=documents))
    if n < 100_000:
        peer = partial(scipy.stats.bootstrap, (graded,), np.mean, n_resamples=RESAMPLES, batch=50, rng=1)
        theirs = measured("scipy.stats.bootstrap, percentile, graded", lambda: peer(method="percentile"))
        print(f"  {'scipy / ours':58}{theirs / own:11.1f} x")
    moved = rng.random(n) < 0.05
    differences = np.column_stack([moved * rng.normal(0, 0.3, n) for _ in range(12)])
    measured("19,999 sign flips of 12 metrics, 5 % moved", lambda: sign_flip_p_values(differences, seed=1))
    binary = moved * rng.integers(-5, 6, n) / 5
    measured("exact p by convolution, fifths, 5 % moved", lambda: exact_sign_flip_p(binary))


def memory(rng: np.random.Generator) -> None:
    n = 100_000
    table = [Column(rng.beta(5, 2, n)) for _ in range(N_METRICS)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"\n{N_METRICS} graded metrics, {n:,} questions, {RESAMPLES:,} resamples, all together")
    measured("bootstrap", lambda: bootstrap_intervals(table))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"  {'peak memory above what was there':58}{grown:11.0f} MB")


def coverage(rng: np.random.Generator, samples: int) -> None:
    error = 196 * (0.95 * 0.05 / samples) ** 0.5
    print(f"\nPercent of {samples:,} samples whose 95 % interval holds the true mean, give or take {error:.1f}")
    print(f"  {'scores':26}{'n':>6}{'wilson':>10}{'percentile':>12}{'normal':>9}")
    for n in (30, 50, 100, 500):
        for name, true in (
            ("hit@5", 1 - 0.75**5),
            ("mrr@10", sum(0.25 * 0.75 ** (k - 1) / k for k in range(1, 11))),
            ("graded", 5 / 7),
        ):
            held = np.zeros(3)
            for _ in range(samples):
                values = scores(rng, n)[name]
                half = 1.96 * values.std(ddof=1) / n**0.5
                found = [
                    wilson_interval(int(values.sum()), n) if name == "hit@5" else None,
                    bootstrap_interval(values, resamples=1000),
                    (values.mean() - half, values.mean() + half),
                ]
                held += [one is not None and one[0] <= true <= one[1] for one in found]
            cells = [f"{100 * share:.1f}" for share in held / samples]
            cells[0] = cells[0] if name == "hit@5" else "-"
            print(f"  {name:26}{n:6}{cells[0]:>10}{cells[1]:>12}{cells[2]:>9}", flush=True)
    print(f"\n  {'shares, documents of 5':26}{'docs':>6}{'ignored':>10}{'clustered':>12}{'bootstrap':>12}")
    for n_documents in (10, 30, 100):
        held = np.zeros(3)
        for _ in range(samples):
            # Beta(3.2, 0.8) between documents: mean 0.8, intraclass correlation 1 / (1 + 4) = 0.2.
            values = (rng.random((n_documents, 5)) < rng.beta(3.2, 0.8, (n_documents, 1))).ravel() * 1.0
            documents = [str(i // 5) for i in range(values.size)]
            found = [
                wilson_interval(int(values.sum()), values.size),
                clustered_wilson_interval(values, documents)[0],
                bootstrap_interval(values, clusters=documents, resamples=1000),
            ]
            held += [one is not None and one[0] <= 0.8 <= one[1] for one in found]
        cells = [f"{100 * share:.1f}" for share in held / samples]
        print(f"  {'right or wrong':26}{n_documents:6}{cells[0]:>10}{cells[1]:>12}{cells[2]:>12}", flush=True)
    few_documents(rng, samples)


SHAPES = {
    "3 of 10": (10,) * 3,
    "5 of 10": (10,) * 5,
    "10 of 10": (10,) * 10,
    "30 of 10": (10,) * 30,
    "3 of 40, 20 of 5": (40,) * 3 + (5,) * 20,
    "3 of 150, 410 of 1": (150,) * 3 + (1,) * 410,
}


def few_documents(rng: np.random.Generator, samples: int) -> None:
    """Few or unequal documents: shares by Wilson's form, graded scores by widened percentiles."""
    print(f"\n  {'documents of questions':26}{'shares':>10}{'percentile':>12}")
    for name, sizes in SHAPES.items():
        documents = [str(number) for number, size in enumerate(sizes) for _ in range(size)]
        held = np.zeros(2)
        for _ in range(samples):
            quality = np.repeat(rng.beta(3.2, 0.8, len(sizes)), sizes)
            shares = (rng.random(quality.size) < quality) * 1.0
            graded = rng.beta(4 * quality, 4 * (1 - quality))  # about its document's quality
            found = [
                clustered_wilson_interval(shares, documents)[0],
                bootstrap_interval(graded, clusters=documents, resamples=1000),
            ]
            held += [one is not None and one[0] <= 0.8 <= one[1] for one in found]
        cells = [f"{100 * share:.1f}" for share in held / samples]
        print(f"  {name:26}{cells[0]:>10}{cells[1]:>12}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--coverage-samples", type=int, default=1000, help="Samples a cell; 0 leaves the table out.")
    samples = parser.parse_args().coverage_samples
    rng = np.random.default_rng(20)
    memory(rng)  # first: the peak of the process is what it reads
    for n in (500, 7_000, 100_000):
        speed(rng, n)
    if samples:
        coverage(rng, samples)


if __name__ == "__main__":
    main()
