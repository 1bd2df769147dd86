"""Only public addresses are dialled, whatever a name, a spelling or a name server says."""

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.web.egress.config import EgressConfig, HostPort, origin_of, read_egress_config
from rag_eval_pipeline.web.egress.policy import EgressBlocked, EgressPolicy, HostUnresolved, is_public

REFUSED = {
    "loopback": "127.0.0.1",
    "all of 127/8": "127.255.255.254",
    "this host": "0.0.0.0",
    "this network": "0.1.2.3",
    "private 10/8": "10.0.0.1",
    "private 172.16/12": "172.31.255.255",
    "private 192.168/16": "192.168.1.1",
    "cloud metadata": "169.254.169.254",
    "carrier-grade NAT": "100.64.0.1",
    "protocol assignments": "192.0.0.192",
    "6to4 relay": "192.88.99.1",
    "benchmarking": "198.18.0.1",
    "documentation": "192.0.2.1",
    "documentation 2": "198.51.100.7",
    "documentation 3": "203.0.113.9",
    "multicast": "224.0.0.1",
    "multicast that is_global allows": "239.255.255.250",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "v6 loopback": "::1",
    "v6 unspecified": "::",
    "v4-mapped loopback": "::ffff:127.0.0.1",
    "v4-mapped private": "::ffff:10.0.0.1",
    "v4-compatible loopback": "::127.0.0.1",
    "NAT64": "64:ff9b::7f00:1",
    "NAT64 local": "64:ff9b:1::a00:1",
    "6to4 of loopback": "2002:7f00:1::",
    "Teredo": "2001:0:1::",
    "discard": "100::1",
    "site-local": "fec0::1",
    "unique local": "fc00::1",
    "metadata of one cloud": "fd00:ec2::254",
    "link-local": "fe80::1",
    "link-local with scope": "fe80::1%lo",
    "global with scope": "2606:4700::1%eth0",
    "v6 multicast": "ff02::1",
    "v6 documentation": "2001:db8::1",
    "v6 documentation 2": "3fff::1",
    "segment routing": "5f00::1",
    "no address": "example.org",
}

PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8"]


@pytest.mark.parametrize("address", REFUSED.values(), ids=REFUSED)
def test_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address):
    assert is_public(address)


def resolving(*addresses):
    async def resolver(host, port):
        return list(addresses)

    return resolver


async def test_every_public_answer_may_be_dialled():
    policy = EgressPolicy(resolver=resolving("8.8.8.8", "2606:4700::1111"))

    assert await policy.addresses("EXAMPLE.org.", 443) == ["8.8.8.8", "2606:4700::1111"]


async def test_one_private_answer_refuses_all():
    with pytest.raises(EgressBlocked, match=r"10\.0\.0\.1"):
        await EgressPolicy(resolver=resolving("8.8.8.8", "10.0.0.1")).addresses("example.org", 443)


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "[::1]", "::ffff:7f00:1"])
async def test_spellings_of_loopback_are_refused_by_what_they_resolve_to(host):
    with pytest.raises(EgressBlocked):
        await EgressPolicy().addresses(host, 80)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "a.localhost", "printer.local", "metadata.google.internal"]
)
async def test_local_names_are_refused_without_a_lookup(host):
    with pytest.raises(EgressBlocked):
        await EgressPolicy(resolver=resolving("8.8.8.8")).addresses(host, 80)


async def test_ports_of_other_services_are_refused():
    with pytest.raises(EgressBlocked, match="port 25"):
        await EgressPolicy(resolver=resolving("8.8.8.8")).addresses("example.org", 25)


async def test_a_private_host_is_allowed_by_exact_host_and_port():
    policy = EgressPolicy(EgressConfig(allowed_hosts=("wiki.corp:8081",)), resolver=resolving("10.0.0.5"))

    own = HostPort("wiki.corp", 8081)
    assert await policy.addresses("Wiki.corp", 8081, document=own) == ["10.0.0.5"]
    with pytest.raises(EgressBlocked):
        await policy.addresses("wiki.corp", 80, document=own)
    with pytest.raises(EgressBlocked):
        await policy.addresses("sub.wiki.corp", 8081, document=own)
    with pytest.raises(EgressBlocked, match=r"wiki\.corp:8081 is not open to documents from example\.org:443; `for`"):
        await policy.addresses("wiki.corp", 8081, document=HostPort("example.org", 443))


async def test_a_name_without_address_is_unresolved():
    with pytest.raises(HostUnresolved):
        await EgressPolicy(resolver=resolving()).addresses("example.org", 443)
    with pytest.raises(HostUnresolved):
        await EgressPolicy(resolver=resolving("8.8.8.8")).addresses("document.invalid", 80)


def test_without_a_file_the_defaults_hold(tmp_path):
    assert read_egress_config(tmp_path / "egress.config.yaml") == EgressConfig()


CONFIGS = {
    "unknown key": ("allow_all: true", "allow_all"),
    "no port": ("allowed_hosts: [wiki.corp]", "allowed_hosts.0.host"),
    "a wildcard with a scheme": ("allowed_hosts: ['http://wiki.corp:80']", "allowed_hosts.0.host"),
    "no port of a document": ("allowed_hosts: [{host: 'a:80', for: [b]}]", "allowed_hosts.0.for"),
    "not a number": ("max_redirects: many", "max_redirects"),
    "a proxy without port": ("proxy: proxy.corp", "proxy"),
    "credentials for a path": ("credentials: {'https://wiki.corp/x': {Authorization: TOKEN}}", "credentials"),
    "credentials for any scheme": ("credentials: {wiki.corp: {Authorization: TOKEN}}", "credentials"),
    "a header that frames the request": ("credentials: {'https://wiki.corp': {Host: TOKEN}}", "credentials"),
}


@pytest.mark.parametrize(("text", "field"), CONFIGS.values(), ids=CONFIGS)
def test_a_malformed_file_is_an_input_error_that_names_the_key(tmp_path, text, field):
    path = tmp_path / "egress.config.yaml"
    path.write_text(text)

    with pytest.raises(InputError) as refused:
        read_egress_config(path)

    assert (refused.value.code, refused.value.file, refused.value.field) == ("bad_config", str(path), field)


def test_a_secret_in_the_file_is_refused_and_not_repeated(tmp_path):
    path = tmp_path / "egress.config.yaml"
    path.write_text("credentials: {'https://wiki.corp': {Authorization: 'Bearer s3cret'}}\n")

    with pytest.raises(InputError, match="environment variable") as refused:
        read_egress_config(path)

    assert "s3cret" not in str(refused.value)


def test_an_origin_has_one_spelling():
    assert origin_of("https://Wiki.Corp./x?y") == origin_of("https://wiki.corp:443") == "https://wiki.corp:443"
    assert origin_of("http://[::1]:8080/a") == "http://[::1]:8080"
    assert origin_of("http://user@wiki.corp/") is origin_of("ftp://wiki.corp/") is origin_of("http://h:x/") is None


def test_a_file_that_is_no_yaml_is_an_input_error_with_the_line(tmp_path):
    path = tmp_path / "egress.config.yaml"
    path.write_text("max_redirects: 5\nallowed_hosts: [\n")

    with pytest.raises(InputError, match=r"egress\.config\.yaml, line \d") as refused:
        read_egress_config(path)

    assert refused.value.code == "bad_yaml"


def test_every_setting_says_what_it_does():
    assert all(field.description for field in EgressConfig.model_fields.values())
