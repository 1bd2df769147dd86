"""Files of recorded answers: which form a file has is seen in its content, and each form has its reader."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.json_text import checked_json, unpacked
from rag_eval_pipeline.formats.model import bad_format, read_bytes
from rag_eval_pipeline.formats.model_files import parse_json
from rag_eval_pipeline.formats.results import QueryResult
from rag_eval_pipeline.formats.trec import decode_id, read_run
from rag_eval_pipeline.metrics.retrieval import rank_by_score
from rag_eval_pipeline.systems.python.adapters import ANSWERS, Said
from rag_eval_pipeline.systems.python.passages import passages, scalar_text
from rag_eval_pipeline.systems.replay.recordings import Recording, Recordings, indexed
from rag_eval_pipeline.systems.replay.rows import IDS, NO_ERROR_GIVEN, QUESTIONS, failed_recording, recording_of

PARQUET_MAGIC = b"PAR1"
GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TREC_FIELDS = 6
FORMS = "JSON lines, a list in JSON, .results.json, SQuAD's predictions, responses.parquet or a TREC run"

Aliases = Mapping[str, str]


def read_recordings(path: Path, aliases: Aliases) -> Recordings:
    """The recorded answers of a file.

    Args:
        path: The file; gzip is unpacked.
        aliases: Names of documents -> basename.

    Raises:
        InputError: `missing_file`, `unreadable_file`, `bad_gzip`, `unknown_form`, `bad_recording`, `bad_json`,
            `duplicate_question` and `no_recordings`, and the faults of each form's own reader.
    """
    data = read_bytes(path)
    if data.startswith(PARQUET_MAGIC):
        return indexed(path, "parquet", _from_parquet(path, aliases))
    whole = (unpacked(data, path) if data.startswith(GZIP_MAGIC) else data).removeprefix(BYTE_ORDER_MARK)
    text = whole.lstrip()
    first_line = text.partition(b"\n")[0]
    if text.startswith(b"["):
        rows = json.loads(checked_json(text, path))
        return indexed(path, "list", (recording_of(row, n, path, aliases) for n, row in enumerate(rows, start=1)))
    if text.startswith(b"{"):
        if _is_one_of_many(first_line, text):
            return indexed(path, "lines", _from_lines(whole, path, aliases))
        return _from_object(text, path)
    first_record = next((line for line in text.split(b"\n") if line.strip()[:1] not in {b"", b"#"}), b"")
    if len(first_record.split()) >= TREC_FIELDS:
        return indexed(path, "trec", _from_run(path, aliases))
    raise InputError("unknown_form", path, FORMS, found=text[:80].decode(errors="backslashreplace"))


def _is_one_of_many(line: bytes, text: bytes) -> bool:
    """Whether a file's first line is an object of its own: a row, and not the file's only value."""
    try:
        value = json.loads(line)
    except ValueError:
        # A first row that is damaged is still a row when the next begins like one.
        return text[len(line) :].lstrip().startswith(b"{")
    return len(line) < len(text.rstrip()) or not (_is_results(value) or _is_predictions(value))


def _from_lines(text: bytes, path: Path, aliases: Aliases) -> Iterator[Recording]:
    for number, line in enumerate(text.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = _row_of_line(line, number, path)
        except InputError as fault:
            yield failed_recording(None, number, path, fault)
        else:
            yield recording_of(row, number, path, aliases)


def _row_of_line(line: bytes, number: int, path: Path) -> Any:
    try:
        return json.loads(line)
    except UnicodeDecodeError as error:
        found = line[error.start : error.end]
        raise InputError("bad_encoding", path, "UTF-8", row=number, found=found) from None
    except (ValueError, RecursionError) as error:
        raise InputError("bad_json", path, "a JSON object", row=number, found=str(error)) from None


def _from_parquet(path: Path, aliases: Aliases) -> Iterator[Recording]:
    import pyarrow as pa

    from rag_eval_pipeline.storage.parquet import read_rows

    try:
        rows = read_rows(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError("bad_parquet", path, "a whole parquet file", found=str(error).splitlines()[0]) from None
    for number, row in enumerate(rows, start=1):
        yield recording_of(row, number, path, aliases)


def _from_object(text: bytes, path: Path) -> Recordings:
    checked = checked_json(text, path)
    value = json.loads(checked)
    if _is_predictions(value):
        said = ((name, Said(scalar_text(answer))) for name, answer in value.items())
        recorded = (Recording(n, i, None, s, s.answer is not None) for n, (i, s) in enumerate(said, start=1))
        return indexed(path, "predictions", recorded)
    if not _is_results(value):
        raise InputError("unknown_form", path, FORMS, found=f"an object with the keys {', '.join(sorted(value))}")
    recorded = (_of_result(result, number, path) for number, result in enumerate(value["query_results"], start=1))
    return indexed(path, "results", recorded, value.get("configuration"))


def _of_result(value: Any, number: int, path: Path) -> Recording:
    """Only the question's own part of a results file is read: figures of older and newer releases differ."""
    try:
        result = parse_json(QueryResult, json.dumps(value).encode())
    except pydantic.ValidationError as error:
        bad = bad_format(path, error)
        fault = InputError(bad.code, path, bad.expected, row=number, field=bad.field, found=error.errors()[0]["input"])
        return failed_recording(value, number, path, fault)
    found = zip(result.retrieval_results.retrieved_docs, result.retrieval_results.relevance_scores, strict=False)
    said = Said(
        answer=result.generated_answer,
        passages=passages([{"document": name, "score": score} for name, score in found]),
        citations=tuple(citation.model_dump() for citation in result.citations),
        abstained=result.abstained,
    )
    return Recording(
        row=number,
        query_id=result.query_id,
        question=result.query_text,
        said=said,
        has_answer=result.generated_answer is not None,
        status=result.status,
        latency_ms=result.latency_ms,
        error=None if result.status == "ok" else result.error or NO_ERROR_GIVEN,
        error_code=None if result.status == "ok" else "recorded_failure",
    )


def _from_run(path: Path, aliases: Aliases) -> Iterator[Recording]:
    """One recording a query, documents as trec_eval ranks them; a run holds no answers."""
    for number, (query_id, scored) in enumerate(read_run(path).items(), start=1):
        scores = dict(scored)
        ranking = passages(
            [{"document": _named(name, aliases), "score": scores[name]} for name in rank_by_score(scored)]
        )
        yield Recording(number, query_id, None, Said(None, ranking), has_answer=False)


def _named(name: str, aliases: Aliases) -> str:
    """A document's name as it stands, else as `encode_id` would have hidden its white space."""
    return name if name in aliases else decode_id(name)


def _is_results(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("query_results"), list)


def _is_predictions(value: Any) -> bool:
    """SQuAD's `{"<question id>": "<answer>"}`; a row has keys of its own for its question and its answer."""
    is_text_by_id = isinstance(value, dict) and all(
        answer is None or isinstance(answer, str | int | float) for answer in value.values()
    )
    return is_text_by_id and not {*IDS, *QUESTIONS, *ANSWERS} & value.keys()
