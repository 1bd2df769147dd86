"""Write the `.eval.json` of a benchmark from Arrow batches of its questions, and check it meanwhile."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pydantic

from rag_eval_pipeline.conversion.benchmark_spec import BenchmarkSpec
from rag_eval_pipeline.conversion.datasets import CITATION_FIELDS, GoldSpan, citation_fields, located_spans
from rag_eval_pipeline.conversion.question_spool import distinct_items, relevant_contexts
from rag_eval_pipeline.conversion.questions import DIFFICULTIES, QUERY_TYPES
from rag_eval_pipeline.formats.citation_marks import CitationSpan
from rag_eval_pipeline.formats.dataset import (
    CONVERTED_METADATA,
    DatasetMetadata,
    EvaluationDataset,
    EvaluationQuery,
    SourceDocument,
)
from rag_eval_pipeline.storage.json_rows import INDENT, JsonText, join, lists, objects, texts, write_rows

QUERY_DEPTH = 2  # an array under the key `queries`
_END_OF_QUERY = b"\n" + INDENT.encode() * QUERY_DEPTH + b"}"
# What a query is made of; gold texts are most of a large file and no part of it.
QUERY_COLUMNS = (
    *("id", "question", "answer", "answers", "is_impossible", "source_id", "query_type", "difficulty", "metadata"),
    *(f"contexts.list.element.{name}" for name in ("document", "file_name", "relevance")),
)


def query_rows(batch: pa.RecordBatch, spans: Mapping[int, Sequence[GoldSpan]]) -> dict[str, JsonText]:
    """Return the members of the queries of an `.eval.json`; `spans` are located gold texts by question id."""
    below = QUERY_DEPTH + 1
    answer, impossible = batch.column("answer"), batch.column("is_impossible")
    answered = pc.and_not(pc.not_equal(answer, ""), impossible)
    contexts = relevant_contexts(batch)
    names = contexts.flatten().field("file_name").dictionary_encode()
    places, counts = distinct_items(contexts, names)
    offsets = pa.array(np.append(0, np.cumsum(counts)), pa.int32())
    relevant = pa.ListArray.from_arrays(offsets, names.indices.take(places))
    return {
        "query_id": texts(batch.column("id").cast(pa.string())),
        "query_text": texts(batch.column("question")),
        "relevant_documents": lists(relevant, [join(texts(names.dictionary)).take(relevant.values)], below),
        "query_type": texts(batch.column("query_type")),
        "difficulty": texts(batch.column("difficulty")),
        "ground_truth_answer": texts(pc.if_else(answered, answer, pa.scalar(None, pa.string()))),
        "citations": _citations(batch.column("id"), spans, below),
        "metadata": _metadata(batch, below),
    }


def _citations(ids: pa.Array, spans: Mapping[int, Sequence[GoldSpan]], depth: int) -> JsonText:
    own = [spans.get(number, ()) for number in ids.to_pylist()] if spans else []
    flat = [span for row in own for span in row]
    if not flat:
        return ["[]"]
    columns = {key: texts(pa.array([getattr(span, name) for span in flat])) for key, name in CITATION_FIELDS.items()}
    columns["confidence_score"] = [pa.array([json.dumps(span.score / 100) for span in flat])]
    columns["context_text"] = texts(pa.array([span.text for span in flat]))
    written = objects(columns, depth + 1)
    return lists(pa.array([[0] * len(row) for row in own], pa.list_(pa.int8())), written, depth)


def _metadata(batch: pa.RecordBatch, depth: int) -> JsonText:
    """Return the source's own columns, then those that mean something here."""
    contexts, gold = batch.column("contexts"), relevant_contexts(batch)
    items = contexts.flatten()
    documents = gold.flatten().field("document").dictionary_encode()
    members = {
        "is_impossible": texts(batch.column("is_impossible")),
        "answers": texts(batch.column("answers"), depth + 1),
        "hops": texts(pa.array(distinct_items(gold, documents)[1], pa.int64())),
        "source_id": texts(batch.column("source_id")),
    }
    if items.field("relevance").null_count < len(items):
        grades = [_grades(row, depth + 1) for row in contexts.to_pylist()]
        members["relevance"] = [pa.array([grade or None for grade in grades], pa.string())]
    ours = objects(members, depth)
    own = batch.column("metadata")
    if pc.all(pc.equal(own, "{}")).as_py():
        return ours
    theirs = pa.array([_own_members(text, depth) for text in own.to_pylist()], pa.string())
    start = "{\n" + INDENT * (depth + 1)
    written = join(ours)
    both = pc.binary_join_element_wise(start, theirs, ",", pc.utf8_slice_codeunits(written, 1), "")
    return [pc.if_else(theirs.is_valid(), both, written)]


def _grades(contexts: Sequence[Mapping[str, Any]], depth: int) -> str:
    """Return the best grade of each file as JSON text; "" where the source has none."""
    graded: dict[str, int] = {}
    for context in contexts:
        name, grade = context["file_name"], context["relevance"]
        if name and grade is not None:
            graded[name] = max(grade, graded.get(name, grade))
    return _indented(graded, depth) if graded else ""


def _own_members(metadata: str, depth: int) -> str | None:
    values = json.loads(metadata)
    named = {f"source_{name}" if name in CONVERTED_METADATA else name: value for name, value in values.items()}
    return _indented(named, depth).removeprefix("{").removesuffix("}").strip("\n ") if named else None


def _indented(value: Mapping[str, object], depth: int) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + INDENT * depth)


def dataset_head(spec: BenchmarkSpec, *, size: int, characters: int) -> EvaluationDataset:
    """Return an evaluation dataset without queries; `created_at` is the source's day of release, never the clock.

    `characters` are the code points of all questions together.
    """
    return EvaluationDataset(
        dataset_id=spec.name,
        name=spec.title or spec.name,
        version=spec.version,
        description=spec.description,
        created_at=None if spec.released is None else datetime.combine(spec.released, time(), UTC),
        metadata=DatasetMetadata(
            domain=spec.domain,
            language=spec.language,
            size=size,
            avg_query_length=round(characters / size, 2) if size else None,
            source=spec.title or spec.name,
        ),
        queries=(),
    )


def write_evaluation_dataset(
    path: Path,
    head: EvaluationDataset,
    batches: Iterable[pa.RecordBatch],
    spans: Iterable[GoldSpan],
    documents: Sequence[SourceDocument] = (),
) -> list[str]:
    """Publish an `.eval.json` and return the faults that a check of it found.

    `head` is the dataset without its queries; the questions have no missing documents. Spans are in their order.
    """
    located: dict[int, list[GoldSpan]] = {}  # of the batches that are being written
    # The key `queries` is followed by `documents` or by nothing.
    whole = head.model_copy(update={"documents": tuple(documents) or None})
    before, array, after = whole.model_dump_json(indent=2, exclude_none=True).partition('"queries": []')
    assert array
    check = QueryCheck()

    def render(batch: pa.RecordBatch) -> dict[str, JsonText]:
        ids = batch.column("id").to_pylist() if located else []
        return query_rows(batch, {number: located.pop(number) for number in ids if number in located})

    write_rows(
        path,
        _with_spans(check.check_batches(filter(len, batches)), check.check_spans(spans), located),
        render,
        depth=QUERY_DEPTH,
        head=(before + '"queries": ').encode(),
        tail=after.encode() + b"\n",
        check=check.check_text,
    )
    return check.findings


class QueryCheck:
    """Checks an `.eval.json` while it is written, as strictly as `EvaluationQuery`; ids have to ascend.

    A million models would take longer than all the rest. Values are checked by column, and all that is written has to
    be JSON. The keys are equal in all queries: those of the first of each batch are checked by the model.
    """

    def __init__(self) -> None:
        self.findings: list[str] = []
        self._json = msgspec.json.Decoder(msgspec.Raw)
        self._last_id = -1

    def check_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches as they are."""
        for batch in batches:
            ids, contexts = batch.column("id"), batch.column("contexts")
            nameless = pc.list_parent_indices(contexts).filter(pc.equal(contexts.flatten().field("file_name"), ""))
            before = pa.array(np.append(self._last_id, ids.to_numpy()[:-1]))
            self._last_id = ids[-1].as_py()
            wrong = {
                "an id above the one before [query_order]": pc.less_equal(ids, before),
                "a question [bad_format]": pc.equal(batch.column("question").fill_null(""), ""),
                "names of documents [bad_format]": pc.is_in(pa.array(np.arange(len(ids))), nameless.cast(pa.int64())),
            }
            for name, known in (("query_type", QUERY_TYPES), ("difficulty", DIFFICULTIES)):
                words, one_of = batch.column(name), ", ".join(sorted(known))
                unknown = pc.and_not(words.is_valid(), pc.is_in(words, pa.array(sorted(known))))
                wrong[f"a {name} of {one_of} [bad_format]"] = unknown
            for expected, rows in wrong.items():
                if rows.true_count:
                    self.findings.append(f"query {ids.filter(rows)[0]}: expected {expected}")
            yield batch

    def check_spans(self, spans: Iterable[GoldSpan]) -> Iterator[GoldSpan]:
        """Yield the spans as they are."""
        for span in spans:
            try:
                if span.method is not None:
                    CitationSpan.model_validate({**citation_fields(span), "confidence_score": span.score / 100})
                    if not span.file_name:
                        self.findings.append(f"query {span.question_id}: expected the name of a file [bad_citation]")
            except pydantic.ValidationError as error:
                self.findings.append(f"query {span.question_id}: {error.errors()[0]['msg']} [bad_citation]")
            yield span

    def check_text(self, rows: memoryview) -> None:
        """Check the bytes of consecutive queries, with commas between them."""
        text = b"".join((b"[", rows, b"]"))
        try:
            self._json.decode(text)
            EvaluationQuery.model_validate_json(text[1 : text.find(_END_OF_QUERY) + len(_END_OF_QUERY)], strict=True)
        except msgspec.DecodeError as error:
            self.findings.append(f"a query up to id {self._last_id}: {error} [bad_json]")
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            self.findings.append(f"a query up to id {self._last_id}: {place}: {first['msg']} [bad_format]")


def _with_spans(
    batches: Iterable[pa.RecordBatch], spans: Iterable[GoldSpan], located: dict[int, list[GoldSpan]]
) -> Iterator[pa.RecordBatch]:
    pending = located_spans(spans)
    following = next(pending, None)
    for batch in batches:
        while following is not None and following[0] <= batch.column("id")[-1].as_py():
            located[following[0]] = following[1]
            following = next(pending, None)
        yield batch
