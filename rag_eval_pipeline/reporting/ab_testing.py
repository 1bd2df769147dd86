"""A/B tests: two systems on the same benchmarks, as `data/config/ab_testing_config.config.yaml` sets them up.

`ab_test_<a>_vs_<b>_NNN.results.json` says of each benchmark whether B is better or worse than A. A is represented by
its newest runs that are alike, up to five: with fewer, its luck stays in the figures and the verdict is provisional.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import Any

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluations import Evaluation, EvaluationStatus, HumanEvaluation, new_evaluation_id
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, Model, bad_format
from rag_eval_pipeline.formats.yaml import read_settings
from rag_eval_pipeline.judges.comparisons import compare_systems, compare_with_human, evaluate_over_time
from rag_eval_pipeline.judges.trust_card import TrustCard, read_trust_cards
from rag_eval_pipeline.metrics.verdicts import FAILURE_RATE, first_confirmation, verdict
from rag_eval_pipeline.reporting.baselines import newest_alike, published_evaluations
from rag_eval_pipeline.reporting.comparison import (
    Comparison,
    VerdictSettings,
    calibrated_measures,
    comparison_record,
    dataset_clusters,
    gather_evidence,
    read_verdict_settings,
)
from rag_eval_pipeline.reporting.scored_runs import ScoredRun, run_of_evaluation
from rag_eval_pipeline.storage.files import atomic_write_json
from rag_eval_pipeline.workspace import Workspace

FILE = "ab_testing_config.config.yaml"
NIGHTS = 30  # of system B in its trend
ALL = "all"  # benchmarks, where the file of one evaluation names its own


class AbTest(Model):
    """Two systems to be compared."""

    a: str = pydantic.Field(description="The system that is compared with.")
    b: str = pydantic.Field(description="The system in question.")
    benchmarks: tuple[str, ...] = pydantic.Field(("*",), description="Globs of the benchmarks that count.")


class AbSettings(Model):
    """The file."""

    tests: tuple[AbTest, ...] = pydantic.Field((), description="One results file each.")


@dataclass(frozen=True, slots=True)
class AbResult:
    """A test's file and what stands in it."""

    path: Path
    record: Mapping[str, Any]
    evaluations: tuple[Evaluation, ...] = ()

    def sentences(self) -> Iterator[str]:
        """A line a benchmark and metric that moved, or why there is none."""
        for row in self.record["benchmarks"]:
            if row["reason"]:
                yield f"{row['benchmark']}: {row['reason']}"
                continue
            moved = [found for found in row["verdicts"].values() if found["kind"] in ("regressed", "improved")]
            for found in moved or list(row["verdicts"].values())[:1]:
                yield f"{row['benchmark']}: {found['sentence']}"


def run_ab_tests(workspace: Workspace, config: Path | None = None, *, now: datetime) -> list[AbResult]:
    """Compares the systems of each test on what has been published, and writes a results file a test.

    Args:
        workspace: Where.
        config: Settings; those of the workspace unless given.
        now: Aware.

    Raises:
        InputError: A fault of the settings, `no_ab_tests`, or `no_system` for a name without a file.
    """
    path = config or workspace.config / FILE
    try:
        tests = AbSettings.model_validate(read_settings(path)).tests
    except pydantic.ValidationError as error:
        raise bad_format(path, error) from error
    if not tests:
        raise InputError("no_ab_tests", path, "one test or more under `tests`")
    known = workspace.systems()
    for number, test in enumerate(tests):
        for side in (test.a, test.b):
            if side not in known:
                hint = f"Known systems: {', '.join(known) or 'none'}."
                raise InputError("no_system", path, "a system", field=f"tests[{number}]", found=side, hint=hint)
    settings = read_verdict_settings(workspace)
    return [_run(workspace, test, settings, now) for test in tests]


def _run(workspace: Workspace, test: AbTest, settings: VerdictSettings, now: datetime) -> AbResult:
    names = [name for name in workspace.benchmarks() if any(fnmatchcase(name, glob) for glob in test.benchmarks)]
    rows = [_on_benchmark(workspace, name, test, settings) for name in names]
    evaluations = tuple(one for name in names for one in _data_model_evaluations(workspace, name, test, now))
    path = _take_file(workspace, test)
    record = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": path.name.partition(".")[0],
        "evaluation_type": "ab_test",
        "timestamp": now.isoformat(),
        # The header of a results file, so that listings know what this is.
        "benchmark": ALL,
        "system": test.b,
        "system_version": "1",
        "dataset_id": ALL,
        "dataset_version": "1.0.0",
        "a": test.a,
        "b": test.b,
        "benchmarks": rows,
    }
    atomic_write_json(path, record)
    return AbResult(path, record, evaluations)


def _on_benchmark(workspace: Workspace, benchmark: str, test: AbTest, settings: VerdictSettings) -> dict[str, Any]:
    sides = {side: published_evaluations(workspace, benchmark, side) for side in (test.a, test.b)}
    missing = [side for side, evaluations in sides.items() if not evaluations]
    if missing:
        reason = f"no evaluation of {', '.join(missing)}"
        return comparison_record(Comparison("ab_test", benchmark, test.a, test.b, {}, reason))
    newest = sides[test.b][-1]
    try:
        others = [run_of_evaluation(one) for one in newest_alike(sides[test.a])]
        run = run_of_evaluation(newest)
        clusters = dataset_clusters(workspace, newest.record.dataset_id, newest.record.dataset_version, settings)
    except InputError as error:
        return comparison_record(Comparison("ab_test", benchmark, test.a, test.b, {}, str(error)))
    rules = settings.rules(run.min_coverage)
    judged = calibrated_measures(workspace, benchmark, run.fingerprints.judge)
    key = f"ab_test/{benchmark}/{test.a}/{test.b}"
    found = gather_evidence(run, others, key=key, rules=rules, judged=judged, clusters=clusters)
    deterministic = all(one.is_deterministic for one in (run, *others))
    stands = first_confirmation(len(others), is_deterministic=deterministic)
    verdicts = {name: verdict(one, confirmation=stands, rules=rules) for name, one in found.evidence.items()}
    moved = {name: found.moved[name] for name, one in verdicts.items() if one.confirmation is not None}
    row = Comparison("ab_test", benchmark, test.a, test.b, verdicts, found.reason, moved, run.evaluation_id)
    return {**comparison_record(row), "runs_of_a": [one.evaluation_id for one in others]}


def _data_model_evaluations(workspace: Workspace, benchmark: str, test: AbTest, now: datetime) -> Iterator[Evaluation]:
    """Yield the comparisons of a test on one benchmark as the evaluation data models have them.

    For each measure: A against B question by question (`ab_test_comparison`) and B over its last nights
    (`temporal_<measure>`); for each task that people labelled, their share of yes and the judge's
    (`human_ai_comparison`). Source: Evaluation Data Models, Common Evaluation Patterns.
    """
    ours, theirs = (published_evaluations(workspace, benchmark, side) for side in (test.b, test.a))
    if not ours or not theirs:
        return
    try:
        nights = [run_of_evaluation(one) for one in ours[-NIGHTS:]]
        other = run_of_evaluation(theirs[-1])
    except InputError:  # the row of the benchmark says so
        return
    newest = nights[-1]
    for measure in sorted(newest.columns.keys() & other.columns.keys() - {FAILURE_RATE}):
        a, b = _scores(other, measure), _scores(newest, measure)
        if any(value is not None and b.get(name) is not None for name, value in a.items()):
            yield compare_systems(a, b, variant_a=other.evaluation_id, variant_b=newest.evaluation_id, now=now)
        means = [fmean(known) for run in nights if (known := _known(run, measure))]
        if means:
            yield evaluate_over_time(measure, means, target_event_id=f"{benchmark}|{test.b}", now=now)
    for card in read_trust_cards(workspace.trust_cards):
        if (card.benchmark, card.judge_fingerprint, card.labels_by) == (benchmark, newest.fingerprints.judge, "human"):
            yield from _human_comparisons(card, now)


def _human_comparisons(card: TrustCard, now: datetime) -> Iterator[Evaluation]:
    for trust in card.tasks:
        table, n = trust.confusion, trust.n_compared
        if n:
            target = f"{card.benchmark}|{trust.task}"
            judge = Evaluation(
                evaluation_id=new_evaluation_id(),
                target_event_id=target,
                evaluator_name=trust.task,
                score=(table.both_yes + table.labels_no_judge_yes) / n,
                timestamp=now,
                status=EvaluationStatus.COMPLETED,
                metadata={"evaluator_model": card.judge},
            )
            people = HumanEvaluation(
                annotator_id=", ".join(card.annotators) or "people",
                score=(table.both_yes + table.labels_yes_judge_no) / n,
            )
            yield compare_with_human(people, judge, now=now)


def _scores(run: ScoredRun, measure: str) -> dict[str, float | None]:
    return dict(zip(run.query_ids, run.columns[measure].scores, strict=True))


def _known(run: ScoredRun, measure: str) -> list[float]:
    column = run.columns.get(measure)
    return [] if column is None else [score for score in column.scores if score is not None]


def _take_file(workspace: Workspace, test: AbTest) -> Path:
    """A name that no other test has, taken by exclusive creation."""
    workspace.results.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        path = workspace.results / f"ab_test_{test.a}_vs_{test.b}_{number:03d}.results.json"
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            continue
        return path
    raise AssertionError("count() does not end")
