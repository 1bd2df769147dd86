"""Commands on the machine: doctor."""

from pathlib import Path
from typing import Annotated

import typer

from rag_eval_pipeline.cli.options import AsJson, Root
from rag_eval_pipeline.cli.output import (
    UNAVAILABLE,
    emit,
    find_workspace,
    find_workspace_if_any,
)
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.workspace import Workspace

_ABOUT_THE_WORKSPACE = {None, "workspace", "disk"}


def doctor(
    only: Annotated[
        str | None,
        typer.Option(help="One check by name: browser, sandbox, egress, fonts, glyphs, disk, workspace."),
    ] = None,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Check what the pipeline needs of this machine; exits 4 when something is missing.

    The browser is started and prints a page; nothing is asked of the network.

    Example: rag-eval doctor
    """
    from rag_eval_pipeline.doctor import CHECKS, Machine

    if only is not None and only not in CHECKS:
        raise InputError("unknown_check", "--only", f"one of {', '.join(CHECKS)}", found=only)
    find = find_workspace if only in _ABOUT_THE_WORKSPACE else find_workspace_if_any
    machine = Machine(find(workspace) or Workspace(Path.cwd()))
    findings = [check(machine) for name, check in CHECKS.items() if only in (None, name)]
    emit(
        [finding._asdict() for finding in findings],
        as_json,
        (f"{'ok  ' if finding.ok else 'FAIL'} {finding.name}: {finding.found}" for finding in findings),
    )
    if not all(finding.ok for finding in findings):
        raise typer.Exit(UNAVAILABLE)
