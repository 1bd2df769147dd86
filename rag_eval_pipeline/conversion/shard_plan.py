"""The shards of a large corpus that are being made, and the settings by which it is cut into them."""

import contextlib
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pydantic

from rag_eval_pipeline.conversion.stamp import Recheck, require_step, source_digest
from rag_eval_pipeline.errors import InputError, ServiceError, counted, first_names
from rag_eval_pipeline.formats.model import FileModel, Model, read_model
from rag_eval_pipeline.storage.lock import is_locked
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

SETTINGS_FILE = "conversion.config.yaml"
PLAN_FILE = "plan.json"
LISTED = 5  # parts that an error names


class ConversionSettings(Model):
    """`data/config/conversion.config.yaml`: how benchmarks are converted here; optional."""

    shard_documents: int = pydantic.Field(
        2000, ge=1, description="A corpus with more documents is made in shards of at most this many, each in a run of "
        "its own. The files are the same.",
    )  # fmt: skip


def read_conversion_settings(workspace: Workspace) -> ConversionSettings:
    """Read the settings; the defaults if there is no file."""
    return read_model(ConversionSettings, workspace.config / SETTINGS_FILE)


class ShardPlan(FileModel):
    """The shards of one plan of a benchmark: `.steps/shards/plan.json`, while they are made."""

    benchmark: str
    digest: str  # sha256 over everything that decides the parts
    source_digest: str
    documents: int
    shards: int
    recheck: Recheck
    requests: int = 0  # how often the merge found parts missing and asked for them
    # Tells this conversion from earlier ones of the plan.
    nonce: str = pydantic.Field(default_factory=lambda: secrets.token_hex(4))

    def rows(self, number: int) -> range:
        """Return the positions of a shard's documents in the plan; shards differ by at most one document."""
        return range(self.documents * number // self.shards, self.documents * (number + 1) // self.shards)

    def key(self, number: int) -> str:
        """Return the partition key of a shard: `<benchmark>~<plan>~0017`."""
        return f"{self.benchmark}~{self.digest[:8]}~{number:04}"

    @property
    def request(self) -> str:
        """Return the name of the latest request for parts; Dagster launches no two runs with one run key."""
        return f"{self.nonce}#{self.requests}"

    def missing(self, paths: BenchmarkPaths) -> list[int]:
        """Return the numbers of the shards that are not done."""
        return [number for number in range(self.shards) if not shard_files(paths, self, number).record.exists()]


class ShardsMissing(InputError):
    """Parts of a corpus that have to be made before it can be merged."""

    def __init__(self, paths: BenchmarkPaths, plan: ShardPlan, missing: Sequence[int]) -> None:
        numbers = first_names([f"{number:04}" for number in missing], LISTED)
        super().__init__(
            "shards_missing",
            paths.steps / "shards",
            f"{plan.shards} parts of the corpus of {paths.name} ({counted(plan.documents, 'document')})",
            found=f"{plan.shards - len(missing)}; missing: {numbers}",
            hint="In Dagster, corpus_shards_sensor asks for their runs and then for the rest of the conversion; a "
            "part whose run failed is run again on the page of the job convert_shard. "
            f"In one process: rag-eval convert {paths.name}",
        )
        self.plan = plan
        self.missing = missing


class ShardFiles(NamedTuple):
    """The files of a shard; the record is written last."""

    documents: Path
    web: Path
    pages: Path
    record: Path
    journal: Path
    lock: Path


def shard_files(paths: BenchmarkPaths, plan: ShardPlan, number: int) -> ShardFiles:
    """Return the files of a shard of a plan."""
    folder = paths.shards / plan.digest[:8]
    endings = ("documents.parquet", "web.json", "pages.parquet", "json", "journal", "lock")
    return ShardFiles(*(folder / f"{number:04}.{ending}" for ending in endings))


def read_shard_plan(paths: BenchmarkPaths) -> ShardPlan | None:
    """Return the plan of the shards that are being made; None if none are, or if the plan cannot be read."""
    with contextlib.suppress(InputError):
        return ShardPlan.read(paths.shards / PLAN_FILE)
    return None


def shards_in_progress(paths: BenchmarkPaths) -> ServiceError | None:
    """Return the error `locked` that names the shards whose runs are at work; None if none are."""
    plan = read_shard_plan(paths)
    if plan is None:
        return None
    keys = [plan.key(number) for number in range(plan.shards) if is_locked(shard_files(paths, plan, number).lock)]
    text = f"parts of the corpus of {paths.name} are being made: {first_names(keys, LISTED)}"
    return ServiceError("locked", text, hint="Wait for these runs of convert_shard, or cancel them.") if keys else None


def is_current(paths: BenchmarkPaths, plan: ShardPlan) -> bool:
    """Return whether the shards' plan was made from the present source."""
    try:
        require_step(paths, "questions", plan.source_digest)
        return source_digest(paths) == plan.source_digest
    except InputError:
        return False
