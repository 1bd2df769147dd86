"""Files of baselines: the evaluations a pair is compared with, and the verdicts of the nights since then.

`data/evaluation/baselines/<benchmark>/<system>.json` names a pair's pinned runs;
`data/evaluation/nights/<benchmark>/<system>/<baseline>.json` has the verdict of each night since they were pinned.
"""

import hashlib
from pathlib import Path
from typing import ClassVar

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, SchemaVersion
from rag_eval_pipeline.workspace import Workspace, check_name

BY_HAND = "a person"
REGRESSIONS = "regressions.json"  # of the newest evaluations, provisional ones among them


class Baseline(FileModel):
    """The pinned evaluations that a pair is compared with."""

    file_type: ClassVar[str] = "baseline"

    schema_version: SchemaVersion = SCHEMA_VERSION
    # Evaluation ids: five, or one of a deterministic system.
    evaluations: tuple[str, ...] = pydantic.Field(min_length=1)
    # Nights that began later are compared with it; absent, those after its last evaluation.
    pinned_at: pydantic.AwareDatetime | None = None
    pinned_by: str = BY_HAND  # `the first nights`, or `a person`
    note: str | None = None  # why it was pinned, for people


def baseline_file(workspace: Workspace, benchmark: str, system: str) -> Path:
    """Return the file of a pair's baseline."""
    return workspace.baselines / check_name("benchmark", benchmark) / f"{check_name('system', system)}.json"


def read_baseline(workspace: Workspace, benchmark: str, system: str) -> Baseline | None:
    """Read a pair's baseline; None if none is pinned.

    Raises:
        InputError: `bad_format`.
    """
    path = baseline_file(workspace, benchmark, system)
    return Baseline.read(path) if path.exists() else None


def required_baseline(workspace: Workspace, benchmark: str, system: str) -> Baseline:
    """Read a pair's baseline; raises `no_baseline` if none is pinned."""
    baseline = read_baseline(workspace, benchmark, system)
    if baseline is None:
        hint = f"Pin one: rag-eval pin {benchmark} {system} --ask"
        raise InputError("no_baseline", f"{benchmark} x {system}", "a pinned baseline", hint=hint)
    return baseline


def nights_file(workspace: Workspace, benchmark: str, system: str, baseline: Baseline) -> Path:
    """Return the file of a pair's nights since a baseline was pinned."""
    text = "\n".join((*baseline.evaluations, str(baseline.pinned_at)))
    name = f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    return workspace.nights / check_name("benchmark", benchmark) / check_name("system", system) / name


def verdict_file(workspace: Workspace, benchmark: str, system: str) -> Path:
    """Return the file that will have the verdict on an evaluation published now.

    Raises:
        InputError: The baseline cannot be read.
    """
    baseline = read_baseline(workspace, benchmark, system)
    if baseline is None:
        return workspace.reports / REGRESSIONS
    return nights_file(workspace, benchmark, system, baseline)
