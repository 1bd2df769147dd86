"""From a verdict to its cause in a real browser: filters in the address, labels, both answers, and no serious axe finding."""

import re
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from playwright.sync_api import expect

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.judges.labels import labels_path, read_labels
from rag_eval_pipeline.monitoring.history import read_history
from rag_eval_pipeline.serving.report_server import report_server
from rag_eval_pipeline.site.data import read_report_data
from rag_eval_pipeline.site.display_text import data_script
from rag_eval_pipeline.site.marked_pages import PASSAGES_MARKED, PageImages, likely_spans
from rag_eval_pipeline.site.run_data import DatasetCache, read_run
from rag_eval_pipeline.site.site import write_site
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import publish_night, register
from tests.site.conftest import RAILWAY, RULES, new_page, rows, run_folder, serious_findings, value_of

pytestmark = pytest.mark.browser
COMPARISON = f"comparisons/{RAILWAY}.embedded-weak.against.embedded.html"


def shown_ids(page):
    return [text.strip() for text in rows(page).locator("td.c-id").all_inner_texts()]


def test_filters_are_in_the_address_and_next_and_back_keep_them(site, open_page):
    page = open_page(run_folder(site) / "index.html")

    page.get_by_role("button", name=re.compile(r"^\d+ right$")).click()
    page.get_by_role("search").get_by_label("Type").select_option("factual")
    page.get_by_label("Conditions").fill("F1 >= 0.9 and latency < 60 s")
    page.get_by_role("columnheader", name="Id").get_by_role("button").click()
    page.get_by_role("columnheader", name="Id").get_by_role("button").click()
    expected = shown_ids(page)

    assert len(expected) > 2
    assert expected == sorted(expected, reverse=True)
    assert parse_qs(urlsplit(page.url).query) == {
        "outcome": ["right"], "type": ["factual"], "where": ["F1 >= 0.9 and latency < 60 s"],
        "sort": ["-id"],
    }  # fmt: skip
    rows(page).first.get_by_role("link").click()
    seen = []
    for place in range(len(expected)):
        expect(page.get_by_text(f"{place + 1} of {len(expected)} in the list")).to_be_visible()
        seen.append(re.search("Question (svr-[0-9]+)", page.locator(".lead").inner_text())[1])
        if place + 1 < len(expected):
            page.get_by_role("link", name="Next").click()
    assert seen == expected
    for _ in expected:
        page.go_back()
    expect(page.get_by_role("status")).to_have_text(f"{len(expected)} of 40 questions")
    assert shown_ids(page) == expected
    page.get_by_role("button", name="Clear filters").click()
    expect(page.get_by_role("status")).to_have_text("40 questions")


def test_questions_are_drawn_one_after_another_where_a_data_file_has_nothing(reported, open_page):
    (reported.reports / "meanings.js").write_text("")
    page = open_page(run_folder(reported) / "index.html")

    rows(page).first.get_by_role("link").click()

    for place in (1, 2, 3):
        expect(page.get_by_role("link", name=f"{place} of 40")).to_be_visible()
        expect(page.locator(".lead")).to_contain_text("Question")
        page.get_by_role("link", name="Next").click()


def test_address_with_unknown_words_shows_all_questions(site, open_page):
    page = open_page(run_folder(site) / "index.html")

    page.goto(f"{page.url}?outcome=none&type=constructor&show=__proto__&systems=toString&sort=nothing&change=toString")

    expect(page.get_by_role("status")).to_have_text("40 questions")


def columns_of(path):
    return {column["name"]: column.get("values") for column in value_of(path)["columns"]}


CONDITIONS = {
    "f1 < 0.5": lambda row: row["f1"] is not None and row["f1"] < 0.5,
    "F1 >= 0.5 and latency < 60 s && Outcome != wrong": lambda row: row["f1"] >= 0.5,
    "latency > 1 ms and latency < 60": lambda row: row["latency"] > 1,
    'question ~ ^(what|how) and answer !~ "no such"': lambda row: re.match("(?i)what|how", row["question"]),
    "change = 0 and type = factual": lambda row: row["change"] == 0 and row["type"] == "factual",
    "f1 > citation": lambda row: None not in (row["f1"], row["citation"]) and row["f1"] > row["citation"],
    "citation = none": lambda row: row["citation"] is None,
    "nothing > 1": "There is no column “nothing”.",
    "f1": "“f1” is no condition.",
    "f1 < 0.5 and": "“0.5 and” is no number",
    "latency > 2 h": "“2 h” is no number of seconds: write 2, 2 s or 350 ms",
    "f1 ~ 5": "F1 is a number",
    "answer > b": "Answer is a text",
    "answer ~ (": "“(” is no regular expression",
}


def test_conditions_on_columns_apply_together_or_say_what_is_wrong_with_them(site, open_page):
    page = open_page(run_folder(site) / "index.html")
    table = value_of(run_folder(site) / "data/questions.js")
    values = columns_of(run_folder(site) / "data/questions.js")
    [kinds] = [facet for facet in table["facets"] if facet["name"] == "type"]
    values["type"] = [kinds["words"][place] for place in kinds["values"]]
    found = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    where = page.get_by_label("Conditions")

    for text, expected in CONDITIONS.items():
        where.fill(text)
        where.blur()
        is_fault = isinstance(expected, str)
        n = 40 if is_fault else sum(map(bool, map(expected, found)))
        expect(page.get_by_role("status")).to_have_text(
            "40 questions" if is_fault else re.compile(f"\\b{n} of 40 |^{n} q")
        )
        expect(page.get_by_role("alert")).to_have_text(re.compile(re.escape(expected)) if is_fault else [])
        assert where.get_attribute("aria-invalid") == str(is_fault).lower()
        assert parse_qs(urlsplit(page.url).query) == {"where": [text]}
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("no regular expression")


@pytest.mark.parametrize("width", [1280, 390])
def test_columns_are_chosen_by_keyboard_and_kept_in_the_address_and_in_print(width, site, open_page):
    page = open_page(run_folder(site) / "index.html", width=width)

    page.get_by_text("Columns", exact=True).press("Enter")
    for name in ("Latency", "Type", "Gold answer"):
        page.get_by_role("checkbox", name=re.compile(f"^{name} ")).press("Space")

    assert parse_qs(urlsplit(page.url).query) == {"show": ["latency", "type"], "hide": ["gold"]}
    rows(page).first.get_by_role("link").click()
    page.get_by_role("link", name="1 of 40").click()
    heads = ["Id", "Outcome", "Question", "Answer", "F1", "Δ F1", "nDCG@10", "Citations", "Latency", "Type"]
    expect(page.locator(".rows th")).to_have_text(heads)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    clipped = page.evaluate(
        "[...document.querySelectorAll('.rows tbody tr:not(.gap)')].filter((row) => row.scrollHeight > row.clientHeight + 1).length"
    )
    assert clipped == 0
    assert rows(page).count() < 40
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert rows(page).count() == 40


def test_systems_stand_side_by_side_with_their_answers_when_asked_for(site, open_page):
    page = open_page(site.reports / f"benchmarks/{RAILWAY}.html")
    values = columns_of(site.reports / f"comparisons/{RAILWAY}.systems.js")
    good = {
        place
        for place, (_, _, is_good) in enumerate(value_of(site.reports / COMPARISON.replace("html", "js"))["outcomes"])
        if is_good
    }
    right = [[values[f"{name}.outcome"][n] in good for name in ("embedded", "embedded-weak")] for n in range(40)]

    page.get_by_role("link", name="All systems side by side").click()
    expect(page.get_by_role("status")).to_have_text("40 questions")
    for choice, test in {
        "disagree": [True, False],
        "none right": [False, False],
        "only embedded right": [True, False],
    }.items():
        page.get_by_role("search").get_by_label("Systems").select_option(choice)
        n = sum(sorted(row, reverse=True) == test if choice == "disagree" else row == test for row in right)
        expect(page.get_by_role("status")).to_have_text(f"{n} of 40 questions")
        assert parse_qs(urlsplit(page.url).query) == {"systems": [choice]}
    page.get_by_text("Columns", exact=True).click()
    page.get_by_role("button", name="All answers").click()
    first = rows(page).first
    expect(first.locator("td").last).to_have_text(re.compile(r"\w"))
    n_shown = rows(page).count()
    page.get_by_label("Conditions").fill("embedded.f1 > embedded-weak.f1")
    page.get_by_label("Conditions").fill("embedded.answer ~ \\w and embedded-weak.f1 < 0.5")
    ids = shown_ids(page)
    assert 2 <= len(ids) <= n_shown
    first.locator("td.w-outcome").last.get_by_role("link").click()
    expect(page).to_have_title(re.compile("embedded-weak"))
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_text(f"Question {ids[1]} ")).to_be_visible()
    page.get_by_role("link", name=f"2 of {len(ids)} in the list").click()
    expect(page.get_by_role("columnheader").last).to_have_text("Answer of embedded-weak")


def test_question_of_a_comparison_is_followed_by_the_next_of_its_table(site, open_page):
    page = open_page(site.reports / COMPARISON)
    expect(page.get_by_role("columnheader", name="Gold")).to_be_visible()
    expect(page.get_by_role("columnheader", name="embedded", exact=True).first).to_be_visible()
    expected = shown_ids(page)[:2]

    rows(page).first.locator("td.c-question a").click()
    expect(page.get_by_text(f"Question {expected[0]} ")).to_be_visible()
    page.get_by_role("link", name="Next").click()

    expect(page.get_by_text(f"Question {expected[1]} ")).to_be_visible()
    page.get_by_role("link", name=re.compile("2 of 40")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("embedded-weak against embedded")


def test_citation_of_an_answer_leads_to_its_page_or_its_row(site, open_page):
    page = open_page(run_folder(site) / "question.html", fragment="0")

    link = page.get_by_role("link", name="Citation 1").first
    assert re.fullmatch(r"\[.+:[0-9]+:[0-9]+-[0-9]+\]", link.get_attribute("title"))
    link.click()

    assert page.evaluate("document.activeElement.matches('figure[data-cites~=\"1\"], #citation-1')")
    assert page.url.endswith("#0")


def test_question_without_stated_places_shows_the_nearest_sentence_and_the_retrieved_passages(reported, open_page):
    header = read_history(reported).by_pair[RAILWAY, "embedded"][-1]
    report = read_report_data(reported, None)
    run = read_run(reported, header, DatasetCache(report))
    query, answer = run.dataset.queries["0"], run.answers["0"]
    bare = query.model_copy(update={"citations": ()}), msgspec.structs.replace(answer, citations=())
    spans = list(likely_spans(bare[1], bare[0], run.dataset.texts))
    images = PageImages(
        reported.reports, reported.benchmark(RAILWAY).corpus, run.dataset.texts, files_max=9, bytes_max=10**7
    )
    src = run_folder(reported) / "data/details-000.js"
    details = value_of(src)
    details[0]["pictures"] = msgspec.to_builtins(images.of(spans))
    unknown = bare[0].model_copy(update={"ground_truth_answer": "Zanzibar", "metadata": {}})
    alone = msgspec.structs.replace(bare[1], contexts=())
    details[1]["pictures"] = msgspec.to_builtins(images.of(list(likely_spans(alone, unknown, run.dataset.texts))))
    src.write_bytes(data_script("details-000", details))

    page = open_page(run_folder(reported) / "question.html", fragment="0")

    figures = page.get_by_role("figure")
    expect(figures.first).to_contain_text("nearest sentence, not stated by the benchmark")
    assert figures.first.locator("rect.nearest").count() >= 1
    ranks = {span.rank for span in spans if span.role == "retrieved"}
    assert 1 in ranks
    assert len(ranks) <= PASSAGES_MARKED
    assert figures.locator("rect.retrieved").count() >= 1
    expect(page.get_by_text("retrieved (rank 1").first).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(figures.first).to_contain_text("page 1: the expected document; no sentence of it is near the gold answer")
    assert page.locator(".sheet rect").count() == 0
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".lead")).to_contain_text(f"Question {query.display_id}")
    page.evaluate("addEventListener('copy', () => { window.copied = document.activeElement.value; })")
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("window.copied") == page.url
    page.get_by_text("The stored reply").click()
    expect(page.locator("pre")).to_contain_text('"status": "ok"')


def test_labels_are_kept_and_downloaded_as_calibrate_reads_them(site, open_page, tmp_path):
    page = open_page(run_folder(site) / "question.html", fragment="0")
    judge = page.get_by_role("heading", name="Claims and their support")
    expect(judge).to_be_visible()

    page.get_by_text("Label this answer").click()
    expect(judge).to_be_hidden()
    page.get_by_label("Your name (optional)").fill("ada")
    for label in ("Correct", "Wrong", "Unsure"):
        page.get_by_role("button", name=label, exact=True).click()
        expect(page.get_by_role("button", name=label, exact=True)).to_have_attribute("aria-pressed", "true")
        page.get_by_role("link", name="Next").click()
        expect(page.get_by_role("button", name=label, exact=True)).to_have_attribute("aria-pressed", "false")
    page.reload()
    expect(page.get_by_text("1 correct, 1 wrong, 1 unsure")).to_be_visible()
    with page.expect_download() as found:
        page.get_by_role("button", name="Download labels.jsonl").click()

    assert found.value.suggested_filename == "labels.jsonl"
    found.value.save_as(tmp_path / "labels.jsonl")
    labels = read_labels(tmp_path / "labels.jsonl")
    assert [(one.query_id, one.task, one.label, one.annotator) for one in labels] == [
        ("0", "correctness", "correct", "ada"), ("1", "correctness", "incorrect", "ada"),
    ]  # fmt: skip


def test_labels_are_offered_and_saved_where_the_report_is_served(reported, browser):
    name = run_folder(reported).name
    with report_server(reported.reports, "127.0.0.1", 0) as address:
        page = new_page(browser)
        page.goto(f"{address}runs/{name}/question.html")
        page.get_by_text("Label this answer").click()
        for done in range(3):
            expect(page.get_by_text("Label these 25 next: their labels say most")).to_contain_text(f"{done} are done")
            page.get_by_role("link", name="Label one").click()
            page.get_by_role("button", name="Correct", exact=True).click()
            expect(page.get_by_text("Saved in the workspace.")).to_be_visible()
        page.get_by_role("button", name="Correct", exact=True).click()  # takes it back
        expect(page.get_by_text("Labelled in this run: 2 correct")).to_contain_text("Saved in the workspace.")
        expect(page.locator(".labels code")).to_have_text(f"rag-eval calibrate {RAILWAY} --evaluation {name}")
        page.close()

    assert len(read_labels(labels_path(reported, name))) == 2
    assert len(value_of(run_folder(reported) / "data" / "questions.js")["label"]) == 40


def test_questions_of_an_older_run_are_listed_on_request_and_stay_listed(tmp_path, browser):
    workspace = Workspace(tmp_path)
    register(workspace, ["lamps"], ["asked"])
    runs = [publish_night(workspace, "lamps", "asked", night, questions=8, skill=0.7, number=1) for night in range(5)]
    write_site(workspace)
    folder = workspace.reports / "runs" / runs[0]
    page = new_page(browser)
    page.goto((folder / "index.html").as_uri())
    expect(page.get_by_text(f"rag-eval report --run {runs[0]}")).to_be_visible()
    expect(page.get_by_role("button", name="List its questions now")).to_have_count(0)
    assert not (folder / "data").exists()

    with report_server(workspace.reports, "127.0.0.1", 0) as address:
        page.goto(f"{address}runs/{runs[0]}/index.html")
        page.get_by_role("button", name="List its questions now").click()
        expect(page.get_by_role("status")).to_have_text("8 questions")
    page.close()
    publish_night(workspace, "lamps", "asked", 5, questions=8, skill=0.7, number=1)
    write_site(workspace, listed=[runs[1]])
    listed = [name for name in runs if (workspace.reports / f"runs/{name}/data/questions.js").is_file()]
    assert listed == [*runs[:2], *runs[3:]]
    with pytest.raises(InputError, match=f"no_evaluation.*Did you mean {runs[1]}"):
        write_site(workspace, listed=[runs[1] + "0"])


def test_single_page_has_the_passages_beside_it(site, open_page):
    run = run_folder(site)
    details = [one for path in sorted(run.glob("data/details-*.js")) for one in value_of(path)]
    one = next(one for one in details if len(one.get("pictures", ())) == 1 and one["passages"])
    page = open_page(run / "question.html", fragment=one["id"])
    headings = [page.get_by_role("heading", name=name, exact=True) for name in ("In the documents", "Retrieved")]

    pages, passages = (heading.bounding_box() for heading in headings)

    assert passages["y"] == pages["y"]
    assert passages["x"] > page.locator(".sheet").bounding_box()["width"]


@pytest.mark.parametrize(("width", "scheme"), RULES)
def test_no_page_has_a_serious_axe_finding(width, scheme, site, open_page):
    run = run_folder(site)
    of_benchmark = [f"benchmarks/{RAILWAY}.html", f"benchmarks/{RAILWAY}.audit.html"]
    names = ["index.html", *of_benchmark, COMPARISON, f"comparisons/{RAILWAY}.systems.html"]
    for path in [*(site.reports / name for name in names), run / "index.html", run / "question.html"]:
        page = open_page(path, width=width, scheme=scheme)
        page.get_by_role("heading", level=2).first.wait_for()
        assert serious_findings(page, RULES[width, scheme]) == [], path
