"""Four real benchmarks come out whole: counts, documents, `train.json` and the evaluation files agree with the source."""

import csv
import json
import os
import subprocess
import sys
from collections import Counter
from urllib.parse import unquote

import pypdfium2
import pytest

from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from tests.e2e.reading import NAMES, letters, paragraphs, pdf_text, rag_eval, squeezed
from tests.real_benchmarks import DATA
from tests.validation import validate

pytestmark = pytest.mark.browser

# Dataset layout, `train.json`, and conversion: "Quick validation", word for word.
QUICK_VALIDATION = (
    "import json,sys; d=json.load(open(sys.argv[1])); "
    "assert isinstance(d, list) and all(isinstance(x, dict) for x in d), 'train.json must be a list of objects'"
)


def train(converted, name):
    return json.loads(converted.workspace.benchmark(name).train_json.read_text())


def dataset(converted, name):
    [path] = converted.workspace.evaluation_datasets.glob(f"{name}_v*.eval.json")
    return EvaluationDataset.read(path)


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


@pytest.mark.parametrize("name", NAMES)
def test_every_document_opens_and_has_text(name, converted):
    sheets = 0
    for path in converted.workspace.benchmark(name).corpus.iterdir():
        document = pypdfium2.PdfDocument(path)
        sheets += len(document)
        document.close()
        assert letters(pdf_text(path))

    assert sheets == converted.records[name]["corpus"].counts["pages"]


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


def test_globs_of_documents_give_one_context_a_file(converted):
    links = Counter(len(row["contexts"]) for row in train(converted, "kg-rag-sec10q"))

    assert links == {1: 50, 4: 24}


@pytest.mark.parametrize("name", NAMES)
def test_every_context_names_a_file_by_its_exact_basename(name, converted):
    corpus = converted.workspace.benchmark(name).corpus
    on_disk = {entry.name for entry in os.scandir(corpus) if entry.is_file(follow_symlinks=False)}

    named = {context["filename"] for row in train(converted, name) for context in row["contexts"]}
    assert named <= on_disk
    through_the_root = converted.workspace.benchmark(name).dataset / "corpus"
    assert set(os.listdir(through_the_root)) == on_disk


@pytest.mark.parametrize("name", NAMES)
def test_train_json_passes_the_quick_validation(name, converted):
    path = converted.workspace.benchmark(name).train_json

    subprocess.run([sys.executable, "-c", QUICK_VALIDATION, path], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_train_json_has_the_five_keys_and_integer_ids_in_the_source_order(name, converted):
    rows = train(converted, name)

    assert [list(row) for row in rows] == [["id", "question", "answer", "is_impossible", "contexts"]] * len(rows)
    assert [row["id"] for row in rows] == list(range(len(rows)))


def test_questions_keep_their_blanks_and_plausible_answers_do_not_leak(converted, shared):
    articles = json.loads(source(shared, "squad2", "dev-sample.json").read_text())["data"]
    asked = [qa for article in articles for paragraph in article["paragraphs"] for qa in paragraph["qas"]]

    assert [(row["question"], row["answer"]) for row in train(converted, "squad2")] == [
        (qa["question"], qa["answers"][0]["text"] if qa["answers"] else "") for qa in asked
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_product_loads_back_and_validates(name, converted):
    paths = products(converted, name)

    assert len(paths) == (3 if name in {"squad2", "hotpotqa"} else 2)  # without gold texts there is no .gt.json
    assert [validate(path) for path in paths] == [[]] * len(paths)


def test_rag_eval_validate_says_so_of_every_file(converted):
    paths = [str(path) for name in NAMES for path in products(converted, name)]

    done = rag_eval("validate", *paths)

    assert (done.returncode, done.stderr) == (0, "")
    # Behind it stands the version of a form that has one.
    assert [line.partition(" (")[0] for line in done.stdout.splitlines()] == [f"{path}: valid" for path in paths]


@pytest.mark.parametrize("name", NAMES)
def test_evaluation_dataset_asks_the_questions_of_train_json(name, converted):
    queries = dataset(converted, name).queries

    assert [
        (q.query_id, q.query_text, q.ground_truth_answer or "", q.is_impossible, q.relevant_documents) for q in queries
    ] == [
        (
            str(row["id"]),
            row["question"],
            row["answer"],
            row["is_impossible"],
            tuple(dict.fromkeys(context["filename"] for context in row["contexts"])),
        )
        for row in train(converted, name)
    ]


@pytest.mark.parametrize("name", ["squad2", "hotpotqa"])
def test_ground_truth_has_the_citations_of_the_dataset(name, converted):
    [path] = converted.workspace.ground_truth.glob(f"{name}_v*.gt.json")
    annotated = {
        annotation.query_id: [(c.file_name, c.start_char, c.end_char) for c in annotation.citations]
        for annotation in GroundTruth.read(path).annotations
    }

    expected = {
        query.query_id: [(c.file_name, c.start_char, c.end_char) for c in query.citations]
        for query in dataset(converted, name).queries
        if query.citations
    }
    assert annotated == expected
