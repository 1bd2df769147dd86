"""Make the browser trust a company's own certificate authorities, by an NSS database in its home folder.

Chromium on Linux reads that database, and still checks host names, dates and signatures. NSS itself writes it, in a
child process because its state is global. `--ignore-certificate-errors-spki-list` would accept any chain that merely
contains the authority's certificate.

Run as `python -m rag_eval_pipeline.corpus.rendering.trust_store FOLDER`; a line of base64 on stdin is a certificate.
"""

import base64
import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.storage.process import child_environment, module_command

# Since version 146 Chromium reads `.local/share/pki` first, but only if there is no `.pki`.
STORE = Path(".pki/nssdb")

_WRITE_LIMIT_S = 30.0  # 0.1 s on an idle machine
_SERVER_AUTHORITY = b"C,,"  # certutil's letters: for TLS, for mail, for programs


def write_trust_store(home: Path, authorities: Sequence[bytes]) -> None:
    """Make a browser with this `HOME` trust further authorities (DER); elsewhere than on Linux it has a keychain."""
    if sys.platform != "linux":
        return
    folder = home / STORE
    folder.mkdir(mode=0o700, parents=True)
    lines = b"".join(base64.b64encode(der) + b"\n" for der in authorities)
    command = module_command("rag_eval_pipeline.corpus.rendering.trust_store", str(folder))
    try:
        subprocess.run(
            command, input=lines, capture_output=True, timeout=_WRITE_LIMIT_S, check=True, env=child_environment()
        )
    except (OSError, subprocess.SubprocessError) as error:
        message = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
        raise ServiceError(
            "browser_trust",
            f"The browser cannot be given the authorities of `ca_file`: {message[-1] if message else error}",
            hint="It needs libnss3, Chromium's own library. Without `ca_file` it trusts the usual authorities only.",
        ) from error
    owner = home.stat()
    for path in (folder.parent, folder, *folder.iterdir()):
        os.chown(path, owner.st_uid, owner.st_gid)


class _SecItem(ctypes.Structure):
    """`SECItem` of seccomon.h."""

    _fields_ = (("type", ctypes.c_int), ("data", ctypes.c_char_p), ("len", ctypes.c_uint))


class _Trust(ctypes.Structure):
    """`CERTCertTrust` of certt.h."""

    _fields_ = (("ssl", ctypes.c_uint), ("email", ctypes.c_uint), ("signing", ctypes.c_uint))


def _write(folder: str, authorities: Sequence[bytes]) -> None:
    """Write a database without password."""
    nss = ctypes.CDLL("libnss3.so")
    pointer = ctypes.c_void_p
    for name in ("PK11_GetInternalKeySlot", "CERT_GetDefaultCertDB", "CERT_NewTempCertificate"):
        getattr(nss, name).restype = pointer
    _succeed(nss, nss.NSS_Initialize(f"sql:{folder}".encode(), b"", b"", b"secmod.db", 0))
    slot = pointer(nss.PK11_GetInternalKeySlot())
    known = pointer(nss.CERT_GetDefaultCertDB())
    _succeed(nss, nss.PK11_InitPin(slot, None, b""))
    trust = _Trust()
    _succeed(nss, nss.CERT_DecodeTrustString(ctypes.byref(trust), _SERVER_AUTHORITY))
    for number, der in enumerate(authorities):
        item = _SecItem(0, der, len(der))
        certificate = pointer(nss.CERT_NewTempCertificate(known, ctypes.byref(item), None, 0, 1))
        _succeed(nss, 0 if certificate else -1)
        _succeed(nss, nss.PK11_ImportCert(slot, certificate, ctypes.c_ulong(0), b"ca_file %d" % number, 0))
        _succeed(nss, nss.CERT_ChangeCertTrust(known, certificate, ctypes.byref(trust)))
        nss.CERT_DestroyCertificate(certificate)
    nss.PK11_FreeSlot(slot)
    _succeed(nss, nss.NSS_Shutdown())


def _succeed(nss: ctypes.CDLL, status: int) -> None:
    if status != 0:
        raise OSError(f"NSS error {nss.PORT_GetError()}")


if __name__ == "__main__":
    _write(sys.argv[1], [base64.b64decode(line) for line in sys.stdin.buffer])
