"""A machine of its own whose clock is set by hand, with two systems in this process and one small benchmark."""

import csv
import json
import shutil
import textwrap
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from rag_eval_pipeline import clock
from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.definitions import defs
from rag_eval_pipeline.defs import schedules, sensors
from rag_eval_pipeline.defs.partitions import benchmarks, systems
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import REPOSITORY

LEDGER = "station-ledger"
STATIONS = (
    "Askholm", "Brenna", "Corsund", "Dalby", "Eidet", "Fosslia", "Grimstad", "Hovden", "Isfoss", "Jarle", "Kvernes",
    "Lomma", "Mosvik", "Nesbyen",
)  # fmt: skip
THINGS = ("wagons", "lamps", "porters")
# Fourteen one-page documents and three questions about each: large enough for a verdict, and quick to print.
BENCHMARK = """
name: station-ledger
title: Station ledger
version: 1.0.0
license: CC0-1.0
source: {path: ledger.csv}
tables: {stations: {path: stations.csv}}
questions: |
  SELECT question, answer, [{'document': station}] AS contexts FROM source
documents: |
  SELECT name, text FROM stations
expect: {questions: 42}
"""
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
# Answers with the gold answer, but for a question in forty a night, and from the planted night on for those planted.
CODE = """
import json, random
from pathlib import Path

HERE = Path(__file__).parent
GOLD = json.loads((HERE / "gold.json").read_text())


def ask(query, name):
    now = json.loads((HERE / "now.json").read_text())
    gold = GOLD[query.query_id]
    planted = query.query_id in now["planted"].get(name, [])
    unlucky = random.Random(f"{now['asked']} {name} {query.query_id}").random() < 1 / 40
    answer = "entirely different words" if planted or unlucky else gold["answer"]
    return {"answer": answer, "contexts": [{"document": gold["document"], "text": "", "page": 1}]}
"""


class World:
    """What a person at this machine would do and see, at the times they would."""

    def __init__(self, workspace, instance, stored, monkeypatch, folder):
        self.workspace = workspace
        self.instance = instance
        self.stored = stored
        self.folder = folder
        self.planted = {}
        self.cursor = None
        self.monkeypatch = monkeypatch
        self.now = datetime(2026, 9, 7, 2, tzinfo=UTC)  # a Monday

    @property
    def now(self):
        return clock.now()

    @now.setter
    def now(self, time):
        self.monkeypatch.setenv(clock.NOW_VARIABLE, time.isoformat())

    @property
    def resources(self):
        return {"workspace": WorkspaceResource(root=str(self.workspace.root))}

    def add_system(self, name, **settings):
        text = {
            "kind": "python",
            "nightly": True,
            "settings": {"callable": "night_system:ask", "path": [str(self.folder)], "arguments": {"name": name}},
        }
        self.workspace.system_file(name).write_text(json.dumps(text | settings))
        self.instance.add_dynamic_partitions(systems.name, [name])

    def run(self, job, request):
        self.write_state()
        result = defs.resolve_job_def(job).execute_in_process(
            instance=self.instance,
            partition_key=request.partition_key,
            tags=request.tags,
            run_config={**request.run_config, **QUIET},
            resources=self.resources,
            raise_on_error=False,
        )
        self.now += timedelta(minutes=5)
        return result

    def night(self):
        """The schedule's tick, what it asks for, the aggregation; and the same for reruns, hours later."""
        started = self.now
        for request in schedules.nightly(self.tick()):
            assert self.run("evaluate", request).success
        self.aggregate()
        assert self.reruns() == []  # too early
        self.now = started + timedelta(hours=2, minutes=30)
        reruns = self.reruns()
        for request in reruns:
            assert self.run("evaluate", request).success
        self.aggregate()
        self.now = started + timedelta(days=1)
        return [request.tags["confirms"] for request in reruns]

    def evaluation(self):
        """A night of which only the evaluations count, without Dagster."""
        started = self.now
        for system in self.workspace.systems():
            self.write_state()
            evaluate(self.workspace, load_pair(self.workspace, LEDGER, system), which="all")
        self.now = started + timedelta(days=1)

    def write_state(self):
        (self.folder / "now.json").write_text(json.dumps({"asked": str(self.now), "planted": self.planted}))

    def tick(self):
        return dg.build_schedule_context(
            instance=self.stored, scheduled_execution_time=self.now, resources=self.resources
        )

    def reruns(self):
        found = sensors.confirmation_sensor(dg.build_sensor_context(instance=self.instance, resources=self.resources))
        return [] if isinstance(found, dg.SkipReason) else found

    def aggregate(self):
        context = dg.build_sensor_context(instance=self.instance, cursor=self.cursor, resources=self.resources)
        result = sensors.aggregation_sensor(context)
        if isinstance(result, dg.SkipReason):
            return
        self.cursor = result.cursor
        for request in result.run_requests:
            assert self.run("aggregate", request).success

    def week(self):
        assert self.run("week", schedules.weekly(self.tick())).success


def write_benchmark(folder):
    """A ledger of what stood at each station, as a page a station and questions about it."""
    folder.mkdir(parents=True)
    (folder / "benchmark.yaml").write_text(BENCHMARK)
    with (folder / "stations.csv").open("w") as stations, (folder / "ledger.csv").open("w") as ledger:
        pages, questions = csv.writer(stations), csv.writer(ledger)
        pages.writerow(["name", "text"])
        questions.writerow(["question", "answer", "station"])
        for number, station in enumerate(STATIONS):
            counts = {thing: 11 + 3 * number + place for place, thing in enumerate(THINGS)}
            said = (f"In 1907 the station of {station} had {count} {thing}." for thing, count in counts.items())
            pages.writerow([station, " ".join(said)])
            for thing, count in counts.items():
                question = f"How many {thing} had the station of {station} in 1907?"
                questions.writerow([question, f"{count} {thing}", station])


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A workspace with one benchmark, converted, and no system."""
    workspace = Workspace(tmp_path / "workspace")
    shutil.copytree(REPOSITORY / "data" / "config", workspace.config)
    for name in workspace.systems():
        workspace.system_file(name).unlink()
    (workspace.config / "evaluation_defaults.config.yaml").write_text("measures: [hit@1, hit@5, ndcg@10, mrr]\n")
    write_benchmark(workspace.benchmark(LEDGER).source)
    convert(workspace, LEDGER)
    folder = tmp_path / "night_code"
    folder.mkdir()
    (folder / "night_system.py").write_text(textwrap.dedent(CODE))
    [dataset] = workspace.evaluation_datasets.iterdir()
    gold = {
        query["query_id"]: {"answer": query["ground_truth_answer"], "document": next(iter(query["relevant_documents"]))}
        for query in json.loads(dataset.read_text())["queries"]
    }
    (folder / "gold.json").write_text(json.dumps(gold))
    # Runs are recorded in memory, which is faster; a schedule's tick needs an instance on the disk.
    home = tmp_path / "instance"
    home.mkdir()
    stored = dg.DagsterInstance.local_temp(str(home))
    with dg.DagsterInstance.ephemeral() as instance, stored:
        instance.add_dynamic_partitions(benchmarks.name, [LEDGER])
        world = World(workspace, instance, stored, monkeypatch, folder)
        world.gold = gold
        yield world
