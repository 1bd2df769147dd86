"""Commands on the machine: doctor."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_eval_pipeline.cli.options import AsJson, Root
from rag_eval_pipeline.cli.output import (
    UNAVAILABLE,
    emit,
    find_workspace,
)
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.workspace import Workspace

if TYPE_CHECKING:
    pass


def doctor(
    only: Annotated[str | None, typer.Option(help="One check by name: browser, fonts, disk, workspace.")] = None,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Check what the pipeline needs of this machine; exits 4 when something is missing.

    Example: rag-eval doctor
    """
    from rag_eval_pipeline.doctor import CHECKS

    if only is not None and only not in CHECKS:
        raise InputError("unknown_check", "--only", f"one of {', '.join(CHECKS)}", found=only)
    root = find_workspace(workspace) if workspace or only in (None, "workspace", "disk") else Workspace(Path.cwd())
    findings = [check(root) for name, check in CHECKS.items() if only in (None, name)]
    emit(
        [finding._asdict() for finding in findings],
        as_json,
        (f"{'ok  ' if finding.ok else 'FAIL'} {finding.name}: {finding.found}" for finding in findings),
    )
    if not all(finding.ok for finding in findings):
        raise typer.Exit(UNAVAILABLE)
