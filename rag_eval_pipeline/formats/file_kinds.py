"""Kinds of files that are recognised by their name: which model reads them, and what must hold besides.

Those of this room stand in `KINDS`; other rooms hand theirs to `validation.examine`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pydantic

from rag_eval_pipeline.formats.benchmark_data import BENCHMARK_DATA, check_benchmark_data
from rag_eval_pipeline.formats.comparison_files import (
    AbTestResults,
    Regressions,
    WeeklyResults,
    check_ab_test,
    check_regressions,
    check_week,
)
from rag_eval_pipeline.formats.findings import Finding, model_findings
from rag_eval_pipeline.formats.forms import Form, stated_version
from rag_eval_pipeline.formats.json_text import read_json_text
from rag_eval_pipeline.formats.model import FileModel
from rag_eval_pipeline.formats.model_files import JSON, YAML, parse_file, read_yaml_value

RESULTS_ENDINGS = tuple(f".results{form}" for form in JSON + YAML)
BENCHMARK_ENDINGS = (*(f".benchmark{form}" for form in JSON + YAML), *JSON)
WEEKLY = "benchmark_weekly_"
AB_TEST = "ab_test_"


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file.

    Args:
        name: For people: `weekly results (benchmark_weekly_*.results.json)`.
        takes: Whether a file is one, by its path.
        model: What reads it.
        check: What it breaks of the rules that a model of one field cannot know.
        schema: Name of its JSON Schema.
    """

    name: str
    takes: Callable[[Path], bool]
    model: type[pydantic.BaseModel]
    check: Callable[[Any, Path], Iterable[Finding]]
    schema: str

    @property
    def form(self) -> Form | None:
        """The versions of the kind; None where its files state none."""
        return self.model.form if issubclass(self.model, FileModel) else None

    def examine(self, path: Path) -> list[Finding]:
        """Everything found in a file.

        Raises:
            InputError: It cannot be read, or is of a version that is not.
        """
        try:
            value = parse_file(self.model, path)
        except pydantic.ValidationError as error:
            return model_findings(path, error, schema=self.schema)
        return list(self.check(value, path))


def kind_of_file(path: Path, kinds: Sequence[FileKind]) -> FileKind | None:
    """The first kind that takes a file."""
    return next((kind for kind in kinds if kind.takes(path)), None)


def version_note(path: Path, form: Form) -> str:
    """What a file states as its version, and as which it is read: `results file 1.0, read as 1.1`.

    Raises:
        InputError: The file cannot be read.
    """
    if path.name.endswith(YAML):
        value = read_yaml_value(path)
        stated = value.get("schema_version") if isinstance(value, dict) else None
    else:
        stated = stated_version(read_json_text(path))
    version = "without a version" if stated is None else str(stated)
    return f"{form.name} {version}" + ("" if version == form.present else f", read as {form.present}")


def _several(start: str, path: Path) -> bool:
    return path.name.startswith(start) and path.name.endswith(RESULTS_ENDINGS)


def _benchmark(name: str, path: Path) -> bool:
    return path.name in {f"{name}{ending}" for ending in BENCHMARK_ENDINGS}


KINDS: tuple[FileKind, ...] = (
    FileKind(f"{WEEKLY}*.results.json", partial(_several, WEEKLY), WeeklyResults, check_week, "weekly_results"),
    FileKind(f"{AB_TEST}*.results.json", partial(_several, AB_TEST), AbTestResults, check_ab_test, "ab_test_results"),
    FileKind(
        "regressions.json",
        lambda path: path.name == "regressions.json",
        Regressions,
        check_regressions,
        "regressions",
    ),
    *(
        FileKind(f"{name}.benchmark.json", partial(_benchmark, name), model, check_benchmark_data, name)
        for name, model in BENCHMARK_DATA.items()
    ),
)
