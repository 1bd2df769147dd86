"""The runs that a pair's nights are compared with: the pinned ones and the quiet nights after them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.compared_runs import (
    ScoredRun,
    calibrated_measures,
    dataset_clusters,
    run_of_evaluation,
    why_not_comparable,
)
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, load_evaluation
from rag_eval_pipeline.formats.dataset import open_dataset
from rag_eval_pipeline.judges.judge_changes import JudgeCheck, check_judge
from rag_eval_pipeline.judges.recheck import KeptAnswers, find_kept
from rag_eval_pipeline.metrics.run_labels import FINE_QUESTIONS
from rag_eval_pipeline.metrics.segments import find_segments, segment_changes, tested_values
from rag_eval_pipeline.metrics.verdict_rules import REFERENCE_RUNS, Budget
from rag_eval_pipeline.metrics.watch import NEWEST_RUNS
from rag_eval_pipeline.monitoring.causes import question_groups
from rag_eval_pipeline.monitoring.comparison import RunEvidence, gather_evidence
from rag_eval_pipeline.monitoring.night_records import Night
from rag_eval_pipeline.monitoring.verdict_settings import VerdictSettings
from rag_eval_pipeline.workspace import Workspace


@dataclass(frozen=True, slots=True)
class BaselineRuns:
    """What a pair's nights are compared with, and how.

    Args:
        runs: The pinned ones, oldest first.
        read: Returns an evaluation's scores by its id.
        judged: Measures of the judge that take part.
        clusters: Question -> its document.
        groups: Column and value -> the questions that have it, of the segments that are tested.
        budget: Of false alarms.
        kept: The labelled answers that the judge judges again; None for a judge that is not checked.
    """

    runs: Sequence[ScoredRun]
    settings: VerdictSettings
    read: Callable[[str], ScoredRun] = field(repr=False)
    judged: Collection[str] = ()
    clusters: Mapping[str, str] | None = field(default=None, repr=False)
    groups: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict, repr=False)
    budget: Budget = Budget()
    kept: KeptAnswers | None = field(default=None, repr=False)

    def reference(self, history: Sequence[Night]) -> list[ScoredRun]:
        """Return the runs that the next night is compared with: the pinned ones and quiet nights, 20 at most.

        Those of a deterministic system are the pinned ones. A night whose evaluation is gone is left out.
        """
        found = list(self.runs)[-REFERENCE_RUNS:]
        if found[0].is_deterministic:
            return found
        return [*found, *islice(self._quiet_runs(history), REFERENCE_RUNS - len(found))]

    def all_nights(self, history: Sequence[Night]) -> list[ScoredRun]:
        """Return the newest runs of quiet nights and the pinned ones, 60 at most; of very large benchmarks 20.

        A night whose evaluation is gone is left out. The test is valid with any of them.
        """
        limit = NEWEST_RUNS if len(self.runs[0].query_ids) <= FINE_QUESTIONS else REFERENCE_RUNS
        nights = list(islice(self._quiet_runs(history[::-1]), limit))[::-1]
        return [*self.runs, *nights][-limit:]

    def _quiet_runs(self, history: Iterable[Night]) -> Iterator[ScoredRun]:
        for night in history:
            if night.joins_reference:
                run = self._read_or_none(night.evaluation_id)
                if run is not None and why_not_comparable(run, self.runs[:1]) is None:
                    yield run

    def check_judge(
        self, current: Sequence[ScoredRun], reference: Sequence[ScoredRun], history: Sequence[Night]
    ) -> JudgeCheck | None:
        """Test whether the judge of a night and its reruns is that of the reference runs and the nights before."""
        tonight, earlier = ([run.recheck for run in runs if run.recheck is not None] for runs in (current, reference))
        before = history[-1].judge if history else None
        level, opened_at = self.budget.a, current[0].opened_at
        return check_judge(self.kept, tonight, earlier, before, level=level, opened_at=opened_at)

    def _read_or_none(self, evaluation_id: str) -> ScoredRun | None:
        try:
            return self.read(evaluation_id)
        except InputError:
            return None

    def gather_evidence(self, current: Sequence[ScoredRun], reference: Sequence[ScoredRun]) -> RunEvidence:
        """Test a night and its reruns against reference runs."""
        return gather_evidence(
            current,
            reference,
            rules=self.settings.night_rules(len(current), self.budget),
            judged=self.judged,
            clusters=self.clusters,
            is_night=True,
        )

    def test_night(self, current: Sequence[ScoredRun], reference: Sequence[ScoredRun]) -> RunEvidence:
        """Test a night and its reruns against reference runs, and the questions of each segment by themselves."""
        rules, found = self.settings.night_rules(len(current), self.budget), self.gather_evidence(current, reference)
        places = {name: place for place, name in enumerate(found.query_ids)}
        members = {value: [places[name] for name in own if name in places] for value, own in self.groups.items()}
        changes = segment_changes(
            {name: one.paired for name, one in found.compared.items() if not one.evidence.is_advisory},
            find_segments(members, len(places)),
            rules,
            certain=[name for name, evidence in found.evidence.items() if evidence.is_certain],
        )
        return replace(found, compared={**found.compared, **{one.evidence.key: one for one in changes}})


def read_baseline_runs(
    workspace: Workspace,
    evaluation: Evaluation,
    baseline: Sequence[str],
    settings: VerdictSettings,
    *,
    n_pairs: int = 1,
) -> BaselineRuns:
    """Read the runs that an evaluation is compared with, by their ids.

    Args:
        n_pairs: That are evaluated every night.
    """
    record = evaluation.record
    read = cache(lambda name: run_of_evaluation(load_evaluation(workspace, name)))
    clusters = dataset_clusters(workspace, record.dataset_id, record.dataset_version)
    names = list(clusters)  # in the dataset's order
    queries = open_dataset(workspace.eval_json(record.dataset_id, record.dataset_version)).queries
    tested = tested_values(question_groups(queries))
    groups = {value: [names[place] for place in places] for value, places in tested.items()}
    return BaselineRuns(
        runs=[read(name) for name in baseline],
        settings=settings,
        read=read,
        judged=calibrated_measures(workspace, record.benchmark, record.fingerprints.judge),
        clusters=clusters,
        groups=groups,
        budget=Budget(settings.false_alarms_a_year, n_pairs, 0.5 if groups else 1.0),
        kept=find_kept(workspace.trust_cards, benchmark=record.benchmark, fingerprint=record.fingerprints.judge),
    )
