"""Citations from files: an evaluation's own `.eval.`, `.gt.` and `.results.` files, or rows of JSON Lines or JSON.

A row is `{query_id, citations: [{file_name, page_number, start_char, end_char}]}`, or `{query_id, answer}` with the
citations in the answer's text; other keys are passed over. `citations: []` says that nothing is to be cited, or was.
"""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.citations import parse_citations
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.json_text import checked_json, unpacked
from rag_eval_pipeline.formats.model import read_bytes
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.metrics.span_columns import Citation, Span

SOURCE = "source"  # annotator of the spans that came with a benchmark
FAULT_HINT = "If end_char is the last character and not one past it, say so: --end-inclusive."


class CitedQuestion(NamedTuple):
    """What a file says of one question.

    Args:
        query_id: Which.
        citations: Its places; None where the file gives none, for the reason that is stated.
        reason: `impossible`, `no_gold_spans`, or the status of a failed answer.
    """

    query_id: str
    citations: tuple[Citation, ...] | None
    reason: str | None = None


class Reading(NamedTuple):
    """How a file is read.

    Args:
        known_files: File names of the documents; they settle where a name in an answer's text begins, and that `a`
            means `a.pdf`.
        end_inclusive: Its `end_char` is the last character, not the one behind it.
        annotator: Whose annotations of a `.gt.` file; None takes the benchmark's own, or the only one's.
    """

    known_files: Collection[str] = ()
    end_inclusive: bool = False
    annotator: str | None = None

    def citation(self, file_name: str, page: int | None, start: int, end: int) -> Citation:
        """A citation with its file's name as the documents have it."""
        with_suffix = f"{file_name}.pdf"
        is_stem = file_name not in self.known_files and with_suffix in self.known_files
        return Citation(with_suffix if is_stem else file_name, page, Span(start, end))


def read_gold(path: Path, how: Reading) -> dict[str, CitedQuestion]:
    """The gold citations of a `.eval.` or `.gt.` file or of rows, by question, in the file's order.

    Raises:
        InputError: A fault of the file, with its row and field.
    """
    if ".eval." in path.name:
        return _by_query(path, _of_dataset(EvaluationDataset.read(path), how))
    if ".gt." in path.name:
        truth = GroundTruth.read(path, dataset_id=path.name, end_inclusive=how.end_inclusive)
        return _by_query(path, _of_ground_truth(path, truth, how))
    _refuse(path, (".results.",), "gold citations: a .eval. or .gt. file, or rows")
    return _by_query(path, _of_rows(path, how))


def read_predicted(path: Path, how: Reading) -> dict[str, CitedQuestion]:
    """What a system cited, of a `.results.` file or of rows, by question, in the file's order.

    Raises:
        InputError: A fault of the file, with its row and field.
    """
    if ".results." in path.name:
        return _by_query(path, _of_results(EvaluationResults.read(path), how))
    _refuse(path, (".eval.", ".gt."), "a system's citations: a .results. file, or rows")
    return _by_query(path, _of_rows(path, how))


def _refuse(path: Path, marks: tuple[str, ...], expected: str) -> None:
    if any(mark in path.name for mark in marks):
        raise InputError("wrong_kind", path, expected, found=path.name, hint="Are --gold and --predicted exchanged?")


def _by_query(path: Path, questions: Iterator[CitedQuestion]) -> dict[str, CitedQuestion]:
    found: dict[str, CitedQuestion] = {}
    for number, question in enumerate(questions, 1):
        if question.query_id in found:
            raise InputError("duplicate_query", path, "each question once", row=number, found=question.query_id)
        found[question.query_id] = question
    return found


def _of_dataset(dataset: EvaluationDataset, how: Reading) -> Iterator[CitedQuestion]:
    for query in dataset.queries:
        places = tuple(_place(c, how) for c in query.citations)
        reason = "impossible" if query.is_impossible else "no_gold_spans"
        yield CitedQuestion(query.query_id, places or None, None if places else reason)


def _of_results(results: EvaluationResults, how: Reading) -> Iterator[CitedQuestion]:
    for query in results.query_results:
        is_answered = query.status == "ok"
        places = tuple(_place(c, how) for c in query.citations) if is_answered else None
        yield CitedQuestion(query.query_id, places, None if is_answered else query.status)


def _place(span: Any, how: Reading) -> Citation:
    return how.citation(span.file_name, span.page_number, span.start_char, span.end_char + how.end_inclusive)


def _of_ground_truth(path: Path, truth: GroundTruth, how: Reading) -> Iterator[CitedQuestion]:
    annotators = sorted({annotation.annotator_id for annotation in truth.citation_annotations})
    chosen = how.annotator
    if chosen is None and annotators:
        chosen = SOURCE if SOURCE in annotators else annotators[0]
        if chosen != SOURCE and len(annotators) > 1:
            raise InputError(
                "several_annotators", path, f"one annotator, or one called {SOURCE}", found=", ".join(annotators),
                hint="Name one: --annotator NAME.",
            )  # fmt: skip
    if chosen is not None and chosen not in annotators:
        raise InputError("unknown_annotator", path, f"one of {', '.join(annotators) or 'none'}", found=chosen)
    for annotation in truth.citation_annotations:
        if annotation.annotator_id == chosen:
            places = tuple(
                how.citation(c.file_name, c.page_number, c.start_char, c.end_char) for c in annotation.citations
            )
            yield CitedQuestion(annotation.query_id, places)


def _of_rows(path: Path, how: Reading) -> Iterator[CitedQuestion]:
    for number, row in _rows(path):
        query_id = row.get("query_id")
        if isinstance(query_id, int) and not isinstance(query_id, bool):
            query_id = str(query_id)
        if not isinstance(query_id, str) or not query_id:
            raise InputError("bad_row", path, "the question's id", row=number, field="query_id", found=query_id)
        cited = row.get("citations", row.get("citation_spans"))
        if cited is not None:
            if not isinstance(cited, list):
                raise InputError("bad_row", path, "a list of citations", row=number, field="citations", found=cited)
            places = tuple(_row_place(path, number, i, one, how) for i, one in enumerate(cited))
        elif isinstance(row.get("answer"), str):
            places = tuple(_place(span, how) for span in parse_citations(row["answer"], how.known_files))
        else:
            raise InputError(
                "bad_row", path, "citations, or an answer with citations in its text", row=number,
                field="answer" if "answer" in row else "citations", found=row.get("answer"),
            )  # fmt: skip
        yield CitedQuestion(query_id, places)


def _row_place(path: Path, number: int, index: int, place: Any, how: Reading) -> Citation:
    def fault(code: str, expected: str, field: str, found: object, hint: str | None = None) -> InputError:
        return InputError(code, path, expected, row=number, field=f"citations[{index}]{field}", found=found, hint=hint)

    if not isinstance(place, dict):
        raise fault("bad_row", "an object with file_name, start_char and end_char", "", place)
    name = place.get("file_name")
    if not isinstance(name, str) or not name:
        raise fault("bad_row", "the document's file name", ".file_name", name)
    for field, least in (("start_char", 0), ("end_char", 0), ("page_number", 1)):
        value = place.get(field)
        if value is None and field == "page_number":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise fault("bad_row", f"a whole number from {least} on", f".{field}", value)
    start, end = place["start_char"], place["end_char"] + how.end_inclusive
    if end <= start:
        raise fault("empty_span", f"more than start_char ({start})", ".end_char", place["end_char"], FAULT_HINT)
    return how.citation(name, place.get("page_number"), start, end)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of JSON Lines, or of a JSON array, with their 1-based number."""
    data = read_bytes(path)
    if path.name.endswith(".gz"):
        data = unpacked(data, path)
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        values: Iterator[tuple[int, Any]] = enumerate(json.loads(checked_json(data, path)), 1)
    else:
        values = _lines(data, path)
    for number, row in values:
        if not isinstance(row, dict):
            raise InputError("bad_row", path, "an object with query_id", row=number, found=row)
        yield number, row


def _lines(data: bytes, path: Path) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(checked_json(line, path))
            except InputError as error:  # it counts lines of its own text
                error.file, error.row = str(path), number
                error.hint = "One JSON object a line; else name the file .eval.json, .gt.json or .results.json."
                raise
