"""Write the JSON Schemas, docs/reference/faults.md, and the generated parts of docs/index.md and other pages.

    python tools/write_reference.py

A page keeps everything above its marker. errors.md is written by hand; codes without a row are added at its end, with
what the code states, for somebody to put them into the right table. tests/test_docs.py checks that all is current.
"""

import ast
import json
import re
import runpy
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pydantic
import typer
import yaml

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.cli.output import EXIT_CODES
from rag_eval_pipeline.conversion.audit_decisions import Decision
from rag_eval_pipeline.conversion.benchmark_spec import BenchmarkSpec, QuestionColumns, QuestionsSpec
from rag_eval_pipeline.conversion.shard_plan import ConversionSettings
from rag_eval_pipeline.evaluation.evaluation_settings import EvaluationSettings
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.train_json import TrainRow
from rag_eval_pipeline.judges.judge_settings import LexicalSettings, LlmSettings, NliSettings
from rag_eval_pipeline.metrics.registry import metrics
from rag_eval_pipeline.monitoring.alert_files import AlertSettings
from rag_eval_pipeline.monitoring.settings_files import AbSettings, RetentionSettings
from rag_eval_pipeline.monitoring.verdict_settings import VerdictSettings
from rag_eval_pipeline.scaffold.recipe import Fit, Recipe, read_recipes
from rag_eval_pipeline.systems.config import KINDS, SystemFile
from rag_eval_pipeline.web.egress import EgressConfig
from rag_eval_pipeline.web.server_settings import Budget, EndpointSettings, Prices

REPOSITORY = Path(__file__).resolve().parent.parent
REFERENCE = REPOSITORY / "docs" / "reference"
NAVIGATION = REPOSITORY / "mkdocs.yml"
SCHEMAS = REPOSITORY / "rag_eval_pipeline" / "formats" / "schemas"
MARKER = "<!-- Below this line: tools/write_reference.py -->\n"
CODE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
RAISING = re.compile(r"((?<!Query)Error|_Fault|failure|_error)$")  # names of what is called with a code
SHARED: dict[type[pydantic.BaseModel], str] = {  # described once
    EndpointSettings: "endpoint",
    Budget: "budget",
    Prices: "prices",
}
TO_BE_SORTED = "\n## To be sorted\n"  # a section of errors.md that is written anew each time
FILES: dict[str, type[pydantic.BaseModel]] = {
    "`benchmark.yaml`": BenchmarkSpec,
    "`decisions` of `audit.yaml`": Decision,
    "`systems/<name>.config.yaml`": SystemFile,
    **{f"`settings` of a system, `kind: {name}`": kind.settings for name, kind in KINDS.items()},
    "`conversion.config.yaml`": ConversionSettings,
    "`evaluation_defaults.config.yaml`": EvaluationSettings,
    "`judge.settings`, `kind: lexical`": LexicalSettings,
    "`judge.settings`, `kind: nli`": NliSettings,
    "`judge.settings`, `kind: openai`": LlmSettings,
    "`verdicts.config.yaml`": VerdictSettings,
    "`alerts.config.yaml`": AlertSettings,
    "`egress.config.yaml`": EgressConfig,
    "`retention.config.yaml`": RetentionSettings,
    "`ab_testing_config.config.yaml`": AbSettings,
    **{name.capitalize(): model for model, name in SHARED.items()},
}


def pages() -> dict[str, str]:
    """Return the whole text of each page that is generated, by its name."""
    parts = {
        "commands.md": _commands(),
        "settings.md": _settings(),
        "metrics.md": _metrics(),
        "../how-to/recipes.md": _recipes(),
        "../index.md": _index(),
    }
    found = {name: _head(name) + MARKER + "\n" + text for name, text in parts.items()}
    errors = (REFERENCE / "errors.md").read_text().partition(TO_BE_SORTED)[0]
    return {**found, "errors.md": errors + _missing_codes(errors)}


def schemas() -> dict[str, str]:
    """Return the text of each JSON Schema (2020-12), by its file's name."""
    models = {
        "evaluation_dataset": ("Evaluation Dataset", EvaluationDataset.model_json_schema()),
        "evaluation_results": ("Evaluation Results", EvaluationResults.model_json_schema()),
        "ground_truth": ("Ground Truth", GroundTruth.model_json_schema()),
        "train": ("train.json", msgspec.json.schema(list[TrainRow])),
    }
    found = {}
    for name, (title, schema) in models.items():
        file = f"{name}.schema.json"
        head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": file, "title": title}
        found[file] = json.dumps({**head, **schema, "title": title}, indent=2, ensure_ascii=False) + "\n"
    return found


def error_codes() -> dict[str, str]:
    """Return each code that the package raises with the first statement of what is expected, if it is a literal."""
    found: dict[str, str] = {}
    for path in sorted((REPOSITORY / "rag_eval_pipeline").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call) or not call.args:
                continue
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            code = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
            if RAISING.search(name) and isinstance(code, str) and CODE.fullmatch(code):
                texts = [one.value for one in call.args[1:] if isinstance(one, ast.Constant)]
                found[code] = found.get(code) or next((one for one in texts if isinstance(one, str)), "")
    return found


def documented_codes(page: str) -> set[str]:
    """Return the codes in the first cells of a page's tables."""
    cells = re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE)
    return {code for cell in cells for code in re.findall(r"`([a-z0-9_]+)`", cell)}


def _head(name: str) -> str:
    text = (REFERENCE / name).read_text()
    return text.partition(MARKER)[0]


def _missing_codes(page: str) -> str:
    missing = {code: text for code, text in error_codes().items() if code not in documented_codes(page)}
    rows = [f"| `{code}` | expected {_cell(text)} | |" for code, text in sorted(missing.items())]
    table = "| code | cause | what to do |\n|---|---|---|\n"
    return TO_BE_SORTED + table + "\n".join(rows) + "\n" if rows else ""


def _index() -> str:
    """Return the links to all pages of the navigation in mkdocs.yml: a row for each group of how-to pages."""
    nav = yaml.safe_load(NAVIGATION.read_text())["nav"]
    sections = {title: entries for one in nav for title, entries in one.items()}
    rows = [f"| {group} | {_links(pages)} |" for one in sections["How-to"] for group, pages in one.items()]
    lines = ["## How-to", "", "| task | pages |", "|---|---|", *rows]
    for title in ("Reference", "Explanation"):
        lines += ["", f"## {title}", "", _links(sections[title])]
    return "\n".join(lines) + "\n"


def _links(pages: list[dict[str, str]]) -> str:
    return " · ".join(f"[{title}]({path})" for one in pages for title, path in one.items())


def _metrics() -> str:
    lines = ["| metric | label | meaning | range | better | levels | source |", "|---|---|---|---|---|---|---|"]
    lines += [
        f"| `{row.name}` | {row.label} | {row.meaning} | {row.range} | {row.direction} | {', '.join(row.levels)} | "
        f"{row.source} |"
        for row in metrics()
    ]
    return "\n".join(lines) + "\n"


def _last(choice: str | dict[str, str]) -> str:
    return choice if isinstance(choice, str) else list(choice.values())[-1]


def _recipes() -> str:
    head = ["| key | values | default | meaning |", "|---|---|---|---|"]
    lines = ["## Keys of a recipe", "", *head, *_rows(Recipe, "")]
    lines += [f"| `recognise.<relation>.{row.removeprefix('| `')}" for row in _rows(Fit, "")]
    lines += [
        "",
        "## Formats that have one",
        "",
        "| recipe | format | recognised by | what to know |",
        "|---|---|---|---|",
    ]
    for name, recipe in sorted(read_recipes().items()):
        columns = [f"{one}: {', '.join(fit.columns)}" for one, fit in recipe.recognise.items()]
        said = " ".join([*recipe.says, *(f"FILL_IN {key}: {_last(text)}" for key, text in recipe.fill_in.items())])
        title = f"[{_cell(recipe.title)}]({recipe.source})"
        lines.append(f"| `{name}` | {title} | {_cell('; '.join(columns))} | {_cell(said)} |")
    return "\n".join(lines) + "\n"


def _commands() -> str:
    root = typer.main.get_command(app)
    panels: dict[str, list[str]] = {}
    for name, command, panel in _leaves(root, "", "Commands"):
        panels.setdefault(panel, []).append(_command(name, command))
    codes = [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    head = "\n".join(["| exit code | meaning |", "|---|---|", *codes, "", ""])
    return head + "\n".join(f"## {panel}\n\n" + "\n".join(texts) for panel, texts in panels.items())


def _leaves(group: Any, prefix: str, panel: str) -> Iterator[tuple[str, Any, str]]:
    for name in group.commands:
        command = group.get_command(None, name)
        inner = command.rich_help_panel if isinstance(command.rich_help_panel, str) else panel
        if hasattr(command, "commands"):
            yield from _leaves(command, f"{prefix}{name} ", inner)
        elif not command.hidden:
            yield prefix + name, command, inner


def _command(name: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    usage = " ".join(["rag-eval", name, *(one.metavar or one.name.upper() for one in arguments)])
    text, _, example = (command.help or "").partition("Example: ")
    lines = [f"### {name}", "", f"`{usage} [OPTIONS]`", "", re.sub(r"\s*\n\s*\n\s*", "\n\n", text.strip())]
    if example:
        # A further example has its purpose before it: "With the baseline: rag-eval compare ...".
        examples = [
            re.sub(r"^# (?!rag-eval)(.*?): ", r"# \1\n$ ", f"# {line.strip()}") for line in example.strip().splitlines()
        ]
        examples = [line.replace("# rag-eval", "$ rag-eval", 1) for line in examples]
        lines += ["", "```console", *examples, "```"]
    rows = [_parameter(one) for one in command.params if not one.hidden and one.name != "help"]
    return "\n".join([*lines, "", "| argument or option | meaning | default |", "|---|---|---|", *rows, ""])


def _parameter(one: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
    if one.param_type_name == "argument":
        names = f"`{one.metavar or one.name.upper()}`"
    if one.required:
        default = "required"
    elif one.default in (None, False, (), []):
        default = ""
    else:
        values = one.default if isinstance(one.default, list | tuple) else [one.default]
        default = ", ".join(f"`{getattr(value, 'value', value)}`" for value in values)
    return f"| {names} | {_cell(one.help or '')} | {default} |"


def _settings() -> str:
    texts = []
    for title, model in FILES.items():
        rows = list(_rows(model, ""))
        if not rows:
            texts.append(f"## {title}\nNo settings.\n")
            continue
        texts.append("\n".join([f"## {title}", "| key | values | default | meaning |", "|---|---|---|---|", *rows, ""]))
    return "\n".join(texts)


def _rows(model: type[pydantic.BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        key = prefix + name
        if model is QuestionsSpec:  # written as SQL, or as a mapping of columns
            yield from _rows(QuestionColumns, prefix) if name == "columns" else ()
            continue
        default = "required" if field.is_required() else _default(field.get_default(call_default_factory=True))
        parts = [] if prefix.count(".") > 1 else _parts(field.annotation)
        # A part that is a mapping of settings is shown by its keys; its own default would repeat theirs.
        shown = "" if parts and default != "required" else default
        values = "settings" if parts else _values(field.annotation)
        if shared := next((SHARED[part] for part in parts if part in SHARED), None):
            values, parts = f"[{shared}](#{shared})", []
        yield f"| `{key}` | {values} | {shown} | {_cell(field.description or '')} |"
        for part in parts:
            yield from _rows(part, f"{key}.")


def _parts(annotation: Any) -> list[type[pydantic.BaseModel]]:
    """Return the models of a field that holds one mapping of settings; none for lists, and for the parts of a kind."""
    models = [one for one in (annotation, *get_args(annotation)) if isinstance(one, type)]
    models = [one for one in models if issubclass(one, pydantic.BaseModel) and one.model_fields]
    return models if get_origin(annotation) not in (tuple, list, dict) else []


def _values(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in inner)
    if origin is Union or type(annotation).__name__ == "UnionType":
        return " or ".join(dict.fromkeys(_values(one) for one in inner))
    if origin in (tuple, list):
        return "list"
    if origin is dict:
        return "mapping"
    if hasattr(annotation, "__metadata__"):
        return _values(inner[0])
    names = {str: "text", int: "integer", float: "number", bool: "true, false", type(None): "null", date: "date"}
    return names.get(annotation, "mapping" if isinstance(annotation, type) else "text")


def _default(value: Any) -> str:
    if isinstance(value, pydantic.BaseModel):
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(f"`{one}`" for one in value)
    if value is None or value in ({}, ""):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    for page, content in pages().items():
        (REFERENCE / page).write_text(content)
    for name, content in schemas().items():
        (SCHEMAS / name).write_text(content)
    matrix = runpy.run_path(str(REPOSITORY / "tests" / "faults" / "matrix.py"))
    (REFERENCE / "faults.md").write_text(matrix["page"]())
