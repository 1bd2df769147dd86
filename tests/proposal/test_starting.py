"""A benchmark is started whole or not at all, from a file, a folder or a URL."""

import resource

import pytest

from rag_eval_pipeline.conversion.spec import read_spec
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.proposal import propose, start_benchmark
from tests.proposal.conftest import write

TABLE = "question,answer\nA?,a\n"


def code(error):
    return error.value.code


def everything(workspace):
    return sorted(path.relative_to(workspace.root).as_posix() for path in workspace.root.rglob("*"))


def test_a_file_is_copied_alone(empty, tmp_path):
    origin = write(tmp_path / "origin", {"table.csv": TABLE, "other.csv": TABLE})

    paths, proposal = start_benchmark(empty, "scratch", origin / "table.csv")

    assert sorted(path.name for path in paths.source.iterdir()) == ["benchmark.yaml", "table.csv"]
    assert proposal.files == ["table.csv"]
    assert read_spec(paths).source.path == ("table.csv",)


def test_a_folder_is_copied_with_its_folders_and_without_hidden_files_and_links(empty, tmp_path):
    origin = write(tmp_path / "origin", {"table.csv": TABLE, "docs/a.md": "x", ".git/config": "", ".DS_Store": ""})
    (origin / "outside.csv").symlink_to(write(tmp_path / "else", {"secret.csv": TABLE}) / "secret.csv")
    (origin / "elsewhere").symlink_to(tmp_path / "else")

    paths, proposal = start_benchmark(empty, "scratch", origin)

    assert proposal.files == ["docs/a.md", "table.csv"]
    assert not any(path.is_symlink() for path in paths.source.rglob("*"))
    assert any("'outside.csv'" in guess and "'elsewhere'" in guess for guess in proposal.guesses)


def test_a_proposal_writes_nothing(empty, tmp_path):
    before = everything(empty)

    propose(empty, "scratch", write(tmp_path / "origin", {"table.csv": TABLE}))

    assert everything(empty) == before


def test_the_same_files_give_the_same_text(empty, tmp_path):
    files = {"b.csv": TABLE, "a.csv": TABLE, "docs/x.md": "x", "docs/y.md": "y"}
    first = propose(empty, "scratch", write(tmp_path / "one", files))
    second = propose(empty, "scratch", write(tmp_path / "two", dict(reversed(files.items()))))

    assert first == second


def test_a_long_file_says_how_much_of_it_was_looked_at(empty, tmp_path):
    rows = "".join(f"Question {n}?,answer {n}\n" for n in range(5_001))
    origin = write(tmp_path / "origin", {"table.csv": "question,answer\n" + rows})

    assert "# Values were looked at in the first 5000 rows only.\n" in propose(empty, "scratch", origin).text


REFUSED = {
    "a name that is no folder's":         ("Scratch!", {"table.csv": TABLE},                       "bad_name"),
    "a folder that is a benchmark":       ("scratch",  {"table.csv": TABLE, "benchmark.yaml": ""}, "already_a_benchmark"),
    "no rows anywhere":                   ("scratch",  {"a.pdf": "%PDF-", "b.png": "x"},           "nothing_to_propose"),
    "an empty folder":                    ("scratch",  {},                                         "missing_origin"),
    "one file that is no table":          ("scratch",  {"a.pdf": "%PDF-"},                         "unsupported_format"),
    "one file with a lost quote":         ("scratch",  {"a.csv": 'question,answer\nA?,"b\n'},      "unclosed_quote"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "files", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_started_leaves_nothing(empty, tmp_path, name, files, expected):
    before = everything(empty)

    with pytest.raises(InputError) as error:
        start_benchmark(empty, name, write(tmp_path / "origin", files))

    assert code(error) == expected
    assert everything(empty) == before


def test_a_folder_that_exists_is_not_touched(empty, tmp_path):
    kept = write(empty.sources / "scratch", {"mine.txt": "kept"})

    with pytest.raises(InputError) as error:
        start_benchmark(empty, "scratch", write(tmp_path / "origin", {"table.csv": TABLE}))

    assert code(error) == "benchmark_exists"
    assert [path.name for path in kept.iterdir()] == ["mine.txt"]


def test_a_disk_that_takes_no_more_leaves_nothing(empty, tmp_path):
    origin = write(tmp_path / "origin", {"table.csv": TABLE})
    before = everything(empty)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # enough for table.csv, not for benchmark.yaml
    try:
        with pytest.raises(OSError, match="File too large"):
            start_benchmark(empty, "scratch", origin)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert everything(empty) == before


def test_a_download_that_fails_leaves_nothing(empty):
    before = everything(empty)

    def download(url, target):
        target.write_text("a part")
        raise InputError("not_found", url, "a file")

    with pytest.raises(InputError) as error:
        start_benchmark(empty, "scratch", "https://data.example.org/table.csv", download=download)

    assert code(error) == "not_found"
    assert everything(empty) == before


class TestUrl:
    URL = "https://data.example.org/sets/table.csv?version=2#rows"

    def test_the_body_is_looked_at_and_not_kept(self, empty):
        asked = []

        def download(url, target):
            asked.append(url)
            target.write_text(TABLE)

        paths, proposal = start_benchmark(empty, "scratch", self.URL, download=download)

        assert asked == [self.URL]
        assert [path.name for path in paths.source.iterdir()] == ["benchmark.yaml"]
        assert proposal.files == []
        assert f'source: {{url: "{self.URL}"}}\n' in proposal.text

    def test_both_parts_of_a_json_file_are_read_from_its_address(self, empty):
        def download(url, target):
            target.write_text(
                '{"queries": [{"query_id": "q", "query_text": "A", "relevant_doc_ids": ["d"]}],'
                ' "documents": [{"doc_id": "d", "text": "x"}]}'
            )

        text = propose(empty, "scratch", "https://data.example.org/evret.json", download=download).text

        assert 'source: {url: "https://data.example.org/evret.json", root: queries}' in text
        assert 'tables: {documents: {url: "https://data.example.org/evret.json", root: documents}}' in text

    @pytest.mark.parametrize("path", ["..", "a/..", "%2e%2e", "x" * 400 + ".csv", "a\x00b.csv", ""])
    def test_no_address_names_a_place_on_disk(self, empty, path):
        targets = []

        def download(url, target):
            targets.append(target.name)
            target.write_text(TABLE)

        propose(empty, "scratch", f"https://data.example.org/{path}", download=download)

        assert targets in (["source"], ["source.csv"])
