"""Standard output carries the result alone, whatever a user's code and the libraries under it print."""

import json
import os
import subprocess
import sys

import pytest

OBSERVATORY = "cairnmoor-observatory"
PRINTING = """
import ctypes
import os
import subprocess
import sys

def say(where):
    print(f"print in {where}")
    sys.__stdout__.write(f"the first stdout in {where}\\n")
    os.write(1, f"descriptor in {where}\\n".encode())
    subprocess.run(["echo", f"child in {where}"], check=True)
    ctypes.CDLL(None).printf(f"C in {where}\\n".encode())
"""
SYSTEM = (
    PRINTING
    + """
say("the module")

def answer(question):
    say("the system")
    return "It is 4."
"""
)
METRIC = (
    PRINTING
    + """
from rag_eval_pipeline.metrics.custom import MetricInfo, QuestionMetric

def score(question):
    say("the metric")
    return 1.0

LOUD = QuestionMetric(
    MetricInfo("loud", "Of a test.", "here", ("answer",), ("question",), category="answers"), score
)
"""
)
WAYS = ("print", "the first stdout", "descriptor", "child", "C")


@pytest.fixture
def rag_eval(workspace):
    """Runs a command in a process of its own, with pipes for its standard output and error."""
    code = workspace.config / "systems"
    (code / "loud_system.py").write_text(SYSTEM)
    (code / "loud_metric.py").write_text(METRIC)
    workspace.system_file("loud").write_text("kind: python\nsettings: {callable: 'loud_system:answer', path: [.]}\n")
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}

    def run(*arguments):
        command = [sys.executable, "-m", "rag_eval_pipeline.cli", *arguments, "--workspace", str(workspace.root)]
        environment["PYTHONPATH"] = str(code)
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    return run


def heard(done, where):
    return {way for way in WAYS if f"{way} in {where}" in done.stderr}


def test_system_and_a_metric_that_print_leave_json_alone(rag_eval, workspace):
    defaults = workspace.defaults_config
    defaults.write_text(defaults.read_text() + "custom_metrics: ['loud_metric:LOUD']\n")
    evaluated = rag_eval("evaluate", OBSERVATORY, "--system", "loud", "--json")
    defaults.write_text(defaults.read_text().replace("tolerance_chars: 10", "tolerance_chars: 3"))
    rescored = rag_eval("rescore", OBSERVATORY, "loud", "--json")

    assert (evaluated.returncode, json.loads(evaluated.stdout)[0]["counts"]["asked"]) == (0, 16)
    assert (
        heard(evaluated, "the system") == heard(evaluated, "the module") == heard(evaluated, "the metric") == set(WAYS)
    )
    assert len(json.loads(rescored.stdout)) == 1
    assert heard(rescored, "the metric") == set(WAYS)


def test_reader_that_goes_away_is_no_error(workspace):
    command = f"{sys.executable} -m rag_eval_pipeline.cli doctor --only date --workspace {workspace.root} --json | true"

    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_closed_standard_error_is_no_error(workspace):
    command = f"{sys.executable} -m rag_eval_pipeline.cli doctor --only date --workspace {workspace.root} --json 2>&-"

    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)

    assert (done.returncode, json.loads(done.stdout)[0]["name"]) == (0, "date")
