"""Trusted certificate authorities: the usual ones, and those of a company's own `ca_file`.

Host name, dates and signatures are always checked. A refused certificate is an error of its own and not a broken
connection: a retry cannot help.

Chromium on Linux reads a company's authorities from an NSS database in its home folder, which its documentation says to
write by `certutil`. `--ignore-certificate-errors-spki-list` would accept any chain that merely contains the authority's
certificate.
"""

import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.storage.process import child_environment

UNTRUSTED = "tls_untrusted"  # of documents and of sources alike

# OpenSSL's X509_V_ERR_* for a chain that ends at an unknown authority; with the others the certificate is at fault.
_UNKNOWN_AUTHORITY = {2, 18, 19, 20, 21}
_CUSTOM_AUTHORITY = "`ca_file` in egress.config.yaml names an authority of one's own."
_STORE = Path(".pki/nssdb")  # since version 146 Chromium reads `.local/share/pki` first, but only if there is no `.pki`
_WRITE_LIMIT_S = 30.0  # 0.1 s on an idle machine
_BAD_CERTIFICATE = "The server's certificate itself is invalid, such as its name or date: `ca_file` does not help."


def authorities(ca_file: Path) -> list[bytes]:
    """Return the certificates of the authorities in a PEM file as DER, at least one; text around them is ignored."""
    found, context = None, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=ca_file.read_text("ascii", "backslashreplace"))
    except (ValueError, ssl.SSLError) as error:
        found = str(error)
    except OSError as error:
        found = error.strerror or str(error)
    if found is None and (certificates := context.get_ca_certs(binary_form=True)):
        return certificates
    raise InputError(
        "bad_ca_file",
        ca_file,
        "certificates of authorities in PEM form",
        found=found or "no certificate of an authority",
        hint="Check the setting `ca_file` that names it; `openssl x509 -inform der` makes PEM of a binary file.",
    )


def tls_context(ca_file: Path | str | None) -> ssl.SSLContext:
    """Return the context for httpx's `verify`; certificates named by environment variables are not used.

    Args:
        ca_file: Authorities in addition to the usual ones; they need not be roots.
    """
    if ca_file is None:
        return _usual_authorities()
    context = _new_context()
    context.load_verify_locations(cadata=b"".join(authorities(Path(ca_file))))
    # A company may give out the issuer of its servers and not the root above; browsers end a chain there, too.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


@cache
def _usual_authorities() -> ssl.SSLContext:
    """Cache the usual authorities: loading them takes 38 ms, also for a client that asks no server with TLS."""
    return _new_context()


def _new_context() -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context(trust_env=False)


def certificate_error(error: BaseException) -> tuple[str, str] | None:
    """Return why a connection failed and what to do, if the server's certificate was the reason."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    hint = _CUSTOM_AUTHORITY if cause.verify_code in _UNKNOWN_AUTHORITY else _BAD_CERTIFICATE
    return cause.verify_message.rstrip("."), hint


def missing_certutil() -> str | None:
    """Return what to do if the program is missing that the browser's trust takes; only Linux needs it."""
    if sys.platform != "linux" or shutil.which("certutil"):
        return None
    return "Install certutil: apt-get install libnss3-tools. Without `ca_file` it is not needed."


def write_trust_store(home: Path, trusted: Sequence[bytes]) -> None:
    """Make a browser with this `HOME` trust further authorities (DER); elsewhere than on Linux it has a keychain."""
    if sys.platform != "linux":
        return
    problem = "The browser cannot be given the authorities of `ca_file`"
    if todo := missing_certutil():
        raise ServiceError("browser_trust", f"{problem}: there is no certutil", hint=todo)
    folder = home / _STORE
    folder.mkdir(mode=0o700, parents=True)
    _certutil(problem, folder, "-N", "--empty-password")
    for number, der in enumerate(trusted):
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
