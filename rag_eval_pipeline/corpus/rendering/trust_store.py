"""Make the browser trust a company's own certificate authorities, by an NSS database in its home folder.

Chromium on Linux reads that database, and still checks host names, dates and signatures; its documentation says to
write it by `certutil`. `--ignore-certificate-errors-spki-list` would accept any chain that merely contains the
authority's certificate.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.storage.process import child_environment

# Since version 146 Chromium reads `.local/share/pki` first, but only if there is no `.pki`.
STORE = Path(".pki/nssdb")

_WRITE_LIMIT_S = 30.0  # 0.1 s on an idle machine


def missing_certutil() -> str | None:
    """Return what to do if the program is missing that the browser's trust takes; only Linux needs it."""
    if sys.platform != "linux" or shutil.which("certutil"):
        return None
    return "Install certutil: apt-get install libnss3-tools. Without `ca_file` it is not needed."


def write_trust_store(home: Path, authorities: Sequence[bytes]) -> None:
    """Make a browser with this `HOME` trust further authorities (DER); elsewhere than on Linux it has a keychain."""
    if sys.platform != "linux":
        return
    problem = "The browser cannot be given the authorities of `ca_file`"
    if todo := missing_certutil():
        raise ServiceError("browser_trust", f"{problem}: there is no certutil", hint=todo)
    folder = home / STORE
    folder.mkdir(mode=0o700, parents=True)
    _certutil(problem, folder, "-N", "--empty-password")
    for number, der in enumerate(authorities):
        # Trusted for TLS, not for mail and programs; without a file, the certificate is read from standard input.
        _certutil(problem, folder, "-A", "-n", f"ca_file {number}", "-t", "C,,", certificate=der)
    owner = home.stat()
    for path in (folder.parent, folder, *folder.iterdir()):
        os.chown(path, owner.st_uid, owner.st_gid)


def _certutil(problem: str, folder: Path, *arguments: str, certificate: bytes = b"") -> None:
    command = [shutil.which("certutil") or "certutil", "-d", f"sql:{folder}", *arguments]
    try:
        subprocess.run(
            command, input=certificate, capture_output=True, timeout=_WRITE_LIMIT_S, check=True, env=child_environment()
        )
    except (OSError, subprocess.SubprocessError) as error:
        message = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
        raise ServiceError("browser_trust", f"{problem}: {message[-1] if message else error}") from error
