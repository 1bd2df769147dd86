"""A dataset version that was published keeps its content."""

import pytest

from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.conversion.stamp import current_stamp, source_digest
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.workspace import Workspace
from tests.corpus.making import simple_pdf

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


REFUSED = {
    "a source that cannot be read": ("other,names\none,1\n", "bad_sql"),
    "another question": ("q,a,d\nWho leads?,Ines,a.pdf\n", "1 query changed in query_text"),
    "another document": ("q,a,d\nWho sails?,Ines,b.pdf\n", "1 query changed in relevant_documents"),
    "one more": ("q,a,d\nWho sails?,Ines,a.pdf\nWho rows?,Udo,b.pdf\n", "1 query added.*version_conflict"),
}


def contents(paths):
    files = [path for folder in (paths.dataset, paths.corpus) for path in folder.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in files if path.name not in {".lock", "refused.txt"}}


@pytest.mark.parametrize(("table", "reason"), REFUSED.values(), ids=REFUSED)
def test_source_that_is_refused_leaves_the_earlier_conversion(table, reason, benchmark, tmp_path):
    questions = "questions: 'SELECT q AS question, a AS answer, [{file: d, text: a}] AS contexts FROM source'\n"
    spec = "name: scratch\nversion: 1.0.0\nsource: q.csv\ntables: {docs: {files: '*.pdf'}}\n" + questions
    documents = {"a.pdf": simple_pdf("Ines sails."), "b.pdf": simple_pdf("Ines and Udo.")}
    files = {"q.csv": "q,a,d\nWho sails?,Ines,a.pdf\n", **documents}
    paths = benchmark(spec, files)
    convert(Workspace(tmp_path), "scratch")
    made = contents(paths)

    benchmark(spec, {"q.csv": table})
    with pytest.raises(InputError, match=reason):
        convert(Workspace(tmp_path), "scratch")

    assert contents(paths) == made
    with pytest.raises(InputError, match=rf"\[stale_conversion\].*was refused: .*{reason}"):
        current_stamp(paths, source_digest(paths))
    benchmark(spec, files)
    assert current_stamp(paths, source_digest(paths)).dataset_version == "1.0.0"
    benchmark(spec, {"note.txt": "no other content"})
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
