"""What all tests share: other people's benchmarks, where they are there, and what is made once for all."""

import faulthandler
import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from rag_eval_pipeline.cli import main
from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.corpus.rendering import browser, page_loading, render
from rag_eval_pipeline.evaluation import system_state
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.formats.citation_marks import find_citations
from rag_eval_pipeline.monitoring import alerts
from rag_eval_pipeline.storage import process
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.systems.base import Citation
from rag_eval_pipeline.workspace import Workspace
from tests import forked_workers
from tests.paid_server import PaidServer, paid_server
from tests.patience import PATIENCE_S

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"
NO_SHARED = "no ../shared"
# The suite tries the same examples in each run; `make test-long` looks for new ones. There is no deadline, because tests
# share a busy machine.
settings.register_profile("release", deadline=None, max_examples=1_000, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", settings.get_profile("release"), max_examples=25, derandomize=True)
settings.load_profile("suite")
gc.set_threshold(20_000, 20, 20)  # the tests make few cycles; Python looks for some after 700 new objects
# Name -> folder with its source: the one that a clone shows as an example, and the small ones of `make demo-builtin`.
BUNDLED = {
    spec.parent.name: spec.parent
    for folder in (REPOSITORY / "data" / "sources", REPOSITORY / "examples" / "benchmarks" / "sources")
    for spec in sorted(folder.glob("*/benchmark.yaml"))
}
CONVERTED = ("skarn-railway", "cairnmoor-observatory")
# These wait for servers, daemons and browsers more than they compute: they begin first, those that wait longest before the
# others, and the rest fills their time.
WAITING = ("nights", "e2e", "deployment", "hostile", "egress")
MadeOnce = Callable[[str, Callable[[Path], None]], Path]
# Limits of the product that things reach only on a busy machine; a test of one of them sets it.
LIMITS_S = {
    page_loading: ("ALIVE_LIMIT_S", "SETTLE_LIMIT_S", "MEASURE_LIMIT_S"),
    render: ("ALIVE_LIMIT_S", "MEASURE_LIMIT_S", "RENDER_LIMIT_S", "PLAIN_LIMIT_S", "PRINT_LIMIT_S"),
    browser: ("_VERSION_LIMIT_S", "_CLOSE_LIMIT_S", "_DEATH_LIMIT_S"),
    system_state: ("COMMAND_SECONDS",),
    alerts: ("TIMEOUT_S",),
}
LIMITS_MS = {browser: ("_LAUNCH_LIMIT_MS", "_PROOF_LIMIT_MS"), page_loading: ("_PARSE_LIMIT_MS",)}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests that wait before the others; else their order stays."""

    def place(item: pytest.Item) -> int:
        parts = item.path.relative_to(REPOSITORY).parts
        return next((number for number, name in enumerate(WAITING) if name in parts), len(WAITING))

    items.sort(key=place)


class Stacks:
    """What faulthandler writes when a process of the suite crashes, in a file for each.

    Printed where it happens, it would end with the names of 170 modules, and most of its lines would be pytest's.
    """

    _TOOLS = tuple(f"/site-packages/{name}/" for name in ("_pytest", "execnet", "pluggy", "xdist"))

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="stacks-")

    def pytest_configure_node(self, node: Any) -> None:
        """Tells a process of pytest-xdist where to write."""
        node.workerinput["stacks"] = self._folder.name

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Prints the stacks after the failures."""
        for file in sorted(Path(self._folder.name).iterdir()):
            stack, _, _ = file.read_text(errors="replace").partition("\nExtension modules")
            if stack:
                terminalreporter.section(f"crash of {file.name}")
                lines = [line for line in stack.splitlines() if not any(tool in line for tool in self._TOOLS)]
                terminalreporter.write_line("\n".join(lines))

    def pytest_unconfigure(self) -> None:
        """Removes the files."""
        self._folder.cleanup()


@pytest.hookimpl(trylast=True)  # after pytest's own, which writes to the standard error
def pytest_configure(config: pytest.Config) -> None:
    """Keeps the stacks of processes that crash."""
    if (worker := getattr(config, "workerinput", None)) is not None:
        file = (Path(worker["stacks"]) / worker["workerid"]).open("w")
        config.add_cleanup(file.close)
        faulthandler.enable(file)
    elif config.pluginmanager.has_plugin("xdist"):
        config.pluginmanager.register(Stacks())


def shared_temp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The session's temporary folder; its processes have a folder each in it."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def _quick_children(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forks the children that read untrusted files from a process that has imported what they need.

    And the drivers of the browsers find what one of them has compiled.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NODE_COMPILE_CACHE", str(shared_temp(tmp_path_factory) / "compiled"))
        if sys.platform == "linux":
            patch.setattr(process, "_run", forked_workers.run)
        yield


@pytest.fixture(scope="session", autouse=True)
def _patient_product() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for limits, limit in ((LIMITS_S, PATIENCE_S), (LIMITS_MS, 1000 * PATIENCE_S)):
            for module, names in limits.items():
                for name in names:
                    patch.setattr(module, name, limit)
        yield


@pytest.fixture
def started_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such children are started, as they are outside of the suite: for tests of their limits."""
    monkeypatch.setattr(process, "_run", subprocess.run)


@pytest.fixture(scope="session")
def revisions_read_once() -> Iterator[None]:
    """Reads the 89 revisions of Dagster's databases once, and not for each of three databases of each instance."""
    from alembic.script import ScriptDirectory

    read = ScriptDirectory.from_config
    directories: dict[str | None, ScriptDirectory] = {}

    def from_config(config: Any) -> ScriptDirectory:
        location = config.get_alembic_option("script_location")
        return directories.get(location) or directories.setdefault(location, read(config))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", from_config)
        yield


def shared_folder(name: str) -> Path:
    """A folder of real benchmarks or official scorers' outputs, which are not in the repository; else a skip."""
    if not (SHARED / name).is_dir():
        pytest.skip(NO_SHARED)
    return SHARED / name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Gives all tests that are skipped for want of ../shared one place, so that pytest counts them in one line."""
    report = yield
    if isinstance(report.longrepr, tuple) and report.longrepr[2] == f"Skipped: {NO_SHARED}":
        report.longrepr = (__file__, shared_folder.__code__.co_firstlineno, report.longrepr[2])
    return report


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real benchmarks and official scorers' outputs."""
    return shared_folder("data").parent


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    """`made_once(name, make)` is a folder that one of the processes makes by `make(folder)`, and that all only read."""
    base = shared_temp(tmp_path_factory)

    def folder(name: str, make: Callable[[Path], None]) -> Path:
        root, made = base / name, base / f"{name}.made"
        with locked(base / f"{name}.lock", holder=f"process {os.getpid()}", exclusive=True):
            if not made.exists():
                shutil.rmtree(root, ignore_errors=True)  # of a process that failed
                root.mkdir()
                make(root)
                made.touch()
        return root

    return folder


@pytest.fixture(scope="session")
def bundled(made_once: MadeOnce) -> Path:
    """A workspace with the small benchmarks, all converted by the real converter with the real browser."""

    def make(root: Path) -> None:
        copy_settings(root)
        for name, source in BUNDLED.items():
            shutil.copytree(source, Workspace(root).benchmark(name).source)
            convert(Workspace(root), name)

    return made_once("bundled", make)


@pytest.fixture(scope="session")
def _converted(bundled: Path, made_once: MadeOnce) -> Path:
    """Two of the bundled benchmarks."""

    def make(root: Path) -> None:
        shutil.copytree(bundled / "data" / "config", root / "data" / "config")
        for name in CONVERTED:
            copy_benchmark(Workspace(bundled), name, root)

    return made_once("converted", make)


@pytest.fixture(scope="session")
def _evaluated(_converted: Path, made_once: MadeOnce) -> Path:
    """The same, evaluated with both bundled systems."""

    def make(root: Path) -> None:
        shutil.copytree(_converted, root, symlinks=True, dirs_exist_ok=True)
        workspace = Workspace(root)
        for benchmark in CONVERTED:
            for system in ("embedded", "embedded-weak"):
                evaluate(workspace, load_pair(workspace, benchmark, system))

    return made_once("evaluated", make)


@pytest.fixture
def evaluated(_evaluated: Path, tmp_path: Path) -> Workspace:
    """A copy of the test's own."""
    root = tmp_path / "workspace"
    shutil.copytree(_evaluated, root, symlinks=True)
    return Workspace(root)


def copy_settings(root: Path) -> None:
    """Copy the shipped settings, and `embedded-weak` of the small benchmarks, to a workspace."""
    for folder in (REPOSITORY / "data" / "config", REPOSITORY / "examples" / "benchmarks" / "config"):
        shutil.copytree(folder, root / "data" / "config", dirs_exist_ok=True)


def copy_benchmark(workspace: Workspace, name: str, root: Path) -> None:
    """Copy a converted benchmark into another workspace's folder, with what its conversion made."""
    paths = workspace.benchmark(name)
    for folder in (paths.source, paths.corpus, paths.dataset):
        shutil.copytree(folder, root / folder.relative_to(workspace.root), symlinks=True)
    for folder in (workspace.evaluation_datasets, workspace.ground_truth):
        target = root / folder.relative_to(workspace.root)
        target.mkdir(parents=True, exist_ok=True)
        for file in folder.glob(f"{name}_v*"):
            shutil.copy2(file, target)


@pytest.fixture
def workspace(_converted: Path, tmp_path: Path) -> Workspace:
    """A workspace of the test's own with two converted benchmarks, one of 40 questions, and nothing evaluated."""
    root = tmp_path / "workspace"
    shutil.copytree(_converted, root, symlinks=True)
    return Workspace(root)


@pytest.fixture
def rag_eval(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs a command in the workspace; returns exit code, standard output, standard error."""
    monkeypatch.chdir(workspace.root)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["rag-eval", *arguments])
        with pytest.raises(SystemExit) as exit_:
            main()
        captured = capsys.readouterr()
        return int(exit_.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def server() -> Iterator[PaidServer]:
    """A server that counts its questions; see `tests.paid_server`."""
    with paid_server() as server:
        yield server


def citations_in(answer: str, known_files: Collection[str]) -> tuple[Citation, ...]:
    """Return the citations `[file:page:start-end]` of an answer, in its order."""
    return tuple(
        Citation(span.file_name, span.start_char, span.end_char, span.page_number, marker.start, marker.end)
        for marker in find_citations(answer, known_files)
        for span in marker.spans
    )


def ranked(scored: dict[str, float]) -> list[str]:
    """Rank as trec_eval does: higher scores first, equal scores by the ids' bytes, the greatest first."""
    return sorted(sorted(scored, key=str.encode, reverse=True), key=lambda document: -scored[document])
