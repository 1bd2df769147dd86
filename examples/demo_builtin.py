"""`make demo-builtin`: four small benchmarks with the embedded system, a baseline without a model.

The demo has a workspace of its own, `.demo-builtin/`, and changes nothing in yours.
"""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.markup import escape

from examples.demo_nights import Bars, Runner, console
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.scaffold.workspaces import template_files
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.workspace import PROJECT, Workspace

SOURCES = (PROJECT / "data" / "sources", PROJECT / "examples" / "benchmarks" / "sources")
SETTINGS = PROJECT / "examples" / "benchmarks" / "config"  # with `embedded-weak`: `embedded`, made worse on purpose
BENCHMARKS = ("cairnmoor-observatory", "gannet-sound", "skarn-railway", "tarrow-lights")


def main() -> int:
    """Run the demo and print the leaderboard."""
    workspace = prepare(PROJECT / ".demo-builtin")
    evaluate_all(workspace)
    console.print("\nThese are the scores of a baseline: it retrieves by words and copies phrases, without a model.")
    return 0


def prepare(root: Path) -> Workspace:
    """Return the demo's workspace, with the small benchmarks and the settings of a new one."""
    workspace = Workspace(root)
    for path, data in template_files().items():
        if path.is_relative_to("data"):
            atomic_write(root / path, data)
    shutil.copytree(SETTINGS, workspace.config, dirs_exist_ok=True)
    for name in BENCHMARKS:
        source = next(folder / name for folder in SOURCES if (folder / name).is_dir())
        shutil.copytree(source, workspace.sources / name, dirs_exist_ok=True)
    (root / "corpus").mkdir(exist_ok=True)
    return workspace


def evaluate_all(workspace: Workspace) -> None:
    """Convert the benchmarks, evaluate each with each system through Dagster, and print what came out."""
    from rag_eval_pipeline.defs.partitions import pair_key
    from rag_eval_pipeline.evaluation.expected_pairs import read_registry
    from rag_eval_pipeline.monitoring.leaderboard import leaderboard_table, read_leaderboard

    with Bars() as bars, Runner(workspace) as runner:
        with bars.phase("converting", len(BENCHMARKS)) as update:
            for number, name in enumerate(BENCHMARKS):
                update(description=f"converting {name}", completed=number)
                runner.run("convert", name)
            update(description="converting", completed=len(BENCHMARKS))
        pairs = list(read_registry(workspace).automatic_pairs())
        with bars.phase("asking", len(pairs)) as update:
            for number, (benchmark, system) in enumerate(pairs):
                update(description=f"asking {system} on {benchmark}", completed=number)
                runner.run("evaluate", pair_key(benchmark, system))
            update(description="asking", completed=len(pairs))
        with bars.phase("drawing the report", 1) as update:
            runner.run("aggregate")
            update(completed=1)
    console.print()
    console.print(leaderboard_table(read_leaderboard(workspace)))
    for line in changes(workspace):
        console.print(escape(line))
    console.print(f"\nReport: {workspace.reports / 'index.html'}")
    console.print(f"The same in the Dagster UI: make up WORKSPACE={workspace.root.name}")


def changes(workspace: Workspace) -> Iterator[str]:
    """Yield a line for each two systems that differ surely, then how many others were compared."""
    from rag_eval_pipeline.monitoring.incidents import change_text, headline_order
    from rag_eval_pipeline.monitoring.regressions import read_comparisons

    rows = [row for row in read_comparisons(workspace).rows if row.kind == "systems"]
    unsure = 0
    for row in rows:
        flagged = [name for name, found in row.verdicts.items() if found.kind in ("regressed", "improved")]
        for name in headline_order(flagged)[:1]:
            yield f"{row.benchmark}: {row.new} against {row.old}: {change_text(name, row.verdicts[name])}"
        unsure += not flagged
    yield f"No significant difference in {unsure} of {len(rows)} comparisons of systems: most benchmarks are small."


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (InputError, ServiceError) as error:
        sys.exit(f"make demo-builtin: {error}")
