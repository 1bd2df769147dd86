"""What is plain by the column is what it is row by row: the same questions, notes and refusals."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.conversion import planning
from rag_eval_pipeline.conversion.batch_validation import validate_batch
from rag_eval_pipeline.conversion.benchmark_spec import BenchmarkSpec
from rag_eval_pipeline.conversion.document_index import DocumentIndex
from rag_eval_pipeline.conversion.question_spool import questions_of
from rag_eval_pipeline.conversion.sql_ast import KEEP, TRACE_FILE, TRACE_ROW
from rag_eval_pipeline.sources.relations import spool_relation

TEXT = st.text(st.sampled_from('aé \u2028\u3000\x1c\x85"\\\n\x01\x00東'), max_size=4)
MAYBE = st.none() | TEXT
URLS = st.sampled_from(
    [None, "", "http://x.org/A", "https://X.org/A", "https://x.org/B#c", "ftp://x.org", "https://x.org/B"]
)
WORDS = st.sampled_from([None, "", "factual", "easy", "bridge", "br\x00"])
COLUMNS = {
    "question": (pa.string(), MAYBE),
    "answer": (pa.string(), MAYBE),
    "source_id": (pa.string(), st.sampled_from([None, "", "1", "2"])),
    "query_type": (pa.string(), WORDS),
    "difficulty": (pa.string(), WORDS),
}
OPTIONAL = {
    "is_impossible": [
        (pa.bool_(), st.none() | st.booleans()),
        (pa.string(), st.sampled_from([None, "true", "FALSE", "0", "1", "no", ""])),
        (pa.int64(), st.sampled_from([None, 0, 1, 2])),
    ],
    "contexts": [
        (pa.string(), MAYBE),
        (pa.list_(pa.string()), st.none() | st.lists(MAYBE, max_size=2)),
    ],
    "urls": [
        (pa.string(), URLS),
        (pa.list_(pa.string()), st.none() | st.lists(URLS, max_size=3)),
    ],
    "metadata": [
        (
            pa.struct([('Odd "Name"', pa.string()), ("n", pa.int64()), ("b", pa.bool_())]),
            st.none()
            | st.fixed_dictionaries({'Odd "Name"': MAYBE, "n": st.none() | st.integers(-9, 9), "b": st.booleans()}),
        )
    ],
}


@st.composite
def batches(draw):
    count = draw(st.integers(1, 6))
    chosen = dict(COLUMNS)
    for name, forms in OPTIONAL.items():
        if draw(st.booleans()):
            chosen[name] = draw(st.sampled_from(forms))
    if "urls" in chosen:
        chosen.pop("contexts", None)
    columns = {
        name: pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind)
        for name, (kind, values) in chosen.items()
    }
    keep = draw(st.lists(st.sampled_from([True, True, True, False, None]), min_size=count, max_size=count))
    columns |= {
        KEEP: pa.array(keep, pa.bool_()),
        TRACE_FILE: pa.repeat("f", count),
        TRACE_ROW: pa.array(range(1, count + 1), pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def taken_in(batch, *, retrieval_only):
    keys = {"name": "x", "version": "1.0.0", "source": "f", "questions": "SELECT 1", "where": "true"}
    spec = BenchmarkSpec.model_validate({**keys, "retrieval_only": retrieval_only})
    source = spool_relation({}, lambda name, types: iter(()), "f", source_columns=True)
    index = DocumentIndex()
    found = planning.QuestionBuilder(spec, index, source)
    found.add(batch, [name for name in batch.schema.names if not name.startswith("__")])
    found.spool.close()
    documents, names = index.planned(None, strict=False)
    batches = found.spool.batches(names, index.own_urls())
    questions = [question for made in batches for question in questions_of(made)]
    counts = (found.rows, found.accepted, found.dropped, found.impossible, found.without_document)
    return questions, found.refused, set(found.notes()), documents, counts


@given(batches(), st.booleans())
def test_columns_and_rows_agree(batch, retrieval_only):
    by_column = taken_in(batch, retrieval_only=retrieval_only)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "validate_batch", lambda *arguments, **options: None)
        by_row = taken_in(batch, retrieval_only=retrieval_only)

    assert by_column == by_row


def test_plain_rows_are_settled_without_being_looked_at_one_by_one():
    """Else the agreement above would hold of a module that never says anything."""
    batch = pa.RecordBatch.from_pydict(
        {
            "question": ["q", " "],
            "answer": ["a", "a"],
            "query_type": ["factual", "bridge"],
            KEEP: [True, True],
            TRACE_FILE: ["f", "f"],
            TRACE_ROW: [1, 2],
        }
    )

    found = validate_batch(batch, ["question", "answer", "query_type"], 7, str, retrieval_only=False)

    assert found.is_settled.to_pylist() == [True, False]
    assert found.questions.column("id").to_pylist() == [7]
