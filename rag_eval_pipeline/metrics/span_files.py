"""Citations and document texts in files, for `rag-eval spans`.

Citations are read from `.eval.`, `.gt.` and `.results.` files, or from rows of JSON Lines or JSON. A row is
`{query_id, citations: [{file_name, page_number, start_char, end_char}]}`, or `{query_id, answer}` with the citations in
the answer's text; other keys are ignored. `citations: []` means that nothing is to be cited, or that nothing was.

Texts are read from pages.parquet, JSON (file name -> text), JSON Lines (`{file_name, text}`), or a `.eval.` file that
contains its documents.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.citations import parse_citations
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.io import checked_json, gunzip, read_bytes, read_json_bytes
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.metrics.spans import Citation, Span

SOURCE_ANNOTATOR = "source"  # of the spans that came with a benchmark
INCLUSIVE_HINT = "If end_char is the last character and not one past it, say so: --end-inclusive."
PAGE_BREAK = "\f"  # between two pages of a document's text
PAGE_COLUMNS = ("file_name", "page", "text")


class CitedQuestion(NamedTuple):
    """What a file says about one question.

    Args:
        query_id: The question's id.
        citations: Its places; None if the file has none, for `reason`.
        reason: `impossible`, `no_gold_spans`, or the status of a failed answer.
    """

    query_id: str
    citations: tuple[Citation, ...] | None
    reason: str | None = None


class ReadOptions(NamedTuple):
    """How to read a file of citations.

    Args:
        known_files: File names of the documents. They decide where a name in an answer's text begins, and that `a`
            means `a.pdf`.
        end_inclusive: `end_char` is the last character instead of one past it.
        annotator: Whose annotations of a `.gt.` file to read; None reads the benchmark's own, or the only annotator's.
    """

    known_files: Collection[str] = ()
    end_inclusive: bool = False
    annotator: str | None = None

    def citation(self, file_name: str, page: int | None, start: int, end: int) -> Citation:
        """Make a citation, completing a file name without its suffix."""
        with_suffix = f"{file_name}.pdf"
        is_stem = file_name not in self.known_files and with_suffix in self.known_files
        return Citation(with_suffix if is_stem else file_name, page, Span(start, end))


def read_gold(path: Path, options: ReadOptions) -> dict[str, CitedQuestion]:
    """Read gold citations from a `.eval.` or `.gt.` file or from rows, by question, in the file's order.

    Raises:
        InputError: An error in the file, with its row and field.
    """
    if ".eval." in path.name:
        return _by_query(path, _from_dataset(EvaluationDataset.read(path), options))
    if ".gt." in path.name:
        truth = GroundTruth.read(path, dataset_id=path.name, end_inclusive=options.end_inclusive)
        return _by_query(path, _from_ground_truth(path, truth, options))
    _refuse(path, (".results.",), "gold citations: a .eval. or .gt. file, or rows")
    return _by_query(path, _from_rows(path, options))


def read_predicted(path: Path, options: ReadOptions) -> dict[str, CitedQuestion]:
    """Read a system's citations from a `.results.` file or from rows, by question, in the file's order.

    Raises:
        InputError: An error in the file, with its row and field.
    """
    if ".results." in path.name:
        return _by_query(path, _from_results(EvaluationResults.read(path), options))
    _refuse(path, (".eval.", ".gt."), "a system's citations: a .results. file, or rows")
    return _by_query(path, _from_rows(path, options))


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


def _from_dataset(dataset: EvaluationDataset, options: ReadOptions) -> Iterator[CitedQuestion]:
    for query in dataset.queries:
        citations = tuple(_convert(span, options) for span in query.citations)
        reason = "impossible" if query.is_impossible else "no_gold_spans"
        yield CitedQuestion(query.query_id, citations or None, None if citations else reason)


def _from_results(results: EvaluationResults, options: ReadOptions) -> Iterator[CitedQuestion]:
    for query in results.query_results:
        is_answered = query.status == "ok"
        citations = tuple(_convert(span, options) for span in query.citations) if is_answered else None
        yield CitedQuestion(query.query_id, citations, None if is_answered else query.status)


def _convert(span: Any, options: ReadOptions) -> Citation:
    return options.citation(span.file_name, span.page_number, span.start_char, span.end_char + options.end_inclusive)


def _from_ground_truth(path: Path, truth: GroundTruth, options: ReadOptions) -> Iterator[CitedQuestion]:
    annotators = sorted({annotation.annotator_id for annotation in truth.citation_annotations})
    chosen = options.annotator
    if chosen is None and annotators:
        chosen = SOURCE_ANNOTATOR if SOURCE_ANNOTATOR in annotators else annotators[0]
        if chosen != SOURCE_ANNOTATOR and len(annotators) > 1:
            raise InputError(
                "several_annotators", path, f"one annotator, or one called {SOURCE_ANNOTATOR}",
                found=", ".join(annotators), hint="Name one: --annotator NAME.",
            )  # fmt: skip
    if chosen is not None and chosen not in annotators:
        raise InputError("unknown_annotator", path, f"one of {', '.join(annotators) or 'none'}", found=chosen)
    for annotation in truth.citation_annotations:
        if annotation.annotator_id == chosen:
            yield CitedQuestion(
                annotation.query_id,
                # GroundTruth.read has already made the ends exclusive.
                tuple(
                    options.citation(span.file_name, span.page_number, span.start_char, span.end_char)
                    for span in annotation.citations
                ),
            )


def _from_rows(path: Path, options: ReadOptions) -> Iterator[CitedQuestion]:
    for number, row in _read_rows(path):
        query_id = row.get("query_id")
        if isinstance(query_id, int) and not isinstance(query_id, bool):
            query_id = str(query_id)
        if not isinstance(query_id, str) or not query_id:
            raise InputError("bad_row", path, "the question's id", row=number, field="query_id", found=query_id)
        cited = row.get("citations", row.get("citation_spans"))
        if cited is not None:
            if not isinstance(cited, list):
                raise InputError("bad_row", path, "a list of citations", row=number, field="citations", found=cited)
            citations = tuple(_parse_place(path, number, i, place, options) for i, place in enumerate(cited))
        elif isinstance(row.get("answer"), str):
            citations = tuple(_convert(span, options) for span in parse_citations(row["answer"], options.known_files))
        else:
            raise InputError(
                "bad_row", path, "citations, or an answer with citations in its text", row=number,
                field="answer" if "answer" in row else "citations", found=row.get("answer"),
            )  # fmt: skip
        yield CitedQuestion(query_id, citations)


def _parse_place(path: Path, number: int, index: int, place: Any, options: ReadOptions) -> Citation:
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
    start, end = place["start_char"], place["end_char"] + options.end_inclusive
    if end <= start:
        raise fault("empty_span", f"more than start_char ({start})", ".end_char", place["end_char"], INCLUSIVE_HINT)
    return options.citation(name, place.get("page_number"), start, end)


def _read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of JSON Lines or of a JSON array with their 1-based number."""
    data = read_bytes(path)
    if path.name.endswith(".gz"):
        data = gunzip(data, path)
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        values: Iterator[tuple[int, Any]] = enumerate(json.loads(checked_json(data, path)), 1)
    else:
        values = _read_lines(data, path)
    for number, row in values:
        if not isinstance(row, dict):
            raise InputError("bad_row", path, "an object with query_id", row=number, found=row)
        yield number, row


def _read_lines(data: bytes, path: Path) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(checked_json(line, path))
            except InputError as error:  # its row counts the lines of this line alone
                error.file, error.row = str(path), number
                error.hint = "One JSON object per line; otherwise name the file .eval.json, .gt.json or .results.json."
                raise


def read_texts(path: Path) -> dict[str, str]:
    """Read document texts by file name.

    Raises:
        InputError: An error in the file, with its row and field.
    """
    if path.suffix == ".parquet":
        return _texts_from_pages(path)
    if ".eval." in path.name:
        documents = EvaluationDataset.read(path).documents
        if documents is None:
            raise InputError("no_documents", path, "documents with their content", hint="Name pages.parquet instead.")
        return {document.document_id: document.content for document in documents}
    if path.suffix == ".jsonl":
        return _texts_from_lines(path)
    texts = json.loads(read_json_bytes(path))
    if not isinstance(texts, dict):
        raise InputError("bad_row", path, "file name -> text", found=texts)
    for name, text in texts.items():
        _check_text(path, None, name, text)
    return texts


def _texts_from_lines(path: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    for number, line in enumerate(read_bytes(path).split(b"\n"), 1):
        if not line.strip():
            continue
        row = json.loads(checked_json(line, f"{path}, row {number}"))
        if not isinstance(row, dict) or not isinstance(row.get("file_name"), str):
            raise InputError("bad_row", path, "file_name and text", row=number, found=row)
        if row["file_name"] in texts:
            raise InputError("duplicate_document", path, "each document once", row=number, found=row["file_name"])
        texts[row["file_name"]] = _check_text(path, number, "text", row.get("text"))
    return texts


def _check_text(path: Path, row: int | None, field: str, text: Any) -> str:
    if not isinstance(text, str):
        raise InputError("bad_row", path, "a document's text", row=row, field=field, found=text)
    return text


def _texts_from_pages(path: Path) -> dict[str, str]:
    try:
        table = pq.read_table(path, columns=list(PAGE_COLUMNS)).to_pylist()
    except FileNotFoundError:
        raise InputError("missing_file", path, "a file") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError("bad_parquet", path, f"pages with {', '.join(PAGE_COLUMNS)}", found=str(error)) from None
    pages: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for number, row in enumerate(table, 1):
        name = row.get("file_name")
        if not isinstance(name, str) or not isinstance(row.get("page"), int):
            raise InputError("bad_row", path, f"pages with {', '.join(PAGE_COLUMNS)}", row=number, found=row)
        pages[name].append((row["page"], _check_text(path, number, "text", row.get("text"))))
    return {name: PAGE_BREAK.join(text for _, text in sorted(own)) for name, own in pages.items()}
