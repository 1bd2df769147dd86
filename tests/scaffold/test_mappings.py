"""Each mapping of the documentation gives the counts below it, and each field of benchmark.yaml is described."""

import re
from dataclasses import replace

import pytest

from rag_eval_pipeline.conversion.benchmark_spec import BenchmarkSpec, Expect, QuestionColumns
from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.conversion.questions import CONTEXT_FIELDS
from rag_eval_pipeline.conversion.sql_checks import DOCUMENT_COLUMNS
from rag_eval_pipeline.sources.source_spec import SourceSpec
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import REPOSITORY
from tests.scaffold.conftest import write

PAGE = (REPOSITORY / "docs" / "how-to" / "mappings.md").read_text()
MAPPINGS = {text.partition("\n")[0]: text for text in PAGE.split("\n## ")[1:]}
BLOCK = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)
COUNTS = re.compile(
    r"^Gives (\d+) questions?(?: \((\d+) without an answer\))?, (\d+) contexts?, (\d+) documents?\.$", re.MULTILINE
)


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_mapping_gives_the_counts_below_it(tmp_path, mapping):
    files = dict(BLOCK.findall(MAPPINGS[mapping]))
    [expected] = COUNTS.findall(MAPPINGS[mapping])
    source = write(tmp_path / "source", files)

    counts = plan(replace(Workspace(tmp_path).benchmark("ports"), source=source)).counts

    assert (counts.accepted, counts.impossible, counts.contexts, counts.documents) == tuple(
        int(n or 0) for n in expected
    )
    assert (counts.dropped, counts.quarantined) == (0, 0)


REFERENCE = (REPOSITORY / "docs" / "reference" / "benchmarks.md").read_text()
FIELDS = {
    "source": SourceSpec.model_fields,
    "questions": QuestionColumns.model_fields,
    "contexts": CONTEXT_FIELDS,
    "documents": DOCUMENT_COLUMNS,
    "expected counts": Expect.model_fields,
    "top level": BenchmarkSpec.model_fields,
}


@pytest.mark.parametrize("section", FIELDS)
def test_every_field_of_benchmark_yaml_is_described(section):
    text = REFERENCE.split("## Sections and their fields")[1].split("\n## ")[0]
    cells = re.findall(r"^(?:\| (`expect` .*) \||\| ([^|]*) \||### (.*)$)", text, re.MULTILINE)
    described = set(re.findall(r"`(\w+)`", str(cells)))

    assert set(FIELDS[section]) - described == set()
