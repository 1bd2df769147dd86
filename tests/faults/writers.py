"""What the package writes with: each writer's earlier files, and the write, which is also how it is resumed."""

import zipfile
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rag_eval_pipeline.conversion import question_spool as question_table
from rag_eval_pipeline.corpus.builder import CorpusFolder
from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.manifest import write_manifest, write_manifest_json, write_web_state
from rag_eval_pipeline.evaluation.budget import UsageLedger, spent_today
from rag_eval_pipeline.evaluation.score_tables import Answers, QueryScores, write_scores
from rag_eval_pipeline.exports.folder import copy_checked, publishing_folder
from rag_eval_pipeline.formats.ground_truth import AnswerQualityAnnotation, GroundTruth, QualityScores
from rag_eval_pipeline.formats.row_files import write_with_rows
from rag_eval_pipeline.judges.cache import CachedReply, JudgementCache
from rag_eval_pipeline.judges.judgement import JudgeUsage
from rag_eval_pipeline.scaffold.init import start_benchmark
from rag_eval_pipeline.site.page_writer import SiteFolder
from rag_eval_pipeline.sources.archive import extract
from rag_eval_pipeline.storage.atomic_files import atomic_write, atomic_write_all, sha256_of
from rag_eval_pipeline.storage.journal import JournalWriter, read_journal
from rag_eval_pipeline.systems.base import RagAnswer
from rag_eval_pipeline.web.server_settings import Budget
from rag_eval_pipeline.workspace import Workspace
from tests.corpus.making import simple_pdf

NOW = datetime(2026, 3, 1, 2, tzinfo=UTC)
LONG = b"new content " * 2000  # more than a buffer holds


class Writer(NamedTuple):
    """A writer and what it finds.

    Args:
        prepare: Writes what is there before.
        write: Called again after each fault.
        grows: Files of which a beginning is as good as the whole: journals.
        between: Files that may be absent although they were there before: nothing is lost with them.
    """

    prepare: Callable[[Path], None]
    write: Callable[[Path], None]
    grows: Collection[str] = ()
    between: Collection[str] = ()


def answer(number: int) -> RagAnswer:
    return RagAnswer(str(number), "ok", f"answer {number} " * 20, False, (), (), 1.5, timings={"first_token": 0.5})


def _old(*names: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        for name in names:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(f"old {name}".encode())

    return prepare


def _replace_several(folder: Path) -> None:
    atomic_write_all([(folder / name, LONG + name.encode()) for name in ("a", "b", "c")], temp_folder=folder)


def _prepare_journal(folder: Path) -> None:
    with JournalWriter(folder / "journal.jsonl") as journal:
        journal.extend({"id": number} for number in range(3))
    with (folder / "journal.jsonl").open("ab") as file:
        file.write(b"0123abcd {torn")


def _go_on_with_journal(folder: Path) -> None:
    done = {record["id"] for record in read_journal(folder / "journal.jsonl")}
    with JournalWriter(folder / "journal.jsonl") as journal:
        for number in range(8):
            if number not in done:
                with suppress(RuntimeError):  # as of a question that fails while others go on
                    journal.append({"id": number, "text": "long " * 50})
                journal.commit()


def _write_rows_of_json(folder: Path) -> None:
    scores = QualityScores(**dict.fromkeys(QualityScores.model_fields, 1.0))
    rows = (
        AnswerQualityAnnotation(
            annotation_id=str(n), query_id=str(n), annotator_id="a", answer_text="She.", quality_scores=scores
        )
        for n in range(40)
    )
    head = GroundTruth(dataset_id="x", version="1.0.0", annotations=())
    write_with_rows(folder / "x.gt.json", head, "annotations", rows)


def _write_tables(folder: Path) -> None:
    Answers.write(folder / "responses.parquet", map(answer, range(30)))
    scores = [QueryScores(str(number), "scored", scores={"mrr": 0.5}) for number in range(30)]
    write_scores(folder / "retrieval_scores.parquet", scores, ["mrr"], evaluation_id="eval_run_20260301_001")
    question_table.write_batches(folder / "questions.parquet", [_questions()])


def _questions() -> pa.RecordBatch:
    row = {"question": "Who?", "answer": "She.", "answers": [], "is_impossible": False, "contexts": [], "metadata": ""}
    return pa.RecordBatch.from_pylist([{"id": n, **row} for n in range(30)], schema=question_table.SCHEMA)


def _documents() -> list[CorpusDocument]:
    return [
        CorpusDocument(f"d{n}", f"d{n}.pdf", "http://x/", "http://x/", (), "kept", "b" * 64, "c" * 64, None, 1)
        for n in range(20)
    ]


def _write_manifest(folder: Path) -> None:
    write_manifest(folder / "documents.parquet", _documents())
    rows = [{"file_name": row.file_name} for row in _documents()]
    write_manifest_json(folder / "documents.json", rows, {}, extractor="x")
    write_web_state(folder / "web.json", _documents())


def _fill_corpus(folder: Path) -> None:
    path = folder / "corpus" / "x"
    documents = [(("one.pdf", "two names.pdf"), simple_pdf("one")), (("other.pdf",), simple_pdf("other"))]
    with CorpusFolder(path) as corpus:
        corpus.publish_all(documents)
        corpus.remove_all_but(name for names, _ in documents for name in names)


def _prepare_cache(folder: Path) -> None:
    cache = JudgementCache(folder, clock=lambda: 1000.0)
    for key in ("aa1", "bb2", "cc3"):
        cache.keep(key, "server", CachedReply(f"old reply {key}", "m"))


def _judge(folder: Path) -> None:
    cache = JudgementCache(folder, clock=lambda: 200_000.0)
    cache.keep("aa1", "server", CachedReply("new reply", "m"))
    cache.find("bb2", "server")  # notes its use
    cache.keep("dd4", "server", CachedReply("another", "m"))
    cache.prune(max_age_days=1)


def _spend(folder: Path, times: int = 2) -> None:
    with UsageLedger(folder, "judge-x", "eval_run_1", Budget(requests=50), clock=lambda: NOW) as ledger:
        if spent_today(folder, "judge-x", NOW).requests < times:
            ledger.book(JudgeUsage(requests=1, total_tokens=10))


def _prepare_site(folder: Path) -> None:
    site = SiteFolder(folder)
    for name in ("index.html", "runs/gone.html"):
        site.write(name, b"old")
    site.close()


def _write_site(folder: Path) -> None:
    site = SiteFolder(folder)
    site.write("index.html", LONG)
    site.making("run", "key")
    site.write("runs/new.html", LONG)
    site.made()
    site.close()


def _export(folder: Path) -> None:
    source = folder / "source.pdf"
    with publishing_folder(folder / "exported", overwrite=True) as new:
        (new / "corpus").mkdir()
        copy_checked(source, new / "corpus" / "source.pdf", sha256_of(source))
        atomic_write(new / "tests.json", LONG)


def _prepare_archive(folder: Path) -> None:
    with zipfile.ZipFile(folder / "data.zip", "w") as archive:
        for name in ("questions.csv", "docs/a.txt"):
            archive.writestr(zipfile.ZipInfo(name), LONG)


def _unpack(folder: Path) -> None:
    extract(folder / "data.zip", folder / "cache" / "digest", shown="data.zip")


def _prepare_init(folder: Path) -> None:
    _old("origin/docs/a.txt")(folder)
    (folder / "origin" / "questions.csv").write_text("question,answer\n" + "Who?,She\n" * 1000)
    (folder / "data" / "sources").mkdir(parents=True)


def _init(folder: Path) -> None:
    if not (folder / "data" / "sources" / "x").exists():
        start_benchmark(Workspace(folder), "x", folder / "origin")


WRITERS = {
    "several files": Writer(_old("a", "b"), _replace_several),
    "journal": Writer(_prepare_journal, _go_on_with_journal, grows=["journal.jsonl"]),
    "JSON in rows": Writer(_old("x.gt.json"), _write_rows_of_json),
    "parquet": Writer(_old("responses.parquet", "questions.parquet"), _write_tables),
    "manifest": Writer(_old("documents.parquet", "documents.json", "web.json"), _write_manifest),
    "corpus": Writer(_old("corpus/x/one.pdf", "corpus/x/foreign.pdf"), _fill_corpus),
    "judge's cache": Writer(_prepare_cache, _judge),
    "spending": Writer(lambda folder: _spend(folder, 1), _spend),
    "site": Writer(_prepare_site, _write_site),
    "export": Writer(_old("source.pdf", "exported/tests.json"), _export, between=["exported/tests.json"]),
    "archive": Writer(_prepare_archive, _unpack),
    "init": Writer(_prepare_init, _init),
}
