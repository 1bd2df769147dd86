"""Writing the report: processor seconds, memory, files and bytes for many nights, and again when one or none is new.

    python bench/report.py [--benchmarks 10] [--systems 3] [--nights 30] [--questions 200] [--wide 100000]

The evaluations are made up and written by the project's own writers (that takes longer than what is measured). The
parts, each measured in this process unless it is a command:

- verdicts: `write_comparisons`; nights that were compared before are on file.
- first: `write_site` into an empty folder, with these verdicts.
- the same, compared: again with these verdicts; no file is written.
- nothing new: again, and the verdicts are made once more.
- commands: `rag-eval report` of these for the first time, and three times again with nothing new, each a process of
  its own.
- one night: a further evaluation of every pair, then verdicts and report.
- pictures: a bundled benchmark, converted and evaluated with the embedded system; the marked pages of each of its
  questions, drawn into an empty folder and again over pictures that are there, where only the marks are placed; then
  the whole report with its budget of pictures.
- wide: two nights of `--wide` questions (20,000 are listed at most): `rag-eval report` as a process; in Chromium the
  milliseconds until the first page is loaded and drawn, and those until the table of a run can be used, for a search
  of each row's texts, a filter and a sort, each until the next picture is drawn.
- demo: `make demo` again, if `.demo` is there.

Nothing here is a limit of a test: machines differ.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))  # the writer of made-up nights belongs to the tests

from rag_eval_pipeline.conversion.convert import convert  # noqa: E402
from rag_eval_pipeline.corpus.rendering.browser import find_browser  # noqa: E402
from rag_eval_pipeline.evaluation.pair import load_pair  # noqa: E402
from rag_eval_pipeline.evaluation.pipeline import evaluate  # noqa: E402
from rag_eval_pipeline.monitoring.regressions import write_comparisons  # noqa: E402
from rag_eval_pipeline.site.data import read_report_data  # noqa: E402
from rag_eval_pipeline.site.marked_pages import FOLDER, PageImages, stated_spans  # noqa: E402
from rag_eval_pipeline.site.run_data import DatasetCache, read_run  # noqa: E402
from rag_eval_pipeline.site.site import write_site  # noqa: E402
from rag_eval_pipeline.workspace import Workspace  # noqa: E402
from tests.monitoring.made_nights import publish_night, register  # noqa: E402


def many_nights(root: Path, *, benchmarks: int, systems: int, nights: int, questions: int) -> Workspace:
    """Evaluate every pair every night; the first system falls on the last but second night."""
    workspace = Workspace(root)
    names = [f"benchmark-{n:02d}" for n in range(benchmarks)]
    kinds = [f"system-{'abcdefgh'[n]}" for n in range(systems)]
    register(workspace, names, kinds)
    for night in range(nights):
        number = 0
        for benchmark in names:
            for place, system in enumerate(kinds):
                number += 1
                fallen = place == 0 and night >= nights - 3
                skill = 0.7 - 0.08 * place - (0.15 if fallen else 0.0)
                publish_night(workspace, benchmark, system, night, questions=questions, skill=skill, number=number)
    return workspace


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--benchmarks", type=int, default=10)
    arguments.add_argument("--systems", type=int, default=3)
    arguments.add_argument("--nights", type=int, default=30)
    arguments.add_argument("--questions", type=int, default=200)
    arguments.add_argument("--wide", type=int, default=100_000, help="0 leaves it out")
    arguments.add_argument("--pictured", default="skarn-railway", help="a bundled benchmark; empty leaves it out")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-report-") as folder:
        nights(Path(folder) / "nights", given)
        if given.pictured:
            pictures(Path(folder) / "pictured", given.pictured)
        if given.wide:
            wide(Path(folder) / "wide", given.wide)
    if (REPOSITORY / ".demo" / "demo.json").exists():
        for name in ("make demo", "make demo, again"):  # the first plays the nights if the code has changed since
            process(name, "examples.demo_nights", environment={"DEMO_SERVE": "0"})


def nights(root: Path, given: argparse.Namespace) -> None:
    began = time.perf_counter()
    workspace = many_nights(
        root, benchmarks=given.benchmarks, systems=given.systems, nights=given.nights, questions=given.questions
    )
    pairs = given.benchmarks * given.systems
    print(
        f"made {pairs * given.nights} evaluations of {given.questions} questions in {time.perf_counter() - began:.0f} s"
    )
    found = measured(workspace, "verdicts", lambda: write_comparisons(workspace))
    verdicts = workspace.reports / "regressions.json"
    for name in ("command, first", "command, again", "command, again", "command, again"):
        command(workspace, name)
    kept = verdicts.read_bytes()
    shutil.rmtree(workspace.reports)
    workspace.reports.mkdir()
    verdicts.write_bytes(kept)
    measured(workspace, "first", lambda: write_site(workspace, found).written)
    measured(workspace, "the same, compared", lambda: write_site(workspace, found).written)
    measured(workspace, "nothing new", lambda: write_site(workspace).written)
    number = 0
    for benchmark in workspace.benchmarks():
        for system in workspace.systems():
            number += 1
            publish_night(
                workspace, benchmark, system, given.nights, questions=given.questions, skill=0.6, number=number
            )
    found = measured(workspace, "verdicts, one night", lambda: write_comparisons(workspace))
    measured(workspace, "one night", lambda: write_site(workspace, found).written)


def measured(workspace: Workspace, name: str, work: Callable[[], Any]) -> Any:
    began = time.process_time()
    written = work()
    seconds = time.process_time() - began
    files = [path for path in workspace.reports.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    said = f", {written} written" if isinstance(written, int) else ""
    print(
        f"{name:20} {seconds:6.1f} s of CPU, {len(files)} files, {size / 1e6:.1f} MB{said}, peak memory {peak:.0f} MB"
    )
    return written


def command(workspace: Workspace, name: str) -> None:
    """Measure `rag-eval report` as a process."""
    process(name, "rag_eval_pipeline.cli", "report", "--workspace", str(workspace.root))


# A process begins with the peak of the one that started it, unlike its own address space: it prints that one's itself.
MEASURED = """import atexit, re, runpy, sys
from pathlib import Path
peak = lambda: re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
atexit.register(lambda: print(peak(), file=sys.stderr))
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)"""


def process(name: str, module: str, *words: str, environment: Mapping[str, str] | None = None) -> None:
    """Print the seconds, processor seconds and peak memory of a Python module that is run as a process."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, module, *words], cwd=REPOSITORY, check=True, capture_output=True, text=True,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = int(done.stderr.split()[-1]) / 1024
    print(f"{name:20} {cpu:6.2f} s of CPU, {seconds:.2f} s, peak memory {peak:.0f} MB")


def pictures(root: Path, benchmark: str) -> None:
    shutil.copytree(REPOSITORY / "data" / "sources" / benchmark, root / "data" / "sources" / benchmark)
    shutil.copytree(REPOSITORY / "data" / "config", root / "data" / "config")
    workspace = Workspace(root)
    convert(workspace, benchmark)
    evaluate(workspace, load_pair(workspace, benchmark, "embedded"))
    morning = read_report_data(workspace)
    run = read_run(workspace, morning.newest[0], DatasetCache(morning))
    queries = run.dataset.queries
    spans = [stated_spans(run.answers[query_id], queries[query_id]) for query_id in queries]
    folder = root / "drawn"
    for name in ("drawn", "drawn again"):
        drawing = PageImages(
            folder, workspace.benchmark(benchmark).corpus, run.dataset.texts, files_max=10**6, bytes_max=10**12
        )
        seconds, pages = [], 0
        for own in spans:
            began = time.perf_counter()
            pages += len(drawing.of(own))
            seconds.append(time.perf_counter() - began)
        kept = [path.stat().st_size for path in (folder / FOLDER).iterdir()]
        print(f"{name:20} {sum(seconds):6.1f} s, {len(spans)} questions show {pages} pages, {len(kept)} files")
        print(
            f"{'':20} {1000 * sum(seconds) / pages:6.0f} ms a page, {1000 * statistics.median(seconds):.0f} a question"
        )
        print(f"{'':20} {sum(kept) / len(kept) / 1e3:6.0f} kB a file, {sum(kept) / 1e6:.2f} MB together")
    found = write_comparisons(workspace)
    measured(workspace, "with pictures", lambda: write_site(workspace, found).written)
    measured(workspace, "the same, pictured", lambda: write_site(workspace, found).written)


def wide(root: Path, questions: int) -> None:
    from playwright.sync_api import sync_playwright

    workspace = Workspace(root)
    register(workspace, ["wide"], ["asked"])
    for night in range(2):
        publish_night(workspace, "wide", "asked", night, questions=questions, skill=0.6, number=1, with_responses=False)
    command(workspace, f"{questions:,} questions")
    command(workspace, "again")
    arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=arguments)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        for _ in range(3):
            page.goto((workspace.reports / "index.html").as_uri())
            print(f"{'first page':20} {page.evaluate(LOADED):6.0f} ms")
        began = time.perf_counter()
        page.goto((workspace.reports / "runs/eval_run_20261002_001/index.html").as_uri())
        page.get_by_role("status").wait_for()
        print(f"{'table opens':20} {1000 * (time.perf_counter() - began):6.0f} ms")
        for name, act in ACTS.items():
            print(f"{name:20} {page.evaluate(TIMED.replace('ACT', act)):6.0f} ms")
        browser.close()


LOADED = """() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() =>
  resolve(performance.now()))))"""
ACTS = {
    "first search": "box.value = 'stood 1887'; box.dispatchEvent(new Event('input'))",
    "further search": "box.value = 'stood 188'; box.dispatchEvent(new Event('input'))",
    "filter": "box.value = ''; select.selectedIndex = 2; select.dispatchEvent(new Event('change'))",
    "sort by a text": "document.querySelectorAll('.rows th button')[2].click()",
    "sort by a number": "document.querySelectorAll('.rows th button')[4].click()",
    "scroll to the end": "rows.scrollTop = rows.scrollHeight",
}
TIMED = """() => new Promise((resolve) => {
  const found = ["input[type=search]", ".controls select", ".rows"].map((one) => document.querySelector(one));
  const [box, select, rows] = found;
  const began = performance.now();
  ACT;
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - began)));
})"""


if __name__ == "__main__":
    main()
