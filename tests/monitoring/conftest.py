"""A service over HTTP with a pinned baseline, evaluated once for all modules."""

import shutil
from collections import Counter

import pytest
import yaml

from rag_eval_pipeline import clock
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.monitoring.baselines import pin
from rag_eval_pipeline.workspace import Workspace
from tests.json_server import json_server

RAILWAY, RUNS = "skarn-railway", 5


class Service:
    """Answers each question right unless `is_wrong` of its number, from 1; counts what it is asked."""

    def __init__(self, root):
        self.root = root
        self.gold = {
            one.query_text: one.accepted_answers[0]
            for one in load_pair(Workspace(root), RAILWAY, "embedded").queries
            if one.accepted_answers
        }
        self.reset()

    def reset(self):
        self.asked = Counter()
        self.is_wrong = lambda number: False
        self.status = 200
        self.status_of = lambda number: self.status

    def answer(self, path, body):
        question = body["question"]
        self.asked[question] += 1
        number = len(self.asked)
        is_wrong = self.is_wrong(number)
        return self.status_of(number), {
            "answer": "something else" if is_wrong else self.gold.get(question, "not known")
        }


@pytest.fixture(scope="session")
def evaluated_service(_converted, tmp_path_factory):
    """A service with a pinned baseline of the railway's 40 questions."""
    root = tmp_path_factory.mktemp("canary") / "workspace"
    shutil.copytree(_converted, root, symlinks=True)
    workspace, service = Workspace(root), Service(root)
    with json_server(service.answer) as server:
        settings = {
            "endpoint": {"base_url": server.url, "in_flight": 8, "max_retries": 0},
            "path": "/ask",
            "body": {"question": "{question}"},
            "answer": "answer",
        }
        workspace.system_file("own").write_text(yaml.safe_dump({"kind": "http", "settings": settings}))
        for _ in range(RUNS):
            evaluate(workspace, load_pair(workspace, RAILWAY, "own"))
        pin(workspace, RAILWAY, "own", now=clock.now())
        yield service


@pytest.fixture
def service(evaluated_service):
    evaluated_service.reset()
    return evaluated_service


@pytest.fixture
def served(service, tmp_path):
    """A workspace of one's own with the service as the system `own`."""
    root = tmp_path / "workspace"
    shutil.copytree(service.root, root, symlinks=True)
    return Workspace(root)
