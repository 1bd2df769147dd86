"""Real benchmarks over HTTP, killed in the middle and resumed: is anything asked twice, lost, or different?

    python bench/real_benchmarks_http.py [--faults 0.1]

Reads ../shared/data beside the repository; the specs are those of tests/specs. Each benchmark is converted, its PDFs
are uploaded to a mock server that speaks NVIDIA's interface and fails `--faults` of the attempts, and its questions
are asked by a process that is killed with SIGKILL when a third is answered, and resumed. Then the same once more
without being disturbed. Printed are the seconds, what was asked in each sitting, the questions that the server answered
more than once (at most those in flight at the kill), and whether all that does not depend on the clock is equal:
answers, passages, citations, and every score.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))  # the builder of scratch workspaces belongs to the tests

from examples.mock_rag_server import mock_rag_server  # noqa: E402
from rag_eval_pipeline.conversion.steps import convert  # noqa: E402
from rag_eval_pipeline.evaluation.pair import load_pair  # noqa: E402
from rag_eval_pipeline.evaluation.pipeline import evaluate  # noqa: E402
from rag_eval_pipeline.evaluation.runs import SCORE_FILES, load_evaluation  # noqa: E402
from rag_eval_pipeline.evaluation.storage import iter_responses, read_scores  # noqa: E402
from rag_eval_pipeline.workspace import Workspace  # noqa: E402
from tests.real_benchmarks import build  # noqa: E402

BENCHMARKS = ("squad2", "kg-rag-sec10q", "fetaqa", "hotpotqa")
KILLED = """
import os, signal, sys
from pathlib import Path
from rag_eval_pipeline.evaluation.pair import load_pair
from datetime import UTC, datetime
from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.workspace import Workspace

root = Workspace(Path(sys.argv[1]))
die = lambda done, total: os.kill(os.getpid(), signal.SIGKILL) if done == max(1, total // 3) else None
ask(root, load_pair(root, sys.argv[2], "served"), now=datetime.now(UTC), progress=die)
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--faults", type=float, default=0.1)
    faults = arguments.parse_args().faults
    columns = ("questions", "kept", "asked", "twice", "faults", "failed", "seconds", "equal")
    print(f"{'benchmark':15}" + "".join(f"{name:>10}" for name in columns))
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        workspace.config.joinpath("systems").mkdir(parents=True)
        for name in BENCHMARKS:
            build(workspace.root, name)
            convert(workspace, name)
            with mock_rag_server(faults=faults) as server:
                workspace.system_file("served").write_text(
                    f"kind: nvidia\nsettings:\n  rag: {{base_url: '{server.rag}', backoff_seconds: 0.05}}\n"
                    f"  ingestor: {{base_url: '{server.ingestor}', backoff_seconds: 0.05}}\n"
                    "  upload: {poll_seconds: 0.2}\n"
                )
                command = [sys.executable, "-c", KILLED, str(workspace.root), name]
                subprocess.run(command, check=False, env=os.environ | {"PYTHONPATH": str(REPOSITORY)})
                started = time.perf_counter()
                answered, resumed = evaluate(workspace, load_pair(workspace, name, "served"))
                seconds = time.perf_counter() - started
                counts = server.counts()
                _, undisturbed = evaluate(workspace, load_pair(workspace, name, "served"))
            twice = sum(times - 1 for times in counts["answered_by_question"]["generate"].values())
            report = answered.report
            equal = said(workspace, resumed.evaluation_id) == said(workspace, undisturbed.evaluation_id)
            cells = (
                report.questions, report.resumed, report.asked, twice, sum(counts["faults"].values()), report.failed,
                f"{seconds:.1f}", "yes" if equal else "NO",
            )  # fmt: skip
            print(f"{name:15}" + "".join(f"{cell:>10}" for cell in cells), flush=True)


def said(workspace: Workspace, evaluation_id: str) -> list[Any]:
    """Everything of an evaluation that does not depend on the clock."""
    evaluation = load_evaluation(workspace, evaluation_id)
    answers = [
        (a.query_id, a.status, a.answer, a.abstained, a.contexts, a.citations)
        for a in iter_responses(evaluation.responses)
    ]
    return [answers, *(read_scores(evaluation.scores(kind)) for kind in SCORE_FILES)]


if __name__ == "__main__":
    main()
