"""What the documents show is valid and complete: every YAML block is read by what reads such a file."""

import importlib.util
import re

import pytest
import yaml

from rag_eval_pipeline.evaluation.settings import EvaluationSettings
from rag_eval_pipeline.systems.config import KINDS, parse_system
from tests.conftest import REPOSITORY


def blocks(name):
    text = (REPOSITORY / "docs" / name).read_text()
    return [yaml.safe_load(body) for body in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]


@pytest.mark.parametrize("block", blocks("reference/systems.md"), ids=lambda block: block["kind"])
def test_system_of_the_documents_is_valid(block):
    assert parse_system(block, "docs/reference/systems.md").kind == block["kind"]


def test_every_kind_of_system_has_its_example():
    assert {block["kind"] for block in blocks("reference/systems.md")} == set(KINDS)


@pytest.mark.parametrize("block", blocks("explanation/judges.md"), ids=str)
def test_settings_of_the_documents_are_valid(block):
    assert EvaluationSettings.model_validate(block)


def test_table_of_metrics_is_the_registry():
    spec = importlib.util.spec_from_file_location("write_metric_table", REPOSITORY / "tools" / "write_metric_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    assert (REPOSITORY / "docs" / "reference" / "metrics.md").read_text() == module.page()
