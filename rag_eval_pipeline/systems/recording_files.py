"""Files of recorded answers: JSON lines, lists, results files, SQuAD's predictions, tables and TREC runs.

Answers are found by the id, the source's id or the text of a question.
"""

import heapq
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NoReturn, Self, get_args

import pydantic

from rag_eval_pipeline.errors import InputError, fault_line
from rag_eval_pipeline.formats.model import bad_format, parse_value
from rag_eval_pipeline.formats.results import QueryResult, Status
from rag_eval_pipeline.formats.trec import decode_id, encode_id, read_run
from rag_eval_pipeline.sources.batches import RejectedRow
from rag_eval_pipeline.sources.relations import SOURCE_FILE, SOURCE_ROW, read_file
from rag_eval_pipeline.storage.json_files import checked_json, gunzip, read_bytes
from rag_eval_pipeline.systems.base import Query
from rag_eval_pipeline.systems.foreign_values import WrongShape, describe, identifier, is_amount, part, whole_number
from rag_eval_pipeline.systems.frameworks import ANSWERS, ParsedAnswer, plain_answer
from rag_eval_pipeline.systems.passages import ParsedPassage, parse_passages
from rag_eval_pipeline.systems.reply import CONTEXTS
from rag_eval_pipeline.text.folding import plain_text, scalar_text

NO_ERROR_GIVEN = "the recording has no answer and does not say why"
NULL_ANSWER = "the recorded answer is null; a recording that abstains says abstained: true"


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded answer.

    Args:
        row: 1-based in its file.
        query_id: As recorded; None if the file identifies questions by their text.
        question: As recorded; None if the file identifies questions by their ids.
        has_answer: False for a retrieval without an answer, such as a line of a TREC run.
        fault: Why the row cannot be read; it counts as a failed answer.
    """

    row: int
    query_id: str | None
    question: str | None
    parsed: ParsedAnswer
    has_answer: bool = True
    status: Status = "ok"
    latency_ms: float | None = None
    error: str | None = None
    error_code: str | None = None
    timings: dict[str, float] = field(default_factory=dict)
    fault: InputError | None = None


@dataclass(frozen=True, slots=True)
class Recordings:
    """All answers of one file.

    Args:
        by_id: Question's id -> answer.
        by_text: Question's text, white space folded -> answer; texts that several ids share are left out.
        rows: Every recording, also those that name no question.
        by_source_id: Question's id -> answer, if the recording has the ids of the questions' source.
    """

    form: str
    by_id: dict[str, Recording]
    by_text: dict[str, Recording]
    configuration: dict[str, Any]
    rows: list[Recording]
    by_source_id: dict[str, Recording] | None = None

    def find(self, query: Query) -> Recording | None:
        """Return the answer to a question; None if there is none.

        A recording of the same id but of another question is ignored: ids move when a dataset gets a new version.
        """
        text = _folded(query.text)
        if self.by_source_id is not None:
            found = self.by_source_id.get(query.query_id)
        else:
            found = _find(self.by_id, query.query_id)
        if found is not None and (found.question is None or _folded(found.question) == text):
            return found
        return self.by_text.get(text)

    def with_ids(self, ids: Literal["query_id", "source_id"] | None, source_ids: Mapping[str, str], path: Path) -> Self:
        """Return these recordings by the ids that their rows have: the dataset's, or those of the questions' source.

        Args:
            ids: None for those that more rows without a question's text fit.
            source_ids: Question's id -> its id in the source.

        Raises:
            InputError: `ambiguous_ids` if as many questions have an answer either way, but not the same answers, or if
                more rows would fit if the ids counted from 1.
        """
        by_source_id = _match_source_ids(self.by_id, source_ids)
        if ids is None:
            ours = {key: row for key in source_ids if (row := _find(self.by_id, key)) and row.question is None}
            theirs = {key: row for key, row in by_source_id.items() if row.question is None}
            if len(ours) == len(theirs) and ours != theirs:
                expected = "either the dataset's ids, from 0, or the ids of the benchmark's source"
                hint = "State which they are in the system's settings, `ids: query_id` or `ids: source_id`, or add the "
                raise InputError(
                    "ambiguous_ids", path, expected, found=f"{len(ours)} ids of both", hint=f"{hint}questions' texts."
                )
            ids = "source_id" if len(theirs) > len(ours) else "query_id"
            bare = [key for key, row in self.by_id.items() if row.question is None]
            if ids == "query_id":
                hint = "Subtract 1, add the questions' texts, or state `ids: query_id` if the ids are right."
                refuse_ids_from_one(bare, source_ids, path, hint)
        return self if ids == "query_id" else replace(self, by_source_id=by_source_id)


def index_recordings(path: Path, form: str, recordings: Iterable[Recording], configuration: Any = None) -> Recordings:
    """Index answers by id and by text.

    If some rows have an answer, one that has none was not answered; a file without any is a retrieval alone.
    """

    def refuse(first: Recording, second: Recording, field: str, found: str) -> NoReturn:
        expected = f"each question once; row {first.row} has it too"
        raise InputError("duplicate_question", path, expected, row=second.row, field=field, found=found)

    by_id: dict[str, Recording] = {}
    by_text: dict[str, Recording] = {}
    shared: set[str] = set()
    rows = list(recordings)
    if not rows:
        raise InputError("no_recordings", path, "one recorded answer or more")
    if any(row.status == "ok" and row.has_answer for row in rows):
        rows = [
            row
            if row.has_answer or row.status != "ok"
            else replace(row, status="error", error_code="recorded_failure", error=NULL_ANSWER)
            for row in rows
        ]
    for row in rows:
        if row.query_id is not None and (first := by_id.setdefault(row.query_id, row)) is not row:
            refuse(first, row, "query_id", row.query_id)
        if row.question is not None:
            text = _folded(row.question)
            if (first := by_text.setdefault(text, row)) is not row:
                if row.query_id is None or first.query_id is None:
                    refuse(first, row, "question", row.question)
                shared.add(text)
    for text in shared:
        del by_text[text]
    return Recordings(form, by_id, by_text, configuration if isinstance(configuration, dict) else {}, rows)


def _find(by_id: Mapping[str, Recording], query_id: str) -> Recording | None:
    """Return the recording of an id, which in a TREC run has no white space."""
    return by_id.get(query_id) or by_id.get(encode_id(query_id))


def _match_source_ids(by_id: Mapping[str, Recording], source_ids: Mapping[str, str]) -> dict[str, Recording]:
    """Return the recording of each question by its id in the source, `1` also for `01`; shared ids have none."""
    counts = Counter(source_ids.values())
    numbers = Counter(map(_without_zeros, source_ids.values()))
    recorded = Counter(map(_without_zeros, by_id))
    bare = {number: row for key, row in by_id.items() if recorded[number := _without_zeros(key)] == 1}
    found = {}
    for query_id, source_id in source_ids.items():
        row = _find(by_id, source_id) if counts[source_id] == 1 else None
        if row is None and numbers[_without_zeros(source_id)] == 1:
            row = bare.get(_without_zeros(source_id))
        if row is not None:
            found[query_id] = row
    return found


def refuse_ids_from_one(ids: Iterable[str], known: Collection[str], path: Path, hint: str) -> None:
    """Raise `ambiguous_ids` if more of the ids would be those of questions if they counted from 1."""
    fits = [sum(_shifted(one, step) in known for one in ids) for step in (0, -1)]
    if fits[0] < fits[1]:
        found = f"ids of which {fits[0]} are ids of questions, and {fits[1]} would be if they counted from 1"
        raise InputError("ambiguous_ids", path, "the dataset's ids, from 0", found=found, hint=hint)


def _shifted(identifier: str, step: int) -> str:
    """Return an id by which the question before or after has it; an id that is no number stays."""
    number = whole_number(identifier)
    return identifier if number is None or not step else str(number + step)


def _without_zeros(identifier: str) -> str:
    return identifier.lstrip("0") or "0" if identifier.isascii() and identifier.isdecimal() else identifier


def _folded(text: str) -> str:
    """Return a question as it is compared: differences in white space do not count."""
    return " ".join(text.split())


FORMS = "JSON lines, a list in JSON, .results.json, SQuAD's predictions, a table (CSV, Excel, parquet) or a TREC run"
GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TREC_FIELDS = 6
IDS = ("query_id", "question_id", "id", "source_id")
QUESTIONS = ("question", "query_text", "query", "user_input")
SCALARS = ("latency_ms", "abstained")
STATUSES = get_args(Status)


def read_recordings(path: Path, aliases: Mapping[str, str]) -> Recordings:
    """Read the recorded answers of a file; its form is recognised by its content, and gzip is decompressed.

    Raises:
        InputError: `missing_file`, `unreadable_file`, `bad_gzip`, `unknown_form`, `bad_recording`, `bad_json`,
            `bad_encoding`, `duplicate_question`, `no_recordings`, and those of a TREC run and of tables.
    """
    data = read_bytes(path)
    whole = (gunzip(data, path) if data.startswith(GZIP_MAGIC) else data).removeprefix(BYTE_ORDER_MARK)
    text = whole.lstrip()
    if text.startswith(b"["):
        rows = json.loads(checked_json(text, path))
        return index_recordings(
            path, "list", (_parse_row(row, n, path, aliases) for n, row in enumerate(rows, start=1))
        )
    if text.startswith(b"{"):
        if _is_json_lines(text):
            return index_recordings(path, "lines", _from_lines(whole, path, aliases))
        return _from_object(text, path)
    if _is_run(text):
        return index_recordings(path, "trec", _from_run(path, aliases))
    if b"\n" not in text and b"\0" not in text:  # a sentence, and not one of the binary tables
        raise InputError("unknown_form", path, FORMS, found=text[:80].decode(errors="backslashreplace"))
    return index_recordings(path, "table", _from_table(path, aliases))


def _is_run(text: bytes) -> bool:
    """Return whether the first record is of a TREC run, and not a header or a sentence of as many words."""
    first = next((line for line in text.split(b"\n") if line.strip()[:1] not in {b"", b"#"}), b"")
    record = first.decode(errors="replace").split()
    is_text = not {"\0", "\ufffd"} & set("".join(record))
    return is_text and len(record) >= TREC_FIELDS and (record[1] == "Q0" or any(map(str.isdigit, record[4])))


def _is_json_lines(text: bytes) -> bool:
    """Return whether the first line is an object of its own, and not the file's only value."""
    line = text.partition(b"\n")[0]
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        # A damaged first row is still a row if the next line begins like one.
        return text[len(line) :].lstrip().startswith(b"{")
    return len(line) < len(text.rstrip()) or not (_is_results(value) or _is_predictions(value))


def _from_lines(text: bytes, path: Path, aliases: Mapping[str, str]) -> Iterator[Recording]:
    for number, line in enumerate(text.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(checked_json(line, path))
        except InputError as wrong:
            fault = InputError(wrong.code, path, wrong.expected, row=number, found=wrong.found)
            yield _failed_row(None, number, path, fault)
        else:
            yield _parse_row(row, number, path, aliases)


def _from_table(path: Path, aliases: Mapping[str, str]) -> Iterator[Recording]:
    """Yield the rows of a CSV, TSV, Excel, parquet or Arrow file, as they are read for benchmarks."""
    table = read_file(path)
    if not {*IDS, *QUESTIONS} & set(table.schema.names):
        found = f"columns {', '.join(table.schema.names[:-2])}"
        raise InputError("unknown_form", path, f"a column {' or '.join((*IDS, *QUESTIONS))}", found=found)
    rejected = ((one.row, one) for one in table.rejected)
    rows = ((row.pop(SOURCE_ROW), row) for batch in table.batches() for row in batch.to_pylist())
    for number, row in heapq.merge(rejected, rows, key=itemgetter(0)):
        if isinstance(row, RejectedRow):
            yield _failed_row(None, number, path, row.fault(path))
        else:
            del row[SOURCE_FILE]
            yield _parse_row({name: _cell(name, value) for name, value in row.items()}, number, path, aliases)


def _cell(name: str, value: Any) -> Any:
    """Return a cell; in a table of texts lists and objects are JSON, and so are times and truth values."""
    is_json = isinstance(value, str) and (value.lstrip()[:1] in ("[", "{") or name in SCALARS)
    if not is_json or name in {*IDS, *QUESTIONS, *ANSWERS}:
        return value
    try:
        return json.loads(value.lower() if name in SCALARS else value) if value else None
    except (ValueError, RecursionError):
        return value


def _from_object(text: bytes, path: Path) -> Recordings:
    value = json.loads(checked_json(text, path))
    if _is_predictions(value):
        texts = ((name, scalar_text(answer)) for name, answer in value.items())
        recorded = (
            Recording(number, name, None, ParsedAnswer(answer), has_answer=answer is not None)
            for number, (name, answer) in enumerate(texts, start=1)
        )
        return index_recordings(path, "predictions", recorded)
    if not _is_results(value):
        raise InputError("unknown_form", path, FORMS, found=f"an object with the keys {', '.join(sorted(value))}")
    recorded = (_from_result(result, number, path) for number, result in enumerate(value["query_results"], start=1))
    return index_recordings(path, "results", recorded, value.get("configuration"))


def _from_result(value: Any, number: int, path: Path) -> Recording:
    """Read a question's part of a results file; the file's metrics differ between releases and are not read."""
    try:
        result = parse_value(QueryResult, value)
    except pydantic.ValidationError as error:
        bad = bad_format(path, error)
        fault = InputError(bad.code, path, bad.expected, row=number, field=bad.field, found=error.errors()[0]["input"])
        return _failed_row(value, number, path, fault)
    found = zip(result.retrieval_results.retrieved_docs, result.retrieval_results.relevance_scores, strict=False)
    parsed = ParsedAnswer(
        answer=result.generated_answer,
        passages=parse_passages([{"document": name, "score": score} for name, score in found]),
        citations=tuple(citation.model_dump() for citation in result.citations),
        abstained=result.abstained,
    )
    return Recording(
        row=number,
        query_id=result.query_id,
        question=result.query_text,
        parsed=parsed,
        has_answer=result.generated_answer is not None,
        status=result.status,
        latency_ms=result.latency_ms,
        error=None if result.status == "ok" else result.error or NO_ERROR_GIVEN,
        error_code=None if result.status == "ok" else "recorded_failure",
    )


def _from_run(path: Path, aliases: Mapping[str, str]) -> Iterator[Recording]:
    """Yield one recording a query, with the documents in trec_eval's order."""
    for number, (query_id, scored) in enumerate(read_run(path).items(), start=1):
        # A name is either as it is, or as `encode_id` has replaced its white space.
        ranking = parse_passages(
            [
                {"document": name if name in aliases else decode_id(name), "score": score}
                for name, score in sorted(scored, key=lambda pair: (pair[1], pair[0]), reverse=True)
            ]
        )
        yield Recording(number, query_id, None, ParsedAnswer(None, ranking), has_answer=False)


def _is_results(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("query_results"), list)


def _is_predictions(value: Any) -> bool:
    """Return whether this is SQuAD's `{"<question id>": "<answer>"}`; a row has keys for its question and answer."""
    is_text_by_id = isinstance(value, dict) and all(
        answer is None or isinstance(answer, str | int | float) for answer in value.values()
    )
    return is_text_by_id and not {*IDS, *QUESTIONS, *ANSWERS} & value.keys()


def _parse_row(row: Any, number: int, path: Path, aliases: Mapping[str, str]) -> Recording:
    """Parse a row of our own answers, NVIDIA's evaluation data, RAGAS' samples and similar files.

    A row that cannot be read is the failed answer to its question.
    """
    try:
        return _parse_valid_row(row, number, path, aliases)
    except InputError as fault:
        return _failed_row(row, number, path, fault)


def _failed_row(row: Any, number: int, path: Path, fault: InputError) -> Recording:
    """Return the failed answer to a row's question, as far as the row names one."""
    given, question = (part(row, *names) if isinstance(row, Mapping) else None for names in (IDS, QUESTIONS))
    return Recording(
        row=number,
        query_id=identifier(given) if isinstance(given, str | int) else None,
        question=question if isinstance(question, str) else None,
        parsed=ParsedAnswer(None),
        has_answer=False,
        status="error",
        error=fault_line(fault.code, path.name, fault.expected, row=number, field=fault.field, found=fault.found),
        error_code=fault.code,
        fault=fault,
    )


def _parse_valid_row(row: Any, number: int, path: Path, aliases: Mapping[str, str]) -> Recording:
    def bad(expected: str, found: object, field: str | None = None) -> NoReturn:
        raise InputError("bad_recording", path, expected, row=number, field=field, found=found)

    if not isinstance(row, Mapping):
        bad("an object with a question and its answer", row)
    query_id, question = part(row, *IDS), part(row, *QUESTIONS)
    if query_id is not None and (isinstance(query_id, bool) or not isinstance(query_id, str | int) or query_id == ""):
        field = next(name for name in IDS if name in row)
        bad("a question's id, a text or a whole number", query_id, field)
    if question is not None and not isinstance(question, str):
        bad("a question's text", question, "question")
    if query_id is None and question is None:
        bad(f"a question's id or text, one of {', '.join(IDS + QUESTIONS)}", sorted(map(str, row)))
    status: Status = row.get("status") or "ok"
    if status not in STATUSES:
        bad(f"one of {', '.join(STATUSES)}", status, "status")
    latency_ms, error, timings = row.get("latency_ms"), row.get("error"), row.get("timings") or {}
    if latency_ms is not None and not is_amount(latency_ms):
        bad("milliseconds, 0 or more", latency_ms, "latency_ms")
    if not isinstance(timings, Mapping) or not all(v is None or is_amount(v) for v in timings.values()):
        bad("milliseconds by name", timings, "timings")
    parsed, has_answer = ParsedAnswer(""), False
    if status == "ok" and _was_not_given(row):
        status, error = "error", error or (NULL_ANSWER if "generated_answer" not in row else None)
    elif status == "ok":
        try:
            parsed, has_answer = _parse_row_answer(row, aliases)
        except WrongShape as wrong:
            bad("a recorded answer", str(wrong))
    return Recording(
        row=number,
        query_id=None if query_id is None else plain_text(str(query_id)),
        question=question,
        parsed=parsed,
        has_answer=has_answer,
        status=status,
        latency_ms=None if latency_ms is None else float(latency_ms),
        error=None if status == "ok" else " ".join(str(error or NO_ERROR_GIVEN).split()),
        error_code=None if status == "ok" else str(row.get("error_code") or "recorded_failure"),
        timings={str(name): float(value) for name, value in timings.items() if value is not None},
    )


def _was_not_given(row: Mapping[str, Any]) -> bool:
    """Return whether an answer is null beside an error, or where NVIDIA's driver would have written one."""
    if "generated_answer" in row:
        return row["generated_answer"] is None
    stated = [name for name in ANSWERS if name in row]
    is_null = all(row[name] is None for name in stated)
    is_silent = bool(stated) and not row.get("abstained") and not any(name in row for name in CONTEXTS)
    return is_null and (bool(row.get("error")) or is_silent)


def _parse_row_answer(row: Mapping[str, Any], aliases: Mapping[str, str]) -> tuple[ParsedAnswer, bool]:
    """Return what a row states, and whether there is an answer among it."""
    if "generated_answer" in row:  # NVIDIA's rows: their `answer` and `contexts` are the ground truth
        row = {"answer": row["generated_answer"], "usage": row.get("usage"), "citations": row.get("citations")} | {
            "contexts": row.get("generated_contexts") or [], "retrieved_docs": row.get("retrieved_docs") or []
        }  # fmt: skip
    retrieved = row.get("retrieved_docs")
    # The `references` of data sets are gold answers.
    row = {name: value for name, value in row.items() if name not in ("references", "retrieved_docs")}
    has_answer = part(row, *ANSWERS) is not None
    if not has_answer and retrieved is None and not any(name in row for name in CONTEXTS) and not row.get("abstained"):
        raise WrongShape(describe(row))
    parsed = plain_answer(dict(row) if has_answer else {**row, "answer": ""})
    assert parsed is not None  # there is an `answer`
    if isinstance(retrieved, list) and retrieved:
        parsed = parsed._replace(passages=_retrieved(retrieved, parsed.passages, aliases))
    return parsed, has_answer or parsed.abstained is True


def _retrieved(
    names: list[Any], texts: tuple[ParsedPassage, ...], aliases: Mapping[str, str]
) -> tuple[ParsedPassage, ...]:
    """Return passages named `<document>_<page>`, as NVIDIA's driver does, with the texts if there are as many."""
    found = []
    for number, name in enumerate(names):
        (passage,) = parse_passages([{"document": name} if isinstance(name, str) else name])
        stem, _, page = (passage.document or "").rpartition("_")
        bare = (passage.document or "").rpartition("/")[2]
        if passage.page is None and bare not in aliases and stem and page.isascii() and page.isdecimal():
            passage = passage._replace(document=stem, page=int(page))
        found.append(passage._replace(text=texts[number].text) if len(texts) == len(names) else passage)
    return tuple(found)
