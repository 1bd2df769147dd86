"""Find the documents of gold texts that name none: test sets of ragas and others have only the text.

Questions remain with the documents that were found, and without those that are missing.

Documents that share most n-grams with a text are candidates, so that a text is not compared with every document. The
text then has to be located in one of them as any gold text is; if two have it equally well, it is given to neither.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rag_eval_pipeline.conversion.question_spool import (
    Missing,
    MissingDocuments,
    batch_of,
    iterate_batches,
    prefetch,
    questions_of,
)
from rag_eval_pipeline.conversion.questions import Question
from rag_eval_pipeline.conversion.stamp import Conversion
from rag_eval_pipeline.conversion.summaries import missing
from rag_eval_pipeline.corpus.documents import PlannedDocument
from rag_eval_pipeline.corpus.manifest import read_manifest
from rag_eval_pipeline.corpus.text.alignment import TextIndex, drop_citation_marks, fold
from rag_eval_pipeline.corpus.text.fuzzy_search import FUZZY_LENGTH_MIN
from rag_eval_pipeline.corpus.text.pages import Page, pages_by_document
from rag_eval_pipeline.errors import counted, excerpt, row_text
from rag_eval_pipeline.storage import parquet_files
from rag_eval_pipeline.storage.atomic_files import publishing

LENGTH_MIN = FUZZY_LENGTH_MIN  # folded characters; a shorter text is in several documents by chance
CANDIDATES = 4  # documents in which a text is located
VOTES_SHARE_MIN = 0.05  # of the best candidate's; a foreign document shares an n-gram here and there
MARGIN = 2.0  # by which the similarity of the best document has to exceed the next
LISTED = 10  # texts in the notes

_NGRAM = 12  # folded characters
_WINDOW = 6  # of consecutive n-grams, of which the one with the least hash is kept
_BASE, _MIX = np.uint64(1_000_003), np.uint64(0x9E3779B97F4A7C15)

ContextKey = tuple[int, int]  # question id, position among its contexts


class UnattributedText(NamedTuple):
    """A gold text that names no document."""

    place: ContextKey
    text: str
    row: str  # how messages name the question


class DocumentRef(NamedTuple):
    """The document of a gold text."""

    document: str  # `PlannedDocument.key`
    file_name: str


@dataclass(slots=True)
class SearchResult:
    """The result: documents by place, and the texts without one."""

    found: dict[ContextKey, DocumentRef] = field(default_factory=dict)
    ambiguous: list[tuple[UnattributedText, list[str]]] = field(default_factory=list)  # with the file names
    nowhere: list[UnattributedText] = field(default_factory=list)
    short: int = 0  # texts that were not looked for

    def counts(self) -> dict[str, int]:
        """Return the counts of a conversion step."""
        return {
            "texts_found": len(self.found),
            "texts_ambiguous": len(self.ambiguous),
            "texts_nowhere": len(self.nowhere),
            "texts_short": self.short,
        }

    def notes(self) -> list[str]:
        """Return a line on each text without a document, at most ten of a kind."""
        lines = [
            f"{bare.row}: the gold text {_shown(bare.text)} is in {counted(len(names), 'document')} "
            f"({', '.join(names)}), "
            "so it names none of them"
            for bare, names in self.ambiguous[:LISTED]
        ]
        lines += [f"{bare.row}: the gold text {_shown(bare.text)} is in no document" for bare in self.nowhere[:LISTED]]
        more = sum(max(0, len(texts) - LISTED) for texts in (self.ambiguous, self.nowhere))
        return [*lines, *([f"... and {counted(more, 'more such text')}"] if more else [])]


def bare_texts(questions: Iterable[Question]) -> Iterator[UnattributedText]:
    """Yield the gold texts that name no document."""
    for question in questions:
        row = f"id {question.id}"
        if question.source_row is not None:
            row = f"{question.source_file}, row {row_text(question.source_row, item=question.source_item)}"
        for position, context in enumerate(question.contexts):
            if context.document is None and context.text is not None:
                yield UnattributedText((question.id, position), context.text, row)


def find_documents(
    texts: Iterable[UnattributedText], planned: Sequence[PlannedDocument], pages: Sequence[Page]
) -> SearchResult:
    """Look for each gold text in all documents that have pages.

    Where several documents have a text, one that was found for another text of the same question is preferred.
    """
    by_name = {name: [page.text for page in own] for name, own in pages_by_document(pages).items()}
    documents: list[DocumentRef] = []
    for document in planned:  # one that has several file names is one document
        name = next((one.name for one in document.names if one.name in by_name), None)
        if name is not None:
            documents.append(DocumentRef(document.key, name))
    search = SearchResult()
    wanted = []
    for bare in texts:
        folded = drop_citation_marks(fold(bare.text)).text
        if len(folded) < LENGTH_MIN:
            search.short += 1
        else:
            wanted.append((bare, folded))
    if not wanted:
        return search
    index = _NgramDocuments([drop_citation_marks(fold("\n".join(by_name[d.file_name]))).text for d in documents])
    of_document: dict[int, list[int]] = defaultdict(list)
    for number, (_, folded) in enumerate(wanted):
        for candidate in index.candidates(folded):
            of_document[candidate].append(number)
    scores: list[dict[DocumentRef, float]] = [{} for _ in wanted]
    for candidate, numbers in sorted(of_document.items()):
        text = TextIndex(by_name[documents[candidate].file_name])
        for number in numbers:
            if located := text.locate(wanted[number][0].text):
                scores[number][documents[candidate]] = located[0].score
    best = [(bare, _best(score)) for (bare, _), score in zip(wanted, scores, strict=True)]
    certain: dict[int, set[DocumentRef]] = defaultdict(set)
    for bare, found in best:
        if len(found) == 1:
            certain[bare.place[0]].update(found)
    for bare, found in best:
        preferred = [one for one in found if one in certain[bare.place[0]]] or found
        if len(preferred) == 1:
            search.found[bare.place] = preferred[0]
        elif preferred:
            search.ambiguous.append((bare, sorted(one.file_name for one in preferred)))
        else:
            search.nowhere.append(bare)
    return search


def with_documents(
    batches: Iterable[pa.RecordBatch], found: Mapping[ContextKey, DocumentRef]
) -> Iterator[pa.RecordBatch]:
    """Yield the questions with the documents of their gold texts."""
    asked = {question for question, _ in found}
    for batch in batches:
        if asked.isdisjoint(batch.column("id").to_pylist() if asked else ()):
            yield batch
        else:
            yield batch_of([_with_documents(question, found) for question in questions_of(batch)])


def write_found(path: Path, found: Mapping[ContextKey, DocumentRef]) -> None:
    """Publish the documents of gold texts, one row each; there is no file for none."""
    if not found:
        path.unlink(missing_ok=True)
        return
    rows = [(*place, *document) for place, document in found.items()]
    names = ("question_id", "position", *DocumentRef._fields)
    kinds = (pa.int64(), pa.int64(), pa.string(), pa.string())
    arrays = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    with publishing(path) as file:
        pq.write_table(pa.table(arrays, names=list(names)), file)


def read_found(path: Path) -> dict[ContextKey, DocumentRef]:
    """Return the documents of gold texts that `write_found` published; none if there is no file."""
    rows = parquet_files.read_rows(path) if path.exists() else ()
    return {(row["question_id"], row["position"]): DocumentRef(row["document"], row["file_name"]) for row in rows}


def missing_documents(conversion: Conversion) -> MissingDocuments:
    """Return the documents that the corpus lacks, and what becomes of their questions."""
    absent = missing(read_manifest(conversion.paths.documents))
    reasons = {d.file_name: Missing(d.error_code or "missing_document", d.error or "") for d in absent}
    return MissingDocuments(reasons, conversion.spec.on_missing_document)


def remaining_questions(conversion: Conversion, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the questions of a conversion with the documents of their gold texts, without missing documents."""
    absent_documents = missing_documents(conversion)
    found = read_found(conversion.paths.gold_documents)
    chosen = None if absent_documents.missing or found else columns
    questions = with_documents(iterate_batches(conversion.paths.questions, chosen), found)
    return absent_documents.drop(prefetch(questions))


class _NgramDocuments:
    """Documents by the hashes of their n-grams, of which the least of any few in a row are kept."""

    def __init__(self, texts: Sequence[str]) -> None:
        hashes = [_minimizers(text) for text in texts]
        numbers = [np.full(len(own), number, np.int32) for number, own in enumerate(hashes)]
        everything = np.concatenate(hashes) if hashes else np.zeros(0, np.uint64)
        order = np.argsort(everything, kind="stable")
        self._hashes = everything[order]
        self._documents = np.concatenate(numbers)[order] if numbers else np.zeros(0, np.int32)

    def candidates(self, text: str) -> list[int]:
        """Return the documents that share most n-grams with a text; rare ones count more."""
        hashes = _minimizers(text)
        starts = np.searchsorted(self._hashes, hashes, "left")
        ends = np.searchsorted(self._hashes, hashes, "right")
        votes: Counter[int] = Counter()
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            for number in self._documents[start:end].tolist():
                votes[number] += 1 / (end - start)
        least = VOTES_SHARE_MIN * max(votes.values(), default=0)
        ranked = sorted(votes, key=lambda number: (-votes[number], number))
        return [number for number in ranked[:CANDIDATES] if votes[number] >= least]


def _minimizers(text: str) -> Any:
    """Return the distinct hashes of some n-grams: any two texts that share 17 characters share one.

    Source: Schleimer, Wilkerson and Aiken, Winnowing, 2003.
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    count = len(codes) - _NGRAM + 1
    if count < 1:
        return np.zeros(0, np.uint64)
    hashes = np.zeros(count, np.uint64)
    for offset in range(_NGRAM):
        hashes = hashes * _BASE + codes[offset : offset + count]
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _MIX
    hashes ^= hashes >> np.uint64(32)
    windows = max(1, count - _WINDOW + 1)
    least = hashes[:windows].copy()
    for offset in range(1, min(_WINDOW, count)):
        np.minimum(least, hashes[offset : offset + windows], out=least)
    return np.unique(least)


def _best(scores: Mapping[DocumentRef, float]) -> list[DocumentRef]:
    """Return the documents that have a text best: several if none of them is clearly better."""
    if not scores:
        return []
    most = max(scores.values())
    least = most if most == 100.0 else most - MARGIN  # an exact text is better than any similar one
    return [found for found, score in scores.items() if score >= least]


def _with_documents(question: Question, found: Mapping[ContextKey, DocumentRef]) -> Question:
    contexts = []
    for position, context in enumerate(question.contexts):
        place = found.get((question.id, position))
        if place is not None:
            context = msgspec.structs.replace(context, document=place.document, file_name=place.file_name)
        contexts.append(context)
    return msgspec.structs.replace(question, contexts=tuple(contexts))


def _shown(text: str) -> str:
    return excerpt(text if len(text) <= 60 else text[:60] + "…")
