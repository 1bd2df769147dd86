"""`rag-eval doctor`: checks of a machine. The browser is started once, behind the egress proxy, and prints one page."""

import functools
import os
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from rag_eval_pipeline import clock
from rag_eval_pipeline.cli.output import (
    UNAVAILABLE,
    AsJson,
    Root,
    emit,
    find_workspace_if_any,
)
from rag_eval_pipeline.errors import DocumentError, InputError, ServiceError, counted, unknown_name_hint
from rag_eval_pipeline.workspace import Workspace, is_workspace

if TYPE_CHECKING:
    from rag_eval_pipeline.corpus.rendering.render import BrowserCheck

FREE_BYTES = 1_000_000_000  # a corpus of a thousand pages and its rendering take about half of it
PACKAGES = "fonts-noto-core, fonts-noto-cjk, fonts-noto-color-emoji"


class Script(NamedTuple):
    """A writing system: the fontconfig pattern of a font for it, and characters to print."""

    pattern: str
    sample: str


SCRIPTS = {
    "Chinese": Script(":lang=zh", "深圳汉字"),
    "Japanese": Script(":lang=ja", "ひらがなカタカナ"),
    "Korean": Script(":lang=ko", "한국어"),
    "Arabic": Script(":lang=ar", "العربية"),
    "Devanagari": Script(":lang=hi", "देवनागरी"),
    "emoji": Script(":charset=1F680", "🚀👩"),
}


class Finding(NamedTuple):
    """The outcome of one check."""

    name: str
    ok: bool
    found: str


class Machine:
    """The machine under check, with one trial run of its browser for all checks."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @functools.cached_property
    def trial(self) -> "BrowserCheck | ServiceError | DocumentError":
        """The outcome of printing a page, or the error."""
        from rag_eval_pipeline.corpus.rendering.render import check_browser

        try:
            return check_browser([script.sample for script in SCRIPTS.values()])
        except (ServiceError, DocumentError) as error:
            return error


def browser(machine: Machine) -> Finding:
    """Chromium and its driver are found, both run, and it can be given the authorities of `ca_file`."""
    from rag_eval_pipeline.corpus.rendering.browser import browser_version, check_driver, find_browser
    from rag_eval_pipeline.web.egress import read_egress_config
    from rag_eval_pipeline.web.tls import missing_certutil

    try:
        found = find_browser()
        version = browser_version(found)
        check_driver()
        ca_file = read_egress_config(machine.workspace.egress_config).ca_file
    except (ServiceError, InputError) as error:
        return Finding("browser", False, str(error))
    if ca_file is not None and (todo := missing_certutil()):
        return Finding("browser", False, f"{version} at {found} cannot be given the authorities of {ca_file}. {todo}")
    return Finding("browser", True, f"{version} at {found}")


def sandbox(machine: Machine) -> Finding:
    """The browser's sandbox works, or the settings allow to do without it."""
    from rag_eval_pipeline.web.egress import read_egress_config

    trial = machine.trial
    if isinstance(trial, Exception):
        return Finding("sandbox", False, str(trial))
    users = ", ".join(trial.users)
    if trial.sandboxed:
        return Finding("sandbox", True, f"on, pages are drawn by the user {users}")
    settings = machine.workspace.egress_config
    try:
        allowed = read_egress_config(settings).allow_no_sandbox
    except InputError as error:
        return Finding("sandbox", False, f"refused by this machine, and {error}")
    if allowed:
        return Finding("sandbox", True, f"off, as {settings} allows; pages are drawn by the user {users}")
    remedy = f"Let this machine give user namespaces to {users}, or set allow_no_sandbox in {settings}."
    return Finding("sandbox", False, f"refused by this machine: local files are printed, pages from URLs not. {remedy}")


def egress(machine: Machine) -> Finding:
    """The browser cannot reach servers on this machine."""
    if isinstance(machine.trial, ServiceError):
        return Finding("egress", False, str(machine.trial))
    return Finding("egress", True, "127.0.0.1 and localhost were refused to the browser")


def fonts(machine: Machine) -> Finding:
    """There are fonts for all scripts; without them, characters are missing from the text of PDFs."""
    if shutil.which("fc-list") is None:
        return Finding("fonts", False, "fc-list is missing: install fontconfig")
    found = {
        name: subprocess.run(["fc-list", script.pattern], capture_output=True, check=False).stdout
        for name, script in SCRIPTS.items()
    }
    missing = [name for name, fonts in found.items() if not fonts.strip()]
    if missing:
        return Finding("fonts", False, f"no font for {', '.join(missing)}: install {PACKAGES}")
    return Finding("fonts", True, ", ".join(SCRIPTS))


def glyphs(machine: Machine) -> Finding:
    """Text in each script can be read back from a printed PDF."""
    trial = machine.trial
    if isinstance(trial, Exception):
        return Finding("glyphs", False, str(trial))
    lost = lost_scripts(trial.text)
    if lost:
        return Finding("glyphs", False, f"characters vanish from printed pages: {', '.join(lost)}: install {PACKAGES}")
    return Finding("glyphs", True, f"printed and read back: {', '.join(SCRIPTS)}")


def lost_scripts(text: str) -> list[str]:
    """Return the scripts of whose sample a text lacks characters; order and ligatures do not matter."""
    found = set(unicodedata.normalize("NFKC", text))
    return [name for name, script in SCRIPTS.items() if not found.issuperset(script.sample)]


def disk(machine: Machine) -> Finding:
    """There is enough disk space for a corpus."""
    root = machine.workspace.root
    free = shutil.disk_usage(root).free
    return Finding("disk", free >= FREE_BYTES, f"{free / 1e9:.1f} GB free in {root}")


def registry(machine: Machine) -> Finding:
    """All benchmarks and systems can be read, and results can be written."""
    from rag_eval_pipeline.conversion.benchmark_spec import read_spec
    from rag_eval_pipeline.evaluation.expected_pairs import read_registry

    workspace = machine.workspace
    if not is_workspace(workspace.root):
        return Finding("workspace", True, f"none in {workspace.root} or above; to make one: rag-eval new DIR")
    found = read_registry(workspace)
    faults = [*found.unreadable.values(), *found.faults.values()]
    written = [folder for folder in (workspace.root / "data", workspace.root / "corpus") if folder.exists()]
    faults += [f"{folder} cannot be written to" for folder in written if not os.access(folder, os.W_OK)]
    for name in found.benchmarks:
        try:
            read_spec(workspace.benchmark(name))
        except InputError as error:
            faults.append(str(error))
    if faults:
        return Finding("workspace", False, "; ".join(faults))
    return Finding(
        "workspace", True, f"{counted(len(found.benchmarks), 'benchmark')}, {counted(len(found.systems), 'system')}"
    )


def workers(machine: Machine) -> Finding:
    """All workers that take runs from a queue have the same browser and fonts, and the queue of this machine."""
    from rag_eval_pipeline.corpus.worker_queues import differences, living_workers, this_worker

    living = living_workers(machine.workspace, now=clock.now())
    if not living:
        return Finding("workers", True, "none has reported: runs are processes of the code location's machine")
    if different := differences(living):
        return Finding("workers", False, f"{'; '.join(different)}: start all from one image, or they print other pages")
    (queue,) = {worker.queue for worker in living.values()}
    mine = this_worker()
    if mine.queue != queue:
        found = f"they take runs from {queue}, and a code location on this machine would put its runs into {mine.queue}"
        return Finding("workers", False, "; ".join([found, *differences({**living, "this machine": mine})]))
    return Finding("workers", True, f"same browser and fonts as this machine: {', '.join(living)} (queue {queue})")


def date(machine: Machine) -> Finding:
    """The date of evaluations is that of the machine's clock."""
    given = os.environ.get(clock.NOW_VARIABLE)
    try:
        now = clock.now()
    except InputError as error:
        return Finding("date", False, str(error))
    if not given:
        return Finding("date", True, "from this machine's clock")
    name = clock.NOW_VARIABLE
    return Finding("date", False, f"{name} sets it to {now:%Y-%m-%d %H:%M} UTC, for every night: unset {name}")


CHECKS: dict[str, Callable[[Machine], Finding]] = {
    "browser": browser,
    "sandbox": sandbox,
    "egress": egress,
    "fonts": fonts,
    "glyphs": glyphs,
    "disk": disk,
    "date": date,
    "workers": workers,
    "workspace": registry,
}


def doctor(
    only: Annotated[
        str | None,
        typer.Option(
            metavar="CHECK",
            autocompletion=lambda: list(CHECKS),
            help="Run only one check: browser, sandbox, egress, fonts, glyphs, disk, date, workers, workspace.",
        ),
    ] = None,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Check that this machine has what the pipeline needs; exits 4 if something is missing.

    Starts the browser and prints a page; does not use the network.

    Example: rag-eval doctor
    """
    if only is not None and only not in CHECKS:
        hint = unknown_name_hint(only, CHECKS, "checks")
        raise InputError("unknown_check", "--only", "the name of a check", found=only, hint=hint)
    machine = Machine(find_workspace_if_any(workspace) or Workspace(Path.cwd()))
    findings = [check(machine) for name, check in CHECKS.items() if only in (None, name)]
    emit(
        [finding._asdict() for finding in findings],
        as_json,
        (f"{'ok  ' if finding.ok else 'FAIL'} {finding.name}: {finding.found}" for finding in findings),
    )
    if not all(finding.ok for finding in findings):
        raise typer.Exit(UNAVAILABLE)


def worker_queue(as_json: AsJson = False) -> None:
    """Print the queue that a Celery worker on this machine takes runs from.

    Its name carries the fingerprint of the renderer, and the Dagster instance of DAGSTER_HOME.

    For: dagster-celery worker start -A rag_eval_pipeline.celery.worker -q "$(rag-eval worker-queue)" -y worker.yaml

    Example: rag-eval worker-queue
    """
    import msgspec

    from rag_eval_pipeline.corpus.worker_queues import this_worker

    if not os.environ.get("DAGSTER_HOME"):
        raise InputError("no_instance", "DAGSTER_HOME", "the folder of the worker's dagster.yaml")
    from rag_eval_pipeline.serving.instance import run_queue

    worker = this_worker()
    if worker.browser.startswith("none"):
        print(f"rag-eval worker-queue: {worker.browser}", file=sys.stderr)
    queue = run_queue(worker.queue)
    emit({**msgspec.structs.asdict(worker), "queue": queue}, as_json, [queue])
