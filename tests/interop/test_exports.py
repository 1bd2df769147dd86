"""Exports load in the tools themselves, and ir_measures scores a run as the results file does."""

import shutil

import ir_measures
import pytest
from evret.evaluation.dataset import EvaluationDataset
from ir_measures import AP, RR, P, R, Success, nDCG

from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.exports import ExportOptions, export
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import BUNDLED, copy_settings

RAILWAY = "skarn-railway"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """One small benchmark, evaluated with BM25."""
    made = Workspace(tmp_path_factory.mktemp("workspace"))
    copy_settings(made.root)
    shutil.copytree(BUNDLED[RAILWAY], made.benchmark(RAILWAY).source)
    convert(made, RAILWAY)
    evaluate(made, load_pair(made, RAILWAY, "embedded"))
    return made


def test_evret_json_and_csv_are_the_same_set(workspace, tmp_path):
    export(workspace, RAILWAY, "evret", tmp_path / "out")

    from_json = EvaluationDataset.from_json(tmp_path / "out" / f"{RAILWAY}.json")
    from_csv = EvaluationDataset.from_csv(tmp_path / "out" / f"{RAILWAY}.csv")
    assert from_csv.queries == from_json.queries
    assert len(from_csv.queries) == 40
    assert sum(len(query.expected_doc_ids) for query in from_csv.queries) == 38


MEASURES = {
    "hit@1": Success @ 1, "hit@3": Success @ 3, "hit@5": Success @ 5, "recall@5": R @ 5, "recall@10": R @ 10,
    "precision@5": P @ 5, "ndcg@3": nDCG @ 3, "ndcg@5": nDCG @ 5, "ndcg@10": nDCG @ 10, "mrr": RR, "map@5": AP @ 5,
}  # fmt: skip


@pytest.mark.parametrize("level", ["document", "page"])
def test_ir_measures_gives_the_means_of_the_results_file(level, workspace, tmp_path):
    report = export(
        workspace, RAILWAY, "trec", tmp_path / "out", evaluation="embedded", options=ExportOptions(level=level)
    )

    qrels, run = (str(tmp_path / "out" / name) for name in ("qrels.txt", "run.txt"))
    means = ir_measures.calc_aggregate(
        MEASURES.values(), ir_measures.read_trec_qrels(qrels), ir_measures.read_trec_run(run)
    )
    results = EvaluationResults.read(workspace.results / f"{report.evaluation_id}.results.json")
    ours = results.page_retrieval_metrics if level == "page" else results.retrieval_metrics
    assert {name: means[measure] for name, measure in MEASURES.items()} == pytest.approx(
        {name: ours[name].value for name in MEASURES}, abs=1e-9
    )
