"""Trusted certificate authorities: the usual ones, and those of a company's own `ca_file`.

Host name, dates and signatures are always checked. A refused certificate is an error of its own and not a broken
connection: a retry cannot help.
"""

import re
import ssl
from pathlib import Path
from typing import NamedTuple

import httpx

from rag_eval_pipeline.errors import InputError

UNTRUSTED = "tls_untrusted"  # of documents and of sources alike

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.S)
_FILE_BYTES_MAX = 10_000_000  # all of the usual authorities take 0.3 MB
# OpenSSL's X509_V_ERR_* for a chain that ends at an unknown authority; with the others the certificate is at fault.
_UNKNOWN_AUTHORITY = {2, 18, 19, 20, 21}
_CUSTOM_AUTHORITY = "`ca_file` in egress.config.yaml names an authority of one's own."
_BAD_CERTIFICATE = "The server needs another certificate: `ca_file` in egress.config.yaml cannot make up for that."


class CertificateError(NamedTuple):
    """Why OpenSSL refuses a server's certificate, and what to do."""

    reason: str
    hint: str


def authorities(ca_file: Path) -> list[bytes]:
    """Return the certificates of a PEM file as DER, at least one; text around them is ignored."""
    try:
        with ca_file.open("rb") as file:
            found = _PEM.findall(file.read(_FILE_BYTES_MAX))
    except OSError as error:
        raise _bad(ca_file, error.strerror or str(error)) from error
    if not found:
        raise _bad(ca_file, "no `BEGIN CERTIFICATE`")
    return [_authority(pem, number, ca_file) for number, pem in enumerate(found, 1)]


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Return the context for httpx's `verify`; certificates named by environment variables are not used.

    Args:
        ca_file: Authorities in addition to the usual ones; they need not be roots.
    """
    context = httpx.create_ssl_context(trust_env=False)
    if ca_file is not None:
        context.load_verify_locations(cadata=b"".join(authorities(Path(ca_file))))
        # A company may give out the issuer of its servers and not the root above; browsers end a chain there, too.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def certificate_error(error: BaseException) -> CertificateError | None:
    """Return why a connection failed, if the server's certificate was the reason."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    hint = _CUSTOM_AUTHORITY if cause.verify_code in _UNKNOWN_AUTHORITY else _BAD_CERTIFICATE
    return CertificateError(cause.verify_message.rstrip("."), hint)


def _authority(pem: bytes, number: int, ca_file: Path) -> bytes:
    try:
        der = ssl.PEM_cert_to_DER_cert(pem.decode("ascii"))
        alone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        alone.load_verify_locations(cadata=der)
    except (ValueError, ssl.SSLError) as error:
        raise _bad(ca_file, f"certificate {number}: {error}") from error
    if not alone.cert_store_stats()["x509_ca"]:
        raise _bad(ca_file, f"certificate {number}, which is no authority's")
    return der


def _bad(ca_file: Path, found: str) -> InputError:
    return InputError(
        "bad_ca_file",
        ca_file,
        "certificates of authorities in PEM form",
        found=found,
        hint="Check the setting `ca_file` that names it; `openssl x509 -inform der` makes PEM of a binary file.",
    )
