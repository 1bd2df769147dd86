"""Row 38: a PDF that is encrypted, damaged or made to hurt costs that document, never the run.

HTML sent as a PDF: tests/web/test_content_types.py.
A PDF without text is a document: a system that reads images may answer from it. It is flagged `pdf_no_text`, and the
check `every_pdf_has_text` names it. Pictures of pages are drawn by the same child: its limits hold for them, too.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psutil
import pytest

from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.corpus.document_renderer import text_flags
from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.manifest import read_manifest
from rag_eval_pipeline.corpus.text.pages import corpus_pages
from rag_eval_pipeline.corpus.text.pdf import FILES_PER_CHILD, PdfLimits, PdfReader, read_texts
from rag_eval_pipeline.corpus.text.pdf_worker import HEIGHT_MAX
from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import REPOSITORY
from tests.conversion.conftest import HEAD, write_benchmark
from tests.faults.pdfs import bomb, deflated, huge_image, many_pages, one_page, pdf, shown, stream
from tests.patience import PATIENCE_S

GOOD = one_page(stream(shown("a good page")))
LOCK = b"<</Filter/Standard/V 1/R 2/Length 40/P -4/O<" + b"00" * 32 + b">/U<" + b"00" * 32 + b">>>"
ENCRYPTED = one_page(stream(shown("secret")), more=[LOCK]).replace(b"/Root", b"/Encrypt 5 0 R/ID[<00><00>]/Root")


def forms(leaf):
    """A page that draws a form ten times, which draws another ten times, eight deep: a hundred million leaves."""
    more = []
    for number in range(5, 13):
        resources = b"/Resources<</XObject<</X %d 0 R>>/Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
        drawing = b"/X Do " * 10 if number < 12 else leaf
        more.append(stream(drawing, b"/Type/XObject/Subtype/Form/BBox[0 0 999 999]" + resources % min(number + 1, 12)))
    return one_page(stream(b"/X Do " * 10), more=more, resources=b"<</XObject<</X 5 0 R>>>>")


@pytest.fixture(scope="module")
def reader():
    """A reader with a tenth of the usual limits, so that tests are quick."""
    reader = PdfReader(
        PdfLimits(memory_bytes=150 << 20, cpu_s=4, deadline_s=PATIENCE_S, pages=2_000, characters=1_000_000)
    )
    yield reader
    reader.close()


def built(data):
    """Return the bytes; large files are functions, so that collecting the tests does not build them."""
    return data() if callable(data) else data


READ = {
    "scripts, which are not run": (
        one_page(stream(shown("page")), b"/OpenAction<</S/JavaScript/JS(while\\(true\\){})>>"),
        ["page"],
    ),
    "an attachment, which is not looked at": (
        one_page(
            stream(shown("page")),
            b"/Names<</EmbeddedFiles<</Names[(a.exe)<</Type/Filespec/F(a.exe)/EF<</F 5 0 R>>>>]>>>>",
            [stream(b"MZ" * 999)],
        ),
        ["page"],
    ),
    "no text": (one_page(stream(b"0 0 100 100 re f")), [""]),
    "a form that draws itself": (
        one_page(
            stream(b"/X Do"),
            more=[stream(b"/X Do", b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 5 0 R>>>>")],
            resources=b"<</XObject<</X 5 0 R>>>>",
        ),
        [""],
    ),
    "two thousand pages": (many_pages(2_000), ["page"] * 2_000),
    "lines of its server after the end": (GOOD + b"\n<!-- served in 3 ms -->\n", ["a good page"]),
    "a wrong table, as people's own tools write it": (GOOD.replace(b"00000 n", b"00001 n"), ["a good page"]),
}


@pytest.mark.fault(38)
@pytest.mark.parametrize(("data", "texts"), READ.values(), ids=READ)
def test_what_is_odd_and_harmless_is_read(data, texts, reader):
    assert reader.texts(data) == texts


REFUSED = {
    "encrypted": (ENCRYPTED, "pdf_encrypted"),
    "cut in its middle": (GOOD[: len(GOOD) // 2], "pdf_damaged"),
    "cut after its pages": (GOOD[: GOOD.index(b"xref")], "pdf_damaged"),
    "an old version with the end, the new one cut": (
        GOOD + b"\n4 0 obj\n" + stream(shown("new") + b" " * 20_000),
        "pdf_damaged",
    ),
    "a tree of pages that holds itself": (
        pdf([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[2 0 R]/Count 5>>"]),
        "pdf_damaged",
    ),
    "no page": (pdf([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[]/Count 0>>"]), "pdf_damaged"),
    "HTML": (b"<!DOCTYPE html><title>Log in</title>", "pdf_damaged"),
    "a hundred thousand pages": (partial(many_pages, 100_000), "pdf_bomb"),
    "200 MB compressed twice": (partial(bomb, 2, 200 << 20), "pdf_bomb"),
    "a hundred million lines of text in forms": (forms(shown("x")), "pdf_bomb"),
    "two million characters": (one_page(deflated(shown("x" * 100) * 20_000)), "pdf_bomb"),
}


@pytest.mark.fault(38)
@pytest.mark.parametrize(("data", "code"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_refused_and_the_next_file_is_read(data, code, reader):
    with pytest.raises(DocumentError) as refused:
        reader.texts(built(data))

    assert refused.value.code == code
    assert reader.texts(GOOD) == ["a good page"]


SLOW = {
    "by the processor's clock": PdfLimits(cpu_s=0, deadline_s=PATIENCE_S),
    "by the clock on the wall": PdfLimits(cpu_s=60, deadline_s=0.2),
}


@pytest.mark.fault(38)
@pytest.mark.parametrize("limits", SLOW.values(), ids=SLOW)
def test_what_takes_too_long_is_ended(limits):
    reader = PdfReader(limits)
    try:
        with pytest.raises(DocumentError, match="takes too long") as refused:
            reader.texts(many_pages(19_000))  # 4 s
        assert refused.value.code == "pdf_bomb"
    finally:
        reader.close()


def test_one_child_reads_many_files_from_several_threads_and_gives_way_to_another():
    reader = PdfReader()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(reader.texts, [many_pages(1 + number % 9) for number in range(FILES_PER_CHILD)]))
    first = reader.process_id
    reader.texts(GOOD)
    os.kill(reader.process_id, signal.SIGKILL)  # which is no fault of the file
    reader.texts(GOOD)

    assert [len(texts) for texts in found] == [1 + number % 9 for number in range(FILES_PER_CHILD)]
    assert reader.process_id != first
    reader.close()


def test_values_of_form_fields_and_remarks_are_text_of_their_page(reader):
    font = b"/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
    drawn = [
        stream(shown(text), b"/Type/XObject/Subtype/Form/BBox[0 0 300 50]" + font) for text in ("Agneta", "repair")
    ]
    notes = [
        b"<</Type/Annot/Subtype/%b/F 4/Rect[50 %d 350 %d]/AP<</N %d 0 R>>>>" % (kind, low, low + 50, number)
        for kind, low, number in ((b"Widget/FT/Tx/T(name)", 300, 5), (b"FreeText", 100, 6))
    ]
    page = one_page(stream(shown("The applicant")), more=[*drawn, *notes])
    [text] = reader.texts(page.replace(b"/Type/Page/", b"/Type/Page/Annots[7 0 R 8 0 R]/", 1))

    assert text.split() == ["The", "applicant", "Agneta", "repair"]


def test_interrupted_request_does_not_answer_the_next_one():
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)  # test runners may ignore SIGINT
    with contextlib.closing(PdfReader()) as reader:
        reader.texts(GOOD)
        os.kill(reader.process_id, signal.SIGSTOP)  # it has the request, and answers none
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        with pytest.raises(KeyboardInterrupt):
            reader.texts(one_page(stream(b"")))
        signal.signal(signal.SIGALRM, before)

        assert reader.process_id is None
        assert reader.texts(GOOD) == ["a good page"]


def test_child_ends_with_its_parent():
    code = """
        import os
        from rag_eval_pipeline.corpus.text.pdf import PdfReader
        from tests.faults.pdfs import one_page, stream

        reader = PdfReader()
        reader.texts(one_page(stream(b"")))
        print(reader.process_id, flush=True)
        os.kill(os.getpid(), 9)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, check=False, cwd=REPOSITORY, text=True)

    assert done.returncode == -9
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(done.stdout)).wait(PATIENCE_S)


def test_file_of_the_corpus_that_can_no_longer_be_read_has_no_page_and_the_others_have(tmp_path, caplog):
    for name, data in (("bad.pdf", GOOD[:200]), ("good.pdf", GOOD)):
        (tmp_path / name).write_bytes(data)
    rows = [CorpusDocument(n, n, None, None, (), "kept", n, n, None, 1) for n in ("bad.pdf", "good.pdf")]

    pages = list(corpus_pages(rows, tmp_path))

    assert [(page.file_name, page.text) for page in pages] == [("good.pdf", "a good page")]
    assert "bad.pdf has no text" in caplog.text


@pytest.mark.fault(38)
def test_pdf_without_text_is_flagged():
    assert text_flags(read_texts(one_page(stream(b"0 0 100 100 re f")))) == ("pdf_no_text",)
    assert text_flags(["", " \n"]) == ("pdf_no_text",)
    assert text_flags(["", "here"]) == ()


DRAWN = {
    "an attachment, which is not looked at": READ["an attachment, which is not looked at"][0],
    **{size: one_page(stream(b"")).replace(b"595 842", size.encode()) for size in ("5.95 84200", "0 0", "9e9 9e9")},
}


@pytest.mark.parametrize("data", DRAWN.values(), ids=DRAWN)
def test_what_is_odd_and_harmless_is_drawn(data, reader):
    page = reader.draw(data, 1, width=300)

    assert 1 <= page.width <= 300
    assert 1 <= page.height <= HEIGHT_MAX
    assert len(page.pixels) == page.width * page.height * 3


NOT_DRAWN = {
    "encrypted": (ENCRYPTED, "pdf_encrypted"),
    "cut in its middle": (GOOD[: len(GOOD) // 2], "pdf_damaged"),
    "200 MB compressed twice": (partial(bomb, 2, 200 << 20), "pdf_bomb"),
    "a hundred million rectangles in forms": (forms(b"0 0 1 1 re f"), "pdf_bomb"),
    "page 2 of 1": (GOOD, "no_such_page"),
}


@pytest.mark.fault(38)
@pytest.mark.parametrize(("data", "code"), NOT_DRAWN.values(), ids=NOT_DRAWN)
def test_what_cannot_be_drawn_is_refused_and_the_next_file_is_drawn(data, code, reader):
    with pytest.raises(DocumentError) as refused:
        reader.draw(built(data), 2 if code == "no_such_page" else 1, width=300)

    assert refused.value.code == code
    assert reader.draw(GOOD, 1, width=300).width == 300


def test_image_of_a_billion_pixels_costs_its_document_at_most(reader):
    data = huge_image(1 << 15, 1 << 15)

    assert len(data) < 10_000
    with contextlib.suppress(DocumentError):
        reader.draw(data, 1, width=300)
    assert reader.draw(GOOD, 1, width=300).width == 300


FILES = {
    "good.pdf": (GOOD, None),
    "image.pdf": (one_page(stream(b"0 0 100 100 re f")), None),
    "cut.pdf": (GOOD[: GOOD.index(b"xref")], "pdf_damaged"),
    "locked.pdf": (ENCRYPTED, "pdf_encrypted"),
    "login.pdf": (b"<html>Log in", "pdf_damaged"),
    "bomb.pdf": (partial(bomb, 3, 1200 << 20), "pdf_bomb"),
    "pages.pdf": (partial(many_pages, 25_000), "pdf_bomb"),
}
SPEC = f"""{HEAD}source: q.jsonl
tables: {{docs: {{files: "docs/*"}}}}
questions: |
  SELECT q AS question, 'a' AS answer, [{{'file': q}}] AS contexts FROM source
"""


@pytest.mark.fault(38)
def test_bad_pdfs_cost_their_questions_and_the_run_goes_on(tmp_path):
    files = {"q.jsonl": "\n".join(json.dumps({"q": name}) for name in FILES)}
    paths = write_benchmark(tmp_path, SPEC, files | {f"docs/{name}": built(data) for name, (data, _) in FILES.items()})

    reports = {report.record.step: report.record for report in convert(Workspace(tmp_path), "scratch")}

    rows = json.loads(paths.train_json.read_text())
    assert [row["question"] for row in rows] == ["good.pdf", "image.pdf"]
    records = [json.loads(line) for line in paths.quarantine.read_text().splitlines()]
    assert {record["row"]: record["code"] for record in records} == dict.fromkeys(range(3, 8), "missing_document")
    check = reports["corpus"].checks[0]
    assert (check.name, check.passed, check.blocking) == ("every_document_on_disk", False, False)
    assert check.numbers["missing"] == 5
    assert {row.file_name: row.error_code for row in read_manifest(paths.documents)} == {
        name: code for name, (_, code) in FILES.items()
    }
    counts = reports["corpus_text"].counts
    assert (counts["pages"], counts["without_text"]) == (2, 1)
    [told] = reports["corpus_text"].checks
    assert told.numbers["files"] == ["image.pdf"]
    assert sorted(file.name for file in paths.corpus.iterdir()) == ["good.pdf", "image.pdf"]
