"""Measure the peak memory of each part of an evaluation of very many questions.

    python bench/memory.py [--questions 100000 400000] [--keep FOLDER]

A benchmark of short questions, each with a gold text in one of 200 short documents, is converted twice, cold and warm;
a Python function answers with one passage and one citation; the answers are scored and published, and the report is
written. Each part is a process of its own, and the last line does all parts of an evaluation in one, as `rag-eval
evaluate` does; like that command they do without pandas. Memory is the peak resident set of the process in 10^6 bytes,
and of its largest child; CPU is user and system time of both. Machines differ; what counts is how memory grows with
the questions.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

NAME, SYSTEM = "many", "short"
DOCUMENTS, SENTENCES = 200, 40
SPEC = f"""name: {NAME}
version: 1.0.0
source: questions.jsonl
tables: {{docs: docs.jsonl}}
questions: {{question: question, answer: answer, contexts: contexts}}
documents: SELECT name, text FROM docs
"""
ANSWERS = """
def answer(query):
    number = int(query.query_id)
    document = f"lamp-{number % %d}.pdf"
    return {
        "answer": f"Lamp {number} burns {number % 97} hours.",
        "contexts": [{"document": document, "page": 1, "text": f"Lamp {number} burns long.", "score": 0.5}],
        "citations": [{"file_name": document, "start_char": 10, "end_char": 40}],
    }
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, nargs="+", default=[100_000, 400_000])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--keep", type=Path, help="Folder of the workspace, which is then not removed.")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part is not None:
        print(json.dumps(measure(PARTS[given.part], given.keep)))
        return
    print(f"{'questions':>9}  {'part':16}{'seconds':>9}{'CPU s':>8}{'peak MB':>9}{'child MB':>9}")
    for questions in given.questions:
        if given.keep is not None:
            run(given.keep / str(questions), questions, given.parts)
            continue
        with tempfile.TemporaryDirectory(prefix="bench-memory-") as folder:
            run(Path(folder), questions, given.parts)


def run(root: Path, questions: int, parts: list[str]) -> None:
    if not (root / "data/sources" / NAME / "benchmark.yaml").exists():
        write_workspace(root, questions)
    for part in parts:
        command = [sys.executable, __file__, "--part", part, "--keep", str(root)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        print(
            f"{questions:9}  {part:16}{found['seconds']:9.1f}{found['cpu']:8.1f}{found['peak']:9.0f}"
            f"{found['child']:9.0f}",
            flush=True,
        )


def write_workspace(root: Path, questions: int) -> None:
    source, systems = root / "data/sources" / NAME, root / "data/config/systems"
    source.mkdir(parents=True)
    systems.mkdir(parents=True)
    (source / "benchmark.yaml").write_text(SPEC)
    with (source / "docs.jsonl").open("w") as file:
        for number in range(DOCUMENTS):
            text = " ".join(f"Lamp {number} of row {row} burns {row * 7 % 97} hours." for row in range(SENTENCES))
            file.write(json.dumps({"name": f"lamp-{number}", "text": text}) + "\n")
    with (source / "questions.jsonl").open("w") as file:
        for number in range(questions):
            document, row = number % DOCUMENTS, number // DOCUMENTS % SENTENCES
            gold = f"Lamp {document} of row {row} burns {row * 7 % 97} hours."
            file.write(
                json.dumps(
                    {
                        "question": f"How long does lamp {document} of row {row} burn, asked {number}?",
                        "answer": f"{row * 7 % 97} hours",
                        "contexts": [{"document": f"lamp-{document}", "text": gold}],
                    }
                )
                + "\n"
            )
    (systems / f"{SYSTEM}.config.yaml").write_text(
        "kind: python\nsettings: {callable: 'short_answers:answer', path: [.]}\n"
    )
    (systems / "short_answers.py").write_text(ANSWERS.replace("%d", str(DOCUMENTS), 1))


def measure(part: Callable[[Path], None], root: Path) -> dict[str, float]:
    from rag_eval_pipeline.storage import arrow

    arrow.is_own_process = True
    started = time.perf_counter()
    part(root)
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    # Not ru_maxrss, which counts what the parent held when it started this process.
    status = Path("/proc/self/status").read_text()
    return {
        "seconds": time.perf_counter() - started,
        "cpu": own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime,
        "peak": int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6,
        "child": children.ru_maxrss * 1024 / 1e6,
    }


def nothing(root: Path) -> None:
    """Import what the other parts need."""
    import rag_eval_pipeline.evaluation.pipeline  # noqa: F401


def convert(root: Path) -> None:
    from rag_eval_pipeline.conversion.convert import convert
    from rag_eval_pipeline.workspace import Workspace

    convert(Workspace(root), NAME)


def load(root: Path) -> None:
    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.workspace import Workspace

    load_pair(Workspace(root), NAME, SYSTEM)


def ask(root: Path) -> None:
    from rag_eval_pipeline import clock
    from rag_eval_pipeline.evaluation import asking
    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.workspace import Workspace

    workspace = Workspace(root)
    asking.ask(workspace, load_pair(workspace, NAME, SYSTEM), now=clock.now())


def score(kind: str) -> Callable[[Path], None]:
    def part(root: Path) -> None:
        from rag_eval_pipeline.evaluation.pair import load_pair
        from rag_eval_pipeline.evaluation.pipeline import score_pair
        from rag_eval_pipeline.workspace import Workspace

        workspace = Workspace(root)
        score_pair(workspace, load_pair(workspace, NAME, SYSTEM), kind)

    return part


def publish(root: Path) -> None:
    from rag_eval_pipeline.evaluation.pair import load_pair
    from rag_eval_pipeline.evaluation.pipeline import publish_pair
    from rag_eval_pipeline.workspace import Workspace

    workspace = Workspace(root)
    publish_pair(workspace, load_pair(workspace, NAME, SYSTEM))


def comparisons(root: Path) -> None:
    from rag_eval_pipeline.monitoring.regressions import write_comparisons
    from rag_eval_pipeline.workspace import Workspace

    write_comparisons(Workspace(root))


def leaderboard(root: Path) -> None:
    from rag_eval_pipeline.monitoring.leaderboard import write_leaderboard
    from rag_eval_pipeline.workspace import Workspace

    write_leaderboard(Workspace(root))


def site(root: Path) -> None:
    from rag_eval_pipeline.site.site import write_report
    from rag_eval_pipeline.workspace import Workspace

    write_report(Workspace(root))


def command(*words: str) -> Callable[[Path], None]:
    def part(root: Path) -> None:
        from rag_eval_pipeline.cli import app

        app([*words, "--workspace", str(root)], standalone_mode=False)

    return part


PARTS: dict[str, Callable[[Path], None]] = {
    "imports": nothing,
    "convert": convert,
    "convert again": convert,
    "load": load,
    "ask": ask,
    "retrieval": score("retrieval_scores"),
    "citations": score("citation_scores"),
    "answers": score("answer_scores"),
    "judge": score("judge_scores"),
    "publish": publish,
    "comparisons": comparisons,
    "leaderboard": leaderboard,
    "report": site,
    "evaluate": command("evaluate", NAME, "--system", SYSTEM),
}


if __name__ == "__main__":
    main()
