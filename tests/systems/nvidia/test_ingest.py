"""The collection holds exactly the corpus before the first question is asked, whatever fails during the upload."""

import asyncio
import dataclasses
import json
import subprocess
import sys
import time

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.mock_server.nvidia_ingestor import parse_multipart
from rag_eval_pipeline.errors import EndpointError, InputError, ServiceError
from rag_eval_pipeline.systems.nvidia_ingest import Ingestor, StoredNames, stored_name
from rag_eval_pipeline.web.client import Endpoint
from tests.examples import plain_http
from tests.examples.papers import BELL, DOCUMENTS, paper, papers_corpus
from tests.patience import PATIENCE_S

COLLECTION = "marsh_point_0123456789ab"
UPLOAD, REPLACE = "POST /ingestor/v1/documents", "PATCH /ingestor/v1/documents"
STORED = ["bell %22one%22.pdf", "light.pdf", "tollan.pdf"]


@pytest.fixture
def server(canned):
    return canned


@pytest.fixture
def refused(opened):
    """The error with which opening ends."""

    async def refused(server, corpus, **changes):
        with pytest.raises((ServiceError, InputError)) as raised:
            async with opened(server, corpus, **changes):
                pass
        assert "\n" not in str(raised.value)
        return raised.value

    return refused


def listed(server, collection=COLLECTION):
    params = {"collection_name": collection, "max_results": 10_000}
    return [
        d["document_name"] for d in plain_http.get(f"{server.ingestor}/v1/documents", params=params).json()["documents"]
    ]


def sent(server):
    paths = server.counts()["paths"]
    return paths.get(UPLOAD, 0), paths.get(REPLACE, 0)


def by_hand(server, names, collection=COLLECTION, **stated):
    plain_http.post(f"{server.ingestor}/v1/collection", json={"collection_name": collection} | stated)
    files = [("documents", (name, b"%PDF", "application/pdf")) for name in names]
    data = {"data": json.dumps({"collection_name": collection, "blocking": True})}
    plain_http.post(f"{server.ingestor}/v1/documents", files=files, data=data)
    server.reset()


async def test_upload_happens_once(server, corpus, opened):
    for _ in range(2):
        async with opened(server, corpus) as system:
            assert system.configuration()["collection"] == COLLECTION

    assert (listed(server), sent(server)) == (STORED, (1, 0))
    assert sorted(path.name for path in corpus.folder.iterdir()) == sorted(DOCUMENTS)


async def test_upload_sends_only_what_is_missing(server, corpus, opened):
    by_hand(server, ["light.pdf"], created_by="rag-eval-pipeline")

    async with opened(server, corpus, upload={"batch_documents": 1}):
        assert (listed(server), sent(server)) == (STORED, (2, 0))


async def test_upload_is_shared_by_two_systems(server, tmp_path, opened):
    corpora = [papers_corpus(tmp_path, system=name) for name in ("one", "two")]

    async def use(corpus):
        async with opened(server, corpus, upload={"batch_documents": 1}):
            pass

    await asyncio.gather(*(use(corpus) for corpus in corpora))

    assert (listed(server), sent(server)) == (STORED, (3, 0))


async def test_documents_that_failed_with_status_200_are_named_with_their_reason(reading, corpus, refused):
    (corpus.folder / "light.pdf").write_bytes(b"%PDF-1.7 torn")
    torn = dataclasses.replace(corpus, fingerprint="7" * 64)  # another collection
    error = await refused(reading, torn)

    assert error.code == "corpus_not_ingested"
    assert "lacks 1 of 3 documents: 'light.pdf' (Document light.pdf could not be read" in error.message


async def test_missing_collection_and_documents_are_refused_without_upload(server, tmp_path, refused):
    corpus = papers_corpus(tmp_path, {f"{number}.pdf": [] for number in range(9)})
    missing = await refused(server, corpus, upload={"enabled": False})
    by_hand(server, ["0.pdf"])
    incomplete = await refused(server, corpus, upload={"enabled": False})

    assert (missing.code, COLLECTION in missing.message, sent(server)) == ("corpus_not_ingested", True, (0, 0))
    named = "'1.pdf', '2.pdf', '3.pdf', '4.pdf', '5.pdf', and 3 more"
    assert incomplete.message.endswith(f"lacks 8 of 9 documents: {named}")


async def test_foreign_collection_is_used_if_it_holds_the_corpus_and_not_completed(server, corpus, opened, refused):
    by_hand(server, ["light.pdf"], created_by="somebody")
    error = await refused(server, corpus)
    unchanged = listed(server)
    by_hand(server, list(DOCUMENTS))
    async with opened(server, corpus):
        pass

    assert (error.code, unchanged, sent(server)) == ("foreign_collection", ["light.pdf"], (0, 0))


async def test_documents_outside_the_corpus_are_refused_unless_allowed(server, corpus, opened, refused):
    by_hand(server, [*DOCUMENTS, "other.pdf"])

    error = await refused(server, corpus)
    async with opened(server, corpus, allow_other_documents=True):
        pass

    assert (error.code, "'other.pdf'" in error.message) == ("foreign_documents", True)


@pytest.mark.parametrize("fault", ["reset", "http_503"])
async def test_upload_in_doubt_is_repeated_as_a_replacement(server, corpus, opened, fault):
    server.reset(paths={UPLOAD: [fault]})
    async with opened(server, corpus):
        assert (listed(server), sent(server)) == (STORED, (1, 1))


async def test_refused_upload_is_not_repeated(server, corpus, refused):
    server.reset(paths={UPLOAD: ["http_413"]})
    error = await refused(server, corpus)

    assert (error.code, "http_413" in error.message, sent(server)) == ("ingestor_failed", True, (1, 0))


async def test_upload_timeout_is_resumed(server, corpus, opened, refused):
    server.reset(paths={"GET /ingestor/v1/status": ["half_open"]})
    error = await refused(server, corpus, upload={"total_seconds": 4.0})  # enough to send it on a busy machine
    async with opened(server, corpus):
        pass

    assert (error.code, listed(server), sent(server)) == ("upload_timeout", STORED, (1, 0))


async def test_list_longer_than_expected_is_read_whole(server, corpus, opened, settings):
    by_hand(server, [f"{number}.pdf" for number in range(1500)])
    async with Endpoint(settings(server).ingestor) as endpoint:
        ingestor = Ingestor(endpoint, settings(server).upload)

        found = await ingestor.documents(COLLECTION, 1)  # 1,002 are asked for at first
        assert len(found) == 1500
        with pytest.raises(EndpointError):
            await ingestor.documents("nowhere", 1)


KILLED = """
import asyncio, sys
from pathlib import Path
from rag_eval_pipeline.systems.nvidia_settings import NvidiaSettings
from rag_eval_pipeline.systems.nvidia_rag import open_nvidia
from tests.examples.papers import papers_corpus

async def main():
    root, rag, ingestor = sys.argv[1:]
    settings = {"rag": {"base_url": rag}, "ingestor": {"base_url": ingestor}, "upload": {"batch_documents": 1}}
    async with open_nvidia(NvidiaSettings.model_validate(settings), papers_corpus(Path(root))):
        pass

asyncio.run(main())
"""


async def test_killed_upload_is_resumed_and_nothing_is_sent_twice(server, tmp_path, corpus, opened):
    # The second document's request is never answered, and the process dies while it waits.
    server.reset(paths={UPLOAD: ["ok", "half_open"]})
    command = [sys.executable, "-c", KILLED, str(tmp_path), server.rag, server.ingestor]
    with subprocess.Popen(command) as child:
        deadline = time.monotonic() + PATIENCE_S
        while sent(server)[0] < 2:
            assert time.monotonic() < deadline
            assert child.poll() is None
            time.sleep(0.02)
        child.kill()

    async with opened(server, corpus, upload={"batch_documents": 1}):
        # Added: the first, the second without an answer, the third. Replaced: the second, which was in doubt.
        assert (listed(server), sent(server)) == (STORED, (3, 1))


async def test_damaged_upload_state_is_ignored(server, corpus, opened):
    async with opened(server, corpus):
        pass
    records = list((corpus.state_folder.parent.parent / ".nvidia").glob("*.json"))
    for record in records:
        record.write_bytes(b"\0" * 100)

    (corpus.folder / "late.pdf").write_bytes(paper(BELL))
    more = dataclasses.replace(corpus, files=[*corpus.files, "late.pdf"])
    async with opened(server, more):
        assert (len(records), listed(server)) == (1, sorted([*STORED, "late.pdf"]))


# What a file of a corpus can be called: anything but `/` and NUL that UTF-8 can carry.
FILES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1).map(
    lambda s: s + ".pdf"
)


@given(FILES)
def test_stored_name_is_what_the_client_sends(file):
    request = httpx.Request("POST", "http://x/", files=[("documents", (file, b"", "application/pdf"))])

    assert parse_multipart(request.read(), request.headers["content-type"])[0][1] == stored_name(file)


def test_stored_names_are_known_in_both_spellings():
    names = StoredNames(['He said "x".pdf', "100% sure.pdf"])

    assert names.files(["He said %22x%22.pdf", "100% sure.pdf", 'He said "x".pdf']) == {
        'He said "x".pdf',
        "100% sure.pdf",
    }
    assert names.file("other.pdf") == "other.pdf"
    assert names.aliases({'a "b"': "x"}) == {'a "b"': "x", "a %22b%22": "x"}
    with pytest.raises(ServiceError, match="ambiguous_names"):
        StoredNames(['a".pdf', "a%22.pdf"])
