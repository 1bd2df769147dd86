"""What the pipeline needs of a machine, and whether it is there."""

import shutil
import subprocess
from collections.abc import Callable
from typing import NamedTuple

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.workspace import Workspace

FREE_BYTES = 1_000_000_000  # a corpus of a thousand pages and its rendering take about half of it
SCRIPTS = {"zh": "Chinese", "ja": "Japanese", "ko": "Korean", "ar": "Arabic", "hi": "Hindi"}


class Finding(NamedTuple):
    """One check: whether all is well, and what was found."""

    name: str
    ok: bool
    found: str


def browser(workspace: Workspace) -> Finding:
    """A Chromium and the driver that talks to it, both of which run."""
    from rag_eval_pipeline.corpus.rendering.executable import browser_version, check_driver, find_browser

    try:
        found = find_browser()
        version = browser_version(found)
        check_driver()
    except ServiceError as error:
        return Finding("browser", False, str(error))
    return Finding("browser", True, f"{version} at {found}")


def fonts(workspace: Workspace) -> Finding:
    """Glyphs for the scripts of the world: without them characters vanish from the PDFs' text."""
    if shutil.which("fc-list") is None:
        return Finding("fonts", False, "fc-list is missing: install fontconfig")
    missing = [name for code, name in SCRIPTS.items() if not _listed(f":lang={code}")]
    if not _listed(":charset=1F680"):
        missing.append("emoji")
    if missing:
        packages = "fonts-noto-core, fonts-noto-cjk, fonts-noto-color-emoji"
        return Finding("fonts", False, f"no font for {', '.join(missing)}: install {packages}")
    return Finding("fonts", True, f"{', '.join([*SCRIPTS.values(), 'emoji'])}")


def disk(workspace: Workspace) -> Finding:
    """Room for a corpus."""
    free = shutil.disk_usage(workspace.root).free
    return Finding("disk", free >= FREE_BYTES, f"{free / 1e9:.1f} GB free in {workspace.root}")


def registry(workspace: Workspace) -> Finding:
    """Benchmarks and systems that can be read."""
    from rag_eval_pipeline.conversion.spec import read_spec
    from rag_eval_pipeline.evaluation.registry import read_registry

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


CHECKS: dict[str, Callable[[Workspace], Finding]] = {
    "browser": browser,
    "fonts": fonts,
    "disk": disk,
    "workspace": registry,
}


def _listed(pattern: str) -> bool:
    return bool(subprocess.run(["fc-list", pattern], capture_output=True, check=False).stdout.strip())
