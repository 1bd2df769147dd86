"""Rows 23 and 26: a name from data or from a person is looked up as it is, and never becomes a path, a pattern or a link.

Names of documents made from URLs: tests/corpus/test_naming.py. Links in the corpus folder: tests/corpus/test_folder.py;
in a benchmark's folder: tests/sources/test_relations.py. Ids of evaluations: tests/evaluation/test_publishing.py.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.corpus.documents import CorpusDocument
from rag_eval_pipeline.corpus.text.pages import corpus_pages
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.workspace import NAME, check_name
from tests.conversion.conftest import HEAD, PLAIN
from tests.faults.pdfs import one_page, shown, stream
from tests.validation import validate

NAMES = (
    "../benchmark.yaml",
    "docs/../../scratch/benchmark.yaml",
    "/etc/passwd",
    "*.pdf",
    "[a].txt",
    "a.txt\n",
    ".",
)
BY_FILE = f"""{HEAD}source: q.jsonl
tables: {{docs: {{files: "docs/*"}}}}
questions: |
  SELECT q AS question, 'y' AS answer, [{{'file': f}}] AS contexts FROM source
"""
BY_DOCUMENT = f"""{HEAD}source: q.jsonl
questions: |
  SELECT q AS question, 'y' AS answer, [{{'document': q}}] AS contexts FROM source
documents: SELECT q AS name, f AS file FROM source
"""


def rows(*names):
    return "".join(json.dumps({"q": f"q{number}", "f": name}) + "\n" for number, name in enumerate(names))


@pytest.mark.fault(23)
def test_file_of_a_context_is_one_that_is_listed_or_its_question_is_quarantined(benchmark):
    found = plan(benchmark(BY_FILE, {"q.jsonl": rows(*NAMES, "a.txt"), "docs/a.txt": "A"}))

    assert [(r.code, r.row, r.field) for r in found.quarantine] == [
        ("unknown_document", number, "contexts.file") for number in range(1, len(NAMES) + 1)
    ]
    assert [question.question for question in found.questions] == [f"q{len(NAMES)}"]
    assert [document.path.name for document in found.documents] == ["a.txt"]
    assert found.counts.conserved


def test_file_whose_name_is_a_pattern_or_has_quotes_is_that_file(benchmark):
    files = {"docs/[a].txt": "A", 'docs/it\'s "so".txt': "B", "docs/a.txt": "C"}

    found = plan(benchmark(BY_FILE, files | {"q.jsonl": rows("[a].txt", 'it\'s "so".txt')}))

    assert [document.path.name for document in found.documents] == ["[a].txt", 'it\'s "so".txt']
    assert found.counts.accepted == 2


OUTSIDE = ("../benchmark.yaml", "/etc/passwd", "docs/../docs/a.txt", "docs/link.txt", "linked/a.txt")


@pytest.mark.fault(26)
def test_body_outside_of_the_benchmarks_folder_is_noted_and_never_read(benchmark):
    paths = benchmark(BY_DOCUMENT, {"q.jsonl": rows(*OUTSIDE, "docs/a.txt"), "docs/a.txt": "A"})
    (paths.source / "docs" / "link.txt").symlink_to(paths.source / "docs" / "a.txt")
    (paths.source / "linked").symlink_to(paths.source / "docs")

    found = plan(paths)

    assert ["[path_outside]" in note for note in found.notes] == [True] * len(OUTSIDE)
    assert [(r.code, r.row) for r in found.quarantine] == [("unknown_document", row) for row in range(1, 6)]
    assert [document.path for document in found.documents] == [paths.source / "docs" / "a.txt"]


@pytest.mark.fault(23)
@pytest.mark.parametrize("version", ["1.0", "../1.0.0", "1.0.0*", "v1.0.0", "01.0.0", "1.0.0 "])
def test_version_is_semantic_or_the_benchmark_is_refused(version, benchmark):
    with pytest.raises(InputError) as caught:
        plan(benchmark(PLAIN.replace("version: 1.0.0", f'version: "{version}"'), {"questions.csv": "q,a\nx,y\n"}))

    assert (caught.value.code, caught.value.field) == ("bad_value", "version")


@pytest.mark.fault(23)
@given(st.text(max_size=70))
def test_any_name_of_a_benchmark_is_one_plain_component_or_refused(name):
    try:
        assert check_name("benchmark", name) == name
    except InputError as error:
        assert (error.code, NAME.fullmatch(name)) == ("bad_name", None)  # noqa: PT017
    else:
        assert name.isascii()
        assert not set(name) & set("/\\.*?[]'\"|,\n\0 ")


ROW = {"id": 0, "question": "q", "answer": "a", "is_impossible": False}


def train(folder, name):
    (folder / "corpus").mkdir()
    (folder / "corpus" / "a.pdf").touch()
    (folder / "corpus" / "link.pdf").symlink_to("/etc/passwd")
    path = folder / "train.json"
    path.write_text(json.dumps([ROW | {"contexts": [{"filename": name}]}]))
    return validate(path)


@pytest.mark.fault(23, 26)
@pytest.mark.parametrize("name", ["../train.json", "/etc/passwd", "*.pdf", "a.pdf\n", "A.PDF", "", "link.pdf"])
def test_filename_in_train_json_is_exactly_one_of_the_corpus(name, tmp_path):
    [line] = train(tmp_path, name)

    assert 'row 1, field "contexts[0].filename"' in line
    assert "[missing_file]" in line


@pytest.mark.fault(26)
def test_link_in_the_place_of_a_pdf_has_no_text(tmp_path, caplog):
    (tmp_path / "secret.txt").write_bytes(one_page(stream(shown("secret"))))
    (tmp_path / "a.pdf").symlink_to(tmp_path / "secret.txt")

    pages = list(corpus_pages([CorpusDocument("a", "a.pdf", None, None, (), "kept", "1", "1", None, 1)], tmp_path))

    assert pages == []
    assert "a.pdf has no text: a link" in caplog.text
