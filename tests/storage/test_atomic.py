"""A published file is whole, readable by others, and leaves nothing beside it."""

import os
import resource
import stat

import pytest

from rag_eval_pipeline.errors import os_fault
from rag_eval_pipeline.storage.atomic_files import (
    atomic_write,
    atomic_write_all,
    atomic_write_json,
    publish,
    publishing,
)


def test_writer_that_fails_leaves_the_old_file_and_no_temp_file(tmp_path):
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def write_half():
        with publishing(target) as file:
            file.write(b"half of the ne")
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        write_half()

    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_of_several_files_none_is_published_when_one_cannot_be_written(tmp_path):
    (tmp_path / "a").write_bytes(b"old")

    with pytest.raises(TypeError):
        atomic_write_all([(tmp_path / "a", b"new"), (tmp_path / "b", None)], temp_folder=tmp_path / "temp")

    assert (tmp_path / "a").read_bytes() == b"old"
    assert not (tmp_path / "b").exists()
    assert list((tmp_path / "temp").iterdir()) == []


def test_mode_is_the_umasks_not_the_temp_files(tmp_path):
    before = os.umask(0o022)
    try:
        atomic_write(tmp_path / "one", b"")
        atomic_write_all([(tmp_path / "other", b"")], temp_folder=tmp_path / "temp")
    finally:
        os.umask(before)

    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("one", "other")} == {0o644}


def test_file_that_is_replaced_keeps_its_mode_and_the_link_to_it(tmp_path):
    private, link = tmp_path / "private", tmp_path / "settings" / "link"
    private.write_bytes(b"old")
    private.chmod(0o600)
    link.parent.mkdir()
    link.symlink_to("../private")

    atomic_write(link, b"new")

    assert link.is_symlink()
    assert (private.read_bytes(), stat.S_IMODE(private.stat().st_mode)) == (b"new", 0o600)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["link", "private", "settings"]


def test_nothing_sets_the_umask_which_all_threads_share(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask was set"))

    atomic_write(tmp_path / "file", b"")
    atomic_write_all([(tmp_path / "other", b"")], temp_folder=tmp_path / "temp")
    publish(tmp_path / "file", tmp_path / "moved")


WRITERS = {
    "one file": lambda target, data: atomic_write(target, data),
    "several files": lambda target, data: atomic_write_all([(target, data)], temp_folder=target.parent / "temp"),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_error_while_writing_names_the_file_that_was_to_be_published(tmp_path, write):
    target = tmp_path / "results.json"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, before[1]))
    try:
        with pytest.raises(OSError, match="results.json") as error:
            write(target, b"x" * 1_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert str(os_fault(error.value)).startswith(f"{target}: ")
    assert not target.exists()


def test_error_while_moving_names_the_file_that_was_to_be_published(tmp_path):
    target = tmp_path / "corpus"
    (target / "inside").mkdir(parents=True)

    with pytest.raises(OSError, match="corpus") as error:
        atomic_write(target, b"")

    assert str(os_fault(error.value)).startswith(f"{target}: ")


@pytest.mark.fault(32)
def test_json_refuses_nan(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        atomic_write_json(tmp_path / "file.json", {"mean": float("nan")})

    assert list(tmp_path.iterdir()) == []
