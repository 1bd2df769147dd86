"""What the pipeline needs of a machine, and whether it is there.

The browser is asked by being used: it is started once, behind the guard, and prints one page.
"""

import functools
import shutil
import subprocess
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from rag_eval_pipeline.errors import DocumentError, InputError, ServiceError
from rag_eval_pipeline.workspace import Workspace

if TYPE_CHECKING:
    from rag_eval_pipeline.corpus.rendering.render import BrowserCheck

FREE_BYTES = 1_000_000_000  # a corpus of a thousand pages and its rendering take about half of it
PACKAGES = "fonts-noto-core, fonts-noto-cjk, fonts-noto-color-emoji"


class Script(NamedTuple):
    """A script of the world: how fontconfig is asked for a font, and characters that a page is printed with."""

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
    """One check: whether all is well, and what was found."""

    name: str
    ok: bool
    found: str


class Machine:
    """What is looked at, and the trial run of its browser, which several checks are about.

    Args:
        workspace: Need not exist for checks that are not about it.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @functools.cached_property
    def trial(self) -> "BrowserCheck | ServiceError | DocumentError":
        """What the browser did, or why it did nothing."""
        from rag_eval_pipeline.corpus.rendering.render import check_browser

        try:
            return check_browser([script.sample for script in SCRIPTS.values()])
        except (ServiceError, DocumentError) as error:
            return error


def browser(machine: Machine) -> Finding:
    """A Chromium and the driver that talks to it, both of which run."""
    from rag_eval_pipeline.corpus.rendering.browser import browser_version, check_driver, find_browser

    try:
        found = find_browser()
        version = browser_version(found)
        check_driver()
    except ServiceError as error:
        return Finding("browser", False, str(error))
    return Finding("browser", True, f"{version} at {found}")


def sandbox(machine: Machine) -> Finding:
    """Pages are confined, or the settings say that they need not be."""
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
    """The browser has no way to this machine's own servers."""
    if isinstance(machine.trial, ServiceError):
        return Finding("egress", False, str(machine.trial))
    return Finding("egress", True, "127.0.0.1 and localhost were refused to the browser")


def fonts(machine: Machine) -> Finding:
    """Glyphs for the scripts of the world: without them characters vanish from the PDFs' text."""
    if shutil.which("fc-list") is None:
        return Finding("fonts", False, "fc-list is missing: install fontconfig")
    missing = [name for name, script in SCRIPTS.items() if not _listed(script.pattern)]
    if missing:
        return Finding("fonts", False, f"no font for {', '.join(missing)}: install {PACKAGES}")
    return Finding("fonts", True, ", ".join(SCRIPTS))


def glyphs(machine: Machine) -> Finding:
    """What is printed can be read back from the PDF, in each script."""
    trial = machine.trial
    if isinstance(trial, Exception):
        return Finding("glyphs", False, str(trial))
    lost = lost_scripts(trial.text)
    if lost:
        return Finding("glyphs", False, f"characters vanish from printed pages: {', '.join(lost)}: install {PACKAGES}")
    return Finding("glyphs", True, f"printed and read back: {', '.join(SCRIPTS)}")


def lost_scripts(text: str) -> list[str]:
    """Scripts of whose sample a text lacks characters; their order and joined forms are the printer's."""
    there = set(unicodedata.normalize("NFKC", text))
    return [name for name, script in SCRIPTS.items() if not there.issuperset(script.sample)]


def disk(machine: Machine) -> Finding:
    """Room for a corpus."""
    root = machine.workspace.root
    free = shutil.disk_usage(root).free
    return Finding("disk", free >= FREE_BYTES, f"{free / 1e9:.1f} GB free in {root}")


def registry(machine: Machine) -> Finding:
    """Benchmarks and systems that can be read."""
    from rag_eval_pipeline.conversion.spec import read_spec
    from rag_eval_pipeline.evaluation.registry import read_registry

    workspace = machine.workspace
    found = read_registry(workspace)
    faults = list(found.faults)
    for name in found.benchmarks:
        try:
            read_spec(workspace.benchmark(name))
        except InputError as error:
            faults.append(str(error))
    if faults:
        return Finding("workspace", False, "; ".join(faults))
    return Finding("workspace", True, f"{len(found.benchmarks)} benchmarks, {len(found.systems)} systems")


CHECKS: dict[str, Callable[[Machine], Finding]] = {
    "browser": browser,
    "sandbox": sandbox,
    "egress": egress,
    "fonts": fonts,
    "glyphs": glyphs,
    "disk": disk,
    "workspace": registry,
}


def _listed(pattern: str) -> bool:
    return bool(subprocess.run(["fc-list", pattern], capture_output=True, check=False).stdout.strip())
