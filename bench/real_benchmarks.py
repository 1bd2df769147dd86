"""Real benchmarks all the way: seconds to convert and evaluate, gold texts located, scores of the two bundled systems.

    python bench/real_benchmarks.py

Reads ../shared/data beside the repository; the specs are those of tests/specs. Seconds are wall-clock, of one run.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))  # the builder of scratch workspaces belongs to the tests

from rag_eval_pipeline.conversion.steps import convert  # noqa: E402
from rag_eval_pipeline.evaluation.pair import load_pair  # noqa: E402
from rag_eval_pipeline.evaluation.pipeline import evaluate  # noqa: E402
from rag_eval_pipeline.formats.results import EvaluationResults  # noqa: E402
from rag_eval_pipeline.workspace import Workspace  # noqa: E402
from tests.real_benchmarks import build  # noqa: E402

BENCHMARKS = ("squad2", "kg-rag-sec10q", "fetaqa", "hotpotqa")
SYSTEMS = ("embedded", "embedded-weak")
RETRIEVAL = ("hit@1", "hit@5", "ndcg@10", "mrr")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        for settings in (REPOSITORY / "data" / "config", REPOSITORY / "examples" / "benchmarks" / "config"):
            shutil.copytree(settings, workspace.config, dirs_exist_ok=True)
        print(
            f"{'benchmark':15}{'first s':>9}{'again s':>9}{'questions':>11}{'files':>7}{'pages':>7}  gold texts located"
        )
        for name in BENCHMARKS:
            build(workspace.root, name)
            started = time.perf_counter()
            counts = {report.record.step: report.record.counts for report in convert(workspace, name)}
            first = time.perf_counter() - started
            convert(workspace, name)
            again = time.perf_counter() - started - first
            gold = counts["evaluation_dataset"]
            print(
                f"{name:15}{first:9.1f}{again:9.1f}{counts['train_json']['accepted']:11}{counts['corpus']['files']:7}"
                f"{counts['corpus']['pages']:7}  {gold['gold_texts_located']} of {gold['gold_texts']}"
            )
        names = ("EM", "F1", "abst F1", "cite")
        print(f"\n{'benchmark':15}{'system':15}" + "".join(f"{name:>9}" for name in (*RETRIEVAL, *names, "seconds")))
        for name in BENCHMARKS:
            for system in SYSTEMS:
                started = time.perf_counter()
                _, published = evaluate(workspace, load_pair(workspace, name, system))
                seconds = time.perf_counter() - started
                results = EvaluationResults.read(published.path)
                quality = results.answer_quality_metrics
                values = [
                    *(results.retrieval_metrics[measure].value for measure in RETRIEVAL),
                    quality.exact_match.value,
                    quality.f1.value,
                    quality.abstention.f1.value,
                    results.citation_metrics.span_accuracy.mean_tolerance_jaccard,
                ]
                cells = "".join(f"{'-' if value is None else f'{value:.3f}':>9}" for value in values)
                print(f"{name:15}{system:15}{cells}{seconds:9.1f}")


if __name__ == "__main__":
    main()
