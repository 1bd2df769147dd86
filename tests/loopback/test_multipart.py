"""Parts are taken apart as they were put together, whatever is in them."""

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.loopback.multipart import parts_of

# What a client changes in a name is listed in `systems/nvidia/names.py`; here are names that it leaves alone.
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"'), min_size=1)


def sent(files, data):
    parts = [("documents", (name, content, "application/pdf")) for name, content in files]
    request = httpx.Request("POST", "http://x/", files=parts, data=data)
    return request.read(), request.headers["content-type"]


@given(st.lists(st.tuples(NAMES, st.binary()), min_size=1, max_size=4))
def test_names_and_bytes_arrive_unchanged(files):
    parts = parts_of(*sent(files, {"data": "{}"}))

    assert [(part.filename, part.content) for part in parts if part.name == "documents"] == files
    assert [part.content for part in parts if part.name == "data"] == [b"{}"]


def test_a_quotation_mark_stays_as_the_client_wrote_it():
    assert parts_of(*sent([('He said "x".pdf', b"")], {}))[0].filename == "He said %22x%22.pdf"


@given(st.integers(1, 80))
def test_a_body_without_its_end_is_refused(missing):
    body, content_type = sent([("a.pdf", b"content")], {})

    with pytest.raises(ValueError, match="missing|without"):
        parts_of(body[: -min(missing + 3, len(body))], content_type)
