"""A large source to `train.json` and `.eval.json`: this converter against the specification's own pattern, in one run.

    python bench/conversion.py [--rows 1000000] [--format jsonl csv parquet]

The pattern reads all rows (`json.loads` a line, `csv.DictReader`, `to_pylist` of parquet) and writes both files with
`json.dump(indent=2)`; it validates nothing. The converter does what `rag-eval convert` does: source digest, every row
validated, `questions.parquet`, both files, the stamp. Both files have to be byte-identical. Seconds are wall-clock, CPU
is user and system time of all threads, memory is the peak resident set above a process that has only imported what it
needs. Each measurement is a process of its own.
"""

import argparse
import filecmp
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORDS = """the lamp of harbour light stands above north cliff where keeper watches ships and tide turns slowly beneath
granite tower raised in year by engineer with stone from quarry carried over moor railway naïve café Zürich 東京"""
SPEC = """name: big
version: 1.0.0
source: {file}
questions: {{question: question, answer: answer, contexts: passage, source_id: id, difficulty: difficulty}}
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument(
        "--format", nargs="+", choices=["jsonl", "csv", "parquet"], default=["jsonl", "csv", "parquet"]
    )
    arguments.add_argument("--only", choices=["pattern", "converter"], help=argparse.SUPPRESS)
    arguments.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.only is not None:
        measure = pattern if given.only == "pattern" else converter
        print(json.dumps(measure(given.folder, given.format[0])))
        return
    print(f"{'format':9}{'MB':>6}{'':>12}{'seconds':>9}{'CPU s':>8}{'peak MB above':>15}  ratio")
    for form in given.format:
        with tempfile.TemporaryDirectory() as name:
            compare(Path(name), form, given.rows)


def compare(folder: Path, form: str, rows: int) -> None:
    source = folder / "data" / "sources" / "big" / f"qa.{form}"
    source.parent.mkdir(parents=True)
    (source.parent / "benchmark.yaml").write_text(SPEC.format(file=source.name))
    write_source(source, form, rows)
    found = {}
    for which in ("pattern", "converter"):
        command = [sys.executable, __file__, "--only", which, "--folder", str(folder), "--format", form]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[which] = json.loads(done.stdout.splitlines()[-1])
    ratio = found["pattern"]["seconds"] / found["converter"]["seconds"]
    megabytes = source.stat().st_size / 1e6
    for which, figures in found.items():
        print(
            f"{form:9}{megabytes:6.0f}{which:>12}{figures['seconds']:9.1f}{figures['cpu']:8.1f}{figures['peak']:15.0f}"
            + (f"  {ratio:.1f}x" if which == "converter" else "")
        )
    for ours, theirs in (
        (folder / "data/datasets/big/train.json", folder / "train.json"),
        (folder / "data/evaluation/datasets/big_v1.0.0.eval.json", folder / "eval.json"),
    ):
        if not filecmp.cmp(ours, theirs, shallow=False):
            raise SystemExit(f"{ours.name} differs from what the pattern wrote")


def write_source(path: Path, form: str, rows: int) -> None:
    """Rows of about 1 kB, the same in every format."""
    import csv

    import pyarrow as pa
    import pyarrow.parquet as pq

    made = random_rows(rows)
    if form == "jsonl":
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in made)
    elif form == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["id", "question", "answer", "passage", "difficulty"])
            writer.writeheader()
            writer.writerows(made)
    else:
        first = [next(made)]
        with pq.ParquetWriter(path, pa.Table.from_pylist(first).schema) as table:
            while first:
                table.write_table(pa.Table.from_pylist(first))
                first = [row for _, row in zip(range(50_000), made, strict=False)]


def random_rows(rows: int) -> Iterator[dict[str, str]]:
    draw, words = random.Random(1), WORDS.split()
    for number in range(rows):
        yield {
            "id": f"q{number:07d}",
            "question": " ".join(draw.choices(words, k=14)) + "?",
            "answer": " ".join(draw.choices(words, k=6)),
            "passage": ", ".join(" ".join(draw.choices(words, k=30)) for _ in range(4)) + ' "said" she',
            "difficulty": draw.choice(["easy", "medium", "hard"]),
        }


def pattern(folder: Path, form: str) -> dict[str, float]:
    """The specification's own conversion, for both files."""
    import csv

    import pyarrow.parquet as pq

    before = resident()
    started, cpu = time.perf_counter(), time.process_time()
    path = folder / "data" / "sources" / "big" / f"qa.{form}"
    if form == "jsonl":
        with path.open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file if line.strip()]
    elif form == "csv":
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    else:
        rows = pq.ParquetFile(path).read().to_pylist()
    train = [
        {"id": number, "question": row["question"], "answer": row["answer"], "is_impossible": False}
        | {"contexts": [row["passage"]]}
        for number, row in enumerate(rows)
    ]
    write(folder / "train.json", train)
    del train
    characters = sum(len(row["question"]) for row in rows)
    queries = [
        {
            "query_id": str(number),
            "query_text": row["question"],
            "relevant_documents": [],
            "difficulty": row["difficulty"],
            "ground_truth_answer": row["answer"],
            "citations": [],
            "metadata": {"is_impossible": False, "answers": [row["answer"]], "hops": 0, "source_id": row["id"]},
        }
        for number, row in enumerate(rows)
    ]
    metadata = {"size": len(rows), "avg_query_length": round(characters / len(rows), 2), "source": "big"}
    head = {"schema_version": "1.0", "dataset_id": "big", "name": "big", "version": "1.0.0", "metadata": metadata}
    write(folder / "eval.json", {**head, "queries": queries})
    return figures(started, cpu, before)


def write(path: Path, value: Any) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")


def converter(folder: Path, form: str) -> dict[str, float]:
    """What `rag-eval convert` does."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet

    import rag_eval_pipeline.conversion.dataset_columns
    import rag_eval_pipeline.conversion.plain_rows  # noqa: F401  # heavy modules that steps import when they run
    from rag_eval_pipeline.conversion.steps import convert
    from rag_eval_pipeline.workspace import Workspace

    pa.array([1])  # makes Arrow look for pandas, and import it
    before = resident()
    started, cpu = time.perf_counter(), time.process_time()
    convert(Workspace(folder), "big")
    return figures(started, cpu, before)


def figures(started: float, cpu: float, before: float) -> dict[str, float]:
    # Not ru_maxrss, which counts what the parent held when it started this process.
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    return {"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu, "peak": peak - before}


def resident() -> float:
    """Resident set of this process now, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


if __name__ == "__main__":
    main()
