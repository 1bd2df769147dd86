"""A file of recorded answers as a system under test.

A recording without an answer (a TREC run, a retriever's output) is `ok` and its answer is None: its retrieval is
scored, and what is said of answers and citations is skipped. A question that was not recorded is a failure,
`not_recorded`, and no wrong answer. A latency that was not recorded is None.
"""

import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import read_bytes
from rag_eval_pipeline.systems.answer import NO_USAGE, Configuration, Query, RagAnswer, failed_answer
from rag_eval_pipeline.systems.corpus import SystemCorpus
from rag_eval_pipeline.systems.python.adapters import NoAnswer
from rag_eval_pipeline.systems.python.reading import answer_of
from rag_eval_pipeline.systems.reading import AnswerReader
from rag_eval_pipeline.systems.replay.forms import read_recordings
from rag_eval_pipeline.systems.replay.recordings import Recording, Recordings
from rag_eval_pipeline.systems.replay.rows import NO_ERROR_GIVEN
from rag_eval_pipeline.systems.replay.settings import BENCHMARK, ReplaySettings

PUBLISHED = ("model", "embedding_model", "retrieval_k", "reranking_enabled")


class ReplaySystem:
    """Answers from a file; `open_replay` makes one."""

    def __init__(self, recordings: Recordings, sha256: str, settings: ReplaySettings, reader: AnswerReader) -> None:
        self._recordings = recordings
        self._sha256 = sha256
        self._settings = settings
        self._reader = reader

    def configuration(self) -> Configuration:
        """What the settings state, else what the file does, of the system that answered."""
        recorded = {name: self._recordings.configuration.get(name) for name in PUBLISHED}
        return {**recorded, **self._settings.configuration, "recorded_as": self._recordings.form}

    def server_configuration(self) -> Mapping[str, Any]:
        """The recorded answers, by their checksum."""
        return {"sha256": self._sha256}

    def warnings(self) -> list[str]:
        """What was noticed while the recordings were read."""
        lost = [row for row in self._recordings.rows if row.query_id is None and row.question is None]
        left_out = [f"{row.error} The row names no question, so its answer is left out." for row in lost[:3]]
        if len(lost) > len(left_out):
            left_out.append(f"{len(lost) - len(left_out)} more rows of the recording name no question.")
        return [*left_out, *self._reader.warnings()]

    async def answer(self, query: Query) -> RagAnswer:
        """What was recorded for a question."""
        recording = self._recordings.find(query)
        if recording is None:
            error = f"no recorded answer to this question, neither by its id {query.query_id!r} nor by its text"
            return failed_answer(query, "error", code="not_recorded", error=error, latency_ms=None)
        try:
            return recorded_answer(query, recording, self._reader)
        except NoAnswer as wrong:
            error = f"row {recording.row}: expected a recorded answer, found {wrong}"
            return failed_answer(query, "error", code="bad_recording", error=error, latency_ms=recording.latency_ms)


def recorded_answer(query: Query, recording: Recording, reader: AnswerReader) -> RagAnswer:
    """A recording in the normal form.

    Raises:
        NoAnswer: A citation or the usage is not what it is called.
    """
    latency_ms = recording.latency_ms
    if recording.status != "ok":
        code, error = recording.error_code or "recorded_failure", recording.error or NO_ERROR_GIVEN
        return failed_answer(query, recording.status, code=code, error=error, latency_ms=latency_ms)
    said = recording.said if recording.has_answer else recording.said._replace(answer="", abstained=True)
    answer = answer_of(query, said, reader, latency_ms=latency_ms, unstated=NO_USAGE)
    answer = msgspec.structs.replace(answer, timings=recording.timings)
    return answer if recording.has_answer else msgspec.structs.replace(answer, answer=None, abstained=False)


def _fault(recording: Recording, path: Path, reader: AnswerReader) -> InputError | None:
    """Why a recording cannot be read; None where it can."""
    if recording.fault is not None:
        return recording.fault
    try:
        recorded_answer(Query("", ""), recording, reader)
    except NoAnswer as wrong:
        return InputError("bad_recording", path, "a recorded answer", row=recording.row, found=str(wrong))
    return None


@contextlib.asynccontextmanager
async def open_replay(settings: ReplaySettings, corpus: SystemCorpus) -> AsyncIterator[ReplaySystem]:
    """The system with its file read; a row that cannot be read is the failed answer to its question.

    Raises:
        InputError: Those of `read_recordings`; the fault of the first row where no row can be read.
    """
    path = corpus.settings_folder / settings.path.replace(BENCHMARK, corpus.benchmark)
    recordings = read_recordings(path, corpus.aliases)
    empty_answer = settings.empty_answer or ("abstained" if recordings.form == "predictions" else "error")
    reading = settings.model_copy(update={"empty_answer": empty_answer})
    reader = AnswerReader.set_up(corpus, reading)
    checking = AnswerReader.set_up(corpus, reading)
    faults = [_fault(recording, path, checking) for recording in recordings.rows]
    if faults[0] is not None and None not in faults:
        raise faults[0]
    yield ReplaySystem(recordings, hashlib.sha256(read_bytes(path)).hexdigest(), settings, reader)
