"""The code behind `callable: package.module:name`: imported, looked up, made, and forgotten again afterwards.

Folders of `path` stand first in `sys.path` for as long as the system is used, because code imports lazily. Modules that
came from them are forgotten at the end, so that the next system finds its own `rag.py`, and an edited one is read anew.
"""

import contextlib
import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.digests import sha256_of
from rag_eval_pipeline.systems.python.faults import told
from rag_eval_pipeline.systems.python.settings import PythonSettings

QUERY = "query"  # a parameter of this name gets the question with its id


@dataclass(frozen=True, slots=True)
class Loaded:
    """Code that answers.

    Args:
        function: Called with the question.
        owner: What was made or looked up; it may want to be closed.
        takes_query: It has a parameter `query`.
        is_async: It is awaited, and needs no thread.
        versions: Package -> installed version.
        source_sha256: Of the module and all modules from the folders of `path` that it imported.
    """

    function: Callable[..., Any]
    owner: Any
    takes_query: bool
    is_async: bool
    versions: dict[str, str]
    source_sha256: str


@contextlib.contextmanager
def loaded(settings: PythonSettings, folder: Path) -> Iterator[Loaded]:
    """The code, for a block.

    Args:
        settings: Of the system.
        folder: Where its file lies.

    Raises:
        InputError: `bad_path`, `bad_callable`, `missing_package`, each with the field of the system's file.
    """
    folders = [_folder(folder, name, number) for number, name in enumerate(settings.path)]
    versions = _versions(settings, folder)
    before = frozenset(sys.modules)
    shown = [str(path) for path in folders]
    sys.path[:0] = shown
    importlib.invalidate_caches()
    try:
        yield _load(settings, folder, folders, versions)
    finally:
        for entry in shown:
            with contextlib.suppress(ValueError):  # the code has taken it out itself
                sys.path.remove(entry)
        for name in _from_folders(folders):
            if name not in before:
                del sys.modules[name]


def _load(settings: PythonSettings, folder: Path, folders: list[Path], versions: dict[str, str]) -> Loaded:
    def bad(expected: str, found: object, field: str = "callable", hint: str | None = None) -> NoReturn:
        raise InputError("bad_callable", folder, expected, field=f"settings.{field}", found=found, hint=hint)

    module_name, _, path = settings.callable.partition(":")
    _refuse_namesake(module_name, folders, bad)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a module may raise anything, and a script ends the process
        bad(f"the module {module_name} to be importable", told(error), hint="Is its folder in `path`?")
    owner: Any = module
    for name in path.split("."):
        try:
            owner = getattr(owner, name)
        except AttributeError:
            bad(f"{name!r} in {getattr(owner, '__name__', type(owner).__name__)}", settings.callable)
    if settings.factory:
        if not callable(owner):
            bad("a factory, which is callable", owner)
        try:
            owner = owner(**settings.arguments)
        except (Exception, SystemExit) as error:
            bad(f"a factory that takes {sorted(settings.arguments)}", told(error), field="arguments")
    function = owner
    if settings.method is not None:
        function = getattr(owner, settings.method, None)
        if function is None:
            bad(f"a method of {type(owner).__name__}", settings.method, field="method")
    if not callable(function):
        hint = "Name what answers by `method`, such as invoke."
        bad("something callable", type(function).__name__, hint=hint)
    if inspect.isclass(function):
        bad("something that answers, and not a class", function.__name__, hint="Set `factory: true`.")
    extra = {} if settings.factory else settings.arguments
    takes_query = _takes_query(function, extra, bad)
    return Loaded(
        function=function,
        owner=owner,
        takes_query=takes_query,
        is_async=_is_async(function),
        versions=versions,
        source_sha256=_source_digest(module, folders),
    )


def _takes_query(function: Callable[..., Any], extra: dict[str, Any], bad: Callable[[str, object], NoReturn]) -> bool:
    """Whether the question goes to a parameter `query`; one or the other way must fit."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False  # written in C: it says when it is called
    parameter = signature.parameters.get(QUERY)
    takes = parameter is not None and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    try:
        if takes:
            signature.bind(**{QUERY: ""}, **extra)
        else:
            signature.bind("", **extra)
    except TypeError as error:
        bad(f"a callable of one question, found {signature}: {error}", None)
    return takes


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004  # its kind is wanted


def _folder(folder: Path, name: str, number: int) -> Path:
    path = (folder / name).resolve()
    if not path.is_dir():
        raise InputError("bad_path", folder, "a folder that exists", field=f"settings.path[{number}]", found=name)
    return path


def _versions(settings: PythonSettings, folder: Path) -> dict[str, str]:
    versions = {}
    for number, name in enumerate(settings.version_of):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            raise InputError(
                "missing_package", folder, "a package that is installed", field=f"settings.version_of[{number}]",
                found=name,
            ) from None  # fmt: skip
    return versions


def _refuse_namesake(module_name: str, folders: list[Path], bad: Callable[[str, object], NoReturn]) -> None:
    """A module of the same name that was loaded from elsewhere would be taken in silence."""
    top = module_name.partition(".")[0]
    if top not in sys.modules:
        return
    spec = PathFinder.find_spec(top, [str(folder) for folder in folders])
    if spec is None or spec.origin is None:
        return
    present = getattr(sys.modules[top], "__file__", None)
    if present is None or Path(present).resolve() != Path(spec.origin).resolve():
        bad(f"a module name that is not taken: {top} is loaded already from elsewhere", module_name)


def _from_folders(folders: list[Path]) -> dict[str, Path]:
    """Modules whose files lie below some folders."""
    found = {}
    # Thousands of modules lie in hundreds of folders: each is resolved once, which takes a tenth of the time.
    resolved: dict[str, str] = {}
    roots = tuple(str(folder) for folder in folders)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        places = [file] if isinstance(file, str) else list(getattr(module, "__path__", ()) or ())[:1]
        for place in places:
            parent = os.path.dirname(place)
            if parent not in resolved:
                resolved[parent] = os.path.realpath(parent)
            if resolved[parent].startswith(roots) or os.path.islink(place):
                path = Path(place).resolve()
                if any(path.is_relative_to(folder) for folder in folders):
                    found[name] = path
    return found


def _source_digest(module: ModuleType, folders: list[Path]) -> str:
    files = _from_folders(folders)
    if isinstance(module.__file__, str):
        files[module.__name__] = Path(module.__file__)
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        if path.is_file():
            digest.update(f"{name}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()
