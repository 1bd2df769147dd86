"""What is fuzzed: each parser with seeds of its own, and what must hold of any input.

A parser returns, or raises one of the errors that its caller turns into a line, a quarantine record or a failed answer.
What else must hold is asserted: rows are neither lost nor invented, and an error is one printable line that names the
file. What a parser makes of what it reads is stated by the properties beside its other tests.
"""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import re
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from rag_eval_pipeline.conversion.benchmark_spec import read_spec
from rag_eval_pipeline.conversion.quarantine import QuarantineRecord, read_quarantine, write_quarantine
from rag_eval_pipeline.conversion.question_spool import iterate_batches
from rag_eval_pipeline.conversion.shards import read_conversion_settings
from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.manifest import read_manifest, read_metadata, write_manifest
from rag_eval_pipeline.corpus.naming import NameRequest, assign_names, document_key
from rag_eval_pipeline.corpus.text.pages import Page, read_pages, write_pages
from rag_eval_pipeline.corpus.text.pdf import PdfLimits, PdfReader
from rag_eval_pipeline.errors import DocumentError, InputError
from rag_eval_pipeline.evaluation.budget import read_spent
from rag_eval_pipeline.evaluation.evaluation_settings import merged_settings
from rag_eval_pipeline.evaluation.quality_thresholds import read_quality_thresholds
from rag_eval_pipeline.evaluation.score_tables import Answers, read_responses, read_scores
from rag_eval_pipeline.evaluation.span_report import ReadOptions, compare_spans, read_gold, read_predicted
from rag_eval_pipeline.evaluation.trec_scoring import score_file
from rag_eval_pipeline.formats.citation_marks import find_citations
from rag_eval_pipeline.formats.dataset import EvaluationDataset, read_evret_dataset
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.model import errors_in
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.train_json import read_train_json
from rag_eval_pipeline.formats.validation import examine
from rag_eval_pipeline.judges.claim_splitting import AnswerClaim
from rag_eval_pipeline.judges.judgement import Case, CitedText
from rag_eval_pipeline.judges.labels import majority_labels, read_labels
from rag_eval_pipeline.judges.prompts import judgement_prompt
from rag_eval_pipeline.judges.ratings import RatingProtocol
from rag_eval_pipeline.judges.replies import Unparsable, declines, parse_judgement, parse_rating
from rag_eval_pipeline.metrics.retrieval.names import parse_measures
from rag_eval_pipeline.monitoring.alert_files import read_alert_settings
from rag_eval_pipeline.monitoring.comparison import read_verdict_settings
from rag_eval_pipeline.monitoring.maintenance import read_retention_settings
from rag_eval_pipeline.scaffold.init import propose
from rag_eval_pipeline.site.run_data import read_questions
from rag_eval_pipeline.sources.relations import read_relation
from rag_eval_pipeline.storage.journal import JournalWriter, read_journal
from rag_eval_pipeline.systems.base import Query, RagAnswer, RetrievedPassage
from rag_eval_pipeline.systems.config import read_system_file
from rag_eval_pipeline.systems.foreign_values import WrongShape
from rag_eval_pipeline.systems.http import HttpSettings, HttpSystem
from rag_eval_pipeline.systems.nvidia_replies import check_stream, read_chunks
from rag_eval_pipeline.systems.nvidia_replies import read_stream as read_nvidia_stream
from rag_eval_pipeline.systems.parsing import AnswerReader, ReadingSettings
from rag_eval_pipeline.systems.recording_files import read_recordings
from rag_eval_pipeline.systems.replay import recorded_answer
from rag_eval_pipeline.web.client import EndpointError, Reply, StreamReply
from rag_eval_pipeline.web.egress import read_egress_config
from rag_eval_pipeline.web.fetcher import check_url
from rag_eval_pipeline.web.openai_chat import read_reply, read_stream
from rag_eval_pipeline.web.server_settings import Prices
from rag_eval_pipeline.web.sse import parse_events
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace
from tests.conftest import REPOSITORY
from tests.conversion.conftest import HEAD, write_benchmark
from tests.faults.pdfs import deflated, many_pages, one_page, shown, stream
from tests.formats.result_values import results_value
from tests.formats.test_evret import CSV_EXAMPLE, JSON_EXAMPLE
from tests.formats.test_ground_truth import CITES, JUDGES
from tests.systems.conftest import corpus_in

MESSAGE_MAX = 4_000  # characters; an error is a line for people


class Parser(NamedTuple):
    """What reads an input, in a folder of its own that stays between inputs.

    Args:
        errors: What may be raised.
        places: Names of which one is in the message of each error; empty where the caller names the place.
    """

    seeds: Callable[[], Sequence[bytes]]
    read: Callable[[bytes, Path], object]
    errors: tuple[type[Exception], ...] = (InputError,)
    places: tuple[str, ...] = ()


def check(parser: Parser, data: bytes, folder: Path) -> str:
    """Read an input and return `read`, or the code of its error; anything else that is raised is a fault."""
    found: Exception | None = None
    try:
        parser.read(data, folder)
    except parser.errors as error:
        found = error
    if found is None:
        return "read"
    text = found.fault if isinstance(found, Unparsable) else str(found)
    assert_printable(text)
    assert 0 < len(text) < MESSAGE_MAX, f"a message of {len(text)} characters: {text[:300]!r}"
    assert not parser.places or any(place in text for place in parser.places), f"no place in {text!r}"
    return str(getattr(found, "code", type(found).__name__))


# What ends a line or changes how a terminal shows the rest of it, and what cannot be printed at all.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def assert_printable(message: str) -> None:
    """Assert that a message is one line without control characters."""
    wrong = _UNPRINTABLE.search(message)
    assert wrong is None, f"a message with {wrong[0]!r}: {message!r}"


def _read_any(*readings: Callable[[], object], errors: type[Exception] | tuple[type[Exception], ...]) -> list[object]:
    """Read in several ways; return what those return that succeed, or raise the first error if none does."""
    found: list[object] = []
    faults: list[Exception] = []
    for read in readings:
        try:
            found.append(read())
        except errors as fault:
            faults.append(fault)
    if not found:
        raise faults[0]
    return found


def _encoded(*values: Any, indent: int | None = None) -> list[bytes]:
    return [json.dumps(value, indent=indent, ensure_ascii=False).encode() for value in values]


# --- sources

ROWS = [
    {"q": "Who lit it?", "a": "Ada Thorne", "n": 1, "tags": ["x", "y"]},
    {"q": "When, and “where”?", "a": "1887", "n": 2.5, "tags": []},
    {"q": "How tall?", "a": "31 m", "n": None, "tags": ["z"]},
    {"q": "Ist's grün?", "a": 'Ja, "immer"', "n": -7, "tags": None},
]
CSV = 'q,a,n\nWho lit it?,Ada Thorne,1\n"When, and\n""where""?",1887,2\nIst\'s grün?,"Ja",\nHow tall?,31 m,4\n'.encode()
JSONL = b"".join(line + b"\n" for line in _encoded(*ROWS))
QRELS = b"q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\nq2 0 d%20x -1\n"
TOPICS = (
    b"<top>\n<num> Number: 301\n<title> Lights\n<desc> Description:\nWhich lights?\n<narr> Narrative:\nAny.\n</top>\n"
)


def _benchmark(folder: Path, name: str, data: bytes, source: str) -> BenchmarkPaths:
    paths = Workspace(folder).benchmark("scratch")
    if not paths.spec.exists():
        write_benchmark(folder, f"{HEAD}source: {source}\nquestions: {{question: q, answer: a}}\n", {})
    (paths.source / name).write_bytes(data)
    return paths


def _read_source(name: str, data: bytes, folder: Path, *, source: str = "") -> None:
    paths = _benchmark(folder, name, data, source or name)
    relation = read_relation(paths, read_spec(paths).source, source_columns=True)
    rows: dict[str, list[int]] = {}
    for batch in relation.batches():
        for file, row in zip(*(batch.column(column).to_pylist() for column in relation.schema.names[-2:]), strict=True):
            rows.setdefault(file, []).append(row)
    for rejected in relation.rejected:
        rows.setdefault(rejected.file, []).append(rejected.row)
    for found in rows.values():
        assert sorted(found) == list(range(1, len(found) + 1)), "a row is lost or there twice"


def _parquet(rows: list[dict[str, Any]], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file, **options)
    return file.getvalue()


def _workbook() -> bytes:
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in (["q", "a", "n"], ["Who?", "Ada", 1], ["When?", "1887", 2.5], ["How?", "=1+1", True]):
        book.active.append(row)
    book.save(file)
    return file.getvalue()


def _zipped(method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr(zipfile.ZipInfo("in/f.csv"), CSV, method)
        archive.comment = b"comment"
    return file.getvalue()


def _tarred(form: int) -> bytes:
    file, info = io.BytesIO(), tarfile.TarInfo(f"in/{'long/' * 25}é.csv")  # needs an extended header
    info.size = len(CSV)
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        archive.addfile(info, io.BytesIO(CSV))
    return file.getvalue()


def _packed(data: bytes) -> list[bytes]:
    zstd = pa.compress(data, codec="zstd", asbytes=True)
    return [gzip.compress(data, mtime=0), bz2.compress(data), lzma.compress(data), zstd]


MEMBER = '{path: f.bin, member: "in/**"}'


# --- benchmark.yaml and settings

FULL_SPEC = b"""name: scratch
title: "A: title"
version: 1.10.0
license: Apache-2.0
released: 2025-03-14
language: en
source: {path: [f.csv], encoding: utf-8, delimiter: ","}
questions:
  question: q
  answer: a
  metadata: [n]
on_missing_document: keep
min_page_words: 0.3
inline_documents: no
expect: {rows: 4, questions: 4}
evaluation: {random_seed: 7, timeout_seconds: 30}
"""
SQL_SPEC = FULL_SPEC.replace(
    b"questions:\n  question: q\n  answer: a\n  metadata: [n]\n",
    b"tables: {docs: {files: 'docs/*.pdf'}}\nquestions: |\n  SELECT q AS question, a AS answer FROM source\n"
    b"documents: SELECT name, file FROM docs\nwhere: \"answer <> ''\"\n",
)


def _read_spec(data: bytes, folder: Path) -> None:
    paths = write_benchmark(folder, "", {"f.csv": CSV})
    paths.spec.write_bytes(data)
    read_spec(paths)


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


# --- files of the specifications

TRAIN = [
    {"id": 0, "question": "Who?", "answer": "She.", "is_impossible": False, "contexts": [{"filename": "a.pdf", "text": "t"}]},
    {"id": 1, "question": "Why?", "answer": "", "is_impossible": True, "contexts": ["gold text"]},
]  # fmt: skip
DATASET = {
    "schema_version": "1.0", "dataset_id": "x", "name": "X", "version": "1.10.0", "created_at": "2025-08-30T12:00:00Z",
    "metadata": {"language": "en", "size": 2, "own": {"k": [1, 2.5, None]}},
    "queries": [
        {
            "query_id": "0", "query_text": "Who?", "relevant_documents": ["a.pdf"], "query_type": "factual", "difficulty": "easy",
            "ground_truth_answer": "She.", "metadata": {"is_impossible": False, "answers": ["She."]},
            "citations": [{"file_name": "a.pdf", "start_char": 0, "end_char": 4, "page_number": 1, "confidence_score": 0.5}],
        },
        {"query_id": "1", "query_text": "Why?", "relevant_documents": [], "citations": [], "metadata": {"is_impossible": True}},
    ],
    "documents": [{"document_id": "a.pdf", "content": "She lit it.", "title": "A", "file_path": "in/a.pdf", "metadata": {}}],
}  # fmt: skip
TRUTH = {"schema_version": "1.0", "dataset_id": "x", "version": "1.0.0", "annotations": [CITES, JUDGES]}
RESULTS = {"schema_version": "1.1", **results_value()}
DATASET_CSV = b"""dataset_id,name,version,query_id,query_text,relevant_documents,citations,metadata
x,X,1.0.0,0,Who?,"[""a.pdf""]","[{""file_name"": ""a.pdf"", ""start_char"": 0, ""end_char"": 4}]",{}
,,,1,"Why,
and how?",[],[],"{""is_impossible"": true}"
"""


def _read_file(names: dict[str, Callable[[Path], object]], data: bytes, folder: Path) -> None:
    """Examine the data under some names, and read it where nothing is found wrong."""
    for name, read in names.items():
        path = folder / name
        path.write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
        findings = errors_in(examine(path))
        for finding in findings:
            assert_printable(str(finding))
            assert name in str(finding), f"no place in {finding}"
        try:
            read(path)
        except InputError:
            if not findings:
                raise AssertionError("`validate` finds no error in a file that cannot be read") from None
            raise


def _read_truth(path: Path) -> None:
    GroundTruth.read(path, dataset_id="x")


def _read_evret(data: bytes, folder: Path) -> None:
    path = folder / ("f.json" if data.lstrip()[:1] == b"{" else "f.csv")
    path.write_bytes(data)
    read_evret_dataset(path)


# --- files of `rag-eval score`, `spans`, `calibrate`, `init`, and recorded answers

SCORED = (QRELS, b"q1 Q0 d1 1 0.5 tag\nq1 Q0 d2 2 0.25 tag\nq2 Q0 d3 1 1e3 tag\n")
RUN_JSON = _encoded({"q1": {"d1": 0.5, "d2": 0.25}, "q2": {"d3": 3}})[0]


def _read_score(data: bytes, folder: Path) -> None:
    """Score the data as the run, and as the qrels."""
    for name, content in (("run.txt", SCORED[1]), ("qrels.txt", SCORED[0]), ("f.txt", data)):
        (folder / name).write_bytes(content)
    pairs = (("f.txt", "qrels.txt"), ("run.txt", "f.txt"))
    measures = parse_measures(["nDCG@10", "RR"])
    _read_any(*(partial(score_file, folder / run, folder / qrels, measures) for run, qrels in pairs), errors=InputError)


CITED = [
    {"query_id": 0, "citations": [{"file_name": "a.pdf", "start_char": 0, "end_char": 4, "page_number": 1}]},
    {"query_id": "1", "answer": "So [a.pdf:1:0-4] it is."},
]


def _read_spans(data: bytes, folder: Path) -> None:
    path, other = folder / "f.jsonl", folder / "gold.jsonl"
    path.write_bytes(data)
    other.write_bytes(_encoded(CITED[0])[0])
    given = read_predicted(path, ReadOptions({"a.pdf"}))
    compare_spans(read_gold(other, ReadOptions()), given, tolerance=10, texts=None)


RECORDED = [
    {"query_id": "0", "answer": "She.", "contexts": [{"document": "cats", "page": 2, "text": "t", "score": 0.5}], "latency_ms": 5},
    {"user_input": "When?", "response": "She.", "retrieved_contexts": ["a", {"page_content": "b", "metadata": {"source": "x/cats.pdf"}}]},
    {"id": 2, "question": "Why?", "generated_answer": "She.", "generated_contexts": ["c"], "retrieved_docs": ["cats.pdf_2"], "usage": None},
    {"query_id": "3", "answer": {"content": "She [cats.pdf:1:0-4]."}, "citations": [{"document": "cats", "start": 0, "end": 4}], "usage": {"prompt_tokens": 3}},
]  # fmt: skip


@cache
def _reader(folder: Path) -> AnswerReader:
    return AnswerReader(corpus_in(folder), ReadingSettings())


def _read_recordings(data: bytes, folder: Path) -> None:
    path = folder / "f.jsonl"
    path.write_bytes(data)
    for recording in read_recordings(path, corpus_in(folder).aliases).rows:
        with contextlib.suppress(WrongShape):
            recorded_answer(Query("0", "Who?"), recording, _reader(folder))


LABELS = [
    {"query_id": "0", "task": "correctness", "label": "correct", "annotator": "a"},
    {"query_id": "0", "task": "support", "label": "not_found", "claim": "It is.", "evidence": "x", "note": "n"},
]


def _read_labels(data: bytes, folder: Path) -> None:
    path = folder / ("f.jsonl" if data.lstrip()[:1] == b"{" else "f.csv")
    path.write_bytes(data)
    majority_labels(read_labels(path))


def _read_proposal(data: bytes, folder: Path) -> None:
    path = folder / ("f.csv" if data.startswith(b"q,") else "f.json" if data.lstrip()[:1] == b"[" else "f.jsonl")
    path.write_bytes(data)
    propose(Workspace(folder), "scratch", path)


# --- files that the pipeline keeps for itself

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
        _stored(lambda path: write_manifest(path, [document], {"source_digest": "d"})),
        _stored(lambda path: write_pages(path, [page], {"source_digest": "d"})),
    ]


def _state_seeds() -> list[bytes]:
    record = QuarantineRecord("validation", "row_width", "f.csv", "s", 2, None, "q", "3 cells", "['a']", 3)

    def journal(path: Path) -> None:
        with JournalWriter(path) as writer:
            for number in range(3):
                writer.append({"query_id": str(number), "answer": "She."})

    return [
        *_encoded({"requests": 3, "total_tokens": 5}, RESULTS),
        _stored(lambda path: write_quarantine(path, [record, record])),
        _stored(journal),
    ]


def _read_each(readers: Sequence[Callable[[Path], object]], data: bytes, folder: Path) -> None:
    """Read a file in every way."""
    path = folder / "f.stored"
    path.write_bytes(data)
    _read_any(*(partial(read, path) for read in readers), errors=InputError)


# --- replies

CHAT = {
    "id": "c", "model": "m", "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "cost": 0.01},
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "She [1].", "refusal": None}, "finish_reason": "stop"}],
}  # fmt: skip
DELTAS = [
    {"model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "She "}, "finish_reason": None}]},
    {"model": "m", "choices": [{"index": 0, "delta": {"content": [{"type": "text", "text": "lit it."}]}, "finish_reason": None}]},
    {"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}},
]  # fmt: skip
CHUNK = {
    "choices": [{"index": 0, "message": {"content": "She &lt;b&gt; [1]"}, "delta": {"content": ""}, "finish_reason": "stop"}],
    "event_type": None, "usage": {"total_tokens": 5}, "metrics": {"rag_ttft_ms": 3.5}, "model": "m",
    "citations": {"total_results": 1, "results": [{"document_name": "cats.pdf", "content": "Cats", "score": 0.5, "metadata": {"page_number": 1}}]},
}  # fmt: skip
OWN = {
    "data": {"text": "She [cats.pdf:1:0-4]", "hits": [{"file": "cats.pdf", "page": 1, "text": "Cats", "score": 0.5}]},
    "cited": [{"document": "cats", "page": 1, "start": 0, "end": 4}], "tokens": {"in": 3, "out": 2}, "cost": 0.1,
}  # fmt: skip
HTTP = {
    "endpoint": {"base_url": "http://127.0.0.1:1"}, "body": {"q": "{question}"}, "answer": "data.text || choices[0].delta.content",
    "contexts": {"path": "data.hits[]", "document": "file"}, "citations": {"path": "cited"}, "prompt_tokens": "tokens.in",
    "completion_tokens": "usage.completion_tokens", "cost": "cost", "model": "model", "error": "error",
}  # fmt: skip


def _streamed(*values: Any, end: bytes = b"data: [DONE]\n\n") -> bytes:
    return b": keep-alive\n\n" + b"".join(b"data: " + one + b"\n\n" for one in _encoded(*values)) + end


@cache
def _http_system(folder: Path) -> HttpSystem:
    return HttpSystem(HttpSettings.model_validate(HTTP), None, _reader(folder), "coast")  # nothing is requested


def _common(data: bytes) -> dict[str, Any]:
    return {"status": 200, "body": data, "requests": 1, "elapsed_ms": 5.0, "raw_sha256": "0" * 64, "masked": str}


def _read_stream(data: bytes, folder: Path) -> None:
    """Read a stream as that of each kind of server."""
    events = parse_events(data)
    reply = StreamReply(headers={"content-type": "text/event-stream"}, events=events, is_cut=False, **_common(data))
    readings = (lambda: _as_nvidia(reply, folder), lambda: _as_own(reply, folder), lambda: read_stream(reply, Prices()))
    _read_any(*readings, errors=(EndpointError, WrongShape))


def _as_nvidia(reply: StreamReply, folder: Path) -> None:
    stream = read_nvidia_stream(reply.events, unescape_html=True)
    check_stream(stream, is_cut=reply.is_cut, body=reply.body)
    list(read_chunks(stream.citations, _reader(folder), has_pages=True, has_scores=True))
    _reader(folder).citations(stream.text)


def _as_own(reply: Reply, folder: Path) -> None:
    _http_system(folder).read(Query("0", "Who?"), reply)


def _read_reply(data: bytes, folder: Path) -> None:
    reply = Reply(headers={"content-type": "application/json"}, **_common(data))
    _read_any(lambda: _as_own(reply, folder), lambda: read_reply(reply, Prices()), errors=(EndpointError, WrongShape))


CASE = Case(
    "1", "How high?", ("12 m",), False, "It is 12 m high [a.pdf:1:0-17].", contexts=("It is 12 m high.", "No."),
    citations=(CitedText("a.pdf", "It is 12 m high.", 17, 33),),
)  # fmt: skip
ASKED = judgement_prompt(
    CASE, [AnswerClaim(0, 16, "It is 12 m high.", (0,))], asks_correctness=True, evidence_chars=10_000, salt=""
)
RATED = RatingProtocol(name="x", version="1", prompts=("?",), scale={0: 0.0, 1: 1.0}, needs=("answer",))
NONCE = ASKED.prompt.nonce


def _judge_seeds() -> list[bytes]:
    claim = {"id": "c1", "rationale": "it says so", "by_citations": "supported", "by_contexts": "supported"}
    verdict = {"rationale": "-", "verdict": "correct"}
    plain = _encoded(
        {"nonce": NONCE, "correctness": verdict, "claims": [claim], "citations": []},
        {"nonce": NONCE, "rationale": "-", "rating": 1},
    )
    return [
        *plain,
        b"```json\n" + plain[0] + b"\n```",
        b"<think>8/10? {}</think>\n" + plain[0],
        b"I'm sorry, but I can't.",
    ]


def _read_judge_reply(data: bytes, folder: Path) -> None:
    text = data.decode("utf-8", "surrogateescape")
    declines(text)
    readings = (lambda: parse_judgement(text, ASKED, CASE), lambda: parse_rating(text, RATED, NONCE))
    _read_any(*readings, errors=Unparsable)
    assert NONCE in text or "\\u" in text, "a verdict without the nonce"


# --- names and texts

URLS = [
    b"https://en.wikipedia.org/wiki/Ada_Lovelace#Early_life\nhttps://de.wikipedia.org/wiki/Ada_Lovelace\n",
    b"https://x.org/a/../b;p=1?id=1\nhttps://x.org/a/../b;p=1?id=2\nhttp://X.org/%C3%A9t%C3%A9.pdf\n",
    "http://exämple.org/été%2Fa\nhttp://[::1]:80/\nx\nhttps://a.b/~0123abcd.pdf\nhttps://u:p@h/\nhttp://h/a\\b\n".encode(),
]
ANSWERS = [
    b'She lit it [cats.pdf:1:0-4], and again [cats.pdf:1:0-4; tollan.pdf:2:9-49 "The harbour"].',
    b"Both [1][2] say so [a[1].pdf:1:0-4] \xe3\x80\x90cats.pdf:2:12-22\xe3\x80\x91 [report_3.pdf: 1: 5 - 9].",
]


def _read_urls(data: bytes, folder: Path) -> None:
    urls = data.decode("utf-8", "surrogateescape").split("\n")[:50]
    for url in urls:
        with contextlib.suppress(DocumentError):
            check_url(url)
    assign_names([NameRequest(document_key(url), url) for url in urls])


def _read_answer(data: bytes, folder: Path) -> None:
    text = data.decode("utf-8", "surrogateescape")
    find_citations(text, corpus_in(folder).files)
    _reader(folder).citations(text)


# --- PDFs

PDF_LIMITS = PdfLimits(cpu_s=20.0, deadline_s=120.0)


@cache
def _pdf_reader() -> PdfReader:
    return PdfReader(PDF_LIMITS)


def _pdf_seeds() -> list[bytes]:
    lock = b"<</Filter/Standard/V 1/R 2/Length 40/P -4/O<" + b"00" * 32 + b">/U<" + b"00" * 32 + b">>>"
    encrypted = one_page(stream(shown("secret")), more=[lock]).replace(b"/Root", b"/Encrypt 5 0 R/ID[<00><00>]/Root")
    return [one_page(stream(shown("a good page"))), one_page(deflated(shown("deflated"))), many_pages(5), encrypted]


def _read_pdf(data: bytes, folder: Path) -> None:
    assert _pdf_reader().texts(data), "a PDF without a page"


def _source(seeds: Callable[[], Sequence[bytes]], name: str, source: str = "") -> Parser:
    read = partial(_read_source, name, source=source)
    return Parser(seeds, read, places=(f"data/sources/scratch/{name}", "data/sources/scratch/benchmark.yaml"))


PARSERS: dict[str, Parser] = {
    "benchmark_yaml": Parser(lambda: [FULL_SPEC, SQL_SPEC], _read_spec, places=("data/sources/scratch/",)),
    "csv": _source(lambda: [CSV, CSV.replace(b",", b"\t"), CSV.decode().encode("utf-16"), CSV.replace(b"\n", b"\r\n")], "f.csv"),
    "jsonl": _source(lambda: [JSONL, JSONL.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + JSONL], "f.jsonl"),
    "json": _source(lambda: _encoded(ROWS, {"a": {"q": "x", "a": "y"}}, {"q": ["x", "y"], "a": ["1", "2"]}, indent=1), "f.json"),
    "yaml": _source(lambda: [b"- q: Who?\n  a: Ada\n  n: [1, 2.5, true]\n- {q: 'When?', a: 1887}\n", *_encoded(ROWS)], "f.yaml"),
    "parquet": _source(lambda: [_parquet(ROWS), _parquet(ROWS * 20, compression="zstd", data_page_version="2.0")], "f.parquet"),
    "xlsx": _source(lambda: [_workbook()], "f.xlsx"),
    "zip": _source(lambda: [_zipped(zipfile.ZIP_DEFLATED), _zipped(zipfile.ZIP_STORED)], "f.bin", MEMBER),
    "tar": _source(lambda: [_tarred(tarfile.PAX_FORMAT), *_packed(_tarred(tarfile.GNU_FORMAT))], "f.bin", MEMBER),
    "compressed": _source(lambda: [*_packed(CSV), gzip.compress(CSV[:40]) + gzip.compress(CSV[40:])], "f.csv"),
    "qrels": _source(lambda: [QRELS], "f.txt", "{path: f.txt, format: trec_qrels}"),
    "topics": _source(lambda: [TOPICS, b"301\tWhich lights?\n302\tWho?\n"], "f.txt", "{path: f.txt, format: trec_topics}"),
    "pdf": Parser(_pdf_seeds, _read_pdf, errors=(DocumentError,)),
    "train_json": Parser(
        lambda: _encoded(TRAIN, TRAIN, indent=2),
        partial(_read_file, {"train.json": read_train_json}),
        places=("train.json",),
    ),
    "dataset": Parser(
        lambda: [*_encoded(DATASET, indent=2), *_encoded(DATASET)],
        partial(_read_file, {"x.eval.json": EvaluationDataset.read, "x.eval.json.gz": EvaluationDataset.read}),
        places=("x.eval.json",),
    ),
    "dataset_yaml": Parser(
        lambda: _encoded(DATASET), partial(_read_file, {"x.eval.yaml": EvaluationDataset.read}), places=("x.eval.yaml",)
    ),
    "dataset_csv": Parser(
        lambda: [DATASET_CSV], partial(_read_file, {"x.eval.csv": EvaluationDataset.read}), places=("x.eval.csv",)
    ),
    "ground_truth": Parser(
        lambda: [*_encoded(TRUTH, indent=2), *_encoded(TRUTH, [CITES], JUDGES)],
        partial(_read_file, {"x.gt.json": _read_truth, "x.gt.yaml": _read_truth}),
        places=("x.gt.json", "x.gt.yaml"),
    ),
    "results": Parser(
        lambda: [*_encoded(RESULTS, indent=2), *_encoded(RESULTS)],
        partial(_read_file, {"x.results.json": EvaluationResults.read}),
        places=("x.results.json",),
    ),
    "evret": Parser(lambda: [*_encoded(JSON_EXAMPLE), CSV_EXAMPLE.encode()], _read_evret, places=("f.json", "f.csv")),
    "settings": Parser(_settings_seeds, _read_settings, places=tuple(f"{name}.config.yaml" for name in SETTINGS)),
    "system_settings": Parser(lambda: SYSTEMS, _read_system, places=("s.config.yaml",)),
    "recordings": Parser(
        lambda: [b"\n".join(_encoded(*RECORDED)), *_encoded(RECORDED, {"0": "She.", "1": ""}, RESULTS), SCORED[1]],
        _read_recordings,
        places=("f.jsonl",),
    ),
    "scores": Parser(lambda: [*SCORED, RUN_JSON, gzip.compress(SCORED[1], mtime=0)], _read_score, places=("f.txt",)),
    "spans": Parser(lambda: [b"\n".join(_encoded(*CITED)), *_encoded(CITED)], _read_spans, places=("f.jsonl",)),
    "labels": Parser(
        lambda: [b"\n".join(_encoded(*LABELS)), b"query_id,task,label,claim\n0,refusal,answered,\n1,support,supported,It is.\n"],
        _read_labels,
        places=("f.jsonl", "f.csv"),
    ),
    "proposal": Parser(lambda: [CSV, JSONL, *_encoded(ROWS)], _read_proposal, places=("f.csv", "f.json", "f.jsonl")),
    "stored_tables": Parser(_table_seeds, partial(_read_each, READERS_OF_TABLES), places=("f.stored",)),
    "stored_state": Parser(_state_seeds, partial(_read_each, READERS_OF_STATE), places=("f.stored",)),
    "stream": Parser(
        lambda: [_streamed(*DELTAS), _streamed(CHUNK), _streamed(OWN, OWN, end=b""), b"event: error\n" + _streamed({"error": "x"})],
        _read_stream,
        errors=(EndpointError, WrongShape),
    ),
    "reply": Parser(lambda: _encoded(CHAT, OWN, {"error": {"message": "no"}}), _read_reply, errors=(EndpointError, WrongShape)),
    "judge_reply": Parser(_judge_seeds, _read_judge_reply, errors=(Unparsable,)),
    "urls": Parser(lambda: URLS, _read_urls),
    "answer": Parser(lambda: ANSWERS, _read_answer),
}  # fmt: skip
