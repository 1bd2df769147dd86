"""A file of recorded answers as a system under test.

A recording without an answer (a TREC run, a retriever's output) is `ok` and its answer is None: its retrieval is
scored, its answers and citations are skipped. A question that was not recorded is a failure, `not_recorded`, not a
wrong answer. A latency that was not recorded is None.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.errors import InputError, counted
from rag_eval_pipeline.storage.atomic_files import sha256_of
from rag_eval_pipeline.systems.base import NO_USAGE, Configuration, Query, RagAnswer, SystemCorpus, failed_answer
from rag_eval_pipeline.systems.foreign_values import WrongShape
from rag_eval_pipeline.systems.frameworks import to_rag_answer
from rag_eval_pipeline.systems.kind_settings import ReplaySettings
from rag_eval_pipeline.systems.parsing import AnswerReader
from rag_eval_pipeline.systems.recording_files import NO_ERROR_GIVEN, Recording, Recordings, read_recordings

PUBLISHED = ("model", "embedding_model", "retrieval_k", "reranking_enabled")
WARNINGS_SHOWN = 3
FILES_SHOWN = 20


class ReplaySystem:
    """Answers from a file; `open_replay` makes one."""

    def __init__(self, recordings: Recordings, path: Path, settings: ReplaySettings, reader: AnswerReader) -> None:
        self._recordings = recordings
        self._path = path
        self._settings = settings
        self._reader = reader

    def configuration(self) -> Configuration:
        """Return what the settings state, else what the file does, about the system that answered."""
        recorded = {name: self._recordings.configuration.get(name) for name in PUBLISHED}
        found: Configuration = {**recorded, **self._settings.configuration, "recorded_as": self._recordings.form}
        return found | {"recording": self._path.name} if self._settings.is_by_night else found

    def server_configuration(self) -> Mapping[str, Any] | None:
        """Return the checksum of the recorded answers, but of no file a night, which is no change of the system."""
        checksum = {} if self._settings.is_by_night else {"sha256": sha256_of(self._path)}
        ids = {} if self._recordings.by_source_id is None else {"ids": "source_id"}
        return checksum | ids or None

    def warnings(self) -> list[str]:
        """Return what was noticed while the recordings were read."""
        lost = [row for row in self._recordings.rows if row.query_id is None and row.question is None]
        lines = [f"{row.error} The row names no question, so its answer is left out." for row in lost[:WARNINGS_SHOWN]]
        if len(lost) > len(lines):
            more = counted(len(lost) - len(lines), "more row names", "more rows name")
            lines.append(f"{more} no question.")
        return [*lines, *self._reader.warnings()]

    async def answer(self, query: Query) -> RagAnswer:
        """Return the recorded answer to a question."""
        recording = self._recordings.find(query)
        if recording is None:
            is_ours = self._recordings.by_source_id is None
            by = f"its id {query.query_id!r}" if is_ours else "the id that its source gives it"
            error = f"no recorded answer to this question, neither by {by} nor by its text"
            return failed_answer(query, "error", code="not_recorded", error=error, latency_ms=None)
        try:
            return recorded_answer(query, recording, self._reader)
        except WrongShape as wrong:
            error = f"row {recording.row}: expected a recorded answer, found {wrong}"
            return failed_answer(query, "error", code="bad_recording", error=error, latency_ms=recording.latency_ms)


@contextlib.asynccontextmanager
async def open_replay(settings: ReplaySettings, corpus: SystemCorpus) -> AsyncIterator[ReplaySystem]:
    """Read the file; a row that cannot be read is the failed answer to its question."""
    path = _path_of(settings, corpus)
    recordings = read_recordings(path, corpus.aliases)
    if settings.ids or any(row.query_id is not None and row.question is None for row in recordings.rows):
        recordings = recordings.with_ids(settings.ids, corpus.source_ids(), path)
    if recordings.rows[0].fault is not None and all(recording.fault is not None for recording in recordings.rows):
        raise recordings.rows[0].fault
    empty = settings.empty_answer or ("abstained" if recordings.form == "predictions" else "error")
    reading = settings.reading(page_base=settings.page_base, empty_answer=empty)
    yield ReplaySystem(recordings, path, settings, AnswerReader(corpus, reading))


def _path_of(settings: ReplaySettings, corpus: SystemCorpus) -> Path:
    """Return the file with the answers.

    Raises:
        InputError: `missing_file` with the files that are there.
    """
    name = settings.path.format(benchmark=corpus.benchmark, system=corpus.system, started=corpus.started)
    path = corpus.settings_folder / name
    if path.is_file() or path.is_dir():
        return path
    expected = "recorded answers"
    if settings.is_by_night:
        expected += f" of the evaluation that began {corpus.started:%Y-%m-%d %H:%M} UTC"
    there = sorted(one.name for one in path.parent.glob("*") if one.is_file())
    shown = [*there[:FILES_SHOWN], *(["..."] if len(there) > FILES_SHOWN else [])]
    hint = f"{path.parent} has {', '.join(shown) or 'no file'}."
    raise InputError("missing_file", path, expected, hint=hint)


def recorded_answer(query: Query, recording: Recording, reader: AnswerReader) -> RagAnswer:
    """Return a recording as an answer."""
    latency_ms = recording.latency_ms
    if recording.status != "ok":
        code, error = recording.error_code or "recorded_failure", recording.error or NO_ERROR_GIVEN
        return failed_answer(query, recording.status, code=code, error=error, latency_ms=latency_ms)
    parsed = recording.parsed if recording.has_answer else recording.parsed._replace(answer="", abstained=True)
    answer = to_rag_answer(query, parsed, reader, latency_ms=latency_ms, unstated_usage=NO_USAGE)
    answer = msgspec.structs.replace(answer, timings=recording.timings)
    return answer if recording.has_answer else msgspec.structs.replace(answer, answer=None, abstained=False)
