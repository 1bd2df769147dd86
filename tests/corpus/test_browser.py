"""The browser runs confined and without rights, can reach nothing of this machine, and is found or named as missing."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from corpus.conftest import descendants, has_sandbox
from rag_eval_pipeline.corpus.rendering.browser import (
    EXECUTABLE_VARIABLE,
    TEMP_PREFIX,
    BrowserPool,
    browser_pool,
    browser_version,
    find_browser,
    prove_egress_closed,
    write_launcher,
)
from rag_eval_pipeline.corpus.rendering.render import render
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.web.content_types import Body
from rag_eval_pipeline.web.egress import EgressPolicy
from rag_eval_pipeline.web.egress_proxy import EgressProxy
from tests.conftest import REPOSITORY
from tests.patience import PATIENCE_S


def status(process: psutil.Process) -> dict[str, list[str]]:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return {name: value.split() for name, _, value in (line.partition(":") for line in lines)}


class _Unchanged(dict):
    """An environment that nobody may change."""

    def __setitem__(self, name, value):
        pytest.fail(f"{name} was set for the whole process")


class Facts:
    """What one browser is and finds, from its start to its end."""

    async def run(self, folder: Path) -> None:
        dead = psutil.Popen(["/bin/true"])
        dead.wait()
        stale, fresh = folder / f"{TEMP_PREFIX}{dead.pid}-a", folder / f"{TEMP_PREFIX}{dead.pid}-b"
        for left in (stale, fresh):  # of killed runs; the first for more than a day
            left.mkdir()
        os.utime(stale, (0, 0))
        policy = EgressPolicy()
        async with EgressProxy(policy) as proxy, EgressProxy(policy) as other, browser_pool(proxy) as pool:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(os, "environ", _Unchanged(os.environ))
                process = await pool.process()
            self.sandboxed = process.sandboxed
            async with process.context(scripts=True) as context:
                await context.new_page()
                renderers = descendants("--type=renderer")
                self.statuses = [status(renderer) for renderer in renderers]
                self.namespaces = {os.readlink(f"/proc/{renderer.pid}/ns/user") for renderer in renderers}
                with pytest.raises(ServiceError) as refused:
                    await prove_egress_closed(context, other)  # the browser does not ask this proxy
                self.refused = refused.value.code
            [self.driver] = [Path(driver.environ()["TMPDIR"]) for driver in descendants("run-driver")]
        self.left = os.listdir(folder) == [fresh.name]
        fresh.rmdir()


@pytest.fixture(scope="module")
def facts(own_temp) -> Facts:
    facts = Facts()
    asyncio.run(facts.run(own_temp))
    return facts


@pytest.mark.fault(71)
@pytest.mark.browser
def test_browser_is_confined_without_rights_and_leaves_nothing_behind(facts):
    assert facts.sandboxed == has_sandbox()
    assert facts.statuses
    for fact in facts.statuses if facts.sandboxed else []:
        assert "0" not in fact["Uid"]
        assert fact["NoNewPrivs"] == ["1"]
        assert fact["Seccomp"] == ["2"]
        assert set(fact["CapEff"][0]) == {"0"}
    assert (os.readlink("/proc/self/ns/user") in facts.namespaces) != facts.sandboxed
    assert (facts.driver.name, facts.driver.parent.name.startswith(TEMP_PREFIX)) == ("driver", True)
    assert facts.left


@pytest.mark.browser
def test_browser_that_could_reach_this_machine_is_not_used(facts):
    assert facts.refused == "egress_open"


@pytest.mark.fault(61)
@pytest.mark.browser
async def test_browser_that_is_worn_out_is_replaced_and_ends_with_its_last_page(own_temp, monkeypatch):
    monkeypatch.setattr("rag_eval_pipeline.corpus.rendering.browser.PAGES_PER_PROCESS", 3)
    async with EgressProxy(EgressPolicy()) as proxy, browser_pool(proxy) as pool:
        first = await pool.process()  # the proof that it is closed is a page, too
        async with first.context(scripts=False):
            printed = [await print_text(pool, n) for n in range(2)]  # one in each process
            both = len(os.listdir(own_temp))
        printed.append(await print_text(pool, "the first has no page left"))
        last = len(os.listdir(own_temp))

    assert len({page.pdf for page in printed}) == 3
    assert (both, last, pool.started) == (2, 1, 2)
    assert os.listdir(own_temp) == []


async def print_text(pool, text):
    return await render(pool, Body("html", f"<p>{text}".encode(), "http://document.invalid/x"), load_limit_s=PATIENCE_S)


async def test_browser_that_is_none_is_named(own_temp, monkeypatch):
    monkeypatch.setenv(EXECUTABLE_VARIABLE, "/bin/false")
    async with EgressProxy(EgressPolicy()) as proxy:
        pool = BrowserPool(proxy)
        with pytest.raises(ServiceError) as refused:
            await pool.process()
        await pool.close()

    assert refused.value.code == "browser_failed"
    assert "/bin/false" in refused.value.message
    assert os.listdir(own_temp) == []


def test_find_browser_takes_the_named_one_before_all_others(monkeypatch, tmp_path):
    program = tmp_path / "my browser"
    program.write_text("#!/bin/sh\necho Chromium 1.2.3\n")
    program.chmod(0o755)
    monkeypatch.setenv(EXECUTABLE_VARIABLE, str(program))
    assert find_browser() == program
    assert browser_version(program) == "Chromium 1.2.3"
    program.unlink()

    with pytest.raises(ServiceError) as refused:
        find_browser()
    assert refused.value.code == "browser_missing"


def test_launcher_ends_with_its_profile(tmp_path):
    folder = tmp_path / "it's here"
    folder.mkdir()

    launcher = write_launcher(folder, ["echo", "a b"])

    assert os.popen(f'"{launcher}" --user-data-dir=/x').read() == (
        f"a b --user-data-dir=/x --user-data-dir={folder}/home/profile\n"
    )
    assert (folder / "pid").read_text().strip().isdecimal()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root has capabilities to lose")
def test_launcher_of_root_without_capabilities_says_what_to_do(tmp_path):
    code = (
        "import pathlib, sys\n"
        "from rag_eval_pipeline.corpus.rendering.browser import write_launcher\n"
        "from rag_eval_pipeline.errors import ServiceError\n"
        "try:\n"
        "    write_launcher(pathlib.Path(sys.argv[1]), ['echo'])\n"
        "except ServiceError as error:\n"
        "    print(error)\n"
    )

    done = subprocess.run(
        ["setpriv", "--bounding-set=-chown", "--inh-caps=-chown", sys.executable, "-c", code, str(tmp_path)],
        capture_output=True, text=True, check=True, cwd=REPOSITORY,
    )  # fmt: skip

    assert "root without its capabilities" in done.stdout
    assert "[browser_failed]" in done.stdout
    assert "Run as a user who is not root" in done.stdout
