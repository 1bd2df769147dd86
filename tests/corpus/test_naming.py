"""File names follow the stem rule to the letter, and no list of URLs makes two documents share a name."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.naming import NameRequest, assign_names, document_key, folded, pins, url_stem
from rag_eval_pipeline.errors import InputError

STEMS = {
    "last path segment": ("https://h/a/Article_Title", "Article_Title"),
    "fragment after a hash": ("https://h/a/Article_Title#Sec", "Article_Title#Sec"),
    "percent-encoding stays": ("https://h/Another%20Article", "Another%20Article"),
    "an encoded slash stays": ("https://h/AC%2FDC", "AC%2FDC"),
    "the query is no part of it": ("https://h/w/index.php?title=A", "index.php"),
    "params are no part of it": ("https://h/p;v=1", "p"),
    "trailing slash": ("https://h/dir/", ""),
    "no path": ("https://h", ""),
    "only a fragment": ("https://h/#x", "#x"),
    "empty fragment": ("https://h/a#", "a"),
    "text fragment": ("https://h/a#:~:text=foo", "a#:~:text=foo"),
    "slash in the fragment": ("https://h/a#b/c", "a#b/c"),
    "blanks around it": (" https://h/a ", "a"),
    "a host that urlparse refuses": ("http://[x/foo/bar#s", "bar#s"),
}

NAMES = {
    "suffix appended": ("https://h/a/Article_Title", "Article_Title.pdf", ()),
    "suffix already there": ("https://h/Foo.pdf", "Foo.pdf", ()),
    "suffix inside the stem": ("https://h/Foo.pdf#page=3", "Foo.pdf#page=3.pdf", ()),
    "upper-case suffix is no suffix": ("https://h/Foo.PDF", "Foo.PDF.pdf", ()),
    "html keeps its extension": ("https://h/index.html", "index.html.pdf", ()),
    "last non-empty segment": ("https://h/dir/", "dir.pdf", ("empty_segment",)),
    "host": ("https://h:81/", "h:81.pdf", ("empty_segment",)),
    "host in lower case": ("https://Example.ORG/", "example.org.pdf", ("empty_segment",)),
    "host without the password": ("https://u:p@h", "h.pdf", ("empty_segment",)),
    "nothing at all": ("", "document.pdf", ("empty_segment",)),
    "parent folder": ("https://h/..", "h.pdf", ("empty_segment",)),
    "this folder": ("https://h/a/.", "a.pdf", ("empty_segment",)),
    "parent folder with a fragment": ("https://h/a/..#x", "..#x.pdf", ()),
    "query dropped": ("https://h/a?b=1", "a.pdf", ("query_dropped",)),
    "params dropped": ("https://h/wiki/Foo;bar_(x)", "Foo.pdf", ("params_dropped",)),
    "nothing but a query": ("https://h/?b=1", "h.pdf", ("query_dropped", "empty_segment")),
    "leading dash": ("https://h/-rf", "-rf.pdf", ()),
    "leading dot": ("https://h/.htaccess", ".htaccess.pdf", ()),
    "a device of Windows": ("https://h/CON", "CON.pdf", ()),
    "a backslash": ("https://h/a\\b", "a\\b.pdf", ()),
    "slash escaped": ("https://h/a#b/../c", "a#b%2F..%2Fc.pdf", ("escaped",)),
    "NUL escaped": ("https://h/x\0y", "x%00y.pdf", ("escaped",)),
    "lone surrogate escaped": ("https://h/x\ud800", "x%ED%A0%80.pdf", ("escaped",)),
    "encoded NUL is verbatim": ("https://h/x%00y", "x%00y.pdf", ()),
    "tabs and newlines vanish as in urlparse": ("https://h/a\tb\nc", "abc.pdf", ()),
}

KEYS = {
    "scheme": ("http://h/a", "https://h/a", True),
    "case of the host": ("http://H/a", "http://h/a", True),
    "fragment": ("http://h/a#x", "http://h/a#y", True),
    "percent-encoding of the path": ("http://h/Hiy%C5%8D", "http://h/Hiyō", True),
    "no path": ("http://h", "http://h/", True),
    "port": ("http://h:81/a", "http://h/a", False),
    "case of the path": ("http://h/A", "http://h/a", False),
    "query": ("http://h/a?b=1", "http://h/a?b=2", False),
    "params": ("http://h/a;b=1", "http://h/a", False),
    "an encoded question mark is no query": ("http://h/a%3Fb", "http://h/a?b", False),
    "bytes that are no UTF-8": ("http://h/%FF", "http://h/%FE", False),
    "an encoded slash is no slash": ("https://h/a%2Fb", "https://h/a/b", False),
    "an encoded slash in either case": ("https://h/a%2Fb", "https://h/a%2fb", True),
    "an encoded percent sign": ("https://h/a%253Fb", "https://h/a%3Fb", False),
    "a percent sign that encodes nothing": ("https://h/100%", "https://h/100%25", True),
    "an encoded plus sign": ("https://h/c%2B%2B", "https://h/c++", False),
    "encoded letters": ("https://h/%41%7Eb", "https://h/A~b", True),
    "encoded letters of the query": ("https://h/a?q=%41%c3%a9", "https://h/a?q=A%C3%A9", True),
    "an encoded ampersand of the query": ("https://h/a?q=b%26c", "https://h/a?q=b&c", False),
    "dot segments": ("https://h/a/./b/../c", "https://h/a/c", True),
    "dot segments, encoded and at the end": ("https://h/a/b/%2e%2E", "https://h/a/", True),
    "the port of the scheme": ("https://h:443/a", "https://h/a", True),
    "the port of another scheme": ("https://h:80/a", "https://h/a", False),
    "routes": ("https://h/#/install", "https://h/#/billing", False),
    "a route and the page": ("https://h/#!install", "https://h/", False),
    "a route in two spellings": ("https://h/#/%69nstall", "http://H/#/install", True),
    "a place within a page": ("https://h/a#b/c", "https://h/a", True),
}


def named(*urls, pinned=None, strict=False):
    return assign_names([NameRequest(document_key(url), url) for url in urls], pinned, strict=strict)


def manifest(*rows):
    return [
        CorpusDocument(document_key(url), name, url, None, (), "missing", None, None, None, 0) for url, name in rows
    ]


@pytest.mark.fault(19)
@pytest.mark.parametrize(("url", "stem"), STEMS.values(), ids=STEMS)
def test_url_stem(url, stem):
    assert url_stem(url) == stem


@pytest.mark.fault(19, 22)
@pytest.mark.parametrize(("url", "name", "flags"), NAMES.values(), ids=NAMES)
def test_name_of_a_url(url, name, flags):
    [given_name] = named(url)

    assert (given_name.name, given_name.flags) == (name, flags)


@pytest.mark.parametrize(("one", "other", "same"), KEYS.values(), ids=KEYS)
def test_document_key_is_equal_for_equivalent_urls_only(one, other, same):
    assert (document_key(one) == document_key(other)) is same


@pytest.mark.fault(20)
def test_name_of_a_collision_gets_eight_digits_of_the_urls_hash_or_is_refused():
    urls = "https://h/w/index.php?title=A", "https://h/w/index.php?title=B"

    names = named(*urls)

    # printf %s 'https://h/w/index.php?title=B' | sha256sum
    assert [n.name for n in names] == ["index.php.pdf", "index.php~ac3f065f.pdf"]
    assert names[1].flags == ("query_dropped", "collision")
    with pytest.raises(InputError) as refused:
        named(*urls, strict=True)
    assert refused.value.code == "stem_collision"


@pytest.mark.fault(20)
@pytest.mark.parametrize(
    "other",
    [
        "https://h/article",
        "https://g/Article",
        "https://h/Article?id=2",
        "https://h/Article;p=1",
        "https://h/Cafe\u0301",
        "https://h/Article.pdf",
    ],
)
def test_names_that_some_file_system_takes_for_equal_are_a_collision(other):
    names = named("https://h/Article", "https://h/Café", other)

    assert names[2].flags[-1:] == ("collision",)
    assert len({folded(n.name) for n in names}) == 3


@pytest.mark.fault(21)
def test_name_of_an_overlong_stem_is_cut_between_escapes_and_ends_in_sixteen_digits():
    [name] = named("https://h/" + "%E6%B7%B1" * 60)

    assert name.flags == ("truncated",)
    assert len(name.name) <= 255
    # 255 - len("~" + 16 digits + ".pdf") = 234 bytes = 78 escapes of three, with none cut
    assert name.name[:235] == "%E6%B7%B1" * 26 + "~"
    for shift in range(1, 7):
        cut = named("https://h/" + "x" * shift + "%AB" * 100)[0].name
        assert not cut.split("~")[0].endswith(("%", "%A")), cut
        assert named("https://h/" + "x" * shift + "深" * 100)[0].name.encode().decode()


def test_name_that_a_source_gives_with_digits_takes_no_other_name():
    hashed = named("https://h/A", "https://g/A")[1].name

    names = named(f"https://h/{hashed}", "https://h/A", "https://g/A")

    assert names[0].name == hashed
    assert len({folded(n.name) for n in names}) == 3


def test_name_of_a_document_without_url_is_that_of_its_file():
    requests = [NameRequest("r", name="report.html"), NameRequest("a/b", name="a/b"), NameRequest("d", name="Foo.pdf")]

    assert [n.name for n in assign_names(requests)] == ["report.html.pdf", "a%2Fb.pdf", "Foo.pdf"]


def test_pinned_name_that_the_rule_cannot_have_given_is_not_followed():
    pinned = pins(manifest(("https://h/A", "../../etc/passwd"), ("https://h/B", "C.pdf")))

    assert [n.name for n in named("https://h/A", "https://h/B", pinned=pinned)] == ["A.pdf", "B.pdf"]


URLS = st.one_of(
    st.text(max_size=300),
    st.text(alphabet=st.characters(exclude_categories=[]), max_size=40).map(lambda t: "http://h/" + t),
    st.builds(
        "{}://{}/{}{}{}".format,
        st.sampled_from(["http", "https", "HTTP"]),
        st.sampled_from(["h", "g", "H", "[::1]", "[x"]),
        st.sampled_from(
            ["A", "a", "é", "e\u0301", "ß", "ss", "A.pdf", "%41", "x" * 251, "深" * 90, "%E6" * 99, "", "a/"]
        ),
        st.sampled_from(["", "?q=1", ";p"]),
        st.sampled_from(["", "#x", "#X", "#a/b"]),
    ),
)


@pytest.mark.fault(19, 20, 21)
@given(st.lists(URLS, max_size=12), st.randoms())
def test_names_of_any_urls_and_files_are_valid_distinct_and_kept_by_pins(urls, random):
    requests = [NameRequest(document_key(url), url) for url in urls]
    requests += [NameRequest(f"file {n}", name=url) for n, url in enumerate(urls[::2]) if url]
    names = assign_names(requests)

    by_identity = {request.identity: name for request, name in zip(requests, names, strict=True)}
    assert len({unicodedata.normalize("NFC", n.name).casefold() for n in by_identity.values()}) == len(by_identity)
    for request, name in zip(requests, names, strict=True):
        assert 0 < len(name.name.encode()) <= 255
        assert "/" not in name.name
        assert "\0" not in name.name
        assert name.name not in {".", ".."}
        assert name.name.endswith(".pdf")
        assert {"empty_segment", "escaped", "truncated"} & set(name.flags) or name.name.startswith(
            request.identity.stem
        )
        assert request.key.encode()

    pinned = {request.identity: name.name for request, name in zip(requests, names, strict=True)}
    random.shuffle(requests)
    again = assign_names(requests, pinned)
    assert {r.identity: (n.name, n.flags) for r, n in zip(requests, again, strict=True)} == {
        identity: (name.name, name.flags) for identity, name in by_identity.items()
    }


@given(st.dictionaries(URLS, st.text(max_size=8) | st.sampled_from(["A.pdf", "a.pdf", "é.pdf"]), max_size=6))
def test_names_with_any_pins_are_distinct(pinned):
    requests = [NameRequest(document_key(url), url) for url in pinned]

    names = assign_names(requests, {r.identity: name for r, name in zip(requests, pinned.values(), strict=True)})

    assert len({folded(n.name) for n in names}) == len({r.identity for r in requests})
