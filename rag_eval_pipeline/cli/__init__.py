"""`rag-eval`: the work of the assets, without Dagster.

Exit codes: 0 done; 1 done, but `--strict` found quarantined rows or failed questions; 2 bad use or bad input; 3
`compare` found a regression; 4 a server, judge or browser could not be used; 70 an internal error. Commands load what
they need when they run.
"""

import sys

import typer

from rag_eval_pipeline.cli.benchmarks import convert, export, init, plan, render, validate
from rag_eval_pipeline.cli.doctor import doctor
from rag_eval_pipeline.cli.evaluations import calibrate, compare, evaluate, leaderboard, report, rescore
from rag_eval_pipeline.cli.history import ab, history, pin, power, prune
from rag_eval_pipeline.cli.output import INTERNAL, keep_stdout_for_results, print_error
from rag_eval_pipeline.cli.scoring import score, spans
from rag_eval_pipeline.cli.system_init import init_system
from rag_eval_pipeline.cli.systems import system
from rag_eval_pipeline.cli.workspaces import new, up
from rag_eval_pipeline.errors import InputError, ServiceError

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Nightly evaluation of RAG systems: convert benchmarks, ask a system their questions, score and compare.",
)

COMMANDS = (
    new, doctor, init, plan, convert, validate, export, render, evaluate, rescore, calibrate, score, spans, compare,
    ab, leaderboard, history, power, pin, report, prune, up,
)  # fmt: skip
for command in COMMANDS:
    app.command()(keep_stdout_for_results(command))
system.command("init")(keep_stdout_for_results(init_system))
app.add_typer(system, name="system")


def main() -> None:
    """The entry point: the one place where errors become text and exit codes."""
    try:
        app()
    except (InputError, ServiceError, OSError) as error:
        raise SystemExit(print_error(error)) from None
    except Exception:
        import traceback

        traceback.print_exc()
        print("rag-eval: internal error [internal]. Please report it with the lines above.", file=sys.stderr)
        raise SystemExit(INTERNAL) from None
