"""`rag-eval`: the work of the assets, without Dagster; commands load what they need when they run."""

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from rag_eval_pipeline.cli.audit import audit
from rag_eval_pipeline.cli.benchmarks import convert, export, init, plan, render, validate
from rag_eval_pipeline.cli.compare import compare
from rag_eval_pipeline.cli.doctor import doctor, worker_queue
from rag_eval_pipeline.cli.evaluate import calibrate, evaluate, leaderboard, report, rescore
from rag_eval_pipeline.cli.first_score import first_score
from rag_eval_pipeline.cli.init_system import init_system
from rag_eval_pipeline.cli.new import new, up
from rag_eval_pipeline.cli.nights import ab, history, pin, power, prune, trust
from rag_eval_pipeline.cli.output import EXIT_CODES, INTERNAL, CommandGroup, keep_stdout_for_results, print_error
from rag_eval_pipeline.cli.recipes import recipes
from rag_eval_pipeline.cli.score import score, spans
from rag_eval_pipeline.cli.show import list_workspace, status
from rag_eval_pipeline.cli.systems import system
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.formats.removed_settings import refuse_removed_variables
from rag_eval_pipeline.storage import arrow

__all__ = ["app", "main"]


app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich takes longer to load than everything else
    help="Nightly evaluation of RAG systems: convert benchmarks, ask a system their questions, score and compare.",
    epilog="\b\nExit codes:\n" + "\n".join(f"  {code:3}  {meaning}" for code, meaning in EXIT_CODES.items()),
)

COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Start": {
        "try": first_score, "new": new, "init": init, "recipes": recipes, "plan": plan, "convert": convert,
        "audit": audit,
    },
    "Run": {"evaluate": evaluate, "rescore": rescore, "calibrate": calibrate, "up": up},
    "See": {"list": list_workspace, "status": status, "report": report, "leaderboard": leaderboard, "history": history},
    "Compare": {"compare": compare, "ab": ab, "pin": pin, "power": power, "trust": trust},
    "Score and convert files": {
        "validate": validate, "export": export, "render": render, "score": score, "spans": spans,
    },
    "Maintain": {"doctor": doctor, "worker-queue": worker_queue, "prune": prune},
}  # fmt: skip


class Command(TyperCommand):
    """A command whose help does not show `<bool>` beside its flags."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for param in self.params:
            if getattr(param, "is_flag", False):
                param.metavar = ""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the help with each example on a line of its own."""
        text = self.help
        self.help = (text or "").replace("\n\nExample: ", "\n\n\b\nExample: ")
        super().format_help_text(ctx, formatter)
        self.help = text


for panel, commands in COMMANDS.items():
    for name, command in commands.items():
        app.command(name, cls=Command, rich_help_panel=panel)(keep_stdout_for_results(command))
system.command("init", cls=Command)(keep_stdout_for_results(init_system))
app.add_typer(system, name="system", rich_help_panel="Run")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(version("rag-eval-pipeline"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", is_eager=True, callback=_print_version, help="Print the version."),
    ] = False,
) -> None:
    refuse_removed_variables()


def main() -> None:
    """The entry point: the one place where errors become text and exit codes."""
    arrow.is_own_process = True
    try:
        app()
    except (InputError, ServiceError, OSError) as error:
        raise SystemExit(print_error(error)) from None
    except Exception:
        import traceback

        traceback.print_exc()
        print("rag-eval: internal error [internal]. Please report it with the lines above.", file=sys.stderr)
        raise SystemExit(INTERNAL) from None
