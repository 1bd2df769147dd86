"""The folder of one evaluation, all evaluations, and the newest one of each pair.

`data/evaluation/runs/<evaluation_id>/` holds `evaluation.json`, the journal of answers and one parquet file per score
asset.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pydantic

from rag_eval_pipeline import clock
from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.evaluation_settings import EvaluationSettings
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, Model, SchemaVersion
from rag_eval_pipeline.formats.results import Fingerprints, Level
from rag_eval_pipeline.storage.atomic_files import atomic_write_json, replace_file
from rag_eval_pipeline.storage.lock import locked, working_run
from rag_eval_pipeline.systems.base import RagAnswer
from rag_eval_pipeline.workspace import Workspace, check_name

if TYPE_CHECKING:
    from rag_eval_pipeline.evaluation.score_tables import Answers

State = Literal["open", "answered", "scored", "published"]
JUDGE_MODEL = "judge model"  # of `EvaluationRecord.known`: as the judge's server reports it
SCORE_FILES = ("retrieval_scores", "citation_scores", "answer_scores", "judge_scores")
PARTS = ("responses", *SCORE_FILES, "evaluation_results")  # in the order in which they are made; names of assets too

NEWEST_SHOWN = 5  # ids in a message
NIGHT = timedelta(hours=20)  # within which attempts to ask a system belong to one night

logger = logging.getLogger(__name__)


class VoidAttempt(Model):
    """An attempt to ask a system that was out of order; nothing is scored of it."""

    ended_at: pydantic.AwareDatetime
    reason: str


class EvaluationRecord(FileModel):
    """`evaluation.json`: what is evaluated, with which settings, and how far the evaluation has come."""

    file_type: ClassVar[str] = "record of an evaluation"

    schema_version: SchemaVersion = SCHEMA_VERSION
    evaluation_id: str
    benchmark: str
    system: str
    system_version: str
    dataset_id: str
    dataset_version: str
    fingerprints: Fingerprints
    settings: EvaluationSettings
    configuration: dict[str, Any]
    # What was known of the system while it was asked, as `version`, `model` and `workspace commit`; see known_state.
    known: dict[str, tuple[str, ...]] = pydantic.Field(default_factory=dict)
    limit: int | None = None
    deterministic: bool = False  # equal inputs give this system's answers again
    state: State = "open"
    opened_at: pydantic.AwareDatetime
    answered_at: pydantic.AwareDatetime | None = None
    void: tuple[VoidAttempt, ...] = ()  # before the questions were answered
    retrieval_level: Level = "document"  # as in the published results
    coverage: float | None = None  # share of the questions with an answer
    warnings: tuple[str, ...] = ()  # what was noticed while replies were read
    asking_seconds: float = 0.0  # wall-clock time spent asking, over all sessions
    in_flight: int | None = None  # questions asked at once; latencies depend on it
    # The evaluation all of whose answers are scored again here; absent where a system was asked.
    rescored_from: str | None = None

    @property
    def is_void(self) -> bool:
        """Whether the system was out of order when it was last asked, so that nothing is scored."""
        return self.state == "open" and bool(self.void)

    def is_void_of_earlier_night(self, now: datetime) -> bool:
        """Whether it is void and was begun too long ago to be one night with what is asked now."""
        return self.is_void and now - self.opened_at >= NIGHT

    @property
    def void_text(self) -> str:
        """When and why the system was out of order, such as `void at 02:00 and 03:00 UTC (... [failing])`."""
        times = " and ".join(f"{one.ended_at:%H:%M}" for one in self.void)
        return f"void at {times} UTC ({self.void[-1].reason})"


class Evaluation:
    """The record and the files of one evaluation."""

    def __init__(self, folder: Path, record: EvaluationRecord) -> None:
        self.folder = folder
        self.record = record
        self.journal = folder / "journal.jsonl"  # terminal answers in the order of arrival
        self.responses = folder / "responses.parquet"  # answers in the dataset's order, one row per question
        self.judgements = folder / "judgements.jsonl"  # of each answer, one per line
        self.recheck = folder / "judge_recheck.json"  # the judge's verdicts on labelled answers, that night
        self.resources = folder / "resources.json"  # samples of memory and processor use while asking

    @cached_property
    def answers(self) -> "Answers":
        """The answers, which are read when they are first asked for."""
        from rag_eval_pipeline.evaluation.score_tables import Answers

        return Answers(self.responses)

    def scores(self, kind: str) -> Path:
        """Return the path of one of `SCORE_FILES`."""
        return self.folder / f"{kind}.parquet"

    @property
    def is_covered(self) -> bool:
        """Whether enough questions were answered for the evaluation to be part of a baseline."""
        return self.record.coverage is None or self.record.coverage >= self.record.settings.min_coverage

    def has_fingerprints(self, fingerprints: Fingerprints) -> bool:
        """Return whether it was begun with these fingerprints; the server's is ignored."""
        return self.record.fingerprints.model_copy(update={"server": None}) == fingerprints

    def require_answered(self) -> None:
        """Raise `not_answered` unless every question has its terminal answer."""
        if self.record.state == "open":
            raise InputError(
                "not_answered", self.folder, "an evaluation whose questions are all answered",
                hint=f"Materialize responses of {self.record.benchmark} x {self.record.system}.",
            )  # fmt: skip

    def write_answers(self, answers: Iterable[RagAnswer]) -> None:
        """Publish the answers."""
        from rag_eval_pipeline.evaluation.score_tables import Answers

        self.answers = Answers.write(self.responses, answers)

    def save(self, **changes: Any) -> None:
        """Publish the record with some fields changed."""
        record = self.record.model_copy(update=changes)
        if record != self.record:
            record.write(self.folder / "evaluation.json")
        self.record = record


class _Pointer(FileModel):
    evaluation_id: str


def id_order(evaluation_id: str) -> tuple[str, int, str]:
    """Return a key that sorts evaluation ids by their day and then by number: 1000 comes after 999."""
    day, _, number = evaluation_id.rpartition("_")
    return day, len(number), number


def load_evaluation(workspace: Workspace, evaluation_id: str) -> Evaluation:
    """Load an evaluation by its id.

    Raises:
        InputError: `bad_evaluation_id`, `no_evaluation` with the newest ids, `bad_format`.
    """
    if "/" in evaluation_id or evaluation_id.startswith("."):
        raise InputError("bad_evaluation_id", workspace.runs, "an evaluation id", found=evaluation_id)
    folder = workspace.runs / evaluation_id
    if not (folder / "evaluation.json").exists():
        names = (path.parent.name for path in workspace.runs.glob("*/evaluation.json"))
        newest = sorted(names, key=id_order, reverse=True)
        shown = ", ".join(newest[:NEWEST_SHOWN])
        hint = f"The newest are {shown}." if newest else "There is none: rag-eval evaluate BENCHMARK --system SYSTEM"
        raise InputError("no_evaluation", workspace.runs, "the id of an evaluation", found=evaluation_id, hint=hint)
    return Evaluation(folder, EvaluationRecord.read(folder / "evaluation.json"))


def newest_evaluation(workspace: Workspace, benchmark: str, system: str) -> Evaluation | None:
    """Return the pair's newest evaluation, finished or not; None if there is none or if its folder is damaged."""
    pointer = pair_pointer(workspace, benchmark, system)
    if not pointer.exists():
        return None
    try:
        return load_evaluation(workspace, _Pointer.read(pointer).evaluation_id)
    except InputError as error:
        logger.warning("The newest evaluation of %s x %s is ignored: %s", benchmark, system, error)
        return None


def required_evaluation(workspace: Workspace, pair: Pair) -> Evaluation:
    """Return the pair's newest evaluation; raises `not_answered` if there is none."""
    evaluation = newest_evaluation(workspace, pair.paths.name, pair.system)
    if evaluation is None:
        of = f"{pair.paths.name} x {pair.system}"
        hint = f"Materialize responses of {of}."
        raise InputError("not_answered", workspace.runs, f"an evaluation of {of}", hint=hint)
    return evaluation


def pair_pointer(workspace: Workspace, benchmark: str, system: str) -> Path:
    """Return the file that names a pair's newest evaluation."""
    return workspace.runs / "by_pair" / check_name("benchmark", benchmark) / f"{check_name('system', system)}.json"


def create_evaluation(workspace: Workspace, now: datetime, **fields: Any) -> Evaluation:
    """Create an evaluation of these fields under a new id; it is not yet the newest of its pair."""
    folder = _create_folder(workspace, now.astimezone(UTC).strftime("%Y%m%d"))
    record = EvaluationRecord(evaluation_id=folder.name, opened_at=now, **fields)
    record.write(folder / "evaluation.json")
    return Evaluation(folder, record)


def make_newest(workspace: Workspace, evaluation: Evaluation) -> None:
    """Make an evaluation the newest of its pair."""
    pointer = pair_pointer(workspace, evaluation.record.benchmark, evaluation.record.system)
    atomic_write_json(pointer, {"evaluation_id": evaluation.record.evaluation_id})


@contextlib.contextmanager
def locked_pair(workspace: Workspace, pair: Pair) -> Iterator[None]:
    """Lock the benchmark against conversions and the pair against other evaluations, for a block.

    Raises:
        InputError: `changed_pair` if the benchmark was converted again after the pair was loaded.
        ServiceError: `locked`.
    """
    benchmark, pointer = pair.paths.name, pair_pointer(workspace, pair.paths.name, pair.system)
    run_id = working_run.get()
    who = "an evaluation" if run_id is None else f"run {run_id[:8]}"
    holder = f"{who} of {benchmark} x {pair.system}, process {os.getpid()}"
    with (
        locked(pair.paths.lock, holder=holder, exclusive=False),
        locked(pointer.with_suffix(".lock"), holder=holder, exclusive=True),
    ):
        if not pair.paths.stamp.exists() or Stamp.read(pair.paths.stamp) != pair.stamp:
            raise InputError(
                "changed_pair", pair.paths.stamp, "the conversion with which the evaluation began",
                hint=f"Evaluate {benchmark} x {pair.system} again.",
            )  # fmt: skip
        yield


def _create_folder(workspace: Workspace, date: str) -> Path:
    """Create the folder of a new id, higher than all ids of runs and of results.

    The last id of the day is kept in a file, since a listing for each of 10,000 ids reads 10^8 names. The folder
    decides whose an id is: the file may be missing, or behind if another process takes ids at the same time.
    """
    workspace.runs.mkdir(parents=True, exist_ok=True)
    last = workspace.runs / ".last_id"
    for number in count((_last_number(last, date) or _highest_number(workspace, date)) + 1):
        folder = workspace.runs / f"eval_run_{date}_{number:03d}"
        if (workspace.results / f"{folder.name}.results.json").exists():
            continue
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        replace_file(last, folder.name.encode())
        return folder
    raise AssertionError("count() does not end")


def _last_number(last: Path, date: str) -> int | None:
    with contextlib.suppress(FileNotFoundError, ValueError):
        prefix, _, number = last.read_text().rpartition("_")
        return int(number) if prefix == f"eval_run_{date}" else None
    return None


def _highest_number(workspace: Workspace, date: str) -> int:
    files = [*workspace.runs.glob(f"eval_run_{date}_*"), *workspace.results.glob(f"eval_run_{date}_*.results.json")]
    tails = [file.name.partition(".")[0].rpartition("_")[2] for file in files]
    return max((int(tail) for tail in tails if tail.isdecimal()), default=0)


def published_evaluations(workspace: Workspace, benchmark: str, system: str) -> list[Evaluation]:
    """Return the published evaluations of one pair, oldest first; equal times in the order of their ids."""
    return all_published(workspace).get((benchmark, system), [])


def all_published(workspace: Workspace) -> dict[tuple[str, str], list[Evaluation]]:
    """Return the published evaluations of every (benchmark, system), oldest first."""
    found: dict[tuple[str, str], list[Evaluation]] = {}
    for evaluation in all_evaluations(workspace):
        record = evaluation.record
        if record.state == "published":
            found.setdefault((record.benchmark, record.system), []).append(evaluation)
    return found


def all_evaluations(workspace: Workspace) -> list[Evaluation]:
    """Return all evaluations, finished or not, oldest first; a record that cannot be read is left out and logged."""
    found = []
    for name in os.listdir(workspace.runs) if workspace.runs.is_dir() else []:
        path = workspace.runs / name / "evaluation.json"
        if not path.exists():
            continue  # `by_pair`, or a folder without a record
        try:
            record = EvaluationRecord.read(path)
        except InputError as error:
            logger.warning("An evaluation is left out: %s", error)
            continue
        if record.evaluation_id == name:
            found.append(Evaluation(path.parent, record))
    age = age_order(workspace)

    def key(one: Evaluation) -> tuple[Any, ...]:
        record = one.record
        return age(record.benchmark, record.system, record.opened_at, record.evaluation_id)

    return sorted(found, key=key)


def age_order(workspace: Workspace) -> Callable[[str, str, datetime, str], tuple[Any, ...]]:
    """Return a function of benchmark, system, time of begin and evaluation id: a key that sorts oldest first.

    An evaluation dated later than now was begun by a clock that has been set back. Until its date comes, it precedes
    the others of its pair, unless none has been begun since.
    """
    now = clock.now()

    @cache
    def is_set_back(benchmark: str, system: str) -> bool:
        newest = newest_evaluation(workspace, benchmark, system)
        return newest is not None and newest.record.opened_at <= now

    def key(benchmark: str, system: str, opened_at: datetime, name: str) -> tuple[Any, ...]:
        is_ahead = opened_at > now and is_set_back(benchmark, system)
        return not is_ahead, opened_at, id_order(name)

    return key
