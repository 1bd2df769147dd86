"""The command that compares a judge with people's labels."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from rag_eval_pipeline.cli.options import AsJson, Root
from rag_eval_pipeline.cli.output import emit, find_workspace, progress_bars
from rag_eval_pipeline.errors import InputError

_WHOSE: dict[str, Literal["human", "own", "model ratings"]] = {
    "human": "human",
    "own": "own",
    "model ratings": "model ratings",
}


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
    from rag_eval_pipeline.evaluation.judging import Labelled, calibrate_judge
    from rag_eval_pipeline.judges.trust_card import summary_lines, write_trust_card

    root = find_workspace(workspace)
    if labels_by not in _WHOSE:
        raise InputError("bad_option", "--labels-by", f"one of {', '.join(_WHOSE)}", found=labels_by)
    systems, evaluations = system or [], evaluation or []
    if bool(systems) == bool(evaluations):
        raise InputError("bad_option", "calibrate", "one of --system and --evaluation")
    named = [*systems, *evaluations]
    if len(named) != len(labels) or len(set(named)) < len(named):
        raise InputError(
            "bad_option", "--labels", "one file for each system or evaluation, in the same order, none of them twice",
            found=f"{len(labels)} for {', '.join(named)}",
        )  # fmt: skip
    labelled = [
        Labelled(path, system=one) if systems else Labelled(path, evaluation=one)
        for path, one in zip(labels, named, strict=True)
    ]
    with progress_bars() as bar:
        card = calibrate_judge(root, name, labelled, labels_by=_WHOSE[labels_by], judges_twice=not once, progress=bar)
    path = write_trust_card(card, root.trust_cards if out is None else out)
    lines = [*summary_lines(card), str(path), f"For people, with the worst disagreements: {path.with_suffix('.md')}"]
    emit(card.model_dump(mode="json") | {"path": str(path)}, as_json, lines)
