"""The doctor says what the browser really does on this machine: its sandbox, its user, its way out, its scripts."""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rag_eval_pipeline.cli.doctor import CHECKS, SCRIPTS, Finding, Machine, lost_scripts
from rag_eval_pipeline.corpus.rendering.browser import EXECUTABLE_VARIABLE, find_browser
from rag_eval_pipeline.workspace import Workspace

OF_THE_BROWSER = ("browser", "sandbox", "egress", "glyphs")


def has_sandbox() -> bool:
    return subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture
def examine(tmp_path: Path) -> Callable[..., dict[str, Finding]]:
    """The findings of some checks by name, in a workspace whose egress settings are as given."""

    def look(*names: str, settings: str = "") -> dict[str, Finding]:
        workspace = Workspace(tmp_path)
        workspace.config.mkdir(parents=True, exist_ok=True)
        workspace.egress_config.write_text(settings)
        machine = Machine(workspace)
        return {name: CHECKS[name](machine) for name in names}

    return look


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
def test_the_browser_is_seen_at_work(examine):
    found = examine(*OF_THE_BROWSER)

    assert (found["browser"].ok, found["egress"].ok) == (True, True)
    assert found["sandbox"].ok == has_sandbox()
    user = "nobody" if os.geteuid() == 0 and has_sandbox() else ""
    assert f"by the user {user}" in found["sandbox"].found or not has_sandbox()
    assert found["glyphs"].found == f"printed and read back: {', '.join(SCRIPTS)}" or not found["glyphs"].ok


@pytest.mark.browser
def test_a_machine_that_refuses_the_sandbox_is_told_what_follows(examine, stand_in):
    stand_in(WITHOUT_SANDBOX)

    refused = examine("sandbox", "egress", "glyphs")

    assert not refused["sandbox"].ok
    assert "pages from URLs not" in refused["sandbox"].found
    assert "allow_no_sandbox" in refused["sandbox"].found
    assert refused["egress"].ok


@pytest.mark.browser
def test_settings_that_do_without_the_sandbox_are_named(examine, stand_in):
    stand_in(WITHOUT_SANDBOX)

    allowed = examine("sandbox", settings="allow_no_sandbox: true\n")["sandbox"]

    assert allowed.ok
    assert allowed.found.startswith("off, as ")
    assert "egress.config.yaml" in allowed.found


@pytest.mark.browser
def test_a_browser_that_is_started_without_its_proxy_is_behind_the_guard_all_the_same(examine, stand_in):
    stand_in(PAST_THE_PROXY)

    assert examine("egress")["egress"].ok  # each page's context names the guard itself


def test_without_a_browser_every_check_of_it_says_so(examine, monkeypatch):
    monkeypatch.setenv(EXECUTABLE_VARIABLE, "/nowhere/chromium")

    found = examine(*OF_THE_BROWSER)

    assert {finding.ok for finding in found.values()} == {False}
    assert all("[browser_missing]" in finding.found for finding in found.values())


LOST = {
    "all there":                  ("深圳汉字 ひらがなカタカナ 한국어 العربية देवनागरी 🚀👩", []),
    "in another order":           ("字汉圳深 ひらがなカタカナ 한국어 ةيبرعلا देवनागरी 👩🚀",  []),
    "Arabic in its joined forms": ("深圳汉字 ひらがなカタカナ 한국어 ﺍﻟﻌﺮﺑﻴﺔ देवनागरी 🚀👩", []),
    "one character of Chinese":   ("圳汉字 ひらがなカタカナ 한국어 العربية देवनागरी 🚀👩",   ["Chinese"]),
    "the emoji":                  ("深圳汉字 ひらがなカタカナ 한국어 العربية देवनागरी",      ["emoji"]),
    "boxes":                      ("▯▯▯▯",                                                 list(SCRIPTS)),
}  # fmt: skip


@pytest.mark.parametrize(("text", "lost"), LOST.values(), ids=LOST)
def test_a_script_is_lost_with_its_first_character(text, lost):
    assert lost_scripts(text) == lost


def test_egress_settings_that_cannot_be_read_are_told_and_not_raised(examine, stand_in):
    stand_in(WITHOUT_SANDBOX)

    found = examine("sandbox", settings="allow_no_sandbox: maybe\n")["sandbox"]

    assert not found.ok
    assert "[bad_config]" in found.found
