"""What a page may ask for: everything where it is allowed, and nothing of this machine where it is not."""

import asyncio

import pytest

from corpus.hostile.answers import moved, page
from corpus.hostile.prying import KINDS, MOVES
from corpus.hostile.rendering import make_all, rendering
from corpus.hostile.site import Reply, Site, running
from rag_eval_pipeline.corpus.documents import FileName, PlannedDocument
from rag_eval_pipeline.web.egress_proxy import REFUSAL_HEADER
from tests.web.certificates import Authority

pytestmark = pytest.mark.browser

SECRET = "CANARY-TEXT"
CANARY = Reply(f"<p>{SECRET}".encode(), headers=("Access-Control-Allow-Origin: *",))


def prying_page(address: str) -> Reply:
    return Reply(page("".join(html.format(u=f"{address}/{kind}") for kind, html in KINDS.items()) + "END").encode())


def reached(canary: Site) -> set[str]:
    return {path.removeprefix("/") for path in canary.asked if path.startswith("/")}


async def test_page_reaches_an_allowed_host_by_every_kind_of_request(own_temp):
    async with running({}, otherwise=CANARY) as canary:
        answers = {"/": prying_page(f"http://{canary.host}")}
        async with (
            running(answers) as site,
            rendering(site.host, {"host": canary.host, "for": [site.host]}) as renderer,
        ):
            [outcome] = await make_all(renderer, [site.url("/")], at_once=1)

    assert "END" in outcome.text
    assert reached(canary) >= set(KINDS)
    assert SECRET in outcome.text


@pytest.mark.parametrize("public", [False, True])
async def test_page_reaches_no_host_that_is_open_to_other_documents(own_temp, public):
    """Not from a page of another private host, and not from one of a host that is no private one."""
    answers = {}
    async with running({}, otherwise=CANARY) as canary, running(answers) as site:
        answers["/bounce"] = moved(canary.url("/redirected"))
        html = page(
            "".join(html.format(u=f"{canary.url('')}/{kind}") for kind, html in KINDS.items())
            + f"<iframe src={site.url('/bounce')}></iframe><img src={site.url('/bounce')}>END"
        )
        answers["/"] = Reply(html.encode())
        shown = PlannedDocument("x", (FileName("x.pdf"),), "html", "http://public.invalid/", None, html)
        async with rendering(site.host, canary.host) as renderer:
            outcome, own = await make_all(renderer, [shown if public else site.url("/"), canary.url("/own")], at_once=1)

    assert "END" in outcome.text
    assert SECRET not in outcome.text
    assert own.text == SECRET
    assert canary.asked == {"/own": 1, Site.CONNECTED: 1}


async def test_page_that_may_reach_private_hosts_does_not_move_to_another_host(own_temp):
    """What it leads to would else show a private page: here one of a host that is as private, and not open to it."""
    answers, others = {"/own": CANARY}, {}
    async with running(others) as other, running(answers) as site:
        others["/"] = Reply(page(f"<iframe src={site.url('/own')}></iframe>OTHER").encode())
        answers["/bounce"] = moved(other.url("/"))
        answers |= {f"/{kind}": Reply(page("FIRST" + html).encode()) for kind, html in moves_to(other.url("/"))}
        async with rendering(site.host, {"host": other.host, "for": [site.host]}) as renderer:
            outcomes = await make_all(renderer, [site.url(f"/{kind}") for kind in MOVES], at_once=4)

    assert {kind: o.code for kind, o in zip(MOVES, outcomes, strict=True)} == dict.fromkeys(MOVES, "blocked_navigation")
    assert "/own" not in site.asked


async def test_page_over_https_cannot_forge_a_refusal(own_temp, tmp_path):
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    answers = {
        "/": Reply(page("<script>location='/next'</script>FIRST").encode()),
        "/next": Reply(page("NEXT").encode(), headers=(f"{REFUSAL_HEADER}: x",)),
    }
    async with (
        running(answers, tls=authority.server()) as site,
        rendering(site.host, ca_file=str(tmp_path / "ca.pem")) as renderer,
    ):
        [outcome] = await make_all(renderer, [site.url("/", "https")], at_once=1)

    assert (outcome.code, outcome.text) == (None, "NEXT")


HOSTS = ("127.0.0.1", "localhost", "0.0.0.0", "2130706433", "127.1", "[::1]")


async def test_page_reaches_this_machine_by_no_kind_of_request(own_temp):
    async with (
        running({}, otherwise=CANARY, host="0.0.0.0") as canary,
        running({}, otherwise=CANARY, host="::1") as sixth,
    ):
        ports = {host: sixth.port if ":" in host else canary.port for host in HOSTS}
        answers = {f"/{n}": prying_page(f"http://{host}:{ports[host]}") for n, host in enumerate(HOSTS)}
        async with running(answers) as site, rendering(site.host) as renderer:
            outcomes = await make_all(renderer, [site.url(path) for path in answers], at_once=3)

    assert [host for host, o in zip(HOSTS, outcomes, strict=True) if "END" not in o.text or SECRET in o.text] == []
    assert canary.asked == sixth.asked == {}


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_page_that_leads_to_this_machine_is_an_error(own_temp, scheme):
    async with running({}, otherwise=CANARY) as canary:
        address = canary.url("/", scheme)
        answers = {f"/{kind}": Reply(page("FIRST" + html).encode()) for kind, html in moves_to(address)}
        answers["/bounce"] = moved(address)
        async with running(answers) as site, rendering(site.host) as renderer:
            outcomes = await make_all(renderer, [site.url(f"/{kind}") for kind in MOVES], at_once=4)

    assert {kind: o.code for kind, o in zip(MOVES, outcomes, strict=True)} == dict.fromkeys(MOVES, "blocked_navigation")
    assert canary.asked == {}


async def test_popup_to_this_machine_leaves_the_page_as_it_is(own_temp):
    async with running({}, otherwise=CANARY) as canary:
        popups = (
            f"<a id=a target=_blank href={canary.url('/')}>a</a><script>a.click();open('{canary.url('/')}')</script>"
        )
        async with running({"/": Reply(page("END" + popups).encode())}) as site, rendering(site.host) as renderer:
            [outcome] = await make_all(renderer, [site.url("/")], at_once=1)

    assert (outcome.text.split(), outcome.flags) == (["ENDa"], ())
    assert canary.asked == {}


LOCAL = ("file://{path}", "view-source:file://{path}", "filesystem:file://{path}")


async def test_page_reads_a_file_by_no_kind_of_request(own_temp):
    """The file is one that the browser's user could read."""
    secret = own_temp / "secret"
    secret.write_text(f"<p>{SECRET}")
    addresses = [form.format(path=secret) for form in LOCAL]
    answers = {f"/beside-{n}": Reply(page("".join(h.format(u=address) for h in KINDS.values()) + "END").encode())
               for n, address in enumerate(addresses)}  # fmt: skip
    for n, address in enumerate(addresses):
        answers |= {f"/{kind}-{n}": Reply(page("FIRST" + html).encode()) for kind, html in moves_to(address)}
    async with running(answers) as site, rendering(site.host) as renderer:
        paths = [path for path in answers if "by-way" not in path]
        outcomes = await make_all(renderer, [site.url(path) for path in paths], at_once=4)
    secret.unlink()

    assert [path for path, outcome in zip(paths, outcomes, strict=True) if SECRET in outcome.text] == []
    assert [path for path, outcome in zip(paths, outcomes, strict=True) if "END" not in outcome.text + "END" * (
        "beside" not in path)] == []  # fmt: skip


SCHEMES = (
    "file:///etc/passwd", "data:text/html,x", "blob:http://h/1", "ftp://h/x", "javascript:alert(1)", "chrome://version",
    "view-source:http://h/", "about:blank", "gopher://h/", "filesystem:http://h/x", "//h/x", "/etc/passwd",
)  # fmt: skip


async def test_document_has_no_other_scheme_than_http(own_temp):
    async with rendering() as renderer:
        outcomes = await make_all(renderer, SCHEMES, at_once=1)

    assert {url: o.code for url, o in zip(SCHEMES, outcomes, strict=True)} == dict.fromkeys(SCHEMES, "scheme")


class Datagrams(asyncio.DatagramProtocol):
    """Counts what arrives."""

    def __init__(self) -> None:
        self.count = 0

    def datagram_received(self, data: bytes, address: object) -> None:
        self.count += 1


async def test_web_rtc_sends_no_datagram(own_temp):
    loop = asyncio.get_running_loop()
    transport, datagrams = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    script = (
        f"const c=new RTCPeerConnection({{iceServers:[{{urls:'stun:127.0.0.1:{port}'}}]}});c.createDataChannel('x');"
        "c.onicegatheringstatechange=()=>{if(c.iceGatheringState=='complete')p.textContent='GATHERED'.repeat(50)};"
        "c.createOffer().then(o=>c.setLocalDescription(o))"
    )
    answers = {"/": Reply(page(f"<p id=p></p><script>{script}</script>").encode())}
    async with running(answers) as site, rendering(site.host) as renderer:
        [outcome] = await make_all(renderer, [site.url("/")], at_once=1)
    transport.close()

    assert datagrams.count == 0
    assert "GATHERED" in outcome.text


async def test_certificate_of_an_unknown_authority_is_not_accepted(own_temp):
    async with running({}, otherwise=CANARY, tls=Authority("127.0.0.1").as_server()) as canary:
        address = canary.url("/", "https")
        answers = {
            "/beside": Reply(page(f"<img src={address}><iframe src={address}></iframe>END").encode()),
            "/leads": Reply(page(f"<script>location='{address}'</script>").encode()),
        }
        async with (
            running(answers) as site,
            rendering(site.host, {"host": canary.host, "for": [site.host]}) as renderer,
        ):
            urls = [address, site.url("/leads"), site.url("/beside")]
            refused, leads, beside = await make_all(renderer, urls, at_once=1)

    assert (refused.code, leads.code) == ("tls_untrusted", "blocked_navigation")
    assert "END" in beside.text
    assert SECRET not in beside.text
    assert canary.asked == {}  # connections were tried, and none came to a request


def moves_to(address: str) -> list[tuple[str, str]]:
    return [(kind, html.format(u=address)) for kind, html in MOVES.items()]
