"""`rag-eval try`: from a file of questions to the first score, each step by the command that a user would type."""

import contextlib
import filecmp
import os
import re
import shlex
import unicodedata
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NoReturn
from urllib.parse import urlsplit

import typer

from rag_eval_pipeline.cli.output import BAD_INPUT, emit, painted, print_error, print_next, print_notes, without_next
from rag_eval_pipeline.cli.systems import CHAT_ENDINGS
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.workspace import WORKSPACE_VARIABLE, BenchmarkPaths, Workspace, is_workspace

EXAMPLE = "bicycle-hire"  # a folder of the package: a small FAQ and questions about it
BASELINE = "embedded"  # a system of every new workspace
QUESTIONS = 50  # enough for a first look at a service that is slow or paid


def first_score(
    context: typer.Context,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FILE|FOLDER|URL", help="Your questions and documents; by default a small bundled FAQ."
        ),
    ] = None,
    url: Annotated[str | None, typer.Option(help="URL of an HTTP service to ask.")] = None,
    openai: Annotated[
        str | None, typer.Option(metavar="URL", help="An OpenAI-compatible server to ask: its base URL.")
    ] = None,
    python: Annotated[str | None, typer.Option(metavar="MODULE:NAME", help="A Python function to ask.")] = None,
    into: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the workspace; by default the data's name with -eval.")
    ] = None,
    ask_all: Annotated[
        bool, typer.Option("--all", help=f"Ask all questions, and not only the first {QUESTIONS}.")
    ] = False,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the report in the browser.")] = True,
) -> None:
    """Get a first score in one go: make a workspace, convert your data, ask your system, open the report.

    Each step is printed as the command that does it. Without a system, the built-in baseline is asked. Stops with the
    line to type where something has to be filled in; the same command again continues there.

    Exits with the code of the step that stopped; 2 if something has to be filled in.

    Example: rag-eval try --from handbook --url http://127.0.0.1:8000/ask
    """
    from rag_eval_pipeline.evaluation.pair import load_pair

    kind, address = _system(url, openai, python)
    data = origin or str(Path(__file__).parents[1] / "scaffold" / EXAMPLE)
    is_web = "://" in data
    name = _name(urlsplit(data).path if is_web else str(Path(data).resolve()))
    folder = Path(os.path.realpath(into or f"{name}-eval"))
    root = Workspace(folder)
    start = Path.cwd().resolve()
    if not (is_web or Path(data).exists()):
        raise InputError("missing_origin", data, "a file, a folder or a URL", hint="Check --from.")
    if not (is_web or os.path.isabs(data)):
        data = os.path.relpath(Path(data).resolve(), folder)
    steps = _Steps(context)
    if os.environ.pop(WORKSPACE_VARIABLE, None) is not None:  # it names another workspace
        steps.show(f"unset {WORKSPACE_VARIABLE}")
    shown = os.path.relpath(folder)
    steps.run("new", shown, done="the workspace is there" if is_workspace(folder) else None)
    if folder != start:
        steps.show(f"cd {shlex.quote(shown)}")
        steps.prefix = f"cd {shlex.quote(shown)} && "
    with contextlib.chdir(folder):
        _convert(steps, root.benchmark(name), data, kind)
        system = _set_up(steps, root, name, kind, address, start)
        is_partial = not ask_all and len(load_pair(root, name, system).queries) > QUESTIONS
        steps.run("evaluate", name, "--system", system, *(["--limit", str(QUESTIONS)] if is_partial else []))
        steps.run("report", *(["--open"] if show else []))
    line = f"{steps.prefix}rag-eval up"
    if is_partial:
        line = f"{steps.prefix}rag-eval evaluate {name} --system {system}  # all questions"
    elif kind == BASELINE:
        options = [*(["--from", origin] if origin else []), *(["--into", str(into)] if into else [])]
        line = f"rag-eval try {shlex.join(options) or '--from FILE|FOLDER'} --url URL"
    print_next(False, line)


def _convert(steps: "_Steps", paths: BenchmarkPaths, data: str, kind: str) -> None:
    """Do the steps from the data to the datasets."""
    from rag_eval_pipeline.conversion.stamp import current_stamp, source_digest
    from rag_eval_pipeline.formats.model import listed

    name, source = paths.name, os.path.relpath(paths.source)
    is_there = paths.source.exists()
    if is_there and (differing := _differences(paths, data)):
        files = f"{data}/." if Path(data).is_dir() else data
        steps.stop(
            f"{source} and {data} differ in {listed(differing)}. If those of {data} are newer, copy them; "
            "for other data add --into DIR",
            f"cp -R {shlex.quote(files)} {source} && rag-eval convert {name} --replace",
        )
    steps.run("init", name, "--from", data, done=f"{source} has these files" if is_there else None)
    lines = enumerate(paths.spec.read_text("utf-8").splitlines(), 1)
    if to_fill_in := [f"line {n}: {line.strip()}" for n, line in lines if re.match(r"[^#]*\bFILL_IN\b", line)]:
        file = os.path.relpath(paths.spec)
        steps.stop(
            f"{file} has to be completed: {'; '.join(to_fill_in)}",
            f"rag-eval plan {name} --schema  # lists the columns; put one in place of FILL_IN in {file}",
        )
    done = None
    with contextlib.suppress(InputError):
        current_stamp(paths, source_digest(paths))
        done = "nothing has changed since"
    steps.run("convert", name, done=done)
    if kind == BASELINE and not any(paths.corpus.glob("*.pdf")):
        steps.stop(
            "no documents were found, so there is nothing that the built-in baseline could search: put them beside the "
            "questions in one folder, or name your own system",
            f"rag-eval evaluate {name} --system NAME",
        )


def _set_up(steps: "_Steps", root: Workspace, name: str, kind: str, address: str, start: Path) -> str:
    """Do the steps to a system of which one reply was read; return its name."""
    from rag_eval_pipeline.evaluation.probing import names_documents

    system = _free_name(root, kind, address)
    if kind == BASELINE:
        steps.show(f"# {BASELINE} is the built-in baseline: BM25 without a model")
    else:
        arguments = ("system", "init", system, *_options(kind, address, start), "--benchmark", name)
        steps.run(*arguments, done="its settings file is there" if root.system_file(system).exists() else None)
    probed = steps.run("system", "probe", system, "--benchmark", name, "--questions", "1")
    if not names_documents(probed["questions"]):
        known = [passage["is_known"] for row in probed["questions"] for passage in row["passages"]]
        file = os.path.relpath(root.system_file(system))
        steps.stop(
            f"{sum(known)} of {len(known)} passages are of documents of the corpus, so retrieval cannot be scored. "
            f"Correct {file} as said above, or score the answers only",
            f"rag-eval evaluate {name} --system {system}",
        )
    return system


def _system(url: str | None, openai: str | None, python: str | None) -> tuple[str, str]:
    """Return the kind of the system and its address."""
    options = {"http": url, "openai": openai, "python": python}
    given = {kind: address for kind, address in options.items() if address is not None}
    if len(given) > 1:
        raise InputError("bad_option", "try", "one of --url, --openai and --python", found=f"{len(given)} of them")
    kind, address = next(iter(given.items()), (BASELINE, ""))
    return ("openai" if kind == "http" and address.endswith(CHAT_ENDINGS) else kind), address


def _options(kind: str, address: str, start: Path) -> list[str]:
    """Return the options of `system init`; a module in the folder where the command was typed is found there."""
    if kind != "python":
        return ["--url", address, *(["--kind", kind] if kind == "openai" else [])]
    module = start / address.partition(":")[0].partition(".")[0]
    is_here = module.is_dir() or module.with_suffix(".py").is_file()
    return ["--callable", address, *(["--path", os.path.relpath(start)] if is_here else [])]


def _name(path: str) -> str:
    """Return a benchmark's name, made of a file's or a folder's."""
    stem = PurePosixPath(path).name.lstrip(".").partition(".")[0].lower()
    stem = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", stem))  # accents
    return re.sub(r"[^a-z0-9_]+", "-", stem).strip("-_")[:50] or "benchmark"


def _free_name(root: Workspace, kind: str, address: str) -> str:
    """Return the name of the system of this address: its kind, with a number if there is one of another address."""
    from rag_eval_pipeline.systems.config import read_system_file

    if kind == BASELINE:
        return BASELINE
    wanted = address.partition("?")[0].removesuffix("/chat/completions").rstrip("/")

    def address_of(file: Path) -> str:
        settings: Any = read_system_file(file).settings
        found = getattr(settings, "callable", None) or f"{settings.endpoint.base_url}{getattr(settings, 'path', '')}"
        return str(found).rstrip("/")

    names = chain([kind], (f"{kind}-{number}" for number in count(2)))
    return next(name for name in names if not (file := root.system_file(name)).exists() or address_of(file) == wanted)


def _differences(paths: BenchmarkPaths, data: str) -> list[str]:
    """Return the files in which the benchmark and the data differ; of a URL nothing is compared."""
    from rag_eval_pipeline.scaffold.init import list_files

    if "://" in data:
        return []
    folder, files, _ = list_files(Path(data), Path.cwd())
    copies = [file for file in paths.source.rglob("*") if file.is_file() and file not in (paths.spec, paths.audit)]
    names = {*files, *(file.relative_to(paths.source).as_posix() for file in copies)}
    _, changed, missing = filecmp.cmpfiles(paths.source, folder, names, shallow=False)
    return sorted([*changed, *missing])


class _Steps:
    """Runs lines of `rag-eval` in this process as if each was typed, and prints them."""

    def __init__(self, context: typer.Context) -> None:
        self._command: Any = context.find_root().command
        self.prefix = ""  # what leads from the user's folder to the workspace, before a line

    def show(self, line: str) -> None:
        """Print a line as it is typed; a comment as well."""
        emit(None, False, [line if line.startswith("#") else painted(f"$ {line}", "bold")])

    def run(self, *arguments: str, done: str | None = None) -> Any:
        """Print and run a line, or why it is done already; return what the command returns, or stop with its code."""
        line = f"rag-eval {shlex.join(arguments)}"
        self.show(line if done is None else f"# skipped: {line} ({done})")
        if done is not None:
            return None
        try:
            with without_next():
                result = self._command.main(list(arguments), prog_name="rag-eval", standalone_mode=False)
        except (InputError, ServiceError, OSError) as error:
            result = print_error(error)
        if isinstance(result, int) and result:
            self.stop("this step stopped. Correct what it names, or add an option to the line", line, result)
        return result

    def stop(self, why: str, line: str, code: int = BAD_INPUT) -> NoReturn:
        """End here, with what to type."""
        print_notes([f"{why}. The same `rag-eval try` then goes on from here"])
        print_next(False, f"{self.prefix}{line}")
        raise typer.Exit(code)
