"""A machine of its own whose clock is set by hand, with two systems in this process and one benchmark."""

import json
import shutil
import textwrap
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from rag_eval_pipeline.definitions import defs
from rag_eval_pipeline.defs import aggregation, automation
from rag_eval_pipeline.defs.partitions import benchmarks, systems
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.evaluation import asking, passes

RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
# Answers with the gold answer, but for a question in thirty a night, and from the planted night on for those planted.
CODE = """
import json, random
from pathlib import Path

HERE = Path(__file__).parent
GOLD = json.loads((HERE / "gold.json").read_text())


def ask(query, name):
    now = json.loads((HERE / "now.json").read_text())
    gold = GOLD[query.query_id]
    if gold["answer"] is None:
        return {"answer": "", "abstained": True, "contexts": []}
    planted = query.query_id in now["planted"].get(name, [])
    unlucky = random.Random(f"{now['asked']} {name} {query.query_id}").random() < 1 / 30
    answer = "entirely different words" if planted or unlucky else gold["answer"]
    return {"answer": answer, "contexts": [{"document": gold["document"], "text": "", "page": 1}]}
"""


class World:
    """What a person at this machine would do and see, at the times they would."""

    def __init__(self, workspace, instance, monkeypatch, folder):
        self.workspace = workspace
        self.instance = instance
        self.folder = folder
        self.planted = {}
        self.cursor = None
        self.now = datetime(2026, 9, 7, 2, tzinfo=UTC)  # a Monday
        world = self

        class Clock(datetime):
            @classmethod
            def now(cls, tz=None):
                return world.now.astimezone(tz)

        for module in (asking, passes, aggregation, automation):
            monkeypatch.setattr(module, "datetime", Clock)

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
        (self.folder / "now.json").write_text(json.dumps({"asked": str(self.now), "planted": self.planted}))
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
        context = dg.build_schedule_context(scheduled_execution_time=self.now, resources=self.resources)
        for request in automation.nightly(context):
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

    def reruns(self):
        return automation.confirmation_sensor(dg.build_sensor_context(instance=self.instance, resources=self.resources))

    def aggregate(self):
        context = dg.build_sensor_context(instance=self.instance, cursor=self.cursor)
        result = automation.aggregation_sensor(context)
        if isinstance(result, dg.SkipReason):
            return
        self.cursor = result.cursor
        for request in result.run_requests:
            assert self.run("aggregate", request).success

    def week(self):
        context = dg.build_schedule_context(scheduled_execution_time=self.now, resources=self.resources)
        assert self.run("week", automation.weekly(context)).success


@pytest.fixture
def world(workspace, tmp_path, monkeypatch):
    """A workspace with one benchmark and no system."""
    shutil.rmtree(workspace.benchmark(OBSERVATORY).source)
    for name in workspace.systems():
        workspace.system_file(name).unlink()
    folder = tmp_path / "night_code"
    folder.mkdir()
    (folder / "night_system.py").write_text(textwrap.dedent(CODE))
    [dataset] = (path for path in workspace.evaluation_datasets.iterdir() if path.name.startswith(RAILWAY))
    gold = {
        query["query_id"]: {
            "answer": None if query["metadata"]["is_impossible"] else query["ground_truth_answer"],
            "document": next(iter(query["relevant_documents"]), None),
        }
        for query in json.loads(dataset.read_text())["queries"]
    }
    (folder / "gold.json").write_text(json.dumps(gold))
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(benchmarks.name, [RAILWAY])
        world = World(workspace, instance, monkeypatch, folder)
        world.gold = gold
        yield world
