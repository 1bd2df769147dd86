"""Whether a judge has changed since earlier nights, by its verdicts on the kept answers of `recheck`.

They are tested like a system's scores (`metrics.run_labels`), with the answer as the unit. A judged metric is not the
system's while the judge's change is open or confirmed, nor where the judge moved in the same direction that night.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal

import numpy as np
import pydantic

from rag_eval_pipeline.errors import counted
from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.judges.recheck import NOT_JUDGED, Judging, KeptAnswers
from rag_eval_pipeline.judges.trust_card import Task, is_other_model
from rag_eval_pipeline.metrics.intervals import Values
from rag_eval_pipeline.metrics.run_labels import RUNS_MIN, label_test, pair_runs

OPEN_LEVEL = 0.01
SUSPECT_LEVEL = 0.05  # of a move in one direction
CURRENT_MAX = 4  # judgings that are tested together
REASONS = {None: "its evaluation has no judging of the labelled answers", "budget_spent": "its daily budget is used up"}


class TaskCheck(Model):
    """The labels of one task."""

    n_labels: int  # that the kept ones stand for
    # One-sided p.
    stricter: float
    lenient: float
    different: float  # in either direction: verdicts that are not those of most runs
    agreed_before: float  # share of the labels
    agreed_now: float

    @property
    def p(self) -> float:
        """The smallest p, doubled where it is of both directions: each direction has half of a level."""
        return min(self.stricter, self.lenient, 2 * self.different)


class JudgeCheck(Model):
    """Whether the judge of a night is that of the nights before; part of a file of nights."""

    state: Literal["steady", "open", "changed", "not_checked"]
    answers: str | None = None  # digest of what was judged
    since: pydantic.AwareDatetime | None = None  # when the first night of a change began
    judgings: tuple[str, ...] = ()  # verdicts of the nights that show the change, tonight's last
    models: tuple[str, ...] = ()  # as the judge's server reports them
    models_before: tuple[str, ...] = ()
    p: float | None = None  # over all tasks
    level: float | None = None  # the p that is needed
    tasks: dict[Task, TaskCheck] = pydantic.Field(default_factory=dict)
    reason: str | None = None  # why the judge was not checked tonight

    @property
    def is_unsettled(self) -> bool:
        """Whether a change is open or confirmed."""
        return self.state in ("open", "changed")

    def explains(self, task: Task, *, fell: bool) -> bool:
        """Whether the judge may be the reason that a metric fell, or rose."""
        found = self.tasks.get(task)
        moved = found is not None and (found.stricter if fell else found.lenient) <= SUSPECT_LEVEL
        return self.is_unsettled or moved

    @property
    def doubt(self) -> str:
        """Why a judged metric has no verdict."""
        if self.since is None:
            return "the judge moved in the same direction on labelled answers"
        return f"the judge {'changed' if self.state == 'changed' else 'may have changed'} on {self.since:%-d %B}"

    @property
    def sentence(self) -> str | None:
        """What people need to know; None while the judge is steady."""
        missed = f"The judge was not checked: {REASONS.get(self.reason, self.reason)}."
        if self.since is None:
            return missed if self.state == "not_checked" else None
        parts = []
        is_new = is_other_model(self.models, self.models_before)
        if is_new:
            parts.append(f"its server answers as {', '.join(self.models)}, before as {', '.join(self.models_before)}")
        if self.tasks:
            task, found = min(self.tasks.items(), key=lambda one: one[1].p)
            agreed = (
                f"it agreed with your {counted(found.n_labels, 'label')} of {task} in {100 * found.agreed_before:.0f} %"
            )
            p = "" if is_new else f" (p = {self.p:.1g}, {self.level:.1g} is needed)"
            parts.append(f"{agreed}, now in {100 * found.agreed_now:.0f} %{p}")
        until = "this is decided"
        if self.state == "changed":
            until = "`rag-eval calibrate` is run again and a baseline is pinned with this judge"
        sentence = f"T{self.doubt[1:]}: {'; '.join(parts)}. Its metrics show nothing about the system until {until}."
        return sentence if self.reason is None else f"{sentence} {missed}"


def check_judge(
    kept: KeptAnswers | None,
    tonight: Sequence[Judging],
    earlier: Iterable[Judging],
    before: JudgeCheck | None,
    *,
    level: float,
    opened_at: datetime,
) -> JudgeCheck | None:
    """Test tonight's judgings of the kept answers against earlier ones; None for a judge that is not checked.

    Args:
        tonight: Of the night and of its reruns.
        earlier: Of the runs that the night is compared with; fewer than five are joined by those of the calibration.
        before: The check of the night before; a change that is open there is tested with tonight's judgings.
        level: Probability of a false change in one direction on one night, over all reruns.
    """
    unsettled = before if before is not None and before.is_unsettled else None
    if kept is None:
        return unsettled
    digest = kept.digest
    now = [one for one in tonight if one.answers == digest and one.reason is None]
    if not now or (unsettled is not None and unsettled.answers != digest):
        reason = next((one.reason for one in tonight if one.reason is not None), None)
        return (unsettled or JudgeCheck(state="not_checked")).model_copy(update={"reason": reason})
    past = [one for one in earlier if one.answers == digest and one.reason is None]
    if len(past) < RUNS_MIN:
        past = [*kept.judgings, *past]
    reference = _scores(one.verdicts for one in past)
    models, models_before = (tuple(sorted({name for one in some for name in one.models})) for some in (now, past))
    judgings = [one.verdicts for one in now]
    tasks = _test(kept, reference, _scores(judgings))
    was_seen = unsettled is not None and any(found.p <= SUSPECT_LEVEL for found in tasks.values())
    if unsettled is not None and was_seen:
        judgings = [*unsettled.judgings, *judgings][-CURRENT_MAX:]
        tasks = _test(kept, reference, _scores(judgings))
    p = min(1.0, len(tasks) * min(found.p for found in tasks.values()))
    # As in the procedure of nights: two runs have half of the level, three and four a quarter each.
    level /= 2 if len(judgings) <= 2 else CURRENT_MAX
    state: Literal["steady", "open", "changed"] = "steady"
    if is_other_model(models, models_before) or (len(judgings) > 1 and p <= level):
        state = "changed"
    elif was_seen or p <= OPEN_LEVEL:
        state = "changed" if unsettled is not None and unsettled.state == "changed" else "open"
    since = None if state == "steady" else opened_at if unsettled is None else unsettled.since
    return JudgeCheck(
        state=state,
        answers=digest,
        since=since,
        judgings=tuple(judgings),
        models=models,
        models_before=models_before,
        p=p,
        level=level,
        tasks=tasks,
    )


def _scores(judgings: Iterable[str]) -> Values:
    rows = [[np.nan if one == NOT_JUDGED else float(one) for one in verdicts] for verdicts in judgings]
    return np.array(rows, dtype=np.float64)


def _test(kept: KeptAnswers, reference: Values, current: Values) -> dict[Task, TaskCheck]:
    labels = np.array([one.label for one in kept.labels], dtype=np.float64)
    weights = np.array([one.weight for one in kept.labels])

    def agreement(runs: Values, part: np.ndarray) -> float:
        counts = weights[part] * ~np.isnan(runs[:, part])
        return float((counts * (runs[:, part] == labels[part])).sum() / max(counts.sum(), 1e-9))

    found: dict[Task, TaskCheck] = {}
    for task in dict.fromkeys(one.item.task for one in kept.labels):
        part = np.array([one.item.task == task for one in kept.labels])
        answers = np.array([one.answer for one in kept.labels])[part]
        units = np.unique(answers, return_inverse=True)[1]
        before, now = reference[:, part], current[:, part]
        runs = np.concatenate([before, now])
        usual = np.nansum(runs, axis=0) >= 0.5 * np.count_nonzero(~np.isnan(runs), axis=0)
        is_usual = np.where(np.isnan(runs), np.nan, runs == usual)
        p = label_test(pair_runs(before, now, units))
        different = label_test(pair_runs(is_usual[: len(before)], is_usual[len(before) :], units)).low
        found[task] = TaskCheck(
            n_labels=round(weights[part].sum()),
            stricter=p.low,
            lenient=p.high,
            different=different,
            agreed_before=agreement(reference, part),
            agreed_now=agreement(current, part),
        )
    return found
