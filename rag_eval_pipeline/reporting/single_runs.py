"""Two evaluations by their ids or files against each other, for people and for continuous integration."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.publishing import results_path
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.metrics.verdicts import Verdict
from rag_eval_pipeline.reporting.comparison import Comparison, compare_runs
from rag_eval_pipeline.reporting.junit import SINGLE_RUNS, figure
from rag_eval_pipeline.reporting.looks import dataset_clusters
from rag_eval_pipeline.reporting.nightbook import calibrated_measures
from rag_eval_pipeline.reporting.scored_runs import ScoredRun, run_of_evaluation, run_of_results
from rag_eval_pipeline.reporting.verdict_settings import VerdictSettings, read_verdict_settings
from rag_eval_pipeline.workspace import Workspace

QUESTIONS_SHOWN = 5
WORDED = ("regressed", "improved", "equivalent")  # the sentences of the others say it themselves
BY_QUESTION = "The dataset is not here: each question counts by itself, also where questions share a document."


class _Side(NamedTuple):
    """An evaluation that was named, and what it was asked."""

    run: ScoredRun
    dataset_id: str
    version: str


def compare_named(workspace: Workspace | None, old: str, new: str) -> Comparison:
    """The verdicts on one evaluation against another.

    Args:
        workspace: Where ids are looked up; None when there is none, and only files can be compared.
        old: An evaluation id, or the path of a results file.
        new: Another one.

    Raises:
        InputError: `not_comparable` with the reason; `no_workspace`, or a fault of the files.
    """
    first, side = _side(workspace, old).run, _side(workspace, new)
    second = side.run
    settings = VerdictSettings() if workspace is None else read_verdict_settings(workspace)
    prints = second.fingerprints.judge
    judged = frozenset[str]() if workspace is None else calibrated_measures(workspace, second.benchmark, prints)
    clusters = _clusters(workspace, side, settings)
    found = compare_runs(
        "evaluations", second, [first], old=old, new=new, settings=settings, judged=judged, clusters=clusters
    )
    if found.reason:
        raise InputError(
            "not_comparable", f"{old} and {new}", "two evaluations of the same questions", found=found.reason
        )
    return found if clusters is not None or settings.units == "questions" else replace(found, note=BY_QUESTION)


def comparison_lines(row: Comparison) -> Iterator[str]:
    """A comparison as a terminal shows it: a table, a sentence a metric, and the questions that moved most."""
    yield f"{row.benchmark}: {row.new} against {row.old}"
    yield f"Of {SINGLE_RUNS}."
    if row.note:
        yield row.note
    width = max(map(len, row.verdicts))
    for name, found in row.verdicts.items():
        word = f"{found.kind}: " if found.kind in WORDED else ""
        yield f"{name:{width}}  {_means(found)}  {word}{found.sentence}"
    for name, moved in row.moved.items():
        for one in moved[:QUESTIONS_SHOWN]:
            yield f"  {name}, question {one.query_id}: {one.before:.3f} -> {one.after:.3f}"


def _means(found: Verdict) -> str:
    return f"{figure(found.evidence.baseline_mean):>5} -> {figure(found.evidence.current_mean):>5}"


def _clusters(workspace: Workspace | None, side: _Side, settings: VerdictSettings) -> Mapping[str, str] | None:
    """Question -> document; None where the dataset is not here, or questions are wanted."""
    if workspace is None or not workspace.eval_json(side.dataset_id, side.version).exists():
        return None
    return dataset_clusters(workspace, side.dataset_id, side.version, settings)


def _side(workspace: Workspace | None, name: str) -> _Side:
    """An evaluation by its id or its file; of one whose folder is gone, the results that were published."""
    if Path(name).is_file():
        return _side_of_results(Path(name))
    if workspace is None or "/" in name:
        raise InputError("missing_file", name, "an evaluation id, or a results file", hint="Name one: --workspace DIR")
    if not (workspace.runs / name / "evaluation.json").exists() and results_path(workspace, name).exists():
        return _side_of_results(results_path(workspace, name))
    evaluation = load_evaluation(workspace, name)
    return _Side(run_of_evaluation(evaluation), evaluation.record.dataset_id, evaluation.record.dataset_version)


def _side_of_results(path: Path) -> _Side:
    results = EvaluationResults.read(path)
    return _Side(run_of_results(path), results.dataset_id, results.dataset_version)
