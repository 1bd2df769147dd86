"""What bytes are is decided by the bytes; a charset that they contradict is replaced by the one that they speak for."""

import pytest

from rag_eval_pipeline.corpus.documents import FileName, PlannedDocument, local_body
from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.web.content_types import decode_text, fetched_body

URL = "https://h/a"


def planned(path=None, *, body="file", content=None, url=None):
    return PlannedDocument("a/b c", (FileName("n.pdf"),), body, url, path, content)


CHARSETS = {
    "UTF-8 without a label": (b"<p>caf\xc3\xa9", "text/html", "utf-8", ()),
    "windows-1252 without a label": (b"<p>caf\xe9 d\xe9j\xe0", "text/html", "windows-1252", ()),
    "a page that says it itself": (b"<meta charset=koi8-r><p>\xc1", "text/html", None, ()),
    "a label that is right": (b"<p>caf\xc3\xa9", "text/html; charset=UTF-8", "utf-8", ()),
    "a label that is wrong": (b"d\xe9j\xe0", "text/html; charset=utf-8", "windows-1252", ("charset_repaired",)),
    "one broken sequence among good ones": ("é".encode() * 9 + b"\xe2\x86", "text/html; charset=utf-8", "utf-8", ()),
    "a byte order mark": ("\ufeffx".encode("utf-16-le"), "text/plain", "utf-16", ()),
    "another label": (b"\xa4", "text/plain; charset=euc-jp", "euc-jp", ()),
}  # fmt: skip


@pytest.mark.parametrize(("data", "label", "charset", "flags"), CHARSETS.values(), ids=CHARSETS)
def test_charset(data, label, charset, flags):
    body = fetched_body(data, label, URL)

    assert (body.charset, body.flags) == (charset, flags)


TEXTS = {
    "UTF-8 with a byte order mark": (b"\xef\xbb\xbfcaf\xc3\xa9", "text/plain", "café"),
    "windows-1252": (b"caf\xe9 \x80", "text/plain", "café €"),
    "UTF-16": ("\ufeffé".encode("utf-16-le"), "text/plain", "é"),
    "an unknown charset": (b"x", "text/plain; charset=klingon", "x"),
    "a charset of Python's that decodes nothing": (b"x", "text/plain; charset=undefined", "x"),
    "a charset of Python's for names of hosts": (b"a..b", "text/plain; charset=idna", "a..b"),
}


@pytest.mark.parametrize(("data", "label", "text"), TEXTS.values(), ids=TEXTS)
def test_text(data, label, text):
    assert decode_text(fetched_body(data, label, URL)) == text


KINDS = {
    "html by label": (b"x", "text/html", "html"),
    "html by its start": (b"\xef\xbb\xbf <!-- c --> <!DOCTYPE html><p>", "application/octet-stream", "html"),
    "json is text": (b"{}", "application/json", "text"),
    "markdown by its label": (b"# A", "text/markdown", "markdown"),
    "text without a label": (b"hello", "", "text"),
    "junk before the magic": (b"junk\n%PDF-1.7", "text/plain", "pdf"),
    "xml is text": (b"<?xml version='1.0'?><a/>", "text/xml", "text"),
    "a picture by label and start": (b"\xff\xd8\xff\xe0\0", "image/jpeg", "image"),
    "a picture called a page": (b"\x89PNG\r\n\x1a\n\0", "text/html", "image"),
    "a picture without a label": (b"RIFF\1\2\n\4WEBPVP8 ", "", "image"),
    "a drawing by label": (b"<svg/>", "image/svg+xml; charset=utf-8", "image"),
    "a drawing without a label": (
        b"<?xml version='1.0'?>\n<!-- x --><svg xmlns='s'>",
        "application/octet-stream",
        "image",
    ),
    "a drawing's source": (b"<svg/>", "text/plain", "text"),
}


@pytest.mark.parametrize(("data", "label", "kind"), KINDS.values(), ids=KINDS)
def test_kind(data, label, kind):
    assert fetched_body(data, label, URL).kind == kind


REFUSED = {
    "a picture that browsers do not show": (b"II*\0rest", "image/tiff", "unsupported_type"),
    "an archive": (b"PK\3\4\0", "application/zip", "unsupported_type"),
    "white space": (b" \n", "text/html", "empty_body"),
    "a page in place of a PDF": (b"<html>", "application/pdf", "content_mismatch"),
}


@pytest.mark.parametrize(("data", "label", "code"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_document_is_refused(data, label, code):
    with pytest.raises(DocumentError) as refused:
        fetched_body(data, label, URL)

    assert refused.value.code == code


@pytest.mark.parametrize("name", ["a.svg", "a.PNG", "a"])
def test_a_picture_file_is_a_picture(tmp_path, name):
    data = b"<svg xmlns='http://www.w3.org/2000/svg'/>" if name == "a.svg" else b"\x89PNG\r\n\x1a\n\0"
    (tmp_path / name).write_bytes(data)

    body = local_body(planned(tmp_path / name))

    assert (body.kind, body.charset, body.flags) == ("image", None, ())


def test_a_file_is_shown_under_its_url_with_its_folder(tmp_path):
    (tmp_path / "page.HTM").write_bytes(b"<p>x")

    body = local_body(planned(tmp_path / "page.HTM", url=URL))

    assert (body.kind, body.url, body.folder, body.final_url) == ("html", URL, tmp_path, None)


def test_a_document_without_url_is_shown_under_its_encoded_key(tmp_path):
    (tmp_path / "notes.md").write_bytes(b"# x")

    body = local_body(planned(tmp_path / "notes.md"))

    assert (body.kind, body.url) == ("markdown", "http://document.invalid/a%2Fb%20c")


def test_content_of_a_row_is_html_or_text_as_planned():
    assert local_body(planned(body="html", content="<p>é")).kind == "html"
    assert local_body(planned(body="text", content="<p>é")).kind == "text"


MISSING = {
    "no such file": (None, "file_missing"),
    "an empty file": (b"", "empty_body"),
    "a .pdf that is none": (b"<html>", "pdf_damaged"),
}


STAND_INS = {
    "a Git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer"),
    "an office document": (b"PK\x03\x04xxxx", "an office document"),
    "rich text": (rb"{\rtf1\ansi Hello\par}", "an RTF document"),
}


@pytest.mark.parametrize("name", ["a.pdf", "a.txt", "a.md", "a.rtf"])
@pytest.mark.parametrize(("data", "what"), STAND_INS.values(), ids=STAND_INS)
def test_source_text_that_no_reader_should_see_is_named_and_not_printed(tmp_path, data, what, name):
    (tmp_path / name).write_bytes(data)

    with pytest.raises(DocumentError, match=what) as refused:
        local_body(planned(tmp_path / name))

    assert refused.value.code == "unsupported_type"


@pytest.mark.parametrize(("data", "code"), MISSING.values(), ids=MISSING)
def test_a_file_that_is_no_body_is_an_error(tmp_path, data, code):
    path = tmp_path / "a.pdf"
    if data is not None:
        path.write_bytes(data)

    with pytest.raises(DocumentError) as refused:
        local_body(planned(path))

    assert refused.value.code == code
