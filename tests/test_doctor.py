"""The doctor reports how the browser works on this machine: its sandbox, its user, its network, its scripts."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.cli.doctor import CHECKS, SCRIPTS, Finding, Machine, lost_scripts
from rag_eval_pipeline.corpus.rendering.browser import EXECUTABLE_VARIABLE, find_browser
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.workspace import Workspace
from tests.web.certificates import Authority

OF_THE_BROWSER = ("browser", "sandbox", "egress", "glyphs")


def has_sandbox() -> bool:
    return subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    workspace = Workspace(tmp_path)
    workspace.config.mkdir(parents=True)
    workspace.sources.mkdir()
    return Machine(workspace)


def examine(machine: Machine, *names: str) -> dict[str, Finding]:
    return {name: CHECKS[name](machine) for name in names}


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Has a shell script stand for the browser; `$REAL` is the real one. Another user can execute it."""
    folder = Path(tempfile.mkdtemp(prefix="doctor-test-"))
    folder.chmod(0o711)
    real = shlex.quote(str(find_browser()))

    def install(script: str) -> None:
        (folder / "browser").write_text(f"#!/bin/sh\nREAL={real}\n{script}\n")
        (folder / "browser").chmod(0o755)
        monkeypatch.setenv(EXECUTABLE_VARIABLE, str(folder / "browser"))

    yield install
    shutil.rmtree(folder)


WITHOUT_SANDBOX = """
case "$*" in
*--no-sandbox*|*--version*) exec "$REAL" "$@" ;;
*) echo "No usable sandbox!" >&2; exit 1 ;;
esac
"""

PAST_THE_PROXY = """
for argument in "$@"; do
  shift
  case "$argument" in --proxy-*) ;; *) set -- "$@" "$argument" ;; esac
done
exec "$REAL" "$@"
"""


@pytest.mark.browser
def test_doctor_starts_the_browser_or_checks_one_thing(workspace):
    def doctor(*words: str) -> tuple[int, list[dict[str, Any]]]:
        done = CliRunner().invoke(app, ["doctor", "--json", *words, "--workspace", str(workspace.root)])
        return done.exit_code, json.loads(done.stdout)

    code, findings = doctor()

    assert [finding["name"] for finding in findings] == list(CHECKS)
    assert code == (0 if all(finding["ok"] for finding in findings) else 4)
    found = {finding["name"]: Finding(**finding) for finding in findings}
    assert (found["browser"].ok, found["egress"].ok) == (True, True)
    assert found["sandbox"].ok == has_sandbox()
    user = "nobody" if os.geteuid() == 0 and has_sandbox() else ""
    assert f"by the user {user}" in found["sandbox"].found or not has_sandbox()
    assert found["glyphs"].found == f"printed and read back: {', '.join(SCRIPTS)}" or not found["glyphs"].ok
    assert [finding["name"] for finding in doctor("--only", "disk")[1]] == ["disk"]
    with pytest.raises(InputError, match="unknown_check"):
        CliRunner().invoke(app, ["doctor", "--only", "luck"], catch_exceptions=False)


def test_doctor_checks_a_machine_without_a_workspace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "rag_eval_pipeline.cli.doctor.CHECKS", {name: CHECKS[name] for name in ("disk", "workers", "workspace")}
    )

    done = CliRunner().invoke(app, ["doctor"])

    assert (done.exit_code, "to make one: rag-eval new DIR" in done.stdout) == (0, True)


def test_doctor_names_folders_that_cannot_be_written_to(machine, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere but to a read-only disk

    found = examine(machine, "workspace")["workspace"]

    assert (found.ok, found.found) == (False, f"{machine.workspace.root / 'data'} cannot be written to")


@pytest.mark.browser
def test_doctor_names_what_follows_without_a_sandbox(machine, stand_in):
    stand_in(WITHOUT_SANDBOX)

    refused = examine(machine, "sandbox", "egress")
    machine.workspace.egress_config.write_text("allow_no_sandbox: true\n")
    allowed = examine(machine, "sandbox")["sandbox"]
    machine.workspace.egress_config.write_text("allow_no_sandbox: maybe\n")
    unreadable = examine(machine, "sandbox")["sandbox"]

    assert (refused["sandbox"].ok, refused["egress"].ok) == (False, True)
    assert "pages from URLs not" in refused["sandbox"].found
    assert "allow_no_sandbox" in refused["sandbox"].found
    assert allowed.ok
    assert allowed.found.startswith("off, as ")
    assert "egress.config.yaml" in allowed.found
    assert not unreadable.ok
    assert "[bad_format]" in unreadable.found


@pytest.mark.browser
def test_browser_that_is_started_without_its_proxy_is_behind_the_guard_all_the_same(machine, stand_in):
    stand_in(PAST_THE_PROXY)

    assert examine(machine, "egress")["egress"].ok  # each page's context names the guard itself


def test_without_a_browser_every_check_of_it_says_so(machine, monkeypatch):
    monkeypatch.setenv(EXECUTABLE_VARIABLE, "/nowhere/chromium")

    found = examine(machine, *OF_THE_BROWSER)

    assert {finding.ok for finding in found.values()} == {False}
    assert all("[browser_missing]" in finding.found for finding in found.values())


@pytest.mark.browser
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the browser has a keychain")
def test_browser_that_cannot_be_given_the_authorities_of_ca_file_is_named(machine, stand_in, monkeypatch):
    stand_in('exec "$REAL" "$@"')
    (machine.workspace.egress_config.parent / "company.pem").write_bytes(Authority().pem)
    machine.workspace.egress_config.write_text("ca_file: company.pem")
    monkeypatch.setenv("PATH", str(machine.workspace.root))  # without certutil

    found = examine(machine, "browser")["browser"]

    assert not found.ok
    assert "company.pem. Install certutil: apt-get install libnss3-tools" in found.found


LOST = {
    "all there":                  ("深圳汉字 ひらがなカタカナ 한국어 العربية देवनागरी 🚀👩", []),
    "in another order":           ("字汉圳深 ひらがなカタカナ 한국어 ةيبرعلا देवनागरी 👩🚀",  []),
    "Arabic in its joined forms": ("深圳汉字 ひらがなカタカナ 한국어 ﺍﻟﻌﺮﺑﻴﺔ देवनागरी 🚀👩", []),
    "one character of Chinese":   ("圳汉字 ひらがなカタカナ 한국어 العربية देवनागरी 🚀👩",   ["Chinese"]),
    "the emoji":                  ("深圳汉字 ひらがなカタカナ 한국어 العربية देवनागरी",      ["emoji"]),
    "boxes":                      ("▯▯▯▯",                                                 list(SCRIPTS)),
}  # fmt: skip


@pytest.mark.parametrize(("text", "lost"), LOST.values(), ids=LOST)
def test_script_is_lost_with_its_first_character(text, lost):
    assert lost_scripts(text) == lost


def test_doctor_names_a_date_that_is_not_the_clocks(machine: Machine, monkeypatch: pytest.MonkeyPatch):
    assert CHECKS["date"](machine) == Finding("date", True, "from this machine's clock")

    monkeypatch.setenv("RAG_EVAL_NOW", "2026-11-15T02:00:00Z")
    is_ok, found = CHECKS["date"](machine)[1:]
    assert not is_ok
    assert found == "RAG_EVAL_NOW sets it to 2026-11-15 02:00 UTC, for every night: unset RAG_EVAL_NOW"

    monkeypatch.setenv("RAG_EVAL_NOW", "tomorrow")
    assert "[bad_time]" in CHECKS["date"](machine).found
