"""The browser on this machine: which one, as whom it runs, and what its pages depend on."""

import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from rag_eval_pipeline.errors import ServiceError

EXECUTABLE_VARIABLE = "RAG_EVAL_CHROMIUM"
NOBODY = 65534

_VERSION_LIMIT_S = 30.0
_INSTALL_HINT = (
    f"Install `chromium-headless-shell` (Debian) or run `playwright install chromium-headless-shell` with "
    f"PLAYWRIGHT_BROWSERS_PATH set to a folder that every user can read, or set {EXECUTABLE_VARIABLE}."
)


def find_browser() -> Path:
    """The browser to use: the headless shell before the full one, which costs three times the CPU time a page.

    Raises:
        ServiceError: `browser_missing`.
    """
    wanted = os.environ.get(EXECUTABLE_VARIABLE)
    if wanted:
        if not os.access(wanted, os.X_OK):
            raise ServiceError("browser_missing", f"{EXECUTABLE_VARIABLE} names {wanted}, which cannot be executed")
        return Path(wanted).absolute()
    for candidate in _candidates():
        if os.access(candidate, os.X_OK) and (os.geteuid() != 0 or _open_to_all(candidate)):
            return candidate
    raise ServiceError("browser_missing", "No Chromium was found on this machine", hint=_INSTALL_HINT)


@functools.cache
def browser_version(executable: Path) -> str:
    """What the browser says of itself, such as `Chromium 156.0.8078.79`; asked once a process.

    Raises:
        ServiceError: `browser_failed`.
    """
    try:
        asked = subprocess.run(
            [executable, "--version"], capture_output=True, text=True, timeout=_VERSION_LIMIT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ServiceError("browser_failed", f"{executable} --version: {error}", hint=_INSTALL_HINT) from error
    return asked.stdout.strip()


def check_driver() -> None:
    """Whether Playwright's driver, a Node.js that comes with it, runs on this machine.

    Raises:
        ServiceError: `driver_failed` with what it said: a minimal system lacks its libraries (libatomic1).
    """
    command = [sys.executable, "-m", "playwright", "--version"]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=_VERSION_LIMIT_S, check=False)
    if asked.returncode != 0:
        said = (asked.stderr.strip().splitlines() or [f"exit code {asked.returncode}"])[-1]
        hint = "Install the library it names; on Debian: apt-get install libatomic1."
        raise ServiceError("driver_failed", f"Playwright's driver does not run: {said}", hint=hint)


@functools.cache
def font_digest() -> str:
    """Digest of the installed fonts: another set gives other line breaks, and boxes for missing scripts."""
    try:
        listed = subprocess.run(["fc-list"], capture_output=True, timeout=_VERSION_LIMIT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return hashlib.sha256(b"\n".join(sorted(listed.splitlines()))).hexdigest()


def unprivileged_command(executable: Path) -> list[str]:
    """The command that runs the browser without rights: as nobody when this process is root, else as it is.

    Chromium's sandbox refuses to work for root, and without it a page could read every file of this machine.
    """
    if os.geteuid() != 0:
        return [str(executable)]
    drop = f"--reuid={NOBODY} --regid={NOBODY} --clear-groups --no-new-privs --bounding-set=-all"
    return ["setpriv", *drop.split(), "--", str(executable)]


def write_launcher(folder: Path, command: list[str]) -> Path:
    """A script that stands for the browser, with a home, a profile and temp files of its own in `folder`.

    Playwright makes a profile that only its own user can enter, so a second `--user-data-dir` follows, which wins.
    The process id is left in `folder/pid`: it is also the process group's, for the case that all else fails.
    """
    home = folder / "home"
    home.mkdir(mode=0o700)
    folder.chmod(0o711)
    if os.geteuid() == 0:
        try:
            os.chown(home, NOBODY, NOBODY)
        except PermissionError as error:
            raise ServiceError(
                "browser_failed", "root without its capabilities cannot give the browser a user of its own",
                hint="Run as a user who is not root, or keep CAP_CHOWN, CAP_SETUID and CAP_SETGID.",
            ) from error  # fmt: skip
    launcher = folder / "browser"
    profile, pid = shlex.quote(str(home / "profile")), shlex.quote(str(folder / "pid"))
    launcher.write_text(f'#!/bin/sh\necho $$ >{pid}\nexec {shlex.join(command)} "$@" --user-data-dir={profile}\n')
    launcher.chmod(0o755)
    return launcher


def browser_folder_parent() -> Path | None:
    """Where the launcher's folder may lie so that another user can enter it; None for the usual place."""
    import tempfile

    usual = Path(tempfile.gettempdir())
    if os.geteuid() != 0 or _open_to_all(usual):
        return None
    return Path("/tmp")  # every system has it, and lets everybody enter


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("chromium-headless-shell")
    if on_path:
        yield Path(on_path)
    yield Path("/usr/bin/chromium-headless-shell")
    installs = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    for pattern in (
        "chromium_headless_shell-*/*/headless_shell",
        "chromium_headless_shell-*/*/chrome-headless-shell",
        "chromium-*/*/chrome",
        "chromium-*/*/Chromium.app/Contents/MacOS/Chromium",
    ):
        yield from sorted(installs.glob(pattern), reverse=True)
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        on_path = shutil.which(name)
        if on_path:
            yield Path(on_path)


def _open_to_all(path: Path) -> bool:
    """Whether a user without rights can reach and execute a path."""
    real = path.resolve()
    return all(part.stat().st_mode & 0o001 for part in (real, *real.parents))
