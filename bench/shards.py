"""Measure the peak memory of a corpus that is made in shards: each shard, the merge, and the other steps.

    python bench/shards.py [--documents 100000] [--printed 1] [--keep FOLDER]

Each document is a text of some 200 words, and each has a question. Each step and each shard is a process of its own, as
in Dagster, and two shards go at once. Printing 100,000 texts takes the browser ten minutes of processor time, so only
the first shards are printed (`--printed`); for the others a stand-in writes the PDF and knows its text, and all else is
done as always. Memory is the peak resident set of the process in 10^6 bytes, and of its largest child, which is the
browser; CPU is user and system time of both.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from memory import measure

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

NAME = "large"
SPEC = f"""name: {NAME}
version: 1.0.0
source: questions.jsonl
tables: {{docs: docs.jsonl}}
questions: {{question: question, answer: answer, contexts: contexts}}
documents: SELECT name, text FROM docs
"""
WORDS = ["lamp", "row", "burns", "longer", "than", "any", "other", "on", "this", "coast", "was", "lit"]
AT_ONCE = 2
STEPS = ["questions", "corpus", "corpus_text", "train_json", "evaluation_dataset", "ground_truth"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--printed", type=int, default=1, help="Shards whose texts the browser prints.")
    parser.add_argument("--keep", type=Path, help="Folder of the workspace, which is then not removed.")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part is not None:
        print(json.dumps(measure(lambda root: run_part(root, given.part), given.keep)))
    elif given.keep is not None:
        run(given.keep, given.documents, given.printed)
    else:
        with tempfile.TemporaryDirectory(prefix="bench-shards-") as folder:
            run(Path(folder), given.documents, given.printed)


def run(root: Path, documents: int, printed: int) -> None:
    from rag_eval_pipeline.conversion.shards import read_shard_plan
    from rag_eval_pipeline.workspace import Workspace

    write_workspace(root, documents)
    print(f"{documents} documents\n{'part':22}{'seconds':>9}{'CPU s':>8}{'peak MB':>9}{'child MB':>9}")
    show("questions", part(root, "questions"))
    show("corpus, shards missing", part(root, "corpus"))
    plan = read_shard_plan(Workspace(root).benchmark(NAME))
    assert plan is not None
    names = [("" if number < printed else "quick:") + plan.key(number) for number in range(plan.shards)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        shards = list(pool.map(lambda name: part(root, name), names))
    for label, some in (("shard, printed", shards[:printed]), ("shard, stand-in", shards[printed:])):
        if some:
            show(f"{label}, of {len(some)}", {name: max(one[name] for one in some) for name in some[0]})
    for step in STEPS[1:]:
        show(step, part(root, step))


def show(label: str, found: dict[str, float]) -> None:
    numbers = "".join(f"{found[name]:{width}}" for name, width in (("seconds", "9.1f"), ("cpu", "8.1f")))
    print(f"{label:22}{numbers}{found['peak']:9.0f}{found['child']:9.0f}", flush=True)


def part(root: Path, name: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--keep", str(root), "--part", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def write_workspace(root: Path, documents: int) -> None:
    source = root / "data/sources" / NAME
    source.mkdir(parents=True)
    (source / "benchmark.yaml").write_text(SPEC)
    with (source / "docs.jsonl").open("w") as docs, (source / "questions.jsonl").open("w") as questions:
        for number in range(documents):
            text = f"Document {number}. " + " ".join(f"{WORDS[(number + n) % len(WORDS)]} {n}" for n in range(100))
            docs.write(json.dumps({"name": f"lamp-{number}", "text": text}) + "\n")
            question = {
                "question": f"Which lamp is number {number}?",
                "answer": f"lamp {number}",
                "contexts": [{"document": f"lamp-{number}"}],
            }
            questions.write(json.dumps(question) + "\n")


def run_part(root: Path, name: str) -> None:
    from rag_eval_pipeline.conversion.shards import ShardsMissing, run_shard
    from rag_eval_pipeline.conversion.steps import run_step
    from rag_eval_pipeline.workspace import Workspace

    quick, _, key = name.rpartition(":")
    if quick:
        from rag_eval_pipeline.corpus import document_renderer

        document_renderer.render = write_plain_pdf  # type: ignore[assignment]
    if key in STEPS:
        try:
            run_step(Workspace(root), NAME, key)
        except ShardsMissing as error:
            print(error, file=sys.stderr)
    else:
        run_shard(Workspace(root), key)


async def write_plain_pdf(pool: Any, body: Any, **options: Any) -> Any:
    """Stand in for the browser: a PDF of the text's lines, without the time that printing takes."""
    from rag_eval_pipeline.corpus.rendering.render import Rendered
    from rag_eval_pipeline.corpus.text import pdf as pdfium
    from tests.corpus.making import simple_pdf

    text = body.data.decode()
    pdf = simple_pdf(text)
    pdfium._cache.add(hashlib.sha256(pdf).hexdigest(), [text])
    return Rendered(pdf, [text])


if __name__ == "__main__":
    main()
