"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Root = Annotated[
    Path | None,
    typer.Option(
        "--workspace", help="The folder that holds data/sources; else the nearest such folder upwards of here."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit 1 when rows were quarantined or questions failed.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Benchmarks: names of folders in data/sources.")]
