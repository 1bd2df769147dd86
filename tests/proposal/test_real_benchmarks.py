"""Other people's files are recognised, and the benchmark.yaml proposed for them comes to the counts of expected.json."""

import json
import shutil

import pytest

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.proposal import start_benchmark
from rag_eval_pipeline.workspace import Workspace
from tests.real_benchmarks import DATA

# What expected.json says of each: questions, unanswerable ones, contexts, documents (None: it does not say).
EXPECTED = {
    "squad2": lambda said: (said["squad2"]["rows"], said["squad2"]["unanswerable"], None, said["squad2"]["articles"]),
    "kg-rag-sec10q": lambda said: (
        said["kg-rag-sec10q"]["rows"],
        said["kg-rag-sec10q"]["unanswerable"],
        said["kg-rag-sec10q"]["context_links"],
        said["kg-rag-sec10q"]["docs"],
    ),
    "hotpotqa": lambda said: (said["hotpotqa"]["rows"], 0, said["hotpotqa"]["context_links_if_supporting_only"], 391),
    "hotpotqa-json": lambda said: (
        said["hotpotqa"]["rows"],
        0,
        said["hotpotqa"]["context_links_if_supporting_only"],
        391,  # distinct titles, counted in SOURCE.md
    ),
    "fetaqa": lambda said: (
        said["wiki-urls/fetaqa_sample.jsonl"]["rows"],
        0,
        said["wiki-urls/fetaqa_sample.jsonl"]["covered_by_mirror"],
        said["wiki-urls/fetaqa_sample.jsonl"]["unique_urls"],
    ),
    "truthfulqa": lambda said: (
        said["wiki-urls/truthfulqa_sample.csv"]["rows"],
        0,
        said["wiki-urls/truthfulqa_sample.csv"]["urls"],
        said["wiki-urls/truthfulqa_sample.csv"]["unique_stems"] - 1,  # one page stands under two fragments
    ),
    "frames": lambda said: (
        said["wiki-urls/frames_sample.csv"]["rows"],
        0,
        said["wiki-urls/frames_sample.csv"]["urls_after_splitting_glued_cells"],
        said["wiki-urls/frames_sample.csv"]["unique_stems"] - 1,  # one page with and without a fragment
    ),
    "chunking-eval": lambda said: (
        said["chunking-eval"]["rows"],
        0,
        said["chunking-eval"]["references"],
        said["chunking-eval"]["docs"],
    ),
    "autorag": lambda said: (
        said["autorag-parquet"]["rows"],
        0,
        said["autorag-parquet"]["context_links"],
        said["autorag-parquet"]["docs"],
    ),
}


@pytest.fixture(scope="module")
def plans(shared, tmp_path_factory):
    root = tmp_path_factory.mktemp("proposed")
    workspace = Workspace(root)
    workspace.sources.mkdir(parents=True)
    made = {}

    def propose_and_plan(name):
        if name not in made:
            folder, files = DATA[name]
            origin = root / "origins" / name
            origin.mkdir(parents=True)
            for file in files:
                copy = shutil.copytree if (shared / "data" / folder / file).is_dir() else shutil.copyfile
                copy(shared / "data" / folder / file, origin / file)
            paths, proposal = start_benchmark(workspace, name, origin)
            assert proposal.missing == []
            made[name] = plan(paths)
        return made[name]

    return propose_and_plan


@pytest.mark.parametrize("name", DATA)
def test_it_comes_to_the_expected_counts(plans, shared, name):
    said = EXPECTED[name](json.loads((shared / "data/expected.json").read_text()))

    counts = plans(name).counts

    found = (counts.accepted, counts.impossible, counts.contexts, counts.documents)
    assert [f for f, s in zip(found, said, strict=True) if s is not None] == [s for s in said if s is not None]
    assert (counts.rows, counts.dropped, counts.quarantined) == (counts.accepted, 0, 0)


def test_offsets_of_squad_point_at_the_answers(plans):
    bodies = {document.key: document.content for document in plans("squad2").documents}

    located = [
        bodies[context.document][context.start : context.end] == question.answer
        for question in plans("squad2").questions
        for context in question.contexts
    ]
    assert (len(located), all(located)) == (430, True)


def test_plausible_answers_of_squad_become_no_answer(plans):
    assert {(q.answer, q.answers) for q in plans("squad2").questions if q.is_impossible} == {("", ())}


def test_pages_that_the_mirror_has_are_not_fetched(plans):
    assert {document.body for document in plans("fetaqa").documents} == {"file"}
    assert {document.body for document in plans("truthfulqa").documents} == {"file"}
    assert sum(document.body == "file" for document in plans("frames").documents) == 12
    assert plans("frames").spec.on_missing_document == "keep"


def test_wrong_answers_of_truthfulqa_are_not_accepted(plans):
    first = plans("truthfulqa").questions[0]

    assert first.answers[0] == "Chameleons change colors to regulate their temperature"
    assert len(first.answers) == 5
    assert not any("blend into any background" in answer for answer in first.answers[:4])


def test_offsets_of_chunking_eval_are_kept_and_no_answer_is_made_up(plans):
    chunking = plans("chunking-eval")

    assert chunking.spec.retrieval_only
    assert all(context.start is not None for question in chunking.questions for context in question.contexts)


def test_hotpot_is_the_same_from_json_and_from_parquet(plans):
    first, second = plans("hotpotqa"), plans("hotpotqa-json")

    assert [(q.question, q.answers, q.contexts) for q in first.questions] == [
        (q.question, q.answers, q.contexts) for q in second.questions
    ]
    assert first.documents == second.documents


def test_the_whole_folder_of_each_real_benchmark_is_recognised_with_its_licence(shared, tmp_path):
    workspace = Workspace(tmp_path)
    workspace.sources.mkdir(parents=True)
    licences = {"kg-rag-sec10q": "MIT", "chunking-eval": "MIT", "autorag-parquet": "Apache-2.0"}

    for folder in sorted(path for path in (shared / "data").iterdir() if path.is_dir()):
        paths, proposal = start_benchmark(workspace, folder.name, folder)
        found = plan(paths)

        assert proposal.missing == [], folder.name
        assert found.counts.quarantined == 0, folder.name
        assert found.spec.license == licences.get(folder.name)
