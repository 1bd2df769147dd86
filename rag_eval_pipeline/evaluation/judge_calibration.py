"""Calibrate the judge of evaluations with people's labels, and have it judge labelled answers again each night."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, load_evaluation, newest_evaluation
from rag_eval_pipeline.evaluation.judging import BudgetedJudge, make_cases, read_judgements
from rag_eval_pipeline.evaluation.pair import Pair, load_pair
from rag_eval_pipeline.judges.calibration import AnswersOf, CalibrationRequest, calibrate
from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.labels import Label, labels_path, name_by_system, read_labels
from rag_eval_pipeline.judges.open_judge import open_judge
from rag_eval_pipeline.judges.recheck import (
    Judging,
    KeptAnswers,
    find_kept,
    judge_again,
    keep_answers,
    read_judging,
    repeat_of,
)
from rag_eval_pipeline.judges.trust_card import LabelsBy, TrustCard
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.systems.recording_files import refuse_ids_from_one
from rag_eval_pipeline.workspace import Workspace

KEPT_JUDGINGS = 5  # of a calibration; the first night's verdicts are compared with them


def recheck_judge(workspace: Workspace, evaluation: Evaluation, pair: Pair) -> None:
    """Let the judge judge the kept labelled answers again, once an evaluation, and store its verdicts.

    Where its daily budget is used up, that is stored; the answers of the evaluation come first.
    """
    record = evaluation.record
    kept = find_kept(workspace.trust_cards, benchmark=record.benchmark, fingerprint=record.fingerprints.judge)
    known = None if kept is None else read_judging(evaluation.recheck)
    if kept is None or (known is not None and known.answers == kept.digest and known.reason is None):
        return
    settings = pair.settings.judge

    async def run() -> Judging:
        async with open_judge(settings, workspace.judge_cache) as judge:
            assert judge is not None
            with BudgetedJudge(judge, workspace, settings, record.evaluation_id) as paid:
                return await judge_again(kept, paid, repeat_of(record.evaluation_id))

    try:
        found = asyncio.run(run())
    except ServiceError as error:
        if error.code != "budget_spent":
            raise
        found = Judging(kept.digest, reason=error.code)
    atomic_write(evaluation.recheck, msgspec.json.encode(found) + b"\n")


class Labelled(NamedTuple):
    """A file of labels and what was labelled: the newest evaluation of a system, or an evaluation by its id.

    Args:
        labels: By default what was saved on the report's pages.
    """

    labels: Path | None
    system: str | None = None
    evaluation: str | None = None

    @property
    def name(self) -> str:
        """The system's name or the evaluation's id."""
        return self.system or self.evaluation or ""


def calibrate_judge(
    workspace: Workspace,
    benchmark: str,
    labelled: Sequence[Labelled],
    *,
    labels_by: LabelsBy,
    judges_twice: bool,
    progress: Callable[[str], Callable[[int, int], None]],
) -> tuple[TrustCard, KeptAnswers | None]:
    """Compare the judge of one or more evaluations with labels of their answers.

    Returns:
        The card, and answers that the judge judges again each night; None for a judge that is deterministic or not
        calibrated.

    Raises:
        InputError: `no_evaluation`, `not_answered`, `other_dataset`, `other_judge`, `no_judge`, `no_labels`,
            `ambiguous_ids`, `bad_option`, or what `read_labels` raises.
    """
    answered = [_answers_of(workspace, benchmark, one) for one in labelled]
    files = []
    for one, (_, found) in zip(labelled, answered, strict=True):
        saved = labels_path(workspace, found.record.evaluation_id)
        if one.labels is None and not saved.exists():
            hint = "Label answers on the question pages of the report (rag-eval up), or name a file: --labels FILE"
            raise InputError("no_labels", saved, "labels that were saved on the report's pages", hint=hint)
        files.append(one.labels or saved)
    labels = [read_labels(path) for path in files]
    pair, evaluation = answered[0]
    settings = pair.settings.judge
    for one, (other, found), path, given in zip(labelled, answered, files, labels, strict=True):
        found.require_answered()
        if found.record.fingerprints.dataset != other.fingerprints.dataset:
            raise InputError(
                "other_dataset", found.folder, f"answers to the questions that {benchmark} has now",
                hint="Evaluate again, and label those answers.",
            )  # fmt: skip
        known = {query.query_id for query in other.queries}
        refuse_ids_from_one([label.query_id for label in given], known, path, "Subtract 1.")
        if other.settings.judge != settings:
            raise InputError(
                "other_judge", one.name, f"the judge of {labelled[0].name}", field="evaluation.judge",
                hint="A card is about one judge: calibrate these systems separately.",
            )  # fmt: skip
    cases: list[Case] = []
    pooled: list[Label] = []
    sources: list[AnswersOf] = []
    for one, (other, found), given in zip(labelled, answered, labels, strict=True):
        made = [case for case in make_cases(other, found.answers) if case is not None]
        several = len(labelled) > 1
        new_cases, new_labels = name_by_system(one.name, made, given) if several else (made, given)
        cases += new_cases
        pooled += new_labels
        record, prefix = found.record, f"{one.name}/" if several else ""
        is_same_judge = record.fingerprints.judge == other.fingerprints.judge
        passed = [judged.correctness.verdict == "correct" for judged in read_judgements(found) if judged.correctness]
        sources.append(AnswersOf(record.system, record.evaluation_id, prefix, passed if is_same_judge else ()))
    request = CalibrationRequest(
        benchmark=benchmark,
        judge=settings.title,
        labels_by=labels_by,
        labels_sha256=hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest(),
        answers=tuple(sources),
        min_agreement=settings.min_agreement,
        judges_twice=judges_twice,
        seed=pair.settings.random_seed,
    )

    async def run() -> tuple[TrustCard, KeptAnswers | None]:
        async with open_judge(settings, workspace.judge_cache) as judge:
            if judge is None:
                raise InputError("no_judge", "evaluation settings", "a judge", field="judge.kind", found="none")
            account = f"calibration_{evaluation.record.evaluation_id}"
            with BudgetedJudge(judge, workspace, settings, account) as paid:
                report = progress(f"calibrate {settings.title}")
                card = await calibrate(paid, cases, pooled, request, progress=report)
                if not judge.may_differ or not any(task.is_calibrated for task in card.tasks):
                    return card, None
                return card, await keep_answers(paid, cases, pooled, judgings=KEPT_JUDGINGS if judges_twice else 1)

    return asyncio.run(run())


def _answers_of(workspace: Workspace, benchmark: str, labelled: Labelled) -> tuple[Pair, Evaluation]:
    if labelled.evaluation is not None:
        found = load_evaluation(workspace, labelled.evaluation)
        if found.record.benchmark != benchmark:
            raise InputError(
                "bad_option", labelled.evaluation, f"an evaluation of {benchmark}", found=found.record.benchmark
            )
        return load_pair(workspace, benchmark, found.record.system), found
    pair = load_pair(workspace, benchmark, labelled.name)
    newest = newest_evaluation(workspace, benchmark, labelled.name)
    if newest is None:
        raise InputError(
            "no_evaluation", f"{benchmark} x {labelled.name}", "an evaluation",
            hint=f"Evaluate first: rag-eval evaluate {benchmark} --system {labelled.name}",
        )  # fmt: skip
    return pair, newest
