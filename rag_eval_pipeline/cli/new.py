"""Commands on a whole workspace: new, up."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from rag_eval_pipeline.cli.output import AsJson, Root, emit, find_workspace, print_next
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.workspace import WORKSPACE_VARIABLE


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the workspace; it may exist.")],
    as_json: AsJson = False,
) -> None:
    """Make a workspace for your own benchmarks and systems: folders, settings with their defaults, a README.

    Exits 2, with nothing written, if a file of the same name is there with another content.

    Example: rag-eval new my-evaluation
    """
    from rag_eval_pipeline.scaffold.workspaces import new_workspace

    workspace, written = new_workspace(folder)
    enter = "" if workspace.root == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    lines = [
        f"{workspace.root}: {'a new workspace' if written else 'all files of a new workspace are there'}",
        *(f"  {path}" for path in written),
    ]
    emit({"workspace": str(workspace.root), "written": written}, as_json, lines)
    print_next(as_json, f"{enter}rag-eval init NAME --from FILE|FOLDER|URL")


def up(
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Dagster has no login: any other address opens it to the network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the Dagster UI.")] = 3000,
    report_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the report; by default the one after --port.")
    ] = None,
    workspace: Root = None,
) -> None:
    """Start the Dagster UI, its daemon with the nightly schedules, and the report; Ctrl-C stops all of them.

    The instance is in DAGSTER_HOME, by default .dagster in the workspace, with the settings of dagster.yaml.

    Example: rag-eval up
    """
    from rag_eval_pipeline.scaffold.workspaces import INSTANCE_FILE, instance_settings
    from rag_eval_pipeline.serving.up import serve
    from rag_eval_pipeline.storage.atomic_files import atomic_write

    root = find_workspace(workspace)
    if ":" in host:
        hint = "IPv6 is not served; 127.0.0.1 is this machine only, 0.0.0.0 all its IPv4 addresses."
        raise InputError("no_ipv6", "--host", "a name or an IPv4 address", found=host, hint=hint)
    own = root.root / ".dagster"
    home = Path(os.environ.get("DAGSTER_HOME") or own).resolve()
    if home == own or not (home / INSTANCE_FILE).exists():  # settings elsewhere are not ours to replace
        atomic_write(home / INSTANCE_FILE, instance_settings(root))
    os.environ.update({"DAGSTER_HOME": str(home), WORKSPACE_VARIABLE: str(root.root)})
    # Dagster announces what 2.0 will do; people who run the pipeline can do nothing about it.
    os.environ.setdefault("PYTHONWARNINGS", "ignore::DeprecationWarning")
    code = serve(root.root, host, port, report_port)
    if code:
        raise typer.Exit(code)
