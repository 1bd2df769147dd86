"""robots.txt is fetched once a host, read as RFC 9309 says, and not at all where the setting ignores it."""

import asyncio

import pytest

from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.web.robots import CRAWL_DELAY_MAX_S, READ_BYTES, Robots

HOST = "https://a.example"


class Hosts:
    """Answers in place of hosts: bytes, or the code of an error."""

    def __init__(self, answer: bytes | str) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def fetch(self, url: str) -> bytes:
        self.asked.append(url)
        await asyncio.sleep(0)
        if isinstance(self.answer, str):
            raise DocumentError(self.answer, f"{url}: no")
        return self.answer


def obeying(answer: bytes | str) -> Robots:
    return Robots(Hosts(answer).fetch, setting="obey")


async def refusal(robots: Robots, url: str) -> str | None:
    try:
        await robots.check(url)
    except DocumentError as error:
        return error.code
    return None


# Matching itself is protego's: these are the cases that it and `urllib.robotparser` decide differently, and our own.
RULES = {
    #                                      robots.txt                                                  path             allowed
    "all forbidden":                       (b"User-agent: *\nDisallow: /\n",                           "/a",            False),
    "the file itself is never forbidden":  (b"User-agent: *\nDisallow: /\n",                           "/robots.txt",   True),
    "the longest rule wins":               (b"User-agent: *\nDisallow: /w\nAllow: /w/open\n",          "/w/open/1",     True),
    "star":                                (b"User-agent: *\nDisallow: /*/edit\n",                     "/page/edit",    False),
    "percent and letters are the same":    ("User-agent: *\nDisallow: /caf\u00e9\n".encode(),          "/caf%C3%A9",    False),
    "our group":                           (b"User-agent: RAG-eval-pipeline\nDisallow: /\n",           "/a",            False),
    "our group instead of all's":          (b"User-agent: *\nDisallow: /\n\nUser-agent: rag-eval-pipeline\nDisallow: /x\n", "/a", True),
    "a page instead of the file":          (b"<!doctype html><title>Home</title><p>Hello",             "/a",            True),
    "beyond the limit nothing is read":    (b"#" * READ_BYTES + b"\nUser-agent: *\nDisallow: /\n",     "/a",            True),
    "half a rule is no rule":              (b"User-agent: *\n#" + b"x" * (READ_BYTES - 15 - 12) + b"\nDisallow: /abc\n", "/x", True),
}  # fmt: skip


@pytest.mark.parametrize(("rules", "path", "allowed"), RULES.values(), ids=RULES)
async def test_robots_rules_are_read_as_the_standard_says(rules, path, allowed):
    assert await refusal(obeying(rules), HOST + path) == (None if allowed else "robots_disallowed")


ALLOWING = ("http_404", "http_403", "too_many_redirects", "unsupported_type")
FORBIDDING = ("http_429", "http_500", "egress_blocked")


@pytest.mark.parametrize(("code", "refused"), [*((c, False) for c in ALLOWING), *((c, True) for c in FORBIDDING)])
async def test_robots_that_is_absent_allows_and_that_is_unreachable_forbids(code, refused):
    robots = obeying(code)

    if not refused:
        assert await robots.check(HOST + "/a") == 0.0
        return
    with pytest.raises(DocumentError, match=f"{code}.*robots: ignore") as error:
        await robots.check(HOST + "/a")
    assert error.value.code == "robots_unreachable"


async def test_robots_is_fetched_once_a_host_even_by_many_at_once_and_after_one_gives_up():
    hosts = Hosts(b"User-agent: *\nDisallow: /no\n")
    robots = Robots(hosts.fetch, setting="obey")
    first = asyncio.ensure_future(refusal(robots, HOST + "/no"))
    urls = [HOST + "/a", HOST + "/no", "https://A.example:443/b", "http://a.example/c", "https://a.example:8443/d"]
    others = [asyncio.ensure_future(refusal(robots, url)) for url in urls]
    await asyncio.sleep(0)

    first.cancel()

    assert await asyncio.gather(*others) == [None, "robots_disallowed", None, None, None]
    assert set(hosts.asked) == {f"{o}/robots.txt" for o in ("http://a.example:80", HOST + ":443", HOST + ":8443")}
    assert len(hosts.asked) <= 4  # one more for the request that was given up


async def test_robots_ignored_is_not_fetched():
    hosts = Hosts(b"User-agent: *\nDisallow: /\nCrawl-delay: 9\n")
    robots = Robots(hosts.fetch, setting="ignore")

    assert await robots.check(HOST + "/a") == 0.0
    assert hosts.asked == []


@pytest.mark.parametrize(
    ("stated", "delay_s"),
    [("2.5", 2.5), ("-3", 0.0), ("nan", 0.0), ("soon", 0.0), ("86400", CRAWL_DELAY_MAX_S)],
)
async def test_robots_crawl_delay_is_bounded(stated, delay_s):
    robots = obeying(f"User-agent: *\nCrawl-delay: {stated}\n".encode())

    assert await robots.check(HOST + "/a") == delay_s
