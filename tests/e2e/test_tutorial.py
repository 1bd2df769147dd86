"""docs/tutorial.md: each command is run in the given order and prints what the page shows."""

import importlib.util
import re

import pytest

from tests.conftest import REPOSITORY

VARYING = (  # what differs from run to run -> what is compared
    (r"eval_run_\d{8}_", "eval_run_20261123_"),
    (r"20\d\d-\d\d-\d\d \d\d:\d\d", "2026-11-23 11:26"),
    (r"\d[\d.,]*(?= m?s\b)", "0"),
    (r"(?<=Latency p50 )[\d.]+", "0"),
    (r"\d+(?= in flight)", "0"),
)


@pytest.mark.browser
def test_tutorial_prints_what_the_page_shows(tmp_path):
    spec = importlib.util.spec_from_file_location("write_tutorial", REPOSITORY / "tools" / "write_tutorial.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    printed = module.page_with_output(tmp_path.resolve())

    assert alike(printed).splitlines() == alike(module.PAGE.read_text()).splitlines(), "python tools/write_tutorial.py"


def alike(text):
    """The text without what differs from run to run."""
    for pattern, same in VARYING:
        text = re.sub(pattern, same, text)
    return text
