"""Row 39: a span is half-open, in code points, inside its text; anything else is refused where it comes in.

Each bad span of a source's row: tests/conversion/test_row_rules.py; spans cut from bodies: tests/conversion/test_planning.py;
spans of annotators: tests/formats/test_ground_truth.py; the arithmetic of overlap: tests/metrics/test_spans.py.
"""

import json

import pytest

from rag_eval_pipeline.conversion.planning import plan
from tests.conversion.conftest import HEAD
from tests.validation import validate

SPEC = f"""{HEAD}source: q.jsonl
questions: |
  SELECT q AS question, 'y' AS answer, [{{'document': d, 'start': s, 'end': e}}] AS contexts FROM source
documents: SELECT 'd' AS name, 'né ☃ 𝒳y' AS text
"""
SPANS = {
    "from the first character": ((0, 2), "né"),
    "to the last, which is behind one of two units in UTF-16": ((5, 7), "𝒳y"),
    "empty": ((3, 3), None),
    "reversed": ((4, 3), None),
    "negative": ((-1, 2), None),
    "one character beyond the text": ((5, 8), None),
}


@pytest.mark.fault(39)
def test_span_is_a_piece_of_its_document_or_costs_its_question(benchmark):
    rows = [{"q": name, "d": "d", "s": start, "e": end} for name, ((start, end), _) in SPANS.items()]

    found = plan(benchmark(SPEC, {"q.jsonl": "".join(json.dumps(row) + "\n" for row in rows)}))

    cut = {question.question: question.contexts[0].text for question in found.questions}
    assert cut == {name: text for name, (_, text) in SPANS.items() if text is not None}
    bad = [row for row, (_, text) in enumerate(SPANS.values(), 1) if text is None]
    assert [(r.code, r.row) for r in found.quarantine] == [("bad_span", row) for row in bad]
    assert found.counts.conserved


WRITTEN = {
    "empty": {"end_char": 4},
    "reversed": {"end_char": 3},
    "negative": {"start_char": -1},
    "a truth": {"start_char": True},
    "a text": {"end_char": "9"},
    "a fraction": {"start_char": 4.5},
    "page 0": {"page_number": 0},
}


@pytest.mark.fault(39)
@pytest.mark.parametrize("change", WRITTEN.values(), ids=WRITTEN)
def test_span_of_a_dataset_is_found_to_be_bad_with_its_place(change, tmp_path):
    citation = {"file_name": "a.pdf", "start_char": 4, "end_char": 9} | change
    query = {"query_id": "0", "query_text": "Who?", "relevant_documents": ["a.pdf"], "citations": [citation]}
    path = tmp_path / "d_v1.0.0.eval.json"
    path.write_text(json.dumps({"dataset_id": "d", "name": "D", "version": "1.0.0", "queries": [query]}))

    [line] = validate(path)

    assert 'field "queries[0].citations[0]' in line
