"""A file that is unchanged by size, times and inode is hashed once; one that may have changed unseen is hashed again."""

import hashlib
import os
import shutil

import pytest

from rag_eval_pipeline.storage.digests import TICK_NS, FolderDigests, file_system_time_ns


def later(folder):
    """A clock an hour ahead: files written by a test were not changed just now."""
    return file_system_time_ns(folder) + 3600 * 10**9


def digests(tmp_path, **options):
    return FolderDigests(tmp_path / "corpus", tmp_path / "hashes", **{"now_ns": later, **options})


@pytest.fixture
def file(tmp_path):
    (tmp_path / "corpus").mkdir()
    path = tmp_path / "corpus" / "a.pdf"
    path.write_bytes(b"one")
    return path


@pytest.fixture
def recorded(tmp_path, file):
    first = digests(tmp_path)
    assert first.sha256("a.pdf") == sha256(b"one")
    first.save()
    return tmp_path / "hashes"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def forge(recorded):
    """Make the record say something wrong, so that it shows whether a file was read or trusted."""
    text = recorded.read_text()
    recorded.write_text(text.replace(sha256(b"one"), "0" * 64))
    assert recorded.read_text() != text


def test_unchanged_file_is_not_read_again(tmp_path, recorded):
    forge(recorded)

    assert digests(tmp_path).sha256("a.pdf") == "0" * 64


def test_verify_reads_every_file_and_mends_the_record(tmp_path, recorded):
    good = recorded.read_bytes()
    forge(recorded)

    verified = digests(tmp_path, verify=True)
    assert verified.sha256("a.pdf") == sha256(b"one")
    verified.save()

    assert recorded.read_bytes() == good


CHANGES = {
    "other size": lambda path, status: path.write_bytes(b"longer"),
    "same size in place, time put back": lambda path, status: (path.write_bytes(b"two"), put_back(path, status)),
    "replaced by a file of the same size and time": lambda path, status: (replace(path), put_back(path, status)),
    "copied with its times": lambda path, status: (shutil.copy2(path, f"{path}2"), os.replace(f"{path}2", path)),
}


def put_back(path, status):
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace(path):
    (path.parent / "new").write_bytes(b"two")
    os.replace(path.parent / "new", path)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_file_is_read(tmp_path, file, recorded, change):
    change(file, file.stat())

    assert digests(tmp_path).sha256("a.pdf") == sha256(file.read_bytes())


def test_file_changed_within_a_tick_of_hashing_is_not_recorded(tmp_path, file):
    for age in (0, TICK_NS, -(10**12)):  # the last: a file from the future, or a clock that was set back
        status = file.stat()
        newest = max(status.st_mtime_ns, status.st_ctime_ns)
        racy = digests(tmp_path, now_ns=lambda folder, age=age, newest=newest: newest + age)
        assert racy.sha256("a.pdf") == sha256(b"one")
        racy.save()
        assert not (tmp_path / "hashes").exists()


def test_record_is_written_only_when_it_changes(tmp_path, recorded):
    os.utime(recorded, ns=(1, 1))
    again = digests(tmp_path)
    again.sha256("a.pdf")
    again.save()
    assert recorded.stat().st_mtime_ns == 1

    (tmp_path / "corpus" / "a.pdf").unlink()
    gone = digests(tmp_path)
    assert gone.sha256("a.pdf") is None
    gone.save()
    assert recorded.read_bytes() == b"{}\n"


def test_copied_folder_is_hashed_again(tmp_path, recorded):
    forge(recorded)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "corpus", copy)

    assert FolderDigests(copy, recorded, now_ns=later).sha256("a.pdf") == sha256(b"one")


def test_damaged_record_is_ignored(tmp_path, recorded, caplog):
    recorded.write_bytes(recorded.read_bytes()[:20])

    assert digests(tmp_path).sha256("a.pdf") == sha256(b"one")
    assert "hashed again" in caplog.text


@pytest.mark.fault(26)
def test_link_and_folder_have_no_digest(tmp_path, file):
    (file.parent / "link").symlink_to(file)
    (file.parent / "folder").mkdir()

    assert [digests(tmp_path).sha256(name) for name in ("link", "folder", "none")] == [None] * 3
