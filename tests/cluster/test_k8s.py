"""The Job that dagster-k8s makes of deploy/k8s/values.yaml, without a cluster.

`Chart` stands for the official chart: it takes each value that the chart's templates read, once, and what is left over
is a key that the chart would ignore without a word. What comes after is real: Dagster reads the instance's settings,
its launcher posts the run's Job to an API server (here one that only keeps what it is sent), and the models of the
kubernetes client refuse fields that Kubernetes does not have.
"""

import json
import threading
from collections.abc import Iterator
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("dagster_k8s", reason="the extra k8s is not installed")
pytest.importorskip("dagster_postgres", reason="the extra postgres is not installed")

import dagster as dg
import kubernetes
import sqlalchemy
import yaml
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.launcher import LaunchRunContext
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster_k8s.models import k8s_model_from_dict, k8s_snake_case_dict
from dagster_postgres.utils import pg_url_from_config

REPOSITORY = Path(__file__).parents[2]
DEPLOYMENT = "dagster-user-deployments/deployments/0"
LAUNCHER = "runLauncher/config/k8sRunLauncher"
QUEUE = "dagsterDaemon/runCoordinator/config/queuedRunCoordinator"


def read_values() -> dict:
    """Return the values; by way of JSON, because an anchor's mapping would be one object in two places."""
    return json.loads(json.dumps(yaml.safe_load((REPOSITORY / "deploy" / "k8s" / "values.yaml").read_text())))


class Chart:
    """The chart's templates as of 1.13, for the release `r` in the namespace `evaluation`."""

    def __init__(self, values: dict) -> None:
        self.left = deepcopy(values)

    def take(self, path: str, default: object = None) -> object:
        """Remove a value and return it."""
        *parents, last = path.split("/")
        tree = self.left
        for name in parents:
            tree = tree[int(name)] if isinstance(tree, list) else tree.get(name, {})
        return tree.pop(last, default)

    def settings(self, path: str, names: dict[str, str]) -> dict:
        """Return the values below a path that are there, in the words of dagster.yaml."""
        found = {theirs: self.take(f"{path}/{ours}") for ours, theirs in names.items()}
        return {name: value for name, value in found.items() if value is not None}

    def instance(self) -> dict:
        """Return dagster.yaml as templates/configmap-instance.yaml has it, but for the databases."""
        assert self.take("runLauncher/type") == "K8sRunLauncher"
        assert self.take("dagsterDaemon/runCoordinator/type") == "QueuedRunCoordinator"
        assert self.take("computeLogManager/type") == "NoOpComputeLogManager"
        assert self.take("retention/enabled")
        parts = {"containerConfig": "container_config", "podSpecConfig": "pod_spec_config"}
        monitoring = {
            "enabled": "enabled",
            "startTimeoutSeconds": "start_timeout_seconds",
            "maxResumeRunAttempts": "max_resume_run_attempts",
            "maxRuntimeSeconds": "max_runtime_seconds",
            "pollIntervalSeconds": "poll_interval_seconds",
        }
        retries = {
            "enabled": "enabled",
            "maxRetries": "max_retries",
            "retryOnAssetOrOpFailure": "retry_on_asset_or_op_failure",
        }
        queue = {
            "maxConcurrentRuns": "max_concurrent_runs",
            "dequeueIntervalSeconds": "dequeue_interval_seconds",
            "tagConcurrencyLimits": "tag_concurrency_limits",
        }
        launcher = {
            "load_incluster_config": False,  # the chart's default is true: in the cluster there is a token
            "kubeconfig_file": "kubeconfig",
            "job_namespace": "evaluation",
            "image_pull_policy": "Always",
            "service_account_name": "r-dagster",
            "dagster_home": "/opt/dagster/dagster_home",
            "instance_config_map": "r-dagster-instance",
            "postgres_password_secret": "dagster-postgresql-secret",
            "run_k8s_config": self.settings(f"{LAUNCHER}/runK8sConfig", parts),
        }
        coordinator = {"module": "dagster._core.run_coordinator", "class": "QueuedRunCoordinator"}
        noop = {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
        return {
            "run_launcher": {"module": "dagster_k8s", "class": "K8sRunLauncher", "config": launcher},
            "run_coordinator": {**coordinator, "config": self.settings(QUEUE, queue)},
            "compute_logs": noop,
            "run_monitoring": self.settings("dagsterDaemon/runMonitoring", monitoring),
            "run_retries": self.settings("dagsterDaemon/runRetries", retries),
            "python_logs": self.settings("pythonLogs", {"pythonLogLevel": "python_log_level"}),
            "retention": {
                "schedule": self.settings("retention/schedule", {"purgeAfterDays": "purge_after_days"}),
                "sensor": self.settings("retention/sensor", {"purgeAfterDays": "purge_after_days"}),
            },
            "telemetry": {"enabled": self.take("telemetry/enabled")},
        }

    def database(self) -> dict:
        """Return `dagsterYaml.postgresql.config`, which the three storages share."""
        database = {"username": "test", "password": "test", "hostname": "r-postgresql", "db_name": "test", "port": 5432}
        return database | self.settings("postgresql", {"postgresqlScheme": "scheme"})

    def code_location(self) -> tuple[str, dict]:
        """Return image and container context of the code location: `dagsterUserDeployments.k8sContainerContext`."""
        one = f"{DEPLOYMENT}/"
        name, env = self.take(one + "name"), self.take(one + "env")
        assert isinstance(env, dict), "as a mapping, the chart makes a ConfigMap of it"
        assert self.take(one + "dagsterApiGrpcArgs") == ["--module-name", "rag_eval_pipeline.definitions"]
        assert self.take(one + "port") == 4000
        assert self.take(one + "includeConfigInLaunchedRuns/enabled") is True
        # These two are of the server's pod alone.
        for field, model in (("podSecurityContext", "V1PodSecurityContext"), ("securityContext", "V1SecurityContext")):
            model_class = getattr(kubernetes.client, model)
            k8s_model_from_dict(model_class, k8s_snake_case_dict(model_class, self.take(one + field)))
        context = {
            "image_pull_policy": self.take(one + "image/pullPolicy"),
            "env_config_maps": [f"r-dagster-user-deployments-{name}-user-env"],
            "env_secrets": [secret["name"] for secret in self.take(one + "envSecrets")],
            "volume_mounts": self.take(one + "volumeMounts"),
            "volumes": self.take(one + "volumes"),
            "resources": self.take(one + "resources", {}),
            "namespace": "evaluation",
            "service_account_name": "r-dagster-user-deployments-user-deployments",
            "run_k8s_config": {"pod_spec_config": {"automount_service_account_token": True}},
        }
        return f"{self.take(one + 'image/repository')}:{self.take(one + 'image/tag')}", {"k8s": context}


def leaves(tree: object, path: tuple = ()) -> Iterator[tuple]:
    """Yield the path of each value that is neither a mapping nor a list."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else None
    if pairs is None:
        yield path
    else:
        for name, value in pairs:
            yield from leaves(value, (*path, name))


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """An API server that keeps the Jobs that it is sent, and the kubeconfig that names it."""
    jobs: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.path == "/apis/batch/v1/namespaces/evaluation/jobs", self.path
            body = self.rfile.read(int(self.headers["Content-Length"]))
            jobs.append(json.loads(body))
            self.send_response(201)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    one = {"name": "one"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{**one, "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{**one, "user": {}}],
        "contexts": [{**one, "context": {"cluster": "one", "user": "one"}}],
        "current-context": "one",
    }
    path = tmp_path_factory.mktemp("kubernetes") / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    yield SimpleNamespace(jobs=jobs, kubeconfig=path)
    server.shutdown()
    thread.join()
    server.server_close()


def launch(values: dict, api, home: Path) -> SimpleNamespace:
    """Launch a run in an instance of these values and return its Job as it was sent; refuse what nobody reads."""
    chart = Chart(values)
    settings, database = chart.instance(), chart.database()
    image, context = chart.code_location()
    unread = ["/".join(map(str, path)) for path in leaves(chart.left)]
    assert not unread, f"the chart reads none of these: {unread}"
    assert not {value["name"] for value in context["k8s"]["volume_mounts"]} - {
        value["name"] for value in context["k8s"]["volumes"]
    }
    settings["run_launcher"]["config"]["kubeconfig_file"] = str(api.kubeconfig)
    settings["storage"] = {"sqlite": {"base_dir": str(api.kubeconfig.parent)}}  # made once
    home.mkdir()
    (home / "dagster.yaml").write_text(yaml.safe_dump(settings))
    pointer = ModuleCodePointer("rag_eval_pipeline.definitions", "defs")
    repository = RepositoryPythonOrigin("python", pointer, image, ["dagster"], context)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        run = dg.DagsterRun(job_name="evaluate", job_code_origin=JobPythonOrigin("evaluate", repository))
        instance.add_run(run)
        instance.run_launcher.launch_run(LaunchRunContext(run, None))
        queue = instance.run_coordinator
    job = kubernetes.client.ApiClient().deserialize(SimpleNamespace(data=json.dumps(api.jobs[-1])), "V1Job")
    return SimpleNamespace(job=job, body=api.jobs[-1], queue=queue, settings=settings, database=database)


@pytest.fixture(scope="module")
def launched(api, tmp_path_factory):
    return launch(read_values(), api, tmp_path_factory.mktemp("instance") / "home")


def test_run_has_the_image_the_volumes_and_the_secrets_of_its_code_location(launched):
    pod = launched.job.spec.template.spec
    [container] = pod.containers

    assert container.image == "registry.example.com/rag-eval-pipeline:0.1.0-k8s"
    assert container.image_pull_policy == "IfNotPresent"
    assert {mount.name: mount.mount_path for mount in container.volume_mounts} == {
        "workspace": "/workspace",
        "tmp": "/tmp",
    }
    workspace, tmp = pod.volumes
    assert workspace.persistent_volume_claim.claim_name == "rag-eval-workspace"
    assert tmp.empty_dir.size_limit == "2Gi"
    sources = [source.config_map_ref or source.secret_ref for source in container.env_from]
    assert [source.name for source in sources] == [
        "r-dagster-user-deployments-rag-eval-pipeline-user-env",
        "rag-eval-secrets",
    ]
    [password] = [variable for variable in container.env if variable.name == "DAGSTER_PG_PASSWORD"]
    assert password.value_from.secret_key_ref.name == "dagster-postgresql-secret"


def test_run_is_confined_and_limited_and_the_code_location_confined_alike(launched):
    pod = launched.job.spec.template.spec
    [container] = pod.containers
    security = container.security_context

    assert (pod.security_context.run_as_non_root, pod.security_context.run_as_user) == (True, 1000)
    assert pod.security_context.fs_group_change_policy == "OnRootMismatch"
    assert security.read_only_root_filesystem is True
    assert security.allow_privilege_escalation is False
    assert security.capabilities.drop == ["ALL"]
    assert (security.seccomp_profile.type, security.seccomp_profile.localhost_profile) == ("Localhost", "rag-eval.json")
    sent = launched.body["spec"]["template"]["spec"]
    [deployment] = read_values()["dagster-user-deployments"]["deployments"]
    assert deployment["podSecurityContext"] == sent["securityContext"]
    assert deployment["securityContext"] == sent["containers"][0]["securityContext"]
    assert container.resources.limits == {"memory": "6Gi"}
    assert container.resources.requests == {"cpu": "1", "memory": "2Gi"}


def test_run_has_time_to_record_an_interruption_and_is_retried_by_dagster_alone(launched):
    pod = launched.job.spec.template.spec

    assert pod.termination_grace_period_seconds == 60
    assert pod.restart_policy == "Never"
    assert launched.job.spec.backoff_limit == 0


def test_run_brings_the_settings_of_its_instance_with_it(launched):
    """No ConfigMap is mounted in a run's pod: the command has the whole instance."""
    [container] = launched.job.spec.template.spec.containers

    assert container.args[:3] == ["dagster", "api", "execute_run"]
    assert "K8sRunLauncher" in container.args[3]
    assert "poll_interval_seconds" in container.args[3]


def test_driver_of_the_database_is_installed(launched):
    url = pg_url_from_config({"postgres_db": launched.database})

    assert sqlalchemy.create_engine(url).driver == "psycopg2"


def test_every_field_of_the_job_is_one_that_kubernetes_has(launched):
    assert kubernetes.client.ApiClient().sanitize_for_serialization(launched.job) == launched.body


def test_instance_queues_and_retries_as_on_one_machine(launched):
    local = yaml.safe_load((REPOSITORY / "dagster.yaml").read_text())
    cluster = launched.settings

    assert (
        launched.queue.get_run_queue_config().tag_concurrency_limits
        == (local["concurrency"]["runs"]["tag_concurrency_limits"])
    )
    assert cluster["run_retries"] == local["run_retries"]
    assert local["run_monitoring"].items() <= cluster["run_monitoring"].items()
    assert cluster["python_logs"] == local["python_logs"]
    assert cluster["telemetry"] == local["telemetry"]


def test_a_misspelled_value_is_noticed(api, tmp_path):
    """Each key but those of free text, in turn; the chart itself ignores most of them."""
    values = read_values()
    keys = {path[: end + 1] for path in leaves(values) for end, name in enumerate(path) if isinstance(name, str)}
    unnoticed = []
    free = {"env", "limits", "requests"}  # names of variables, and of resources that a node may offer
    for number, path in enumerate(sorted((path for path in keys if not free & set(path[:-1])), key=str)):
        wrong = deepcopy(values)
        tree = wrong
        for name in path[:-1]:
            tree = tree[name]
        tree[f"{path[-1]}s"] = tree.pop(path[-1])
        try:
            launch(wrong, api, tmp_path / str(number))
        except Exception:
            continue
        unnoticed.append("/".join(map(str, path)))

    assert unnoticed == []
