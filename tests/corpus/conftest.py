"""A loopback site, and a temp folder of its own for the browser."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.web.site import Site, serve


def descendants(*words: str) -> list[psutil.Process]:
    """Return the running processes below this one with all of these words in their command lines."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            line = " ".join(process.cmdline())
            if process.status() != psutil.STATUS_ZOMBIE and all(word in line for word in words):
                found.append(process)
    return found


def has_sandbox() -> bool:
    """Whether this machine lets a browser have its sandbox; containers often refuse user namespaces."""
    return subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="session")
def sandbox() -> None:
    """For tests of what only a browser with its sandbox does."""
    if not has_sandbox():
        pytest.skip("user namespaces are refused here: the browser has no sandbox, and pages from URLs are refused")


@pytest.fixture
def site() -> Iterator[Site]:
    yield from serve()


@pytest.fixture(scope="module")
def own_temp(tmp_path_factory) -> Iterator[Path]:
    """Where this module's browsers leave their files: another user can enter it, and no other test writes there."""
    tmp_path_factory.getbasetemp()  # settled now, or pytest would put its own folders in here, too
    folder = Path(tempfile.mkdtemp(prefix="corpus-test-"))
    folder.chmod(0o711)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setitem(os.environ, "TMPDIR", str(folder))
        yield folder
    shutil.rmtree(folder)
