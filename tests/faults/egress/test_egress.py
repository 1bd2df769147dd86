"""No URL, redirect or page of a benchmark reaches this machine or its network; without the guard, the same ones do.

In the network of these tests every address is this machine, and every attempt is seen, at whatever address and port.
"""

import json
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY
from tests.corpus.hostile.prying import MOVES
from tests.faults.egress.cases import ALLOWED, BLOCKED, FORMS, LOCATIONS, METADATA, NAMES
from tests.faults.egress.network import command

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def visit():
    """`visit(part, ...)` is what the parts of `visit.py` found."""
    namespace = command()
    if namespace is None:
        pytest.skip("no network namespace here: it takes root or user namespaces, and `unshare` and `ip`")

    def run(*parts):
        done = subprocess.run(
            [*namespace, sys.executable, "-m", "tests.faults.egress.visit", *parts],
            capture_output=True, text=True, check=False, cwd=REPOSITORY,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-5000:]
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def seen(visit):
    return visit("fetched", "operator", "rendered", "unguarded")


@pytest.mark.fault(1, 2, 3, 4, 6, 7)
@pytest.mark.parametrize("way", ["document", "source"])
@pytest.mark.parametrize(("kind", "codes"), [("form", FORMS), ("location", LOCATIONS)], ids=["URLs", "redirects"])
def test_egress_of_urls_and_redirects_is_refused_without_an_attempt(seen, way, kind, codes):
    found = dict(zip(codes, seen["fetched"][f"{way} {kind}"], strict=True))

    assert {url: code for url, (code, _) in found.items()} == codes
    assert {url: hits for url, (_, hits) in found.items() if hits} == {}


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
    code, text = rendered["pages"]["/all"]
    assert code is None
    assert "END" in text
    assert "GATHERED" in text  # WebRTC's script has run


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
