"""Settings of a workspace, and files that the pipeline keeps for itself."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from rag_eval_pipeline.conversion.quarantine import QuarantineRecord, read_quarantine, write_quarantine
from rag_eval_pipeline.conversion.question_spool import iterate_batches
from rag_eval_pipeline.conversion.shard_plan import read_conversion_settings
from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.manifest import read_manifest, read_metadata, write_manifest
from rag_eval_pipeline.corpus.text.pages import Page, read_pages, write_pages
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.budget import read_spent
from rag_eval_pipeline.evaluation.evaluation_settings import merged_settings
from rag_eval_pipeline.evaluation.score_tables import Answers, read_responses, read_scores
from rag_eval_pipeline.metrics.verdict_rules import read_quality_thresholds
from rag_eval_pipeline.monitoring.alert_files import read_alert_settings
from rag_eval_pipeline.monitoring.settings_files import read_retention_settings
from rag_eval_pipeline.monitoring.verdict_settings import read_verdict_settings
from rag_eval_pipeline.site.run_data import read_questions
from rag_eval_pipeline.storage.journal import JournalWriter, read_journal
from rag_eval_pipeline.systems.base import RagAnswer, RetrievedPassage
from rag_eval_pipeline.systems.config import read_system_file
from rag_eval_pipeline.web.egress import read_egress_config
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import REPOSITORY
from tests.faults.fuzzing.checks import Parser, encoded, read_any
from tests.faults.fuzzing.formats import RESULTS

SYSTEMS = [
    b"kind: embedded\nsettings: {k: 5, passage_words: 30, rerank: true, answer: phrase}\n",
    b"kind: replay\nnightly: true\ndeterministic: false\nsettings: {path: '../a/{system}/{started:%Y-%m-%dT%H}.jsonl'}\n",
    b"kind: python\nsettings: {callable: 'app:answer', factory: true, arguments: {k: 3}, path: [../app]}\n",
    b"kind: nvidia\nlimit: 10\nsettings: {rag: {base_url: 'http://127.0.0.1:8081'}, collection: c, page_base: 1}\n",
    b"kind: openai\nbenchmarks: ['a*', b]\nsettings:\n  endpoint: {base_url: 'http://127.0.0.1:8000/v1', in_flight: 4, api_key_env: K}\n"
    b"  chat: {model: m, temperature: 0.5, max_tokens: 300, prices: {usd_per_request: 0.5}}\n  retrieval: {k: 5}\n",
    b"kind: http\nversion: 1.10\nbudget: {requests: 100}\nsettings:\n  endpoint: {base_url: 'http://127.0.0.1:8000', headers_env: {X-Key: K}}\n"
    b"  path: /ask\n  body: {q: '{question}', n: [1, 2]}\n  answer: result.text || answer\n  contexts: {path: 'hits[]', document: meta.file}\n"
    b"  abstention: ['^I do not know']\nevaluation: {timeout_seconds: 5}\n",
]  # fmt: skip


def _read_system(data: bytes, folder: Path) -> None:
    path = folder / "s.config.yaml"
    path.write_bytes(data)
    read_system_file(path)


SETTINGS: dict[str, Callable[[Workspace], object]] = {
    "alerts": read_alert_settings,
    "egress": lambda workspace: read_egress_config(workspace.config / "egress.config.yaml"),
    "evaluation_defaults": lambda workspace: merged_settings(workspace, {}, {}, of="evaluation_defaults.config.yaml"),
    "retention": read_retention_settings,
    "verdicts": lambda workspace: (read_verdict_settings(workspace), read_quality_thresholds(workspace)),
    "conversion": read_conversion_settings,
}


def _settings_seeds() -> list[bytes]:
    """The shipped files, each behind a line that says which one it is."""
    files = {name: REPOSITORY / "data" / "config" / f"{name}.config.yaml" for name in SETTINGS}
    found = [f"# {name}\n".encode() + file.read_bytes() for name, file in files.items() if file.is_file()]
    return [*found, b"# conversion\nshard_documents: 1000\n", b"# egress\nallowed_hosts: ['wiki.lab:80']\n"]


def _read_settings(data: bytes, folder: Path) -> None:
    workspace = Workspace(folder)
    workspace.config.mkdir(parents=True, exist_ok=True)
    for name, read in SETTINGS.items():
        if name.encode() in data[:40]:
            (workspace.config / f"{name}.config.yaml").write_bytes(data)
            read(workspace)


READERS_OF_TABLES: tuple[Callable[[Path], object], ...] = (
    read_manifest, read_metadata, read_responses, read_scores, read_pages, lambda path: list(iterate_batches(path)),
)  # fmt: skip
READERS_OF_STATE: tuple[Callable[[Path], object], ...] = (
    read_spent, read_questions, read_quarantine, lambda path: list(read_journal(path)), lambda path: JournalWriter(path).__exit__(None, None, None),
)  # fmt: skip


def _stored(write: Callable[[Path], object]) -> bytes:
    with TemporaryDirectory() as folder:
        write(Path(folder) / "f")
        return (Path(folder) / "f").read_bytes()


def _table_seeds() -> list[bytes]:
    answer = RagAnswer(
        "0", "ok", "She.", False, (RetrievedPassage("a.pdf", 1, "t", 0.5, 1),), (), 5.0, timings={"x": 1.0}
    )
    document = CorpusDocument("k", "a.pdf", "https://x.org/a", None, (), "kept", "s", "s", None, 1)
    page = Page("a.pdf", 1, 0, "She lit it.", "s")
    return [
        _stored(lambda path: Answers.write(path, [answer] * 3)),
        _stored(lambda path: write_manifest(path, [document])),
        _stored(lambda path: write_pages(path, [page])),
    ]


def _state_seeds() -> list[bytes]:
    record = QuarantineRecord("validation", "row_width", "f.csv", "s", 2, None, "q", "3 cells", "['a']", 3)

    def journal(path: Path) -> None:
        with JournalWriter(path) as writer:
            for number in range(3):
                writer.append({"query_id": str(number), "answer": "She."})

    return [
        *encoded({"requests": 3, "total_tokens": 5}, RESULTS),
        _stored(lambda path: write_quarantine(path, [record, record])),
        _stored(journal),
    ]


def _read_each(readers: Sequence[Callable[[Path], object]], data: bytes, folder: Path) -> None:
    """Read a file in every way."""
    path = folder / "f.stored"
    path.write_bytes(data)
    read_any(*(partial(read, path) for read in readers), errors=InputError)


WORKSPACE_FILES: dict[str, Parser] = {
    "settings": Parser(_settings_seeds, _read_settings, places=tuple(f"{name}.config.yaml" for name in SETTINGS)),
    "system_settings": Parser(lambda: SYSTEMS, _read_system, places=("s.config.yaml",)),
    "stored_tables": Parser(_table_seeds, partial(_read_each, READERS_OF_TABLES), places=("f.stored",)),
    "stored_state": Parser(_state_seeds, partial(_read_each, READERS_OF_STATE), places=("f.stored",)),
}  # fmt: skip
