"""Measure how fast rows with URLs become `train.json` and `.eval.json`, against the specification's own pattern.

    python bench/conversion.py [--rows 100000 400000] [--format jsonl csv] [--sql]

A row is like one of FRAMES: a question, an answer and one to five URLs, in CSV as a list that Python wrote. The pattern
reads all rows (`json.loads` a line, `csv.DictReader` and `ast.literal_eval`) and writes both files with
`json.dump(indent=2)`; it validates nothing. The converter does what `rag-eval convert` does: source digest, every row
validated, `questions.parquet`, both files, the stamp; its corpus of 100 PDFs is there already and checked again. Both
files have to be byte-identical. Seconds are wall-clock, CPU is user and system time of all threads and child processes,
memory is the peak resident set of the process above one that has only imported what it needs, and of its largest child
process without the pages of files that it maps. Each measurement is a process of its own. Below are the microseconds of
CPU a row of each step.
"""

import argparse
import ast
import csv
import filecmp
import json
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORDS = """the lamp of harbour light stands above north cliff where keeper watches ships and tide turns slowly beneath
granite tower raised in year by engineer with stone from quarry carried over moor railway naïve café Zürich 東京"""
NAME = "frames-like"
DOCUMENTS = 100
SITE = "https://en.wikipedia.org/wiki/"
SHORT = "{question: Prompt, answer: Answer, urls: wiki_links, difficulty: level}"
SQL = "SELECT Prompt AS question, Answer AS answer, %s AS urls, level AS difficulty FROM source"
SPEC = """name: {name}
version: 1.0.0
source: {file}
tables: {{mirror: {{path: mirror.csv}}}}
questions: {questions}
documents: SELECT url, file FROM mirror
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 400_000])
    parser.add_argument("--format", nargs="+", choices=["jsonl", "csv"], default=["jsonl", "csv"])
    parser.add_argument("--sql", action="store_true", help="Map JSON lines by SQL, not by the short form.")
    parser.add_argument("--only", choices=["pattern", "converter"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only is not None:
        measure = pattern if given.only == "pattern" else converter
        print(json.dumps(measure(given.folder, given.format[0])))
        return
    print(f"{'rows':>9} {'format':7}{'MB':>5}{'':>11}{'seconds':>9}{'CPU s':>8}{'peak MB':>9}{'child MB':>9}  ratio")
    for rows in given.rows:
        for form in given.format:
            with tempfile.TemporaryDirectory() as name:
                compare(Path(name), form, rows, sql=given.sql)


def compare(folder: Path, form: str, rows: int, *, sql: bool) -> None:
    source = folder / "data" / "sources" / NAME / f"qa.{form}"
    source.parent.mkdir(parents=True)
    questions = SHORT
    if form == "csv" or sql:
        questions = SQL % ("python_list(wiki_links)" if form == "csv" else "wiki_links")
    (source.parent / "benchmark.yaml").write_text(SPEC.format(name=NAME, file=source.name, questions=questions))
    write_documents(source.parent)
    write_source(source, form, 1_000)
    from rag_eval_pipeline.conversion.convert import convert
    from rag_eval_pipeline.workspace import Workspace

    convert(Workspace(folder), NAME)  # of few rows, so that the corpus is there
    write_source(source, form, rows)
    found = {}
    for which in ("pattern", "converter"):
        command = [sys.executable, __file__, "--only", which, "--folder", str(folder), "--format", form]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[which] = json.loads(done.stdout.splitlines()[-1])
    ratio = {name: found["pattern"][name] / found["converter"][name] for name in ("seconds", "cpu")}
    megabytes = source.stat().st_size / 1e6
    for which, figures in found.items():
        print(
            f"{rows:9} {form:7}{megabytes:5.0f}{which:>11}{figures['seconds']:9.1f}{figures['cpu']:8.1f}"
            f"{figures['peak']:9.0f}{figures['child']:9.0f}"
            + (f"  {ratio['seconds']:.1f}x (CPU {ratio['cpu']:.1f}x)" if which == "converter" else ""),
            flush=True,
        )
    print(
        " " * 20 + ", ".join(f"{step} {spent / rows * 1e6:.1f}" for step, spent in found["converter"]["steps"].items())
    )
    for ours, theirs in (
        (folder / f"data/datasets/{NAME}/train.json", folder / "train.json"),
        (folder / f"data/evaluation/datasets/{NAME}_v1.0.0.eval.json", folder / "eval.json"),
    ):
        if not filecmp.cmp(ours, theirs, shallow=False):
            raise SystemExit(f"{ours} differs from what the pattern wrote")


def write_documents(folder: Path) -> None:
    """Publishers' PDFs of one page, and the table that says which URL each is of."""
    (folder / "pdfs").mkdir()
    lines = ["url,file"]
    for number in range(DOCUMENTS):
        text = f"BT /F1 24 Tf 72 700 Td (Article number {number} of the bench) Tj ET".encode()
        objects = [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
            b"/Resources << /Font << /F1 5 0 R >> >> >>",
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text),
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        ]
        body, places = b"%PDF-1.4\n", []
        for index, item in enumerate(objects, start=1):
            places.append(len(body))
            body += b"%d 0 obj\n%s\nendobj\n" % (index, item)
        table = b"".join(b"%010d 00000 n \n" % place for place in places)
        end = b"xref\n0 6\n0000000000 65535 f \n%strailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
        (folder / "pdfs" / f"Article_{number}.pdf").write_bytes(body + end % (table, len(body)))
        lines.append(f"{SITE}Article_{number},pdfs/Article_{number}.pdf")
    (folder / "mirror.csv").write_text("\n".join(lines) + "\n")


def write_source(path: Path, form: str, rows: int) -> None:
    made = random_rows(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        if form == "jsonl":
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in made)
        else:
            writer = csv.DictWriter(file, ["Prompt", "Answer", "wiki_links", "level"])
            writer.writeheader()
            writer.writerows({**row, "wiki_links": repr(row["wiki_links"])} for row in made)


def random_rows(rows: int) -> Iterator[dict[str, Any]]:
    draw, words = random.Random(1), WORDS.split()
    for _ in range(rows):
        yield {
            "Prompt": " ".join(draw.choices(words, k=36)) + ' "said" she?',
            "Answer": " ".join(draw.choices(words, k=6)),
            "wiki_links": [f"{SITE}Article_{n}" for n in draw.sample(range(DOCUMENTS), draw.randint(1, 5))],
            "level": draw.choice(["easy", "medium", "hard"]),
        }


def pattern(folder: Path, form: str) -> dict[str, Any]:
    """Convert as the specification's own example does, for both files."""
    before = resident()
    started, cpu = time.perf_counter(), time.process_time()
    path = folder / "data" / "sources" / NAME / f"qa.{form}"
    with path.open(encoding="utf-8", newline="") as file:
        if form == "jsonl":
            rows = [json.loads(line) for line in file if line.strip()]
        else:
            rows = [{**row, "wiki_links": ast.literal_eval(row["wiki_links"])} for row in csv.DictReader(file)]
    train = []
    for number, row in enumerate(rows):
        row["files"] = [url.rsplit("/", 1)[1] + ".pdf" for url in row["wiki_links"]]
        train.append(
            {"id": number, "question": row["Prompt"], "answer": row["Answer"], "is_impossible": False}
            | {"contexts": [{"filename": name} for name in row["files"]]}
        )
    write(folder / "train.json", train)
    del train
    characters = sum(len(row["Prompt"]) for row in rows)
    queries = [
        {
            "query_id": str(number),
            "query_text": row["Prompt"],
            "relevant_documents": row["files"],
            "difficulty": row["level"],
            "ground_truth_answer": row["Answer"],
            "citations": [],
            "metadata": {"is_impossible": False, "answers": [row["Answer"]], "hops": len(row["files"])},
        }
        for number, row in enumerate(rows)
    ]
    metadata = {"size": len(rows), "avg_query_length": round(characters / len(rows), 2), "source": NAME}
    head = {"schema_version": "1.0", "dataset_id": NAME, "name": NAME, "version": "1.0.0", "metadata": metadata}
    write(folder / "eval.json", {**head, "queries": queries})
    return figures(started, cpu, before)


def write(path: Path, value: Any) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")


def converter(folder: Path, form: str) -> dict[str, Any]:
    """Convert as `rag-eval convert --replace` does."""
    import pyarrow as pa
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401

    from rag_eval_pipeline.conversion.convert import convert
    from rag_eval_pipeline.conversion.stamp import StepReport
    from rag_eval_pipeline.workspace import Workspace

    pa.array([1])  # makes Arrow look for pandas, and import it
    before = resident()
    watch = Children()
    started, cpu = time.perf_counter(), time.process_time()
    steps: dict[str, float] = {}

    def done(report: StepReport) -> None:
        steps[report.record.step] = processor_s() - cpu - sum(steps.values())

    convert(Workspace(folder), NAME, replace=True, done=done)
    return {**figures(started, cpu, before), "child": watch.peak(), "steps": steps}


class Children(threading.Thread):
    """Watches the memory of child processes: anonymous pages, as mapped files are the kernel's to drop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._peak, self._done = 0.0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self._done.wait(0.05):
            for child in Path("/proc/self/task").glob("*/children"):
                for pid in child.read_text().split():
                    try:
                        status = Path(f"/proc/{pid}/status").read_text()
                    except OSError:
                        continue
                    if "RssAnon:" in status:
                        self._peak = max(self._peak, int(status.partition("RssAnon:")[2].split()[0]) * 1024 / 1e6)

    def peak(self) -> float:
        self._done.set()
        self.join()
        return self._peak


def figures(started: float, cpu: float, before: float) -> dict[str, float]:
    # Not ru_maxrss, which counts what the parent held when it started this process.
    status = Path("/proc/self/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    return {"seconds": time.perf_counter() - started, "cpu": processor_s() - cpu, "peak": peak - before, "child": 0.0}


def processor_s() -> float:
    """Return the user and system time of this process, its threads and its finished children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def resident() -> float:
    """Return the resident set of this process now, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


if __name__ == "__main__":
    main()
