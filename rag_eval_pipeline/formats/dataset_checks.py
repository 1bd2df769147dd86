"""Checks of an evaluation dataset that a schema cannot make: references, citations, labels, counts.

References are looked up where there is something to look them up in: the dataset's own documents, or a corpus.
Source: Evaluation Data Formats 5.1.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rag_eval_pipeline.formats.document_registry import DocumentRegistry, without_extension
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.formats.findings import Finding, finding, listed

_LANGUAGE = re.compile(r"[a-z]{2}")


def check_dataset(dataset: EvaluationDataset, path: Path, *, corpus: Path | None = None) -> list[Finding]:
    """What is wrong or doubtful in a dataset.

    Args:
        dataset: That was read.
        path: Of its file, for findings.
        corpus: A folder of documents; else the dataset's own are looked up, if it has some.
    """
    if corpus is not None:
        registry: DocumentRegistry | None = DocumentRegistry.of_folder(corpus)
    elif dataset.documents is not None:
        registry = DocumentRegistry.of_documents(dataset.documents)
    else:
        registry = None
    findings = [*_header(dataset, path)]
    named = any(query.relevant_documents or query.citations for query in dataset.queries)
    if registry is None and named:
        expected = "inline documents or a corpus, to look references up in; without, they are not checked"
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
    """Documents that the query names and nobody has, each once."""
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
    """Cited documents that are not relevant, and relevant ones that are not cited though others are.

    The first contradict the labels; the second may be complete without a citation.
    """
    if not query.citations:
        return
    relevant = {_meant(name, registry): name for name in query.relevant_documents}
    cited = {_meant(citation.file_name, registry): citation.file_name for citation in query.citations}
    if stray := [name for key, name in cited.items() if key not in relevant]:
        expected = f"only relevant documents to be cited, but {listed(stray)} are not among them"
        yield finding("warning", "cited_not_relevant", path, expected, field=f"{place}.citations")
    if uncited := [name for key, name in relevant.items() if key not in cited]:
        expected = f"a citation in each relevant document, but {listed(uncited)} have none"
        yield finding("info", "relevant_not_cited", path, expected, field=f"{place}.citations")


def _meant(name: str, registry: DocumentRegistry | None) -> str:
    """What two names of one document have in common."""
    document = registry.resolve(name) if registry is not None else None
    return without_extension(name) if document is None else f"\0{document.document_id}"


def _spans(dataset: EvaluationDataset, path: Path, registry: DocumentRegistry | None) -> Iterator[Finding]:
    """Citations that end behind the text of an inline document."""
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
    """Questions by which retrieval cannot be scored."""
    unlabelled = [
        query.query_id
        for query in queries
        if not query.relevant_documents and not query.expected_answers and not query.is_impossible
    ]
    if unlabelled:
        expected = f"relevant documents or expected answers; retrieval is not scored for {listed(unlabelled)}"
        yield finding("warning", "unlabelled_query", path, expected, field="queries")
