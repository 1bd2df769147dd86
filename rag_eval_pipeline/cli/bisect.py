"""`rag-eval bisect`: the first version of a service whose answers are worse."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_eval_pipeline.cli.output import (
    SYSTEM,
    SYSTEM_HELP,
    AsJson,
    BenchmarkName,
    Root,
    emit,
    find_workspace,
    painted,
    print_notes,
)
from rag_eval_pipeline.errors import InputError, counted

if TYPE_CHECKING:
    from rag_eval_pipeline.monitoring.bisection import Step

COLOURS = {"good": "green", "bad": "red", "skipped": "yellow"}


def bisect(
    benchmark: BenchmarkName,
    system: Annotated[str, typer.Argument(**SYSTEM | {"metavar": "SYSTEM"}, help=SYSTEM_HELP)],
    good: Annotated[str, typer.Option(metavar="V", help="A version that answers as the pinned baseline does.")],
    bad: Annotated[str, typer.Option(metavar="V", help="A later version that is worse.")],
    command: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Starts or deploys {version}, in a shell in the current folder; it is ended with all it has started.",
        ),
    ],
    versions: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="The versions between, oldest first: a,b,c, or a file with one a line, or - for standard input; by "
            "default the commits of the current folder's Git repository.",
        ),
    ] = None,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Find the first of many versions of a service that is worse, by starting a few and asking them a few questions.

    Nothing is published. The baseline must be of a version that answers as the good one does.

    Example: rag-eval bisect handbook my-rag --good v1.4 --bad v1.9 --command 'git checkout -q {version} && ./serve'
    """
    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.monitoring import bisection

    root = find_workspace(workspace)
    if "{version}" not in command:
        raise InputError("bad_option", "--command", "a command with {version}", found=command)
    order = _between(good, bad, versions)
    pair = load_pair(root, benchmark, system)
    print_notes([f"{len(order)} versions, of which about {2 + (len(order) - 2).bit_length()} are started"])
    ends = {"good": good, "bad": bad}

    def note(step: "Step") -> None:
        ends[step.found] = step.version
        word = painted(step.found, COLOURS[step.found])
        print_notes(
            [f"{step.version}: {word}, {step.reason} ({counted(step.asked, 'question')}, {step.seconds:.0f} s)"]
        )

    try:
        found = bisection.bisect(root, pair, order, command, Path.cwd(), note)
    except KeyboardInterrupt:
        print_notes([f"interrupted; to go on: the same command with --good {ends['good']} --bad {ends['bad']}"])
        raise
    steps = [step._asdict() for step in found.steps]
    emit(asdict(found) | {"sentence": found.sentence, "steps": steps}, as_json, [found.sentence])


def _between(good: str, bad: str, versions: str | None) -> Sequence[str]:
    """Return the good version, those after it, and the bad one."""
    if not versions:
        listing = ["git", "rev-list", "--reverse", "--first-parent", f"{good}..{bad}", "--"]
        found = subprocess.run(listing, capture_output=True, text=True, check=False)
        if found.returncode or not found.stdout:
            expected = f"versions, or a Git repository in the current folder in which {bad} comes after {good}"
            message = " ".join(found.stderr.split())[:200] or "no commit between"
            raise InputError("bad_option", "--versions", expected, found=message, hint="Name them: --versions a,b,c")
        lines = found.stdout.splitlines()[:-1]  # the last one is the bad version
    elif versions == "-":
        lines = sys.stdin.read().splitlines()
    elif "," not in versions and Path(versions).is_file():
        lines = Path(versions).read_text(encoding="utf-8-sig").splitlines()
    elif versions.endswith(".txt"):
        raise InputError("bad_option", "--versions", "a file that is there", found=versions)
    else:
        lines = versions.split(",")
    order = [line.strip() for line in lines if line.strip()]
    start = order.index(good) + 1 if good in order else 0
    end = order.index(bad) if bad in order else len(order)
    if start > end or (start == end and len(order) > 1 and not {good, bad} <= {*order}):
        expected = f"versions after {good} and before {bad}, oldest first"
        raise InputError("bad_option", "--versions", expected, found=", ".join(order))
    return [good, *order[start:end], bad]
