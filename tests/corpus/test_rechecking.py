"""A recheck of fetched pages: the accepted document stays until somebody accepts another, and drift is reported."""

import pytest

from corpus.making import simple_pdf
from rag_eval_pipeline.corpus.builder import build_corpus
from rag_eval_pipeline.corpus.documents import FileName, PlannedDocument
from rag_eval_pipeline.corpus.manifest import read_manifest, with_web_state, write_manifest, write_web_state

PDF = {"Content-Type": "application/pdf"}


class Corpus:
    """A corpus of one publisher's PDF, built again and again as a conversion does it."""

    def __init__(self, folder, site):
        self.folder, self.site = folder, site
        url = site.url("/paper")
        names = (FileName("paper.pdf", url), FileName("paper#2.pdf", f"{url}#2", ("collision",)))
        self.planned = [PlannedDocument("paper", names, "url", url)]
        (folder / "corpus").mkdir()

    def build(self, recheck=None):
        manifest, web = self.folder / "documents.parquet", self.folder / "web.json"
        known = with_web_state(read_manifest(manifest), web)
        rows = build_corpus(
            self.planned, self.folder / "corpus" / "b", known, self.site.policy(attempts=1), recheck=recheck
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
def corpus(tmp_path, site):
    return Corpus(tmp_path, site)


def test_recheck_does_not_receive_or_write_an_unchanged_page_again(corpus):
    corpus.answer("one", ETag='"1"')
    first = corpus.build()
    written = (corpus.folder / "corpus" / "b" / "paper.pdf").stat().st_mtime_ns
    corpus.site.answers["/paper"] = (304, {}, b"")

    corpus.build()  # does not ask at all
    again = corpus.build("report")
    corpus.build("report")

    assert [headers.get("if-none-match") for headers in corpus.site.headers] == [None, '"1"', '"1"']
    assert (again.drift, again.pdf_sha256, again.etag) == (None, first.pdf_sha256, '"1"')
    assert (corpus.folder / "corpus" / "b" / "paper.pdf").stat().st_mtime_ns == written


def test_recheck_reports_a_changed_page_with_both_hashes_until_it_is_as_it_was(corpus):
    corpus.answer("one", ETag='"1"')
    first = corpus.build()
    manifest = (corpus.folder / "documents.parquet").read_bytes()
    corpus.answer("two", ETag='"2"')

    again = corpus.build("report")

    assert corpus.file == simple_pdf("one")
    assert again.drift == "changed"
    assert again.drift_sha256 not in (None, first.body_sha256)
    assert again.drift_sha256 in again.drift_reason
    assert first.body_sha256 in again.drift_reason
    assert (corpus.folder / "documents.parquet").read_bytes() == manifest  # what an evaluation reads is as it was
    assert corpus.build().drift == "changed"
    corpus.answer("one", ETag='"1"')
    assert corpus.build("report").drift is None


def test_recheck_update_replaces_the_document_under_all_its_names(corpus):
    corpus.answer("one")
    corpus.build()
    corpus.answer("two")

    row = corpus.build("update")

    assert corpus.file == simple_pdf("two")
    assert (corpus.folder / "corpus" / "b" / "paper#2.pdf").read_bytes() == simple_pdf("two")
    assert (row.drift, row.drift_sha256) == (None, None)
    assert corpus.build("report").drift is None


def test_recheck_compares_texts_and_not_bytes(corpus):
    corpus.answer("one", ETag='"1"')
    first = corpus.build()
    corpus.site.answers["/paper"] = (200, PDF | {"ETag": '"2"'}, simple_pdf("one") + b"% built later\n%%EOF\n")

    again = corpus.build("update")

    assert (again.drift, again.pdf_sha256) == (None, first.pdf_sha256)
    corpus.build("report")
    assert corpus.site.headers[-1]["if-none-match"] == '"2"'


LOST = {
    "gone": ((404, {}, b"no"), "gone"),
    "down": ((503, {}, b""), "unchecked"),
    "an error page in its place": ((200, PDF, b"<html>sorry"), "unchecked"),
}


@pytest.mark.parametrize(("answer", "drift"), LOST.values(), ids=LOST)
def test_recheck_of_a_page_that_is_gone_keeps_its_document(corpus, answer, drift):
    corpus.answer("one")
    corpus.build()
    corpus.site.answers["/paper"] = answer

    for row in (corpus.build("report"), corpus.build("update")):
        assert corpus.file == simple_pdf("one")
        assert (row.origin, row.drift) == ("kept", drift)
        assert corpus.site.url("/paper") in row.drift_reason


def test_recheck_with_a_damaged_web_state_costs_a_download(corpus):
    corpus.answer("one", ETag='"1"')
    corpus.build()
    (corpus.folder / "web.json").write_text("{")

    assert corpus.build("report").drift is None
    assert "if-none-match" not in corpus.site.headers[-1]
