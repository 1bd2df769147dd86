"""A corpus of web pages printed: this builder against the bare browser and against what is usually written, in one run.

    python bench/rendering.py [--pages 300] [--rounds 2] [--steps]

Prints the articles of bench/article_site.py, which a server of its own process gives out on loopback:

- floor: raw Chrome DevTools Protocol over a websocket, one page used again and again, nothing but `Page.navigate`, the
  load event and `Page.printToPDF`: what the browser itself costs, without isolation, guard or any care for the result;
- command line: `--headless --print-to-pdf`, one browser a page, as many at once as there are cores;
- naive: a Playwright and a browser launched for each page, `networkidle`, `page.pdf`; with the full `chromium`, if the
  machine has one, and with the headless shell;
- corpus: `build_corpus` of planned URLs into an empty folder: fetched and rendered behind the guard, settled, repaired;
- corpus again: the same once more, of which nothing may be rendered, requested or changed.

With `--steps` the way from the floor to the corpus instead, and the CPU of each kind of process, sampled:

- contexts: the floor with a fresh browser context for each page, which no page shares with another;
- prepared: that, every request intercepted and sent through the egress proxy, each page settled, measured, repaired,
  and the text read from its PDF: all that the corpus does to a page, still by the raw protocol. What the corpus needs
  beyond it are the fetch of each page and Playwright.

The naive rows and the command line print every n-th page only, because they are slow. All configurations take turns in
each round; a row is the sum of its rounds. The last column counts the files that are byte-identical in all rounds,
dates masked; of `corpus again`, those equal to what `corpus` had made.

CPU is user and system time of the whole process tree, Python, the driver and every browser process, without this
script's own imports. Each measurement is a child of this process, which is made the reaper of its orphans
(PR_SET_CHILD_SUBREAPER). So whatever a child leaves behind, such as a browser's zygote or a driver that nobody waited
for, is waited for here, and RUSAGE_CHILDREN holds the exact sum once all of it has ended. Sampling with psutil misses
processes that live shortly, of which these browsers start half a dozen each, and a cgroup needs rights that a user of a
container seldom has; on a machine that had one, both sums differed by less than 0.1 %. Starting a browser is part of a
row: with few pages it weighs.
"""

import argparse
import asyncio
import base64
import contextlib
import ctypes
import hashlib
import importlib.resources
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from article_site import paths

from rag_eval_pipeline.corpus.rendering.browser import (
    browser_temp,
    find_browser,
    unprivileged_command,
    write_launcher,
)
from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy

NAIVE_PAGES, COMMAND_LINE_PAGES = 24, 60  # of the slow configurations
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
LEFTOVER_LIMIT_S = 20.0
PAGE_LIMIT_S = 60.0
INCH_MM = 25.4
PAPER = {"paperWidth": 210 / INCH_MM, "paperHeight": 297 / INCH_MM, "printBackground": True, "generateTaggedPDF": False}
PAPER |= {f"margin{side}": 12 / INCH_MM for side in ("Top", "Bottom", "Left", "Right")}

SAMPLE_EVERY_S = 0.1
STEPS = ("floor", "contexts", "prepared", "corpus")
KINDS = ("renderer", "browser", "GPU", "other", "Playwright", "Python", "PDF text")

Digests = dict[str, str]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pages", type=int, default=300)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--steps", action="store_true", help="from the floor to the corpus, by kind of process")
    arguments.add_argument("--only", choices=CONFIGURATIONS, help=argparse.SUPPRESS)
    arguments.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments.add_argument("--site", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.only is not None:
        print(json.dumps(measure(given.only, given.folder, given.site, given.pages)))
        return
    adopt_orphans()
    place = tempfile.TemporaryDirectory(prefix="rendering-", dir=browser_temp())
    with article_site(given.pages) as (site, server), place as name:
        folder = Path(name)
        folder.chmod(0o711)  # the browser is another user when this one is root
        names = STEPS if given.steps else [name for name in CONFIGURATIONS if name not in ("contexts", "prepared")]
        rounds = [run_round(folder / f"round {n + 1}", names, site, given.pages, server) for n in range(given.rounds)]
    print_table(rounds)
    if given.steps:
        print_kinds(rounds)


def run_round(folder: Path, names: Sequence[str], site: str, pages: int, server: int) -> dict[str, dict[str, Any]]:
    """What each configuration needed, by its name."""
    folder.mkdir(mode=0o711)
    found = {}
    for name in names:
        if name == "naive, full browser" and full_browser() is None:
            continue
        options = ["--only", name, "--folder", str(folder), "--site", site, "--pages", str(pages)]
        print(f"  {folder.name}: {name}", file=sys.stderr, flush=True)
        requests, cpu = request_count(site), children_cpu()
        try:
            child = subprocess.Popen([sys.executable, __file__, *options], stdout=subprocess.PIPE, text=True)
            with ThreadPoolExecutor(1) as thread:
                sampling = thread.submit(sample_cpu, child)
                output = child.communicate()[0]
        finally:
            reap_orphans(but=server)
        if child.returncode != 0:
            raise SystemExit(f"{name}: ended with exit code {child.returncode}")
        found[name] = json.loads(output.splitlines()[-1])
        found[name]["cpu"] = children_cpu() - cpu - found[name]["imports"]
        found[name]["kinds"] = sampling.result() - Counter({"Python": found[name]["imports"]})
        found[name]["requests"] = request_count(site) - requests
    shutil.rmtree(folder)
    return found


def print_table(rounds: Sequence[dict[str, dict[str, Any]]]) -> None:
    print(f"\n{'':26}{'pages':>7}{'CPU-s/page':>12}{'pages/s':>9}{'vs floor':>10}{'vs naive':>10}  files identical")
    cpu = {
        name: sum(found[name]["cpu"] for found in rounds) / sum(len(found[name]["files"]) for found in rounds)
        for name in rounds[0]
    }
    naive = next((name for name in cpu if name.startswith("naive")), None)
    for name, a_page in cpu.items():
        files = [found[name]["files"] for found in rounds]
        if name == "corpus again":
            files += [found["corpus"]["files"] for found in rounds]
        same = sum(len({found[file] for found in files}) == 1 for file in files[0])
        pages_a_second = sum(map(len, (found[name]["files"] for found in rounds))) / total(rounds, name, "seconds")
        vs_naive = f"{cpu[naive] / a_page:.1f}x" if naive else "-"
        print(
            f"{name:26}{len(files[0]):7}{a_page:12.4f}{pages_a_second:9.2f}{a_page / cpu['floor']:9.2f}x"
            f"{vs_naive:>10}  {f'{same} of {len(files[0])}' if len(files) > 1 else '-'}"
        )
    again = "corpus again"
    if again in rounds[0]:
        print(
            f"\nvs naive: against {naive!r}. corpus: {total(rounds, 'corpus', 'pictures drawn')} of "
            f"{total(rounds, 'corpus', 'pictures')} pictures drawn. {again}: "
            f"{total(rounds, again, 'renders')} renders, {total(rounds, again, 'requests')} requests, "
            f"{total(rounds, again, 'seconds') / len(rounds):.2f} s a build."
        )
    if any(found["corpus"]["no_sandbox"] for found in rounds):
        print("The browser had no sandbox: this machine refuses it.")


def print_kinds(rounds: Sequence[dict[str, dict[str, Any]]]) -> None:
    print(f"\n{'CPU-s/page, sampled':26}" + "".join(f"{kind:>11}" for kind in KINDS))
    for name in rounds[0]:
        pages = sum(len(found[name]["files"]) for found in rounds)
        print(
            f"{name:26}" + "".join(f"{sum(found[name]['kinds'][k] for found in rounds) / pages:11.3f}" for k in KINDS)
        )


def sample_cpu(child: "subprocess.Popen[str]") -> "Counter[str]":
    """CPU seconds by kind of process of a child and its descendants, as last seen before each ended."""
    last: dict[int, tuple[str, float]] = {}
    while child.returncode is None:
        with contextlib.suppress(psutil.Error):
            tree = psutil.Process(child.pid)
            for process in [tree, *tree.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    used = process.cpu_times()
                    if command := " ".join(process.cmdline()):  # a zombie has none
                        last[process.pid] = kind_of(command), used.user + used.system
        time.sleep(SAMPLE_EVERY_S)
    seconds: Counter[str] = Counter()
    for kind, used_s in last.values():
        seconds[kind] += used_s  # type: ignore[assignment]  # typeshed counts in whole numbers
    return seconds


def kind_of(command: str) -> str:
    signs = {"--type=renderer": "renderer", "--type=gpu": "GPU", "--type=": "other", "pdf_worker": "PDF text"}
    signs |= {"run-driver": "Playwright", "rendering.py": "Python"}
    return next((kind for sign, kind in signs.items() if sign in command), "browser")


def total(rounds: Sequence[dict[str, dict[str, Any]]], name: str, field: str) -> Any:
    return sum(found[name][field] for found in rounds)


def measure(name: str, folder: Path, site: str, pages: int) -> dict[str, Any]:
    """Runs in a process of its own: prints the pages in one way, and says how long it took and what came of it."""
    import httpx  # noqa: F401  # what the configurations import when they run
    import playwright.async_api  # noqa: F401
    import playwright.sync_api  # noqa: F401
    import pyarrow.parquet
    import websockets.asyncio.client  # noqa: F401

    import rag_eval_pipeline.corpus.builder
    import rag_eval_pipeline.corpus.manifest  # noqa: F401

    pyarrow.array([1])  # makes Arrow look for pandas, and import it
    urls = [f"{site}{path}" for path in paths(pages)]
    imports, started = time.process_time(), time.perf_counter()
    found = CONFIGURATIONS[name](urls, folder)
    return {"imports": imports, "seconds": time.perf_counter() - started, **found}


def floor(urls: Sequence[str], folder: Path) -> dict[str, Any]:
    return {"files": asyncio.run(print_by_protocol(urls, folder))}


def contexts(urls: Sequence[str], folder: Path) -> dict[str, Any]:
    return {"files": asyncio.run(print_in_contexts(urls, folder))}


def prepared(urls: Sequence[str], folder: Path) -> dict[str, Any]:
    return {"files": asyncio.run(print_prepared(urls, folder))}


async def print_by_protocol(urls: Sequence[str], folder: Path) -> Digests:
    files = {}
    async with raw_browser(folder / "floor") as call:
        session = await open_page(call)
        for url in urls:
            await navigate(call, session, url)
            files[url] = digest(await print_page(call, session))
    return files


async def print_in_contexts(urls: Sequence[str], folder: Path) -> Digests:
    files = {}
    async with raw_browser(folder / "contexts") as call:
        for url in urls:
            async with fresh_context(call) as session:
                await navigate(call, session, url)
                files[url] = digest(await print_page(call, session))
    return files


async def print_prepared(urls: Sequence[str], folder: Path) -> Digests:
    from rag_eval_pipeline.corpus.rendering.page_loading import SETTLE_OPTIONS
    from rag_eval_pipeline.corpus.rendering.render import count_printed_words
    from rag_eval_pipeline.corpus.text.pdf import read_texts
    from rag_eval_pipeline.web.egress_proxy import EgressProxy

    files = {}
    async with EgressProxy(site_policy(urls)) as proxy, raw_browser(folder / "prepared") as call:
        for url in urls:
            guard = {"proxyServer": proxy.url_for(url), "proxyBypassList": "<-loopback>"}
            async with fresh_context(call, **guard) as session:
                await call("Fetch.enable", session, patterns=[{"urlPattern": "*"}])
                await call("Page.addScriptToEvaluateOnNewDocument", session, source=script("prepare"))
                await navigate(call, session, url)
                await evaluate(call, session, script("settle"), json.dumps(SETTLE_OPTIONS))
                await evaluate(call, session, script("measure"))
                seen, _ = await evaluate(call, session, script("seen"))
                await call("Emulation.setEmulatedMedia", session, media="print")
                await evaluate(call, session, script("repair"))
                pdf = await print_page(call, session)
            texts = await asyncio.to_thread(read_texts, pdf)
            await asyncio.to_thread(count_printed_words, seen, texts)
            files[url] = digest(pdf)
    return files


def script(name: str) -> str:
    scripts = importlib.resources.files("rag_eval_pipeline.corpus.rendering") / "scripts"
    return (scripts / f"{name}.js").read_text(encoding="utf-8")


async def open_page(call: "Protocol", **options: str) -> str:
    target = (await call("Target.createTarget", url="about:blank", **options))["targetId"]
    session: str = (await call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
    await call("Page.enable", session)
    return session


@contextlib.asynccontextmanager
async def fresh_context(call: "Protocol", **options: str) -> AsyncIterator[str]:
    context = (await call("Target.createBrowserContext", **options))["browserContextId"]
    yield await open_page(call, browserContextId=context)
    await call("Target.disposeBrowserContext", browserContextId=context)


async def navigate(call: "Protocol", session: str, url: str) -> None:
    loaded = call.event(session, "Page.loadEventFired")
    await call("Page.navigate", session, url=url)
    await asyncio.wait_for(loaded, PAGE_LIMIT_S)


async def evaluate(call: "Protocol", session: str, function: str, argument: str = "") -> Any:
    expression = f"({function.strip().removesuffix(';')})({argument})"
    found = await call("Runtime.evaluate", session, expression=expression, awaitPromise=True, returnByValue=True)
    if "exceptionDetails" in found:
        raise SystemExit(f"a script failed: {found['exceptionDetails']}")
    return found["result"].get("value")


async def print_page(call: "Protocol", session: str) -> bytes:
    return base64.b64decode((await call("Page.printToPDF", session, **PAPER))["data"])


class Protocol:
    """Commands of the Chrome DevTools Protocol, and the next event of a kind; intercepted requests are continued."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.numbers = itertools.count(1)
        self.waiting: dict[Any, asyncio.Future[Any]] = {}

    async def __call__(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        number = next(self.numbers)
        answer = self.waiting[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": parameters}
        await self.socket.send(json.dumps(message | ({"sessionId": session} if session else {})))
        answered = await answer
        if "error" in answered:
            raise RuntimeError(f"{method}: {answered['error']}")
        return answered["result"]

    def event(self, session: str, method: str) -> "asyncio.Future[Any]":
        return self.waiting.setdefault((session, method), asyncio.get_running_loop().create_future())

    async def listen(self) -> None:
        async for text in self.socket:
            message = json.loads(text)
            if message.get("method") == "Fetch.requestPaused":
                asked = {"requestId": message["params"]["requestId"]}
                command = {"id": next(self.numbers), "method": "Fetch.continueRequest", "params": asked}
                await self.socket.send(json.dumps(command | {"sessionId": message["sessionId"]}))
                continue
            waiting = self.waiting.pop(message.get("id") or (message.get("sessionId"), message["method"]), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)


@contextlib.asynccontextmanager
async def raw_browser(folder: Path) -> AsyncIterator[Protocol]:
    """The same browser as the corpus builder's, run as the same user, without Playwright and without the guard."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed

    folder.mkdir(mode=0o711)
    launcher = write_launcher(folder, unprivileged_command(find_browser()))
    options = ["--headless", "--remote-debugging-port=0", "--no-first-run", *sandbox_options()]
    process = subprocess.Popen([launcher, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port_file = folder / "home" / "profile" / "DevToolsActivePort"
        until = time.monotonic() + PAGE_LIMIT_S
        while not (port_file.exists() and port_file.read_text().count("\n")):
            if time.monotonic() > until or process.poll() is not None:
                raise SystemExit("floor: the browser did not start")
            await asyncio.sleep(0.02)
        port, path = port_file.read_text().split("\n")[:2]
        address = f"ws://127.0.0.1:{port}{path}"
        async with connect(address, max_size=None, compression=None, ping_interval=None) as socket:
            protocol = Protocol(socket)
            listening = asyncio.create_task(protocol.listen())
            yield protocol
            await protocol("Browser.close")
            with contextlib.suppress(ConnectionClosed):  # the browser ends without taking leave
                await listening
        await asyncio.to_thread(process.wait, LEFTOVER_LIMIT_S)
    finally:
        process.kill()
        process.wait()


def command_line(urls: Sequence[str], folder: Path) -> dict[str, Any]:
    def print_one(numbered: tuple[int, str]) -> bytes:
        number, url = numbered
        own = folder / f"command-line-{number}"
        own.mkdir(mode=0o711)
        launcher = write_launcher(own, unprivileged_command(find_browser()))
        printed = own / "home" / "page.pdf"
        options = ["--headless", "--no-pdf-header-footer", f"--print-to-pdf={printed}", *sandbox_options(), url]
        asked = [str(launcher), *options]
        subprocess.run(asked, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PAGE_LIMIT_S, check=True)
        data = printed.read_bytes()
        shutil.rmtree(own)
        return data

    some = every_nth(urls, COMMAND_LINE_PAGES)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return {"files": dict(zip(some, map(digest, threads.map(print_one, enumerate(some))), strict=True))}


def naive_full(urls: Sequence[str], folder: Path) -> dict[str, Any]:
    return naive(urls, str(full_browser()))


def naive_shell(urls: Sequence[str], folder: Path) -> dict[str, Any]:
    return naive(urls, str(find_browser()))


def naive(urls: Sequence[str], executable: str) -> dict[str, Any]:
    """What is usually written, down to the sandbox that Playwright leaves off."""
    from playwright.sync_api import sync_playwright

    files = {}
    for url in every_nth(urls, NAIVE_PAGES):
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=executable)
            page = browser.new_page()
            page.goto(url, wait_until="networkidle")
            files[url] = digest(page.pdf(format="A4", print_background=True))
            browser.close()
    return {"files": files}


def corpus(urls: Sequence[str], folder: Path) -> dict[str, Any]:
    """What `rag-eval convert` does with URLs; the manifest of an earlier build is used if there is one."""
    from rag_eval_pipeline.corpus.builder import build_corpus
    from rag_eval_pipeline.corpus.documents import FileName, PlannedDocument
    from rag_eval_pipeline.corpus.manifest import read_manifest, write_manifest

    planned = [
        PlannedDocument(key=url, names=(FileName(f"{url.rpartition('/')[2]}.pdf", url),), body="url", url=url)
        for url in urls
    ]
    manifest = folder / "documents.parquet"
    rows = build_corpus(planned, folder / "corpus", read_manifest(manifest), site_policy(urls))
    write_manifest(manifest, rows)
    for row in rows:
        if row.error:
            raise SystemExit(f"{row.key}: {row.error}")
    return {
        "files": {str(row.url): str(row.pdf_sha256) for row in rows},
        "renders": sum(row.seconds > 0 for row in rows),
        "pictures": sum(row.images_expected for row in rows),
        "pictures drawn": sum(row.images_drawn for row in rows),
        "no_sandbox": any("no_sandbox" in row.flags for row in rows),
    }


def site_policy(urls: Sequence[str]) -> EgressPolicy:
    return EgressPolicy(EgressConfig(allowed_hosts=(urlsplit(urls[0]).netloc,), allow_no_sandbox=True))


# In the order of a round: `corpus again` finds what `corpus` has left in the round's folder.
CONFIGURATIONS: dict[str, Callable[[Sequence[str], Path], dict[str, Any]]] = {
    "floor": floor,
    "contexts": contexts,
    "prepared": prepared,
    "command line": command_line,
    "naive, full browser": naive_full,
    "naive, headless shell": naive_shell,
    "corpus": corpus,
    "corpus again": corpus,
}


def every_nth(urls: Sequence[str], count: int) -> Sequence[str]:
    """At most `count` of the URLs, evenly spread."""
    return urls[:: -(-len(urls) // count)]


def digest(pdf: bytes) -> str:
    from rag_eval_pipeline.corpus.text.pdf import fix_dates

    if not pdf.startswith(b"%PDF-"):
        raise SystemExit("what was printed is no PDF")
    return hashlib.sha256(fix_dates(pdf)).hexdigest()


def full_browser() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


def sandbox_options() -> list[str]:
    allowed = subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False).returncode == 0
    return [] if allowed else ["--no-sandbox"]


@contextlib.contextmanager
def article_site(pages: int) -> Iterator[tuple[str, int]]:
    """The running site's address and process id; it ends when its standard input does, thus at the latest with us."""
    command = [sys.executable, str(Path(__file__).with_name("article_site.py")), "--serve", "--pages", str(pages)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port, made_of = (server.stdout.readline().strip() for _ in range(2))
        print(f"{made_of}; {os.cpu_count()} cores", flush=True)
        yield f"http://127.0.0.1:{port}", server.pid


def request_count(site: str) -> int:
    # Without the environment's proxies: the site is on this machine.
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{site}/requests") as answer:
        return int(answer.read())


def adopt_orphans() -> None:
    """Makes this process the parent of every descendant whose own parent ends, instead of the machine's first one."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise SystemExit(f"orphans cannot be adopted: {os.strerror(ctypes.get_errno())}")


def reap_orphans(*, but: int) -> None:
    """Waits for what a measurement has left behind; what does not end by itself is ended, and counts as well."""
    until = time.monotonic() + LEFTOVER_LIMIT_S
    while left := [child for child in psutil.Process().children() if child.pid != but]:
        for child in left:
            if time.monotonic() > until:
                child.kill()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, os.WNOHANG)
        time.sleep(0.01)


def children_cpu() -> float:
    """User and system seconds of all children that have been waited for, with theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
