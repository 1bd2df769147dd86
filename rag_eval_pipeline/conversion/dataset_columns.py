"""Questions as the rows of `train.json` and `.eval.json`: JSON text, made by the column."""

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa  # noqa: TID253  # this module exists to work on Arrow columns
import pyarrow.compute as pc  # noqa: TID253

from rag_eval_pipeline.conversion.gold_spans import GoldSpan
from rag_eval_pipeline.formats.json_columns import INDENT, lists, objects, texts

TRAIN_DEPTH = 1  # of a row in its file: a top-level array
QUERY_DEPTH = 2  # an array under the key `queries`

# What a query is made of; gold texts are most of a large file and no part of it.
QUERY_COLUMNS = (
    *("id", "question", "answer", "answers", "is_impossible", "source_id", "query_type", "difficulty", "metadata"),
    *(f"contexts.list.element.{name}" for name in ("document", "file_name", "relevance")),
)

# Keys of a query's metadata that mean something here; the source's own columns of these names give way to them.
RESERVED = frozenset({"is_impossible", "answers", "hops", "source_id", "relevance"})


def train_rows(batch: pa.RecordBatch) -> pa.Array:
    """Rows of `train.json`; gold texts without a document are plain strings.

    Args:
        batch: Columns of `questions.parquet`.
    """
    return objects(
        {
            "id": texts(batch.column("id")),
            **{name: texts(batch.column(name)) for name in ("question", "answer", "is_impossible")},
            "contexts": _train_contexts(batch.column("contexts")),
        },
        TRAIN_DEPTH,
    )


def query_rows(batch: pa.RecordBatch, spans: Mapping[int, Sequence[GoldSpan]]) -> pa.Array:
    """Queries of an `.eval.json`.

    Args:
        batch: Columns of `questions.parquet`.
        spans: Located gold texts by question id.
    """
    below = QUERY_DEPTH + 1
    answer, impossible = batch.column("answer"), batch.column("is_impossible")
    answered = pc.and_not(pc.not_equal(answer, ""), impossible)
    return objects(
        {
            "query_id": texts(batch.column("id").cast(pa.string())),
            "query_text": texts(batch.column("question")),
            "relevant_documents": texts(_relevant_documents(batch.column("contexts")), below),
            "query_type": texts(batch.column("query_type")),
            "difficulty": texts(batch.column("difficulty")),
            "ground_truth_answer": texts(pc.if_else(answered, answer, pa.scalar(None, pa.string()))),
            "citations": _citations(batch.column("id"), spans, below),
            "metadata": _metadata(batch, below),
        },
        QUERY_DEPTH,
    )


def _train_contexts(contexts: pa.Array) -> pa.Array:
    items = contexts.flatten()
    names, gold = items.field("file_name"), items.field("text")
    bare = texts(gold)
    if names.null_count < len(names):
        named = objects({"filename": texts(names), "text": bare}, TRAIN_DEPTH + 2)
        bare = pc.if_else(names.is_valid(), named, bare)
    return lists(contexts, bare, TRAIN_DEPTH + 1)


def _relevant_documents(contexts: pa.Array) -> pa.Array:
    """The documents of each question, each once."""
    kind = pa.list_(pa.string())
    if contexts.flatten().field("file_name").null_count == len(contexts.flatten()):
        return pa.array([[]] * len(contexts), kind)
    return pa.array([list(dict.fromkeys(_present(row, "file_name"))) for row in contexts.to_pylist()], kind)


def _present(contexts: Sequence[Mapping[str, str]], name: str) -> list[str]:
    return [context[name] for context in contexts if context[name] is not None]


def _citations(ids: pa.Array, spans: Mapping[int, Sequence[GoldSpan]], depth: int) -> pa.Array:
    own = [spans.get(number, ()) for number in ids.to_pylist()] if spans else []
    flat = [span for row in own for span in row]
    if not flat:
        return pa.repeat("[]", len(ids))
    written = objects(
        {
            "file_name": texts(pa.array([span.file_name for span in flat])),
            "start_char": texts(pa.array([span.start for span in flat])),
            "end_char": texts(pa.array([span.end for span in flat])),
            "page_number": texts(pa.array([span.page for span in flat])),
            "page_start": texts(pa.array([span.page_start for span in flat])),
            "page_end": texts(pa.array([span.page_end for span in flat])),
            "confidence_score": pa.array([json.dumps(span.score / 100) for span in flat]),
            "context_text": texts(pa.array([span.text for span in flat])),
        },
        depth + 1,
    )
    return lists(pa.array([[0] * len(row) for row in own], pa.list_(pa.int8())), written, depth)


def _metadata(batch: pa.RecordBatch, depth: int) -> pa.Array:
    """The source's own columns, then those that mean something here."""
    contexts = batch.column("contexts")
    rows = contexts.to_pylist() if _names_documents(contexts) else []
    hops = [len(set(_present(row, "document"))) for row in rows] or [0] * len(batch)
    members = {
        "is_impossible": texts(batch.column("is_impossible")),
        "answers": texts(batch.column("answers"), depth + 1),
        "hops": texts(pa.array(hops, pa.int64())),
        "source_id": texts(batch.column("source_id")),
    }
    grades = [_grades(row, depth + 1) for row in rows]
    if any(grades):
        members["relevance"] = pa.array([grade or None for grade in grades], pa.string())
    ours = objects(members, depth)
    own = batch.column("metadata")
    if pc.all(pc.equal(own, "{}")).as_py():
        return ours
    theirs = pa.array([_own_members(text, depth) for text in own.to_pylist()], pa.string())
    start = "{\n" + INDENT * (depth + 1)
    both = pc.binary_join_element_wise(start, theirs, ",", pc.utf8_slice_codeunits(ours, 1), "")
    return pc.if_else(theirs.is_valid(), both, ours)


def _names_documents(contexts: pa.Array) -> bool:
    documents = contexts.flatten().field("document")
    return bool(documents.null_count < len(documents))


def _grades(contexts: Sequence[Mapping[str, str]], depth: int) -> str:
    """Grades by file name as JSON text; "" where the source has none."""
    graded = {c["file_name"]: c["relevance"] for c in contexts if c["relevance"] is not None and c["file_name"]}
    return _indented(graded, depth) if graded else ""


def _own_members(metadata: str, depth: int) -> str | None:
    """The members of metadata as they stand in the file; None where there are none."""
    values = json.loads(metadata)
    named = {f"source_{name}" if name in RESERVED else name: value for name, value in values.items()}
    return _indented(named, depth).removeprefix("{").removesuffix("}").strip("\n ") if named else None


def _indented(value: Mapping[str, object], depth: int) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + INDENT * depth)
