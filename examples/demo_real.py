"""`make demo-real`: nights of a real small model on this machine; half of its index is lost, then its prompt changes.

`examples/real/service.py` is the system: it is started anew each night and asked over HTTP. The demo has a workspace of
its own, `.demo-real/`. Eleven runs of 63 questions take about half an hour on two cores; `make demo` is the quick one.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from rich.markup import escape

from examples.demo_nights import DEMO, FIRST_NIGHT, Bars, Runner, console, play_night
from rag_eval_pipeline.clock import NOW_VARIABLE
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.workspace import PROJECT, SYSTEM_SUFFIX, Workspace

BENCHMARK, SYSTEM = "harbour-handbook", "minilm-gemma"
PYTHON = PROJECT / ".venv-real" / "bin" / "python"
EVERY = 4  # of so many questions one is asked
LOST = ("berths", "environment", "goods", "pilotage")  # sections: 25 of 46 documents
SETTINGS = """# MiniLM finds passages, Gemma 3 270M answers from them: examples/real/service.py.
kind: http
nightly: true
settings:
  endpoint: {{base_url: "{url}", in_flight: 2}}
  path: /ask
  body: {{question: "{{question}}"}}
  answer: answer
  contexts: {{path: "sources[]", document: file, page: page, text: text, score: score}}
  model: model
  prompt_tokens: usage.prompt_tokens
  completion_tokens: usage.completion_tokens
  empty_answer: abstained
"""


class Planned(NamedTuple):
    """A night, and the options that its service is started with."""

    what: str
    options: tuple[str, ...] = ()


QUIET = Planned("unchanged")
LOST_INDEX = Planned("half of the index lost", ("--without", *LOST))
NEW_PROMPT = Planned("no examples in the prompt", ("--no-examples",))
PLAN = (*[QUIET] * 7, LOST_INDEX, QUIET, NEW_PROMPT)


def main() -> int:
    """Play the nights and print the verdict on each."""
    os.environ.pop(NOW_VARIABLE, None)
    workspace = prepare(Workspace(PROJECT / ".demo-real"))
    port = 0
    with Bars() as bars, Runner(workspace) as runner:
        with bars.phase(f"converting {BENCHMARK}"):
            runner.run("convert", BENCHMARK)
        for number, planned in enumerate(PLAN):
            name = f"night {number + 1} of {len(PLAN)}, {planned.what}"
            with bars.phase(name), service(workspace, port, planned.options) as port:
                play_night(runner, FIRST_NIGHT + timedelta(days=number))
        with bars.phase("drawing the report"):
            runner.run("aggregate")
    console.print()
    for line in verdict_lines(workspace):
        console.print(line)
    console.print(f"\nReport: {workspace.reports / 'index.html'}")
    return 0


def prepare(workspace: Workspace) -> Workspace:
    """Return the workspace with the benchmark and without what an earlier demo evaluated."""
    for folder in (workspace.root / "data", workspace.root / ".dagster"):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DEMO / "sources", workspace.sources)
    shutil.copy(DEMO / "config" / "alerts.config.yaml", _folder(workspace.config))
    _folder(workspace.root / "corpus")
    spec = workspace.benchmark(BENCHMARK).source / "benchmark.yaml"
    kept = [line for line in spec.read_text().splitlines() if not line.startswith("expect:")]
    where = f"where: CAST(right(source_id, 3) AS INTEGER) % {EVERY} = 1"
    spec.write_text("\n".join([*kept, where, ""]))
    _write_system(workspace, "http://127.0.0.1:9")
    return workspace


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _write_system(workspace: Workspace, url: str) -> None:
    path = workspace.config / "systems" / f"{SYSTEM}{SYSTEM_SUFFIX}"
    atomic_write(path, SETTINGS.format(url=url).encode())


@contextmanager
def service(workspace: Workspace, port: int, options: tuple[str, ...]) -> Iterator[int]:
    """Run the service over the workspace's PDFs on a port, or on a free one with 0, which it yields."""
    corpus = workspace.benchmark(BENCHMARK).corpus
    command = [str(PYTHON), "-P", "-m", "examples.real.service", str(corpus), f"--port={port}", *options]
    command += ["--model", str(workspace.root / "gemma.gguf")]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    with (workspace.root / "service.log").open("w") as log:
        child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert child.stdout is not None
        url = next((line.split()[1] for line in child.stdout if line.startswith("Serving ")), None)
        if url is None:
            raise ServiceError("service_failed", f"the service ended; what it wrote: {log.name}")
        base = urlsplit(url)
        assert base.port is not None
        if not port:
            _write_system(workspace, f"http://{base.netloc}")
        yield base.port
    finally:
        child.terminate()
        child.communicate()


def verdict_lines(workspace: Workspace) -> Iterator[str]:
    """Yield how steady the system is, then what was planned and what was found on each night with a verdict."""
    from rag_eval_pipeline.metrics.verdict_rules import CHANGES
    from rag_eval_pipeline.monitoring.incidents import change_text, headline_order
    from rag_eval_pipeline.monitoring.night_records import read_nights

    nights = read_nights(workspace, BENCHMARK, SYSTEM)
    assert nights is not None
    yield escape(nights.note)
    for night in nights.nights:
        planned = PLAN[(night.opened_at - FIRST_NIGHT).days]
        found = {name: verdict for name, verdict in night.metrics.items() if verdict.state in CHANGES}
        quiet = "" if found else f": {escape(night.reason or 'no significant change')}"
        yield f"[bold]{night.opened_at:%-d %B}[/], {planned.what}{quiet}"
        for name in headline_order(list(found)):
            yield f"    {escape(change_text(name, found[name]))}"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (InputError, ServiceError) as error:
        sys.exit(f"make demo-real: {error}")
