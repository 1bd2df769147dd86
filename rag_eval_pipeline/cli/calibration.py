"""The command that compares a judge with people's labels."""

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
    labels: Annotated[Path, typer.Option(help="Labels of its answers: .jsonl or .csv.")],
    system: Annotated[str | None, typer.Option(help="Whose newest evaluation was labelled.")] = None,
    evaluation: Annotated[str | None, typer.Option(help="Or its id, such as eval_run_20250830_001.")] = None,
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
    """
    import asyncio
    import hashlib

    from rag_eval_pipeline.evaluation.judging import cases_of
    from rag_eval_pipeline.evaluation.responses_file import iter_responses
    from rag_eval_pipeline.judges.calibration import calibrate as run
    from rag_eval_pipeline.judges.calibration_card import write_trust_card
    from rag_eval_pipeline.judges.calibration_labels import read_labels
    from rag_eval_pipeline.judges.calibration_trust import Occasion
    from rag_eval_pipeline.judges.opening import open_judge

    root = find_workspace(workspace)
    given = read_labels(labels)
    pair, found = _answered(root, name, system, evaluation)
    if labels_by not in _WHOSE:
        raise InputError("bad_option", "--labels-by", f"one of {', '.join(_WHOSE)}", found=labels_by)
    settings = pair.settings.judge
    occasion = Occasion(
        benchmark=name,
        judge=settings.title,
        labels_by=_WHOSE[labels_by],
        labels_sha256=hashlib.sha256(labels.read_bytes()).hexdigest(),
        min_agreement=settings.min_agreement,
        asks_twice=not once,
        seed=pair.settings.random_seed,
    )

    async def card() -> "TrustCard":
        cases = [case for case in cases_of(pair, iter_responses(found.responses)) if case is not None]
        async with open_judge(settings, root.judge_cache) as judge:
            if judge is None:
                raise InputError("no_judge", "evaluation settings", "a judge", field="judge.kind", found="none")
            with progress_bars() as bar:
                return await run(judge, cases, given, occasion, progress=bar(f"calibrate {settings.title}"))

    made = asyncio.run(card())
    path = write_trust_card(made, root.trust_cards if out is None else out)
    emit(made.model_dump(mode="json") | {"path": str(path)}, as_json, _lines(made, path))


def _answered(root: "Workspace", name: str, system: str | None, evaluation: str | None) -> tuple["Pair", "Evaluation"]:
    """The pair and the evaluation whose answers were labelled.

    Raises:
        InputError: `bad_option`, `no_evaluation`, `not_answered`, `other_dataset`, or a fault of a file.
    """
    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.evaluation.runs import load_evaluation, newest_evaluation

    if (system is None) == (evaluation is None):
        raise InputError("bad_option", "calibrate", "one of --system and --evaluation")
    if evaluation is not None:
        found = load_evaluation(root, evaluation)
        if found.record.benchmark != name:
            raise InputError("bad_option", evaluation, f"an evaluation of {name}", found=found.record.benchmark)
        pair = load_pair(root, name, found.record.system)
    else:
        assert system is not None
        pair = load_pair(root, name, system)
        newest = newest_evaluation(root, name, system)
        if newest is None:
            raise InputError(
                "no_evaluation", f"{name} x {system}", "an evaluation",
                hint=f"Evaluate first: rag-eval evaluate {name} --system {system}",
            )  # fmt: skip
        found = newest
    found.require_answered()
    if found.record.fingerprints.dataset != pair.fingerprints.dataset:
        raise InputError(
            "other_dataset", found.folder, f"answers to the questions that {name} has now",
            hint="Evaluate again, and label those answers.",
        )  # fmt: skip
    return pair, found


def _lines(card: "TrustCard", path: Path) -> list[str]:
    lines = []
    for trust in card.tasks:
        kappa = trust.kappa
        value = f"no kappa ({kappa.reason})" if kappa.value is None else f"kappa {kappa.value:.3f}"
        within = f" ({kappa.interval.low:.3f} to {kappa.interval.high:.3f})" if kappa.interval else ""
        state = "calibrated" if trust.is_calibrated else f"not calibrated. {' '.join(trust.shortcomings)}"
        lines.append(f"{trust.task}: {value}{within} over {trust.n_compared} of {trust.n_labels} labels: {state}")
    return [*lines, str(path)]
