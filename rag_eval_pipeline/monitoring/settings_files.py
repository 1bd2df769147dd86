"""Settings files, each read as the pipeline reads it: for `rag-eval validate`, `status` and Dagster's check."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pydantic

from rag_eval_pipeline.conversion.benchmark_spec import read_spec
from rag_eval_pipeline.conversion.shard_plan import read_conversion_settings
from rag_eval_pipeline.errors import InputError, unknown_name_hint
from rag_eval_pipeline.evaluation.evaluation_settings import merged_settings
from rag_eval_pipeline.formats.model import Model, bad_format, read_model
from rag_eval_pipeline.monitoring.alert_files import read_alert_settings
from rag_eval_pipeline.monitoring.verdict_settings import read_verdict_settings
from rag_eval_pipeline.storage.yaml_files import read_settings
from rag_eval_pipeline.systems.config import read_system_file
from rag_eval_pipeline.web.egress import read_egress_config
from rag_eval_pipeline.workspace import Workspace

RETENTION_FILE = "retention.config.yaml"
LEAST_DAYS = 30  # the specification asks for 30 days of history


class RetentionSettings(Model):
    """`data/config/retention.config.yaml`: how long things are kept; null keeps them for ever."""

    evaluation_days: int | None = pydantic.Field(
        30, ge=LEAST_DAYS, description="Days that answers and scores of an evaluation are kept."
    )
    results_days: int | None = pydantic.Field(
        None,
        ge=LEAST_DAYS,
        description="Days that results files and their history tables are kept after "
        "the evaluation's folder was removed.",
    )
    download_days: int | None = pydantic.Field(
        30, ge=1, description="Days that downloads are kept once no benchmark names them."
    )
    judgement_days: int | None = pydantic.Field(
        90, ge=1, description="Days that replies of judges are kept after their last use."
    )
    runs: int | None = pydantic.Field(
        90, ge=LEAST_DAYS, description="Days that Dagster's runs are kept; the newest of each partition is always kept."
    )
    judgement_mb: int | None = pydantic.Field(2048, ge=1, description="Maximum size of the kept replies in MB.")


def read_retention_settings(workspace: Workspace) -> RetentionSettings:
    """Read the settings; the defaults if there is no file."""
    return read_model(RetentionSettings, workspace.config / RETENTION_FILE)


AB_FILE = "ab_testing_config.config.yaml"


class AbTest(Model):
    """Two systems to be compared."""

    a: str = pydantic.Field(description="The system that is compared with.")
    b: str = pydantic.Field(description="The system in question.")
    benchmarks: tuple[str, ...] = pydantic.Field(("*",), description="Globs of the benchmarks that count.")


class AbSettings(Model):
    """`data/config/ab_testing_config.config.yaml`."""

    tests: tuple[AbTest, ...] = pydantic.Field((), description="A/B tests; each writes one results file.")


def read_ab_tests(workspace: Workspace, config: Path | None = None) -> tuple[AbTest, ...]:
    """Read the configured tests; errors as for `run_ab_tests`."""
    path = config or workspace.config / AB_FILE
    has_file = config is not None or path.exists()
    try:
        tests = AbSettings.model_validate(read_settings(path)).tests if has_file else ()
    except pydantic.ValidationError as error:
        raise bad_format(path, error, AbSettings) from error
    if not tests:
        hint = "Name two systems in this file: `tests: [{a: old-rag, b: my-rag}]`"
        raise InputError("no_ab_tests", path, "one test or more under `tests`", hint=hint)
    known = workspace.systems()
    for number, test in enumerate(tests):
        for side in (test.a, test.b):
            if side not in known:
                hint = unknown_name_hint(side, known, "systems")
                raise InputError("no_system", path, "a system", field=f"tests[{number}]", found=side, hint=hint)
    return tests


def _alert_settings(workspace: Workspace) -> None:
    fault = read_alert_settings(workspace).fault
    if fault is not None:
        raise fault


SPEC = "benchmark.yaml"
DEFAULTS = "evaluation_defaults.config.yaml"
READERS: dict[str, Callable[[Workspace], object]] = {
    "alerts.config.yaml": _alert_settings,
    "conversion.config.yaml": read_conversion_settings,
    "egress.config.yaml": lambda workspace: read_egress_config(workspace.egress_config),
    RETENTION_FILE: read_retention_settings,
    "verdicts.config.yaml": read_verdict_settings,
    AB_FILE: read_ab_tests,
    DEFAULTS: lambda workspace: merged_settings(workspace, {}, {}, of="all pairs"),
}


def check_settings(path: Path) -> None:
    """Read a settings file of a workspace.

    Args:
        path: Of `data/config/*.config.yaml`, a system's file below it, or a benchmark's `benchmark.yaml`.

    Raises:
        InputError: `unknown_form` for another file, `missing_file`, or what is wrong with it.
    """
    file = path.resolve()
    if not file.is_file():
        raise InputError("missing_file", path, "a file")
    above = [*file.parents, *[Path("/")] * 3]
    config, source = Workspace(above[2]).config, Workspace(above[3])
    if file.name == SPEC and file.parent.parent == source.sources:
        read_spec(source.benchmark(file.parent.name))
    elif file.parent == Workspace(above[3]).config / "systems":
        read_system_file(file)
    elif file.parent == config and file.name in READERS:
        READERS[file.name](Workspace(above[2]))
    else:
        hint = f"Known in data/config: {', '.join(READERS)} and systems/*.config.yaml; in data/sources: */{SPEC}."
        raise InputError("unknown_form", path, "a settings file in its place in a workspace", hint=hint)


def settings_faults(workspace: Workspace) -> Iterator[str]:
    """Yield a line for each settings file of a workspace that cannot be read; pairs say what is wrong with theirs."""
    for name, read in READERS.items():
        if name != DEFAULTS and (workspace.config / name).exists():
            try:
                read(workspace)
            except InputError as error:
                yield str(error).removeprefix(f"{workspace.root}/")
