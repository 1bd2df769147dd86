"""Metrics against their peers: processor time, memory, and whether the results are the same to the last bit.

    python bench/metrics.py [retrieval] [--peers DIR]

Retrieval: 19 measures of synthetic runs, 6,980 queries x 1,000 documents as MS MARCO's dev set has them, and 100,000 x
100; in memory (ids as codes, dicts for pytrec_eval) and from parquet. All are asked in turn in one process, each three
times, and the median of the processor's time counts. pytrec_eval and, where they can be installed, ranx, ir_measures
and evret are put into a virtual environment of their own under DIR, which is made once; none is needed otherwise.
"""

import argparse
import gc
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rag_eval_pipeline.evaluation.trec_scoring import run_columns, score_file
from rag_eval_pipeline.metrics.retrieval.engine import Scores, score
from rag_eval_pipeline.metrics.retrieval.names import parse_measures
from rag_eval_pipeline.metrics.retrieval.rankings import Documents, Qrels, Run, make_qrels

MEASURES = ("success.1,3,5", "P.1,5,10", "recall.5,10,100,1000", "ndcg_cut.5,10,100", "map_cut.5,10,100", "map", "ndcg",
            "recip_rank")  # fmt: skip
PEERS = {"pytrec_eval": "pytrec-eval-terrier==0.5.11", "ranx": "ranx", "ir_measures": "ir-measures", "evret": "evret"}
SIZES = ((6_980, 1_000), (100_000, 100))  # queries, documents of each
SMALL = (1_000, 1_000)  # for peers that are slow
DOCUMENTS = 8_841_823  # passages of MS MARCO
ROUNDS = 3
REPEATED = 3  # in a round, of what takes less than the clock's troubles on a shared machine
OURS = "this project, ids as codes"
SEED = 7
WORK = Path(tempfile.gettempdir()) / "rag-eval-bench-peers"


class Collection(NamedTuple):
    """A run and qrels as columns: query, document, and score or grade."""

    run: tuple[np.ndarray, np.ndarray, np.ndarray]
    qrels: tuple[np.ndarray, np.ndarray, np.ndarray]
    queries: int
    depth: int


def collection(queries: int, depth: int) -> Collection:
    """Scores as of BM25, rounded so that some are equal; 1 to 8 judged documents, a third of them not retrieved."""
    rng = np.random.default_rng(SEED)
    ids = np.sort(rng.choice(1_200_000, queries, replace=False))
    documents = rng.integers(0, DOCUMENTS, (queries, depth))
    while (again := np.flatnonzero((np.diff(np.sort(documents, axis=1)) == 0).any(axis=1))).size:
        documents[again] = rng.integers(0, DOCUMENTS, (again.size, depth))
    scores = np.sort(np.round(rng.gamma(9.0, 1.5, (queries, depth)), 4), axis=1)[:, ::-1]
    places = np.minimum(rng.geometric(0.08, (queries, 8)) - 1, depth - 1)
    judged = np.take_along_axis(documents, places, axis=1)
    lost = rng.random(judged.shape) < 0.3
    judged[lost] = DOCUMENTS + rng.integers(0, 1_000_000, int(lost.sum()))
    asked = np.arange(8) < rng.integers(1, 9, queries)[:, None]
    pairs = np.unique(np.column_stack((np.repeat(ids, 8)[asked.ravel()], judged[asked])), axis=0)
    grades = rng.choice([0, 1, 1, 2, 3], len(pairs))
    run = np.repeat(ids, depth), documents.ravel(), scores.ravel()
    return Collection(run, (pairs[:, 0], pairs[:, 1], grades), queries, depth)


def text(numbers: np.ndarray) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def write(found: Collection, folder: Path) -> tuple[Path, Path]:
    paths = folder / "run.parquet", folder / "qrels.parquet"
    for path, (query, document, value), name in zip(paths, (found.run, found.qrels), ("score", "grade"), strict=True):
        columns = {"query_id": text(query), "document_id": text(document), name: pa.array(value)}
        pq.write_table(pa.table(columns), path, compression="zstd")
    return paths


def coded(found: Collection) -> tuple[Run, Qrels]:
    """Documents as codes in the order of their ids."""
    numbers, codes = np.unique(np.concatenate((found.run[1], found.qrels[1])), return_inverse=True)
    codes = np.argsort(np.argsort(text(numbers).to_numpy(zero_copy_only=False)))[codes]
    rows = len(found.run[1])
    offsets = np.arange(found.queries + 1) * found.depth
    run = Run(
        text(found.run[0][:: found.depth]).to_pylist(), offsets, Documents(codes=codes[:rows]),
        np.ascontiguousarray(found.run[2]),
    )  # fmt: skip
    names, query = np.unique(found.qrels[0], return_inverse=True)
    documents = Documents(codes=codes[rows:])
    return run, make_qrels(text(names).to_pylist(), query, documents, found.qrels[2])


def dicts(path: Path, value: str) -> dict[str, dict[str, Any]]:
    """Query -> document -> score or grade, as pytrec_eval takes them."""
    table = pq.read_table(path)
    found: dict[str, dict[str, Any]] = {}
    columns = (table.column(name).to_pylist() for name in ("query_id", "document_id", value))
    for query, document, number in zip(*columns, strict=True):
        try:
            found[query][document] = number
        except KeyError:
            found[query] = {document: number}
    return found


def peers(folder: Path, names: Iterable[str] = tuple(PEERS)) -> Iterator[str]:
    """The peers that are there, after an attempt to install them; their packages come after the project's own."""
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    if not site.is_dir():
        venv.create(folder, with_pip=True)
        for requirement in map(PEERS.__getitem__, names):
            command = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", requirement]
            if subprocess.run(command, capture_output=True, check=False, timeout=300).returncode:
                print(f"{requirement} cannot be installed: left out")
    sys.path.append(str(site))
    for name in names:
        try:
            __import__(name)
        except Exception as error:  # a peer may fail to load for any reason of its own
            print(f"{name} cannot be loaded ({type(error).__name__}): left out")
        else:
            yield name


def timed(times: dict[str, list[float]], name: str, work: Callable[[], Any]) -> Any:
    gc.collect()
    started = time.process_time()
    result = work()
    times.setdefault(name, []).append(time.process_time() - started)
    return result


def different(ours: Scores, theirs: dict[str, dict[str, float]]) -> tuple[int, int]:
    """How many of their values are not ours to the last bit, and of how many."""
    places = {query: place for place, query in enumerate(ours.queries)}
    labels = [measure.label for measure in ours.measures]
    other = total = 0
    for label, values in zip(labels, (values.tolist() for values in ours.values), strict=True):
        for query, by_measure in theirs.items():
            other += values[places[query]] != by_measure[label]
            total += 1
    return other, total


def show(title: str, times: dict[str, list[float]], base: str) -> None:
    print(f"\n{title}")
    of = statistics.median(times[base]) if base in times else None
    for name, values in times.items():
        median = statistics.median(values)
        ratio = "" if of is None else f"{median / of:8.1f} of ours" if base == OURS else f"{of / median:8.1f}x"
        print(f"  {name:44}{median * 1000:10.1f} ms  ({min(values) * 1000:.1f} to {max(values) * 1000:.1f}){ratio}")


def retrieval_at(queries: int, depth: int, available: list[str]) -> None:
    measures = parse_measures(MEASURES)
    with tempfile.TemporaryDirectory() as folder:
        made = collection(queries, depth)
        run_path, qrels_path = write(made, Path(folder))
        run, qrels = coded(made)
        del made
        memory: dict[str, list[float]] = {}
        files: dict[str, list[float]] = {}
        found = theirs = None
        for _ in range(ROUNDS):
            for _ in range(REPEATED):
                found = timed(memory, OURS, lambda: score(run, qrels, measures))
            timed(memory, "  checks when a run is made", lambda: run.__post_init__())
            read = timed(files, "this project", lambda: score_file(run_path, qrels_path, measures)[0])
            if "pytrec_eval" in available:
                import pytrec_eval

                def evaluator(grades: dict[str, Any]) -> Any:
                    return pytrec_eval.RelevanceEvaluator(grades, set(MEASURES))

                def everything() -> Any:
                    return evaluator(dicts(qrels_path, "grade")).evaluate(dicts(run_path, "score"))

                timed(files, "pytrec_eval, dicts and scores", everything)
                rankings, asked = dicts(run_path, "score"), evaluator(dicts(qrels_path, "grade"))
                theirs = timed(memory, "pytrec_eval, dicts ready", lambda: asked.evaluate(rankings))  # noqa: B023
                del rankings, asked
            timed(
                files, "  of which reading the run", lambda: sum(piece.scores.size for piece in run_columns(run_path))
            )
            same = [np.array_equal(a, b) for a, b in zip(found.values, read.values, strict=True)]
            assert all(same), "codes and files score the same"
        show(f"{queries:,} x {depth:,} in memory", memory, "pytrec_eval, dicts ready")
        show(f"{queries:,} x {depth:,} from parquet", files, "pytrec_eval, dicts and scores")
        if theirs is not None and found is not None:
            print("  values that differ from pytrec_eval's: {} of {:,}".format(*different(found, theirs)))


def small_peers(available: list[str]) -> None:
    """The peers that would take minutes at full size, each in its own way."""
    measures = parse_measures(MEASURES)
    with tempfile.TemporaryDirectory() as folder:
        made = collection(*SMALL)
        run_path, qrels_path = write(made, Path(folder))
        run, qrels = coded(made)
        rankings, grades = dicts(run_path, "score"), dicts(qrels_path, "grade")
        work: dict[str, Callable[[], Any]] = {OURS: lambda: score(run, qrels, measures)}
        if "ranx" in available:
            import ranx

            held = ranx.Qrels(grades), ranx.Run(rankings)
            cutoffs = {"hit_rate": (1, 3, 5), "precision": (1, 5, 10), "recall": (5, 10, 100, 1000)}
            cutoffs |= {"ndcg": (5, 10, 100), "map": (5, 10, 100)}
            names = [f"{name}@{k}" for name, ks in cutoffs.items() for k in ks]
            work["ranx, compiled"] = lambda: ranx.evaluate(*held, [*names, "map", "ndcg", "mrr"], make_comparable=True)
            work["ranx, compiled"]()  # compiles
        if "ir_measures" in available:
            import ir_measures

            parsed = [ir_measures.parse_measure(name) for name in ("nDCG@10", "AP", "RR", "P@5", "R@100", "Success@5")]
            work["ir_measures, 6 of the measures"] = lambda: ir_measures.calc_aggregate(parsed, grades, rankings)
        if "evret" in available:
            from evret.metrics import NDCG, HitRate, Recall

            retrieved = [list(rankings[query]) for query in grades]
            relevant = [{document for document, grade in graded.items() if grade > 0} for graded in grades.values()]
            work["evret, 3 of the measures"] = lambda: [
                metric(k=10).score(retrieved, relevant) for metric in (HitRate, Recall, NDCG)
            ]
        times: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for name, one in work.items():
                timed(times, name, one)
        show(f"{SMALL[0]:,} x {SMALL[1]:,} in memory", times, OURS)


def retrieval(folder: Path) -> None:
    available = list(peers(folder))
    for size in SIZES:
        retrieval_at(*size, available)
    if set(available) - {"pytrec_eval"}:
        small_peers(available)
    print(f"\npeak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB, mostly dicts")


SECTIONS = {"retrieval": retrieval}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS), help=", ".join(SECTIONS))
    parser.add_argument("--peers", type=Path, default=WORK, help="where the peers' virtual environment is made")
    arguments = parser.parse_args()
    for name in arguments.sections:
        SECTIONS[name](arguments.peers)


if __name__ == "__main__":
    main()
