"""`rag-eval init` starts a benchmark completely or not at all, from a file, a folder or a URL, whatever it is called."""

import csv
import io
import json
import tempfile
import zipfile
from pathlib import Path

import openpyxl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rag_eval_pipeline.conversion.benchmark_spec import read_spec
from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.scaffold.init import propose, start_benchmark
from rag_eval_pipeline.scaffold.workspaces import new_workspace
from rag_eval_pipeline.workspace import Workspace
from tests.scaffold.conftest import write

TABLE = "question,answer\nA?,a\n"
URL = "https://data.example.org/sets/table.csv?version=2#rows"


def everything(workspace):
    return sorted(path.relative_to(workspace.root).as_posix() for path in workspace.root.rglob("*"))


def test_init_copies_a_folder_without_hidden_files_and_links(empty, tmp_path):
    origin = write(tmp_path / "origin", {"table.csv": TABLE, "docs/a.md": "x", ".git/config": "", ".DS_Store": ""})
    (origin / "outside.csv").symlink_to(write(tmp_path / "else", {"secret.csv": TABLE}) / "secret.csv")
    (origin / "elsewhere").symlink_to(tmp_path / "else")

    paths, proposal = start_benchmark(empty, "scratch", origin)

    assert proposal.files == ["docs/a.md", "table.csv"]
    assert not any(path.is_symlink() for path in paths.source.rglob("*"))
    assert any("'outside.csv'" in guess and "'elsewhere'" in guess for guess in proposal.guesses)


def test_propose_writes_nothing_and_is_deterministic(empty, tmp_path):
    files = {"b.csv": TABLE, "a.csv": TABLE, "docs/x.md": "x", "docs/y.md": "y"}
    before = everything(empty)

    first = propose(empty, "scratch", write(tmp_path / "one", files))
    second = propose(empty, "scratch", write(tmp_path / "two", dict(reversed(files.items()))))

    assert first == second
    assert everything(empty) == before


REFUSED = {
    "invalid name":               ("Scratch!", {"table.csv": TABLE},                       "bad_name"),
    "folder is a benchmark":      ("scratch",  {"table.csv": TABLE, "benchmark.yaml": ""}, "already_a_benchmark"),
    "no rows":                    ("scratch",  {"a.pdf": "%PDF-", "b.png": "x"},           "nothing_to_propose"),
    "single file is malformed":   ("scratch",  {"a.csv": 'question,answer\nA?,"b\nC?,d\n'},      "unclosed_quote"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "files", "code"), REFUSED.values(), ids=REFUSED)
def test_refused_origin_leaves_nothing(empty, tmp_path, name, files, code):
    before = everything(empty)

    with pytest.raises(InputError) as error:
        start_benchmark(empty, name, write(tmp_path / "origin", files))

    assert error.value.code == code
    assert everything(empty) == before


def test_archive_of_several_tables_states_which_is_read(empty, tmp_path):
    origin = tmp_path / "two.zip"
    with zipfile.ZipFile(origin, "w") as archive:
        archive.writestr("a.csv", TABLE)
        archive.writestr("b.csv", "number,size\n1,2\n")

    _, proposal = start_benchmark(empty, "scratch", origin)

    assert "source: {path: two.zip, member: a.csv}\n" in proposal.text
    assert any("Left out: two.zip (b.csv)" in guess for guess in proposal.guesses)


def test_quotes_that_would_swallow_rows_are_proposed_as_text(empty, tmp_path):
    table = 'id\tquestion\tanswer\n1\t"to be or not\tx\n2\twhat is that"\ty\n'

    paths, _ = start_benchmark(empty, "scratch", write(tmp_path / "origin", {"a.tsv": table}))

    assert "quote: none" in (paths.source / "benchmark.yaml").read_text()
    assert plan(empty.benchmark("scratch")).counts.accepted == 2


def test_existing_folder_is_not_touched(empty, tmp_path):
    kept = write(empty.sources / "scratch", {"mine.txt": "kept"})

    with pytest.raises(InputError, match="benchmark_exists"):
        start_benchmark(empty, "scratch", write(tmp_path / "origin", {"table.csv": TABLE}))

    assert [path.name for path in kept.iterdir()] == ["mine.txt"]


def test_url_body_is_read_and_not_kept(empty):
    asked = []

    def download(url, target):
        asked.append(url)
        target.write_text(TABLE)

    paths, proposal = start_benchmark(empty, "scratch", URL, download=download)

    assert asked == [URL]
    assert [path.name for path in paths.source.iterdir()] == ["benchmark.yaml"]
    assert proposal.files == []
    assert f'source: {{url: "{URL}"}}\n' in proposal.text


@pytest.mark.parametrize("origin", [".", ".."])
def test_folder_that_holds_the_workspace_gives_only_the_users_files(origin, tmp_path):
    workspace, _ = new_workspace(tmp_path / "mine" / "evaluation")
    start_benchmark(workspace, "first", write(tmp_path / "other", {"table.csv": TABLE}))
    write(workspace.root, {"questions.csv": TABLE, "data/reports/index.html": "<p>report</p>"})

    _, proposal = start_benchmark(workspace, "second", workspace.root / origin)

    assert [Path(file).name for file in proposal.files] == ["questions.csv"]


def test_failed_download_leaves_nothing(empty):
    before = everything(empty)

    def download(url, target):
        target.write_text("a part")
        raise InputError("not_found", url, "a file")

    with pytest.raises(InputError, match="not_found"):
        start_benchmark(empty, "scratch", URL, download=download)
    with pytest.raises(InputError, match="missing_origin"):
        start_benchmark(empty, "scratch", URL)

    assert everything(empty) == before


@pytest.mark.parametrize("path", ["..", "%2e%2e", "x" * 400 + ".csv", "a\x00b.csv"])
def test_url_path_never_names_a_file_on_disk(empty, path):
    targets = []

    def download(url, target):
        targets.append(target.name)
        target.write_text(TABLE)

    propose(empty, "scratch", f"https://data.example.org/{path}", download=download)

    assert targets in (["source"], ["source.csv"])


# Names that YAML or SQL would read as something else, which random text seldom contains.
NASTY = st.sampled_from(
    ["null", "~", "yes", "1.0", "- a", "a: b", "a #b", "'", '"', "\\", "{a}", "[a", "&a", "*a", "!a", "%a", "@a", "`a", "| a",
     "a\nb", "a\r\nb", "a\x85b", "a\u2028b", "\ufeffa", " a ", "a\tb", '"; SELECT 1 --', "source", "select", "part", "end", "url",
     "é😀", "a'b", "--", "/*", "?", "$1", "{{a}}", "name", "file", "document", "text", "source_row", "metadata", "question"]
)  # fmt: skip
NAME = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40), NASTY)
FILE_NAME = NAME.filter(
    lambda name: not name.startswith(".") and not {"/", "\x00"} & set(name) and len(name.encode()) < 200
)
CELL = st.sampled_from(["a; b", "x", "https://a.org/1"])


@settings(max_examples=12)  # each starts and plans a benchmark
@given(st.lists(NAME, min_size=1, max_size=4), FILE_NAME, st.booleans(), CELL)
def test_any_column_and_file_name_gives_a_spec_that_is_read_and_planned(others, file_name, is_short, cell):
    names = ["question", "answer", *others] if is_short else ["question", "number", "aliases", *others]
    assume(len({name.casefold() for name in names}) == len(names))
    assume(all("\x00" not in name for name in names))
    table = io.StringIO(newline="")
    csv.writer(table).writerows([names, ["What is it?", "1", *[cell] * (len(names) - 2)]])
    with tempfile.TemporaryDirectory() as root:
        workspace = Workspace(Path(root, "workspace"))
        workspace.sources.mkdir(parents=True)
        origin = write(Path(root, "origin"), {f"{file_name}.csv": table.getvalue()}) / f"{file_name}.csv"

        paths, proposal = start_benchmark(workspace, "scratch", origin)

        assert read_spec(paths).source.path == (f"{file_name}.csv",)
        if not proposal.missing:
            assert plan(paths).counts.rows == 1


def test_number_in_columns_of_texts_does_not_change_the_proposal(empty, tmp_path):
    rows = [{"question": f"q{n}", "answer": f"a{n}", "page": f"https://x.org/{n}"} for n in range(5)]
    rows.append({"question": "q5", "answer": 12, "page": 7})
    origin = write(tmp_path / "origin", {"q.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows)})

    paths, _ = start_benchmark(empty, "scratch", origin / "q.jsonl")

    found = plan(paths)
    assert [(question.answer, question.contexts[0].url) for question in found.questions] == [
        (f"a{n}", f"https://x.org/{n}") for n in range(5)
    ]
    assert [(record.code, record.row) for record in found.quarantine] == [("bad_url", 6)]


def test_sheets_with_different_questions_are_one_benchmark(started, empty):
    workbook = openpyxl.Workbook()
    for title, asked in (("HR", "Who?"), ("IT", "How?")):
        sheet = workbook.create_sheet(title)
        sheet.append([f"Questions of {title}"])
        for row in (["Question", "Answer"], [asked, title]):
            sheet.append(row)
    buffer = io.BytesIO()
    workbook.save(buffer)

    proposal = started({"set.xlsx": buffer.getvalue()})

    assert "source: {path: set.xlsx, sheet: [HR, IT]}" in proposal.text
    found = [(one.question, one.answer, one.source_row) for one in plan(empty.benchmark("scratch")).questions]
    assert found == [("Who?", "HR", 1), ("How?", "IT", 1)]


def test_init_takes_the_sheet_with_the_questions_and_names_the_others(started, empty):
    workbook = openpyxl.Workbook()
    workbook.active.title = "Notes"
    workbook.active.append(["Reviewed by the harbour office"])
    sheet = workbook.create_sheet("Questions")
    for row in [["q", "Expected answer"], ["Who lit the lamp?", "Ada Thorne"], ["Who built the quay?", "Per Lund"]]:
        sheet.append(row)
    buffer = io.BytesIO()
    workbook.save(buffer)

    proposal = started({"set.xlsx": buffer.getvalue()})

    assert "source: {path: set.xlsx, sheet: Questions}" in proposal.text
    assert "Left out: set.xlsx (Notes) (score 0: no question)" in proposal.guesses[0]
    assert plan(empty.benchmark("scratch")).counts.accepted == 2
