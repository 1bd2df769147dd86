"""The README is true: its commands are those of the tutorial, which is run; its targets exist."""

import re
import subprocess

import pytest

from tests.conftest import REPOSITORY

README = (REPOSITORY / "README.md").read_text()
TUTORIAL = (REPOSITORY / "docs" / "tutorial.md").read_text()
CONSOLE = [
    re.sub(r"\s+# .*", "", line)
    for body in re.findall(r"^```console\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    for line in body.splitlines()
]


@pytest.mark.parametrize("line", [one for line in CONSOLE for one in line.split(" && cd ")[:1]])
def test_commands_and_what_they_print_stand_in_the_tutorial(line):
    assert line.removesuffix(" --open") in TUTORIAL  # the tests open no browser


@pytest.mark.parametrize("target", sorted(set(re.findall(r"make ([a-z]+(?:-[a-z]+)*)\b(?=`|  )", README))))
def test_targets_exist(target):
    done = subprocess.run(["make", "-n", target], cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_it_is_short():
    assert len(README.splitlines()) <= 160
