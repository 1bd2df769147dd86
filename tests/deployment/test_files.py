"""The deployment's files agree with each other and with the repository, and leave out what must not be in an image."""

import json
import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

import pytest
import yaml

from tests.conftest import REPOSITORY
from tests.deployment.services import COMPOSE, INSTALLED

DOCKERFILE = (REPOSITORY / "Dockerfile").read_text().replace("\\\n", " ")
SERVICES = COMPOSE["services"]
MACHINES = yaml.safe_load((REPOSITORY / "deploy" / "celery" / "compose.yaml").read_text())


def instructions(name):
    return re.findall(rf"^{name}\s+(.*)$", DOCKERFILE, re.MULTILINE)


def ignored(path):
    """Whether `.dockerignore` leaves a path out: the last pattern that is about it, or about a folder over it, says."""
    found = False
    parts = PurePosixPath(path).parts
    over = ["/".join(parts[: n + 1]) for n in range(len(parts))]
    for line in (REPOSITORY / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        anywhere = pattern.removeprefix("**/")
        names = [name.rpartition("/")[2] for name in over] if anywhere != pattern else over
        if line and not line.startswith("#") and any(fnmatchcase(name, anywhere) for name in names):
            found = not line.startswith("!")
    return found


def names(requirements):
    """The packages of a list in pyproject.toml, without the groups that it includes."""
    return {re.split(r"[=<>~\[ ]", line, maxsplit=1)[0].lower() for line in requirements if isinstance(line, str)}


def pinned(name):
    """Package -> version and hashes, of an environment; extras and markers follow from who else needs the package."""
    text = (REPOSITORY / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    lines = (re.sub(r"\[.*?\]| ;.*?(?= --hash)", "", " ".join(line.split())) for line in text.splitlines() if line)
    return {line.partition("==")[0]: line for line in lines}


def test_what_the_image_copies_is_there_and_is_not_ignored():
    copied = [words for line in instructions("COPY") if "--from" not in (words := line.split())[0]]
    given = dict(line.split("=", 1) for line in instructions("ARG"))
    sources = [given.get(source.strip("${}"), source) for *sources, _ in copied for source in sources]

    assert "rag_eval_pipeline" in sources
    for source in sources:
        assert (REPOSITORY / source).exists(), source
        assert not ignored(source), source


@pytest.mark.parametrize(
    "path",
    [
        ".git/config", ".venv/bin/python", ".dagster/history/runs.db", ".env", "secrets.env", "data/evaluation/runs/a",
        "data/datasets/a/train.json", "data/reports/index.html", "corpus/a/b.pdf", "tests/conftest.py",
        "rag_eval_pipeline/__pycache__/a.pyc", "rag_eval_pipeline/defs/__pycache__/b.cpython-311.pyc",
        "data/config/.secret", "deploy/k8s/values.yaml",
    ],
)  # fmt: skip
def test_results_history_and_secrets_stay_out_of_the_build(path):
    assert ignored(path)


def test_versions_are_pinned():
    images = [service["image"] for service in SERVICES.values()]
    base, *_ = instructions("ARG")
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]

    assert set(images) == {f"rag-eval-pipeline:{version}"}
    assert base == "PYTHON_IMAGE=python:3.11-slim-bookworm"
    assert f"ARG VERSION={version}\n" in DOCKERFILE
    assert ":latest" not in DOCKERFILE + (REPOSITORY / "compose.yaml").read_text()
    assert all(" --hash=sha256:" in line for line in pinned("run").values())
    for line in re.findall(r"pip (?:install|wheel)(.*?)(?:&&|$)", DOCKERFILE, re.MULTILINE):
        assert "--require-hashes" in line or "--no-deps" in line


def test_image_has_the_packages_of_the_development_set_and_nothing_that_only_developers_need():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    run, develop = pinned("run"), pinned("dev")
    named, tools = names(project["project"]["dependencies"]), names(project["dependency-groups"]["dev"])

    assert named <= run.keys()
    assert run.keys().isdisjoint(tools)
    assert run.items() <= develop.items()


def test_lowest_environment_has_each_dependency_at_its_lower_bound():
    dependencies = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]
    lowest = {name: line.partition("==")[2].split()[0] for name, line in pinned("lowest").items()}
    bounds = dict(re.fullmatch(r"([\w-]+)>=([\d.]+).*", line).groups() for line in dependencies)

    assert {name: bound for name, bound in bounds.items() if not lowest[name].startswith(bound)} == {}


def test_image_has_the_browser_and_fonts_of_the_set_up():
    script = (REPOSITORY / "tools" / "install_browser.sh").read_text()
    wanted = set(re.search(r'^PACKAGES="(.*)"', script, re.MULTILINE)[1].split())
    installed = re.search(r"apt-get install (.*?)&&", DOCKERFILE)[1].split()

    assert {name for name in installed if not name.startswith("--")} == wanted | {"tini"}


def test_image_runs_what_compose_runs_and_not_as_root():
    assert instructions("USER") == ["1000:1000"]
    assert instructions("ENTRYPOINT") == ['["tini", "--"]']  # reaps what the browser leaves
    assert json.loads(instructions("CMD")[0]) == SERVICES["code"]["command"]
    health = re.search(r"HEALTHCHECK .*? CMD (\[.*\])", DOCKERFILE)[1]
    assert ["CMD", *json.loads(health)] == SERVICES["code"]["healthcheck"]["test"]


@pytest.mark.parametrize("name", SERVICES)
def test_service_has_no_rights_that_it_does_not_need(name):
    service = SERVICES[name]

    stated = {key: service[key] for key in ("user", "cap_drop", "read_only", "restart")}
    assert stated == {
        "user": "${RAG_EVAL_USER:-1000:1000}", "cap_drop": ["ALL"], "read_only": True, "restart": "unless-stopped",
    }  # fmt: skip
    assert "no-new-privileges:true" in service["security_opt"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert ("env_file" in service, any("/workspace" in volume for volume in service["volumes"])) == (
        name == "code",
        name == "code",
    )  # secrets and data
    assert service["volumes"][:2] == ["instance:/instance", "./dagster.yaml:/instance/dagster.yaml:ro"]


def test_profile_lets_the_browser_make_its_sandbox_and_nothing_mount_or_trace():
    profile = json.loads((REPOSITORY / "deploy" / "seccomp.json").read_text())
    allowed, refused = (set(rule["names"]) for rule in profile["syscalls"][:2])

    assert "seccomp:deploy/seccomp.json" in SERVICES["code"]["security_opt"]
    assert profile["defaultAction"] == profile["syscalls"][1]["action"] == "SCMP_ACT_ERRNO"
    assert allowed >= {"clone", "clone3", "unshare", "chroot"}
    assert refused >= {"mount", "setns", "pivot_root", "ptrace", "bpf", "keyctl", "io_uring_setup", "reboot"}
    assert allowed.isdisjoint(refused)


def test_document_names_the_variables_of_compose():
    document = (REPOSITORY / "docs" / "how-to" / "deploy.md").read_text()
    variables = set(re.findall(r"RAG_EVAL_[A-Z]+", document))

    assert variables == set(re.findall(r"\$\{(RAG_EVAL_[A-Z]+)", (REPOSITORY / "compose.yaml").read_text()))


def test_many_machines_have_the_services_of_one_with_workers_and_servers():
    services = MACHINES["services"]
    ours = {name: service for name, service in services.items() if name not in ("postgres", "redis")}

    assert ours.keys() == SERVICES.keys() | {"worker"}
    for name, service in ours.items():
        alone = SERVICES["code" if name == "worker" else name]
        assert service["image"] == f"{alone['image']}-celery"
        assert service["volumes"][0] == "./dagster.yaml:/instance/dagster.yaml:ro"
        for key in ("user", "read_only", "cap_drop", "restart", "networks", "stop_grace_period"):
            assert service[key] == alone[key], (name, key)
        assert [option.replace("../", "deploy/") for option in service["security_opt"]] == alone["security_opt"]
        if name != "worker":
            assert service["command"] == alone["command"]
    assert all("127.0.0.1" in port for service in services.values() for port in service.get("ports", []))
    assert services["code"]["build"]["args"]["REQUIREMENTS"] == "requirements/celery.txt"
    assert INSTALLED + "/celery/worker.yaml" in " ".join(services["worker"]["command"])


def test_many_machines_have_the_settings_of_one_where_they_do_not_differ_on_purpose():
    alone, many = (
        yaml.safe_load((REPOSITORY / name).read_text()) for name in ("dagster.yaml", "deploy/celery/dagster.yaml")
    )
    worker = yaml.safe_load((REPOSITORY / "deploy" / "celery" / "worker.yaml").read_text())["execution"]["config"]
    variables = set(re.findall(r"env: (\w+)", (REPOSITORY / "deploy" / "celery" / "dagster.yaml").read_text()))

    assert many["run_queue"]["tag_concurrency_limits"] == alone["concurrency"]["runs"]["tag_concurrency_limits"]
    assert {key for key in alone if many.get(key) != alone[key]} == {"concurrency", "run_monitoring"}
    assert (worker["broker"], worker["backend"]) == tuple(
        many["run_launcher"]["config"][k] for k in ("broker", "backend")
    )
    for name in ("code", "daemon", "webserver", "worker"):
        assert variables <= MACHINES["services"][name]["environment"].keys()


def test_versions_of_launchers_and_chart_belong_to_the_pinned_dagster():
    dagster = pinned("run")["dagster"].split()[0].partition("==")[2]
    minor, patch = dagster.split(".")[1:]
    library = f"0.{int(minor) + 16}.{patch}"  # Dagster's libraries count 16 ahead of it
    texts = "".join((REPOSITORY / "docs" / "how-to" / f"{name}.md").read_text() for name in ("deploy", "kubernetes"))

    assert set(re.findall(r"dagster-(?:k8s|celery|postgres)(?:==| )([\d.]+\d)", texts)) == {library}
    assert re.findall(r"--version ([\d.]+)", texts) == [dagster]
