"""What is written is YAML that the strict reader gives back unchanged, whatever columns and files are called."""

import csv
import io
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.conversion.spec import read_spec
from rag_eval_pipeline.formats.yaml_reader import read_yaml
from rag_eval_pipeline.proposal import start_benchmark
from rag_eval_pipeline.proposal.draft import Draft, Guess, Origin, Piece
from rag_eval_pipeline.proposal.writing import scalar, write_yaml
from rag_eval_pipeline.workspace import Workspace

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
# Names that YAML or SQL would take for something else, which chance seldom draws.
NASTY = st.sampled_from(
    ["null", "~", "yes", "1.0", "- a", "a: b", "a #b", "'", '"', "\\", "{a}", "[a", "&a", "*a", "!a", "%a", "@a", "`a", "| a",
     "a\nb", "a\r\nb", "a\x85b", "a\u2028b", "\ufeffa", " a ", "a\tb", '"; SELECT 1 --', "source", "select", "part", "end", "url",
     "é😀", "a'b", "--", "/*", "?", "$1", "{{a}}", "name", "file", "document", "text", "source_row", "metadata", "question"]
)  # fmt: skip
NAME = st.one_of(ANY_TEXT, NASTY)


def read_back(folder: Path, text: str):
    path = folder / "benchmark.yaml"
    path.write_text(text, newline="")
    return read_yaml(path, "benchmark.yaml").value


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("yaml")


@given(NAME)
def test_a_text_is_read_back_as_it_was(folder, text):
    assert read_back(folder, f"key: {scalar(text)}\nlist: [{scalar(text)}]\n") == {"key": text, "list": [text]}


@given(NAME, NAME, NAME)
def test_short_form_and_guesses_are_read_back_as_they_were(folder, first, second, third):
    draft = Draft(
        shape=first,
        source=Origin(path=second),
        questions={"question": Piece("", first), "answer": Piece("", second)},
        metadata=(third,),
        tables={"docs": Origin(files=third)},
        guesses=(Guess("questions", first), Guess("source", second)),
        missing=(third,),
        unused=(first,),
    )

    found = read_back(folder, write_yaml("scratch", draft, licence=third, sources=[second]))

    assert found["questions"] == {"question": first, "answer": second, "metadata": [third]}
    assert (found["source"], found["tables"]) == (second, {"docs": {"files": third}})
    assert found["license"] == third


@given(NAME, NAME)
def test_sql_is_read_back_as_it_was(folder, first, second):
    sql = f'SELECT "{first}" AS question\nFROM source\n\nWHERE "{second}" <> 1'
    draft = Draft(shape="any", source=Origin(path="a.csv"), questions=sql, documents=sql)

    found = read_back(folder, write_yaml("scratch", draft, licence=None, sources=[]))

    # A block ends with the line feed of its last line.
    assert (found["questions"].rstrip("\n"), found["documents"].rstrip("\n")) == (sql.rstrip("\n"), sql.rstrip("\n"))


FILE_NAME = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/\x00"), min_size=1, max_size=30
).filter(lambda name: not name.startswith(".") and len(name.encode()) < 200)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(NAME, min_size=1, max_size=4), FILE_NAME, st.booleans(), st.sampled_from(["a; b", "x", "https://a.org/1"])
)
def test_any_header_and_file_name_give_a_spec_that_is_read_and_planned(others, file_name, is_short, cell):
    names = ["question", "answer", *others] if is_short else ["question", "number", "aliases", *others]
    assume(len({name.casefold() for name in names}) == len(names))
    assume(all("\x00" not in name for name in names))
    table = io.StringIO(newline="")
    csv.writer(table).writerows([names, ["What is it?", "1", *[cell] * (len(names) - 2)]])
    root = Path(tempfile.mkdtemp())
    try:
        workspace = Workspace(root / "workspace")
        workspace.sources.mkdir(parents=True)
        origin = root / "origin"
        origin.mkdir()
        (origin / f"{file_name}.csv").write_bytes(table.getvalue().encode())

        paths, proposal = start_benchmark(workspace, "scratch", origin / f"{file_name}.csv")

        assert read_spec(paths).source.path == (f"{file_name}.csv",)
        if not proposal.missing:
            assert plan(paths).counts.rows == 1
    finally:
        shutil.rmtree(root)
