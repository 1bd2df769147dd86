"""Assets of the conversion, one partition a benchmark: from foreign files to a corpus and its datasets."""

import dagster as dg
import pydantic

from rag_eval_pipeline.conversion.stamp import Recheck, StepReport
from rag_eval_pipeline.conversion.step_checks import CHECKS
from rag_eval_pipeline.defs.partitions import benchmarks
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.defs.shell import (
    check_result,
    check_specs,
    numbers,
    one_line_errors,
    png_or_reason,
    progress_log,
    table,
)

GROUP = "conversion"


class CorpusConfig(dg.Config):
    """How a corpus is built this time."""

    recheck: bool = pydantic.Field(False, description="Look again at the pages that documents were fetched from.")
    accept: bool = pydantic.Field(
        False, description="The same, and let pages that have changed take the place of their documents."
    )


def _run(
    context: dg.AssetExecutionContext, resource: WorkspaceResource, recheck: Recheck = "no"
) -> dg.MaterializeResult:
    from rag_eval_pipeline.conversion.steps import STEPS, RunPart, run_step

    step = context.asset_key.path[-1]
    steps = context.run.step_keys_to_execute or [node.name for node in context.job_def.nodes]
    with one_line_errors():
        report = run_step(
            resource.workspace,
            context.partition_key,
            step,
            part=RunPart(context.run.run_id, frozenset(STEPS.keys() & steps)),
            progress=progress_log(context, f"{step} of {context.partition_key}"),
            tell=context.log.info,
            recheck=recheck,
        )
    for note in report.notes:
        context.log.warning(note)
    return _result(report)


def _result(report: StepReport) -> dg.MaterializeResult:
    return dg.MaterializeResult(
        metadata={
            **numbers(report.record.counts),
            **numbers(report.figures),
            "preview": table(report.preview),
            **{name: table(rows) for name, rows in report.tables.items()},
            **{name: png_or_reason(draw, name.replace("_", " ")) for name, draw in report.pictures.items()},
        },
        check_results=[check_result(check) for check in report.record.checks],
    )


@dg.asset(
    partitions_def=benchmarks, group_name=GROUP, kinds={"sql", "parquet"},
    check_specs=check_specs("questions", CHECKS["questions"], benchmarks),
)  # fmt: skip
def questions(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """Rows of the benchmark's source as questions; bad rows in quarantine, none lost.

    `questions.parquet`, and `quarantine.jsonl` with file, row, field and cause of each row that was not taken.

    Source: NVIDIA RAG Blueprint, "Dataset layout, train.json, and conversion":
    Bringing external data into this layout.
    """
    return _run(context, workspace)


@dg.asset(
    partitions_def=benchmarks, group_name=GROUP, kinds={"playwright", "pdf"}, deps=[questions],
    check_specs=check_specs("corpus", CHECKS["corpus"], benchmarks),
)  # fmt: skip
def corpus(
    context: dg.AssetExecutionContext, config: CorpusConfig, workspace: WorkspaceResource
) -> dg.MaterializeResult:
    """The documents that the questions name, as PDFs named by the URL-stem rule, and their manifest.

    `corpus/<benchmark>/*.pdf`: web pages printed, a publisher's PDF byte for byte; nothing else lies in the folder.

    Source: NVIDIA RAG Blueprint, "Dataset layout, train.json, and conversion":
    Deriving corpus filenames from URLs.
    """
    return _run(context, workspace, "accept" if config.accept else "look" if config.recheck else "no")


@dg.asset(
    partitions_def=benchmarks, group_name=GROUP, kinds={"pdf", "parquet"}, deps=[corpus],
    check_specs=check_specs("corpus_text", CHECKS["corpus_text"], benchmarks),
)  # fmt: skip
def corpus_text(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """The text of each page, with its place in the document.

    Offsets of gold texts and of citations count the code points of this text.

    Source: Citation Accuracy Evaluation 2.2, the offsets of a citation.
    """
    return _run(context, workspace)


@dg.asset(
    partitions_def=benchmarks, group_name=GROUP, kinds={"json"}, deps=[questions, corpus],
    check_specs=check_specs("train_json", CHECKS["train_json"], benchmarks),
)  # fmt: skip
def train_json(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """`train.json`: each accepted question with its answer and its documents' file names.

    With `corpus` beside it, the folder is an evaluation root as `evaluate_rag.py` takes it.

    Source: NVIDIA RAG Blueprint, "Dataset layout, train.json, and conversion":
    `train.json` schema.
    """
    return _run(context, workspace)


@dg.asset(
    partitions_def=benchmarks, group_name=GROUP, kinds={"json"}, deps=[train_json, corpus_text],
    check_specs=check_specs("evaluation_dataset", CHECKS["evaluation_dataset"], benchmarks),
)  # fmt: skip
def evaluation_dataset(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """`.eval.json`: the questions with accepted answers and the places of their gold texts.

    Source: Evaluation Data Formats 2.1, Evaluation Dataset Format; read by Evret, too.
    """
    return _run(context, workspace)


@dg.asset(
    partitions_def=benchmarks, group_name=GROUP, kinds={"json"}, deps=[evaluation_dataset],
    check_specs=check_specs("ground_truth", CHECKS["ground_truth"], benchmarks),
)  # fmt: skip
def ground_truth(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """`.gt.json` where gold texts were located, and the stamp that lets the benchmark be evaluated.

    People's annotations are imported here, and how far they agree is measured.

    Source: Evaluation Data Formats 2.2, Ground Truth Annotations Format.
    """
    return _run(context, workspace)


ASSETS = [questions, corpus, corpus_text, train_json, evaluation_dataset, ground_truth]
