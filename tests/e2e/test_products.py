"""Four real benchmarks come out whole: counts, documents, `train.json` and the evaluation files agree with the source."""

import csv
import json
import os
from collections import Counter
from urllib.parse import unquote

import pytest

from tests.e2e.reading import NAMES, letters, paragraphs, pdf_text, squeezed
from tests.real_benchmarks import DATA
from tests.validation import validate

pytestmark = pytest.mark.browser


def train(converted, name):
    return json.loads(converted.workspace.benchmark(name).train_json.read_text())


def products(converted, name):
    """The files that others read."""
    folders = (converted.workspace.evaluation_datasets, converted.workspace.ground_truth)
    return [
        converted.workspace.benchmark(name).train_json,
        *(f for folder in folders for f in folder.glob(f"{name}_v*")),
    ]


def source(shared, name, file):
    return shared / "data" / DATA[name][0] / file


def expected_counts(shared, name):
    """Questions, unanswerable ones, contexts and documents as `expected.json` has them."""
    every = json.loads((shared / "data" / "expected.json").read_text())
    squad, sec, hotpot = every["squad2"], every["kg-rag-sec10q"], every["hotpotqa"]
    wiki = every["wiki-urls/fetaqa_sample.jsonl"]
    return {
        "squad2": (squad["rows"], squad["unanswerable"], squad["answerable"], squad["articles"]),
        "kg-rag-sec10q": (sec["rows"], sec["unanswerable"], sec["context_links"], sec["docs"]),
        "fetaqa": (wiki["rows"], 0, wiki["rows"], wiki["unique_urls"]),
        "hotpotqa": (hotpot["rows"], 0, hotpot["context_links_if_supporting_only"], 391),  # titles: its SOURCE.md
    }[name]


@pytest.mark.parametrize("name", NAMES)
def test_counts_are_those_taken_from_the_source_independently(name, converted, shared):
    rows = train(converted, name)

    found = (
        len(rows),
        sum(row["is_impossible"] for row in rows),
        sum(len(row["contexts"]) for row in rows),
        len(os.listdir(converted.workspace.benchmark(name).corpus)),
    )
    assert found == expected_counts(shared, name)
    counts = converted.records[name]["train_json"].counts
    assert counts["rows"] == counts["accepted"] == len(rows)
    assert (counts["dropped"], counts["quarantined"], counts["contexts_lost"]) == (0, 0, 0)


@pytest.mark.parametrize("name", NAMES)
def test_every_check_of_every_step_passes(name, converted):
    failed = [check for record in converted.records[name].values() for check in record.checks if not check.passed]

    assert failed == []


def test_wikipedia_pdfs_carry_every_paragraph_of_their_pages(converted, shared):
    mirror = csv.DictReader(source(shared, "fetaqa", "mirror.csv").open(encoding="utf-8"))
    pages = {unquote(row["url"].rpartition("/")[2]): row["file"] for row in mirror}
    found = Counter()
    for path in converted.workspace.benchmark("fetaqa").corpus.iterdir():
        text = letters(pdf_text(path))
        html = source(shared, "fetaqa", pages[unquote(path.name.removesuffix(".pdf"))]).read_text("utf-8", "replace")
        found.update(letters(paragraph) in text for paragraph in paragraphs(html) if len(letters(paragraph)) > 40)

    assert found[False] == 0
    assert found[True] > 150  # of 17 pages; there are 201 in the copies of 2018 and 2019


def test_every_gold_cell_of_fetaqa_is_found_in_its_pdf(converted, shared):
    corpus = converted.workspace.benchmark("fetaqa").corpus
    questions = [json.loads(line) for line in source(shared, "fetaqa", "fetaqa_sample.jsonl").open(encoding="utf-8")]
    cells = []
    for question, row in zip(questions, train(converted, "fetaqa"), strict=True):
        assert row["question"] == question["question"]
        [context] = row["contexts"]
        text = squeezed(pdf_text(corpus / context["filename"]))
        gold = [squeezed(question["table_array"][y][x]) for y, x in question["highlighted_cell_ids"]]
        cells += [bool(cell) and cell in text for cell in gold]

    assert (len(cells), sum(cells)) == (129, 129)


def test_squad_pdfs_carry_every_paragraph(converted, shared):
    articles = json.loads(source(shared, "squad2", "dev-sample.json").read_text())["data"]
    corpus = converted.workspace.benchmark("squad2").corpus
    texts = {article["title"]: letters(pdf_text(corpus / f"{article['title']}.pdf")) for article in articles}

    missing = [
        paragraph["context"]
        for article in articles
        for paragraph in article["paragraphs"]
        if letters(paragraph["context"]) not in texts[article["title"]]
    ]
    assert missing == []


def test_hotpot_pdfs_carry_the_paragraphs_that_their_questions_need(converted):
    corpus = converted.workspace.benchmark("hotpotqa").corpus
    contexts = [context for row in train(converted, "hotpotqa") for context in row["contexts"]]

    missing = [c for c in contexts if letters(c["text"]) not in letters(pdf_text(corpus / c["filename"]))]
    assert (len(contexts), missing) == (80, [])


def test_publishers_pdfs_are_kept_byte_for_byte(converted, shared):
    docs = source(shared, "kg-rag-sec10q", "docs")

    kept = {path.name: path.read_bytes() for path in converted.workspace.benchmark("kg-rag-sec10q").corpus.iterdir()}
    assert kept == {path.name: path.read_bytes() for path in docs.iterdir()}


@pytest.mark.parametrize("name", NAMES)
def test_every_product_loads_back_and_validates(name, converted):
    paths = products(converted, name)

    assert len(paths) == (3 if name in {"squad2", "hotpotqa"} else 2)  # without gold texts there is no .gt.json
    assert [validate(path) for path in paths] == [[]] * len(paths)
