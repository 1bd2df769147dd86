"""Words that a person can see on a page are in its PDF: whatever cuts them off is opened, and what is lost is counted."""

from pathlib import Path

import pytest

from rag_eval_pipeline.corpus.builder import build_corpus
from rag_eval_pipeline.corpus.documents import FileName, PlannedDocument
from rag_eval_pipeline.corpus.manifest import read_manifest, write_manifest
from rag_eval_pipeline.corpus.rendering import browser, render
from rag_eval_pipeline.corpus.text.pdf import read_texts
from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.browser
PATIENT = EgressPolicy(EgressConfig(page_load_limit_s=PATIENCE_S))


def paragraphs(count, words=40):
    return "".join(
        "<p>" + " ".join(f"word{paragraph}x{word}" for word in range(words)) + "</p>" for paragraph in range(count)
    )


LONG = paragraphs(40)
PANEL = paragraphs(8).replace("word", "panel")
SHELL = "html,body{height:100%;margin:0}.app{height:100vh;overflow:hidden}"

# Style sheet and body of pages of which, printed as they are, between 0 % and 80 % of the words are in the PDF.
CUT = {
    "a page hidden until a script answers": ("html{opacity:0}body{visibility:hidden}", LONG),
    "a body that is not displayed": ("body{display:none;opacity:0}", LONG),
    "a line hidden on narrow screens": ("@media (max-width: 900px){i{display:none}}", f"{LONG}<i>opens at seven</i>"),
    "an application's flex box": (
        SHELL + ".app{display:flex;flex-direction:column}.row{flex:1;min-height:0;display:flex}.main{overflow-y:auto}",
        f"<div class=app><header>top</header><div class=row><div class=main>{LONG}</div></div></div>",
    ),
    "an application's grid": (
        SHELL + ".app{display:grid;grid-template-rows:50px 1fr}.main{overflow:auto;min-height:0}",
        f"<div class=app><div>top</div><div class=main>{LONG}</div></div>",
    ),
    "overflow: clip": ("div{height:200px;overflow:clip}", f"<div>{LONG}</div>"),
    "containment": ("div{height:200px;contain:strict}", f"<div>{LONG}</div>"),
    "clip-path": ("div{clip-path:inset(0 0 80% 0)}", f"<div>{LONG}</div>"),
    "a number of lines": (
        "p{display:-webkit-box;-webkit-line-clamp:1;-webkit-box-orient:vertical;overflow:hidden}",
        LONG,
    ),
    "an ellipsis": ("p{white-space:nowrap;overflow:hidden;text-overflow:ellipsis}", LONG),
    "many short boxes": ("p{max-height:30px;overflow:hidden}", LONG),
    "boxes that are too small on paper only": ("p{height:20px;overflow:hidden}", paragraphs(60, 14)),
    "a box within a box": (
        ".r{position:relative;height:300px;overflow:hidden}.a{position:absolute;inset:0;overflow:auto}",
        f"<div class=r><div class=a>{LONG}</div></div><p>after</p>",
    ),
    "a shelf to scroll sideways": (
        ".c{overflow:hidden;width:600px}.t{display:flex;width:max-content}.t>div{width:600px;flex:none}",
        f"<div class=c><div class=t>{''.join(f'<div>{paragraphs(3)}</div>' for _ in range(8))}</div></div>",
    ),
    "columns to scroll sideways": ("div{column-width:300px;height:400px;overflow-x:auto}", f"<div>{LONG}</div>"),
    "a left edge, by margin": ("div{position:absolute;left:50%;margin-left:-590px;width:1180px}", f"<div>{LONG}</div>"),
    "a left edge, by shift": (
        "div{position:absolute;left:50%;transform:translateX(-50%);width:1200px}",
        f"<div>{LONG}</div>",
    ),
    "a left edge, by centring": (
        "body{display:flex;justify-content:center}div{width:1240px;flex:none}",
        f"<div>{LONG}</div>",
    ),
    "a right edge": ("div{width:2500px}", f"<div>{LONG}</div>"),
    "a left edge of a page from right to left": ("html{direction:rtl}div{width:1500px}", f"<div>{LONG}</div>"),
    "a wide table": (
        "td{white-space:nowrap}",
        f"<table><tr>{''.join(f'<td>cell{n}a cell{n}b cell{n}c' for n in range(30))}</table>",
    ),
    "long lines of code": ("", "<pre>" + "\n".join(" ".join(f"l{n}x{w}" for w in range(60)) for n in range(30))),
    "what fades in": ("p{opacity:0}p.in{opacity:1}", LONG.replace("<p>", "<p class=in>", 1) + "<p class=in>end"),
    "a frame": ("", f"<iframe srcdoc='{LONG}' height=100></iframe>"),
    "a component": (
        "",
        f"<div id=h></div><script>h.attachShadow({{mode:'open'}}).innerHTML="
        f"'<style>div{{height:100px;overflow:hidden}}</style><div>{LONG}</div>'</script>",
    ),
    "a closed component": (
        "",
        f"<div id=h></div><script>h.attachShadow({{mode:'closed'}}).innerHTML="
        f"'<style>div{{height:100px;overflow:hidden}}</style><div>{LONG}</div>'</script>",
    ),
}

# Of which nothing is shown until a tab or a fold is opened, or a script runs.
UNOPENED = {
    "tabs": (".tab-pane{display:none}.active{display:block}", f"<p class='tab-pane active'>a<div class=tab-pane>{PANEL}</div>"),
    "tabs one above the other": (
        "div{position:relative;height:60px}section{position:absolute;top:0}",
        f"<div><section role=tabpanel>{LONG}</section><section role=tabpanel hidden>{PANEL}</section></div>",
    ),
    "tabs by their names": ("", f"<b role=tab aria-controls=two>two</b><div id=two style='opacity:0'>{PANEL}</div>"),
    "an accordion": (
        ".fold{max-height:0;overflow:hidden}",
        f"<h3><button aria-controls=fold aria-expanded=false>More</button></h3><div class=fold id=fold>{PANEL}</div>",
    ),
    "an application": ("#app{display:none}", f"<div id=app><script>let a = 1;</script>{PANEL}</div>Loading ..."),
    "an application that is not visible": ("", f"<p>Loading<div style='visibility:hidden'>{LONG}</div>"),
}  # fmt: skip
HIDDEN = (
    "<span style='position:absolute;width:1px;height:1px;overflow:hidden;clip:rect(0,0,0,0)'>HIDDEN</span>"
    "<div style='max-height:0;overflow:hidden'>HIDDEN</div><div style='display:none'>HIDDEN</div>"
    "<div style='visibility:hidden'>HIDDEN</div><div style='position:absolute;opacity:0'>HIDDEN</div>"
)
# A PDF has gaps instead of spaces.
SPACED = {
    "letters set apart": "<body style='letter-spacing:.3em'>"
    + "The quick brown fox jumps over the lazy dog. " * 30
    + "<h2>An inner title</h2><input value='seal harbour' style='letter-spacing:.1em'>",
    "cells side by side": "<div style='display:flex;flex-wrap:wrap'>" + "".join(f"<i>tag{n}</i>" for n in range(200)),
    "words divided at the end of a line": "<p lang=en style='hyphens:auto;width:120px'>"
    + "internationalization incomprehensibilities characteristically. " * 30,
    "Thai": "<p>" + "ศาลรัฐธรรมนูญวินิจฉัยว่าการกระทำดังกล่าวชอบด้วยกฎหมาย น้ำ " * 30,
    "Chinese": "<p>" + "最高法院认为该行为合法有效。" * 60,
    "Arabic": "<p dir=rtl>" + "الاستخدام العام للغة العربية في المحكمة الدستورية لا إله إلا. " * 30,
}
PRINT_HIDES = ("@media print{.side{display:none}}", f"<div>{paragraphs(10)}</div><div class=side>{paragraphs(6)}</div>")
PAGES = {
    **CUT,
    **UNOPENED,
    "hidden": ("", paragraphs(2) + HIDDEN),
    **{name: ("", html) for name, html in SPACED.items()},
    "hidden in print": PRINT_HIDES,
}
AGAIN = ("an application's grid", "a right edge", "a left edge of a page from right to left", "a wide table")


def page(name, style, body):
    html = f"<!doctype html><title>{name}</title><style>{style}</style>{body}"
    return PlannedDocument(name, (FileName(f"{name.replace(' ', '-')}.pdf"),), "html", None, None, html)


@pytest.fixture(scope="module")
def planned():
    return {name: page(name, *content) for name, content in PAGES.items()}


@pytest.fixture(scope="module")
def printed(planned, tmp_path_factory, own_temp) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("corpus") / "bench"
    rows = build_corpus([*planned.values()], folder, [], PATIENT)
    return folder, dict(zip(PAGES, rows, strict=True))


@pytest.mark.parametrize("cut", [*CUT, *UNOPENED])
def test_printed_page_has_every_word_whatever_cuts_it_off(printed, cut):
    folder, rows = printed
    wanted = {word for text in PAGES[cut][1].replace("<", " <").split("<") for word in text.partition(">")[2].split()}

    text = " ".join(read_texts(folder / rows[cut].file_name))

    assert {word for word in wanted if word[-1].isdigit()} - set(text.split()) == set()
    assert rows[cut].words_printed == rows[cut].words_seen
    assert ("hidden_text_shown" in rows[cut].flags) == (cut in UNOPENED or cut in list(CUT)[:2])


def test_printed_words_leave_out_what_nobody_sees(printed):
    folder, rows = printed

    assert (rows["hidden"].words_seen, rows["hidden"].words_printed) == (80, 80)
    assert "HIDDEN" not in read_texts(folder / rows["hidden"].file_name)[0]


def test_printed_words_do_not_depend_on_spaces(printed):
    folder, rows = printed

    assert [name for name in SPACED if rows[name].words_printed < 0.95 * rows[name].words_seen] == []
    apart = read_texts(folder / rows["letters set apart"].file_name)[0]
    assert apart.startswith("The quick brown fox jumps over the lazy dog. The")
    assert ("An inner title" in apart, "seal harbour" in apart) == (True, True)


NESTED = 14  # each level doubles the work of balancing the columns within
SLOW = ("div{column-count:2;padding:3px}", "<div>" * NESTED + "<p>some text of the page</p>" * 30 + "</div>" * NESTED)


def test_printed_page_is_the_same_again_and_with_too_few_words_no_document(printed, planned, tmp_path, own_temp):
    _, rows = printed
    kept = rows["hidden in print"]
    pages = [planned[name] for name in (*AGAIN, "hidden in print")]

    *again, refused = build_corpus(pages, tmp_path / "c", [kept], PATIENT, min_page_words=0.7)

    assert {flag for row in again for flag in row.flags} == {"shrunk_to_fit"}
    assert [row.pdf_sha256 for row in again] == [rows[name].pdf_sha256 for name in AGAIN]
    assert (kept.words_printed, kept.words_seen) == (400, 640)
    assert (refused.origin, refused.error_code) == ("missing", "page_words_lost")
    assert "400 of the page's 640 words" in refused.error


def test_page_that_hangs_by_its_styles_is_printed_without_them(tmp_path, own_temp, monkeypatch):
    monkeypatch.setattr(render, "RENDER_LIMIT_S", 0.5)
    monkeypatch.setattr(browser, "_CLOSE_LIMIT_S", 0.1)

    [row] = build_corpus([page("x", *SLOW)], tmp_path / "c", [], PATIENT)

    assert (row.origin, row.flags) == ("rendered", ("js_off", "styles_off"))
    assert row.words_printed == row.words_seen == 150


def test_page_that_hangs_is_not_tried_again(tmp_path, own_temp, monkeypatch):
    slow = page("x", *SLOW)
    with monkeypatch.context() as patch:
        patch.setattr(render, "RENDER_LIMIT_S", 0.2)
        patch.setattr(render, "PLAIN_LIMIT_S", 0.001)
        patch.setattr(browser, "_CLOSE_LIMIT_S", 0.1)
        rows = build_corpus([slow], tmp_path / "c", [], PATIENT)
    write_manifest(tmp_path / "documents.parquet", rows)

    [again] = build_corpus([slow], tmp_path / "c", read_manifest(tmp_path / "documents.parquet"), PATIENT)

    assert [row.error_code for row in (*rows, again)] == ["render_timeout"] * 2
    assert "has not changed since" in again.error
