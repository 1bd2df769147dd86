"""Assets of the conversion, one partition per benchmark: source files to datasets; and a job for parts of a corpus."""

from collections.abc import Iterator

import dagster as dg
import pydantic

from rag_eval_pipeline.conversion.stamp import CHECKS, Recheck
from rag_eval_pipeline.defs.checks import check_result, check_specs
from rag_eval_pipeline.defs.execution import as_dagster_failure, progress_log
from rag_eval_pipeline.defs.metadata import OWNERS, ROW_COUNT, numbers, png_image, table
from rag_eval_pipeline.defs.partitions import benchmarks, corpus_shard_keys
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.errors import InputError

GROUP = "conversion"
BROWSER = "browser"  # a pool without a limit, until someone sets one in the UI (Deployment, Concurrency)
ROWS = {  # step -> its count of what has one row or entry each
    "questions": "accepted", "corpus": "documents", "corpus_text": "pages", "train_json": "accepted",
    "evaluation_dataset": "queries", "ground_truth": "annotations",
}  # fmt: skip


class CorpusConfig(dg.Config):
    """How the corpus is built this time."""

    recheck: bool = pydantic.Field(False, description="Fetch the documents' pages again and report what has changed.")
    accept: bool = pydantic.Field(False, description="The same, and replace the documents whose pages have changed.")


def _run(
    context: dg.AssetExecutionContext, resource: WorkspaceResource, recheck: Recheck = "no"
) -> dg.MaterializeResult:
    from rag_eval_pipeline.conversion.convert import RunPart, run_step
    from rag_eval_pipeline.conversion.steps import STEPS

    step = context.asset_key.path[-1]
    steps = context.run.step_keys_to_execute or [node.name for node in context.job_def.nodes]
    with as_dagster_failure(context, unless="shards_missing"):
        report = run_step(
            resource.workspace,
            context.partition_key,
            step,
            part=RunPart(context.run.run_id, frozenset(STEPS.keys() & steps)),
            progress=progress_log(context, f"{step} of {context.partition_key}"),
            log=context.log.info,
            recheck=recheck,
        )
    for note in report.notes:
        context.log.warning(note)
    return dg.MaterializeResult(
        metadata={
            **numbers(report.record.counts),
            **numbers(report.seconds),
            ROW_COUNT: report.record.counts[ROWS[step]],
            "preview": table(report.preview),
            **{name: table(rows) for name, rows in report.tables.items()},
            **{name: png_image(draw, name.replace("_", " ")) for name, draw in report.pictures.items()},
        },
        check_results=[check_result(check) for check in report.record.checks],
        data_version=dg.DataVersion(report.fingerprint) if report.fingerprint else None,
    )


@dg.asset(
    partitions_def=benchmarks, group_name=GROUP, owners=OWNERS, kinds={"sql", "parquet"},
    check_specs=check_specs("questions", CHECKS["questions"], benchmarks),
)  # fmt: skip
def questions(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """The rows of the benchmark's source as questions.

    Writes `questions.parquet`, and `quarantine.jsonl` with file, row, field and cause of each row that was rejected.

    Source: Dataset layout, "Bringing external data into this layout" (docs/reference/specifications.md).
    """
    return _run(context, workspace)


# A multi_asset, because only such a one may end without its checks: while shards are made there is no corpus to check.
@dg.multi_asset(
    specs=[dg.AssetSpec(
        "corpus", deps=["questions"], skippable=True, group_name=GROUP, owners=OWNERS, kinds={"playwright", "pdf"},
        description="""The documents that the questions name, as PDFs named by the URL-stem rule, and their manifest.

Writes `corpus/<benchmark>/*.pdf` and nothing else in that folder: web pages are printed, PDFs kept byte for byte.

Of more documents than `shard_documents` it merges the parts that runs of the job `convert_shard` make. As long as parts
are missing, the run ends here, and `corpus_shards_sensor` starts another one when they are made.

Source: Dataset layout, "Deriving corpus filenames from URLs" (docs/reference/specifications.md).""",
    )],
    partitions_def=benchmarks, can_subset=True, check_specs=check_specs("corpus", CHECKS["corpus"], benchmarks),
    pool=BROWSER,
)  # fmt: skip
def corpus(
    context: dg.AssetExecutionContext, config: CorpusConfig, workspace: WorkspaceResource
) -> Iterator[dg.MaterializeResult]:
    """Build the corpus of a small benchmark, or merge the shards of a large one."""
    recheck: Recheck = "accept" if config.accept else "report" if config.recheck else "no"
    try:
        yield _run(context, workspace, recheck)
    except InputError as error:
        context.log.info(f"This run ends here, because the corpus is made in shards. {error}")


@dg.asset(
    partitions_def=benchmarks, group_name=GROUP, owners=OWNERS, kinds={"pdf", "parquet"}, deps=["corpus"],
    check_specs=check_specs("corpus_text", CHECKS["corpus_text"], benchmarks),
)  # fmt: skip
def corpus_text(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """The text of each page, with its offset in the document.

    Offsets of gold texts and of citations count the code points of this text.

    Source: Citation Accuracy Evaluation 2.2 (docs/reference/specifications.md).
    """
    return _run(context, workspace)


@dg.asset(
    partitions_def=benchmarks, group_name=GROUP, owners=OWNERS, kinds={"json"}, deps=["questions", "corpus_text"],
    check_specs=check_specs("train_json", CHECKS["train_json"], benchmarks),
)  # fmt: skip
def train_json(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """`train.json`: each accepted question with its answer and its documents' file names.

    Gold texts that name no document are looked for in the text of all of them.

    Together with `corpus`, the folder is an evaluation root as `evaluate_rag.py` expects it.

    Source: Dataset layout, "`train.json` schema" (docs/reference/specifications.md).
    """
    return _run(context, workspace)


@dg.asset(
    partitions_def=benchmarks, group_name=GROUP, owners=OWNERS, kinds={"json"}, deps=["train_json", "corpus_text"],
    check_specs=check_specs("evaluation_dataset", CHECKS["evaluation_dataset"], benchmarks),
)  # fmt: skip
def evaluation_dataset(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """`.eval.json`: the questions with accepted answers and the positions of their gold texts. Evret reads it, too.

    Source: Evaluation Data Formats 2.1 (docs/reference/specifications.md).
    """
    return _run(context, workspace)


@dg.asset(
    partitions_def=benchmarks, group_name=GROUP, owners=OWNERS, kinds={"json"}, deps=["evaluation_dataset"],
    check_specs=check_specs("ground_truth", CHECKS["ground_truth"], benchmarks),
)  # fmt: skip
def ground_truth(context: dg.AssetExecutionContext, workspace: WorkspaceResource) -> dg.MaterializeResult:
    """`.gt.json` where gold texts were located, and the stamp without which a benchmark is not evaluated.

    Human annotations are imported here, and their agreement is measured.

    Source: Evaluation Data Formats 2.2 (docs/reference/specifications.md).
    """
    return _run(context, workspace)


@dg.op(pool=BROWSER)
def make_shard(context: dg.OpExecutionContext, workspace: WorkspaceResource) -> None:
    """Make one part of the corpus of a benchmark that has more documents than `shard_documents`."""
    from rag_eval_pipeline.conversion.shards import run_shard

    key = context.partition_key
    progress = progress_log(context, f"shard {key}")
    try:
        with as_dagster_failure(context, unless="no_shard"):
            report = run_shard(workspace.workspace, key, progress=progress, log=context.log.info)
    except InputError as error:  # the source has changed since this run was requested, or the parts are merged
        context.log.warning(str(error))
        return
    for note in report.notes:
        context.log.warning(note)
    context.add_output_metadata(numbers(report.record.counts))


@dg.job(
    partitions_def=corpus_shard_keys,
    description="A part of the corpus of a large benchmark. `corpus_shards_sensor` adds the partitions, "
    "`<benchmark>~<plan>~<number>`, requests a run for each, then the rest of the conversion, in which `corpus` merges "
    "the parts, and removes the partitions.",
    # The parts of one benchmark do not keep everything else waiting; the death of a machine costs each of them a try.
    tags={"dagster/priority": "-1", "dagster/max_retries": "3"},
    # Without it Dagster would make a copy with it for the sensor, and warn of a beta feature that it uses itself.
    resource_defs={"workspace": WorkspaceResource()},
)
def convert_shard() -> None:
    """Make a part of a corpus."""
    make_shard()
