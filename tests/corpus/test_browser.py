"""The browser runs confined and without rights, can reach nothing of this machine, and is found or named as missing."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from rag_eval_pipeline.corpus.rendering.browser import (
    EXECUTABLE_VARIABLE,
    TEMP_PREFIX,
    browser_version,
    find_browser,
    unprivileged_command,
    write_launcher,
)
from rag_eval_pipeline.corpus.rendering.page_loading import MEASURE
from rag_eval_pipeline.corpus.rendering.pool import BrowserPool, browser_pool, prove_egress_closed
from rag_eval_pipeline.corpus.rendering.render import render, renderer_fingerprint
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.web.block_pages import detect_block_page, page_facts
from rag_eval_pipeline.web.content_types import Body
from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy
from rag_eval_pipeline.web.egress_proxy import EgressProxy
from tests.conftest import REPOSITORY


def status(process: psutil.Process) -> dict[str, list[str]]:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return {name: value.split() for name, _, value in (line.partition(":") for line in lines)}


def renderers() -> list[psutil.Process]:
    """Processes that draw pages, below this one."""
    children = psutil.Process().children(recursive=True)
    found = []
    for child in children:
        with contextlib.suppress(psutil.Error):  # a spare renderer that has just ended
            if "--type=renderer" in " ".join(child.cmdline()):
                found.append(child)
    return found


@pytest.mark.browser
async def test_pages_are_confined_and_without_rights(own_temp, sandbox):
    async with EgressProxy(EgressPolicy()) as guard, browser_pool(guard) as pool:
        process = await pool.process()
        async with process.context(scripts=True) as context:
            await (await context.new_page()).set_content("<p>x")
            facts = [status(renderer) for renderer in renderers()]
            namespaces = {os.readlink(f"/proc/{renderer.pid}/ns/user") for renderer in renderers()}

    assert process.sandboxed
    assert facts
    for fact in facts:
        assert "0" not in fact["Uid"]
        assert fact["NoNewPrivs"] == ["1"]
        assert fact["Seccomp"] == ["2"]
        assert set(fact["CapEff"][0]) == {"0"}
    assert os.readlink("/proc/self/ns/user") not in namespaces
    assert os.listdir(own_temp) == []


class _Unchanged(dict):
    """An environment that nobody may change."""

    def __setitem__(self, name, value):
        pytest.fail(f"{name} was set for the whole process")


def _command_line(process):
    """None of its words once it has ended: an earlier test's child may not have been waited for yet."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.browser
async def test_the_drivers_temp_files_go_to_its_own_folder_and_other_threads_temp_files_do_not(own_temp, monkeypatch):
    async with EgressProxy(EgressPolicy()) as guard, browser_pool(guard) as pool:
        with monkeypatch.context() as patch:
            patch.setattr(os, "environ", _Unchanged(os.environ))
            await pool.process()
        drivers = [child for child in psutil.Process().children() if "run-driver" in _command_line(child)]
        [folder] = [Path(driver.environ()["TMPDIR"]) for driver in drivers]

        assert folder.name == "driver"
        assert folder.parent.name.startswith(TEMP_PREFIX)


@pytest.mark.browser
async def test_a_browser_that_could_reach_this_machine_is_not_used(own_temp):
    async with EgressProxy(EgressPolicy()) as guard, EgressProxy(EgressPolicy()) as other, browser_pool(other) as pool:
        process = await pool.process()
        async with process.context(scripts=False) as context:
            with pytest.raises(ServiceError) as refused:
                await prove_egress_closed(context, guard)  # the browser does not ask this guard

    assert refused.value.code == "egress_open"


@pytest.mark.browser
async def test_the_guard_lets_the_browser_through_to_what_is_allowed(own_temp):
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n<p>hello")

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        policy = EgressPolicy(EgressConfig(allowed_hosts=(host,)))
        async with (
            EgressProxy(policy) as guard,
            browser_pool(guard) as pool,
            (await pool.process()).context(scripts=True, proxy_url=guard.url_for(f"http://{host}/")) as context,
        ):
            page = await context.new_page()
            await page.goto(f"http://{host}/")
            text = await page.inner_text("body")

    assert text == "hello"


async def print_text(pool, text):
    return await render(pool, Body("html", f"<p>{text}".encode(), "http://document.invalid/x"), load_limit_s=10)


@pytest.mark.browser
async def test_a_worn_out_browser_is_replaced_and_ends_with_its_last_page(own_temp, monkeypatch):
    monkeypatch.setattr("rag_eval_pipeline.corpus.rendering.browser.PAGES_PER_PROCESS", 4)
    async with EgressProxy(EgressPolicy()) as guard, browser_pool(guard) as pool:
        printed = [await print_text(pool, n) for n in range(8)]
        folders = os.listdir(own_temp)

    assert len({page.pdf for page in printed}) == 8
    assert pool.started == 3  # the proof that it is closed is a page, too
    assert len(folders) == 1
    assert os.listdir(own_temp) == []


@pytest.mark.browser
async def test_a_retired_browser_ends_although_no_other_is_started(own_temp):
    async with EgressProxy(EgressPolicy()) as guard, browser_pool(guard) as pool:
        first = await pool.process()
        async with first.context(scripts=False):
            first.retired = True
            await print_text(pool, "while the first still has a page")
        await print_text(pool, "when it has none")
        folders = os.listdir(own_temp)

    assert pool.started == 2
    assert len(folders) == 1


@pytest.mark.browser
def test_the_fingerprint_is_known_without_starting_the_browser(monkeypatch):
    monkeypatch.setattr("rag_eval_pipeline.corpus.rendering.browser.async_playwright", None)

    assert renderer_fingerprint(find_browser()) == renderer_fingerprint(find_browser())
    assert "." in browser_version(find_browser())


async def test_a_program_that_is_no_browser_is_named(own_temp):
    async with EgressProxy(EgressPolicy()) as guard:
        pool = BrowserPool(guard, Path("/bin/false"))
        with pytest.raises(ServiceError) as refused:
            await pool.process()
        await pool.close()

    assert refused.value.code == "browser_failed"
    assert "/bin/false" in refused.value.message
    assert os.listdir(own_temp) == []


def test_a_named_browser_that_is_not_there_is_missing(monkeypatch):
    monkeypatch.setenv(EXECUTABLE_VARIABLE, "/nowhere/chromium")

    with pytest.raises(ServiceError) as refused:
        find_browser()

    assert refused.value.code == "browser_missing"


def test_a_named_browser_comes_before_all_others(monkeypatch, tmp_path):
    own = tmp_path / "my browser"
    own.write_text("#!/bin/sh\necho Chromium 1.2.3\n")
    own.chmod(0o755)
    monkeypatch.setenv(EXECUTABLE_VARIABLE, str(own))

    assert find_browser() == own
    assert browser_version(own) == "Chromium 1.2.3"


def test_the_launcher_ends_with_a_profile_of_its_own(tmp_path):
    folder = tmp_path / "it's here"
    folder.mkdir()

    launcher = write_launcher(folder, ["echo", "a b"])

    assert os.popen(f'"{launcher}" --user-data-dir=/x').read() == (
        f"a b --user-data-dir=/x --user-data-dir={folder}/home/profile\n"
    )
    assert (folder / "pid").read_text().strip().isdecimal()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give away")
def test_root_gives_its_rights_away():
    command = unprivileged_command(Path("/usr/bin/chromium"))

    assert command[0] == "setpriv"
    assert {"--reuid=65534", "--clear-groups", "--no-new-privs", "--bounding-set=-all"} <= set(command)
    assert command[-1] == "/usr/bin/chromium"


@pytest.mark.browser
async def test_what_a_killed_run_left_behind_is_removed_after_a_day(own_temp):
    dead = psutil.Popen(["/bin/true"])
    dead.wait()
    stale, fresh = own_temp / f"{TEMP_PREFIX}{dead.pid}-a", own_temp / f"{TEMP_PREFIX}{dead.pid}-b"
    for folder in (stale, fresh):
        folder.mkdir()
    os.utime(stale, (0, 0))

    async with EgressProxy(EgressPolicy()) as guard, browser_pool(guard) as pool:
        await pool.process()

    assert os.listdir(own_temp) == [fresh.name]
    fresh.rmdir()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root has capabilities to lose")
def test_root_without_its_capabilities_is_told_what_to_do(tmp_path):
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


def html_page(title: str, body: str) -> str:
    return f"<!doctype html><title>{title}</title>{body}"


ASKED = "https://site.example/guide/lamps"
PROSE = "<p>" + "The keeper trimmed the wick, wound the clockwork and wrote the weather into the book. " * 4 + "</p>"
BROWSER = {
    #                             page                                                                                              code
    "a wall by its title":       (html_page("Page not found", "<h1>Page not found</h1>"),                                          "soft_404"),
    "a visible password field":  (html_page("Site", "<form><input type=password></form>"),                                               "login_wall"),
    "an unseen password field":  (html_page("Site", "<p>Short.</p><div hidden><input type=password></div>"),                             None),
    "an empty page":             (html_page("Site", "<div></div><img width=500 height=500 style='visibility:hidden'>"),                  "empty_page"),
    "frames":                    ("<frameset cols='50%,50%'><frame src='data:text/html,a'><frame src='data:text/html,b'></frameset>", None),
    "a drawing":                 (html_page("Site", "<svg width=400 height=300><rect width=400 height=300 /></svg>"),                     None),
    "a component's own text":    (html_page("Site", "<x-a></x-a><script>document.querySelector('x-a').attachShadow({mode:'open'}).innerHTML='<p>Text'</script>"), None),
    "prose":                     (html_page("Page not found", PROSE * 3),                                                                None),
    "a form called title":       (html_page("Site", "<form name=title>Lamps</form>"),                                                    None),
    "unseen prose":              (html_page("Page not found", f"<div hidden>{PROSE * 3}</div>"),                                         "soft_404"),
}  # fmt: skip


@pytest.mark.browser
async def test_measure_finds_what_block_pages_are_detected_by(own_temp):
    found = {}
    async with EgressProxy(EgressPolicy()) as guard, browser_pool(guard) as pool:
        process = await pool.process()
        async with process.context(scripts=True) as context:
            view = await context.new_page()
            for name, (html, _) in BROWSER.items():
                await view.set_content(html)
                measured = await view.evaluate(MEASURE)
                seen = detect_block_page(page_facts(measured, url=ASKED, final_url=ASKED, body=html.encode()))
                found[name] = seen and seen.code

    assert found == {name: code for name, (_, code) in BROWSER.items()}
