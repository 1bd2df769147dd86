"""Published and bundled benchmarks: what `init` proposes for them converts to the known counts."""

import json
import shutil
from dataclasses import replace

import pytest

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.scaffold.init import start_benchmark
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import BUNDLED
from tests.real_benchmarks import DATA

# Keys of expected.json with the counts of each; a number where it counts something else, None where it has none.
COUNTS = {
    #                 section                            unanswerable     contexts                            documents
    "squad2":        ("squad2",                          "unanswerable",  None,                               "articles"),
    "kg-rag-sec10q": ("kg-rag-sec10q",                   "unanswerable",  "context_links",                    "docs"),
    "hotpotqa":      ("hotpotqa",                        0,               "context_links_if_supporting_only", 391),  # titles in SOURCE.md
    "hotpotqa-json": ("hotpotqa",                        0,               "context_links_if_supporting_only", 391),
    "fetaqa":        ("wiki-urls/fetaqa_sample.jsonl",   0,               "covered_by_mirror",                "unique_urls"),
    "truthfulqa":    ("wiki-urls/truthfulqa_sample.csv", 0,               "urls",                             "unique_stems"),
    "frames":        ("wiki-urls/frames_sample.csv",     0,               "urls_after_splitting_glued_cells", "unique_stems"),
    "chunking-eval": ("chunking-eval",                   0,               "references",                       "docs"),
    "autorag":       ("autorag-parquet",                 0,               "context_links",                    "docs"),
}  # fmt: skip
SAME_PAGE = {"truthfulqa": 1, "frames": 1}  # stems that differ only in a fragment


@pytest.fixture(scope="module")
def plans(shared, tmp_path_factory):
    root = tmp_path_factory.mktemp("proposed")
    workspace = Workspace(root)
    workspace.sources.mkdir(parents=True)
    made = {}

    def start_and_plan(name):
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

    return start_and_plan


@pytest.mark.parametrize("name", DATA)
def test_published_benchmark_has_the_expected_counts(plans, shared, name):
    section, *keys = COUNTS[name]
    counted = json.loads((shared / "data/expected.json").read_text())[section]
    expected = [counted["rows"], *(counted[key] if isinstance(key, str) else key for key in keys)]
    expected[-1] -= SAME_PAGE.get(name, 0)

    counts = plans(name).counts

    found = (counts.accepted, counts.impossible, counts.contexts, counts.documents)
    assert [f for f, e in zip(found, expected, strict=True) if e is not None] == [e for e in expected if e is not None]
    assert (counts.rows, counts.dropped, counts.quarantined) == (counts.accepted, 0, 0)


def test_mirrored_pages_are_not_fetched(plans):
    assert {document.body for document in plans("fetaqa").documents} == {"file"}
    assert {document.body for document in plans("truthfulqa").documents} == {"file"}
    assert sum(document.body == "file" for document in plans("frames").documents) == 12
    assert plans("frames").spec.on_missing_document == "keep"


def test_chunking_eval_keeps_offsets_and_invents_no_answers(plans):
    chunking = plans("chunking-eval")

    assert chunking.spec.retrieval_only
    assert all(context.start is not None for question in chunking.questions for context in question.contexts)


def test_folder_of_several_benchmarks_is_recognised(shared, tmp_path):
    workspace = Workspace(tmp_path)
    workspace.sources.mkdir(parents=True)

    for name in ("hotpotqa", "wiki-urls"):  # the folders with files of several benchmarks
        paths, proposal = start_benchmark(workspace, name, shared / "data" / name)

        assert proposal.missing == [], name
        assert plan(paths).counts.quarantined == 0, name


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_benchmark_converts_as_with_its_own_spec(tmp_path, name):
    origin = tmp_path / "origin"
    shutil.copytree(BUNDLED[name], origin, ignore=shutil.ignore_patterns("benchmark.yaml"))
    workspace = Workspace(tmp_path / "workspace")
    workspace.sources.mkdir(parents=True)

    paths, proposal = start_benchmark(workspace, name, origin)

    found, written = plan(paths), plan(replace(paths, name=name, source=BUNDLED[name]))
    assert proposal.missing == []
    assert found.counts.quarantined == 0
    # tarrow-lights drops one row by a `where` that init cannot guess.
    assert found.counts.accepted == written.counts.accepted + written.counts.dropped
    assert content(written).items() <= content(found).items()


def content(plan):
    """Question -> answers, abstention and files of its documents, whatever the documents are called."""
    files = {document.key: document.path.name if document.path else document.key for document in plan.documents}
    return {
        q.question: (q.answers, q.is_impossible, frozenset(files[context.document] for context in q.contexts))
        for q in plan.questions
    }
