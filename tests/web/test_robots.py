"""robots.txt is asked for once a host, read as RFC 9309 says, and not at all where the setting ignores it."""

import asyncio

import pytest

from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.web.egress.proxy import EgressProxy
from rag_eval_pipeline.web.fetcher import USER_AGENT, fetcher
from rag_eval_pipeline.web.robots import CRAWL_DELAY_MAX_S, PRODUCT, READ_BYTES, Robots

HOST = "https://a.example"


class Hosts:
    """Answers instead of hosts: bytes, or the code of an error."""

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


RULES = {
    #                                      robots.txt                                                  path             allowed
    "nothing said":                        (b"",                                                       "/a",            True),
    "all forbidden":                       (b"User-agent: *\nDisallow: /\n",                           "/a",            False),
    "an empty rule forbids nothing":       (b"User-agent: *\nDisallow:\n",                             "/a",            True),
    "the file itself is never forbidden":  (b"User-agent: *\nDisallow: /\n",                           "/robots.txt",   True),
    "prefix":                              (b"User-agent: *\nDisallow: /priv\n",                       "/private/x",    False),
    "paths have cases":                    (b"User-agent: *\nDisallow: /Priv\n",                       "/private",      True),
    "the longest rule wins":               (b"User-agent: *\nDisallow: /w\nAllow: /w/open\n",          "/w/open/1",     True),
    "whatever the order":                  (b"User-agent: *\nAllow: /w\nDisallow: /w/closed\n",        "/w/closed/1",   False),
    "allow wins a tie":                    (b"User-agent: *\nDisallow: /w\nAllow: /w\n",               "/w",            True),
    "star":                                (b"User-agent: *\nDisallow: /*/edit\n",                     "/page/edit",    False),
    "end of the address":                  (b"User-agent: *\nDisallow: /*.pdf$\n",                     "/a.pdf",        False),
    "not the end of the address":          (b"User-agent: *\nDisallow: /*.pdf$\n",                     "/a.pdf?x=1",    True),
    "query":                               (b"User-agent: *\nDisallow: /i.php?action=\n",              "/i.php?action=1", False),
    "fragment is not sent":                (b"User-agent: *\nDisallow: /a\n",                          "/b#/a",         True),
    "percent and letters are the same":    ("User-agent: *\nDisallow: /caf\u00e9\n".encode(),          "/caf%C3%A9",    False),
    "others' group":                       (b"User-agent: Googlebot\nDisallow: /\n",                   "/a",            True),
    "own group":                           (b"User-agent: RAG-eval-pipeline\nDisallow: /\n",           "/a",            False),
    "own group instead of all's":          (b"User-agent: *\nDisallow: /\n\nUser-agent: rag-eval-pipeline\nDisallow: /x\n", "/a", True),
    "a browser's group is not ours":       (b"User-agent: Mozilla\nDisallow: /\n",                     "/a",            True),
    "two names, one group":                (b"User-agent: x\nUser-agent: *\nDisallow: /\n",            "/a",            False),
    "byte order mark":                     (b"\xef\xbb\xbfUser-agent: *\nDisallow: /\n",               "/a",            False),
    "lines of an old Mac":                 (b"User-agent: *\rDisallow: /\r",                           "/a",            False),
    "comments and blanks":                 (b"  User-agent : *  # all\n\n Disallow: /a # not this\n",  "/a",            False),
    "a page instead of the file":          (b"<!doctype html><title>Home</title><p>Hello",             "/a",            True),
    "bytes without meaning":               (bytes(range(256)),                                         "/a",            True),
    "beyond the limit nothing is read":    (b"#" * READ_BYTES + b"\nUser-agent: *\nDisallow: /\n",     "/a",            True),
    "half a rule is no rule":              (b"User-agent: *\n#" + b"x" * (READ_BYTES - 15 - 12) + b"\nDisallow: /abc\n", "/x", True),
}  # fmt: skip


@pytest.mark.parametrize(("rules", "path", "allowed"), RULES.values(), ids=RULES)
async def test_rules_are_read_as_the_standard_says(rules, path, allowed):
    assert await refusal(obeying(rules), HOST + path) == (None if allowed else "robots_disallowed")


ERRORS = {
    #                                code                   refused with
    "there is none":                ("http_404",             None),
    "gone":                         ("http_410",             None),
    "not for us to read":           ("http_403",             None),
    "nothing in it":                ("empty_body",           None),
    "redirects without end":        ("too_many_redirects",   None),
    "a picture":                    ("unsupported_type",     None),
    "too many requests":            ("http_429",             "robots_unreachable"),
    "broken server":                ("http_500",             "robots_unreachable"),
    "busy server":                  ("http_503",             "robots_unreachable"),
    "too slow":                     ("fetch_timeout",        "robots_unreachable"),
    "line broken":                  ("connection_broken",    "robots_unreachable"),
    "nobody vouches for it":        ("tls_untrusted",        "robots_unreachable"),
    "leads to a private address":   ("egress_blocked",       "robots_unreachable"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "refused"), ERRORS.values(), ids=ERRORS)
async def test_what_is_not_there_allows_and_what_is_out_of_reach_forbids(code, refused):
    robots = obeying(code)

    assert await refusal(robots, HOST + "/a") == refused
    assert await robots.crawl_delay_s(HOST + "/a") == 0.0


async def test_a_refusal_says_why_and_what_to_do():
    with pytest.raises(DocumentError) as refused:
        await obeying("http_503").check(HOST + "/a")

    assert "http_503" in refused.value.message
    assert "robots: ignore" in refused.value.message


async def test_a_host_is_asked_once_even_by_many_at_once():
    hosts = Hosts(b"User-agent: *\nDisallow: /no\n")
    robots = Robots(hosts.fetch, setting="obey")

    urls = [HOST + "/a", HOST + "/no", "https://A.example:443/b", "http://a.example/c", "https://a.example:8443/d"]
    answers = await asyncio.gather(*(refusal(robots, url) for url in urls))

    assert answers == [None, "robots_disallowed", None, None, None]
    assert sorted(hosts.asked) == [
        "http://a.example:80/robots.txt",
        "https://a.example:443/robots.txt",
        "https://a.example:8443/robots.txt",
    ]


async def test_one_who_gives_up_does_not_take_the_answer_from_the_others():
    hosts = Hosts(b"User-agent: *\nDisallow: /no\n")
    robots = Robots(hosts.fetch, setting="obey")
    first = asyncio.ensure_future(refusal(robots, HOST + "/no"))
    second = asyncio.ensure_future(refusal(robots, HOST + "/no"))
    await asyncio.sleep(0)

    first.cancel()

    assert await second == "robots_disallowed"


async def test_ignored_files_are_not_even_asked_for():
    hosts = Hosts(b"User-agent: *\nDisallow: /\nCrawl-delay: 9\n")
    robots = Robots(hosts.fetch, setting="ignore")

    assert await refusal(robots, HOST + "/a") is None
    assert await robots.crawl_delay_s(HOST + "/a") == 0.0
    assert hosts.asked == []


@pytest.mark.parametrize(
    ("stated", "delay_s"),
    [("2.5", 2.5), ("0", 0.0), ("-3", 0.0), ("nan", 0.0), ("inf", 0.0), ("soon", 0.0), ("86400", CRAWL_DELAY_MAX_S)],
)
async def test_the_crawl_delay_is_bounded_whatever_the_host_says(stated, delay_s):
    robots = obeying(f"User-agent: *\nCrawl-delay: {stated}\n".encode())

    assert await robots.crawl_delay_s(HOST + "/a") == delay_s


async def test_rules_of_many_hosts_are_not_all_kept():
    hosts = Hosts(b"User-agent: *\nDisallow: /no\n")
    robots = Robots(hosts.fetch, setting="obey")
    for n in range(1001):
        assert await refusal(robots, f"https://h{n}.example/no") == "robots_disallowed"

    assert await refusal(robots, "https://h1000.example/no") == "robots_disallowed"
    assert await refusal(robots, "https://h0.example/no") == "robots_disallowed"

    assert hosts.asked.count("https://h1000.example:443/robots.txt") == 1
    assert hosts.asked.count("https://h0.example:443/robots.txt") == 2


async def test_an_address_without_host_is_refused():
    with pytest.raises(ValueError, match="names no host"):
        await obeying(b"").check("data:text/html,x")


def test_the_product_is_the_one_that_requests_name():
    assert PRODUCT in USER_AGENT


async def test_the_file_is_fetched_through_the_guard(site):
    site.answers["/robots.txt"] = (200, {"Content-Type": "text/plain"}, b"User-agent: *\nDisallow: /no\n")

    async with EgressProxy(site.policy(robots="obey")) as guard, fetcher(guard) as source:
        with pytest.raises(DocumentError) as refused:
            await source.fetch(site.url("/no"))

    assert refused.value.code == "robots_disallowed"
    assert site.asked == ["/robots.txt"]
