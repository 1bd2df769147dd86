"""`make demo`: eight recorded nights of three systems through the real Dagster definitions; one system breaks.

The demo has a workspace of its own, `.demo/`, with its own Dagster instance. `RAG_EVAL_NOW` sets the clock of each
night; schedule, sensors, jobs and assets are those of production. A second run with nothing changed only reports.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from rag_eval_pipeline.clock import NOW_VARIABLE
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.scaffold.workspaces import INSTANCE_FILE, instance_settings
from rag_eval_pipeline.storage import arrow
from rag_eval_pipeline.storage.atomic_files import atomic_write, atomic_write_json
from rag_eval_pipeline.workspace import PROJECT, WORKSPACE_VARIABLE, Workspace

if TYPE_CHECKING:
    import dagster as dg

    from rag_eval_pipeline.monitoring.night_records import Nights

DEMO = PROJECT / "examples" / "demo"
FIRST_NIGHT = datetime(2026, 11, 9, 2, tzinfo=UTC)
NIGHTS = 8
NIGHTS_KEPT = 2  # in Dagster's run history: writing it takes as long as everything else a night does
RERUN_AFTER = timedelta(hours=4)
SERVE_VARIABLE = "DEMO_SERVE"  # 0: do not serve the report at the end
PORTS = range(3001, 3021)
# The event log keeps everything; the terminal shows progress bars.
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
console = Console(highlight=False, soft_wrap=True)


class Runner:
    """Executes the jobs of a workspace in this process, on the workspace's own Dagster instance; a context manager.

    Definitions read the workspace from the environment, so it is set before they are imported.

    Attributes:
        keeps_history: Whether runs are recorded on the disk, where `make up` shows them, or only in memory.
        registry: The benchmarks and systems of the workspace.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        home = workspace.root / ".dagster"
        atomic_write(home / INSTANCE_FILE, instance_settings(workspace))
        os.environ |= {WORKSPACE_VARIABLE: str(workspace.root), "DAGSTER_HOME": str(home)}
        import dagster as dg

        from rag_eval_pipeline.definitions import defs
        from rag_eval_pipeline.defs.partitions import add_missing_partitions
        from rag_eval_pipeline.evaluation.expected_pairs import read_registry

        self._defs = defs
        self._stack = ExitStack()
        self._stored = self._stack.enter_context(dg.DagsterInstance.get())
        self._memory = self._stack.enter_context(dg.DagsterInstance.ephemeral())
        self.keeps_history = True
        self.registry = read_registry(workspace)
        for instance in (self._stored, self._memory):
            add_missing_partitions(instance, self.registry.benchmarks, self.registry.systems)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    @property
    def instance(self) -> "dg.DagsterInstance":
        """Where runs are recorded."""
        return self._stored if self.keeps_history else self._memory

    def run(self, job: str, partition: str | None = None, **options: Any) -> "dg.ExecuteInProcessResult":
        """Execute one run.

        Raises:
            ServiceError: `run_failed` with the error of the first step that failed.
        """
        options["run_config"] = {**QUIET, **(options.get("run_config") or {})}
        result = self._defs.resolve_job_def(job).execute_in_process(
            instance=self.instance, partition_key=partition, raise_on_error=False, **options
        )
        if result.success:
            return result
        for event in result.get_step_failure_events():
            cause, error = event.step_failure_data.user_failure_data, event.step_failure_data.error
            while error is not None and error.cause is not None:
                error = error.cause
            text = (cause.description if cause else None) or (error.message if error else "failed")
            raise ServiceError("run_failed", f"{job} {partition or ''}, {event.step_key}: {text.strip()}")
        raise ServiceError("run_failed", f"{job} {partition or ''} failed")

    def request(self, request: "dg.RunRequest") -> None:
        """Execute the evaluation that a schedule or sensor requests."""
        self.run("evaluate", request.partition_key, run_config=request.run_config, tags=request.tags)

    def evaluation_requests(self, now: datetime) -> list["dg.RunRequest"]:
        """Return what the nightly schedule requests at a time."""
        import dagster as dg

        from rag_eval_pipeline.defs.resources import WorkspaceResource
        from rag_eval_pipeline.defs.schedules import nightly

        resources = {"workspace": WorkspaceResource()}
        context = dg.build_schedule_context(self._stored, now, resources=resources)
        found = nightly(context)
        return found if isinstance(found, list) else []

    def rerun_requests(self) -> list["dg.RunRequest"]:
        """Return what the sensor of reruns requests now."""
        import dagster as dg

        from rag_eval_pipeline.defs.resources import WorkspaceResource
        from rag_eval_pipeline.defs.sensors import confirmation_sensor

        found = confirmation_sensor(
            dg.build_sensor_context(self.instance, resources={"workspace": WorkspaceResource()})
        )
        return found if isinstance(found, list) else []


# --- Progress


class Bars:
    """A progress bar for each phase, or a line at the end of each phase without a terminal; a context manager."""

    def __init__(self) -> None:
        columns = TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task: TaskID | None = None
        self._started = 0.0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    @contextmanager
    def phase(self, name: str, total: int | None = None) -> Iterator[Callable[..., None]]:
        """Yield a function that sets `description`, `completed` and `total` of the phase's bar."""
        started = time.monotonic()
        task = self._progress.add_task(name, total=total)
        last = {"description": name}

        def update(**changes: Any) -> None:
            last.update(changes)
            self._progress.update(task, **changes)

        yield update
        if not console.is_terminal:
            console.print(f"{last['description']}: done in {time.monotonic() - started:.0f} s")


# --- The nights


def play_nights(workspace: Workspace, bars: Bars) -> None:
    """Convert the benchmark, evaluate each night and its reruns, and write the report."""
    with bars.phase("loading Dagster", 1) as update:
        runner = Runner(workspace)
        update(completed=1)
    from rag_eval_pipeline.defs.execution import listen_to_progress

    with runner:
        for name in runner.registry.benchmarks:
            with bars.phase(f"converting {name}") as update, listen_to_progress(_converting(name, update)):
                runner.run("convert", name)
        per_night = len(runner.registry.benchmarks) * len(runner.registry.systems)
        with bars.phase("asking", NIGHTS * per_night) as update:
            for night in range(NIGHTS):
                runner.keeps_history = night >= NIGHTS - NIGHTS_KEPT

                def asking(again: str, done: int, night: int = night) -> None:
                    text = f"asking{again}, night {night + 1} of {NIGHTS}"
                    update(description=text, completed=night * per_night + done)

                play_night(runner, FIRST_NIGHT + timedelta(days=night), asking)
        with bars.phase("drawing the report", 1) as update:
            runner.run("aggregate")
            update(completed=1)


def _converting(name: str, update: Callable[..., None]) -> Callable[[str, int, int], None]:
    def show(subject: str, done: int, total: int) -> None:
        step = subject.partition(" of ")[0]
        if step == "corpus":
            update(description=f"converting {name}", completed=done, total=total)

    return show


def play_night(runner: Runner, now: datetime, asking: Callable[[str, int], None] = lambda again, done: None) -> None:
    """Evaluate what the schedule requests at a time, and four hours later what the sensor of reruns requests.

    Args:
        asking: Called before and after evaluations with "" or " again", and how many of the night's have ended.
    """
    import dagster as dg

    def compare() -> None:  # and alert; the report is drawn once, at the end
        runner.run("aggregate", asset_selection=[dg.AssetKey("leaderboard"), dg.AssetKey("regressions")])

    os.environ[NOW_VARIABLE] = now.isoformat()
    requests = runner.evaluation_requests(now)
    for number, request in enumerate(requests):
        asking("", number)
        runner.request(request)
    compare()
    os.environ[NOW_VARIABLE] = (now + RERUN_AFTER).isoformat()
    reruns = runner.rerun_requests()
    for request in reruns:
        asking(" again", len(requests))
        runner.request(request)
    if reruns:
        compare()
    asking("", len(requests))


# --- The workspace


def prepare(workspace: Workspace) -> str | None:
    """Copy the demo's files into its workspace; return None if it was played from the same files and the same code.

    What an earlier demo evaluated is removed, and what it converted stays.

    Returns:
        The digest that `finish` stores.
    """
    digest = _digest([Path(__file__).resolve(), *_files(DEMO), *_files(PROJECT / "rag_eval_pipeline")])
    if _played(workspace) == digest:
        return None
    _marker(workspace).unlink(missing_ok=True)
    for folder in (workspace.root / "data" / "evaluation", workspace.reports, workspace.root / ".dagster"):
        shutil.rmtree(folder, ignore_errors=True)
    for part in ("sources", "config", "answers"):
        shutil.rmtree(workspace.root / "data" / part, ignore_errors=True)
        shutil.copytree(DEMO / part, workspace.root / "data" / part)
    (workspace.root / "corpus").mkdir(exist_ok=True)
    return digest


def finish(workspace: Workspace, digest: str) -> None:
    """Store what the demo was played from."""
    atomic_write_json(_marker(workspace), {"digest": digest})


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _digest(paths: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update(f"{path.relative_to(PROJECT)}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _marker(workspace: Workspace) -> Path:
    return workspace.root / "demo.json"


def _played(workspace: Workspace) -> str | None:
    try:
        digest = json.loads(_marker(workspace).read_text())["digest"]
    except (OSError, ValueError, KeyError):
        return None
    return digest if isinstance(digest, str) and (workspace.reports / "index.html").exists() else None


# --- The end


def closing_lines(workspace: Workspace) -> Iterator[str]:
    """Yield the verdicts in rich's markup: what regressed and where it comes from, then the other systems."""
    from rag_eval_pipeline.monitoring.regressions import read_comparisons

    quiet: dict[str, list[str]] = {"improved": [], "unchanged": [], "no significant change": [], "no verdict": []}
    for nights in read_comparisons(workspace).nights:
        last = nights.nights[-1].metrics.values() if nights.nights else ()
        kinds, states = {metric.kind for metric in last}, {metric.state for metric in last}
        if "regressed" in states:
            yield from _regression_lines(workspace, nights)
        elif "improved" in states:
            quiet["improved"].append(nights.system)
        elif not kinds or kinds & {"withheld", "no_verdict"}:
            quiet["no verdict"].append(nights.system)
        else:
            quiet["unchanged" if kinds == {"equivalent"} else "no significant change"].append(nights.system)
    for word, names in quiet.items():
        if names:
            yield f"[dim]·[/] {word}: {escape(', '.join(names))}"


def _regression_lines(workspace: Workspace, nights: "Nights") -> Iterator[str]:
    """Yield the first night of the regression: how much, how sure, where to look, and the worst question."""
    from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
    from rag_eval_pipeline.monitoring.incidents import change_text, incident_of
    from rag_eval_pipeline.site.display_text import shortened

    night = next(one for one in nights.nights if any(metric.state == "regressed" for metric in one.metrics.values()))
    incident = incident_of(
        workspace,
        nights.benchmark,
        nights.system,
        night.metrics,
        evaluation_id=night.evaluation_id,
        rerun=night.rerun,
        baseline=nights.baseline,
    )
    assert incident is not None
    change = change_text(*incident.lead)
    if night.rerun is not None:
        first, again = (load_evaluation(workspace, name).record for name in (night.evaluation_id, night.rerun))
        later = again.opened_at - (first.answered_at or first.opened_at)
        change = f"{change.removesuffix(')')} {later.total_seconds() / 3600:.0f} h later)"
    pair = escape(f"{nights.system} on {nights.benchmark}")
    yield f"[bold red]✗ REGRESSED[/]  [bold]{pair}[/], night of {night.opened_at:%-d %B}: {escape(change)}"
    cause = incident.cause
    if cause is None:
        return
    yield f"             {escape(cause.sentence)}"
    for worst in cause.worst[:1]:
        question, before, after = (
            escape(shortened(text, width))
            for text, width in ((worst.question, 100), (worst.answer_before, 60), (worst.answer_after, 60))
        )
        yield f"             Worst: “{question}” [green]{before}[/] → [red]{after}[/]"


def serve(workspace: Workspace) -> None:
    """Serve the report on the first free port from 3001 on, until Ctrl-C or SIGTERM."""
    from rag_eval_pipeline.serving.report_server import report_server

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    with ExitStack() as stack:
        for port in (*PORTS, 0):
            with suppress(OSError):  # the port is taken
                _print_end(stack.enter_context(report_server(workspace.reports, "127.0.0.1", port)))
                break
        console.print("[dim]Ctrl-C stops the server.[/]")
        while not stop.wait(1.0):  # a wait without a limit would not notice signals
            pass
    console.print("\nStopped.")


def _print_end(address: str) -> None:
    console.print(f"Report:      [bold]{address}[/]  (these nights are recorded; nothing was asked over a network)")
    console.print("Next:        rag-eval new my-rag, and there: rag-eval init NAME --from FILE|FOLDER")


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the nights, print what they show, and serve the report if there is a terminal; 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workspace", type=Path, default=PROJECT / ".demo", help="its folder; default: .demo")
    workspace = Workspace(parser.parse_args(arguments).workspace.resolve())
    os.environ.pop(NOW_VARIABLE, None)
    digest = prepare(workspace)
    if digest is None:
        arrow.is_own_process = True  # else pyarrow imports pandas
        console.print("[dim]Nothing has changed since the last demo.[/]")
    else:
        with Bars() as bars:
            play_nights(workspace, bars)
        finish(workspace, digest)
    console.print()
    for line in closing_lines(workspace):
        console.print(line)
    if console.is_terminal and os.environ.get(SERVE_VARIABLE) != "0":
        serve(workspace)
    else:
        _print_end(str(workspace.reports / "index.html"))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (InputError, ServiceError) as error:
        console.print(f"make demo: {error}", style="red", markup=False)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit("Stopped.")
