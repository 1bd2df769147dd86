"""Any call of a writer fails or is its last: its files are the old or the new ones, and doing it again completes it."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from rag_eval_pipeline.storage.atomic_files import TEMP_PREFIX
from tests.faults.failing import FAULTS, Ended, Fault, Server, server
from tests.faults.writers import WRITERS, Writer

pytestmark = [
    pytest.mark.fault(54, 55),
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="needs Linux and gcc"),
]
# Who holds what, what is a cache, and what may be lost: the usage of the last seconds.
NO_PRODUCTS = ("*.lock", "*/spending/*")
TEMPORARY = re.compile(rf"(?<={re.escape(TEMP_PREFIX)})[0-9a-z_]+")
QUICK = ("kill", "ENOSPC", "EIO", "EMFILE", "short writes")
Tree = dict[str, bytes]


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("failing")) as running:
        yield running


class Trial:
    """A writer's files before it and after an undisturbed run, and the same files at a fault."""

    def __init__(self, forks: Server, name: str, folder: Path) -> None:
        self._forks, self._name = forks, name
        self._before, self.folder = folder / "before", folder / "work"
        self._before.mkdir()
        forks.prepare(name, self._before)
        self.old = tree(self._before)
        self.reset()
        ended = forks.run(name, self.folder)
        assert ended.code == 0, ended.output
        self.new = tree(self.folder)
        self._tried: set[int] = set()

    def reset(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self._before, self.folder, symlinks=True)

    def run(self, fault: Fault, at: int) -> Ended:
        """Run it from the beginning with a fault."""
        self.reset()
        return self._forks.run(self._name, self.folder, fault, at)

    def points(self, fault: Fault, *, further: int = 0) -> Iterator[Ended]:
        """Run it with a fault at each call, until there are no more; each step may be `further` than the last."""
        at = step = 1
        while (ended := self.run(fault, at)).hit:
            yield ended
            step += further
            at += step

    def do_again(self) -> Tree | None:
        """The files after a run without a fault, in the state that a fault has left; None for a state already tried."""
        state = hash(frozenset((TEMPORARY.sub("", name), data) for name, data in tree(self.folder).items()))
        if state in self._tried:
            return None
        ended = self._forks.run(self._name, self.folder)
        assert ended.code == 0, ended.output
        self._tried.add(state)
        return without_temporary(tree(self.folder))


def tree(folder: Path) -> Tree:
    """The files below a folder, and temporary folders."""
    found: Tree = {}
    for place, folders, names in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *names)):
            name = str(path.relative_to(folder))
            if path.is_symlink():
                found[name] = os.fsencode(os.readlink(path))
            elif path.is_file():
                found[name] = path.read_bytes()
            elif is_temporary(name):
                found[name] = b""
    return {name: data for name, data in found.items() if not any(fnmatch("/" + name, one) for one in NO_PRODUCTS)}


@cache
def is_temporary(name: str) -> bool:
    return any(part.startswith(TEMP_PREFIX) for part in name.split("/"))


def without_temporary(files: Tree) -> Tree:
    return {name: data for name, data in files.items() if not is_temporary(name)}


def is_old_or_new(writer: Writer, name: str, trial: Trial, found: Tree) -> bool:
    old, new, data = trial.old.get(name), trial.new.get(name), found.get(name)
    if name in writer.grows and data is not None and new is not None:
        return new.startswith(data) or data == old
    return data in (old, new) or (data is None and name in writer.between)


def is_of_a_removal(hit: str) -> bool:
    """Whether the call that failed was to remove a temporary file or folder, or to list what is in it."""
    call, _, file = hit.partition(" ")
    return call in ("unlink", "unlinkat", "rmdir") or (call.startswith(("open", "fdopen")) and TEMP_PREFIX in file)


def ends_with_a_line_about(output: str, folder: Path, fault: Fault) -> bool:
    """Whether it names a file, not the temporary one that would have become it, and what the system said of it."""
    line = output.splitlines()[-1]
    file = line.removeprefix("rag-eval: ").partition(": expected")[0]
    said = os.strerror(fault.errno) in line and str(folder) in line
    return said and "Traceback" not in output and not is_temporary(Path(file).name)


def check_writer(name: str, trial: Trial, fault: Fault, ended: Ended) -> None:
    """Check what a fault has left of a writer's files, and what doing it again makes of them."""
    writer = WRITERS[name]
    where = f"{ended.hit}: exit {ended.code}, {ended.output}"
    found = tree(trial.folder)
    files = without_temporary(found)
    assert fault.kills == (ended.code == -9), where
    assert [name for name in {**trial.old, **files} if not is_old_or_new(writer, name, trial, files)] == [], where
    if ended.code == 0:
        assert files == trial.new, where
    elif not fault.kills:
        assert ended.code in (2, 4), where
        assert ends_with_a_line_about(ended.output, trial.folder, fault), where
    if not fault.kills and set(writer.between) <= files.keys():
        assert found == files or is_of_a_removal(ended.hit), where
    assert trial.do_again() in (None, trial.new), where


@pytest.mark.fault(66)
@pytest.mark.parametrize("name", WRITERS)
def test_writer_leaves_old_or_new_files_and_goes_on(forks, tmp_path, name):
    trial = Trial(forks, name, tmp_path)

    for fault in map(FAULTS.__getitem__, QUICK):
        for ended in trial.points(fault, further=6):
            check_writer(name, trial, fault, ended)


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", WRITERS)
def test_writer_leaves_old_or_new_files_at_every_call(forks, tmp_path, name, fault):
    trial = Trial(forks, name, tmp_path)

    for ended in trial.points(FAULTS[fault]):
        check_writer(name, trial, FAULTS[fault], ended)
