"""`rag-eval spans`: gold against predicted citations of many questions, from files.

Citations are read from `.eval.`, `.gt.` and `.results.` files, or from rows as JSON Lines or JSON. A question whose
prediction is missing or failed has no score and lowers the coverage; one without gold spans is left out.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rag_eval_pipeline.corpus.document_names import DocumentNames
from rag_eval_pipeline.corpus.naming import SUFFIX
from rag_eval_pipeline.corpus.text.pages import PAGE_BREAK
from rag_eval_pipeline.errors import InputError, counted
from rag_eval_pipeline.formats.citation_marks import parse_citations
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.metrics.intervals import Scores, Summary, summarise_all
from rag_eval_pipeline.metrics.span_matching import SPAN_COUNTS, SPAN_MEASURES, TOKEN_MEASURES, score_spans
from rag_eval_pipeline.metrics.spans import Citation, Span, TokenOffsets
from rag_eval_pipeline.storage.json_files import BYTE_ORDER_MARK, checked_json, read_json_bytes, read_plain_bytes

SOURCE_ANNOTATOR = "source"  # of the spans that came with a benchmark
INCLUSIVE_HINT = "If end_char is the last character and not one past it, use --end-inclusive."
PAGES = pa.schema([("file_name", pa.string()), ("page", pa.int64()), ("text", pa.large_string())])


class CitedQuestion(NamedTuple):
    """Citations of one question; the reason for None is `impossible`, `no_gold_spans` or the answer's status."""

    query_id: str
    citations: tuple[Citation, ...] | None
    reason: str | None = None


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file of citations."""

    # File names of the documents. They decide where a name in an answer's text begins, and which document it means.
    known_files: Collection[str] = ()
    end_inclusive: bool = False  # `end_char` is the last character instead of one past it
    # Whose annotations of a `.gt.` file to read; None reads the benchmark's own, or the only annotator's.
    annotator: str | None = None

    @cached_property
    def _names(self) -> DocumentNames:
        stems = {name.removesuffix(SUFFIX): name for name in self.known_files}
        return DocumentNames(stems | {name: name for name in self.known_files})

    def citation(self, file_name: str, page: int | None, start: int, end: int) -> Citation:
        """Make a citation of the document that a name means."""
        return Citation(self._names.find(file_name) or file_name, page, Span(start, end))


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


def _by_query(path: Path, questions: Iterable[CitedQuestion]) -> dict[str, CitedQuestion]:
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
        if query.status == "ok":
            yield CitedQuestion(query.query_id, tuple(_convert(span, options) for span in query.citations))
        else:
            yield CitedQuestion(query.query_id, None, query.status)


def _convert(span: Any, options: ReadOptions) -> Citation:
    return options.citation(span.file_name, span.page_number, span.start_char, span.end_char + options.end_inclusive)


def _from_ground_truth(path: Path, truth: GroundTruth, options: ReadOptions) -> Iterator[CitedQuestion]:
    annotators = sorted({annotation.annotator_id for annotation in truth.citation_annotations})
    names = ", ".join(annotators)
    chosen = options.annotator or (SOURCE_ANNOTATOR if SOURCE_ANNOTATOR in annotators else None)
    if chosen is None and len(annotators) > 1:
        expected, hint = f"one annotator, or one called {SOURCE_ANNOTATOR}", "Name one: --annotator NAME."
        raise InputError("several_annotators", path, expected, found=names, hint=hint)
    if chosen is not None and chosen not in annotators:
        raise InputError("unknown_annotator", path, f"one of {names or 'none'}", found=chosen)
    read = replace(options, end_inclusive=False)  # GroundTruth.read has already made the ends exclusive
    for annotation in truth.citation_annotations:
        if chosen in (None, annotation.annotator_id):
            yield CitedQuestion(annotation.query_id, tuple(_convert(span, read) for span in annotation.citations))


class _Place(msgspec.Struct):
    file_name: Annotated[str, msgspec.Meta(min_length=1)]
    start_char: Annotated[int, msgspec.Meta(ge=0)]
    end_char: Annotated[int, msgspec.Meta(ge=0)]
    page_number: Annotated[int, msgspec.Meta(ge=1)] | None = None


class _Row(msgspec.Struct):
    """A question's citations, or its answer with citations in the text; other keys are ignored."""

    query_id: Annotated[str, msgspec.Meta(min_length=1)] | int
    citations: list[_Place] | None = None
    citation_spans: list[_Place] | None = None  # the specification's other name
    answer: str | None = None


def _from_rows(path: Path, options: ReadOptions) -> Iterator[CitedQuestion]:
    for number, line in _read_lines(path):
        try:
            row = msgspec.json.decode(line, type=_Row)
        except msgspec.ValidationError as error:
            reason, _, place = str(error).partition(" - at `$")
            field = place.strip(".`") or None
            raise InputError(
                "bad_row", path, "query_id with citations", row=number, field=field, found=reason
            ) from None
        places = row.citation_spans if row.citations is None else row.citations
        if places is None and row.answer is None:
            expected = "citations, or an answer with citations in its text"
            raise InputError("bad_row", path, expected, row=number, field="citations")
        if places is None:
            found = parse_citations(row.answer or "", options.known_files)
            citations = tuple(_convert(span, options) for span in found)
        else:
            citations = tuple(_check_place(path, number, i, place, options) for i, place in enumerate(places))
        yield CitedQuestion(str(row.query_id), citations)


def _check_place(path: Path, row: int, index: int, place: _Place, options: ReadOptions) -> Citation:
    end = place.end_char + options.end_inclusive
    if end <= place.start_char:
        expected, field = f"more than start_char ({place.start_char})", f"citations[{index}].end_char"
        raise InputError("empty_span", path, expected, row=row, field=field, found=place.end_char, hint=INCLUSIVE_HINT)
    return options.citation(place.file_name, place.page_number, place.start_char, end)


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the rows of JSON Lines or of a JSON array with their 1-based number."""
    data = read_plain_bytes(path).removeprefix(BYTE_ORDER_MARK)
    if data.lstrip().startswith(b"["):
        yield from enumerate(map(bytes, msgspec.json.decode(checked_json(data, path), type=list[msgspec.Raw])), 1)
        return
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                yield number, checked_json(line, path)
            except InputError as error:  # its row counts the lines of this line alone
                error.file, error.row = str(path), number
                error.hint = "One JSON object per line; otherwise name the file .eval.json, .gt.json or .results.json."
                raise


def read_texts(path: Path) -> dict[str, str]:
    """Read document texts by file name from pages.parquet, JSON, or a `.eval.` file that contains its documents."""
    if path.suffix == ".parquet":
        return _texts_from_pages(path)
    if ".eval." in path.name:
        documents = EvaluationDataset.read(path).documents
        if documents is None:
            raise InputError("no_documents", path, "documents with their content", hint="Name pages.parquet instead.")
        return {document.document_id: document.content for document in documents}
    try:
        return msgspec.json.decode(read_json_bytes(path), type=dict[str, str])
    except msgspec.ValidationError as error:
        raise InputError("bad_row", path, "file name -> text", found=str(error)) from None


def _texts_from_pages(path: Path) -> dict[str, str]:
    try:
        table = pq.read_table(path, columns=PAGES.names).select(PAGES.names).cast(PAGES)
    except FileNotFoundError:
        raise InputError("missing_file", path, "a file") from None
    except (pa.ArrowException, KeyError, OSError) as error:
        raise InputError("bad_parquet", path, f"pages with {', '.join(PAGES.names)}", found=str(error)) from None
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for row in table.sort_by([("page", "ascending")]).to_pylist():
        texts[row["file_name"]].append(row["text"])
    return {name: PAGE_BREAK.join(pages) for name, pages in texts.items()}


@dataclass(frozen=True, slots=True)
class SpanReport:
    """Scores of a file of predictions."""

    scores: Mapping[str, dict[str, float]]  # question -> its scores by measure, in the order of the gold file
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
        rows = self.scores.values()
        totals = {name: int(sum(row[name] for row in rows)) for name in SPAN_MEASURES if name in SPAN_COUNTS}
        n_gold = totals["true_spans"]
        means = {
            f"mean_{name}": sum(row[name] * row["true_spans"] for row in rows) / n_gold if n_gold else None
            for name in ("exact_jaccard", "tolerance_jaccard")
        }
        return {**means, **totals}


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
    asked: dict[str, tuple[tuple[Citation, ...], tuple[Citation, ...]]] = {}
    for query_id, wanted in gold.items():
        given = predicted.get(query_id)
        if wanted.citations is None:
            skipped[query_id] = wanted.reason or "no_gold_spans"
        elif given is None or given.citations is None:
            failed[query_id] = "missing" if given is None else given.reason or "error"
        elif not wanted.citations and not given.citations:
            skipped[query_id] = "nothing_to_cite"
        else:
            asked[query_id] = wanted.citations, given.citations
    sides = [wanted for wanted, _ in asked.values()], [given for _, given in asked.values()]
    rows = score_spans(*sides, tolerance=tolerance, texts=texts).rows()
    documents = out_of_bounds = None
    if texts is not None:
        cited = {citation.file_name for side in sides for citations in side for citation in citations}
        documents = tuple(sorted(cited - texts.keys()))
        out_of_bounds = sum(
            citation.file_name in texts and citation.span.end > texts[citation.file_name].length
            for citations in sides[1]
            for citation in set(citations)
        )
    unknown = tuple(query_id for query_id in predicted if query_id not in gold)
    scores = dict(zip(asked, rows, strict=True))
    return SpanReport(scores, failed, skipped, unknown, documents, out_of_bounds, tolerance)


def report_lines(report: SpanReport, *, by_query: bool) -> Iterator[str]:
    """Yield the report as a table."""
    if by_query:
        for query_id, scores in report.scores.items():
            yield from (f"{name:24}\t{query_id}\t{value:.4f}" for name, value in scores.items())
    yield f"{'measure':24} {'mean':>7}  {'95 % interval':>16} {'n':>7} {'failed':>7} {'left out':>8}"
    for name, summary in report.summaries().items():
        value = "-" if summary.value is None else f"{summary.value:.4f}"
        interval = summary.confidence_interval
        shown = (summary.reason or "") if interval is None else f"{interval.low:.4f} to {interval.high:.4f}"
        counts = f"{summary.n_scored:>7} {summary.n_failed:>7} {summary.n_skipped:>8}"
        yield f"{name:24} {value:>7}  {shown:>16} {counts}"
    yield "over gold spans: " + ", ".join(
        f"{name} {value:.4f}" if isinstance(value, float) else f"{name} {'-' if value is None else value}"
        for name, value in report.span_accuracy().items()
    )


def notes(report: SpanReport) -> Iterator[str]:
    """Yield what a reader of the numbers has to know, one line each."""

    def count(found: Iterable[str], noun: str, text: str) -> Iterator[str]:
        names = list(found)
        if names:
            yield f"{counted(len(names), noun)} {text}: {', '.join(names[:3])}"

    failed = (f"{query_id} ({reason})" for query_id, reason in report.failed.items())
    skipped = (f"{query_id} ({reason})" for query_id, reason in report.skipped.items())
    yield from count(failed, "question", "without a prediction and without a score")
    yield from count(skipped, "question", "without anything to score, left out")
    yield from count(report.unknown, "predicted question", "not in the gold file")
    yield from count(report.documents or (), "cited document", "without text")
    if report.out_of_bounds:
        yield (
            f"{counted(report.out_of_bounds, 'predicted span ends', 'predicted spans end')} after their document's text"
        )


def to_json(report: SpanReport, *, by_query: bool) -> dict[str, Any]:
    """Return the report with every digit, and why questions have no score."""
    found: dict[str, Any] = {
        "tolerance_chars": report.tolerance,
        "questions": {
            "scored": len(report.scores),
            "failed": report.failed,
            "skipped": report.skipped,
            "unknown": list(report.unknown),
        },
        "measures": {name: asdict(summary) for name, summary in report.summaries().items()},
        "span_accuracy": report.span_accuracy(),
    }
    if report.documents is not None:
        found["documents"] = {"without_text": list(report.documents), "spans_out_of_bounds": report.out_of_bounds}
    if by_query:
        found["scores"] = report.scores
    return found
