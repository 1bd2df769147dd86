"""A corpus in shards: the files that one run makes, whatever the cuts, and nothing merged that is not of this plan."""

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_pipeline.conversion import shards
from rag_eval_pipeline.conversion.convert import convert, run_step
from rag_eval_pipeline.conversion.shard_plan import read_shard_plan
from rag_eval_pipeline.conversion.shards import run_shard
from rag_eval_pipeline.conversion.stamp import StepRecord
from rag_eval_pipeline.conversion.steps import STEPS
from rag_eval_pipeline.corpus import builder
from rag_eval_pipeline.corpus.text import pages
from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.workspace import Workspace
from tests.conversion.conftest import write_benchmark
from tests.corpus.making import simple_pdf

NAME = "scratch"
SPEC = """
name: scratch
version: 1.0.0
source: q.jsonl
questions: {question: q, answer: a, urls: urls}
documents: "SELECT 'http://mirror.example/' || name AS url, file FROM docs"
tables: {docs: {files: "docs/*.pdf"}}
"""
SAME = simple_pdf("the same file under two addresses")
BODIES = {
    **{f"d{n}.pdf": simple_pdf(*[f"document {n}, page {page}" for page in range(1 + n % 3)]) for n in range(5)},
    "bad.pdf": b"no PDF",
    "same1.pdf": SAME,
    "same2.pdf": SAME,
    "empty.pdf": simple_pdf(""),
}
URLS = [f"http://mirror.example/{name}" for name in BODIES]
ASKED = [*URLS, URLS[1] + "#top", URLS[1] + "#end"]  # one document with three names


def rows(urls):
    return "".join(json.dumps({"q": f"Question {n}?", "a": "yes", "urls": [url]}) + "\n" for n, url in enumerate(urls))


def make(root: Path, bodies=BODIES, urls=ASKED):
    write_benchmark(root, SPEC, {"q.jsonl": rows(urls), **{f"docs/{name}": body for name, body in bodies.items()}})
    return Workspace(root)


def set_limit(workspace: Workspace, limit: int) -> None:
    workspace.config.mkdir(parents=True, exist_ok=True)
    (workspace.config / "conversion.config.yaml").write_text(f"shard_documents: {limit}\n")


def products(workspace: Workspace) -> dict[str, bytes]:
    """All files that a conversion leaves, but for the records of its steps."""
    paths = workspace.benchmark(NAME)
    files = [*paths.corpus.iterdir(), *paths.dataset.iterdir(), *(workspace.root / "data/evaluation").rglob("*.json")]
    return {str(file.relative_to(workspace.root)): file.read_bytes() for file in files if file.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A benchmark of nine documents that was converted in one run."""
    workspace = make(tmp_path_factory.mktemp("whole"))
    convert(workspace, NAME)
    return workspace


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """The same, planned, with shards of four documents; its corpus waits for them."""
    workspace = make(tmp_path_factory.mktemp("planned"))
    set_limit(workspace, 4)
    run_step(workspace, NAME, "questions")
    with pytest.raises(InputError, match="shards_missing"):
        run_step(workspace, NAME, "corpus")
    return workspace


@pytest.fixture
def workspace(planned, tmp_path):
    shutil.copytree(planned.root, tmp_path, dirs_exist_ok=True, symlinks=True)
    return Workspace(tmp_path)


def keys(workspace):
    plan = read_shard_plan(workspace.benchmark(NAME))
    return [plan.key(number) for number in range(plan.shards)]


def finish(workspace):
    for step in list(STEPS)[1:]:
        run_step(workspace, NAME, step)


def test_convert_makes_shards_one_after_the_other(whole, tmp_path):
    workspace, seen = make(tmp_path), []
    set_limit(workspace, 4)

    reports = convert(workspace, NAME, progress=lambda step: lambda done, total: seen.append((step, done, total)))

    assert products(workspace) == products(whole)
    assert not workspace.benchmark(NAME).shards.exists()
    assert {total for step, _, total in seen if step == "corpus"} == {len(BODIES)}
    assert [done for step, done, _ in seen if step == "corpus"] == sorted(
        done for step, done, _ in seen if step == "corpus"
    )
    steps = [StepRecord.read(one.benchmark(NAME).steps / "corpus.json") for one in (workspace, whole)]
    assert steps[0] == steps[1] == reports[1].record


@pytest.fixture(scope="module")
def cut(planned, tmp_path_factory):
    root = tmp_path_factory.mktemp("cut")
    shutil.copytree(planned.root, root, dirs_exist_ok=True, symlinks=True)
    return Workspace(root)


@settings(max_examples=6)  # each builds, merges and reads three to nine files
@given(
    data=st.data(),
    limit=st.integers(2, len(BODIES) - 1),
    lost=st.lists(st.sampled_from(["d0.pdf", "d4.pdf", "same1.pdf"]), max_size=1),
    characters=st.sampled_from([1, 40, 10**6]),
)
def test_any_cut_and_order_of_shards_gives_the_files_of_one_run(cut, whole, data, limit, lost, characters):
    paths = cut.benchmark(NAME)
    expected = {name: content for name, content in products(whole).items() if "corpus/" in name or "documents" in name}
    for name in lost:  # else a shard finds what an earlier example made
        (paths.corpus / name).unlink(missing_ok=True)
    set_limit(cut, limit)
    with pytest.raises(InputError, match="shards_missing"):
        run_step(cut, NAME, "corpus")

    order = data.draw(st.permutations(keys(cut)))
    for key in [*order, *order[:1]]:
        run_shard(cut, key)
    run_step(cut, NAME, "corpus")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "ROW_GROUP_CHARACTERS", characters)
        run_step(cut, NAME, "corpus_text")
        merged = paths.pages.read_bytes()
        pages.write_pages(paths.pages, pages.read_pages(whole.benchmark(NAME).pages))
        assert paths.pages.read_bytes() == merged

    found = products(cut)
    assert {name: found[name] for name in expected} == expected


def test_corpus_names_the_parts_that_are_missing_and_what_to_do(workspace):
    first, *_ = keys(workspace)
    run_shard(workspace, first)

    with pytest.raises(InputError) as error:
        run_step(workspace, NAME, "corpus")

    message = str(error.value)
    assert "expected 3 parts of the corpus of scratch (9 documents), found '1; missing: 0001, 0002'" in message
    assert "rag-eval convert scratch" in message
    assert "corpus_shards_sensor" in message


def test_shards_of_a_plan_that_has_changed_are_refused_and_removed(workspace):
    old = keys(workspace)
    run_shard(workspace, old[0])
    source = workspace.benchmark(NAME).source / "q.jsonl"
    source.write_text(rows(ASKED[:-1]))

    with pytest.raises(InputError, match="no_shard"):
        run_shard(workspace, old[1])
    run_step(workspace, NAME, "questions")
    with pytest.raises(InputError, match="found '0; missing: 0000, 0001, 0002'"):
        run_step(workspace, NAME, "corpus")
    with pytest.raises(InputError, match="no_shard"):
        run_shard(workspace, old[1])

    assert not set(old) & set(keys(workspace))
    assert [path.name for path in workspace.benchmark(NAME).shards.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("damage", ["a PDF is gone", "a PDF is another", "the part is cut", "the part has other rows"])
def test_merge_drops_a_part_that_is_not_what_its_shard_made(workspace, whole, damage):
    paths = workspace.benchmark(NAME)
    for key in keys(workspace):
        run_shard(workspace, key)
    part = paths.shards / keys(workspace)[1].split("~")[1] / "0001.documents.parquet"
    match damage:
        case "a PDF is gone":
            (paths.corpus / "d4.pdf").unlink()
        case "a PDF is another":
            (paths.corpus / "d4.pdf").write_bytes(b"%PDF-other")
        case "the part is cut":
            part.write_bytes(part.read_bytes()[:-9])
        case _:
            shutil.copy(part.with_name("0000.documents.parquet"), part)

    with pytest.raises(InputError, match="found '2; missing: 0001'"):
        run_step(workspace, NAME, "corpus")
    run_shard(workspace, keys(workspace)[1])
    finish(workspace)

    assert products(workspace) == products(whole)


def test_shard_that_died_makes_only_what_is_not_in_its_journal(workspace, whole, monkeypatch):
    first, *others = keys(workspace)
    made, publish = [], builder.CorpusFolder.publish_all

    def noting(folder, documents):
        made.extend(names[0] for names, _ in documents)
        publish(folder, documents)

    def dying(folder, documents):
        if len(made) == 1:
            raise KeyboardInterrupt
        noting(folder, documents)

    monkeypatch.setattr(builder.os, "cpu_count", lambda: 1)
    monkeypatch.setattr(builder, "PAGES_PER_CORE", 1)
    monkeypatch.setattr(builder.CorpusFolder, "publish_all", dying)
    with pytest.raises(KeyboardInterrupt):
        run_shard(workspace, first)
    died = list(made)
    monkeypatch.setattr(builder.CorpusFolder, "publish_all", noting)
    for key in [first, *others]:
        run_shard(workspace, key)
    finish(workspace)

    assert len(died) == 1
    assert len(made) == len(set(made))
    assert products(workspace) == products(whole)


def test_documents_that_a_check_refused_are_tried_again(tmp_path, monkeypatch):
    workspace = make(tmp_path)
    set_limit(workspace, 4)
    spec = workspace.benchmark(NAME).source / "benchmark.yaml"
    spec.write_text(spec.read_text() + "on_missing_document: fail\n")
    tried, run_task = [], builder._run_task

    async def counted(task, *arguments):
        tried.append(task.document.key)
        return await run_task(task, *arguments)

    monkeypatch.setattr(builder, "_run_task", counted)
    with pytest.raises(InputError, match="every_document_on_disk"):
        convert(workspace, NAME)
    tried.clear()

    with pytest.raises(InputError, match="every_document_on_disk"):
        convert(workspace, NAME)

    assert tried == ["mirror.example/bad.pdf"]


def test_damaged_plan_is_named(workspace):
    workspace.benchmark(NAME).planned.write_bytes(b"PAR1 damaged PAR1")

    with pytest.raises(InputError, match="bad_manifest"):
        run_step(workspace, NAME, "corpus")


def test_shards_wait_for_a_conversion_and_for_another_run_of_themselves(workspace, monkeypatch):
    monkeypatch.setattr(locked.__wrapped__, "__kwdefaults__", {"wait_seconds": 0.0})
    paths, key = workspace.benchmark(NAME), keys(workspace)[0]
    own = paths.shards / key.split("~")[1] / "0000.lock"

    for lock in (paths.lock, own):
        with locked(lock, holder="the other", exclusive=True), pytest.raises(ServiceError, match="in use by the other"):
            run_shard(workspace, key)
    with locked(paths.lock, holder="", exclusive=False):  # another shard
        run_shard(workspace, key)


def test_conversion_that_waits_for_shards_names_them_and_says_what_to_do(workspace, monkeypatch):
    monkeypatch.setattr(locked.__wrapped__, "__kwdefaults__", {"wait_seconds": 0.0})
    key, publish = keys(workspace)[0], builder.CorpusFolder.publish_all

    def convert_meanwhile(folder, documents):
        with pytest.raises(ServiceError, match=f"^parts of the corpus of {NAME} are being made: {key}.*cancel them"):
            convert(workspace, NAME)
        publish(folder, documents)

    monkeypatch.setattr(builder.CorpusFolder, "publish_all", convert_meanwhile)
    run_shard(workspace, key)


def test_shards_of_a_recheck_are_not_those_of_a_conversion(workspace):
    before = keys(workspace)
    run_shard(workspace, before[0])

    with pytest.raises(InputError, match="found '0; missing"):
        run_step(workspace, NAME, "corpus", recheck="report")

    assert read_shard_plan(workspace.benchmark(NAME)).recheck == "report"
    assert not set(before) & set(keys(workspace))


def test_second_conversion_restores_a_file_of_the_corpus_that_was_altered(whole, tmp_path):
    workspace = make(tmp_path)
    set_limit(workspace, 4)
    convert(workspace, NAME)
    file = workspace.benchmark(NAME).corpus / "d4.pdf"
    status = file.stat()
    file.write_bytes(file.read_bytes().replace(b"document", b"DOCUMENT"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    convert(workspace, NAME)

    assert products(workspace) == products(whole)


@pytest.mark.parametrize("key", ["scratch", "scratch~12345678~9", "scratch~12345678~0000", "nobody~12345678~0000"])
def test_unknown_shards_are_named(workspace, key):
    with pytest.raises(InputError, match="no_shard|no_benchmark"):
        run_shard(workspace, key)


def test_limit_of_zero_is_refused(workspace):
    set_limit(workspace, 0)

    with pytest.raises(InputError, match="conversion.config.yaml.*shard_documents"):
        shards.read_conversion_settings(workspace)
