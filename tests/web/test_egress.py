"""Only public addresses are dialled, whatever a name, a spelling or a name server says; settings name their errors."""

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.web.egress import (
    EgressBlocked,
    EgressConfig,
    EgressPolicy,
    HostPort,
    is_public,
    origin_of,
    read_egress_config,
)

PRIVATE = {
    "loopback": "127.0.0.1", "all of 127/8": "127.255.255.254", "this host": "0.0.0.0", "this network": "0.1.2.3",
    "private 10/8": "10.0.0.1", "private 172.16/12": "172.31.255.255", "private 192.168/16": "192.168.1.1",
    "cloud metadata": "169.254.169.254", "endpoint of one cloud": "168.63.129.16", "carrier-grade NAT": "100.64.0.1", "protocol assignments": "192.0.0.192",
    "6to4 relay": "192.88.99.1", "benchmarking": "198.18.0.1", "documentation": "192.0.2.1",
    "documentation 2": "198.51.100.7", "documentation 3": "203.0.113.9", "multicast": "224.0.0.1",
    "multicast that is_global allows": "239.255.255.250", "reserved": "240.0.0.1", "broadcast": "255.255.255.255",
    "v6 loopback": "::1", "v6 unspecified": "::", "v4-mapped loopback": "::ffff:127.0.0.1",
    "v4-mapped private": "::ffff:10.0.0.1", "v4-compatible loopback": "::127.0.0.1", "NAT64": "64:ff9b::7f00:1",
    "NAT64 local": "64:ff9b:1::a00:1", "6to4 of loopback": "2002:7f00:1::", "Teredo": "2001:0:1::", "discard": "100::1",
    "site-local": "fec0::1", "unique local": "fc00::1", "metadata of one cloud": "fd00:ec2::254",
    "link-local": "fe80::1", "link-local with scope": "fe80::1%lo", "global with scope": "2606:4700::1%eth0",
    "v6 multicast": "ff02::1", "v6 documentation": "2001:db8::1", "v6 documentation 2": "3fff::1",
    "segment routing": "5f00::1", "no address": "example.org",
}  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8"]


@pytest.mark.fault(1, 2)
@pytest.mark.parametrize("address", PRIVATE.values(), ids=PRIVATE)
def test_private_address_is_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_address_is_public(address):
    assert is_public(address)


def resolving(*addresses):
    async def resolver(host, port):
        return list(addresses)

    return resolver


async def test_policy_allows_every_public_answer():
    policy = EgressPolicy(resolver=resolving("8.8.8.8", "2606:4700::1111"))

    assert await policy.addresses("EXAMPLE.org.", 443) == ["8.8.8.8", "2606:4700::1111"]


@pytest.mark.fault(3)
async def test_policy_refuses_a_host_for_one_private_answer():
    with pytest.raises(EgressBlocked, match=r"10\.0\.0\.1"):
        await EgressPolicy(resolver=resolving("8.8.8.8", "10.0.0.1")).addresses("example.org", 443)


@pytest.mark.fault(1)
@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "[::1]", "::ffff:7f00:1"])
async def test_policy_refuses_spellings_of_loopback_by_what_they_resolve_to(host):
    with pytest.raises(EgressBlocked):
        await EgressPolicy().addresses(host, 80)


@pytest.mark.parametrize(
    ("host", "port"),
    [("localhost", 80), ("LOCALHOST.", 80), ("a.localhost", 80), ("printer.local", 80), ("metadata.google.internal", 80), ("example.org", 25)],
)  # fmt: skip
async def test_policy_refuses_local_names_and_other_ports_without_a_lookup(host, port):
    with pytest.raises(EgressBlocked):
        await EgressPolicy(resolver=resolving("8.8.8.8")).addresses(host, port)


@pytest.mark.fault(13)
async def test_policy_allows_a_private_host_by_exact_host_and_port():
    policy = EgressPolicy(EgressConfig(allowed_hosts=("wiki.corp:8081",)), resolver=resolving("10.0.0.5"))

    own = HostPort("wiki.corp", 8081)
    assert await policy.addresses("Wiki.corp", 8081, document=own) == ["10.0.0.5"]
    for host, port in (("wiki.corp", 80), ("sub.wiki.corp", 8081)):
        with pytest.raises(EgressBlocked):
            await policy.addresses(host, port, document=own)
    with pytest.raises(EgressBlocked, match=r"wiki\.corp:8081 is not open to documents from example\.org:443; `for`"):
        await policy.addresses("wiki.corp", 8081, document=HostPort("example.org", 443))


CONFIGS = {
    "unknown key": ("allow_all: true", "allow_all"),
    "a setting that is gone": ("robots: obey", "robots"),
    "no port": ("allowed_hosts: [wiki.corp]", "allowed_hosts[0].host"),
    "no port of a document": ("allowed_hosts: [{host: 'a:80', for: [b]}]", "allowed_hosts[0].for"),
    "credentials for any scheme": ("credentials: {wiki.corp: {Authorization: TOKEN}}", "credentials"),
    "a header that frames the request": ("credentials: {'https://wiki.corp': {Host: TOKEN}}", "credentials"),
    "a secret in place of its variable": ("credentials: {'https://a.b': {Key: 's3cret x'}}", "credentials"),
    "a password in place of the proxy's address": ("proxy: {password: s3cret}", "proxy"),
}


@pytest.mark.parametrize(("text", "field"), CONFIGS.values(), ids=CONFIGS)
def test_egress_config_names_the_key_of_a_bad_setting_and_repeats_no_secret(tmp_path, text, field):
    path = tmp_path / "egress.config.yaml"
    path.write_text(text)

    with pytest.raises(InputError) as refused:
        read_egress_config(path)

    assert (refused.value.code, refused.value.file, refused.value.field) == ("bad_format", str(path), field)
    assert "s3cret" not in str(refused.value)


def test_egress_config_without_a_file_has_defaults_and_names_the_line_of_bad_yaml(tmp_path):
    path = tmp_path / "egress.config.yaml"
    assert read_egress_config(path) == EgressConfig()
    path.write_text("max_redirects: 5\nallowed_hosts: [\n")

    with pytest.raises(InputError, match=r"egress\.config\.yaml, line \d") as refused:
        read_egress_config(path)

    assert refused.value.code == "bad_yaml"


def test_origin_has_one_spelling():
    assert origin_of("https://Wiki.Corp./x?y") == origin_of("https://wiki.corp:443") == "https://wiki.corp:443"
    assert origin_of("http://[::1]:8080/a") == "http://[::1]:8080"
    assert origin_of("http://user@wiki.corp/") is origin_of("ftp://wiki.corp/") is origin_of("http://h:x/") is None
