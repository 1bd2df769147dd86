"""The folder of one evaluation: its record, its files, and which evaluation of a pair is the newest.

`data/evaluation/runs/<evaluation_id>/` holds `evaluation.json`, the journal and a parquet a score asset. Ids are taken
by exclusive creation of the folder, so two processes never share one and the clock alone never makes one.
"""

import logging
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Literal

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.settings import EvaluationSettings
from rag_eval_pipeline.formats.forms import Form
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, SchemaVersion
from rag_eval_pipeline.formats.results import Fingerprints, Level
from rag_eval_pipeline.storage.atomic import atomic_write_json
from rag_eval_pipeline.workspace import Workspace, check_name

State = Literal["open", "answered", "scored", "published"]
logger = logging.getLogger(__name__)

SCORE_FILES = ("retrieval_scores", "citation_scores", "answer_scores", "judge_scores")


class EvaluationRecord(FileModel):
    """`evaluation.json`: what is evaluated, with what, and how far it has come."""

    form: ClassVar[Form] = Form("record of an evaluation")

    schema_version: SchemaVersion = pydantic.Field(SCHEMA_VERSION, description="Of this file's form.")
    evaluation_id: str
    benchmark: str
    system: str
    system_version: str
    dataset_id: str
    dataset_version: str
    fingerprints: Fingerprints
    settings: EvaluationSettings
    configuration: dict[str, Any]
    limit: int | None = None
    deterministic: bool = pydantic.Field(False, description="Equal inputs give this system's answers again.")
    state: State = "open"
    opened_at: pydantic.AwareDatetime
    answered_at: pydantic.AwareDatetime | None = None
    retrieval_level: Level = pydantic.Field("document", description="As in the published results.")
    warnings: tuple[str, ...] = pydantic.Field((), description="What was noticed while replies were read.")
    asking_seconds: float = pydantic.Field(0.0, description="Wall-clock time spent asking, over all sessions.")
    rescored_from: str | None = pydantic.Field(
        None, description="The evaluation all of whose answers are scored again here; absent where a system was asked."
    )


class Evaluation:
    """Paths of one evaluation and its record."""

    def __init__(self, folder: Path, record: EvaluationRecord) -> None:
        self.folder = folder
        self.record = record

    @property
    def journal(self) -> Path:
        """Terminal answers in the order they came."""
        return self.folder / "journal.jsonl"

    @property
    def responses(self) -> Path:
        """Answers in the dataset's order, one row a question."""
        return self.folder / "responses.parquet"

    @property
    def judgements(self) -> Path:
        """What the judge said of each answer, a line each."""
        return self.folder / "judgements.jsonl"

    @property
    def resources(self) -> Path:
        """Samples of memory and processor use while asking."""
        return self.folder / "resources.json"

    def scores(self, kind: str) -> Path:
        """Per-query scores of one of `SCORE_FILES`."""
        return self.folder / f"{kind}.parquet"

    def is_of(self, prints: Fingerprints) -> bool:
        """Whether it was begun with these fingerprints, but for the server's, which only the server knows."""
        return self.record.fingerprints.model_copy(update={"server": None}) == prints

    def require_answered(self) -> None:
        """Raises `not_answered` unless every question has its terminal answer."""
        if self.record.state == "open":
            raise InputError(
                "not_answered", self.folder, "an evaluation whose questions are all answered",
                hint=f"Materialize responses of {self.record.benchmark} x {self.record.system}.",
            )  # fmt: skip

    def save(self, **changes: Any) -> None:
        """Publishes the record with some fields changed."""
        self.record = self.record.model_copy(update=changes)
        self.record.write(self.folder / "evaluation.json")


def load_evaluation(workspace: Workspace, evaluation_id: str) -> Evaluation:
    """An evaluation by its id.

    Raises:
        InputError: `bad_evaluation_id`, `missing_file`, `bad_format`.
    """
    if "/" in evaluation_id or evaluation_id.startswith("."):
        raise InputError("bad_evaluation_id", workspace.runs, "an evaluation id", found=evaluation_id)
    folder = workspace.runs / evaluation_id
    return Evaluation(folder, EvaluationRecord.read(folder / "evaluation.json"))


def newest_evaluation(workspace: Workspace, benchmark: str, system: str) -> Evaluation | None:
    """The pair's newest evaluation, finished or not.

    None when there is none, or when its folder was removed or damaged: then the pair is evaluated anew.
    """
    pointer = pair_pointer(workspace, benchmark, system)
    if not pointer.exists():
        return None
    try:
        return load_evaluation(workspace, _Pointer.read(pointer).evaluation_id)
    except InputError as error:
        logger.warning("The newest evaluation of %s x %s is left aside: %s", benchmark, system, error)
        return None


def pair_pointer(workspace: Workspace, benchmark: str, system: str) -> Path:
    """The file that names a pair's newest evaluation."""
    return workspace.runs / "by_pair" / check_name("benchmark", benchmark) / f"{check_name('system', system)}.json"


def create_evaluation(workspace: Workspace, now: datetime, **fields: Any) -> Evaluation:
    """A new evaluation under an id of its own, not yet the newest of its pair.

    Args:
        workspace: Where.
        now: Aware; its UTC date goes into the id.
        fields: Of `EvaluationRecord`, without id, state and times.
    """
    date = now.astimezone(UTC).strftime("%Y%m%d")
    folder = _take_folder(workspace, date)
    evaluation = Evaluation(folder, EvaluationRecord(evaluation_id=folder.name, opened_at=now, **fields))
    evaluation.save()
    return evaluation


def make_newest(workspace: Workspace, evaluation: Evaluation) -> None:
    """Names an evaluation as the newest of its pair."""
    pointer = pair_pointer(workspace, evaluation.record.benchmark, evaluation.record.system)
    atomic_write_json(pointer, {"evaluation_id": evaluation.record.evaluation_id})


class _Pointer(FileModel):
    evaluation_id: str


def _take_folder(workspace: Workspace, date: str) -> Path:
    """A folder for a new id, above all ids of runs and of results: those of a run that was removed stay its own."""
    workspace.runs.mkdir(parents=True, exist_ok=True)
    files = [*workspace.runs.glob(f"eval_run_{date}_*"), *workspace.results.glob(f"eval_run_{date}_*.results.json")]
    tails = [file.name.partition(".")[0].rpartition("_")[2] for file in files]
    for number in count(max((int(tail) for tail in tails if tail.isdecimal()), default=0) + 1):
        folder = workspace.runs / f"eval_run_{date}_{number:03d}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue  # another process took it between the listing and now
        return folder
    raise AssertionError("count() does not end")
