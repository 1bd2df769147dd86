"""The command that compares a judge with people's labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rag_eval_pipeline.cli.options import AsJson, Root
from rag_eval_pipeline.cli.output import emit, find_workspace, progress_bars
from rag_eval_pipeline.errors import InputError

if TYPE_CHECKING:
    from rag_eval_pipeline.evaluation.pair import Pair
    from rag_eval_pipeline.evaluation.runs import Evaluation
    from rag_eval_pipeline.judges.calibration_card import LabelsBy, TrustCard
    from rag_eval_pipeline.workspace import Workspace

_WHOSE: dict[str, "LabelsBy"] = {"human": "human", "own": "own", "model ratings": "model ratings"}


def calibrate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A benchmark: name of a folder in data/sources.")],
    labels: Annotated[list[Path], typer.Option(help="Labels of its answers: .jsonl or .csv; one for each system.")],
    system: Annotated[
        list[str] | None, typer.Option(help="Whose newest evaluation was labelled; several for one card of all.")
    ] = None,
    evaluation: Annotated[
        list[str] | None, typer.Option(help="Or its id, such as eval_run_20250830_001; several likewise.")
    ] = None,
    labels_by: Annotated[
        str, typer.Option(help="human, own or 'model ratings'. Only people's labels calibrate a judge.")
    ] = "human",
    out: Annotated[Path | None, typer.Option(help="Folder for the trust card; by default the workspace's.")] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Do not judge a second time to see whether verdicts stay.")
    ] = False,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Compare the judge's verdicts with labels; write a trust card and print its path.

    Example: rag-eval calibrate tarrow-lights --system embedded --labels labels.csv
    Both: rag-eval calibrate NAME --system a --labels a.csv --system b --labels b.csv
    """
    import asyncio
    import hashlib

    from rag_eval_pipeline.evaluation.judging import cases_of, judge_purse
    from rag_eval_pipeline.evaluation.responses_file import iter_responses
    from rag_eval_pipeline.judges.calibration import calibrate as run
    from rag_eval_pipeline.judges.calibration_card import write_trust_card
    from rag_eval_pipeline.judges.calibration_labels import read_labels
    from rag_eval_pipeline.judges.calibration_pool import LabelledAnswers, pooled
    from rag_eval_pipeline.judges.calibration_trust import Occasion
    from rag_eval_pipeline.judges.opening import open_judge

    root = find_workspace(workspace)
    if labels_by not in _WHOSE:
        raise InputError("bad_option", "--labels-by", f"one of {', '.join(_WHOSE)}", found=labels_by)
    given = [read_labels(path) for path in labels]
    answered = _answered(root, name, system or [], evaluation or [], len(labels))
    first, first_evaluation = answered[0]
    settings = first.settings.judge
    account = f"calibration_{first_evaluation.record.evaluation_id}"
    occasion = Occasion(
        benchmark=name,
        judge=settings.title,
        labels_by=_WHOSE[labels_by],
        labels_sha256=hashlib.sha256(b"".join(path.read_bytes() for path in labels)).hexdigest(),
        systems=tuple(dict.fromkeys(pair.system for pair, _ in answered)),
        min_agreement=settings.min_agreement,
        asks_twice=not once,
        seed=first.settings.random_seed,
    )

    async def card() -> "TrustCard":
        cases, said = pooled(
            [
                LabelledAnswers(
                    pair.system if system else found.record.evaluation_id,
                    [case for case in cases_of(pair, iter_responses(found.responses)) if case is not None],
                    own,
                )
                for (pair, found), own in zip(answered, given, strict=True)
            ]
        )
        async with open_judge(settings, root.judge_cache) as judge:
            if judge is None:
                raise InputError("no_judge", "evaluation settings", "a judge", field="judge.kind", found="none")
            with judge_purse(root, settings, account) as purse, progress_bars() as bar:
                progress = bar(f"calibrate {settings.title}")
                return await run(judge, cases, said, occasion, progress=progress, purse=purse)

    made = asyncio.run(card())
    path = write_trust_card(made, root.trust_cards if out is None else out)
    emit(made.model_dump(mode="json") | {"path": str(path)}, as_json, _lines(made, path))


def _answered(
    root: "Workspace", name: str, systems: Sequence[str], evaluations: Sequence[str], n_labels: int
) -> list[tuple["Pair", "Evaluation"]]:
    """The pairs and the evaluations whose answers were labelled, one for each file of labels.

    Raises:
        InputError: `bad_option`, `no_evaluation`, `not_answered`, `other_dataset`, `other_judge`, or a fault of a file.
    """
    if bool(systems) == bool(evaluations):
        raise InputError("bad_option", "calibrate", "one of --system and --evaluation")
    named = [*systems, *evaluations]
    if len(named) != n_labels or len(set(named)) < len(named):
        raise InputError(
            "bad_option", "--labels", "one file for each system or evaluation, in the same order, none of them twice",
            found=f"{n_labels} for {', '.join(named)}",
        )  # fmt: skip
    found = [_named(root, name, each) for each in systems] or [_by_id(root, name, each) for each in evaluations]
    judge = found[0][0].settings.judge
    for pair, evaluation in found:
        evaluation.require_answered()
        if evaluation.record.fingerprints.dataset != pair.fingerprints.dataset:
            raise InputError(
                "other_dataset", evaluation.folder, f"answers to the questions that {name} has now",
                hint="Evaluate again, and label those answers.",
            )  # fmt: skip
        if pair.settings.judge != judge:
            raise InputError(
                "other_judge", pair.system, f"the judge of {named[0]}", field="evaluation.judge",
                hint="A card is about one judge: calibrate these systems apart.",
            )  # fmt: skip
    return found


def _named(root: "Workspace", name: str, system: str) -> tuple["Pair", "Evaluation"]:
    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.evaluation.runs import newest_evaluation

    pair = load_pair(root, name, system)
    newest = newest_evaluation(root, name, system)
    if newest is None:
        raise InputError(
            "no_evaluation", f"{name} x {system}", "an evaluation",
            hint=f"Evaluate first: rag-eval evaluate {name} --system {system}",
        )  # fmt: skip
    return pair, newest


def _by_id(root: "Workspace", name: str, evaluation: str) -> tuple["Pair", "Evaluation"]:
    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.evaluation.runs import load_evaluation

    found = load_evaluation(root, evaluation)
    if found.record.benchmark != name:
        raise InputError("bad_option", evaluation, f"an evaluation of {name}", found=found.record.benchmark)
    return load_pair(root, name, found.record.system), found


def _lines(card: "TrustCard", path: Path) -> list[str]:
    from rag_eval_pipeline.judges.calibration_labels import LABELS

    lines = []
    for trust in card.tasks:
        kappa, table = trust.kappa, trust.confusion
        (yes,) = LABELS[trust.task][0]
        value = f"no kappa ({kappa.reason})" if kappa.value is None else f"kappa {kappa.value:.3f}"
        within = f" ({kappa.interval.low:.3f} to {kappa.interval.high:.3f})" if kappa.interval else ""
        state = "calibrated" if trust.is_calibrated else "not calibrated"
        lines.append(f"{trust.task}: {state}; {value}{within} over {trust.n_compared} of {trust.n_labels} labels")
        lines.append(
            f"  equal: {table.both_yes + table.both_no}; {yes} by the labels alone: {table.labels_yes_judge_no}, "
            f"by the judge alone: {table.labels_no_judge_yes}"
        )
        left_out = trust.not_judged | ({"tie": trust.n_ties} if trust.n_ties else {})
        if left_out:
            lines.append(f"  left out: {', '.join(f'{count} {reason}' for reason, count in left_out.items())}")
        lines += [f"  {sentence}" for sentence in trust.shortcomings]
    return [*lines, str(path), f"For people, with the worst disagreements: {path.with_suffix('.md')}"]
