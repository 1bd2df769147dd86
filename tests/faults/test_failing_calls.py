"""Any call of a writer fails or is its last: its files are the old or the new ones, and doing it again completes it."""

import json
import os
import re
import shutil
import sys
import zlib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.report.made_from import RECORD
from rag_eval_pipeline.storage.files import TEMP_PREFIX
from rag_eval_pipeline.storage.journal import read_journal
from tests.faults.failing import FAULTS, NO_FAULT, Ended, Fault, Server, server
from tests.faults.writers import COMMANDS, WRITERS, Writer
from tools import golden

pytestmark = [
    pytest.mark.fault(54, 55),
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="needs Linux and gcc"),
]
# Who holds what, what is a cache, and what an interrupted evaluation may lose: the usage of its last seconds.
NO_PRODUCTS = ("*.lock", "*/spending/*", "*/resources.json")
TEMPORARY = re.compile(rf"(?<={re.escape(TEMP_PREFIX)})[0-9a-z_]+")
QUICK = ("kill", "ENOSPC", "EIO", "EMFILE", "short writes")
Tree = dict[str, bytes]


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("failing")) as running:
        yield running


class Trial:
    """A writer's files before it and after an undisturbed run, and the same files at a fault."""

    def __init__(self, forks: Server, name: str, folder: Path, before: Path | None = None) -> None:
        self._forks, self._name = forks, name
        self._before, self.folder = before or folder / "before", folder / "work"
        if before is None:
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


EVALUATION_ID = re.compile(r"eval_run_[0-9]+_[0-9]+")


def names(files: Tree) -> list[str]:
    """The names of files; which evaluations there are depends on the attempts before.

    Nothing records what a report was made from that warned of a file.
    """
    return sorted({EVALUATION_ID.sub("", name) for name in files if not name.endswith(RECORD)})


def names_evaluation(name: str, data: bytes) -> bool:
    """Whether a file is of an evaluation, or says which is the last."""
    return EVALUATION_ID.search(name) is not None or b"eval_run_" in data or name.endswith(".last_id")


def damaged(folder: Path, files: Tree) -> list[str]:
    """The files that are not whole: no JSON, no table, or a journal with a bad line before its last."""
    found = []
    for name in files:
        try:
            if name.endswith(".json"):
                json.loads(files[name])
            elif name.endswith(".parquet"):
                pq.read_table(folder / name)
            elif name.endswith("journal.jsonl"):
                list(read_journal(folder / name))
        except (ValueError, pa.ArrowException, InputError):
            found.append(name)
    return found


class CommandTrial(Trial):
    """A command in a workspace, in which some files depend on the clock.

    Args:
        steady: Files that two undisturbed runs write alike.
    """

    def __init__(self, forks: Server, name: str, folder: Path, before: Path) -> None:
        super().__init__(forks, name, folder, before)
        self.undisturbed = folder / "undisturbed"
        shutil.copytree(self.folder, self.undisturbed, symlinks=True)
        assert self.run(NO_FAULT, 0).code == 0
        again = tree(self.folder)
        assert names(again) == names(self.new)
        self.steady = {name: data for name, data in again.items() if self.new.get(name) == data}

    def check(self, fault: Fault, at: int) -> bool:
        """Check what a fault does; False if there are fewer calls."""
        ended = self.run(fault, at)
        if not ended.hit:
            return False
        where = f"call {at}, {ended.hit}: exit {ended.code}, {ended.output}"
        found = tree(self.folder)
        files = without_temporary(found)
        assert damaged(self.folder, files) == [], where
        assert fault.kills == (ended.code == -9), where
        if ended.code == 0:
            self.check_completed(files, where)
        elif not fault.kills:
            assert ended.code in (2, 4), where
            assert os.strerror(fault.errno) in ended.output, where
            assert "Traceback" not in ended.output, where
        assert fault.kills or found == files or is_of_a_removal(ended.hit), where
        is_complete = names(files) == names(self.new)  # an evaluation would be followed by another
        completed = None if is_complete else self.do_again()
        if completed is not None:
            self.check_completed(completed, where)
        return True

    def check_completed(self, files: Tree, where: str) -> None:
        assert names(files) == names(self.new), where
        evaluations = [{number for name in one for number in EVALUATION_ID.findall(name)} for one in (files, self.new)]
        steady = self.steady
        if evaluations[0] != evaluations[1]:
            steady = {name: data for name, data in steady.items() if not names_evaluation(name, data)}
        assert [name for name, data in steady.items() if files.get(name) != data] == [], where
        differences = [
            one
            for one in golden.compare(self.undisturbed, self.folder, renames={})
            if EVALUATION_ID.sub("", str(one.before)) != EVALUATION_ID.sub("", str(one.after))
        ]
        assert differences == [], f"{differences[:3]} after {where}"


@pytest.fixture(scope="module")
def trial(forks, tmp_path_factory):
    """`trial(command)`: the workspace that all commands find is made once."""
    workspace = tmp_path_factory.mktemp("workspace")
    forks.prepare("convert", workspace)
    return cache(lambda name: CommandTrial(forks, name, tmp_path_factory.mktemp(name), workspace))


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.fault(66)
@pytest.mark.parametrize("name", COMMANDS)
def test_command_leaves_whole_files_at_every_tenth_call(trial, name, fault):
    at = 1 + zlib.crc32(f"{name} {fault}".encode()) % 10
    while trial(name).check(FAULTS[fault], at):
        at += 10
