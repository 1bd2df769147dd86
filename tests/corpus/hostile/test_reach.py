"""A page may request everything where it is allowed, and nothing that is open to other documents only.

All pages are rendered in one visit of one browser. Its egress policy differs only by the host that a page is from.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterable

import pytest

from corpus.hostile.prying import KINDS, MOVES
from corpus.hostile.rendering import LOAD_LIMIT_S, Outcome, make_all, rendering
from corpus.hostile.site import Reply, Site, moved, page, running
from rag_eval_pipeline.corpus.documents import FileName, PlannedDocument
from rag_eval_pipeline.web.egress_proxy import REFUSAL_HEADER
from tests.web.certificates import Authority

pytestmark = pytest.mark.browser

SECRET = "CANARY-TEXT"
CANARY = Reply(f"<p>{SECRET}".encode(), headers=("Access-Control-Allow-Origin: *",))
LOCAL = ("file://{path}", "view-source:file://{path}", "filesystem:file://{path}")
LOCAL_MOVES = tuple(kind for kind in MOVES if kind != "by-way-of-the-site")


def prying_page(address: str, more: str = "", kinds: Iterable[str] = KINDS) -> str:
    """A page that requests an address by every kind of request, or by some, with the kind as path."""
    return page("".join(KINDS[kind].format(u=f"{address}/{kind}") for kind in kinds) + f"{more}END")


def moves_to(address: str, name: str, kinds: Iterable[str] = MOVES) -> dict[str, Reply]:
    """Pages that lead to an address, one for each kind of navigation."""
    return {f"/{name}-{kind}": Reply(page("FIRST" + MOVES[kind].format(u=address)).encode()) for kind in kinds}


class Visit:
    """The outcome of every page by name, and what each site was asked for."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.asked: dict[str, Counter[str]] = {}

    def codes(self, name: str) -> dict[str, str | None]:
        return {kind: self.outcomes[f"/{name}-{kind}"].code for kind in MOVES if f"/{name}-{kind}" in self.outcomes}

    async def run(self, folder) -> None:
        authority = Authority()
        (folder / "ca.pem").write_bytes(authority.pem)
        secret = folder / "secret"  # that the browser's user could read
        secret.write_text(f"<p>{SECRET}")
        trusted, plain, friends, secured = {}, {}, {}, {}
        async with contextlib.AsyncExitStack() as stack:
            sites = {
                name: await stack.enter_async_context(running(answers, otherwise=CANARY, **options))
                for name, (answers, options) in {
                    "trusted": (trusted, {}),  # may reach `friend`
                    "plain": (plain, {}),
                    "friend": (friends, {}),
                    "private": ({}, {}),  # for its own documents only
                    "secured": (secured, {"tls": authority.server()}),
                }.items()
            }
            friend, private = sites["friend"], sites["private"]
            self.asked = {name: site.asked for name, site in sites.items()}

            friends["/"] = Reply(page(f"<iframe src={sites['trusted'].url('/own')}></iframe>OTHER").encode())
            trusted["/bounce"] = moved(friend.url("/"))
            trusted |= moves_to(friend.url("/"), "friend")
            trusted["/prying"] = Reply(prying_page(f"http://{friend.host}").encode())
            bounce = sites["plain"].url("/bounce-private")
            private_page = prying_page(private.url(""), f"<iframe src={bounce}></iframe><img src={bounce}>")
            plain |= {
                path: Reply(html.encode())
                for path, html in {
                    "/private": private_page,
                    "/file-0": prying_page(LOCAL[0].format(path=secret)),
                    "/file-1": prying_page(LOCAL[1].format(path=secret), kinds=list(KINDS)[::2]),
                    "/file-2": prying_page(LOCAL[2].format(path=secret), kinds=list(KINDS)[1::2]),
                }.items()
            }
            for n, kind in enumerate(LOCAL_MOVES):  # each form of address by some of the moves
                plain |= moves_to(LOCAL[n % len(LOCAL)].format(path=secret), "file", [kind])
            paths = list(plain)
            plain["/bounce-private"] = moved(private.url("/redirected"))
            secured |= {
                "/first": Reply(page("<script>location='/next'</script>FIRST").encode()),
                "/next": Reply(page("NEXT").encode(), headers=(f"{REFUSAL_HEADER}: x",)),
            }
            documents = {
                **{path: sites["trusted"].url(path) for path in trusted if path != "/bounce"},
                **{path: sites["plain"].url(path) for path in paths},
                "public": PlannedDocument(
                    "x", (FileName("x.pdf"),), "html", "http://public.invalid/", None, private_page
                ),
                "own": private.url("/own"),
                "forged": sites["secured"].url("/first", "https"),
            }
            hosts = [sites[name].host for name in ("trusted", "plain", "private", "secured")]
            hosts.append({"host": friend.host, "for": [sites["trusted"].host]})
            async with rendering(*hosts, ca_file=str(folder / "ca.pem"), page_load_limit_s=LOAD_LIMIT_S) as renderer:
                made = await make_all(renderer, documents.values(), at_once=4)
        secret.unlink()
        self.outcomes = dict(zip(documents, made, strict=True))


@pytest.fixture(scope="module")
def visit(own_temp) -> Visit:
    visit = Visit()
    asyncio.run(visit.run(own_temp))
    return visit


@pytest.mark.fault(8)
def test_page_reaches_an_allowed_host_by_every_kind_of_request(visit):
    outcome = visit.outcomes["/prying"]

    assert "END" in outcome.text
    assert {path.removeprefix("/") for path in visit.asked["friend"]} >= set(KINDS)
    assert SECRET in outcome.text


def test_page_reaches_no_host_that_is_open_to_other_documents(visit):
    """Not from a page of another private host, and not from one of a host that is no private one."""
    for outcome in (visit.outcomes["/private"], visit.outcomes["public"]):
        assert "END" in outcome.text
        assert SECRET not in outcome.text
    assert visit.outcomes["own"].text == SECRET
    assert visit.asked["private"] == {"/own": 1, Site.CONNECTED: 1}


def test_page_that_may_reach_private_hosts_does_not_move_to_another_host(visit):
    """What it leads to would else show a private page: here one of a host that is as private, and not open to it."""
    assert visit.codes("friend") == dict.fromkeys(MOVES, "blocked_navigation")
    assert "/own" not in visit.asked["trusted"]


def test_page_over_https_cannot_forge_a_refusal(visit):
    assert (visit.outcomes["forged"].code, visit.outcomes["forged"].text) == (None, "NEXT")


@pytest.mark.fault(7)
def test_page_reads_a_file_by_no_kind_of_request(visit):
    pages = {path: outcome.text for path, outcome in visit.outcomes.items() if path.startswith("/file-")}

    assert len(pages) == len(LOCAL) + len(LOCAL_MOVES)  # a page with all kinds of requests for each form, and the moves
    assert [path for path, text in pages.items() if SECRET in text] == []
    assert [n for n in range(len(LOCAL)) if "END" not in pages[f"/file-{n}"]] == []
