"""Files are found again under the names that uploading gives them."""

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.mock_rag_server import parse_multipart
from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.systems.nvidia_ingest import StoredNames, stored_name

# What a file of a corpus can be called: anything but `/` and NUL that UTF-8 can carry.
FILES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1).map(
    lambda s: s + ".pdf"
)


@given(FILES)
def test_a_name_is_stored_as_the_client_sends_it(file):
    request = httpx.Request("POST", "http://x/", files=[("documents", (file, b"", "application/pdf"))])

    assert parse_multipart(request.read(), request.headers["content-type"])[0][1] == stored_name(file)


def test_files_are_found_by_either_name():
    names = StoredNames(['He said "x".pdf', "100% sure.pdf"])

    assert names.files(["He said %22x%22.pdf", "100% sure.pdf", 'He said "x".pdf']) == {
        'He said "x".pdf',
        "100% sure.pdf",
    }
    assert names.file("other.pdf") == "other.pdf"


def test_two_files_that_would_be_stored_under_one_name():
    with pytest.raises(ServiceError) as raised:
        StoredNames(['a".pdf', "a%22.pdf"])

    assert raised.value.code == "ambiguous_names"


def test_aliases_are_known_in_both_spellings():
    names = StoredNames(['a "b".pdf'])

    assert names.aliases({'a "b".pdf': 'a "b".pdf', 'a "b"': 'a "b".pdf'}) == dict.fromkeys(
        ['a "b".pdf', "a %22b%22.pdf", 'a "b"', "a %22b%22"], 'a "b".pdf'
    )
