"""A dataset version that was published keeps its content."""

import pytest

from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.conversion.stamp import current_stamp, source_digest
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.workspace import Workspace

SPEC = "name: scratch\nversion: {}\nsource: q.csv\nquestions: {{question: q, answer: a}}\n"


def converted(benchmark, tmp_path, version, answer, **options):
    benchmark(SPEC.format(version), {"q.csv": f"q,a\none,1\ntwo,{answer}\n"})
    convert(Workspace(tmp_path), "scratch", **options)
    return Workspace(tmp_path).eval_json("scratch", version)


def test_dataset_version_keeps_its_content_unless_it_is_replaced(benchmark, tmp_path):
    first = converted(benchmark, tmp_path, "1.9.0", "2")
    before = first.read_bytes()
    assert converted(benchmark, tmp_path, "1.9.0", "2").read_bytes() == before

    with pytest.raises(
        InputError, match=r"benchmark\.yaml, line 2.*1 query changed in ground_truth_answer.*'1'"
    ) as caught:
        converted(benchmark, tmp_path, "1.9.0", "three")

    assert caught.value.code == "version_conflict"
    assert first.read_bytes() == before
    paths = Workspace(tmp_path).benchmark("scratch")
    with pytest.raises(InputError, match=r"\[stale_conversion\].*was refused: .*Raise `version`"):
        current_stamp(paths, source_digest(paths))
    assert b"three" in converted(benchmark, tmp_path, "1.10.0", "three").read_bytes()
    assert first.read_bytes() == before
    assert b"three" in converted(benchmark, tmp_path, "1.9.0", "three", replace=True).read_bytes()


def test_source_that_cannot_be_read_leaves_the_earlier_conversion(benchmark, tmp_path):
    paths = Workspace(tmp_path).benchmark("scratch")
    converted(benchmark, tmp_path, "1.0.0", "2")
    whole = (paths.source / "q.csv").read_bytes()
    (paths.source / "q.csv").write_text("other,names\none,1\n")

    with pytest.raises(InputError, match="unknown_column"):
        convert(Workspace(tmp_path), "scratch")

    with pytest.raises(InputError, match=r"\[stale_conversion\].*was refused: .*unknown_column"):
        current_stamp(paths, source_digest(paths))
    (paths.source / "q.csv").write_bytes(whole)
    assert current_stamp(paths, source_digest(paths)).dataset_version == "1.0.0"


REFUSED = {
    "another question": ("Who leads?,Ines,a.md\n", {}, "1 query changed in query_text"),
    "another document": ("Who sails?,Ines,b.md\n", {"b.md": "Ines sails."}, "1 query changed in relevant_documents"),
    "one more": ("Who sails?,Ines,a.md\nWho rows?,Udo,b.md\n", {"b.md": "Udo rows."}, "1 query added"),
}


def contents(paths):
    files = [path for folder in (paths.dataset, paths.corpus) for path in folder.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in files if path.name not in {".lock", "refused.txt"}}


@pytest.mark.browser
@pytest.mark.parametrize(("rows", "files", "difference"), REFUSED.values(), ids=REFUSED)
def test_conflicting_version_leaves_the_earlier_conversion(rows, files, difference, benchmark, tmp_path):
    spec = (
        "name: scratch\nversion: 1.0.0\nsource: q.csv\n"
        "questions: 'SELECT q AS question, a AS answer, [{file: d, text: a}] AS contexts FROM source'\n"
        "tables: {docs: {files: '*.md'}}\n"
    )
    head = "q,a,d\n"
    paths = Workspace(tmp_path).benchmark("scratch")
    benchmark(spec, {"q.csv": f"{head}Who sails?,Ines,a.md\n", "a.md": "Ines sails."})
    convert(Workspace(tmp_path), "scratch")
    made = contents(paths)
    whole = (paths.source / "q.csv").read_bytes()

    (paths.source / "q.csv").write_text(head + rows)
    for name, text in files.items():
        (paths.source / name).write_text(text)
    with pytest.raises(InputError, match=rf"{difference}.*\[version_conflict\]"):
        convert(Workspace(tmp_path), "scratch")

    assert contents(paths) == made
    (paths.source / "q.csv").write_bytes(whole)
    for name in files:
        (paths.source / name).unlink()
    assert current_stamp(paths, source_digest(paths)).dataset_version == "1.0.0"
    (paths.source / "note.txt").write_text("no other content")
    convert(Workspace(tmp_path), "scratch")


def test_documents_are_inline_where_that_is_asked_for(workspace):
    """The offsets of citations count in the very text that is inline."""
    name = "skarn-railway"
    spec = workspace.benchmark(name).spec
    spec.write_text(spec.read_text() + "\ninline_documents: true\n")

    convert(workspace, name, replace=True)

    dataset = EvaluationDataset.read(workspace.eval_json(name, "1.1.0"))
    texts = {document.document_id: document.content for document in dataset.documents}
    cited = [span for query in dataset.queries for span in query.citations]
    assert {path.name for path in workspace.benchmark(name).corpus.iterdir()} == set(texts)
    assert cited
    assert all(len(texts[span.file_name]) >= span.end_char for span in cited)
