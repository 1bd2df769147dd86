"""How long things are kept, and the removal of what is older: `rag-eval prune`.

An evaluation that anything refers to stays. A folder is first moved to a trash folder by one rename, then deleted, so
that a killed removal leaves no partial folder; the next one empties the trash first.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.errors import InputError, counted
from rag_eval_pipeline.evaluation.baseline_files import Baseline
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, all_evaluations, id_order, newest_evaluation
from rag_eval_pipeline.judges.cache import JudgementCache
from rag_eval_pipeline.monitoring.history import published_results
from rag_eval_pipeline.monitoring.night_records import Nights
from rag_eval_pipeline.monitoring.settings_files import RetentionSettings, read_retention_settings
from rag_eval_pipeline.sources.download import Record
from rag_eval_pipeline.storage.atomic_files import TEMP_PREFIX, remove_leftover, walk
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.workspace import Workspace

MEGABYTE = 1_000_000
LEFTOVER_AFTER = timedelta(days=1)
CLOCK_AHEAD = timedelta(days=365)  # no evaluation for so long is more often a wrong clock
GENERATED = ("benchmarks", "datasets", "evaluation", "reports")  # folders of data/
BODY = re.compile(r"[0-9a-f]{64}")  # a download is named by its sha256


@dataclass(slots=True)
class Pruned:
    """What was removed, or would be in a dry run.

    Args:
        judgements: Number of judges' replies; None when there is no cache, or in a dry run.
        kept: Evaluation -> why it stays although it is old.
        runs: Dagster's runs; None if there is no instance.
    """

    dry_run: bool
    paths: list[Path] = field(default_factory=list)
    size_bytes: int = 0
    judgements: int | None = None
    kept: dict[str, str] = field(default_factory=dict)
    runs: list[str] | None = None

    def record(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "dry_run": self.dry_run,
            "removed": [str(path) for path in self.paths],
            "size_bytes": self.size_bytes,
            "judgements": self.judgements,
            "runs": self.runs,
            "kept": self.kept,
        }

    def lines(self) -> Iterator[str]:
        """Yield the result as lines for a terminal."""
        word = "would remove" if self.dry_run else "removed"
        yield from (f"{word} {path}" for path in self.paths)
        yield from (f"kept {name}: {why}" for name, why in self.kept.items())
        if self.judgements:
            yield f"removed {counted(self.judgements, 'judgement')}"
        if self.runs:
            yield f"{word} {counted(len(self.runs), 'run')} of Dagster"
        yield (
            f"{word} {counted(len(self.paths), 'file or folder', 'files and folders')}, "
            f"{self.size_bytes / MEGABYTE:.1f} MB"
        )


def prune(
    workspace: Workspace,
    *,
    now: datetime,
    dry_run: bool = False,
    is_clock_right: bool = False,
    leftovers: Iterable[Path] = (),
) -> Pruned:
    """Remove what the settings do not keep.

    Args:
        is_clock_right: Whether `now` may be more than a year after the newest evaluation.
        leftovers: Folders outside the workspace that killed processes have left.

    Raises:
        InputError: `clock_behind` when an evaluation began after `now`, `clock_ahead` when the newest one began long
            before it; a baseline or the nights cannot be read, and what they refer to is not known.
        ServiceError: `locked` when another process removes.
    """
    settings = read_retention_settings(workspace)
    with locked(workspace.runs.parent / ".prune.lock", holder="rag-eval prune", exclusive=True):
        found = Pruned(dry_run)
        evaluations = all_evaluations(workspace)
        present = {one.record.evaluation_id for one in evaluations}
        if evaluations:
            _check_clock(evaluations[-1], now, is_right=is_clock_right)
        held = referenced(workspace, evaluations)
        paths = [*_evaluations(evaluations, held, settings, now, found)]
        paths += [*_results(workspace, {*held, *present}, settings, now), *_downloads(workspace, settings, now)]
        leftovers = [*_leftovers(workspace, now), *leftovers]
        found.paths = [*paths, *leftovers]
        found.size_bytes = sum(_size(path) for path in found.paths)
        if not dry_run:
            _remove(workspace, paths)
            for path in leftovers:
                remove_leftover(path)
            found.judgements = _prune_judgements(workspace, settings)
        return found


def _check_clock(newest: Evaluation, now: datetime, *, is_right: bool) -> None:
    began, kept = newest.record.opened_at, "Nothing was removed; set the clock"
    if began > now:
        raise InputError(
            "clock_behind", newest.folder, "no evaluation that began after now", found=str(began), hint=f"{kept}."
        )
    if now - began > CLOCK_AHEAD and not is_right:
        raise InputError(
            "clock_ahead", newest.folder, f"a newest evaluation within a year before now, {now:%Y-%m-%d}",
            found=str(began), hint=f"{kept}, or if it is right: rag-eval prune --yes",
        )  # fmt: skip


def _evaluations(
    evaluations: Iterable[Evaluation],
    held: Mapping[str, str],
    settings: RetentionSettings,
    now: datetime,
    found: Pruned,
) -> Iterator[Path]:
    if settings.evaluation_days is None:
        return
    for one in evaluations:
        if now - one.record.opened_at < timedelta(days=settings.evaluation_days):
            continue
        if why := held.get(one.record.evaluation_id):
            found.kept[one.record.evaluation_id] = why
        else:
            yield one.folder


def referenced(workspace: Workspace, evaluations: Sequence[Evaluation]) -> dict[str, str]:
    """Return the evaluations that must stay, with the reason.

    Args:
        evaluations: All there are, oldest first.

    Raises:
        InputError: A baseline, the nights or a results file cannot be read.
    """
    held: dict[str, str] = {}
    for benchmark, system in {(one.record.benchmark, one.record.system): None for one in evaluations}:
        newest = newest_evaluation(workspace, benchmark, system)
        if newest is not None:
            held[newest.record.evaluation_id] = f"the newest of {benchmark} x {system}"
            if measured := _measured_in(workspace.results_file(newest.record.evaluation_id)):
                held.setdefault(measured, f"its answers are those of {newest.record.evaluation_id}")
    records = (one.record for one in evaluations if one.record.state == "published")
    for name in {(record.benchmark, record.system): record.evaluation_id for record in records}.values():
        held.setdefault(name, "the newest published one of its pair")
    for path in _json_files(workspace.nights):
        for night in Nights.read(path).nights[-1:]:
            for name in night.runs:
                held.setdefault(name, "the last night against a baseline")
            for name in night.reference:
                held.setdefault(name, "what nights are compared with")
    for path in _json_files(workspace.baselines):
        for name in Baseline.read(path).evaluations:
            held[name] = f"a baseline of {path.parent.name} x {path.stem}"
    return held


def _json_files(folder: Path) -> Iterator[Path]:
    """Yield the JSON files below a folder; unlike `glob`, refuse one that cannot be listed: it may hold baselines."""
    return (Path(place, name) for place, _, names in walk(folder) for name in names if name.endswith(".json"))


class _Performance(msgspec.Struct):
    reused_from: str | None = None


class _Reuse(msgspec.Struct):
    performance_metrics: _Performance


def _measured_in(path: Path) -> str | None:
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Reuse).performance_metrics.reused_from
    except ValueError as error:
        raise InputError("corrupt_result", path, "a results file", found=str(error)) from error


def _results(workspace: Workspace, kept: Collection[str], settings: RetentionSettings, now: datetime) -> Iterator[Path]:
    """Yield results whose evaluation is gone and that nothing refers to; a pair's newest results always stay."""
    if settings.results_days is None:
        return
    rows = sorted(published_results(workspace), key=lambda row: (row.timestamp or 0, id_order(row.evaluation_id)))
    newest = {(row.benchmark, row.system): row.evaluation_id for row in rows if row.header is not None}
    kept = {*kept, *newest.values()}
    for path in sorted(workspace.results.glob("eval_run_*.results.json")):
        name = path.name.partition(".")[0]
        age = now - datetime.fromtimestamp(path.stat().st_mtime, UTC)
        if name not in kept and age >= timedelta(days=settings.results_days):
            history = workspace.history
            beside = [history / table / f"{name}.parquet" for table in ("figures", "questions")]
            yield from (file for file in (*beside, path) if file.exists())


def _downloads(workspace: Workspace, settings: RetentionSettings, now: datetime) -> Iterator[Path]:
    """Yield downloads whose URL is in no benchmark.yaml any more, and all those of benchmarks that are gone."""
    if settings.download_days is None:
        return
    oldest = (now - timedelta(days=settings.download_days)).timestamp()
    for folder in sorted((workspace.root / "data" / "datasets").glob("*/.cache/downloads")):
        used = _used_bodies(workspace, folder)
        bodies = (file for file in sorted(folder.iterdir()) if BODY.fullmatch(file.name))
        yield from (file for file in bodies if file.name not in used and file.stat().st_mtime < oldest)


def _leftovers(workspace: Workspace, now: datetime) -> Iterator[Path]:
    """Yield temporary files and folders that are older than a day, which killed runs have left."""
    found = [*(workspace.root / "corpus").glob(f"{TEMP_PREFIX}*")]
    for generated in GENERATED:
        for folder, folders, files in os.walk(workspace.root / "data" / generated):
            left = [name for name in (*folders, *files) if name.startswith(TEMP_PREFIX)]
            folders[:] = [name for name in folders if name not in left]
            found += [Path(folder) / name for name in left]
    oldest = (now - LEFTOVER_AFTER).timestamp()
    for path in sorted(found):
        with contextlib.suppress(FileNotFoundError):  # published meanwhile
            if path.lstat().st_mtime < oldest:
                yield path


def _used_bodies(workspace: Workspace, folder: Path) -> set[str]:
    name = folder.parent.parent.name
    if name not in workspace.benchmarks():
        return set()
    spec = workspace.benchmark(name).spec.read_text()
    try:
        index = msgspec.json.decode((folder / "index.json").read_bytes(), type=dict[str, Record])
    except (FileNotFoundError, ValueError):
        return set()  # without the index no body is found
    return {record.sha256 for url, record in index.items() if url in spec}


def _prune_judgements(workspace: Workspace, settings: RetentionSettings) -> int | None:
    if not workspace.judge_cache.is_dir():
        return None
    max_bytes = None if settings.judgement_mb is None else settings.judgement_mb * MEGABYTE
    return JudgementCache(workspace.judge_cache).prune(max_bytes=max_bytes, max_age_days=settings.judgement_days)


def _remove(workspace: Workspace, paths: Iterable[Path]) -> None:
    trash = workspace.runs.parent / ".trash"
    if trash.exists():
        shutil.rmtree(trash)  # of a removal that was killed
    trash.mkdir(parents=True)
    for number, path in enumerate(paths):
        path.rename(trash / f"{number}-{path.name}")
    shutil.rmtree(trash)


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    folders = os.walk(path)  # some 10,000 folders: `rglob` takes twice as long
    return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in folders for name in names)  # noqa: PTH118
