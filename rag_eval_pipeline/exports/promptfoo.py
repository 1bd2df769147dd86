"""Tests for promptfoo: `promptfooconfig.yaml` and `tests.yaml`; `promptfoo eval` in the folder runs them.

A test's output has to contain one of the accepted answers; that of an unanswerable question is graded by a model. With
an evaluation, each test has the stored answer without its citation marks as its `providerOutput`, and no provider is
asked. The test of a question without an answer fails.

promptfoo renders variables and assertions as Nunjucks templates, which can read environment variables, and replaces
texts that begin with `file://` by a file's content or a script's output. Neither may happen to texts of a benchmark:
braces are escaped where texts are rendered, and elsewhere a space is put before `file://`.

Source: promptfoo, Test Case Configuration, and Assertions and Metrics.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from rag_eval_pipeline.exports.source import OURS, ExportSource, Written, answer_facts
from rag_eval_pipeline.formats.beir import pack_metadata, unpack_metadata
from rag_eval_pipeline.formats.citation_marks import strip_citations
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.storage.yaml_files import read_yaml_data, resolve_scalars
from rag_eval_pipeline.systems.base import RagAnswer

CONFIG, TESTS = "promptfooconfig.yaml", "tests.yaml"
RUBRIC = "Says that the documents do not answer the question, and gives no other answer"
NO_ANSWER = "(no answer)"

_TEMPLATE = re.compile(r"\{(?=[{%#])|#(?=\})|\A[fp](?=ile://|ackage:)")
_ESCAPED = re.compile(r"\{\{ '([{#fp])' \}\}")
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def write_promptfoo(source: ExportSource, folder: Path) -> Written:
    """Write both files; with an evaluation, only the questions that its system was asked."""
    answers = source.answers
    queries = [query for query in source.dataset.queries if answers is None or query.query_id in answers.given]
    tests = [make_test(query, None if answers is None else answers.given[query.query_id]) for query in queries]
    atomic_write(folder / TESTS, yaml_bytes(tests))
    config = {
        "description": source.dataset.dataset_id
        if answers is None
        else f"{source.dataset.dataset_id}, {answers.system}",
        "prompts": ["{{question}}"],
        "providers": ["echo"],
        "tests": f"file://{TESTS}",
    }
    atomic_write(folder / CONFIG, yaml_bytes(config))
    notes = tuple(_notes(queries))
    if answers is None:
        note = f"the provider in {CONFIG} is echo, which repeats the question: put your own there"
        return Written({"questions": len(queries)}, notes=(note, *notes))
    counts = {"questions": len(queries), "answers": len(queries) - answers.failed}
    failed = f"{answers.failed} of {len(queries)} questions got no answer; their tests fail"
    return Written(counts, notes=(*notes, *((failed,) if answers.failed else ())))


def read_promptfoo(folder: Path) -> tuple[EvaluationQuery, ...]:
    """Return the questions of such a folder."""
    return tuple(map(query_of, resolve_scalars(read_yaml_data(folder / TESTS))))


def escape_template(text: str) -> str:
    """Return a template that promptfoo renders as this text; texts without template syntax stay as they are."""
    return _TEMPLATE.sub(lambda found: f"{{{{ '{found[0]}' }}}}", text)


def query_of(test: dict[str, Any]) -> EvaluationQuery:
    """Return the question of a test that `make_test` made."""
    packed = dict(test["metadata"])
    query_id, text = packed.pop(OURS)["query_id"], _ESCAPED.sub(r"\1", test["vars"]["question"])
    return unpack_metadata(query_id, text, (), packed)


def make_test(query: EvaluationQuery, answer: RagAnswer | None) -> dict[str, Any]:
    """Return a question as a test, with its stored answer if there is one."""
    ours: dict[str, Any] = {"query_id": query.query_id}
    test: dict[str, Any] = {
        "description": query.display_id,
        "vars": {"question": escape_template(query.query_text)},
        "assert": _assertions(query),
    }
    if answer is not None:
        ours |= answer_facts(answer)
        test["providerOutput"] = strip_citations(answer.answer or "") or NO_ANSWER
        if test["providerOutput"] == NO_ANSWER:
            test["assert"] = [{"type": "not-equals", "value": NO_ANSWER}]
    test["metadata"] = {**pack_metadata(query, judged=()), OURS: ours}
    harmless: dict[str, Any] = _without_references(test)
    return harmless


def _assertions(query: EvaluationQuery) -> list[dict[str, Any]]:
    if query.is_impossible:
        return [{"type": "llm-rubric", "value": RUBRIC}]
    answers = [escape_template(answer) for answer in query.accepted_answers if answer.strip()]
    return [{"type": "icontains-any", "value": answers}] if answers else []


def _notes(queries: list[EvaluationQuery]) -> Iterator[str]:
    if impossible := sum(query.is_impossible for query in queries):
        yield (
            f"{impossible} of {len(queries)} questions are unanswerable: their llm-rubric needs a model as grader; "
            "--answerable-only leaves them out"
        )
    if unlabelled := sum(not _assertions(query) for query in queries):
        reason = "their tests have no assertion, and promptfoo passes such tests"
        yield f"{unlabelled} of {len(queries)} questions have no accepted answer: {reason}"


def _without_references(value: Any) -> Any:
    """Return a value in which promptfoo finds neither a file to load nor a JSON reference to follow."""
    if isinstance(value, dict):
        return {key: _without_references(item) for key, item in value.items() if key != "$ref"}
    if isinstance(value, list | tuple):
        return [_without_references(item) for item in value]
    return f" {value}" if isinstance(value, str) and value.startswith("file://") else value


class _Dumper(yaml.SafeDumper):
    """Quotes every text but words: `1e3` is a text for PyYAML, and a number for promptfoo's reader."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Return a text as a word, which PyYAML quotes if it means something else, or in double quotes."""
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if _WORD.fullmatch(text) else '"')


_Dumper.add_representer(str, _Dumper.represent_text)


def yaml_bytes(value: Any) -> bytes:
    """Return a value as YAML in which every reader, of version 1.1 or 1.2, finds the same texts."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31).encode()
