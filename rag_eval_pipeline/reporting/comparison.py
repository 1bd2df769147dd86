"""Evaluations against each other, question by question: better, worse, or nobody can tell.

Each pair is compared with its pinned baseline, night after night (`nights`), and on each benchmark every system with
every other. While no baseline is pinned, a night is compared with those before it, and its verdict is provisional.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.baseline_files import REGRESSIONS, Baseline, read_baseline
from rag_eval_pipeline.evaluation.runs import Evaluation, load_evaluation
from rag_eval_pipeline.formats.comparison_files import ComparisonRow, Regressions
from rag_eval_pipeline.formats.model import read_bytes
from rag_eval_pipeline.metrics.baselines import flip_sentence
from rag_eval_pipeline.metrics.evidence import PROCEDURE
from rag_eval_pipeline.metrics.flags import Confirmation
from rag_eval_pipeline.metrics.verdicts import verdict
from rag_eval_pipeline.reporting.baselines import earlier_runs, pin_first_nights
from rag_eval_pipeline.reporting.comparison_rows import Comparison, comparison_cells, comparison_of, comparison_record
from rag_eval_pipeline.reporting.history import ResultsHeader, read_history
from rag_eval_pipeline.reporting.looks import dataset_clusters, look
from rag_eval_pipeline.reporting.nightbook import calibrated_measures, nights_of, write_nights, yardstick_of
from rag_eval_pipeline.reporting.nights import Night, Nights, new_night
from rag_eval_pipeline.reporting.published import all_published
from rag_eval_pipeline.reporting.scored_runs import COMPARED, ScoredRun, run_of_evaluation
from rag_eval_pipeline.reporting.verdict_settings import VerdictSettings, read_verdict_settings
from rag_eval_pipeline.storage.atomic import atomic_write_json
from rag_eval_pipeline.workspace import Workspace

__all__ = [
    "Comparison",
    "Comparisons",
    "compare_evaluations",
    "compare_runs",
    "comparison_record",
    "read_comparisons",
    "write_comparisons",
]


@dataclass(frozen=True, slots=True)
class Comparisons:
    """All comparisons of a night, and where they are written.

    Args:
        rows: Against baselines first.
        path: Of `regressions.json`.
        nights: The nights of each pair with a baseline.
    """

    rows: Sequence[Comparison]
    path: Path
    nights: Sequence[Nights] = ()

    @property
    def counts(self) -> dict[str, float]:
        """How many verdicts of each kind against baselines, and how many pairs have none."""
        against = [row for row in self.rows if row.kind == "baseline"]
        kinds = [found.kind for row in against for found in row.verdicts.values()]
        return {
            "pairs": len(against),
            "no_baseline": sum(row.reason == "no_baseline" for row in against),
            "regressed": kinds.count("regressed"),
            "improved": kinds.count("improved"),
        }

    def cells(self) -> list[dict[str, Any]]:
        """A row a verdict."""
        return [
            {"benchmark": row.benchmark, "comparison": f"{row.new} against {row.old}", **cell}
            for row in self.rows
            for cell in comparison_cells(comparison_record(row))
        ]


def write_comparisons(workspace: Workspace) -> Comparisons:
    """Compares the newest evaluations, keeps their nights, and publishes `regressions.json`.

    Pairs whose first nights are complete get their baseline.
    """
    for header in read_history(workspace).newest():
        pin_first_nights(workspace, header.benchmark, header.system)
    found = read_comparisons(workspace)
    for nights in found.nights:
        baseline = read_baseline(workspace, nights.benchmark, nights.system)
        if baseline is not None:
            write_nights(workspace, baseline, nights)
    atomic_write_json(found.path, [comparison_record(row) for row in found.rows])
    return found


def read_comparisons(workspace: Workspace) -> Comparisons:
    """The same without writing anything; a damaged evaluation costs its own comparisons and no others.

    What `regressions.json` has of the same runs under the same rules is not compared again.
    """
    settings = read_verdict_settings(workspace)
    path = workspace.reports / REGRESSIONS
    known = _known_rows(path)
    headers = read_history(workspace).newest()
    published = all_published(workspace)
    nights: list[Nights] = []
    rows = [
        _guarded(
            "baseline", one, "baseline", partial(_against_baseline, workspace, one, published, settings, nights, known)
        )
        for one in headers
    ]
    clusters = cache(partial(dataset_clusters, workspace, settings=settings))  # read once for all systems
    rows += [
        _guarded("systems", new, old.system, partial(_between, workspace, old, new, settings, clusters, known))
        for old, new in combinations(headers, 2)
        if old.benchmark == new.benchmark
    ]
    return Comparisons(rows, path, nights)


_Known = Mapping[str, ComparisonRow]  # what a row was made from -> the row


def _known_rows(path: Path) -> _Known:
    """The rows of the last `regressions.json`; none where it is of another version, or somebody has edited it."""
    try:
        rows = Regressions.model_validate_json(read_bytes(path)).root
    except (InputError, pydantic.ValidationError):
        return {}
    return {row.made_from: row for row in rows if row.made_from is not None}


def _made_from(key: str, evaluations: Iterable[Evaluation], settings: VerdictSettings, judged: Iterable[str]) -> str:
    """A digest of all that a comparison is made from, without reading the scores."""
    parts = [key, PROCEDURE, settings.model_dump_json(), sorted(judged)]
    for evaluation in evaluations:
        files = [evaluation.scores(kind) for kind in COMPARED]
        stats = [(stat.st_mtime_ns, stat.st_size) for path in files if path.exists() for stat in [path.stat()]]
        parts += [evaluation.record.model_dump_json(), stats]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]


def compare_evaluations(
    kind: str, tonight: Evaluation, baseline: Sequence[Evaluation], *, old: str, new: str
) -> Comparison:
    """The verdicts on an evaluation against others of the same dataset, corpus and metrics.

    Args:
        kind: `systems` or `evaluations`.
        tonight: The evaluation in question.
        baseline: One or more; their mean is compared with.
        old: Name of the baseline.
        new: Name of the evaluation's side.
    """
    runs = [run_of_evaluation(one) for one in baseline]
    return compare_runs(kind, run_of_evaluation(tonight), runs, old=old, new=new)


def compare_runs(
    kind: str,
    tonight: ScoredRun,
    others: Sequence[ScoredRun],
    *,
    old: str,
    new: str,
    settings: VerdictSettings = VerdictSettings(),  # noqa: B008  # frozen
    judged: frozenset[str] = frozenset(),
    clusters: Mapping[str, str] | None = None,
) -> Comparison:
    """The same of runs that are read already.

    Args:
        kind: `systems` or `evaluations`.
        tonight: The evaluation in question.
        others: One or more.
        old: Name of the others.
        new: Name of the evaluation's side.
        settings: The numbers of the procedure.
        judged: Measures of the judge that take part.
        clusters: Question -> its document, where documents are tested.
    """
    rules = settings.rules(tonight.min_coverage)
    key = f"{kind}/{tonight.benchmark}/{old}/{new}"
    found = look(tonight, others, key=key, rules=rules, judged=judged, clusters=clusters)
    # Nothing moves when a deterministic system is asked again: a rerun would confirm every change.
    is_deterministic = all(run.is_deterministic for run in (tonight, *others))
    confirmation: Confirmation = "not_needed" if is_deterministic else "no_rerun"
    verdicts = {name: verdict(one, confirmation=confirmation, rules=rules) for name, one in found.evidence.items()}
    moved = {name: found.moved[name] for name, one in verdicts.items() if one.confirmation is not None}
    return Comparison(kind, tonight.benchmark, old, new, verdicts, found.reason, moved, tonight.evaluation_id)


def _guarded(kind: str, header: ResultsHeader, old: str, make: Callable[[], Comparison]) -> Comparison:
    """A comparison, or the line that says why its files cannot be read."""
    try:
        return make()
    except InputError as error:
        return Comparison(kind, header.benchmark, old, header.system, {}, str(error))


def _against_baseline(
    workspace: Workspace,
    header: ResultsHeader,
    published: Mapping[tuple[str, str], Sequence[Evaluation]],
    settings: VerdictSettings,
    nights: list[Nights],
    known: _Known,
) -> Comparison:
    load_evaluation(workspace, header.evaluation_id)  # results whose scores are gone have no verdict, and say so
    evaluations = published.get((header.benchmark, header.system), ())
    if not evaluations:
        return Comparison("baseline", header.benchmark, "baseline", header.system, {}, "not_published")
    baseline = read_baseline(workspace, header.benchmark, header.system)
    if baseline is None:
        return _provisional(workspace, evaluations, settings, known)
    found = nights_of(workspace, evaluations, baseline, settings)
    nights.append(found)
    if not found.nights and header.evaluation_id in baseline.evaluations:
        return Comparison("baseline", header.benchmark, "baseline", header.system, {}, "is_baseline")
    night = found.nights[-1] if found.nights else _night_of(workspace, evaluations[-1], baseline, settings)
    return _comparison(header, night, flip_sentence(found.flip_share))


def _night_of(workspace: Workspace, evaluation: Evaluation, baseline: Baseline, settings: VerdictSettings) -> Night:
    """The newest evaluation when it came before the baseline was pinned."""
    yardstick = yardstick_of(workspace, evaluation, baseline.evaluations, settings)
    return new_night((), run_of_evaluation(evaluation), yardstick)


def _provisional(
    workspace: Workspace, evaluations: Sequence[Evaluation], settings: VerdictSettings, known: _Known
) -> Comparison:
    newest = evaluations[-1]
    record = newest.record
    earlier = earlier_runs(evaluations)
    if not earlier:
        return Comparison("baseline", record.benchmark, "baseline", record.system, {}, "no_baseline")
    judged = calibrated_measures(workspace, record.benchmark, record.fingerprints.judge)
    made_from = _made_from("provisional", (*earlier, newest), settings, judged)
    if made_from in known:
        return comparison_of(known[made_from])
    yardstick = yardstick_of(workspace, newest, [one.record.evaluation_id for one in earlier], settings)
    run = run_of_evaluation(newest)
    found = yardstick.look(run)
    # Nothing of these nights is kept, so that also what was not flagged shows its questions.
    moved = {name: questions for name, questions in found.moved.items() if questions}
    row = _comparison(record, new_night((), run, yardstick, found), None)
    return replace(row, moved=moved, made_from=made_from)


def _comparison(of: Any, night: Night, note: str | None) -> Comparison:
    return Comparison(
        "baseline",
        of.benchmark,
        "baseline",
        of.system,
        {name: metric.verdict(name) for name, metric in night.metrics.items()},
        night.reason,
        {name: metric.moved for name, metric in night.metrics.items() if metric.moved},
        night.evaluation_id,
        night.rerun,
        note,
    )


def _between(
    workspace: Workspace,
    old: ResultsHeader,
    new: ResultsHeader,
    settings: VerdictSettings,
    clusters: Callable[[str, str], Mapping[str, str] | None],
    known: _Known,
) -> Comparison:
    evaluations = [load_evaluation(workspace, one.evaluation_id) for one in (old, new)]
    record = evaluations[1].record
    judged = calibrated_measures(workspace, new.benchmark, new.fingerprints.get("judge"))
    made_from = _made_from("systems", evaluations, settings, judged)
    if made_from in known:
        return comparison_of(known[made_from])
    first, second = (run_of_evaluation(one) for one in evaluations)
    found = compare_runs(
        "systems",
        second,
        [first],
        old=old.system,
        new=new.system,
        settings=settings,
        judged=judged,
        clusters=clusters(record.dataset_id, record.dataset_version),
    )
    return replace(found, made_from=made_from)
