"""Draws docs/pictures/report-*.png: a report of twelve simulated nights of the bundled benchmarks, in a real browser.

    python tools/draw_report_pictures.py [--keep FOLDER]

Conversion, evaluation, verdicts, alerts and report are the pipeline's own; two systems are simulated
(`simulated_system.py`), and the clock is. One of them loses three answers in four on the last night but one; a third
has been there for three nights. Nothing is written into this repository but the pictures. Takes one to three minutes.
"""

import argparse
import json
import os
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rag_eval_pipeline.clock import NOW_VARIABLE
from rag_eval_pipeline.conversion.steps import convert
from rag_eval_pipeline.corpus.rendering.browser import find_browser
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.report.site import write_report
from rag_eval_pipeline.reporting.alerts import send_change_alerts
from rag_eval_pipeline.reporting.leaderboard import write_leaderboard
from rag_eval_pipeline.reporting.nightly import due_reruns
from rag_eval_pipeline.reporting.regressions import write_comparisons
from rag_eval_pipeline.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parent.parent
PICTURES = REPOSITORY / "docs" / "pictures"
NIGHTS, BROKEN_FROM, NEWCOMER_FROM = 12, 10, 9  # counted from 0
BROKEN = "skarn-railway"  # the only bundled benchmark with enough questions for a verdict
SYSTEMS = {"hybrid": (0.88, 1.0), "hybrid-mini": (0.8, 0.4), "hybrid-next": (0.94, 1.4)}  # skill, pace
NEWCOMER, FALLING = "hybrid-next", "hybrid-mini"
WIDTH = 1280
QUESTION_WIDTH, QUESTION_HEIGHT = 1100, 1720  # as far as the marks on the pages


class Nights:
    """A workspace whose clock is set by hand.

    Args:
        root: An empty folder.
    """

    def __init__(self, root: Path) -> None:
        self.workspace = Workspace(root)
        shutil.copytree(REPOSITORY / "data" / "config", self.workspace.config)
        for sources in (REPOSITORY / "data" / "sources", REPOSITORY / "examples" / "benchmarks" / "sources"):
            shutil.copytree(sources, self.workspace.sources, dirs_exist_ok=True)
        self.now = datetime(2026, 10, 5, 2, tzinfo=UTC)
        self.workspace.system_file("embedded-weak").unlink()
        for name in self.workspace.benchmarks():
            convert(self.workspace, name)
        self.gold = self._gold()
        (root / "gold.json").write_text(json.dumps(self.gold))

    def run(self) -> Path:
        """All nights; returns the report's first page."""
        for name in SYSTEMS.keys() - {NEWCOMER}:
            self._add(name)
        for night in range(NIGHTS):
            if night == NEWCOMER_FROM:
                self._add(NEWCOMER)
            self._night(night)
        write_leaderboard(self.workspace)
        return write_report(self.workspace, write_comparisons(self.workspace))

    def _night(self, night: int) -> None:
        started = self.now
        pairs = [(one, other) for one in self.workspace.benchmarks() for other in self.workspace.systems()]
        for pair in pairs:
            self._evaluate(night, *pair)
        self._tell()
        self.now = started + timedelta(hours=4)
        for rerun in due_reruns(self.workspace, pairs, now=self.now):
            self._evaluate(night, rerun.benchmark, rerun.system)
        self._tell()
        self.now = started + timedelta(days=1)

    def _evaluate(self, night: int, benchmark: str, system: str) -> None:
        answerable = [text for text, own in self.gold.items() if own["benchmark"] == BROKEN and own["answer"]]
        broken = {FALLING: [text for n, text in enumerate(answerable, 1) if n % 4]} if night >= BROKEN_FROM else {}
        (self.workspace.root / "now.json").write_text(json.dumps({"night": str(self.now), "broken": broken}))
        os.environ[NOW_VARIABLE] = self.now.isoformat()
        evaluate(self.workspace, load_pair(self.workspace, benchmark, system))
        self.now += timedelta(minutes=5)

    def _tell(self) -> None:
        send_change_alerts(self.workspace, write_comparisons(self.workspace).nights, now=self.now)

    def _add(self, name: str) -> None:
        skill, pace = SYSTEMS[name]
        arguments = {"name": name, "skill": skill, "pace": pace, "folder": str(self.workspace.root)}
        code = {"callable": "simulated_system:ask", "path": [str(Path(__file__).parent)], "arguments": arguments}
        settings = {"kind": "python", "nightly": True, "settings": code}
        self.workspace.system_file(name).write_text(json.dumps(settings))

    def _gold(self) -> dict[str, dict[str, object]]:
        """Question -> benchmark, answer, places; a document's beginning where no gold text was located."""
        gold = {}
        for path in self.workspace.evaluation_datasets.iterdir():
            dataset = EvaluationDataset.read(path)
            for query in dataset.queries:
                places = [place.model_dump(mode="json") for place in query.citations] or [
                    {"file_name": name, "page_number": 1, "start_char": 0, "end_char": 160, "context_text": name}
                    for name in query.relevant_documents
                ]
                answer = None if query.is_impossible else query.ground_truth_answer
                gold[query.query_text] = {"benchmark": dataset.dataset_id, "answer": answer, "places": places}
        return gold


def draw(index: Path) -> None:
    """Draws the pictures of a report."""
    from playwright.sync_api import sync_playwright

    board = json.loads((index.parent / "leaderboard.json").read_text())
    run = next(row["evaluation_id"] for row in board if (row["benchmark"], row["system"]) == (BROKEN, FALLING))
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []  # it visits this machine's own files only
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=arguments)
        page = browser.new_page(viewport={"width": WIDTH, "height": 900})
        page.goto(index.as_uri())
        box = page.locator("#matrix").locator("..").bounding_box()
        assert box is not None
        height = box["y"] + box["height"] + 24
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": height}
        page.screenshot(path=PICTURES / "report-overview.png", full_page=True, clip=clip)
        page.set_viewport_size({"width": QUESTION_WIDTH, "height": 900})
        page.goto((index.parent / "runs" / run / "question.html").as_uri() + "#0")
        page.locator(".sheet img").first.scroll_into_view_if_needed()
        page.wait_for_function("[...document.querySelectorAll('.sheet img')].every((one) => one.naturalWidth > 0)")
        clip = {"x": 0, "y": 0, "width": QUESTION_WIDTH, "height": QUESTION_HEIGHT}
        page.screenshot(path=PICTURES / "report-question.png", full_page=True, clip=clip)
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="a folder that is not there yet, in which the workspace stays")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="report-pictures-") as folder:
        draw(Nights(given.keep or Path(folder)).run())
