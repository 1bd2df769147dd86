"""Looking again at fetched pages: the accepted document stays until somebody accepts another, and drift is reported."""

import pytest

from corpus.making import simple_pdf
from rag_eval_pipeline.corpus.builder import build_corpus
from rag_eval_pipeline.corpus.documents import FileName, PlannedDocument
from rag_eval_pipeline.corpus.manifest import read_manifest, with_web_state, write_manifest, write_web_state

PDF = {"Content-Type": "application/pdf"}


class Nights:
    """A corpus of one publisher's PDF, built night after night as a conversion does it."""

    def __init__(self, folder, site):
        self.folder, self.site = folder, site
        url = site.url("/paper")
        names = (FileName("paper.pdf", url), FileName("paper#2.pdf", f"{url}#2", ("collision",)))
        self.planned = [PlannedDocument("paper", names, "url", url)]
        (folder / "corpus").mkdir()

    def build(self, look_again=None):
        manifest, web = self.folder / "documents.parquet", self.folder / "web.json"
        known = with_web_state(read_manifest(manifest), web)
        rows = build_corpus(
            self.planned, self.folder / "corpus" / "b", known, self.site.policy(attempts=1), recheck=look_again
        )
        write_manifest(manifest, rows)
        write_web_state(web, rows)
        return rows[0]

    def answer(self, text, **headers):
        self.site.answers["/paper"] = (200, PDF | headers, simple_pdf(text))

    @property
    def file(self):
        return (self.folder / "corpus" / "b" / "paper.pdf").read_bytes()


@pytest.fixture
def nights(tmp_path, site):
    return Nights(tmp_path, site)


def test_a_page_is_asked_for_again_only_when_that_is_wanted(nights):
    nights.answer("one")

    nights.build()
    nights.build()
    nights.build("report")

    assert len(nights.site.asked) == 2


def test_an_unchanged_page_is_neither_sent_nor_written_again(nights):
    nights.answer("one", ETag='"1"')
    first = nights.build()
    written = (nights.folder / "corpus" / "b" / "paper.pdf").stat().st_mtime_ns
    nights.site.answers["/paper"] = (304, {}, b"")

    again = nights.build("report")
    nights.build("report")

    assert [headers.get("if-none-match") for headers in nights.site.headers] == [None, '"1"', '"1"']
    assert (again.drift, again.pdf_sha256, again.etag) == (None, first.pdf_sha256, '"1"')
    assert (nights.folder / "corpus" / "b" / "paper.pdf").stat().st_mtime_ns == written


def test_a_changed_page_is_reported_with_both_hashes_and_the_document_stays(nights):
    nights.answer("one", ETag='"1"')
    first = nights.build()
    manifest = (nights.folder / "documents.parquet").read_bytes()
    nights.answer("two", ETag='"2"')

    again = nights.build("report")

    assert nights.file == simple_pdf("one")
    assert again.drift == "changed"
    assert again.drift_sha256 not in (None, first.body_sha256)
    assert again.drift_sha256 in again.drift_reason
    assert first.body_sha256 in again.drift_reason
    assert (nights.folder / "documents.parquet").read_bytes() == manifest  # what an evaluation reads is as it was


def test_drift_is_remembered_until_the_page_is_as_it_was(nights):
    nights.answer("one", ETag='"1"')
    nights.build()
    nights.answer("two", ETag='"2"')
    nights.build("report")

    assert nights.build().drift == "changed"
    nights.answer("one", ETag='"1"')
    assert nights.build("report").drift is None


def test_an_accepted_change_takes_the_place_of_the_document_under_all_its_names(nights):
    nights.answer("one")
    nights.build()
    nights.answer("two")

    row = nights.build("update")

    assert nights.file == simple_pdf("two")
    assert (nights.folder / "corpus" / "b" / "paper#2.pdf").read_bytes() == simple_pdf("two")
    assert (row.drift, row.drift_sha256) == (None, None)
    assert nights.build("report").drift is None


def test_other_bytes_that_say_the_same_are_no_drift(nights):
    nights.answer("one", ETag='"1"')
    first = nights.build()
    nights.site.answers["/paper"] = (200, PDF | {"ETag": '"2"'}, simple_pdf("one") + b"% built later\n%%EOF\n")

    again = nights.build("update")

    assert (again.drift, again.pdf_sha256) == (None, first.pdf_sha256)
    nights.build("report")
    assert nights.site.headers[-1]["if-none-match"] == '"2"'


LOST = {
    "gone": ((404, {}, b"no"), "gone"),
    "down": ((503, {}, b""), "unchecked"),
    "an error page in its place": ((200, PDF, b"<html>sorry"), "unchecked"),
}


@pytest.mark.parametrize(("answer", "drift"), LOST.values(), ids=LOST)
@pytest.mark.parametrize("look_again", ["report", "update"])
def test_a_page_that_cannot_be_had_tonight_keeps_its_document(nights, answer, drift, look_again):
    nights.answer("one")
    nights.build()
    nights.site.answers["/paper"] = answer

    row = nights.build(look_again)

    assert nights.file == simple_pdf("one")
    assert (row.origin, row.drift) == ("kept", drift)
    assert nights.site.url("/paper") in row.drift_reason


def test_a_damaged_web_state_only_costs_a_download(nights):
    nights.answer("one", ETag='"1"')
    nights.build()
    (nights.folder / "web.json").write_text("{")

    assert nights.build("report").drift is None
    assert "if-none-match" not in nights.site.headers[-1]
