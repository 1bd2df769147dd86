"""A child that reads untrusted files has bounded memory and files, and no secrets in its environment."""

import resource
import subprocess
import sys

import pytest

from rag_eval_pipeline.storage.process import child_environment, module_command

CHILD = """
import mmap, resource
from pathlib import Path
from rag_eval_pipeline.storage.process import set_cpu_limit, set_limits

held = mmap.mmap(-1, 100 << 20)  # mapped, but not resident
mapped = int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0]) << 10
set_limits(memory_bytes=256 << 20, file_bytes=1000)
set_cpu_limit(1000)
limit = resource.getrlimit(resource.RLIMIT_AS)[0]
print(abs(limit - mapped - (256 << 20)) < 16 << 20)  # what was mapped may change in between
bytearray(64 << 20)
try:
    bytearray(512 << 20)
except MemoryError:
    print("no memory")
print(resource.getrlimit(resource.RLIMIT_FSIZE), resource.getrlimit(resource.RLIMIT_CORE))
print(1000 < resource.getrlimit(resource.RLIMIT_CPU)[0] < 1100)
"""


def test_child_has_limits():
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == ["True", "no memory", "(1000, 1000) (0, 0)", "True"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000


@pytest.mark.fault(44)
def test_child_gets_no_secrets_and_imports_nothing_from_its_folder(monkeypatch):
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("LANG", "C.UTF-8")

    assert child_environment()["LANG"] == "C.UTF-8"
    assert "API_KEY" not in child_environment()
    assert module_command("json.tool", "x") == [sys.executable, "-P", "-m", "json.tool", "x"]
