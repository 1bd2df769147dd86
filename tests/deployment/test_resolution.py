"""Packages that users have beside the pipeline keep their present versions; needs a package registry."""

import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY

COMPILE = ("-m", "uv", "pip", "compile", "--quiet", "--no-annotate", "--no-header", "--python-version", "3.11")
# What LlamaIndex reads PDFs with holds pandas below 3, litellm's proxy rich below 14, MLflow pyarrow below 26.
BESIDE = ("llama-index-readers-file", "litellm[proxy]", "mlflow")


def compiled(*arguments, given):
    return subprocess.run(
        [sys.executable, *COMPILE, *arguments, "-"],
        input="\n".join(given), capture_output=True, text=True, check=False, cwd=REPOSITORY,
    )  # fmt: skip


@pytest.mark.long  # what it resolves changes with every release of these packages, and must not stop other changes
def test_packages_of_users_keep_their_present_versions_beside_the_pipeline():
    alone = compiled(given=BESIDE)
    if alone.returncode != 0:
        pytest.skip(f"no package registry: {alone.stderr.strip()[:200]}")
    names = {name.partition("[")[0] for name in BESIDE}
    present = [line for line in alone.stdout.splitlines() if line.partition("==")[0] in names]
    assert len(present) == len(BESIDE)

    beside = compiled("pyproject.toml", given=[*BESIDE, *present])

    assert beside.returncode == 0, beside.stderr
