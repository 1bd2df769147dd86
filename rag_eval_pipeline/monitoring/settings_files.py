"""Settings files, each read as the pipeline reads it: for `rag-eval validate`, `status` and Dagster's check."""

from collections.abc import Callable, Iterator
from pathlib import Path

from rag_eval_pipeline.conversion.benchmark_spec import read_spec
from rag_eval_pipeline.conversion.shards import read_conversion_settings
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.evaluation_settings import merged_settings
from rag_eval_pipeline.monitoring.alert_files import read_alert_settings
from rag_eval_pipeline.monitoring.comparison import read_verdict_settings
from rag_eval_pipeline.monitoring.retention import read_retention_settings
from rag_eval_pipeline.monitoring.weekly import AB_FILE, read_ab_tests
from rag_eval_pipeline.systems.config import read_system_file
from rag_eval_pipeline.web.egress import read_egress_config
from rag_eval_pipeline.workspace import Workspace


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
    "retention.config.yaml": read_retention_settings,
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
