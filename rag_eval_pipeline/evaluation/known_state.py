"""What is known of a system while it is asked, besides its settings: version, model, the workspace's commit.

Nothing of it is part of a fingerprint: a new build of the same system is what nights are compared for. The record of an
evaluation keeps it, and `known_changes` says what differs between two evaluations.
"""

import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_eval_pipeline.errors import shortened
from rag_eval_pipeline.evaluation.evaluation_folders import EvaluationRecord
from rag_eval_pipeline.systems.config import SystemFile
from rag_eval_pipeline.systems.json_paths import text_at

Known = Mapping[str, tuple[str, ...]]

VALUES_KEPT = 5  # of one name, such as models of a router
SHOWN_CHARACTERS = 40
COMMAND_SECONDS = 10.0
OF_THE_SYSTEM = ("version", "model", "system_fingerprint")
NOT_A_CHANGE = frozenset({"kind", "server", "date_set_by", "recording"})  # keys of a configuration


class KnownState:
    """Collects what one evaluation's replies tell; `values` has them by name, in the order of their arrival."""

    def __init__(self, file: SystemFile, folder: Path, earlier: Known) -> None:
        self._source = file.version_from
        self._folder = folder
        self._values = {name: dict.fromkeys(values) for name, values in earlier.items()}
        self._faults: list[str] = []

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The values by name."""
        return {name: tuple(values) for name, values in self._values.items()}

    def add(self, name: str, value: str | None) -> None:
        """Keep a value, one line of it."""
        values = self._values.setdefault(name, {}) if value else {}
        if value and len(values) < VALUES_KEPT:
            values[" ".join(value.split())[:200]] = None

    def read_version(self) -> None:
        """Keep the version that a file or a command states now."""
        source, found = self._source, None
        if source is not None and source.file is not None:
            path = self._folder / source.file
            if path.is_file():
                found = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
            else:
                self._faults.append(f"version_from: there is no file {source.file}")
        if source is not None and source.command is not None:
            found, fault = first_line(source.command, self._folder)
            self._faults += [] if fault is None else [f"version_from: {fault}"]
        self.add("version", found)

    def reply(self, value: Any) -> Any:
        """Read the JSON of a reply, and return it."""
        if isinstance(value, dict):
            stated = value.get("system_fingerprint")
            self.add("system_fingerprint", stated if isinstance(stated, str) else None)
            if self._source is not None and self._source.reply is not None:
                self.add("version", text_at(value, self._source.reply))
        return value

    def headers(self, headers: Mapping[str, str]) -> None:
        """Read the headers of a reply."""
        if self._source is not None and self._source.header is not None:
            self.add("version", headers.get(self._source.header))

    def warnings(self) -> list[str]:
        """Return why no version is known."""
        if self._faults or self._source is None or "version" in self._values:
            return self._faults
        return [f"version_from: no reply has {self._source.place}"]


def first_line(command: Sequence[str], folder: Path) -> tuple[str | None, str | None]:
    """Return the first line that a command prints, and why there is none."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        return None, f"{command[0]}: {error}"
    line = next(iter(done.stdout.split("\n")), "").strip()
    if done.returncode != 0 or not line:
        return None, f"{command[0]} printed nothing, or failed (exit {done.returncode}): {done.stderr.strip()[:200]}"
    return line, None


def workspace_commit(root: Path) -> str | None:
    """Return the commit of a workspace that is the root of a Git repository."""
    if not (root / ".git").exists():
        return None
    return first_line(("git", "rev-parse", "--short=12", "HEAD"), root)[0]


def known_changes(before: EvaluationRecord, now: EvaluationRecord) -> str | None:
    """Return a sentence on what is known to differ between two evaluations; None if nothing is known of the system."""
    old, new = _stated(before), _stated(now)
    changes = [f"{name} {old[name]} → {new[name]}" for name in new if name in old and old[name] != new[name]]
    since = f"{before.opened_at:%d} {before.opened_at:%B}".lstrip("0")
    if changes:
        return f"Changed since {since}: {', '.join(changes)}; nothing else that is known."
    known = [name for name in OF_THE_SYSTEM if name in old and name in new]
    return f"Unchanged since {since}: {', '.join(known)}." if known else None


def _stated(record: EvaluationRecord) -> dict[str, str]:
    found = {name: shortened(" and ".join(sorted(values)), SHOWN_CHARACTERS) for name, values in record.known.items()}
    for name, value in record.configuration.items():
        if name not in {*found, *NOT_A_CHANGE} and isinstance(value, str | int | float | bool):
            found[name] = shortened(str(value), SHOWN_CHARACTERS)
    return found
