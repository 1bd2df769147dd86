"""No URL, redirect or page of a benchmark reaches this machine or its network; without the guard, the same ones do.

In the network of these tests every address is this machine, and every attempt is seen, at whatever address and port.
"""

import ipaddress
import json
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import REPOSITORY
from tests.corpus.hostile.prying import MOVES
from tests.faults.egress.cases import ALLOWED, BLOCKED, FORMS, LOCATIONS, METADATA, NAMES, PUBLIC
from tests.faults.egress.network import command

pytestmark = pytest.mark.browser
RANDOM_URLS = 10_000


@pytest.fixture(scope="module")
def visit():
    """`visit(part, ...)` is what the parts of `visit.py` found."""
    namespace = command()
    if namespace is None:
        pytest.skip("no network namespace here: it takes root or user namespaces, and `unshare` and `ip`")

    def run(*parts, urls=()):
        done = subprocess.run(
            [*namespace, sys.executable, "-m", "tests.faults.egress.visit", *parts],
            input=json.dumps(urls), capture_output=True, text=True, check=False, timeout=600, cwd=REPOSITORY,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-5000:]
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def seen(visit):
    return visit("fetched", "operator", "rendered", "unguarded")


@pytest.mark.fault(1, 2, 3, 6, 7)
@pytest.mark.parametrize("way", ["document", "source"])
def test_egress_of_a_url_is_refused_without_an_attempt(seen, way):
    found = dict(zip(FORMS, seen["fetched"][f"{way} form"], strict=True))

    assert {url: code for url, (code, _) in found.items()} == FORMS
    assert {url: hits for url, (_, hits) in found.items() if hits} == {}


@pytest.mark.fault(4)
@pytest.mark.parametrize("way", ["document", "source"])
def test_egress_of_a_redirect_is_refused_without_an_attempt(seen, way):
    found = dict(zip(LOCATIONS, seen["fetched"][f"{way} location"], strict=True))

    assert {location: code for location, (code, _) in found.items()} == LOCATIONS
    assert {location: hits for location, (_, hits) in found.items() if hits} == {}


@pytest.mark.fault(3)
def test_egress_to_a_name_that_changes_its_address_stays_at_the_first(seen):
    assert (seen["fetched"]["rebinding"], seen["fetched"]["rebinding hits"]) == (["ok"] * 3, {})


@pytest.mark.fault(1, 4)
def test_egress_of_downloads_is_refused(seen):
    blocked = {"public": "ok", "metadata": "egress_blocked", "redirect": "egress_blocked"}

    assert (seen["fetched"]["cached"], seen["fetched"]["cached hits"]) == (blocked, {})


@pytest.mark.fault(1, 2, 3, 4, 11)
def test_egress_control_a_plain_client_reaches_what_is_refused(seen):
    """Else the tests above would show nothing."""
    control = seen["fetched"]["control"]
    reached = {
        url for url, hits in zip(FORMS, control["form"], strict=True) if any(hit.startswith("tcp") for hit in hits)
    }
    redirected = [hits for hits in control["location"] if hits]

    # Not dialled: multicast, broadcast and link-local addresses, and names that are not in the name server.
    assert len(set(BLOCKED) - reached) <= 11
    assert len(redirected) >= 13
    assert seen["fetched"]["control proxy"] == {f"tcp {METADATA} 3128": 1}


@pytest.mark.fault(13)
def test_egress_to_the_operators_own_server_is_for_settings_and_not_for_data(seen):
    once = {f"tcp {ALLOWED.replace(':', ' ')}": 1}
    operator = seen["operator"]

    assert (operator["system"], operator["system hits"]) == (200, once)
    assert (operator["data"], operator["data hits"]) == ("egress_blocked", {})
    assert (operator["allowed"], operator["allowed hits"]) == ("ok", once)
    assert (operator["by a public page"], operator["by a public page hits"]) == ("egress_blocked", {})


@pytest.mark.fault(8, 9, 10, 11, 12, 13)
def test_egress_of_a_page_is_refused_without_an_attempt(seen):
    """By no kind of request, redirect or move, to no target, the allowed host among them; nothing leaves by UDP."""
    rendered = seen["rendered"]

    assert rendered["hits"] == {}
    assert set(rendered["names"]) <= {*NAMES, "xn--a"}  # of the pages; none of the browser's own
    assert [path for path, (_, text) in rendered["pages"].items() if "CANARY" in text] == []
    assert rendered["pages"]["/all"][0] is None
    assert "END" in rendered["pages"]["/all"][1]
    assert "GATHERED" in rendered["pages"]["/silent"][1]


@pytest.mark.fault(9)
def test_egress_of_a_page_that_leads_elsewhere_is_an_error(seen):
    codes = {kind: seen["rendered"]["pages"][f"/move/{kind}"][0] for kind in MOVES}

    assert codes == dict.fromkeys(MOVES, "blocked_navigation")


@pytest.mark.fault(3, 8, 9, 10)
def test_egress_control_a_plain_browser_reaches_what_is_refused(seen):
    """Every target by every kind of request, every move, and UDP."""
    control = seen["unguarded"]

    assert control["missing"] == []
    assert any(hit.startswith("udp") for hit in control["hits"])


@st.composite
def private_urls(draw):
    """Private addresses in random spellings, with what a reader might take for another host around them."""
    block = draw(st.sampled_from(["127.0.0.0/8", "10.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16", "100.64.0.0/10"]))
    address = draw(st.ip_addresses(network=block))
    if draw(st.booleans()):
        octets, parts = list(address.packed), draw(st.integers(1, 4))
        write = draw(st.sampled_from([str, hex, "0{:o}".format, "0x{:08X}".format, "{:012o}".format]))
        numbers = [*octets[: parts - 1], int.from_bytes(bytes(octets[parts - 1 :]), "big")]
        host = draw(st.sampled_from([".", "。", "．", "｡"])).join(map(write, numbers))
        digits = draw(st.sampled_from(["0123456789", "０１２３４５６７８９", "⓪①②③④⑤⑥⑦⑧⑨"]))
        host = host.translate(str.maketrans("0123456789", digits))
    else:
        inside = draw(
            st.sampled_from(
                ["::ffff:{}", "::{}", "64:ff9b::{}", "::ffff:0:{}", "64:ff9b:1::{}", "fec0::{}", "fd00::{}"]
            )
        )
        six = ipaddress.IPv6Address(inside.format(address))
        host = (
            f"[{draw(st.sampled_from([six.compressed, six.exploded, six.compressed.upper(), inside.format(address)]))}]"
        )
    scheme = draw(st.sampled_from(["http://", "https://", "HTTP://", "http:", "http:/", "http:///", "http:\\\\", "//"]))
    before = draw(
        st.sampled_from(
            [
                "",
                f"{PUBLIC}@",
                "a:b@",
                f"{PUBLIC}\\@",
                f"{PUBLIC}#@",
                f"{PUBLIC}/@",
                f"{PUBLIC}%2f@",
                "%00",
                "\t",
                "\r\n",
            ]
        )
    )
    after = draw(
        st.sampled_from(["", ".", ":80", ":8080", ":443", "%2e", "\\", "\0", f"#@{PUBLIC}/", f"\\@{PUBLIC}", "%23"])
    )
    return f"{scheme}{before}{host}{after}/"


@pytest.mark.long
@pytest.mark.fault(1, 2, 6)
def test_egress_of_random_spellings_is_refused_without_an_attempt(visit):
    urls = []
    collect = settings(max_examples=RANDOM_URLS, database=None, suppress_health_check=list(HealthCheck))
    collect(given(private_urls())(urls.append))()

    found = visit("given_urls", urls=urls)["given_urls"]

    assert {url: hits for url, (_, hits) in zip(urls, found, strict=True) if hits} == {}
    assert {code for code, _ in found} <= {"egress_blocked", "bad_url", "scheme", "host_unresolved", "http_404"}
