"""On a file system that is really full: old files stay, the message says why, and work goes on when there is room."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

pytestmark = pytest.mark.fault(55)

SIZE = "256k"
FILL = """
import json, os, sys
from pathlib import Path
from rag_eval_pipeline.errors import os_fault
from rag_eval_pipeline.storage.atomic_files import atomic_write, atomic_write_all, replace_file
from rag_eval_pipeline.storage.journal import JournalWriter, read_journal

folder = Path(sys.argv[1])
results, journal = folder / "results.json", folder / "journal.jsonl"
atomic_write(results, b"old" * 20_000)
outcome = {}

def attempt(name, write):
    try:
        write()
    except OSError as error:
        outcome[name] = str(os_fault(error))
    else:
        outcome[name] = None

too_much = b"new" * 100_000
attempt("one", lambda: atomic_write(results, too_much))
attempt("replaced", lambda: replace_file(results, too_much))
attempt("several", lambda: atomic_write_all([(results, b"new"), (folder / "b", too_much)], temp_folder=folder))
outcome["old is kept"] = results.read_bytes() == b"old" * 20_000 and os.listdir(folder) == ["results.json"]
appended = 0
with JournalWriter(journal) as writer:
    def fill():
        global appended
        while True:
            writer.append({"number": appended, "text": "x" * 3000})
            appended += 1
    attempt("journal", fill)
    results.unlink()
    writer.append({"number": appended})
outcome["journal is whole"] = [record["number"] for record in read_journal(journal)] == list(range(appended + 1))
outcome["records"] = appended
print(json.dumps(outcome))
"""


@pytest.fixture
def full(tmp_path: Path):
    """Runs a script with a small file system of its own as its argument, seen by nobody else."""
    mount = f'mount -t tmpfs -o size={SIZE} none "$1"'
    private = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    folder = tmp_path / "small"
    folder.mkdir()
    try:
        subprocess.run([*private, mount, "sh", str(folder)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no small file system can be mounted: {getattr(error, 'stderr', b'') or error}")

    def run(script: str) -> dict[str, object]:
        done = subprocess.run(
            [*private, f'{mount} && exec "$0" -c "$2" "$1"', sys.executable, str(folder), script],
            check=True, capture_output=True, cwd=REPOSITORY,
        )  # fmt: skip
        return dict(json.loads(done.stdout))

    return run


def test_full_file_system_keeps_what_was_there(full, tmp_path):
    outcome = full(FILL)

    full_disk = "expected a place to read and write, found 'No space left on device' [os_error]."
    small = tmp_path / "small"
    assert outcome.pop("records") > 40
    assert outcome == {
        "one": f"{small}/results.json: {full_disk}",
        "replaced": f"{small}/results.json: {full_disk}",
        "several": f"{small}/b: {full_disk}",
        "journal": f"{small}/journal.jsonl: {full_disk}",
        "old is kept": True,
        "journal is whole": True,
    }
