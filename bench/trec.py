"""TREC text files to scores: `rag-eval score` against trec_eval's own program and pytrec_eval, in one run.

    python bench/trec.py [--trec-eval PROGRAM] [--peers DIR] [--queries 25 50 6980] [--rounds 3]

Qrels and runs of 1,000 documents a query, as in bench/metrics.py, are read and scored by 19 measures. Each measurement
is a process of its own; they take turns, and the median of user and system time counts. The commands are measured
whole, their start included; `score_file` and pytrec_eval without the interpreter's start and imports. All scores are
compared: those of trec_eval as printed, those of pytrec_eval to the last bit. A peer that is not there is left out:
trec_eval if it is neither on the path nor given, pytrec_eval if it cannot be installed under DIR. Of 25 queries, whose
files have 1 MB, the start is nearly all that the command takes; its aim is 0.5 s by the clock on a quiet machine.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
from metrics import MEASURES, Collection, collection, different, peers, show, text

DEPTH = 1_000
OPTIONS = [option for name in MEASURES for option in ("-m", name)]
BASE = "rag-eval score"
WORK = Path(tempfile.gettempdir()) / "rag-eval-bench-pytrec-eval"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trec-eval", default=shutil.which("trec_eval"), help="the program, if not on the path")
    parser.add_argument("--peers", type=Path, default=WORK, help="where pytrec_eval's virtual environment is made")
    parser.add_argument("--queries", type=int, nargs="+", default=[25, 50, 6_980])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=CHILDREN, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages are compiled
    if given.only:
        print(json.dumps(CHILDREN[given.only](given.folder, given.peers)))
        return
    has_pytrec_eval = load_pytrec_eval(given.peers)
    if given.trec_eval is None:
        print("trec_eval is not on the path: left out")
    for queries in given.queries:
        with tempfile.TemporaryDirectory() as name:
            compare(Path(name), queries, given, has_pytrec_eval=has_pytrec_eval)


def compare(folder: Path, queries: int, given: argparse.Namespace, *, has_pytrec_eval: bool) -> None:
    write(collection(queries, DEPTH), folder)
    files = ["--qrels", str(folder / "qrels"), "--run", str(folder / "run")]
    commands = {BASE: [sys.executable, "-m", "rag_eval_pipeline.cli", "score", *files, *OPTIONS]}
    if given.trec_eval:
        commands["trec_eval"] = [given.trec_eval, "-c", *OPTIONS, *files[1::2]]
    children = ["score_file", *(["pytrec_eval"] if has_pytrec_eval else [])]
    times: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    for _ in range(given.rounds):
        for name, command in commands.items():
            before, started = children_cpu(), time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            seconds.setdefault(name, []).append(time.perf_counter() - started)
            times.setdefault(name, []).append(children_cpu() - before)
        for name in children:
            options = ["--only", name, "--folder", str(folder), "--peers", str(given.peers)]
            done = subprocess.run([sys.executable, __file__, *options], stdout=subprocess.PIPE, check=True)
            found = json.loads(done.stdout)
            times.setdefault(f"{name}, without start", []).append(found["cpu"])
            seconds.setdefault(f"{name}, without start", []).append(found["seconds"])
    rows = f"{queries:,} x {DEPTH:,}, {(folder / 'run').stat().st_size / 1e6:.0f} MB"
    show(f"{rows}: processor time, against {BASE}", times, BASE)
    show(f"{rows}: wall-clock time", seconds, BASE)
    if given.trec_eval:
        each = [sorted(lines([*command, "-q"] if name == BASE else [command[0], "-q", *command[1:]]))
                for name, command in commands.items()]  # fmt: skip
        print(f"  lines that differ from trec_eval's: {sum(map(str.__ne__, *each))} of {len(each[0]):,}")
    if has_pytrec_eval:
        print("  values that differ from pytrec_eval's: {} of {:,}".format(*differences(folder, given.peers)))


def lines(command: list[str]) -> list[str]:
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return [line for line in printed if not line.startswith("runid")]


def write(found: Collection, folder: Path) -> None:
    rank = pa.array(list(range(1, found.depth + 1)) * found.queries)
    for name, (query, document, value), fixed in (("qrels", found.qrels, "0"), ("run", found.run, "Q0")):
        columns = [text(query), pa.repeat(fixed, len(query)), text(document)]
        columns += [pa.array(value)] if name == "qrels" else [rank, pa.array(value), pa.repeat("bm25", len(query))]
        table = pa.Table.from_arrays(columns, names=[str(number) for number in range(len(columns))])
        options = pa.csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
        pa.csv.write_csv(table, folder / name, options)


def score_file(folder: Path, _: Path) -> dict[str, float]:
    from rag_eval_pipeline.evaluation import trec_scoring as files
    from rag_eval_pipeline.metrics.retrieval.names import parse_measures

    pa.array([1])  # makes Arrow look for pandas, and import it
    measures = parse_measures(MEASURES)
    cpu, started = time.process_time(), time.perf_counter()
    scores, _tag = files.score_file(folder / "run", folder / "qrels", measures)
    means = [scores.summary(measure) for measure in scores.measures]
    assert None not in means
    return {"cpu": time.process_time() - cpu, "seconds": time.perf_counter() - started}


def pytrec_eval(folder: Path, site: Path) -> dict[str, float]:
    assert load_pytrec_eval(site)
    cpu, started = time.process_time(), time.perf_counter()
    evaluate(folder)
    return {"cpu": time.process_time() - cpu, "seconds": time.perf_counter() - started}


CHILDREN = {"score_file": score_file, "pytrec_eval": pytrec_eval}


def load_pytrec_eval(site: Path) -> bool:
    return "pytrec_eval" in peers(site, ["pytrec_eval"])


def evaluate(folder: Path) -> Any:
    import pytrec_eval as peer

    with (folder / "qrels").open() as qrels, (folder / "run").open() as run:
        judged, rankings = peer.parse_qrel(qrels), peer.parse_run(run)
    return peer.RelevanceEvaluator(judged, set(MEASURES)).evaluate(rankings)


def differences(folder: Path, site: Path) -> tuple[int, int]:
    from rag_eval_pipeline.evaluation import trec_scoring as files
    from rag_eval_pipeline.metrics.retrieval.names import parse_measures

    assert load_pytrec_eval(site)
    scores, _ = files.score_file(folder / "run", folder / "qrels", parse_measures(MEASURES))
    return different(scores, evaluate(folder))


def children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
