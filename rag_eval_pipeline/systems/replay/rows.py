"""One row of a file of recorded answers: our normal form, NVIDIA's evaluation data, RAGAS' samples, and their kin."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, get_args

from rag_eval_pipeline.errors import InputError, fault_line
from rag_eval_pipeline.formats.results import Status
from rag_eval_pipeline.systems.python.adapters import ANSWERS, CONTEXTS, NoAnswer, Said, plain_answer, shown
from rag_eval_pipeline.systems.python.passages import BadPassage, SaidPassage, identifier, part, passages, plain_text
from rag_eval_pipeline.systems.replay.recordings import NULL_ANSWER, Recording

IDS = ("query_id", "question_id", "id")
QUESTIONS = ("question", "query_text", "query", "user_input")
RETRIEVED = (*CONTEXTS, "retrieved_docs")
STATUSES = get_args(Status)
NO_ERROR_GIVEN = "the recording has no answer and does not say why"


def failed_recording(row: Any, number: int, path: Path, fault: InputError) -> Recording:
    """The failed answer to a row's question, as far as the row names one."""
    given, question = (part(row, *names) if isinstance(row, Mapping) else None for names in (IDS, QUESTIONS))
    return Recording(
        row=number,
        query_id=identifier(given) if isinstance(given, str | int) else None,
        question=question if isinstance(question, str) else None,
        said=Said(None),
        has_answer=False,
        status="error",
        error=fault_line(fault.code, path.name, fault.expected, row=number, field=fault.field, found=fault.found),
        error_code=fault.code,
        fault=fault,
    )


def recording_of(row: Any, number: int, path: Path, aliases: Mapping[str, str]) -> Recording:
    """One recorded answer, which is a failed one where the row cannot be read.

    Args:
        row: As decoded.
        number: 1-based in the file.
        path: The file, for messages.
        aliases: Names of documents; they tell `report_3` from page 3 of `report`.
    """
    try:
        return _recording(row, number, path, aliases)
    except InputError as fault:
        return failed_recording(row, number, path, fault)


def _recording(row: Any, number: int, path: Path, aliases: Mapping[str, str]) -> Recording:
    """One recorded answer.

    Args:
        row: As decoded.
        number: 1-based in the file.
        path: The file, for messages.
        aliases: Names of documents; they tell `report_3` from page 3 of `report`.

    Raises:
        InputError: `bad_recording` with row and field.
    """

    def bad(expected: str, found: object, field: str | None = None) -> NoReturn:
        raise InputError("bad_recording", path, expected, row=number, field=field, found=found)

    if not isinstance(row, Mapping):
        bad("an object with a question and its answer", row)
    query_id, question = _query_id(row, bad), part(row, *QUESTIONS)
    if question is not None and not isinstance(question, str):
        bad("a question's text", question, "question")
    if query_id is None and question is None:
        bad(f"a question's id or text, one of {', '.join(IDS + QUESTIONS)}", sorted(map(str, row)))
    status: Status = row.get("status") or "ok"
    if status not in STATUSES:
        bad(f"one of {', '.join(STATUSES)}", status, "status")
    latency_ms, error, timings = row.get("latency_ms"), row.get("error"), row.get("timings") or {}
    if latency_ms is not None and not _is_time(latency_ms):
        bad("milliseconds, 0 or more", latency_ms, "latency_ms")
    if not isinstance(timings, Mapping) or not all(v is None or _is_time(v) for v in timings.values()):
        bad("milliseconds by name", timings, "timings")
    said, has_answer = Said(""), False
    if status == "ok" and _failed(row):
        status, error = "error", error or (NULL_ANSWER if "generated_answer" not in row else None)
    elif status == "ok":
        try:
            said, has_answer = _said(row, aliases)
        except (NoAnswer, BadPassage) as wrong:
            bad("a recorded answer", str(wrong))
    return Recording(
        row=number,
        query_id=query_id,
        question=question,
        said=said,
        has_answer=has_answer,
        status=status,
        latency_ms=None if latency_ms is None else float(latency_ms),
        error=None if status == "ok" else " ".join(str(error or NO_ERROR_GIVEN).split()),
        error_code=None if status == "ok" else str(row.get("error_code") or "recorded_failure"),
        timings={str(name): float(value) for name, value in timings.items() if value is not None},
    )


def _query_id(row: Mapping[str, Any], bad: Any) -> str | None:
    value = part(row, *IDS)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        bad("a question's id, a text or a whole number", value, next(name for name in IDS if name in row))
    return plain_text(str(value))


def _failed(row: Mapping[str, Any]) -> bool:
    """An answer that is null beside an error, or where NVIDIA's driver would have put one, was not given."""
    if "generated_answer" in row:
        return row["generated_answer"] is None
    stated = [name for name in ANSWERS if name in row]
    is_null = all(row[name] is None for name in stated)
    says_nothing = bool(stated) and not row.get("abstained") and not any(name in row for name in RETRIEVED)
    return is_null and (bool(row.get("error")) or says_nothing)


def _said(row: Mapping[str, Any], aliases: Mapping[str, str]) -> tuple[Said, bool]:
    """What was said, and whether there is an answer among it."""
    if "generated_answer" in row:  # NVIDIA's rows: `answer` and `contexts` are the truth there
        row = {"answer": row["generated_answer"], "usage": row.get("usage"), "citations": row.get("citations")} | {
            "contexts": row.get("generated_contexts") or [], "retrieved_docs": row.get("retrieved_docs") or []
        }  # fmt: skip
    retrieved = row.get("retrieved_docs")
    has_answer = part(row, *ANSWERS) is not None
    if not has_answer and not any(name in row for name in RETRIEVED) and not row.get("abstained"):
        raise NoAnswer(shown(row))
    said = plain_answer(dict(row) if has_answer else {**row, "answer": ""})
    assert said is not None  # there is an `answer`
    if isinstance(retrieved, list) and retrieved:
        said = said._replace(passages=_retrieved(retrieved, said.passages, aliases))
    if ranks := _ranks(row):
        order = sorted(range(len(ranks)), key=ranks.__getitem__)
        said = said._replace(passages=tuple(said.passages[index] for index in order))
    return said, has_answer or said.abstained is True


def _retrieved(names: list[Any], texts: tuple[SaidPassage, ...], aliases: Mapping[str, str]) -> tuple[SaidPassage, ...]:
    """Passages named `<document>_<page>`, as NVIDIA's driver names them; texts of as many passages are theirs."""
    found = []
    for number, name in enumerate(names):
        (passage,) = passages([{"document": name} if isinstance(name, str) else name])
        stem, _, page = (passage.document or "").rpartition("_")
        bare = (passage.document or "").rpartition("/")[2]
        if passage.page is None and bare not in aliases and stem and page.isascii() and page.isdecimal():
            passage = passage._replace(document=stem, page=int(page))
        found.append(passage._replace(text=texts[number].text) if len(texts) == len(names) else passage)
    return tuple(found)


def _ranks(row: Mapping[str, Any]) -> list[int]:
    """Ranks of the contexts, when each states one."""
    contexts = part(row, *CONTEXTS)
    if not isinstance(contexts, list):
        return []
    ranks = [context.get("rank") if isinstance(context, Mapping) else None for context in contexts]
    stated = [rank for rank in ranks if isinstance(rank, int) and not isinstance(rank, bool)]
    return stated if len(stated) == len(ranks) else []


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
