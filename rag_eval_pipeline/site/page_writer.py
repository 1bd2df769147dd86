"""Render the Jinja templates, and write the files of the site.

Templates escape whatever comes from data. The pages of a run are rendered again only when something that they are made
from has changed; the state file records what that was.
"""

import shutil
import tempfile
from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup

from rag_eval_pipeline.errors import counted
from rag_eval_pipeline.metrics.registry import PAGE_PREFIX, metric_label
from rag_eval_pipeline.monitoring.incidents import p_text
from rag_eval_pipeline.site import display_text as numbers
from rag_eval_pipeline.site.baseline_runs import interval_text, result_text, verdict_note
from rag_eval_pipeline.site.charts import legend_mark
from rag_eval_pipeline.site.display_text import replace_control_chars
from rag_eval_pipeline.storage.atomic_files import atomic_write, publishing, sync_files

# `self` is the folder's files where the browser gives a file an origin, `file:` where it does not. Nothing else loads:
# no inline script or style, no frame, no form, no address on a network.
POLICY = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)


def render(template: str, *, root: str = "", **values: Any) -> bytes:
    """Render a page.

    Args:
        root: The path from the page to the site's folder: empty, `../`, `../../`.
    """
    return str(_environment().get_template(template).render(root=root, **values)).encode()


@cache
def _environment() -> Any:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rag_eval_pipeline.site", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_replace_control_chars,
    )
    environment.globals.update(policy=POLICY, legend_mark=legend_mark)
    environment.filters.update(
        number=numbers.number,
        ms=numbers.milliseconds,
        ms_range=numbers.milliseconds_range,
        dollars=numbers.dollars,
        count=numbers.count,
        counted=_counted,
        points=numbers.points,
        percent=numbers.percent,
        p_value=numbers.p_value,
        p=p_text,
        interval=interval_text,
        note=verdict_note,
        result=lambda one: result_text(*one),
        day=lambda moment: f"{moment:%Y-%m-%d}",
        minute=lambda moment: f"{moment:%Y-%m-%d %H:%M} UTC",
        metric=metric_label,
        replace_control_chars=replace_control_chars,
        bare=lambda name: name.removeprefix(PAGE_PREFIX),
        words=lambda text: str(text).replace("_", " "),
    )
    return environment


def _counted(value: float | None, noun: str) -> str:
    return f"{numbers.DASH} {noun}s" if value is None else counted(int(value), noun)


def _replace_control_chars(value: Any) -> Any:
    return replace_control_chars(value) if isinstance(value, str) and not isinstance(value, Markup) else value


STATE = ".site.json"
LISTED_RUNS = 10  # the last ones; each has some megabytes
_BLOCK = 1 << 20  # bytes


class _State(msgspec.Struct):
    """What the last report wrote: names of files, and what each run's were made from."""

    files: list[str] = []
    runs: dict[str, tuple[str, list[str]]] = {}
    asked: list[str] = []  # questions whose pages somebody wanted drawn
    listed: list[str] = []  # runs whose questions somebody wanted listed


class SiteFolder:
    """Writes the files of a site, and at the end removes files of earlier sites, and no others.

    The disk is waited for once, before the state that says which files are made.

    Args:
        asked: Questions whose pages somebody wants drawn; `self.asked` has those of earlier sites too.
        listed: Older runs whose questions somebody wants listed; likewise `self.listed`.
    """

    def __init__(self, root: Path, asked: Iterable[str] = (), listed: Iterable[str] = ()) -> None:
        self.root = root
        self._written: list[Path] = []
        self._old = _read_state(root / STATE)
        self.asked = list(dict.fromkeys([*asked, *self._old.asked]))
        self.listed = list(dict.fromkeys([*listed, *self._old.listed]))[:LISTED_RUNS]
        self._kept: set[str] = set()
        self._runs: dict[str, tuple[str, list[str]]] = {}
        self._current: str | None = None

    @property
    def written(self) -> int:
        """The number of files that were not there, or differed."""
        return len(self._written)

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the site, by its path in the folder."""
        self.keep([name])
        path = self.root / name
        if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
            return
        with publishing(path, waits_for_disk=False) as file:
            file.write(data)
        self._written.append(path)

    def write_lines(self, name: str, lines: Iterable[bytes]) -> None:
        """Write a file that need not fit into memory."""
        self.keep([name])
        path = self.root / name
        with tempfile.TemporaryFile(dir=self.root) as new:
            new.writelines(lines)
            is_same = path.is_file() and path.stat().st_size == new.tell()
            new.seek(0)
            if is_same:
                with path.open("rb") as old:
                    is_same = all(block == old.read(_BLOCK) for block in iter(partial(new.read, _BLOCK), b""))
                new.seek(0)
            if not is_same:
                with publishing(path, waits_for_disk=False) as file:
                    shutil.copyfileobj(new, file)
                self._written.append(path)

    def keep(self, names: Iterable[str]) -> None:
        """Keep files of the site that exist already."""
        names = list(names)
        self._kept.update(names)
        if self._current is not None:
            self._runs[self._current][1].extend(names)

    def has(self, name: str) -> bool:
        """Return whether a file belongs to the site so far."""
        return name in self._kept

    def is_made(self, run: str, *keys: str, enough: str | None = None) -> bool:
        """Return whether a run's files exist and were made from one of these keys; if so, they are kept.

        Args:
            enough: A beginning of the key that suffices, where the files could not be made as well again.
        """
        made_from, files = self._old.runs.get(run, ("", []))
        is_same = made_from in keys or (enough is not None and made_from.startswith(enough))
        if not is_same or not all((self.root / name).is_file() for name in files):
            return False
        self._runs[run] = (made_from, files)
        self._kept.update(files)
        return True

    def making(self, run: str, key: str) -> None:
        """Begin a run: files up to `made` belong to it."""
        self._current = run
        self._runs[run] = (key, [])

    def made(self, *, is_whole: bool = True) -> None:
        """End a run; if a part was missing, the next report makes its files again."""
        if self._current is not None and not is_whole:
            self._runs[self._current] = ("", self._runs[self._current][1])
        self._current = None

    def close(self) -> None:
        """Remove files that no longer belong to the site and empty folders, and write the state."""
        # An edited state removes nothing elsewhere.
        inside = [name for name in self._old.files if not name.startswith("/") and ".." not in Path(name).parts]
        gone = [name for name in inside if name not in self._kept]
        for name in gone:
            (self.root / name).unlink(missing_ok=True)
        for folder in sorted(
            {parent for name in gone for parent in Path(name).parents if parent != Path()}, reverse=True
        ):
            path = self.root / folder
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        state = _State(sorted(self._kept), dict(sorted(self._runs.items())), self.asked, self.listed)
        data = msgspec.json.encode(state)
        sync_files(self._written)
        if data != msgspec.json.encode(self._old):
            atomic_write(self.root / STATE, data)


def _read_state(path: Path) -> _State:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_State)
    except (FileNotFoundError, ValueError):
        return _State()  # everything is written again
