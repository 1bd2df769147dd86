"""`rag-eval try`: from an empty folder to the first score, by commands that can be copied."""

import os
import shlex
import subprocess
import sys

import pytest

from rag_eval_pipeline.cli import main
from tests.conftest import REPOSITORY
from tests.paid_server import paid_server

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
ENVIRONMENT |= {"PYTHONPATH": str(REPOSITORY)}
RAG_EVAL = f'rag-eval() {{ "{sys.executable}" -m rag_eval_pipeline.cli "$@"; }}\nset -e\n'
UNKNOWN = (
    'def answer(question):\n    return {"answer": "12 euros", "contexts": [{"document": "kb-7", "text": "12 euros"}]}\n'
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def rag_eval(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["rag-eval", *arguments])
        with pytest.raises(SystemExit) as exit_:
            main()
        return int(exit_.value.code or 0), *capsys.readouterr()

    return run


@pytest.fixture
def copied(rag_eval, monkeypatch):
    """Runs lines as a shell does, in this process, until a command fails; returns its code and what all print."""

    def run(lines, folder):
        printed = []
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            for command in " && ".join(lines).split(" && "):
                program, *arguments = shlex.split(command, comments=True)
                if program == "cd":
                    patch.chdir(*arguments)
                elif program == "rag-eval":
                    code, out, _ = rag_eval(*arguments)
                    printed.append(out)
                    if code:
                        return code, "".join(printed)
                else:
                    subprocess.run([program, *arguments], check=True)
        return 0, "".join(printed)

    return run


def shell(script, folder):
    done = subprocess.run(
        ["bash", "-c", RAG_EVAL + script], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def marked(output, mark):
    return [line.removeprefix(mark) for line in output.splitlines() if line.startswith(mark)]


def score(output):
    return next(line for line in output.splitlines() if "Hit@1" in line).partition(", Latency")[0]


@pytest.mark.browser
def test_bundled_questions_are_scored_by_lines_that_give_the_same_when_copied_and_a_second_run_goes_on(
    folder, rag_eval, copied, tmp_path
):
    code, first, error = rag_eval("try", "--no-open")
    lines = marked(first, "$ ")
    assert (code, lines[1], error) == (0, "cd bicycle-hire-eval", "Next: rag-eval try --from FILE|FOLDER --url URL\n")
    assert (folder / "bicycle-hire-eval" / "data" / "reports" / "index.html").is_file()

    (tmp_path / "copied").mkdir()
    code, out = copied(lines, tmp_path / "copied")
    assert (code, score(out)) == (0, score(first))

    code, second, _ = rag_eval("try", "--no-open")
    assert (code, score(second)) == (0, score(first))
    assert [line.split(" ")[1] for line in marked(second, "# skipped: ")] == ["new", "init", "convert"]

    (folder / "my_rag.py").write_text(UNKNOWN)
    code, out, error = rag_eval("try", "--python", "my_rag:answer", "--no-open")
    line = "system init python --callable my_rag:answer --path .. --benchmark bicycle-hire"
    assert (code, line in out, "0 of 1 passages are of documents of the corpus" in error) == (2, True, True)
    code, out = copied(marked(error, "Next: ")[:1], folder)
    assert (code, "bicycle-hire x python: 33 questions, 0 failed" in out) == (0, True)


def test_it_stops_where_something_is_to_be_filled_in_and_the_same_command_goes_on(folder, rag_eval, copied):
    (folder / "FAQ 1.csv").write_text("Thema,Inhalt\n" + "".join(f"x,What is number {n}?\n" for n in range(60)))
    with paid_server() as server:
        command = ("try", "--from", "FAQ 1.csv", "--no-open", "--url", f"{server.url}/ask")
        code, out, error = rag_eval(*command)
        assert (code, marked(out, "$ ")[-1]) == (2, "rag-eval init faq-1 --from '../FAQ 1.csv'")
        assert "data/sources/faq-1/benchmark.yaml has to be completed: line 26: answer: FILL_IN" in error
        assert "Thema        VARCHAR  'x'" in shell(marked(error, "Next: ")[0], folder)[1]

        spec = folder / "faq-1-eval" / "data" / "sources" / "faq-1" / "benchmark.yaml"
        spec.write_text(spec.read_text().replace("answer: FILL_IN", "answer: Thema"))
        code, out, error = rag_eval(*command)
        assert (code, len(server.asked)) == (0, 50), error
        assert "rag-eval evaluate faq-1 --system http --limit 50" in marked(out, "$ ")
        code, out = copied(marked(error, "Next: ")[:1], folder)
        assert (code, "60 questions, 0 failed" in out, len(server.asked)) == (0, True, 60)


def test_it_names_the_line_where_a_step_stops(folder, rag_eval, copied):
    (folder / "faq.csv").write_text("Question,Answer\nWhat is left?,nothing\n")
    code, out, error = rag_eval("try", "--from", "faq.csv")
    assert (code, "nothing that the built-in baseline could search" in error) == (2, True)

    with paid_server() as server:
        code, _, error = rag_eval("try", "--from", "faq.csv", "--url", f"{server.url}/no")
        line = f"cd faq-eval && rag-eval system init http --url {server.url}/no --benchmark faq"
        assert (code, "[unknown_body]" in error, marked(error, "Next: ")) == (2, True, [line])

    (folder / "faq.csv").write_text("Question,Answer\nWhat is left?,everything\n")
    code, _, error = rag_eval("try", "--from", "faq.csv")
    line = "cd faq-eval && cp -R ../faq.csv data/sources/faq && rag-eval convert faq --replace"
    assert (code, "data/sources/faq and ../faq.csv differ in 'faq.csv'" in error, marked(error, "Next: ")) == (
        2,
        True,
        [line],
    )
    assert copied([line], folder)[0] == 0
    code, out, _ = rag_eval("try", "--from", "faq.csv")
    assert (code, "# skipped: rag-eval convert faq" in out) == (2, True)

    (folder / "notes").mkdir()
    for name in ("a.md", "b.md"):
        (folder / "notes" / name).write_text("# Notes")
    code, _, error = rag_eval("try", "--from", "notes")
    assert (code, "Put a CSV with the columns Question, Answer and Document" in error) == (2, True)
