"""Options, exit codes, results on standard output, errors and progress on standard error: shared by all commands."""

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar

import typer
from typer.core import TyperCommand

from rag_eval_pipeline.errors import InputError, ServiceError, os_fault, printable
from rag_eval_pipeline.workspace import WORKSPACE_VARIABLE, Workspace, default_root, is_workspace, nearest_root

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

Root = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        metavar="DIR",
        help="Folder that holds data/sources; by default the nearest one, from the current folder upwards.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit 1 if rows were quarantined or questions failed.")]


def _named(metavar: str, list_names: Callable[[Workspace], Iterable[str]]) -> dict[str, Any]:
    """Return how an option or argument is called in help, and completed with the names in the workspace, if any."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        try:
            workspace = find_workspace_if_any(context.params.get("workspace"))
        except InputError:
            return []
        return [name for name in list_names(workspace) if name.startswith(incomplete)] if workspace else []

    return {"metavar": metavar, "autocompletion": complete}


BENCHMARK = _named("BENCHMARK", Workspace.benchmarks)
SYSTEM = _named("SYSTEM", Workspace.systems)
EVALUATION = _named("ID", lambda workspace: sorted(path.parent.name for path in workspace.runs.glob("*/*.json")))
EVALUATIONS = EVALUATION | {"metavar": "[EVALUATION]..."}
SYSTEM_HELP = "A system: name of a file in data/config/systems."

Names = Annotated[
    list[str],
    typer.Argument(**BENCHMARK | {"metavar": "BENCHMARK..."}, help="Benchmarks: names of folders in data/sources."),
]
BenchmarkName = Annotated[str, typer.Argument(**BENCHMARK, help="A benchmark: name of a folder in data/sources.")]
ONLY_SYSTEM_HELP = f"{SYSTEM_HELP} By default the only one, or the only one that is not built in."
SystemName = Annotated[str | None, typer.Argument(**SYSTEM | {"metavar": "[SYSTEM]"}, help=ONLY_SYSTEM_HELP)]
# What texts of data could do to a terminal; the first group is what `painted` writes.
_CONTROL = re.compile(r"(\x1b\[(?:0|1|3[0-7])m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
STRICT, BAD_INPUT, REGRESSION, UNAVAILABLE, INTERNAL, INTERRUPTED = 1, 2, 3, 4, 70, 130
EXIT_CODES = {
    0: "done",
    STRICT: "done, but --strict found faulty rows, questions, answers or files",
    BAD_INPUT: "bad use or bad input",
    REGRESSION: "compare, gate or a canary found a regression",
    UNAVAILABLE: "a server, judge, page or browser could not be used",
    INTERNAL: "internal error",
    INTERRUPTED: "interrupted with Ctrl-C; convert and evaluate go on where they were",
}


def only_system(workspace: Workspace, *benchmarks: str) -> str:
    """Return the only system that takes the benchmarks, or the only one of them that is not built in.

    Raises:
        InputError: `missing_system`.
    """
    from rag_eval_pipeline.systems.config import read_system_file

    files = {name: read_system_file(workspace.system_file(name)) for name in workspace.systems()}
    systems = [name for name, file in files.items() if all(map(file.takes, benchmarks))]
    own = [name for name in systems if files[name].kind != "embedded"]
    for found in (systems, own):
        if len(found) == 1:
            return found[0]
    hint = "Make one: rag-eval system init NAME --url URL" if not systems else "Choose one of these."
    raise InputError("missing_system", "SYSTEM", "a system", found=", ".join(systems) or "none", hint=hint)


def find_workspace(given: Path | None) -> Workspace:
    """Return the workspace given, or the nearest folder upwards that holds data/sources."""
    workspace = find_workspace_if_any(given)
    if workspace is None:
        expected = "a folder that holds data/sources here or above"
        hint = "Name one: --workspace DIR, or make one: rag-eval new DIR"
        raise InputError("no_workspace", Path.cwd(), expected, hint=hint)
    return workspace


def find_workspace_if_any(given: Path | None) -> Workspace | None:
    """Return the workspace; None if none is named and none is found upwards."""
    if given is None and os.environ.get(WORKSPACE_VARIABLE):
        given = Path(default_root())
    if given is not None and not is_workspace(given):
        hint = f"To make one: rag-eval new {given}"
        raise InputError("no_workspace", given, "a folder that holds data/sources", hint=hint)
    root = given or nearest_root(Path.cwd())
    return None if root is None else Workspace(root.resolve())


def for_each(
    names: list[str],
    work: Callable[[str], dict[str, Any]],
    line: Callable[[dict[str, Any]], str],
    as_json: bool,
) -> list[dict[str, Any]]:
    """Run the work for each name and return what it returns; an error of one name is printed, and the others still run.

    Raises:
        typer.Exit: There was an error.
    """
    done: list[dict[str, Any]] = []
    code = 0
    for name in names:
        try:
            done.append(work(name))
        except (InputError, ServiceError, OSError) as error:
            code = max(code, print_error(error))
        else:
            if not as_json:
                emit(None, False, [line(done[-1])])
    if as_json:
        emit(done, as_json, ())
    if code:
        raise typer.Exit(code)
    return done


def instance_folder(workspace: Workspace) -> Path | None:
    """Return the folder of a workspace's Dagster instance: DAGSTER_HOME if that works on it, else `.dagster`."""
    home = os.environ.get("DAGSTER_HOME")
    named = [Path(home)] if home and Path(default_root()).resolve() == workspace.root else []
    return next((folder for folder in (*named, workspace.root / ".dagster") if folder.is_dir()), None)


def print_error(error: InputError | ServiceError | OSError) -> int:
    """Print an error as one line and return its exit code."""
    if isinstance(error, OSError):
        error = os_fault(error)
    print(f"rag-eval: {error}", file=sys.stderr, flush=True)
    return BAD_INPUT if isinstance(error, InputError) else UNAVAILABLE


NOTHING_PUBLISHED = "no published evaluations found"


def print_notes(notes: Iterable[str]) -> None:
    """Print notes on standard error."""
    results().flush()  # where both streams go to one file, they stay in order
    for note in notes:
        print(f"rag-eval: {printable(note)}", file=sys.stderr)


def print_next(as_json: bool, *commands: str) -> None:
    """Print what to type next on standard error, for people: never beside JSON."""
    if not as_json and _prints_next:
        results().flush()
        for command in commands:
            print(f"Next: {painted(command, 'bold', sys.stderr)}", file=sys.stderr)


_prints_next = True


@contextmanager
def without_next() -> "Iterator[None]":
    """Leave out what to type next: the caller goes on by itself."""
    global _prints_next
    _prints_next = False
    try:
        yield
    finally:
        _prints_next = True


def painted(text: str, style: str | None, stream: TextIO | None = None) -> str:
    """Return a text in bold or a colour on a terminal without NO_COLOR; else as it is."""
    stream = stream or results()
    if not text or style is None or os.environ.get("NO_COLOR") or not stream.isatty():
        return text
    return typer.style(text, bold=True) if style == "bold" else typer.style(text, fg=style)


def metrics_line(
    means: Mapping[str, float | None],
    partial: Mapping[str, tuple[int, int]] | None = None,
    *,
    level: str = "document",
    in_flight: int | None = None,
) -> str:
    """Return the labels and values of the metrics that are known, on one line.

    Args:
        partial: Of a mean that not all questions have, how many have it, of how many.
        level: Of the retrieval metrics, whose labels say it if it is `page`.
        in_flight: Questions asked at once, on which latencies depend.
    """
    from rag_eval_pipeline.metrics.registry import PAGE_PREFIX, find_metric_info, metric_label, scored_share

    parts = []
    for name, value in means.items():
        if value is not None:
            number = f"{value:,.0f} ms" if name.endswith("_ms") else f"{value:.3f}"
            info = find_metric_info(name)
            is_by_page = level == "page" and info is not None and "page" in info.levels
            label = metric_label(f"{PAGE_PREFIX}{name}" if is_by_page else name)
            share = scored_share(*partial[name]) if partial and name in partial else ""
            at_once = f" ({in_flight} in flight)" if in_flight and name.endswith("_ms") else ""
            parts.append(f"{label} {number}{share}{at_once}")
    return ", ".join(parts)


def emit(value: Any, as_json: bool, lines: Iterable[str]) -> None:
    """Print a value as JSON, or the equivalent lines."""
    texts = [json.dumps(value, indent=2, ensure_ascii=False)] if as_json else lines
    if results().isatty():
        texts = (_CONTROL.sub(lambda found: found[1] or printable(found[0]), text) for text in texts)
    for text in texts:
        print(text, file=results(), flush=True)  # before what goes to standard error next


def results() -> TextIO:
    """Return the stream for results: the real standard output, which nothing else writes to while a command runs."""
    return _results or sys.stdout


def keep_stdout_for_results(command: Callable[..., T]) -> Callable[..., T]:
    """Wrap a command so that only its results reach standard output.

    Whatever a system under test, a metric, a C library or a child process prints goes to standard error.
    """

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> T:
        global _results
        if _results is not None:  # a command that another one runs
            return command(*args, **kwargs)
        outside, stdout = _results, sys.stdout
        try:
            with _stdout_moved_away() as _results:
                sys.stdout = sys.stderr
                return command(*args, **kwargs)
        except BrokenPipeError:  # `rag-eval plan x | head` is no error
            raise typer.Exit(0) from None
        finally:
            _results, sys.stdout = outside, stdout

    return run


_results: TextIO | None = None


@contextmanager
def _stdout_moved_away() -> "Iterator[TextIO]":
    """Yield a stream to the current standard output; meanwhile, descriptor 1 leads to standard error."""
    import ctypes

    stdout = sys.stdout
    try:
        descriptor, errors = stdout.fileno(), sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # closed, or a stream in memory as tests and notebooks have it
        yield stdout
        return
    stdout.flush()
    kept = os.dup(descriptor)
    try:
        os.dup2(errors, descriptor)
        with open(os.dup(kept), "w", encoding=stdout.encoding, errors=stdout.errors) as stream:
            yield stream
    finally:
        # A C library writes what it has buffered when the process ends, and that must not be behind the result.
        ctypes.CDLL(None).fflush(None)
        os.dup2(kept, descriptor)
        os.close(kept)


@contextmanager
def progress_bars(label: str = "") -> "Iterator[Callable[[str], Callable[[int, int], None]]]":
    """Yield a function that begins a phase of the work: one bar on standard error, for the present phase only.

    A phase without numbers, and what follows after all of its items are done, moves without a count. There are no bars
    without a terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    count = TextColumn("{task.fields[count]}")
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:

        def show(description: str, total: int | None, count: str) -> TaskID:
            for earlier in list(bars.task_ids):
                bars.remove_task(earlier)
            return bars.add_task(description, total=total, count=count)

        def begin(phase: str) -> Callable[[int, int], None]:
            description = " ".join(filter(None, (label, phase)))
            task = show(description, None, "")

            def update(done: int, total: int) -> None:
                nonlocal task
                count = f"{done:,} of {total:,}"
                if done >= total:  # what follows, such as writing a file, has no numbers
                    task = show(description, None, count)
                else:
                    bars.update(task, completed=done, total=total, count=count)

            return update

        yield begin


class Command(TyperCommand):
    """A command whose help does not show `<bool>` beside its flags."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for param in self.params:
            if getattr(param, "is_flag", False):
                param.metavar = ""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the help with each example on a line of its own."""
        text = self.help
        self.help = (text or "").replace("\n\nExample: ", "\n\n\b\nExample: ")
        super().format_help_text(ctx, formatter)
        self.help = text
