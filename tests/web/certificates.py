"""Authorities and servers' certificates, made when a test runs."""

import datetime as dt
import ipaddress
import ssl
import tempfile

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = dt.timedelta(days=1)


class Authority:
    """An authority with a key of its own.

    Args:
        name: Of its certificate.
        issuer: Who vouches for it; it does so itself unless given.
    """

    def __init__(self, name: str = "Company Root", issuer: "Authority | None" = None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = _name(name)
        by = issuer or self
        builder = (
            _builder(self.key, self.name, by.name, -2, 300)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .add_extension(_SIGNS_CERTIFICATES, critical=True)
            .add_extension(_names("127.0.0.1"), critical=False)  # for a server that vouches for itself
        )
        self.certificate = builder.sign(by.key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def server(
        self, host: str = "127.0.0.1", *, days: tuple[int, int] = (-1, 30), beside: "Authority | None" = None
    ) -> ssl.SSLContext:
        """What a server answers with.

        Args:
            host: That its certificate is for.
            days: First and last day of the certificate, from now.
            beside: Whose certificate it sends along.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        sent = self._vouched(key, host, days)
        return _answering(key, sent + (beside.pem if beside else b""))

    def server_pem(self) -> bytes:
        """A server's certificate alone."""
        return self._vouched(ec.generate_private_key(ec.SECP256R1()), "127.0.0.1", (-1, 30))

    def as_server(self) -> ssl.SSLContext:
        """A server that answers with the authority's own certificate: it vouches for itself."""
        return _answering(self.key, self.pem)

    def _vouched(self, key: ec.EllipticCurvePrivateKey, host: str, days: tuple[int, int]) -> bytes:
        builder = (
            _builder(key, _name("server"), self.name, *days)
            .add_extension(_names(host), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _answering(key: ec.EllipticCurvePrivateKey, certificates: bytes) -> ssl.SSLContext:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:  # OpenSSL takes them from a file only
        file.write(key.private_bytes(*form) + certificates)
        file.flush()
        context.load_cert_chain(file.name)
    return context


def _builder(
    key: ec.EllipticCurvePrivateKey, subject: x509.Name, issuer: x509.Name, first_day: int, last_day: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + first_day * DAY)
        .not_valid_after(now + last_day * DAY)
    )


def _names(host: str) -> x509.SubjectAlternativeName:
    try:
        return x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
    except ValueError:
        return x509.SubjectAlternativeName([x509.DNSName(host)])


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
