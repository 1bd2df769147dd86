"""What is plain by the column is what it is row by row: the same questions, notes and refusals."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.conversion import intake, plain_rows
from rag_eval_pipeline.conversion.catalogue import Catalogue
from rag_eval_pipeline.conversion.mapped import FROM_FILE, FROM_ROW, KEEP
from rag_eval_pipeline.conversion.spec import BenchmarkSpec
from rag_eval_pipeline.sources.relations import relation

TEXT = st.text(st.sampled_from('aé \u2028\u3000\x1c\x85"\\\n\x01\x00東'), max_size=4)
MAYBE = st.none() | TEXT
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
    columns = {
        name: pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind)
        for name, (kind, values) in chosen.items()
    }
    keep = draw(st.lists(st.sampled_from([True, True, True, False, None]), min_size=count, max_size=count))
    columns |= {
        KEEP: pa.array(keep, pa.bool_()),
        FROM_FILE: pa.repeat("f", count),
        FROM_ROW: pa.array(range(1, count + 1), pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def taken_in(batch, *, retrieval_only):
    keys = {"name": "x", "version": "1.0.0", "source": "f", "questions": "SELECT 1", "where": "true"}
    spec = BenchmarkSpec.model_validate({**keys, "retrieval_only": retrieval_only})
    source = relation([], lambda name, kinds: iter(()), "f", origin=True)
    found = intake.Intake(spec, Catalogue(), intake.Places(spec, source))
    found.add(batch, [name for name in batch.schema.names if not name.startswith("__")])
    drafts = found.close()
    questions = [row for made in drafts.batches({}, {}) for row in made.to_pylist()]
    return questions, found.refused, found.notes, (found.rows, found.accepted, found.dropped, found.impossible)


@given(batches(), st.booleans())
def test_columns_and_rows_agree(batch, retrieval_only):
    by_column = taken_in(batch, retrieval_only=retrieval_only)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_rows, "plain_rows", lambda *arguments, **options: None)
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
            FROM_FILE: ["f", "f"],
            FROM_ROW: [1, 2],
        }
    )

    found = plain_rows.plain_rows(batch, ["question", "answer", "query_type"], 7, retrieval_only=False)

    assert found.is_settled.to_pylist() == [True, False]
    assert found.questions.column("id").to_pylist() == [7]
