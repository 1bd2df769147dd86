"""Hypothesis strategies of evaluation datasets, shared by the tests of their files."""

import csv
import io
import json
from datetime import UTC, datetime

from hypothesis import strategies as st

from rag_eval_pipeline.formats.citation_marks import CitationSpan
from rag_eval_pipeline.formats.dataset import DatasetMetadata, EvaluationDataset, EvaluationQuery, SourceDocument

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", "no", "12", "1.10", "1e3", "~", "true", ".inf", '"', '"a"', "[1]", "a,b", "\r\n", "\ufeff"]
)
NAME = TEXT.filter(bool)
NUMBER = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
VALUE = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
METADATA = st.dictionaries(TEXT, VALUE, max_size=3)


@st.composite
def spans(draw):
    start = draw(st.integers(0, 10**6))
    return CitationSpan(
        file_name=draw(TEXT),
        start_char=start,
        end_char=start + draw(st.integers(1, 10**4)),
        page_number=draw(st.none() | st.integers(1, 999)),
        confidence_score=draw(st.none() | st.floats(0, 1)),
        context_text=draw(st.none() | TEXT),
    )


QUERY = st.builds(
    EvaluationQuery,
    query_id=NAME,
    query_text=NAME,
    relevant_documents=st.lists(TEXT, max_size=3).map(tuple),
    query_type=st.sampled_from([None, "factual", "temporal"]),
    difficulty=st.sampled_from([None, "easy", "hard"]),
    ground_truth_answer=st.none() | TEXT,
    citations=st.lists(spans(), max_size=2).map(tuple),
    metadata=METADATA,
)
DOCUMENT = st.builds(
    SourceDocument,
    document_id=NAME,
    content=TEXT,
    title=st.none() | TEXT,
    file_path=st.none() | TEXT,
    metadata=METADATA,
)
DATASETS = st.builds(
    EvaluationDataset,
    dataset_id=NAME,
    name=NAME,
    version=st.sampled_from(["1.0.0", "1.10.0", "2.0.0-rc.1", "0.0.0+b.7"]),
    description=st.none() | TEXT,
    created_at=st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001  # hypothesis adds it
    metadata=st.builds(
        DatasetMetadata,
        language=st.none() | TEXT,
        size=st.none() | st.integers(0, 10**9),
        avg_query_length=st.none() | st.floats(0, 1e6),
        own=VALUE,
    ),
    queries=st.lists(QUERY, max_size=4, unique_by=lambda query: query.query_id).map(tuple),
    documents=st.none() | st.lists(DOCUMENT, max_size=2, unique_by=lambda one: one.document_id).map(tuple),
)


def csv_text(dataset):
    """Return a dataset as people would type it into a spreadsheet: its own fields in the first row."""
    value = dataset.model_dump(mode="json", exclude_none=True)
    fields = {name: value[name] for name in value.keys() - {"queries", "metadata", "documents"}}
    fields |= {"dataset_metadata": value["metadata"]} | (
        {"documents": value["documents"]} if "documents" in value else {}
    )
    rows = [dict(query) for query in value["queries"]] or [{}]
    rows[0] |= fields
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, sorted({name for row in rows for name in row}), lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        # A text that is empty or begins with a quotation mark has to be JSON.
        plain = {name: item for name, item in row.items() if isinstance(item, str) and item and item[0] != '"'}
        writer.writerow({name: plain.get(name, json.dumps(item, ensure_ascii=False)) for name, item in row.items()})
    return text.getvalue().encode()
