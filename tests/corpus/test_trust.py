"""A company's own authority is trusted like the usual ones, and in nothing more: names, dates and signatures hold."""

import contextlib
import os
import re
import ssl
import sys
from pathlib import Path

import pytest
import stamina

from corpus.hostile.drawing import shows
from corpus.making import png, simple_pdf
from rag_eval_pipeline.corpus.builder import build_corpus
from rag_eval_pipeline.corpus.documents import FileName, PlannedDocument
from rag_eval_pipeline.errors import DocumentError, InputError, ServiceError
from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy, read_egress_config
from rag_eval_pipeline.web.egress_proxy import EgressProxy
from rag_eval_pipeline.web.fetcher import fetcher
from rag_eval_pipeline.web.tls import authorities, missing_certutil, tls_context, write_trust_store
from tests.web.certificates import Authority
from tests.web.site import Site, serve

COMPANY, LAB, STRANGER = Authority("Company Root"), Authority("Lab Root"), Authority("Stranger Root")
ISSUER = Authority("Company Issuer", issuer=COMPANY)

serving = contextlib.contextmanager(serve)


@pytest.fixture(autouse=True)
def _no_waiting():
    with stamina.set_testing(True, attempts=3):
        yield


@pytest.fixture
def ca_file(tmp_path) -> Path:
    """Two authorities as an administrator hands them out, with words around them."""
    path = tmp_path / "company.pem"
    path.write_bytes("# Zertifikate für alle\r\n".encode() + COMPANY.pem.replace(b"\n", b"\r\n") + b"Lab:\n" + LAB.pem)
    return path


async def fetch(site: Site, ca_file: Path | None, path: str = "/a"):
    policy = site.policy(ca_file=ca_file and str(ca_file))
    async with EgressProxy(policy) as proxy, fetcher(proxy) as source:
        return (await source.fetch(site.url(path))).body


async def refusal(site: Site, ca_file: Path | None) -> DocumentError:
    with pytest.raises(DocumentError) as refused:
        await fetch(site, ca_file)
    return refused.value


@pytest.mark.parametrize("authority", [COMPANY, LAB, None], ids=["the first one", "the second one", "an issuer alone"])
async def test_ca_file_makes_its_authorities_servers_trusted(ca_file, tmp_path, authority):
    pdf = simple_pdf("inside")
    if authority is None:
        authority, ca_file = ISSUER, tmp_path / "issuer.pem"
        ca_file.write_bytes(ISSUER.pem)
    with serving(authority.server()) as site:
        site.answers["/a"] = (200, {"Content-Type": "application/pdf"}, pdf)
        body = await fetch(site, ca_file)

    assert (body.kind, body.data, body.final_url) == ("pdf", pdf, site.url("/a"))


NAMES_IT = "`ca_file` in egress.config.yaml names"
NO_HELP = "`ca_file` does not help"

REFUSED = {
    #                                      what the server answers with      OpenSSL's words                   what to do
    "another host's":                     (COMPANY.server("other.example"),  "not valid for '127.0.0.1'",      NO_HELP),
    "expired":                            (COMPANY.server(days=(-9, -2)),    "has expired",                    NO_HELP),
    "an unknown authority's":             (STRANGER.server(),                "get local issuer certificate",   NAMES_IT),
    "the company's merely sent along":    (STRANGER.server(beside=COMPANY),  "get local issuer certificate",   NAMES_IT),
    "its own":                            (STRANGER.as_server(),             "self.signed certificate",        NAMES_IT),
}  # fmt: skip


@pytest.mark.fault(61)
@pytest.mark.parametrize(("answering", "reason", "hint"), REFUSED.values(), ids=REFUSED)
async def test_certificate_that_is_refused_says_why_and_what_to_do(ca_file, answering, reason, hint):
    with serving(answering) as site:
        error = await refusal(site, ca_file)

    assert error.code == "tls_untrusted"
    assert re.fullmatch(rf"{site.url('/a')}: .*{reason}\. .*{hint}.*", error.message)
    assert site.asked == []


async def test_certificate_that_is_refused_is_not_retried_or_taken_from_the_environment(ca_file, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    met = []
    answering = COMPANY.server()
    answering.sni_callback = lambda connection, name, context: met.append(name)
    with serving(answering) as site:
        assert (await refusal(site, None)).code == "tls_untrusted"

    assert len(met) == 1


def test_tls_context_adds_to_the_usual_authorities(ca_file):
    usual, both = (tls_context(file).cert_store_stats()["x509_ca"] for file in (None, str(ca_file)))

    assert usual > 100
    assert both == usual + 2
    assert tls_context(str(ca_file)).verify_mode == ssl.CERT_REQUIRED
    assert tls_context(str(ca_file)).check_hostname
    assert set(authorities(ca_file)) == {COMPANY.der, LAB.der}


BAD_FILES = {
    "one that is cut": COMPANY.pem[:200],
    "no certificate within": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    "a server's": COMPANY.server_pem(),
}


@pytest.mark.parametrize("data", BAD_FILES.values(), ids=BAD_FILES)
def test_ca_file_that_holds_something_else_is_an_input_error(tmp_path, data):
    (tmp_path / "ca.pem").write_bytes(data)
    (tmp_path / "egress.config.yaml").write_text("ca_file: ca.pem\n")

    with pytest.raises(InputError) as refused:
        read_egress_config(tmp_path / "egress.config.yaml")

    error = refused.value
    assert (error.code, error.file) == ("bad_ca_file", str(tmp_path / "ca.pem"))
    assert error.found
    assert "`ca_file`" in error.hint


@pytest.mark.parametrize("name", ["absent.pem", "folder", "company.pem"])
def test_ca_file_is_relative_to_the_settings_and_must_be_readable(ca_file, tmp_path, monkeypatch, name):
    monkeypatch.chdir("/")
    (tmp_path / "folder").mkdir()
    settings = tmp_path / "egress.config.yaml"
    settings.write_text(f"ca_file: '{name}'\n")

    if name == "company.pem":
        assert read_egress_config(settings).ca_file == str(ca_file)
        return
    with pytest.raises(InputError) as refused:
        read_egress_config(settings)
    assert (refused.value.code, refused.value.file) == ("bad_ca_file", str(tmp_path / name))


needs_certutil = pytest.mark.skipif(missing_certutil() is not None, reason="needs certutil of libnss3-tools")
GREEN, RED, BLUE = (0, 160, 0), (200, 0, 0), (0, 0, 220)


@needs_certutil
@pytest.mark.browser
def test_browser_trusts_the_authorities_of_ca_file_and_no_others(ca_file, tmp_path, own_temp):
    """One page of pictures: two of servers that are vouched for, and each of the others of one that is not."""
    pdf = simple_pdf("inside")
    good = {"/": COMPANY.server(), "lab": LAB.server()}
    colours = {"/": GREEN, "lab": BLUE}
    with contextlib.ExitStack() as running:
        sites = {name: running.enter_context(serving(tls)) for name, tls in good.items()}
        bad = [running.enter_context(serving(tls)) for tls, _, _ in REFUSED.values()]
        for name, site in sites.items():
            site.answers["/picture"] = (200, {"Content-Type": "image/png"}, png(*colours[name]))
        for site in bad:
            site.answers["/picture"] = (200, {"Content-Type": "image/png"}, png(*RED))
        pictures = "".join(f"<img src={site.url('/picture')} width=64>" for site in (*sites.values(), *bad))
        own = sites["/"]
        own.answers["/page"] = (200, {}, f"<!doctype html><p>Inside</p>{pictures}".encode())
        own.answers["/paper"] = (200, {"Content-Type": "application/pdf"}, pdf)
        hosts = [own.host, *({"host": site.host, "for": [own.host]} for site in (sites["lab"], *bad))]
        policy = EgressPolicy(EgressConfig(allowed_hosts=hosts, ca_file=str(ca_file), allow_no_sandbox=True))
        urls = [own.url("/page"), own.url("/paper"), bad[0].url("/picture")]
        planned = [PlannedDocument(url, (FileName(f"{n}.pdf", url),), "url", url) for n, url in enumerate(urls)]

        page, paper, refused = build_corpus(planned, tmp_path / "c", [], policy)

    assert page.origin == "rendered"
    assert (page.images_expected, page.images_drawn) == (2 + len(bad), 2)
    drawn = (tmp_path / "c" / "0.pdf").read_bytes()
    assert [colour for colour in (GREEN, BLUE, RED) if shows(drawn, colour)] == [GREEN, BLUE]
    assert [site.asked for site in bad] == [[]] * len(bad)
    assert (paper.origin, (tmp_path / "c" / "1.pdf").read_bytes()) == ("kept", pdf)
    assert (refused.origin, refused.error_code) == ("missing", "tls_untrusted")
    assert os.listdir(own_temp) == []


@needs_certutil
def test_trust_store_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(ServiceError) as refused:
        write_trust_store(tmp_path, [b"no certificate"])

    assert refused.value.code == "browser_trust"
    assert "certutil: could not" in refused.value.message


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the browser has a keychain")
def test_missing_certutil_is_named_with_its_package(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceError) as refused:
        write_trust_store(tmp_path, [])

    assert (refused.value.code, "libnss3-tools" in str(refused.value)) == ("browser_trust", True)
    assert list(tmp_path.iterdir()) == []
