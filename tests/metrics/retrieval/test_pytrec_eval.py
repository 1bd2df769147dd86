"""Per-query scores equal pytrec_eval's to the last bit.

`pytrec_eval.json` holds a small collection and the doubles of pytrec_eval-terrier 0.5.11 for it, in hexadecimal: ties,
ids beyond ASCII, rankings out of order, negative grades, a query without a relevant document. Interpolated precision
stands there at 0 and 1 only: trec_eval 9, which pytrec_eval contains, turns fractions of recall into ranks otherwise
than trec_eval 10, whose published output `test_score_command` compares.
"""

import json
from pathlib import Path

import pytest

from rag_eval_pipeline.metrics.retrieval.names import parse_measure
from rag_eval_pipeline.metrics.retrieval.runs import qrels_from_dict, run_from_dict
from rag_eval_pipeline.metrics.retrieval.scoring import score

TABLE = json.loads(Path(__file__).with_name("pytrec_eval.json").read_text())


@pytest.mark.parametrize(("level", "compared"), [(1, 938), (2, 871)])
def test_scores_equal_pytrec_eval_to_the_last_bit(level, compared):
    expected = TABLE["expected"][str(level)]
    qrels = {query: TABLE["qrels"][query] for query in expected}
    measures = [parse_measure(name) for name in next(iter(expected.values()))]

    found = score(run_from_dict(TABLE["run"]), qrels_from_dict(qrels), measures, level=level)

    rows = zip(*(values.tolist() for values in found.values), strict=True)
    ours = {
        query: {measure.trec_name: float(value).hex() for measure, value in zip(measures, row, strict=True)}
        for query, row in zip(found.queries, rows, strict=True)
    }
    assert ours == expected
    assert sum(map(len, ours.values())) == compared
