"""The collection holds exactly the corpus before the first question is asked, whatever happens on the way."""

import asyncio
import dataclasses
import json
import subprocess
import sys
import time

import pytest

from examples.mock_rag_server import mock_rag_server
from rag_eval_pipeline.errors import InputError, ServiceError
from tests.examples import plain_http
from tests.examples.papers import BELL, DOCUMENTS, paper, papers_corpus

COLLECTION = "marsh_point_0123456789ab"
UPLOAD, REPLACE = "POST /ingestor/v1/documents", "PATCH /ingestor/v1/documents"
STORED = ["bell %22one%22.pdf", "light.pdf", "tollan.pdf"]


@pytest.fixture
def server(canned):
    """A server without collections that was not asked for anything yet."""
    known = plain_http.get(f"{canned.ingestor}/v1/collections").json()["collections"]
    names = [collection["collection_name"] for collection in known]
    plain_http.request("DELETE", f"{canned.ingestor}/v1/collections", json=names)
    canned.reset()
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


def by_hand(server, names, collection=COLLECTION, **told):
    plain_http.post(f"{server.ingestor}/v1/collection", json={"collection_name": collection} | told)
    files = [("documents", (name, b"%PDF", "application/pdf")) for name in names]
    data = {"data": json.dumps({"collection_name": collection, "blocking": True})}
    plain_http.post(f"{server.ingestor}/v1/documents", files=files, data=data)
    server.reset()


async def test_the_corpus_is_uploaded_once(server, corpus, opened):
    for _ in range(2):
        async with opened(server, corpus) as system:
            assert system.configuration()["collection"] == COLLECTION

    assert listed(server) == STORED
    assert sent(server) == (1, 0)


async def test_batches_are_as_large_as_is_set(server, corpus, opened):
    async with opened(server, corpus, upload={"batch_documents": 2}):
        assert (listed(server), sent(server)) == (STORED, (2, 0))


async def test_only_what_is_missing_is_uploaded(server, corpus, opened):
    by_hand(server, ["light.pdf"], created_by="rag-eval-pipeline")

    async with opened(server, corpus, upload={"batch_documents": 1}):
        assert (listed(server), sent(server)) == (STORED, (2, 0))


async def test_a_changed_corpus_is_another_collection(server, corpus, opened):
    changed = dataclasses.replace(corpus, fingerprint="f" * 64)
    for one in (corpus, changed):
        async with opened(server, one):
            pass

    assert listed(server, "marsh_point_ffffffffffff") == listed(server) == STORED


async def test_a_corpus_beyond_the_lists_default_length_is_seen_whole(server, tmp_path, opened):
    corpus = papers_corpus(tmp_path, {f"{number:04}.pdf": [] for number in range(1100)})

    for _ in range(2):
        async with opened(server, corpus, upload={"batch_documents": 1000}, page_base=1):
            pass

    assert (len(listed(server)), sent(server)) == (1100, (2, 0))


async def test_two_systems_share_one_upload(server, tmp_path, opened):
    corpora = [papers_corpus(tmp_path, system=name) for name in ("one", "two")]

    async def use(corpus):
        async with opened(server, corpus, upload={"batch_documents": 1}):
            pass

    await asyncio.gather(*(use(corpus) for corpus in corpora))

    assert (listed(server), sent(server)) == (STORED, (3, 0))


async def test_documents_that_failed_with_status_200_are_named_with_their_reason(corpus, refused):
    (corpus.folder / "light.pdf").write_bytes(b"%PDF-1.7 torn")
    with mock_rag_server() as server:
        error = await refused(server, corpus)

    assert error.code == "corpus_not_ingested"
    assert "lacks 1 of 3 documents: 'light.pdf' (Document light.pdf could not be read" in error.message


async def test_a_file_that_is_gone_is_an_error_of_ours(server, corpus, refused):
    (corpus.folder / "light.pdf").unlink()

    error = await refused(server, corpus)

    assert (error.code, error.file) == ("os_error", str(corpus.folder / "light.pdf"))


async def test_without_uploading_a_missing_collection_is_said(server, corpus, refused):
    error = await refused(server, corpus, upload={"enabled": False})

    assert (error.code, COLLECTION in error.message) == ("corpus_not_ingested", True)
    assert sent(server) == (0, 0)


async def test_without_uploading_missing_documents_are_named(server, corpus, refused):
    by_hand(server, ["light.pdf"])

    error = await refused(server, corpus, upload={"enabled": False})

    assert error.code == "corpus_not_ingested"
    assert error.message.endswith("lacks 2 of 3 documents: 'bell \"one\".pdf', 'tollan.pdf'")


async def test_a_message_names_five_documents_and_counts_the_others(server, tmp_path, refused):
    corpus = papers_corpus(tmp_path, {f"{number}.pdf": [] for number in range(9)})
    by_hand(server, ["0.pdf"])

    error = await refused(server, corpus, upload={"enabled": False})

    assert error.message.endswith("lacks 8 of 9 documents: '1.pdf', '2.pdf', '3.pdf', '4.pdf', '5.pdf', and 3 more")


async def test_somebody_elses_collection_is_not_completed(server, corpus, refused):
    by_hand(server, ["light.pdf"], created_by="somebody")

    assert (await refused(server, corpus)).code == "foreign_collection"
    assert listed(server) == ["light.pdf"]


async def test_somebody_elses_collection_is_used_when_it_holds_the_corpus(server, corpus, opened):
    by_hand(server, list(DOCUMENTS))

    async with opened(server, corpus):
        assert sent(server) == (0, 0)


async def test_somebody_elses_empty_collection_is_filled(server, corpus, opened):
    by_hand(server, [])

    async with opened(server, corpus):
        assert listed(server) == STORED


async def test_documents_beyond_the_corpus_are_refused_unless_they_are_wanted(server, corpus, opened, refused):
    by_hand(server, [*DOCUMENTS, "other.pdf"])

    error = await refused(server, corpus)
    async with opened(server, corpus, allow_other_documents=True):
        pass

    assert (error.code, "'other.pdf'" in error.message) == ("foreign_documents", True)


BROKEN = {
    #                                  what becomes of the first request       added, replaced
    "the connection was reset":        ("reset",                                (1, 1)),
    "the server was busy":             ("http_429",                             (1, 1)),
    "the server was down":             ("http_503",                             (1, 1)),
    "the reply was cut":               ("truncated_json",                       (1, 1)),
}  # fmt: skip


@pytest.mark.parametrize(("fault", "requests"), BROKEN.values(), ids=BROKEN)
async def test_a_request_in_doubt_is_repeated_as_a_replacement(corpus, opened, fault, requests):
    with mock_rag_server(canned=True, faults={"paths": {UPLOAD: [fault]}}) as server:
        async with opened(server, corpus):
            assert (listed(server), sent(server)) == (STORED, requests)


async def test_a_request_that_is_refused_is_not_repeated(corpus, refused):
    with mock_rag_server(canned=True, faults={"paths": {UPLOAD: ["http_413"]}}) as server:
        error = await refused(server, corpus)

        assert (error.code, "http_413" in error.message, sent(server)) == ("ingestor_failed", True, (1, 0))


async def test_an_upload_that_takes_too_long_is_gone_on_with(corpus, opened, refused):
    with mock_rag_server(canned=True, faults={"paths": {"GET /ingestor/v1/status": ["half_open"]}}) as server:
        error = await refused(server, corpus, upload={"total_seconds": 0.5})
        async with opened(server, corpus):
            pass

        assert (error.code, listed(server), sent(server)) == ("upload_timeout", STORED, (1, 0))


async def test_a_task_that_is_still_at_work_is_waited_for(corpus, opened, refused):
    with mock_rag_server(canned=True, ingestion_ms=400) as server:  # 1.2 s for three documents
        error = await refused(server, corpus, upload={"total_seconds": 0.3})
        async with opened(server, corpus):
            pass

        assert (error.code, listed(server), sent(server)) == ("upload_timeout", STORED, (1, 0))


async def test_a_list_longer_than_was_thought_is_read_whole(server, corpus, opened, settings):
    from rag_eval_pipeline.systems.nvidia_ingest import Ingestor
    from rag_eval_pipeline.web.client import Endpoint, EndpointError

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
from rag_eval_pipeline.systems.nvidia import NvidiaSettings
from rag_eval_pipeline.systems.nvidia import open_nvidia
from tests.examples.papers import papers_corpus

async def main():
    root, rag, ingestor = sys.argv[1:]
    settings = {"rag": {"base_url": rag}, "ingestor": {"base_url": ingestor}, "upload": {"batch_documents": 1}}
    async with open_nvidia(NvidiaSettings.model_validate(settings), papers_corpus(Path(root))):
        pass

asyncio.run(main())
"""


async def test_a_killed_upload_is_resumed_and_nothing_is_sent_twice(tmp_path, corpus, opened):
    # The second document's request is never answered, and the process dies while it waits.
    with mock_rag_server(canned=True, faults={"paths": {UPLOAD: ["ok", "half_open"]}}) as server:
        command = [sys.executable, "-c", KILLED, str(tmp_path), server.rag, server.ingestor]
        with subprocess.Popen(command) as child:
            deadline = time.monotonic() + 60
            while sent(server)[0] < 2:
                assert time.monotonic() < deadline
                assert child.poll() is None
            child.kill()

        async with opened(server, corpus, upload={"batch_documents": 1}):
            # Added: the first, the second without an answer, the third. Replaced: the second, which was in doubt.
            assert (listed(server), sent(server)) == (STORED, (3, 1))


async def test_a_damaged_record_costs_nothing(server, corpus, opened):
    async with opened(server, corpus):
        pass
    records = list((corpus.state_folder.parent.parent / ".nvidia").glob("*.json"))
    for record in records:
        record.write_bytes(b"\0" * 100)

    (corpus.folder / "late.pdf").write_bytes(paper(BELL))
    more = dataclasses.replace(corpus, files=[*corpus.files, "late.pdf"])
    async with opened(server, more):
        assert (len(records), listed(server)) == (1, sorted([*STORED, "late.pdf"]))


async def test_nothing_is_left_in_the_corpus_folder(server, corpus, opened):
    async with opened(server, corpus):
        pass

    assert sorted(path.name for path in corpus.folder.iterdir()) == sorted(DOCUMENTS)
