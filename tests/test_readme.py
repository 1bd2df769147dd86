"""The README is short, and its make targets exist; test_docs.py checks its commands and links."""

import re
import subprocess

import pytest

from tests.conftest import REPOSITORY

README = (REPOSITORY / "README.md").read_text()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"make ([a-z]+(?:-[a-z]+)*)\b(?=`|  )", README))))
def test_targets_exist(target):
    done = subprocess.run(["make", "-n", target], cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_it_is_short():
    assert len(README.split()) <= 1000
