"""Conventions of the code that a reader cannot check at a glance."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

HEAVY = {"apprise", "dagster", "duckdb", "pandas", "playwright", "pypdfium2", "scipy", "tantivy"}
ARROW = {"numpy", "pyarrow"}
NEW = ("init", "new", "--from", "data/sources/skarn-railway/questions.jsonl")
# Processes -> the commands on an evaluated benchmark that they run in turn, and the packages that these and those before
# them have no use for.
UNUSED_BY = {
    "what is only looked at": {
        ("list",): {*HEAVY, *ARROW, "httpx", "rich"},
        ("status",): {*HEAVY, "httpx", "rich"},
        ("history",): {*HEAVY, "httpx", "rich"},
        ("recipes",): {*HEAVY, "httpx", "rich"},
        ("score", "--qrels", "qrels.test", "--run", "results.test"): {*HEAVY, "httpx", "rich"},
        NEW: {*HEAVY, "httpx", "rich"},
        ("plan", "skarn-railway"): {*HEAVY, "httpx", "rich"},
        ("leaderboard",): {*HEAVY, "httpx"},
        ("compare", "EVALUATION", "EVALUATION"): {*HEAVY, "httpx"},
    },
    "what is asked and converted": {
        ("audit", "skarn-railway"): {*HEAVY, "httpx", "rich"} - {"tantivy"},
        ("system", "probe", "embedded"): {*HEAVY, "httpx", "rich"} - {"tantivy"},
        ("convert", "skarn-railway"): HEAVY - {"tantivy", "playwright"},
    },
}  # fmt: skip
PACKAGE = REPOSITORY / "rag_eval_pipeline"
MODULES = sorted(PACKAGE.rglob("*.py"))
IMPORT = re.compile(r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w.]*(?: as \w+)?$)", re.MULTILINE)
RUN = """
import json, sys
from rag_eval_pipeline.cli import main
loaded = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["rag-eval", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
    loaded.append(sorted({name.partition(".")[0] for name in sys.modules}))
print(json.dumps(loaded))
"""


def printed_by(code: str, *arguments: str, cwd: Path = REPOSITORY) -> str:
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, cwd=cwd, env=environment
    )
    return result.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("module", "heavy"), [("", set()), (".definitions", {"dagster"})], ids=["package", "definitions"]
)
def test_package_and_definitions_load_without_heavy_packages(module, heavy):
    modules = printed_by(f"import rag_eval_pipeline{module}, sys\nprint(*sys.modules)").split()

    assert {name.partition(".")[0] for name in modules} & (HEAVY | {"pyarrow"}) == heavy


def test_help_loads_without_heavy_packages():
    code = "from typer.testing import CliRunner; from rag_eval_pipeline.cli import app; import sys\n"
    code += "assert CliRunner().invoke(app, ['--help']).exit_code == 0\nprint(*sys.modules)"
    loaded = {name.partition(".")[0] for name in printed_by(code).split()}

    assert loaded.isdisjoint({*HEAVY, *ARROW, "msgspec", "pydantic", "rich"})


@pytest.mark.parametrize("commands", UNUSED_BY.values(), ids=UNUSED_BY)
def test_commands_load_no_package_that_they_have_no_use_for(commands, evaluated):
    [newest, *_] = sorted(path.name for path in evaluated.runs.glob("eval_run_*"))
    for file in ("qrels.test", "results.test"):
        shutil.copy(REPOSITORY / "tests" / "oracles" / "trec_eval" / file, evaluated.root)
    words = [[newest if word == "EVALUATION" else word for word in command] for command in commands]
    loaded = json.loads(printed_by(RUN, json.dumps(words), cwd=evaluated.root))

    found = {
        command: unused.intersection(names) for (command, unused), names in zip(commands.items(), loaded, strict=True)
    }
    assert found == dict.fromkeys(commands, set())


def test_report_of_what_has_not_changed_loads_nothing_that_makes_one(evaluated):
    # The first one of a deterministic system pins its baseline, which the second one is made from.
    first = json.loads(printed_by(RUN, '[["report"], ["report"]]', cwd=evaluated.root))[-1]
    again = json.loads(printed_by(RUN, '[["report"]]', cwd=evaluated.root))[-1]

    unused = {*HEAVY, "httpx", "jinja2"}
    assert "jinja2" in first
    assert unused.intersection(again) == set()


@pytest.mark.fault(63)
def test_durations_are_measured_by_a_clock_that_nobody_sets():
    asking = [path.name for path in MODULES if re.search(r"(?<!date)time\.time\(", path.read_text())]

    assert asking == ["browser.py"]  # compares with the times of files


def test_parquet_files_are_read_by_files_of_arrow_as_its_threads_may_outlive_python():
    reading = [path.name for path in MODULES if "ParquetFile(" in path.read_text()]

    assert sorted(reading) == ["parquet.py", "parquet_files.py"]  # the first reads a source, in a process of its own


def test_each_dependency_is_imported_and_each_package_imported_is_a_dependency():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    named, of_extra = (
        {re.split(r"[=<>~\[ ]", line, maxsplit=1)[0].lower() for line in lines}
        for lines in (
            project["dependencies"],
            [line for extra in ("nli", "celery") for line in project["optional-dependencies"][extra]],
        )
    )
    of_extra = {name.replace("-", "_") for name in of_extra} - {"redis"} | {"celery"}  # Celery loads redis by its URLs
    own = {*sys.stdlib_module_names, PACKAGE.name, "pydantic_core"}  # pydantic requires one version of its core
    imported = set().union(*(imported_by(path) for path in MODULES)) - own
    assert of_extra <= imported  # they are imported as they are called, and are not installed here
    imported -= of_extra
    distributions = {name: {one.lower() for one in found} for name, found in packages_distributions().items()}

    assert {name for name in imported if not distributions.get(name, set()) & named} == set()
    assert named - set().union(*(distributions[name] for name in imported)) == {
        "dagster-webserver",  # `rag-eval up` starts it
        "sniffio",  # httpcore imports it at each request
    }


def imported_by(path: Path) -> set[str]:
    """Return the top-level packages that a module imports, in functions too."""
    return {one or other for one, other in IMPORT.findall(path.read_text())}


def test_dagster_is_imported_where_it_is_defined_served_and_launched_only():
    importing = [path for path in MODULES if "dagster" in imported_by(path)]

    assert [
        path
        for path in importing
        if path.parent.name not in ("defs", "serving", "celery") and path.name != "definitions.py"
    ] == []
