"""What a page, a text and a question cost, and what 10 million pages and 100 million questions would: docs/scale.md.

    python bench/scale_figures.py            # measure, print the costs and the tables (some minutes)
    python bench/scale_figures.py --keep     # the same, kept in bench/scale_costs.json and on the page
    python bench/scale_figures.py --tables   # write the page's tables from the costs that are kept

A cost is the difference of two sizes divided by the difference in number, so that starting Python and a browser is left
out. CPU is user and system time of a command with all its child processes, browsers included. Pages are those of
bench/article_site.py, fetched behind the guard and printed; texts have 2,000 characters; questions are asked of the
mock server, which answers at once with a short text. Events are those of one run of Dagster on SQLite.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "bench")]  # the mock server belongs to the examples

from scale_simulation import report  # noqa: E402

COSTS = REPOSITORY / "bench" / "scale_costs.json"
PAGE = REPOSITORY / "docs" / "scale.md"
BEGIN, NIGHTS = "<!-- bench/scale_figures.py -->\n", "<!-- bench/scale_simulation.py -->\n"
END = "<!-- end -->\n"

PAGES, TEXTS, ROWS, QUESTIONS = (20, 80), (500, 2_000), (5_000, 30_000), (1_000, 6_000)
PARTITIONS = 5_000
PAGE_NUMBERS, QUESTION_NUMBERS = (100_000, 1_000_000, 10_000_000), (1_000_000, 100_000_000)

# Settings and limits that the tables count with; `tests/test_docs.py` compares them with the code and dagster.yaml.
RUN_LIMIT_S = 21_600
SHARD_DOCUMENTS = 2_000
BENCHMARK_QUESTIONS = 400_000
REQUEST_S = 0.3  # the daemon makes one run: 1,200 took six minutes
# Assumptions: a service that takes 2 s for an answer, 64 questions at once, and what it and a judge read and write.
LATENCY_S, IN_FLIGHT = 2.0, 64
TOKENS = {"the system": (3_000, 200), "a judge": (6_000, 400)}  # a question: read and written
PRICES = {"small model": (0.15, 0.60), "large model": (2.50, 10.00)}  # USD a million tokens, in and out


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--keep", action="store_true")
    arguments.add_argument("--tables", action="store_true")
    given = arguments.parse_args()
    costs = json.loads(COSTS.read_text()) if given.tables else measure()
    if given.keep:
        COSTS.write_text(json.dumps(costs, indent=2) + "\n")
    if given.keep or given.tables:
        text = PAGE.read_text()
        for begin, made in ((BEGIN, tables(costs)), (NIGHTS, f"```text\n{report(10_000, 1)}\n```\n")):
            before, _, rest = text.partition(begin)
            text = before + begin + made + END + rest.partition(END)[2]
        PAGE.write_text(text)
    else:
        print(json.dumps(costs, indent=2), tables(costs), sep="\n\n")


def measure() -> dict[str, Any]:
    """Measure each cost; the browser leaves processes behind, whose time counts as well."""
    from rendering import adopt_orphans, article_site

    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="bench-scale-", dir="/var/tmp") as name:
        root = Path(name)
        root.chmod(0o711)  # the browser is another user when this one is root
        costs: dict[str, Any] = {
            "measured": datetime.now(UTC).strftime("%Y-%m-%d"),
            "machine": f"{os.cpu_count()} cores of {_processor()}, Python {platform.python_version()}, "
            f"load average {os.getloadavg()[0]:.0f}",
        }
        with article_site(PAGES[1]) as (site, server):
            costs |= _documents(root, "page", PAGES, lambda folder, n: write_pages(folder, n, site), server)
        costs |= _documents(root, "text", TEXTS, write_texts)
        costs |= _questions(root)
        costs |= _dagster(root)
    return costs


def _documents(
    root: Path, what: str, sizes: tuple[int, int], write: Callable[[Path, int], None], keep: int = -1
) -> dict[str, Any]:
    found = []
    for number in sizes:
        workspace = new_workspace(root / f"{what}-{number}")
        write(workspace / "data" / "sources" / "bench", number)
        cpu_s = command(workspace, "convert", "bench", keep=keep)
        warm_s = command(workspace, "convert", "bench", keep=keep)
        found.append((cpu_s, warm_s, size(workspace / "corpus"), size(workspace / "data" / "datasets")))
    cpu, warm_cpu, pdf, kept = (round_(b - a, sizes[1] - sizes[0]) for a, b in zip(*found, strict=True))
    return {f"{what}_cpu_s": cpu, f"{what}_warm_cpu_s": warm_cpu, f"{what}_pdf_bytes": pdf, f"{what}_kept_bytes": kept}


def _questions(root: Path) -> dict[str, Any]:
    from examples.mock_rag_server import mock_rag_server

    found = []
    for number in ROWS:
        workspace = new_workspace(root / f"rows-{number}")
        write_questions(workspace / "data" / "sources" / "bench", number)
        cpu_s = command(workspace, "convert", "bench")
        found.append((cpu_s, size(workspace / "data" / "datasets", workspace / "data" / "evaluation")))
    cpu, kept = (round_(b - a, ROWS[1] - ROWS[0]) for a, b in zip(*found, strict=True))
    costs = {"row_cpu_s": cpu, "row_bytes": kept}
    found = []
    with mock_rag_server(canned=True) as server:
        for number in QUESTIONS:
            workspace = new_workspace(root / f"questions-{number}")
            write_questions(workspace / "data" / "sources" / "bench", number)
            systems = workspace / "data" / "config" / "systems"
            systems.mkdir(parents=True, exist_ok=True)
            endpoint = f"{{base_url: '{server.openai}'}}"
            (systems / "mock.config.yaml").write_text(
                f"kind: openai\nsettings:\n  chat: {{model: mock}}\n  stream: false\n  endpoint: {endpoint}\n"
            )
            command(workspace, "convert", "bench")
            before = size(workspace / "data" / "evaluation")
            cpu_s = command(workspace, "evaluate", "bench", "--system", "mock")
            results = size(*(workspace / "data" / "evaluation").rglob("*.results.json"))
            found.append((cpu_s, results, size(workspace / "data" / "evaluation") - before))
    names = ("question_cpu_s", "question_results_bytes", "question_bytes")
    steps = (round_(b - a, QUESTIONS[1] - QUESTIONS[0]) for a, b in zip(*found, strict=True))
    return costs | dict(zip(names, steps, strict=True))


def _dagster(root: Path) -> dict[str, Any]:
    """What a run costs beside its work: loading Dagster and an evaluation of 50 questions, events, partitions."""
    workspace = new_workspace(root / "dagster")
    write_questions(workspace / "data" / "sources" / "bench", 50)
    systems = workspace / "data" / "config" / "systems"
    systems.mkdir()
    (systems / "words.config.yaml").write_text("kind: embedded\n")
    command(workspace, "convert", "bench")
    started = time.process_time()
    from dagster._serdes import serialize_value

    from rag_eval_pipeline.demo import Runner
    from rag_eval_pipeline.workspace import Workspace

    costs = {}
    with Runner(Workspace(workspace)) as runner:
        evaluated = runner.run("evaluate", "bench|words")
        costs["evaluate_start_s"] = round_(time.process_time() - started, 1)
        for job, done in (("evaluate", evaluated), ("convert", runner.run("convert", "bench"))):
            events = runner.instance.all_logs(done.run_id)
            costs[f"{job}_events"] = len(events)
            costs[f"{job}_event_bytes"] = sum(len(serialize_value(event)) for event in events)
        started = time.process_time()
        runner.instance.add_dynamic_partitions("many", [f"benchmark-{number}" for number in range(PARTITIONS)])
        costs["partition_cpu_s"] = round_(time.process_time() - started, PARTITIONS)
    return costs


def new_workspace(root: Path) -> Path:
    """Return a workspace that may fetch from this machine."""
    (root / "data" / "sources" / "bench").mkdir(parents=True)
    (root / "data" / "config").mkdir()
    (root / "corpus").mkdir()
    return root


def write_pages(folder: Path, number: int, site: str) -> None:
    from article_site import paths

    rows = [{"url": f"{site}{path}"} for path in paths(number)]
    _write_benchmark(folder, "SELECT url FROM docs", rows, 1, rows[0]["url"])
    host = site.removeprefix("http://")
    (folder.parents[1] / "config" / "egress.config.yaml").write_text(
        f"allowed_hosts: ['{host}']\nallow_no_sandbox: true\n"
    )


def write_texts(folder: Path, number: int) -> None:
    draw, words = random.Random(1), ["railway", "bridge", "Übergang", "naïve", "station", "1904", "tunnel", "was built"]
    rows = [{"name": f"text-{at}", "text": " ".join(draw.choices(words, k=330))[:2_000]} for at in range(number)]
    _write_benchmark(folder, "SELECT name, text FROM docs", rows, 1, "text-0")


def write_questions(folder: Path, number: int) -> None:
    rows = [{"name": "numbers", "text": "Numbers are counted from 0."}]
    _write_benchmark(folder, "SELECT name, text FROM docs", rows, number, "numbers")


def _write_benchmark(folder: Path, documents: str, rows: list[dict[str, str]], questions: int, gold: str) -> None:
    key = "url" if gold.startswith("http") else "document"
    (folder / "benchmark.yaml").write_text(
        "unnamed_urls: fetch\nname: bench\nversion: 1.0.0\nsource: questions.jsonl\ntables: {docs: docs.jsonl}\n"
        "questions: {question: question, answer: answer, contexts: contexts}\n"
        f"documents: {documents}\n"
    )
    lines = (
        {"question": f"What is the number {at}?", "answer": str(at), "contexts": [{key: gold}]}
        for at in range(questions)
    )
    for name, made in (("questions", lines), ("docs", iter(rows))):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))


def command(workspace: Path, *words: str, keep: int = 0) -> float:
    """Run `rag-eval` in a workspace and return its CPU seconds; `keep` is a child of this process that stays."""
    from rendering import children_cpu, reap_orphans

    started, cpu = time.perf_counter(), children_cpu()
    program = [str(Path(sys.executable).with_name("rag-eval")), *words, "--workspace", str(workspace)]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    process.wait()
    seconds = time.perf_counter() - started
    if keep:
        reap_orphans(but=keep)
    print(f"{seconds:6.0f} s: {' '.join(words)} in {workspace.name}", file=sys.stderr, flush=True)
    if process.returncode != 0:
        raise SystemExit(f"rag-eval {' '.join(words)} ended with {process.returncode}:\n{said}")
    return children_cpu() - cpu


def size(*paths: Path) -> int:
    files = (file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]))
    return sum(file.stat().st_size for file in files if file.is_file())


def round_(value: float, number: int) -> float:
    return float(f"{value / number:.2g}")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))


def tables(costs: dict[str, Any]) -> str:
    """Return the page's tables as Markdown."""
    parts = [
        (f"### Costs\nMeasured on {costs['measured']}: {costs['machine']}.", _unit_costs(costs)),
        ("### Pages", _pages(costs)),
        ("### Questions", _many_questions(costs)),
        ("### What is reached first", _limits(costs)),
    ]
    return "\n" + "".join(f"{title}\n\n{_markdown(rows)}\n" for title, rows in parts)


def _unit_costs(costs: dict[str, Any]) -> list[Sequence[str]]:
    ms = {name: f"{_two(1000 * value)} ms" for name, value in costs.items() if name.endswith("_cpu_s")}
    size_of = {name: _bytes(value) for name, value in costs.items() if name.endswith("_bytes")}
    return [
        ("", "processor", "on disk", ""),
        ("a web page, fetched and printed", ms["page_cpu_s"], size_of["page_pdf_bytes"], "its PDF"),
        ("", "", size_of["page_kept_bytes"], "its text and its rows"),
        ("a text of 2,000 characters, printed", ms["text_cpu_s"], size_of["text_pdf_bytes"], "its PDF"),
        ("a document that has not changed", ms["text_warm_cpu_s"], "", ""),
        ("a question, converted", ms["row_cpu_s"], size_of["row_bytes"], "in all datasets"),
        ("a question, asked, scored, published", ms["question_cpu_s"], size_of["question_bytes"], "an evaluation"),
        ("", "", size_of["question_results_bytes"], "of it `.results.json`"),
        ("a run of Dagster, beside its work", f"{costs['evaluate_start_s']:.1f} s", "", ""),
        ("events of an evaluation", "", size_of["evaluate_event_bytes"], f"{costs['evaluate_events']} events"),
        ("events of a conversion", "", size_of["convert_event_bytes"], f"{costs['convert_events']} events"),
    ]


def _pages(costs: dict[str, Any]) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = [
        ("", *(f"{n:,} documents" for n in PAGE_NUMBERS)),
        *(
            (f"print web pages, {cores} cores", *(_hours(n * costs["page_cpu_s"] / cores) for n in PAGE_NUMBERS))
            for cores in (2, 16, 128)
        ),
        ("print texts, 16 cores", *(_hours(n * costs["text_cpu_s"] / 16) for n in PAGE_NUMBERS)),
        ("PDFs of web pages", *(_bytes(n * costs["page_pdf_bytes"]) for n in PAGE_NUMBERS)),
        ("texts and lists", *(_bytes(n * costs["page_kept_bytes"]) for n in PAGE_NUMBERS)),
        ("a conversion that changes nothing", *(_hours(n * costs["text_warm_cpu_s"]) for n in PAGE_NUMBERS)),
        (f"shards of {SHARD_DOCUMENTS:,}", *(f"{-(-n // SHARD_DOCUMENTS):,}" for n in PAGE_NUMBERS)),
        (
            "Dagster's events of these runs",
            *(_bytes(-(-n // SHARD_DOCUMENTS) * costs["convert_event_bytes"]) for n in PAGE_NUMBERS),
        ),
    ]
    return rows


def _many_questions(costs: dict[str, Any]) -> list[Sequence[str]]:
    def each(text: str, value: Callable[[int], str]) -> Sequence[str]:
        return (text, *(value(n) for n in QUESTION_NUMBERS))

    rate = IN_FLIGHT / LATENCY_S
    rows = [
        each("", lambda n: f"{n:,} questions"),
        each(f"benchmarks of {BENCHMARK_QUESTIONS:,}", lambda n: f"{-(-n // BENCHMARK_QUESTIONS):,}"),
    ]
    for runs in (1, 10, 100):
        text = f"ask, {runs} {'run' if runs == 1 else 'runs'} at once ({runs * rate:,.0f} answers a second)"
        rows.append(each(text, lambda n, at_once=runs * rate: _hours(n / at_once)))  # type: ignore[misc]
    rows += [
        each("our processor time", lambda n: _hours(n * costs["question_cpu_s"])),
        each("kept on disk, an evaluation", lambda n: _bytes(n * costs["question_bytes"])),
        each("kept on disk, 30 nights", lambda n: _bytes(30 * n * costs["question_bytes"])),
    ]
    for who, tokens in TOKENS.items():
        for model, prices in PRICES.items():
            usd = sum(count * price for count, price in zip(tokens, prices, strict=True)) / 1e6
            rows.append(each(f"tokens of {who}, {model}", lambda n, each_=usd: f"{n * each_:,.0f} USD"))  # type: ignore[misc]
    return rows


def _limits(costs: dict[str, Any]) -> list[Sequence[str]]:
    minutes = _hours(SHARD_DOCUMENTS * costs["page_cpu_s"] / 2)
    shard = f"a shard of {SHARD_DOCUMENTS:,} web pages takes {minutes} on two cores"
    pages = f"without shards, {round(RUN_LIMIT_S * 2 / costs['page_cpu_s'], -3):,.0f} web pages on two cores"
    latency_s = RUN_LIMIT_S * IN_FLIGHT / BENCHMARK_QUESTIONS
    slow = f"{BENCHMARK_QUESTIONS:,} questions at more than {latency_s:.1f} s an answer, {IN_FLIGHT} at once"
    results = _bytes(BENCHMARK_QUESTIONS * costs["question_results_bytes"])
    night = 10_000
    events = night * costs["evaluate_event_bytes"]
    requests = f"{night:,} pairs: the last is in the queue after {_hours(night * REQUEST_S)}"
    return [
        ("limit", "setting", "reached at"),
        ("time of a run", f"`max_runtime_seconds: {RUN_LIMIT_S}`", shard),
        ("", "", pages),
        ("", "", slow),
        ("questions of a benchmark", "refused when planned", f"{BENCHMARK_QUESTIONS:,}"),
        ("", "", f"their `.results.json` has {results}"),
        ("runs at once", "`max_concurrent_runs`", "the number of workers; more only wait"),
        ("one run a system", "`tag_concurrency_limits`", "workers beyond the number of systems are idle at night"),
        ("requests of a night", "none; some 3 a second", requests),
        ("events in the database", "`retention.config.yaml`", f"{night:,} pairs a night: {_bytes(events)}"),
        ("partitions of an asset", "Dagster advises 100,000", "10,000 benchmarks with 10 systems"),
    ]


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def _hours(seconds: float) -> str:
    for size_, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size_:
            return f"{_two(seconds / size_)} {unit}"
    return f"{_two(seconds)} s"


def _bytes(number: float) -> str:
    for size_, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= size_:
            return f"{_two(number / size_)} {unit}"
    return f"{number:.0f} B"


def _two(number: float) -> str:
    """Two significant digits: more would promise too much."""
    return f"{float(f'{number:.2g}'):,.10g}"


if __name__ == "__main__":
    main()
