"""Install pinned packages with pip, with a progress bar on a terminal: `python tools/install.py requirements/dev.txt`.

It runs in the new environment before anything is installed there, so it uses the standard library only.
"""

import re
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

WIDTH = 40
LINES_SHOWN = 15  # of pip's output, if it fails
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")


def main(requirements: str) -> int:
    """Install the packages of a file, then the project itself without its dependencies; return pip's exit code."""
    total = len(re.findall(r"^[a-z0-9].*==", Path(requirements).read_text(), flags=re.MULTILINE | re.IGNORECASE))
    print(f"Installing {total} pinned packages into {Path(sys.prefix).name} ...", flush=True)
    # Modules are compiled when they are first imported: most never are.
    code = _run(
        [*PIP, "install", "--no-compile", "--progress-bar", "off", "--require-hashes", "-r", requirements], total
    )
    return code or subprocess.call([*PIP, "install", "--quiet", "--no-deps", "--no-build-isolation", "-e", "."])


def _run(command: list[str], total: int) -> int:
    started, found, last = time.monotonic(), 0, deque[str](maxlen=LINES_SHOWN)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last.append(line)
            found += line.startswith(("Collecting ", "Processing ", "Ignoring ", "Requirement already"))
            phase = "unpacking  " if line.startswith("Installing collected") else "downloading"
            if sys.stdout.isatty():
                done = min(found, total)
                bar = "━" * (WIDTH * done // total)
                print(
                    f"\r{phase} {bar:<{WIDTH}} {done}/{total} {time.monotonic() - started:3.0f} s", end="", flush=True
                )
    if sys.stdout.isatty():
        print()
    if process.returncode:
        print("".join(last), file=sys.stderr)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
