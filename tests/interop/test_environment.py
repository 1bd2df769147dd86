"""The packages that a user's RAG system is built with can be installed beside the pipeline."""

import subprocess
import sys


def test_requirements_of_all_installed_packages_hold():
    check = subprocess.run(
        [sys.executable, "-m", "pip", "check", "--disable-pip-version-check"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert check.returncode == 0, check.stdout
