"""What is known of a system while it is asked, besides its settings: version, model, the workspace's commit.

Nothing of it is part of a fingerprint: a new build of the same system is what nights are compared for. The record of an
evaluation keeps it, and `known_changes` says what differs between two evaluations.
"""

import hashlib
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_eval_pipeline.evaluation.evaluation_folders import EvaluationRecord
from rag_eval_pipeline.systems.config import SystemFile
from rag_eval_pipeline.systems.json_paths import text_at

Known = Mapping[str, tuple[str, ...]]

VALUES_KEPT = 5  # of one name, such as models of a router
KEPT_CHARACTERS, SHOWN_CHARACTERS, START_CHARACTERS = 200, 40, 24
COMMAND_SECONDS = 10.0
OF_THE_SYSTEM = ("version", "model", "system_fingerprint")
NONE = "none"
NOT_A_CHANGE = frozenset({"kind", "date_set_by", "recording", "server.versions"})  # of a configuration
SETTINGS = "settings."
# Settings that a system's configuration does not state: prompts, and what is sent with each question.
SENT = ("system_prompt", "extra_body", "body", "params", "headers", "input", "arguments")


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
            text = " ".join(value.split())
            values[text if len(text) <= KEPT_CHARACTERS else _shown(text)] = None

    def read_settings(self, settings: Any) -> None:
        """Keep what the file says that is sent with each question, by its place in the file."""
        for path, place in ((SETTINGS, settings), (f"{SETTINGS}chat.", getattr(settings, "chat", None))):
            for field in SENT:
                if hasattr(place, field):
                    for name, text in _leaves(f"{path}{field}", getattr(place, field) or None):
                        self.add(name, text)

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
    old, new = stated(before), stated(now)
    since = f"{before.opened_at:%d} {before.opened_at:%B}".lstrip("0")
    if changes := changed_values(old, new):
        return f"Changed since {since}: {', '.join(changes)}; no other change is known."
    known = [name for name in OF_THE_SYSTEM if name in old and name in new]
    return f"Unchanged since {since}: {', '.join(known)}." if known else None


def changed_values(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return `name before → now` of each value of two states that differs.

    A value that only one of them has counts if it is a setting, and settings are known of both.
    """
    has_settings = all(any(name.startswith(SETTINGS) for name in state) for state in (old, new))
    changes = []
    for name in {**old, **new}:
        absent = NONE if has_settings and name.startswith(SETTINGS) else None
        before, now = old.get(name, absent), new.get(name, absent)
        if before is not None and now is not None and before != now:
            changes.append(f"{name} {_shown(before)} → {_shown(now)}")
    return changes


def stated(record: EvaluationRecord) -> dict[str, str]:
    """Return what was known while an evaluation was asked, by name: of the replies, of its settings, of the server."""
    found = {name: " and ".join(sorted(values)) for name, values in record.known.items()}
    for key, value in record.configuration.items():
        for name, text in _leaves(key, value):
            if text != NONE or name not in OF_THE_SYSTEM:
                found.setdefault(name, text)
    return found


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts, numbers and lists of a JSON value by their paths in it."""
    if name in NOT_A_CHANGE:
        return
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves(f"{name}.{key}", one)
    else:
        yield (
            name,
            NONE if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
        )


def _shown(text: str) -> str:
    """Return a text, if it is long its beginning and a digest by which it differs from others."""
    if len(text) <= SHOWN_CHARACTERS:
        return text
    return f"{text[:START_CHARACTERS]}… ({hashlib.sha256(text.encode()).hexdigest()[:6]})"
