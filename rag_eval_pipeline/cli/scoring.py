"""The command on runs and qrels: score."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from rag_eval_pipeline.cli.options import AsJson
from rag_eval_pipeline.cli.output import emit


def score(
    qrels: Annotated[Path, typer.Option(help="Judgements: TREC, JSON or parquet.")],
    run: Annotated[Path, typer.Option(help="Rankings: TREC, JSON or parquet.")],
    measures: Annotated[
        list[str],
        typer.Option("--measure", "-m", help="Such as nDCG@10, P.5,10, all_trec or package.module:NAME; repeatable."),
    ] = ["official"],  # noqa: B006, typer copies it
    by_query: Annotated[bool, typer.Option("-q", help="Each query before the means.")] = False,
    level: Annotated[int, typer.Option("--level-rel", "-l", min=1, help="Least grade that is relevant.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Score a run against qrels; prints what trec_eval prints.

    Example: rag-eval score --qrels qrels.txt --run run.txt -m nDCG@10 -m RR
    """
    from rag_eval_pipeline.metrics.retrieval.files import notes, score_file, to_json, trec_lines
    from rag_eval_pipeline.metrics.retrieval.names import parse_measures, shows_run_id

    scores, run_id = score_file(run, qrels, parse_measures(measures), level=level)
    for note in notes(scores):
        print(f"rag-eval: {note}", file=sys.stderr)
    shown = run_id if shows_run_id(measures) else None
    emit(
        to_json(scores, run_id=run_id, by_query=by_query) if as_json else None,
        as_json,
        trec_lines(scores, run_id=shown, by_query=by_query),
    )
