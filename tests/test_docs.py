"""What the documents show is valid and complete: settings, links, and the reference that is generated from the code."""

import importlib.util
import re

import pytest
import typer
import yaml

from rag_eval_pipeline import cli
from rag_eval_pipeline.evaluation.evaluation_settings import EvaluationSettings
from rag_eval_pipeline.systems.config import KINDS, parse_system
from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGES = {str(path.relative_to(REPOSITORY)): path for path in [*DOCS.rglob("*.md"), *REPOSITORY.glob("*.md")]}
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:`|^\$ |^    )rag-eval ([^`\n]+)", re.MULTILINE)
LINK = re.compile(r"(?:\]\(|^\[[^\]]+\]: )([^)\s]+)", re.MULTILINE)


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("write_reference", REPOSITORY / "tools" / "write_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages()


def blocks(*names):
    text = "\n".join(PAGES[name].read_text() for name in names or sorted(PAGES))
    return [yaml.safe_load(body) for body in re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)]


SYSTEMS = [
    block for block in blocks() if isinstance(block, dict) and block.get("kind") in KINDS and "settings" in block
]


@pytest.mark.parametrize("block", SYSTEMS, ids=lambda block: block["kind"])
def test_system_of_the_documents_is_valid_and_says_that_it_is_nightly(block):
    assert parse_system(block, "a page of docs").kind == block["kind"]
    assert block["nightly"] is not block.get("closed_book", False)


def test_every_kind_of_system_has_its_example():
    assert {block["kind"] for block in SYSTEMS} == set(KINDS)


@pytest.mark.parametrize("block", blocks("docs/explanation/judges.md"), ids=str)
def test_settings_of_the_documents_are_valid(block):
    assert EvaluationSettings.model_validate(block)


@pytest.mark.parametrize("name", ["commands.md", "settings.md", "metrics.md", "errors.md", "../index.md"])
def test_reference_is_what_the_code_states(reference, name):
    assert (DOCS / "reference" / name).read_text() == reference[name], "run `make reference`"


@pytest.mark.parametrize("name", sorted(PAGES.keys() - {"CHANGELOG.md"}))  # which names commands of the past
def test_commands_and_options_of_the_documents_exist(name):
    root, unknown = typer.main.get_command(cli.app), []
    for line in COMMAND.findall(PAGES[name].read_text()):
        words = re.split(r"[\s=]+", line.partition("|")[0].partition("#")[0].strip())
        command = root
        while hasattr(command, "commands") and words[0] in command.commands:
            command = command.get_command(None, words.pop(0))
        known = {option for one in command.params for option in one.opts} | {"--help"}
        if hasattr(command, "commands") and not words[0].startswith(("-", "COMMAND")):
            unknown.append(line)
        unknown += [f"{line}: {word}" for word in words if word.startswith("--") and word not in known]

    assert unknown == []


def test_navigation_has_every_page_once():
    pages = re.findall(r": (\S+\.md)$", (REPOSITORY / "mkdocs.yml").read_text(), re.MULTILINE)

    assert sorted(pages) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def anchors(path):
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_links_of_the_documents_lead_somewhere(name):
    broken = []
    for target in LINK.findall(BLOCK.sub("", PAGES[name].read_text())):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        path = (PAGES[name].parent / file).resolve() if file else PAGES[name]
        is_on_site = path.is_relative_to(DOCS) or not PAGES[name].is_relative_to(DOCS)
        if not path.exists() or not is_on_site or (anchor and anchor not in anchors(path)):
            broken.append(target)

    assert broken == []
