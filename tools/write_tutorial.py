"""Run the commands of docs/tutorial.md in order, and write what they print below them; takes a minute.

    python tools/write_tutorial.py

The server of the tutorial runs in this process on a free port. `rag-eval up` is not started: what it does with the
results is done before `data/reports/alerts` is listed.
"""

import contextlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from rag_eval_pipeline import cli, clock
from rag_eval_pipeline.monitoring.alerts import send_change_alerts
from rag_eval_pipeline.monitoring.regressions import write_comparisons
from rag_eval_pipeline.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = REPOSITORY / "docs" / "tutorial.md"
EXAMPLE = REPOSITORY / "examples" / "tutorial"
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHOWN_HOME = "/home/ada"
SHOWN_PORT = 8000


def page_with_output(home: Path) -> str:
    """Return the page with the output of each command, run in an empty folder."""
    (home / "rag-eval-pipeline").symlink_to(REPOSITORY)
    module = SimpleNamespace(**runpy.run_path(str(EXAMPLE / "server.py")))
    with module.Server(("127.0.0.1", 0), module.Handler) as server, contextlib.chdir(home):
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def block(match: re.Match[str]) -> str:
            commands = re.findall(r"^\$ (.*)$", match[1], re.MULTILINE)
            outputs = [_run(command, home, module, server.server_port) for command in commands]
            texts = [f"$ {command}\n{output}" for command, output in zip(commands, outputs, strict=True)]
            return f"```console\n{''.join(texts)}```"

        try:
            return CONSOLE.sub(block, PAGE.read_text())
        finally:
            server.shutdown()


def _run(command: str, home: Path, server: SimpleNamespace, port: int) -> str:
    words = shlex.split(command)
    if words[0] == "cd":
        os.chdir(words[1])
        return ""
    if words[0] == "python":
        without = words[words.index("--without") + 1 :] if "--without" in words else []
        server.Handler.sentences = server.read_sentences(Path(words[2]), without)
        return f"Serving http://127.0.0.1:{SHOWN_PORT}/ask\n"
    if words[:2] == ["rag-eval", "up"]:
        return ""
    if words[0] == "rag-eval":
        words = [word.replace(f":{SHOWN_PORT}", f":{port}") for word in words]
        text = _printed(lambda: _main(words))
        return text.replace(f":{port}", f":{SHOWN_PORT}").replace(f"{home}/", f"{SHOWN_HOME}/")
    if "data/reports/alerts" in command:
        here = Workspace(Path.cwd())
        send_change_alerts(here, write_comparisons(here).nights, now=clock.now())
    environment = {**os.environ, "HOME": str(home)}
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True, env=environment).stdout


def _main(words: list[str]) -> None:
    given, sys.argv = sys.argv, words
    try:
        cli.main()
    except SystemExit as done:
        if done.code:
            raise RuntimeError(f"{shlex.join(words)} exits with {done.code}") from done
    finally:
        sys.argv = given


def _printed(run: Callable[[], None]) -> str:
    """Return what a command prints as its result, and the line with the next command; progress is left out."""
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()) as shown:
        run()
    return printed.getvalue() + "".join(re.findall(r"^Next: .*\n", shown.getvalue(), re.MULTILINE))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(page_with_output(Path(folder).resolve()))
