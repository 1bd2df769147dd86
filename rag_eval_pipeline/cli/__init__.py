"""`rag-eval`: the work of the assets, without Dagster; commands load what they need when they run."""

import gc
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rag_eval_pipeline.cli.output import EXIT_CODES, INTERNAL, Command, keep_stdout_for_results, print_error
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.formats.removed_settings import refuse_removed_variables
from rag_eval_pipeline.storage import arrow

__all__ = ["app", "main"]

NEW_OBJECTS = 100_000  # after which cycles are collected: at Python's 700 it takes a tenth of a command

# Subject in the help -> command -> module of this package and its function.
COMMANDS = {
    "Start": {
        "try": "first_score.first_score", "new": "new.new", "init": "benchmarks.init", "recipes": "recipes.recipes",
        "plan": "benchmarks.plan", "convert": "benchmarks.convert", "audit": "audit.audit",
        "suggest": "audit.suggest",
    },
    "Run": {
        "evaluate": "evaluate.evaluate", "rescore": "evaluate.rescore", "calibrate": "evaluate.calibrate",
        "up": "new.up", "system": "systems.system",
    },
    "See": {
        "list": "show.list_workspace", "status": "show.status", "report": "evaluate.report",
        "leaderboard": "evaluate.leaderboard", "history": "nights.history",
    },
    "Compare": {
        "compare": "compare.compare", "gate": "gate.gate", "bisect": "bisect.bisect", "ab": "nights.ab",
        "pin": "nights.pin", "power": "nights.power", "trust": "nights.trust",
    },
    "Score and convert files": {
        "validate": "benchmarks.validate", "export": "benchmarks.export", "render": "benchmarks.render",
        "score": "score.score", "spans": "score.spans",
    },
    "Maintain": {"doctor": "doctor.doctor", "worker-queue": "doctor.worker_queue", "prune": "nights.prune"},
}  # fmt: skip


class _Root(TyperGroup):
    """The group of all commands: imports a module when its command is run, and lists the commands by subject."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.commands = {name: Command(name) for commands in COMMANDS.values() for name in commands}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name, made of its function; None if there is none."""
        panel = next((panel for panel, commands in COMMANDS.items() if cmd_name in commands), None)
        if panel is None:
            return None
        found = one = _load(COMMANDS[panel][cmd_name])
        if not isinstance(found, typer.Typer):
            one = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
            one.command(cmd_name, cls=Command)(keep_stdout_for_results(found))
        command: Any = typer.main.get_command(one)
        command.rich_help_panel = panel
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each subject; the first line of a docstring is the short help."""
        for panel, commands in COMMANDS.items():
            found = {name: _load(place) for name, place in commands.items()}
            texts = {
                name: one.info.help if isinstance(one, typer.Typer) else one.__doc__ for name, one in found.items()
            }
            with formatter.section(panel):
                formatter.write_dl([(name, str(text).partition("\n")[0]) for name, text in texts.items()])


def _load(place: str) -> Any:
    module, _, name = place.partition(".")
    return getattr(import_module(f"{__name__}.{module}"), name)


app = typer.Typer(
    cls=_Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich takes longer to load than everything else
    help="Nightly evaluation of RAG systems: convert benchmarks, ask a system their questions, score and compare.",
    epilog="\b\nExit codes:\n" + "\n".join(f"  {code:3}  {meaning}" for code, meaning in EXIT_CODES.items()),
)


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
    gc.set_threshold(NEW_OBJECTS)
    try:
        app()
    except (InputError, ServiceError, OSError) as error:
        raise SystemExit(print_error(error)) from None
    except Exception:
        import traceback

        traceback.print_exc()
        print("rag-eval: internal error [internal]. Please report it with the lines above.", file=sys.stderr)
        raise SystemExit(INTERNAL) from None
