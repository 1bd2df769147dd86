"""Compare an NLI model with the shipped labels of support, benchmark by benchmark.

    pip install 'rag-eval-pipeline[nli]'
    python tools/nli_table.py ~/models/some-nli entailment,neutral,contradiction

It converts the four small benchmarks in a temporary workspace, replays the answers that were labelled, and prints kappa
with its interval. The labels are this project's own: they show how a model behaves and calibrate nothing.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import pydantic

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from examples.demo_builtin import BENCHMARKS, prepare  # noqa: E402
from rag_eval_pipeline.conversion.steps import convert  # noqa: E402
from rag_eval_pipeline.errors import InputError, ServiceError  # noqa: E402
from rag_eval_pipeline.evaluation.judging import Labelled, calibrate_judge  # noqa: E402
from rag_eval_pipeline.evaluation.pair import load_pair  # noqa: E402
from rag_eval_pipeline.evaluation.pipeline import evaluate  # noqa: E402
from rag_eval_pipeline.formats.model import bad_format  # noqa: E402
from rag_eval_pipeline.judges.settings import JudgeSettings, judge_fingerprint  # noqa: E402
from rag_eval_pipeline.judges.trust_card import TaskTrust  # noqa: E402
from rag_eval_pipeline.workspace import Workspace  # noqa: E402

LABELS = REPOSITORY / "examples" / "benchmarks" / "labels"
SYSTEMS = ("written", "embedded")  # those with labels of support


def main(model: str, labels: str) -> int:
    """Print a row for each benchmark and system."""
    judge = {"kind": "nli", "settings": {"model": str(Path(model).resolve()), "labels": labels.split(",")}}
    try:
        print(f"Judge: {judge_fingerprint(settings_of(judge))}\n")
        with tempfile.TemporaryDirectory() as folder:
            compare(prepare(Path(folder)), judge)
    except (InputError, ServiceError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def settings_of(judge: dict[str, object]) -> JudgeSettings:
    """Validate the judge's settings."""
    try:
        return JudgeSettings.model_validate(judge)
    except pydantic.ValidationError as error:
        raise bad_format("arguments", error, JudgeSettings) from error


def compare(workspace: Workspace, judge: dict[str, object]) -> None:
    """Convert, replay and calibrate; lines are printed as they are known."""
    for system in SYSTEMS:
        path = str(LABELS / "{benchmark}.SYSTEM.answers.jsonl").replace("SYSTEM", system)
        file = {"kind": "replay", "version": "1", "settings": {"path": path}, "evaluation": {"judge": judge}}
        (workspace.config / "systems" / f"{system}.config.yaml").write_text(json.dumps(file))
    print(
        f"{'benchmark':24}{'answers':10}{'n':>4}  {'kappa':24}{'label yes, judge no':>20}{'no, yes':>9}{'seconds':>9}"
    )
    for benchmark in BENCHMARKS:
        convert(workspace, benchmark)
        for system in SYSTEMS:
            evaluate(workspace, load_pair(workspace, benchmark, system))
            given = Labelled(LABELS / f"{benchmark}.{system}.labels.jsonl", system)
            started = time.perf_counter()
            card = calibrate_judge(
                workspace, benchmark, [given], labels_by="own", judges_twice=False,
                progress=lambda phase: lambda done, total: None,
            )  # fmt: skip
            seconds = time.perf_counter() - started
            print(row(benchmark, system, next(one for one in card.tasks if one.task == "support"), seconds), flush=True)


def row(benchmark: str, system: str, trust: TaskTrust, seconds: float) -> str:
    """Return the columns of one comparison."""
    kappa, table = trust.kappa, trust.confusion
    text = kappa.reason if kappa.value is None else f"{kappa.value:.3f}"
    if kappa.interval is not None:
        text = f"{text} ({kappa.interval.low:.3f} to {kappa.interval.high:.3f})"
    wrong = f"{table.labels_yes_judge_no:>20}{table.labels_no_judge_yes:>9}"
    return f"{benchmark:24}{system:10}{trust.n_compared:>4}  {text:24}{wrong}{seconds:>9.1f}"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
