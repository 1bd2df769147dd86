"""One rule says which URLs can be requested, for a cell, a setting and a redirect alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.conversion import questions
from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.sources.batches import RowError
from rag_eval_pipeline.web.urls import MAX_URL, check_url, is_requestable

URLS = {
    "https": ("https://en.wikipedia.org/wiki/Diana,_Princess_of_Wales", None),
    "a fragment, a port, parentheses, an apostrophe": ("http://a.org:8080/O'Neil_(x)?q=1#b/c", None),
    "letters beyond ASCII": ("https://münchen.de/Hiyō", None),
    "no scheme": ("en.wikipedia.org/wiki/Ada", "scheme"),
    "nothing": ("", "scheme"),
    "a file": ("file:///etc/passwd", "scheme"),
    "the browser itself": ("chrome://version", "scheme"),
    "no host": ("http:///a", "bad_url"),
    "no host but a user": ("http://#@a.org", "bad_url"),
    "credentials": ("https://user:pw@a.org", "bad_url"),
    "a blank": ("https://a.org/x y", "bad_url"),
    "a blank of no ASCII": ("https://a.org/x\u00a0y", "bad_url"),
    "blanks around it": (" https://a.org/ ", "bad_url"),
    "a line end": ("https://a.org/\r\nHost: b", "bad_url"),
    "a backslash before the path": ("https://a.org\\@b.org", "bad_url"),
    "a backslash in the path": ("https://a.org/b\\c", "bad_url"),
    "a quote of the markup around it": ('https://a.org/">a', "bad_url"),
    "NUL, encoded": ("https://a.org/%00", "bad_url"),
    "digits of another script in an address": ("http://①②⑦.0.0.1/", "bad_url"),
    "no Punycode": ("http://xn--a/", "bad_url"),
    "an address that is none": ("http://999.1.1.1/", "bad_url"),
    "a port that is none": ("http://a.org:99999/", "bad_url"),
    "port 0": ("http://a.org:0/", "bad_url"),
    "half a character": ("http://a.org/\ud800", "bad_url"),
    "too long": ("http://a.org/" + "a" * MAX_URL, "bad_url"),
}


@pytest.mark.fault(6, 7)
@pytest.mark.parametrize(("url", "code"), URLS.values(), ids=URLS)
def test_url_is_accepted_or_refused_with_a_code_and_by_a_row_alike(url, code):
    if code is None:
        assert str(check_url(url)).startswith("http")
        assert questions.check_url(url) == url
        return
    with pytest.raises(DocumentError) as refused:
        check_url(url)
    with pytest.raises(RowError) as row:
        questions.check_url(url)

    assert (refused.value.code, row.value.code) == (code, "bad_url")


@pytest.mark.fault(6)
@given(
    st.text()
    | st.text().map(lambda text: f"http://{text}")
    | st.text("axn1-.:/%0@#?").map(lambda text: f"http://{text}")
    | st.text().map(lambda text: f"https://h/{text}")
)
def test_any_text_is_a_url_that_can_be_requested_or_is_refused_with_a_code(url):
    code = "ok"
    try:
        checked = check_url(url)
    except DocumentError as error:
        code = error.code

    assert code in {"ok", "scheme", "bad_url"}
    assert is_requestable(url) is (code == "ok")
    assert code != "ok" or (checked.scheme in {"http", "https"} and checked.host)
