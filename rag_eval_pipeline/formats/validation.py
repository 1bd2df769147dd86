"""Validate files: `rag-eval validate` and the pipeline's checks.

A file is recognised by its name, Evret's by its content. Everything found comes back as findings or lines; bad content
raises nothing.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Literal, Self

import pydantic

from rag_eval_pipeline.errors import InputError, excerpt
from rag_eval_pipeline.formats.dataset import (
    DATASET_ENDINGS,
    EvaluationDataset,
    EvaluationQuery,
    ReadDataset,
    SourceDocument,
    dataset_findings,
    has_key,
    parse_evaluation_dataset,
    parse_evret_dataset,
)
from rag_eval_pipeline.formats.evret import is_evret_csv
from rag_eval_pipeline.formats.ground_truth import GROUND_TRUTH_ENDINGS, Annotation, GroundTruth, read_annotation_file
from rag_eval_pipeline.formats.model import FileModel, Finding, finding, listed, model_findings, parse_file
from rag_eval_pipeline.formats.results import (
    AB_TEST,
    NOT_STATED,
    RESULTS_ENDINGS,
    WEEKLY,
    EvaluationResults,
    open_results,
)
from rag_eval_pipeline.formats.row_files import RowFile
from rag_eval_pipeline.formats.train_json import check_train_json
from rag_eval_pipeline.storage.csv_tables import CSV, read_csv_table
from rag_eval_pipeline.storage.json_files import JSON, checked_json, parse_json, read_json_bytes

BENCHMARK = ".benchmark.json"
SPECIFIED = (*DATASET_ENDINGS, *GROUND_TRUTH_ENDINGS, *RESULTS_ENDINGS)  # how names of the specifications' files end
KNOWN = (
    "train.json, *.eval.json, *.gt.json, *.results.json (or .json.gz, .yaml, .eval.csv), *.benchmark.json, or Evret's "
    "JSON or CSV"
)


def examine(path: Path, *, corpus: Path | None = None) -> list[Finding]:
    """Return everything found in a file: errors, warnings, and what was not checked.

    Args:
        corpus: Documents in which references are looked up; without it, a dataset's inline documents, and for
            `train.json` the folder `corpus` beside it.
    """
    name = path.name
    check: Callable[[], list[Finding]]
    if name == "train.json":
        check = partial(check_train_json, path, corpus=corpus)
    elif name.endswith(DATASET_ENDINGS):
        check = partial(_dataset, path, corpus)
    elif name.endswith(GROUND_TRUTH_ENDINGS):
        check = partial(_ground_truth, path)
    elif name.endswith(BENCHMARK) or (name.endswith(RESULTS_ENDINGS) and name.startswith((WEEKLY, AB_TEST))):
        check = partial(_summary, path)
    elif name.endswith(RESULTS_ENDINGS):
        check = partial(_results, path)
    elif name.endswith(JSON + CSV) and not name.endswith(RESULTS_ENDINGS):
        check = partial(_by_content, path, corpus)
    else:
        raise InputError("unknown_form", path, KNOWN)
    return _guarded(check)


def schema_version_of(path: Path) -> str | None:
    """Return type and schema version of a valid file for people; None for train.json, CSV and Evret's, without one."""
    types: tuple[tuple[tuple[str, ...], type[FileModel]], ...] = (
        (DATASET_ENDINGS, EvaluationDataset),
        (GROUND_TRUTH_ENDINGS, GroundTruth),
        (RESULTS_ENDINGS, EvaluationResults),
    )
    model = next((model for endings, model in types if path.name.endswith(endings)), None)
    return None if model is None or path.name.endswith(CSV) else f"{model.file_type} {model.current_version}"


def _guarded(check: Callable[[], list[Finding]]) -> list[Finding]:
    """Return what a check finds; a file that cannot be read at all is one finding."""
    try:
        return check()
    except InputError as error:
        if error.code in ("missing_file", "unknown_form"):
            raise
        return [Finding("error", error)]


def _by_content(path: Path, corpus: Path | None) -> list[Finding]:
    """Check a JSON or CSV file of no known name: an evaluation dataset or Evret's."""
    if path.name.endswith(CSV):
        columns = read_csv_table(path).columns
        is_dataset, is_evret = "dataset_id" in columns, is_evret_csv(columns)
    else:
        text = read_json_bytes(path)
        is_evret = has_key(text, "queries")
        is_dataset = is_evret and has_key(text, "dataset_id")
    if is_dataset:
        return _dataset(path, corpus)
    if not is_evret:
        raise InputError("unknown_form", path, KNOWN, hint="Its content is none of them either.")
    return _dataset(path, corpus, parse=parse_evret_dataset)


def _dataset(
    path: Path, corpus: Path | None, *, parse: Callable[[Path], ReadDataset] = parse_evaluation_dataset
) -> list[Finding]:
    try:
        dataset, findings = parse(path)
    except pydantic.ValidationError as error:
        return dataset_findings(path, error)
    return [*findings, *check_dataset(dataset, path, corpus=corpus)]


def _ground_truth(path: Path) -> list[Finding]:
    findings: list[Finding] = []
    counts = _annotation_ids(path)
    if counts is None:
        file = read_annotation_file(path)
        findings = [Finding("error", error) for error in file.errors]
        counts = Counter((one.annotator_id, one.annotation_id) for one in file.truth.annotations)
    for (annotator, annotation), count in counts.items():
        if count > 1:
            expected = f"ids that an annotator uses once, but {excerpt(annotator)} has this one {count} times"
            findings.append(
                finding("error", "duplicate_id", path, expected, field="annotations.annotation_id", found=annotation)
            )
    return findings


def _annotation_ids(path: Path) -> Counter[tuple[str, str]] | None:
    """Count the ids of a file that has no fault and the layout that a conversion writes; None for any other file."""
    if not path.name.endswith(".json"):
        return None
    reader: pydantic.TypeAdapter[Annotation] = pydantic.TypeAdapter(Annotation)
    rows = RowFile.open(path, "annotations", lambda row: reader.validate_json(checked_json(row, path)))
    try:
        if rows is None:
            return None
        GroundTruth.model_validate_json(checked_json(rows.rest, path))
        return Counter((one.annotator_id, one.annotation_id) for one in rows)
    except (pydantic.ValidationError, InputError):
        return None


def _results(path: Path) -> list[Finding]:
    """Check a results file; its counts must agree with its rows."""
    try:
        try:
            results, given = open_results(path)
            ids = Counter(row.query_id for row in given)
        except InputError:  # which names the first error only
            results = parse_file(EvaluationResults, path)
            ids = Counter(row.query_id for row in results.query_results)
    except pydantic.ValidationError as error:
        return model_findings(path, error)
    summary, rows = results.summary, ids.total()
    # Other tools may list some of their questions only.
    severity: Literal["error", "warning"] = "warning" if results.fingerprints.metrics == NOT_STATED else "error"
    findings = []
    if summary.total_queries != rows:
        expected = f"the number of query_results, {rows}"
        findings.append(
            finding(severity, "counts", path, expected, field="summary.total_queries", found=summary.total_queries)
        )
    if summary.successful_queries + summary.failed_queries != summary.total_queries:
        expected = f"with failed_queries, {summary.failed_queries}, the sum total_queries, {summary.total_queries}"
        found = summary.successful_queries
        findings.append(finding("error", "counts", path, expected, field="summary.successful_queries", found=found))
    repeated = [query for query, count in ids.items() if count > 1]
    findings += [
        finding("error", "duplicate_id", path, "each query once", field="query_results.query_id", found=query)
        for query in repeated
    ]
    return findings


def _summary(path: Path) -> list[Finding]:
    """Check the results of several evaluations, or the history of a benchmark: of each only what all must have."""
    needed = ("benchmark", "entries") if path.name.endswith(BENCHMARK) else ("evaluation_id", "retrieval_metrics")
    value = parse_json(read_json_bytes(path), path)
    known = value if isinstance(value, dict) else {}
    return [finding("error", "bad_format", path, "this field", field=name) for name in needed if name not in known]


_LANGUAGE = re.compile(r"[a-z]{2}")

# Extensions that a name may leave out; `Smith_v._Jones` has none of them and stays whole.
EXTENSIONS = frozenset({
    "pdf", "docx", "pptx", "jpg", "jpeg", "png", "tiff", "tif", "bmp", "txt", "html", "htm", "mp3", "wav", "mp4",
    "md", "markdown", "json", "csv", "xml", "rtf", "doc",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class RegisteredDocument:
    """A document and its names: id, file name (the id without a file), path with `/`, and title."""

    document_id: str
    basename: str
    path: str | None = None
    title: str | None = None


_Named = defaultdict[str, list[RegisteredDocument]]


class DocumentRegistry:
    """The documents of a corpus, found by any of their names.

    A dataset names `doc_001`, a citation `project_tool.pdf`, a document `docs/project_tool.pdf`. A name means the
    document whose id it is, else whose file name, else whose path, else whose stem, else whose title. Case and every
    character count, composed or not; only a known extension at the very end may be left out.
    """

    def __init__(self, documents: Iterable[RegisteredDocument]) -> None:
        kinds: tuple[_Named, ...] = tuple(defaultdict(list) for _ in range(5))
        by_id, by_basename, by_path, self._by_stem, self._by_title = kinds
        for document in documents:
            by_id[_composed(document.document_id)].append(document)
            by_basename[_composed(document.basename)].append(document)
            if document.path is not None:
                by_path[_composed(document.path)].append(document)
            for stem in {without_extension(document.document_id), without_extension(document.basename)}:
                self._by_stem[_composed(stem)].append(document)
            if document.title:
                self._by_title[_composed(document.title)].append(document)
        self._by_name = {**by_path, **by_basename, **by_id}

    @classmethod
    def from_documents(cls, documents: Iterable[SourceDocument]) -> Self:
        """Return the registry of a dataset's inline documents."""
        return cls(
            RegisteredDocument(
                document_id=document.document_id,
                basename=PurePosixPath(document.file_path).name if document.file_path else document.document_id,
                path=document.file_path,
                title=document.title,
            )
            for document in documents
        )

    @classmethod
    def from_folder(cls, corpus: Path) -> Self:
        """Return the registry of the files in a folder and its subfolders; the id of each is its exact file name."""
        # Also those that begin with a dot: `https://host/.well-known` is the document `.well-known.pdf`.
        files = sorted(file for file in corpus.rglob("*") if file.is_file() and not file.is_symlink())
        return cls(
            RegisteredDocument(document_id=file.name, basename=file.name, path=file.relative_to(corpus).as_posix())
            for file in files
        )

    def candidates(self, name: str) -> tuple[RegisteredDocument, ...]:
        """Return the documents that a name can mean: several if it is ambiguous, none if it is unknown."""
        name = _composed(name)
        stem = without_extension(name)
        return tuple(self._by_name.get(name) or self._by_stem.get(stem) or self._by_title.get(name) or ())

    def resolve(self, name: str) -> RegisteredDocument | None:
        """Return the document that a name means; None if it is unknown or ambiguous."""
        found = self.candidates(name)
        return found[0] if len(found) == 1 else None


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def without_extension(name: str) -> str:
    """Return the name without a known extension at its end: `report` of `report.pdf`, `a.pdf` of `a.pdf.txt`."""
    stem, dot, extension = name.rpartition(".")
    return stem if dot and stem and extension.lower() in EXTENSIONS else name


def check_dataset(dataset: EvaluationDataset, path: Path, *, corpus: Path | None = None) -> list[Finding]:
    """Return what is wrong or doubtful in a dataset."""
    if corpus is not None:
        registry: DocumentRegistry | None = DocumentRegistry.from_folder(corpus)
    elif dataset.documents is not None:
        registry = DocumentRegistry.from_documents(dataset.documents)
    else:
        registry = None
    findings = [*_header(dataset, path)]
    named = any(query.relevant_documents or query.citations for query in dataset.queries)
    if registry is None and named:
        expected = "inline documents or a corpus, to resolve references; without, they are not checked"
        findings.append(finding("info", "references_unchecked", path, expected))
    for number, query in enumerate(dataset.queries):
        place = f"queries[{number}]"
        if not query.query_text.strip():
            findings.append(
                finding("error", "empty_question", path, "the question's text", field=f"{place}.query_text")
            )
        if registry is not None:
            findings += _references(query, registry, path, place)
        findings += _citations(query, registry, path, place)
    findings += _spans(dataset, path, registry)
    return [*findings, *_labels(dataset.queries, path)]


def _header(dataset: EvaluationDataset, path: Path) -> Iterator[Finding]:
    size, language = dataset.metadata.size, dataset.metadata.language
    if not dataset.queries:
        yield finding("warning", "no_questions", path, "one question or more", field="queries")
    if size is not None and size != len(dataset.queries):
        expected = f"the number of queries, {len(dataset.queries)}"
        yield finding("warning", "wrong_size", path, expected, field="metadata.size", found=size)
    if language is not None and not _LANGUAGE.fullmatch(language):
        expected = "a language of two letters (ISO 639-1)"
        yield finding("warning", "bad_language", path, expected, field="metadata.language", found=language)


def _references(query: EvaluationQuery, registry: DocumentRegistry, path: Path, place: str) -> Iterator[Finding]:
    """Yield the documents that a query names and that do not exist, each once."""
    names = [(f"{place}.relevant_documents[{number}]", name) for number, name in enumerate(query.relevant_documents)]
    names += [(f"{place}.citations[{number}].file_name", c.file_name) for number, c in enumerate(query.citations)]
    seen: set[str] = set()
    for field, name in names:
        if name in seen:
            continue
        seen.add(name)
        candidates = registry.candidates(name)
        if not candidates:
            yield finding("error", "missing_document", path, "a document that is there", field=field, found=name)
        elif len(candidates) > 1:
            those = listed(document.path or document.document_id for document in candidates)
            expected = f"the name of one document, but {those} go by it"
            yield finding("error", "ambiguous_document", path, expected, field=field, found=name)


def _citations(query: EvaluationQuery, registry: DocumentRegistry | None, path: Path, place: str) -> Iterator[Finding]:
    """Yield cited documents that are not relevant, and relevant ones that are not cited although others are."""
    if not query.citations:
        return
    relevant = {_identity(name, registry): name for name in query.relevant_documents}
    cited = {_identity(citation.file_name, registry): citation.file_name for citation in query.citations}
    if stray := [name for key, name in cited.items() if key not in relevant]:
        expected = f"only relevant documents to be cited, but {listed(stray)} are not among them"
        yield finding("warning", "cited_not_relevant", path, expected, field=f"{place}.citations")
    if uncited := [name for key, name in relevant.items() if key not in cited]:
        expected = f"a citation in each relevant document, but {listed(uncited)} have none"
        yield finding("info", "relevant_not_cited", path, expected, field=f"{place}.citations")


def _identity(name: str, registry: DocumentRegistry | None) -> str:
    """Return what two names of one document have in common."""
    document = registry.resolve(name) if registry is not None else None
    return without_extension(name) if document is None else f"\0{document.document_id}"


def _spans(dataset: EvaluationDataset, path: Path, registry: DocumentRegistry | None) -> Iterator[Finding]:
    """Yield citations that end after the text of an inline document."""
    lengths = {document.document_id: len(document.content) for document in dataset.documents or ()}
    if registry is None or not lengths:
        return
    for number, query in enumerate(dataset.queries):
        for index, citation in enumerate(query.citations):
            document = registry.resolve(citation.file_name)
            length = None if document is None else lengths.get(document.document_id)
            if length is not None and citation.end_char > length:
                field = f"queries[{number}].citations[{index}].end_char"
                expected = f"at most {length}, the length of the document's content"
                yield finding("warning", "span_out_of_bounds", path, expected, field=field, found=citation.end_char)


def _labels(queries: Iterable[EvaluationQuery], path: Path) -> Iterator[Finding]:
    """Yield the questions whose retrieval cannot be scored."""
    unlabelled = [
        query.query_id
        for query in queries
        if not query.relevant_documents and not query.expected_answers and not query.is_impossible
    ]
    if unlabelled:
        expected = f"relevant documents or expected answers; retrieval is not scored for {listed(unlabelled)}"
        yield finding("warning", "unlabelled_query", path, expected, field="queries")
