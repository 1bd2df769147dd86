"""Other people's benchmarks come to the counts that were taken from their files independently (expected.json), and bundled ones to theirs."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import BUNDLED, REPOSITORY
from tests.real_benchmarks import NAMES, build

# accepted, impossible, contexts, documents: from ../shared/data/expected.json and the SOURCE.md beside each.
COUNTS = {
    "squad2": (908, 478, 430, 3),
    "kg-rag-sec10q": (74, 0, 146, 8),
    "hotpotqa": (40, 0, 80, 391),
    "hotpotqa-json": (40, 0, 80, 391),
    "fetaqa": (19, 0, 19, 17),
    "truthfulqa": (14, 0, 14, 11),  # 12 stems: one page under two fragments
    "frames": (18, 0, 71, 70),  # 71 stems: one page with and without a fragment
    "chunking-eval": (220, 0, 344, 2),
    "autorag": (10, 0, 10, 30),
}


@pytest.fixture(scope="module")
def plans(shared, tmp_path_factory):
    root = tmp_path_factory.mktemp("real")
    for name in NAMES:
        build(root, name)
    return {name: plan(Workspace(root).benchmark(name)) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_counts(plans, name):
    counts = plans[name].counts

    assert (counts.accepted, counts.impossible, counts.contexts, counts.documents) == COUNTS[name]
    assert (counts.rows, counts.dropped, counts.quarantined) == (counts.accepted, 0, 0)
    assert plans[name].spec.expect.differences(counts.record()) == []


def test_squad_keeps_ids_blanks_and_annotators_and_leaks_no_plausible_answer(plans, shared):
    articles = json.loads((shared / "data/squad2/dev-sample.json").read_text())["data"]
    asked = [qa for article in articles for paragraph in article["paragraphs"] for qa in paragraph["qas"]]
    questions = plans["squad2"].questions

    assert [(q.source_id, q.question) for q in questions] == [(qa["id"], qa["question"]) for qa in asked]
    assert sum(q.question != q.question.strip() for q in questions) == 170
    assert [q.answers for q in questions] == [tuple(dict.fromkeys(a["text"] for a in qa["answers"])) for qa in asked]
    assert {(q.answer, q.answers, q.contexts) for q in questions if q.is_impossible} == {("", (), ())}


def test_squad_offsets_point_at_the_answers_in_one_document_an_article(plans):
    bodies = {document.key: document.content for document in plans["squad2"].documents}

    assert [document.names[0].name for document in plans["squad2"].documents] == [
        "Normans.pdf",
        "1973_oil_crisis.pdf",
        "Yuan_dynasty.pdf",
    ]
    located = [
        bodies[context.document][context.start : context.end] == question.answer == context.text
        for question in plans["squad2"].questions
        for context in question.contexts
    ]
    assert (len(located), all(located)) == (430, True)


def test_sec_filings_are_matched_by_their_globs(plans, shared):
    links = Counter(len(question.contexts) for question in plans["kg-rag-sec10q"].questions)
    names = {name.name for document in plans["kg-rag-sec10q"].documents for name in document.names}

    assert links == {1: 50, 4: 24}
    assert names == {path.name for path in (shared / "data/kg-rag-sec10q/docs").iterdir()}
    assert all("\n" in question.answer for question in plans["kg-rag-sec10q"].questions)


def test_hotpot_is_the_same_from_json_and_from_parquet(plans):
    first, second = plans["hotpotqa"], plans["hotpotqa-json"]

    assert [(q.question, q.answers, q.contexts, q.metadata) for q in first.questions] == [
        (q.question, q.answers, q.contexts, q.metadata) for q in second.questions
    ]
    assert first.documents == second.documents


def test_frames_cells_of_glued_urls_are_split_and_what_the_mirror_lacks_is_to_be_fetched(plans):
    bodies = Counter(document.body for document in plans["frames"].documents)
    mirrored = [
        name.name for document in plans["frames"].documents if document.body == "file" for name in document.names
    ]
    names = [name.name for document in plans["frames"].documents for name in document.names]

    assert bodies == {"file": 12, "url": 58}
    assert len(mirrored) == 13
    assert len(set(names)) == len(names) == 71


def test_chunking_eval_references_are_the_corpus_text_at_their_offsets(plans, shared):
    corpora = {path.name: path.read_text() for path in (shared / "data/chunking-eval/corpora").iterdir()}

    exact = [
        corpora[context.document.removeprefix("corpora/")][context.start : context.end] == context.text
        for question in plans["chunking-eval"].questions
        for context in question.contexts
    ]
    assert (len(exact), all(exact)) == (344, True)


@pytest.mark.parametrize("name", [*BUNDLED, "harbour-handbook"])
def test_bundled_benchmark_is_planned_as_expected(name, tmp_path):
    source = BUNDLED.get(name, REPOSITORY / "examples" / "demo" / "sources" / name)
    found = plan(replace(Workspace(tmp_path).benchmark(name), source=source))

    assert found.spec.expect.differences(found.counts.record()) == []
    assert found.counts.quarantined == 0
    assert found.counts.conserved
    assert all(document.path is None or document.path.is_file() for document in found.documents)
    assert {document.body for document in found.documents} <= {"file", "text", "html"}
