"""The bytes of a body decide what it is; a charset that they contradict is replaced by the likely one."""

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
    "stated by the page": (b"<meta charset=koi8-r><p>\xc1", "text/html", None, ()),
    "a wrong label": (b"d\xe9j\xe0", "text/html; charset=utf-8", "windows-1252", ("charset_repaired",)),
    "one broken sequence among good ones": ("é".encode() * 9 + b"\xe2\x86", "text/html; charset=utf-8", "utf-8", ()),
    "a byte order mark": ("\ufeffx".encode("utf-16-le"), "text/plain", "utf-16", ()),
    "an unknown label on UTF-8": (b"<p>caf\xc3\xa9", "text/html; charset=klingon", "utf-8", ("charset_repaired",)),
    "an unknown label on other bytes, which a browser may know": (b"<p>\x82\xa0", "text/html; charset=x-sjis", "x-sjis", ()),
    "a label that is right": ("<p>\u65e5".encode("shift_jis"), "text/html; charset=Shift_JIS", "shift_jis", ()),
}  # fmt: skip


@pytest.mark.fault(17)
@pytest.mark.parametrize(("data", "label", "charset", "flags"), CHARSETS.values(), ids=CHARSETS)
def test_fetched_body_charset(data, label, charset, flags):
    body = fetched_body(data, label, URL)

    assert (body.charset, body.flags) == (charset, flags)


TEXTS = {
    "UTF-16": ("\ufeffé".encode("utf-16-le"), "text/plain", "é"),
    "UTF-16 without a mark, by its label": ("é".encode("utf-16-be"), "text/plain; charset=utf-16be", "é"),
    "Shift JIS": ("日本".encode("shift_jis"), 'text/plain; charset="Shift_JIS"', "日本"),
    "an unknown charset": (b"caf\xe9", "text/plain; charset=klingon", "café"),
    "bytes that are no UTF-8 among some that are": (
        "déjà ".encode() * 9 + b"\xe2\x86",
        "text/plain",
        "déjà " * 9 + "\ufffd",
    ),
    "a codec of Python's that decodes nothing": (b"x", "text/plain; charset=undefined", "x"),
}


@pytest.mark.fault(17)
@pytest.mark.parametrize(("data", "label", "text"), TEXTS.values(), ids=TEXTS)
def test_decode_text(data, label, text):
    assert decode_text(fetched_body(data, label, URL)) == text


KINDS = {
    "html by label": (b"x", "text/html", "html"),
    "html by its start": (b"\xef\xbb\xbf <!-- c --> <!DOCTYPE html><p>", "application/octet-stream", "html"),
    "markdown by its label": (b"# A", "text/markdown; charset=utf-8", "markdown"),
    "junk before the magic of a PDF": (b"junk\n%PDF-1.7", "text/plain", "pdf"),
    "a picture by label and start": (b"\xff\xd8\xff\xe0\0", "image/jpeg", "image"),
    "a picture labelled as a page": (b"\x89PNG\r\n\x1a\n\0", "text/html", "image"),
    "a drawing by label": (b"<svg/>", "image/svg+xml; charset=utf-8", "image"),
    "a drawing by its start": (b"<?xml version='1.0'?>\n<!-- x --><svg xmlns='s'>", "binary/octet-stream", "image"),
    "a drawing labelled as text": (b"<svg/>", "text/plain", "text"),
}


@pytest.mark.parametrize(("data", "label", "kind"), KINDS.values(), ids=KINDS)
def test_fetched_body_kind(data, label, kind):
    assert fetched_body(data, label, URL).kind == kind


REFUSED = {
    "a picture that browsers do not show": (b"II*\0rest", "image/tiff", "unsupported_type"),
    "nothing": (b"", "text/html", "empty_body"),
    "white space": (b" \n", "text/html", "empty_body"),
    "an archive": (b"\0\1\2\3", "application/zip", "unsupported_type"),
    "a page in place of a PDF": (b"<html>", "application/pdf", "content_mismatch"),
    "a page in place of a CSV": (
        b"\n<!DOCTYPE html><title>Log in</title>",
        "text/csv; charset=utf-8",
        "content_mismatch",
    ),
    "a page in place of JSON": (b"<html>log in", "application/json", "content_mismatch"),
}


@pytest.mark.fault(17)
@pytest.mark.parametrize(("data", "label", "code"), REFUSED.values(), ids=REFUSED)
def test_fetched_body_refuses_what_is_no_document(data, label, code):
    with pytest.raises(DocumentError) as refused:
        fetched_body(data, label, URL)

    assert refused.value.code == code


FILES = {
    "page.HTM": (b"<p>x", "html"),
    "notes.md": (b"# x", "markdown"),
    "paper.md": (b"%PDF-1.4", "pdf"),
    "a.svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image"),
    "a": (b"\x89PNG\r\n\x1a\n\0", "image"),
}


@pytest.mark.parametrize(("name", "data", "kind"), [(name, *file) for name, file in FILES.items()], ids=FILES)
def test_local_body_of_a_file_has_its_url_and_folder(tmp_path, name, data, kind):
    (tmp_path / name).write_bytes(data)

    body = local_body(planned(tmp_path / name, url=URL))

    assert (body.kind, body.url, body.folder, body.final_url, body.flags) == (kind, URL, tmp_path, None, ())
    assert local_body(planned(tmp_path / name)).url == "http://document.invalid/a%2Fb%20c"


@pytest.mark.parametrize("kind", ["html", "markdown", "text"])
def test_local_body_of_content_is_what_the_plan_says(kind):
    assert local_body(planned(body=kind, content="<p># é")).kind == kind


BAD_FILES = {
    "no such file": ("a.pdf", None, "file_missing"),
    "an empty file": ("a.pdf", b"", "empty_body"),
    "a .pdf that is none": ("a.pdf", b"<html>", "pdf_damaged"),
    "a Git LFS pointer": ("a.txt", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer"),
    "an office document": ("a.md", b"PK\x03\x04xxxx", "an office document"),
}


@pytest.mark.parametrize(("name", "data", "found"), BAD_FILES.values(), ids=BAD_FILES)
def test_local_body_refuses_a_file_that_is_no_document(tmp_path, name, data, found):
    if data is not None:
        (tmp_path / name).write_bytes(data)

    with pytest.raises(DocumentError) as refused:
        local_body(planned(tmp_path / name))

    assert refused.value.code == found or (refused.value.code == "unsupported_type" and found in refused.value.message)
