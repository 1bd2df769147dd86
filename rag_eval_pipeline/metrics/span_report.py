"""`rag-eval spans`: gold against predicted citations of many questions, from files.

Citations are read from `.eval.`, `.gt.` and `.results.` files, or from rows of JSON Lines or JSON. A row is
`{query_id, citations: [{file_name, page_number, start_char, end_char}]}`, or `{query_id, answer}` with the citations in
the answer's text; other keys are ignored. `citations: []` means that nothing is to be cited, or that nothing was. Texts
are read from pages.parquet, JSON (file name -> text), JSON Lines (`{file_name, text}`), or a `.eval.` file that
contains its documents.

A question whose prediction is missing or failed has no score and lowers the coverage. One without gold spans is left
out. The specification's four totals are over gold spans, everything else is over questions.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
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
from rag_eval_pipeline.metrics.intervals import Scores, Summary, summarise_all
from rag_eval_pipeline.metrics.span_matching import (
    SPAN_COUNTS,
    SPAN_MEASURES,
    TOKEN_MEASURES,
    add_tokens,
    score_columns,
)
from rag_eval_pipeline.metrics.spans import (
    Citation,
    Span,
    TokenOffsets,
    count_out_of_bounds,
    number_files,
    to_columns,
)

SOURCE_ANNOTATOR = "source"  # of the spans that came with a benchmark
INCLUSIVE_HINT = "If end_char is the last character and not one past it, say so: --end-inclusive."
PAGE_BREAK = "\f"  # between two pages of a document's text
PAGE_COLUMNS = ("file_name", "page", "text")


class CitedQuestion(NamedTuple):
    """Citations of one question; the reason for None is `impossible`, `no_gold_spans` or the answer's status."""

    query_id: str
    citations: tuple[Citation, ...] | None
    reason: str | None = None


class ReadOptions(NamedTuple):
    """How to read a file of citations."""

    # File names of the documents. They decide where a name in an answer's text begins, and that `a` means `a.pdf`.
    known_files: Collection[str] = ()
    end_inclusive: bool = False  # `end_char` is the last character instead of one past it
    # Whose annotations of a `.gt.` file to read; None reads the benchmark's own, or the only annotator's.
    annotator: str | None = None

    def citation(self, file_name: str, page: int | None, start: int, end: int) -> Citation:
        """Make a citation, completing a file name without its suffix."""
        with_suffix = f"{file_name}.pdf"
        is_stem = file_name not in self.known_files and with_suffix in self.known_files
        return Citation(with_suffix if is_stem else file_name, page, Span(start, end))


def read_gold(path: Path, options: ReadOptions) -> dict[str, CitedQuestion]:
    """Read gold citations from a `.eval.` or `.gt.` file or from rows, by question, in the file's order."""
    if ".eval." in path.name:
        return _by_query(path, _from_dataset(EvaluationDataset.read(path), options))
    if ".gt." in path.name:
        truth = GroundTruth.read(path, dataset_id=path.name, end_inclusive=options.end_inclusive)
        return _by_query(path, _from_ground_truth(path, truth, options))
    _refuse(path, (".results.",), "gold citations: a .eval. or .gt. file, or rows")
    return _by_query(path, _from_rows(path, options))


def read_predicted(path: Path, options: ReadOptions) -> dict[str, CitedQuestion]:
    """Read a system's citations from a `.results.` file or from rows, by question, in the file's order."""
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
    """Read document texts by file name."""
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
    return {name: PAGE_BREAK.join(text for _, text in sorted(parts)) for name, parts in pages.items()}


QuestionScores = dict[str, float]


@dataclass(frozen=True, slots=True)
class SpanReport:
    """Scores of a file of predictions."""

    scores: Mapping[str, QuestionScores]  # question -> its scores by measure, in the order of the gold file
    # Question with gold spans -> why it has no prediction: `missing`, or the status of its answer.
    failed: Mapping[str, str]
    skipped: Mapping[str, str]  # question -> why it is left out: `impossible`, `no_gold_spans`, `nothing_to_cite`
    unknown: tuple[str, ...]  # predicted questions that are not in the gold file
    documents: tuple[str, ...] | None  # cited documents without a text; None if no texts were given
    out_of_bounds: int | None  # predicted spans that end after their document's text; None if no texts were given
    tolerance: int  # in characters

    def summaries(self) -> dict[str, Summary]:
        """Return the means over questions by measure, without counts."""
        names = [name for name in SPAN_MEASURES if name not in SPAN_COUNTS]
        if self.documents is not None:
            names += TOKEN_MEASURES
        found = {}
        for name in names:
            values = [scores[name] for scores in self.scores.values() if name in scores]
            skipped = len(self.skipped) + len(self.scores) - len(values)
            found[name] = Scores(values, failed=len(self.failed), skipped=skipped)
        return summarise_all(found)

    def span_accuracy(self) -> dict[str, float | int | None]:
        """Return the specification's four totals over all gold spans, and how many spans there are."""
        rows = list(self.scores.values())
        totals = {name: int(sum(row[name] for row in rows)) for name in SPAN_MEASURES if name in SPAN_COUNTS}
        n_gold = totals["true_spans"]

        def per_span(measure: str) -> float | None:
            return sum(row[measure] * row["true_spans"] for row in rows) / n_gold if n_gold else None

        return {
            "mean_exact_jaccard": per_span("exact_jaccard"),
            "mean_tolerance_jaccard": per_span("tolerance_jaccard"),
            **totals,
        }


def compare_spans(
    gold: Mapping[str, CitedQuestion],
    predicted: Mapping[str, CitedQuestion],
    *,
    tolerance: int,
    texts: Mapping[str, TokenOffsets] | None = None,
) -> SpanReport:
    """Score predicted citations against gold ones by question; words too, if tokens by file name are given."""
    failed: dict[str, str] = {}
    skipped: dict[str, str] = {}
    asked = []
    for query_id, wanted in gold.items():
        given = predicted.get(query_id)
        if wanted.citations is None:
            skipped[query_id] = wanted.reason or "no_gold_spans"
        elif given is None or given.citations is None:
            failed[query_id] = "missing" if given is None else given.reason or "error"
        elif not wanted.citations and not given.citations:
            skipped[query_id] = "nothing_to_cite"
        else:
            asked.append((query_id, wanted.citations, given.citations))
    sides = [wanted for _, wanted, _ in asked], [given for _, _, given in asked]
    files = number_files(*sides)
    expected, cited = (to_columns(side, files) for side in sides)
    scores = score_columns(expected, cited, len(asked), tolerance=tolerance)
    if texts is not None:
        scores = add_tokens(scores, expected, cited, files, texts)
    return SpanReport(
        scores=dict(zip((query_id for query_id, _, _ in asked), scores.rows(), strict=True)),
        failed=failed,
        skipped=skipped,
        unknown=tuple(query_id for query_id in predicted if query_id not in gold),
        documents=None if texts is None else tuple(name for name in files if name not in texts),
        out_of_bounds=None if texts is None else count_out_of_bounds(cited, files, texts),
        tolerance=tolerance,
    )


def report_lines(report: SpanReport, *, by_query: bool) -> Iterator[str]:
    """Yield the report as a table."""
    if by_query:
        for query_id, scores in report.scores.items():
            yield from (f"{name:24}\t{query_id}\t{value:.4f}" for name, value in scores.items())
    yield f"{'measure':24} {'mean':>7}  {'95 % interval':>16} {'n':>7} {'failed':>7} {'left out':>8}"
    for name, summary in report.summaries().items():
        counts = f"{summary.n_scored:>7} {summary.n_failed:>7} {summary.n_skipped:>8}"
        if summary.value is None:
            yield f"{name:24} {'-':>7}  {summary.reason or '':>16} {counts}"
            continue
        interval = summary.confidence_interval
        shown = "" if interval is None else f"{interval.low:.4f} to {interval.high:.4f}"
        yield f"{name:24} {summary.value:7.4f}  {shown:>16} {counts}"
    totals = report.span_accuracy()
    yield "over gold spans: " + ", ".join(
        f"{name} {value:.4f}" if isinstance(value, float) else f"{name} {'-' if value is None else value}"
        for name, value in totals.items()
    )


def notes(report: SpanReport) -> Iterator[str]:
    """Yield what a reader of the numbers has to know, one line each."""
    if report.failed:
        yield f"{len(report.failed)} questions have no prediction and no score: {_first(report.failed)}"
    if report.skipped:
        yield f"{len(report.skipped)} questions have nothing to score and are left out: {_first(report.skipped)}"
    if report.unknown:
        yield f"{len(report.unknown)} predicted questions are not in the gold file: {', '.join(report.unknown[:3])}"
    if report.documents:
        yield f"{len(report.documents)} cited documents have no text: {', '.join(report.documents[:3])}"
    if report.out_of_bounds:
        yield f"{report.out_of_bounds} predicted spans end after their document's text"


def to_json(report: SpanReport, *, by_query: bool) -> dict[str, Any]:
    """Return the report with every digit, and why questions have no score."""
    found: dict[str, Any] = {
        "tolerance_chars": report.tolerance,
        "questions": {
            "scored": len(report.scores),
            "failed": dict(report.failed),
            "skipped": dict(report.skipped),
            "unknown": list(report.unknown),
        },
        "measures": {name: asdict(summary) for name, summary in report.summaries().items()},
        "span_accuracy": report.span_accuracy(),
    }
    if report.documents is not None:
        found["documents"] = {"without_text": list(report.documents), "spans_out_of_bounds": report.out_of_bounds}
    if by_query:
        found["scores"] = dict(report.scores)
    return found


def _first(reasons: Mapping[str, str]) -> str:
    return ", ".join(f"{query_id} ({reason})" for query_id, reason in list(reasons.items())[:3])
