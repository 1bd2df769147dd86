"""A large corpus in shards: ranges of the plan, each made by a run of its own, merged to what one run would make.

The PDFs of all shards go to the benchmark's corpus folder, because names and collisions are settled in the plan. Rows
of the manifest and pages are parts in a folder named by a digest of the plan, so that parts of two plans never meet.
"""

import hashlib
import itertools
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from rag_eval_pipeline.conversion.benchmark_spec import read_spec
from rag_eval_pipeline.conversion.shard_plan import (
    PLAN_FILE,
    ShardPlan,
    ShardsMissing,
    is_current,
    read_conversion_settings,
    read_shard_plan,
    shard_files,
)
from rag_eval_pipeline.conversion.stamp import CODE_VERSION, Conversion, LogLine, Progress, StepRecord, StepReport
from rag_eval_pipeline.conversion.summaries import corpus_counts, document_line, document_notes, present, slowest
from rag_eval_pipeline.corpus import manifest
from rag_eval_pipeline.corpus.builder import CorpusFolder, build_corpus
from rag_eval_pipeline.corpus.documents import CorpusDocument, PlannedDocument
from rag_eval_pipeline.corpus.manifest import read_manifest, unless_damaged
from rag_eval_pipeline.corpus.text.pages import (
    Page,
    corpus_pages,
    extractor,
    is_reusable,
    iterate_pages,
    reusable_pages,
    write_pages,
)
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.storage.atomic_files import sha256_of
from rag_eval_pipeline.storage.journal import JournalWriter, read_journal
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.storage.parquet_files import limit_allocators
from rag_eval_pipeline.web.egress import EgressPolicy, read_egress_config
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

LOG_EACH_LIMIT = 200  # above this many documents only progress is logged, not each document
_KEY = re.compile(r"(?P<benchmark>[^~]+)~(?P<digest>[0-9a-f]{8})~(?P<number>[0-9]{4,})")


def plan_shards(conversion: Conversion) -> ShardPlan | None:
    """Return the shards of the benchmark's plan; None if the corpus is small enough for one run.

    The caller holds the benchmark's lock, so that no shard is being made. Parts of another plan are removed.
    """
    paths = conversion.paths
    limit = read_conversion_settings(conversion.workspace).shard_documents
    documents = manifest.count_rows(paths.planned)
    if documents <= limit:
        shutil.rmtree(paths.shards, ignore_errors=True)
        return None
    facts = [conversion.digest, CODE_VERSION, extractor(), sha256_of(paths.planned), str(limit), conversion.recheck]
    plan = ShardPlan(
        benchmark=paths.name,
        digest=hashlib.sha256("\0".join(facts).encode()).hexdigest(),
        source_digest=conversion.digest,
        documents=documents,
        shards=-(-documents // limit),
        recheck=conversion.recheck,
    )
    earlier = read_shard_plan(paths)
    if earlier is not None and earlier.digest == plan.digest:
        return earlier
    shutil.rmtree(paths.shards, ignore_errors=True)
    plan.write(paths.shards / PLAN_FILE)
    return plan


def build_documents(
    conversion: Conversion,
    planned: Sequence[PlannedDocument],
    previous: Sequence[CorpusDocument],
    journal_path: Path,
    *,
    shard: str | None = None,
) -> list[CorpusDocument]:
    """Build a corpus or a shard of it, resuming from the journal of a build that was killed."""
    # Rows of an earlier build that was killed before it could write the manifest; later ones replace earlier ones.
    kept = [msgspec.convert(row, CorpusDocument) for row in read_journal(journal_path)]
    log = conversion.log if len(planned) <= LOG_EACH_LIMIT else None
    known = {(document.file_name, document.pdf_sha256) for document in previous}
    with JournalWriter(journal_path) as journal:

        def keep(rows: Sequence[CorpusDocument]) -> None:
            journal.extend(rows)
            if log is not None:
                log(document_line(rows, known))

        accepts = conversion.recheck == "accept" or conversion.spec.on_drift == "update"
        return build_corpus(
            planned,
            conversion.paths.corpus,
            [*reversed(kept), *previous],
            EgressPolicy(read_egress_config(conversion.workspace.egress_config)),
            progress=conversion.progress,
            keep=keep,
            recheck=None if conversion.recheck == "no" else "update" if accepts else "report",
            error_pages=conversion.spec.error_pages == "keep",
            min_page_words=conversion.spec.min_page_words,
            shard=shard,
        )


def run_shard(
    workspace: Workspace, key: str, *, progress: Progress | None = None, log: LogLine | None = None
) -> StepReport:
    """Make one shard of a benchmark's corpus, beside others of the same benchmark.

    Raises:
        InputError: `no_shard` when the benchmark's present plan has no such shard.
        ServiceError: `locked` by a conversion or by another run of this shard, or a browser that could not be used.
    """
    limit_allocators()
    found = _KEY.fullmatch(key)
    if found is None:
        raise InputError("no_shard", "convert_shard", "a partition `<benchmark>~<plan>~<number>`", found=key)
    paths, number = workspace.existing_benchmark(found["benchmark"]), int(found["number"])
    holder = f"a run of {key}, process {os.getpid()}"
    with locked(paths.lock, holder=holder, exclusive=False):
        plan = read_shard_plan(paths)
        if plan is None or plan.key(number) != key or number >= plan.shards or not is_current(paths, plan):
            hint = f"Nothing was made. Convert the benchmark: rag-eval convert {paths.name}"
            raise InputError("no_shard", key, f"a shard of the present plan of {paths.name}", hint=hint)
        conversion = Conversion(
            workspace, paths, read_spec(paths), plan.source_digest, progress, log, recheck=plan.recheck
        )
        with locked(shard_files(paths, plan, number).lock, holder=holder, exclusive=True):
            return _make_shard(conversion, plan, number)


def make_shards(conversion: Conversion, plan: ShardPlan, numbers: Sequence[int]) -> None:
    """Make shards one after the other; the caller holds the benchmark's lock alone."""
    done = plan.documents - sum(len(plan.rows(number)) for number in numbers)
    for number in numbers:
        before = done

        def progress(made: int, _: int, before: int = before) -> None:
            if conversion.progress is not None:
                conversion.progress(before + made, plan.documents)

        _make_shard(replace(conversion, progress=progress), plan, number)
        done += len(plan.rows(number))


def _make_shard(conversion: Conversion, plan: ShardPlan, number: int) -> StepReport:
    paths, part = conversion.paths, shard_files(conversion.paths, plan, number)
    planned = manifest.read_planned(paths.planned, base=paths.source, rows=plan.rows(number))
    keys = {document.key for document in planned}
    earlier = manifest.with_web_state(
        unless_damaged(lambda path: read_manifest(path, keys), paths.documents), paths.web
    )
    own = manifest.with_web_state(unless_damaged(read_manifest, part.documents), part.web)
    part.record.unlink(missing_ok=True)
    built = build_documents(conversion, planned, [*own, *earlier], part.journal, shard=f"{number:04}")
    manifest.write_manifest(part.documents, built)
    manifest.write_web_state(part.web, built)
    there = present(built)
    pdfs = {document.pdf_sha256 for document in there if document.pdf_sha256 is not None}
    known = unless_damaged(lambda path: reusable_pages(path, pdfs), paths.pages)
    write_pages(part.pages, corpus_pages(there, paths.corpus, known))
    files = {(document.file_name, document.pdf_sha256) for document in earlier}
    record = StepRecord(
        step="corpus_shards", source_digest=plan.source_digest, counts=corpus_counts(built, files, paths.corpus)
    )
    record.write(part.record)
    part.journal.unlink()
    return StepReport(record, notes=document_notes(built), tables={"slowest": slowest(built)})


def merge_documents(conversion: Conversion, plan: ShardPlan) -> list[CorpusDocument]:
    """Return the manifest of the whole corpus from the parts of its shards, and remove other files from the corpus.

    A part that is damaged, or whose files are not those that it describes, is dropped.

    Raises:
        ShardsMissing: Shards are not done.
    """
    paths = conversion.paths
    names = [[one["name"] for one in row["names"]] for row in manifest.iterate_rows(paths.planned, columns=["names"])]
    built: list[CorpusDocument] = []
    missing = []
    with CorpusFolder(paths.corpus) as folder:
        for number in range(plan.shards):
            part, rows = shard_files(paths, plan, number), plan.rows(number)
            documents = []
            if part.record.exists():
                documents = manifest.with_web_state(unless_damaged(read_manifest, part.documents), part.web)
            expected = list(itertools.chain.from_iterable(names[rows.start : rows.stop]))
            is_whole = [document.file_name for document in documents] == expected and all(
                document.pdf_sha256 is None or folder.digest(document.file_name) == document.pdf_sha256
                for document in documents
            )
            if not is_whole:
                part.record.unlink(missing_ok=True)
                missing.append(number)
            built += documents
        if missing:
            asked = plan.model_copy(update={"requests": plan.requests + 1})
            asked.write(paths.shards / PLAN_FILE)
            raise ShardsMissing(paths, asked, missing)
        folder.remove_all_but(document.file_name for document in present(built))
    return built


def merged_pages(conversion: Conversion) -> Iterator[Page] | None:
    """Return the pages of all shards in the order of the plan; None if they are not those of the merged corpus."""
    paths, plan = conversion.paths, read_shard_plan(conversion.paths)
    if plan is None or plan.source_digest != conversion.digest or plan.missing(paths):
        return None
    parts = [shard_files(paths, plan, number).pages for number in range(plan.shards)]
    if not all(unless_damaged(lambda path: [is_reusable(path)], part) == [True] for part in parts):
        return None
    return itertools.chain.from_iterable(map(iterate_pages, parts))


def discard_shards(paths: BenchmarkPaths) -> None:
    """Remove the parts: they have been merged, or what they were merged to was refused."""
    shutil.rmtree(paths.shards, ignore_errors=True)
