"""Commands that score files, without a workspace: score, spans."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rag_eval_pipeline.cli.output import AsJson, emit, print_notes


def score(
    qrels: Annotated[Path, typer.Option(metavar="FILE", help="Judgements: TREC, BEIR, JSON or parquet.")],
    run: Annotated[Path, typer.Option(metavar="FILE", help="Rankings: TREC, JSON or parquet.")],
    measures: Annotated[
        list[str],
        typer.Option(
            "--measure",
            "-m",
            metavar="MEASURE",
            help="A measure such as nDCG@10, P.5,10, all_trec or package.module:NAME; repeatable.",
        ),
    ] = ["official"],  # noqa: B006, typer copies it
    by_query: Annotated[bool, typer.Option("-q", help="Print the scores of each query before the means.")] = False,
    level: Annotated[int, typer.Option("--level-rel", "-l", min=1, help="Lowest grade that counts as relevant.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Score a run against qrels; prints what trec_eval prints.

    Example: rag-eval score --qrels qrels.txt --run run.txt -m nDCG@10 -m RR
    """
    from rag_eval_pipeline.evaluation.trec_scoring import notes, score_file, to_json, trec_lines
    from rag_eval_pipeline.metrics.retrieval.names import parse_measures, shows_run_id

    scores, run_id = score_file(run, qrels, parse_measures(measures), level=level)
    print_notes(notes(scores))
    shown = run_id if shows_run_id(measures) else None
    emit(
        to_json(scores, run_id=run_id, by_query=by_query) if as_json else None,
        as_json,
        trec_lines(scores, run_id=shown, by_query=by_query),
    )


class Sides(StrEnum):
    """Which of the two files an option applies to."""

    none = "none"
    gold = "gold"
    predicted = "predicted"
    both = "both"


def spans(
    gold: Annotated[
        Path, typer.Option(metavar="FILE", help="Gold citations: .eval.json, .gt.json, or rows as JSON Lines or JSON.")
    ],
    predicted: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Citations of a system: .results.json, or rows with citations or an answer."),
    ],
    tolerance: Annotated[int, typer.Option(min=0, help="Number of characters by which an end may differ.")] = 10,
    documents: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Document texts, to score words as well: pages.parquet, JSON, .eval.json."),
    ] = None,
    end_inclusive: Annotated[
        Sides, typer.Option(help="Files in which end_char is the last character instead of one past it.")
    ] = Sides.none,
    annotator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Use only this annotator's annotations of a .gt.json.")
    ] = None,
    by_query: Annotated[bool, typer.Option("-q", help="Print the scores of each question before the means.")] = False,
    as_json: AsJson = False,
) -> None:
    """Score cited spans against gold ones: Jaccard, precision and recall of spans, characters and words.

    Example: rag-eval spans --gold bench.eval.json --predicted cited.jsonl --documents pages.parquet
    """
    from rag_eval_pipeline.evaluation.span_report import (
        ReadOptions,
        compare_spans,
        notes,
        read_gold,
        read_predicted,
        read_texts,
        report_lines,
        to_json,
    )
    from rag_eval_pipeline.metrics.spans import find_tokens

    texts = None if documents is None else {name: find_tokens(text) for name, text in read_texts(documents).items()}
    wanted = read_gold(gold, ReadOptions(texts or (), end_inclusive in (Sides.gold, Sides.both), annotator))
    names = {citation.file_name for question in wanted.values() for citation in question.citations or ()}
    known = names | set(texts or ())
    given = read_predicted(predicted, ReadOptions(known, end_inclusive in (Sides.predicted, Sides.both)))
    report = compare_spans(wanted, given, tolerance=tolerance, texts=texts)
    print_notes(notes(report))
    emit(
        to_json(report, by_query=by_query) if as_json else None,
        as_json,
        () if as_json else report_lines(report, by_query=by_query),
    )
