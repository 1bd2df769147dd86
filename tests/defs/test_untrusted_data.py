"""Hostile questions, answers and file names, and a server that quotes its key: what Dagster shows and keeps of them."""

import base64
import json
from urllib.parse import quote

import dagster as dg
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rag_eval_pipeline.definitions import defs
from rag_eval_pipeline.defs.metadata import MAX_CELL_CHARS, MAX_TEXT_CHARS, inert
from rag_eval_pipeline.defs.partitions import benchmarks, pair_key, systems
from rag_eval_pipeline.defs.resources import WorkspaceResource
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import copy_settings
from tests.conversion.conftest import HEAD, write_benchmark
from tests.faults.pdfs import one_page, shown, stream
from tests.json_server import json_server
from tests.validation import validate

EVIL = """![a](https://evil.example/a.png) <img src="https://evil.example/b.png"> [c](javascript:alert(1)) <https://evil.example/d>

[e]: https://evil.example/e

![f][e]"""
LONG = "W" * 100_000
KEY = "sk-canary/0123+456?789"
FORMS = (KEY.encode(), base64.b64encode(KEY.encode()), quote(KEY, safe="").encode(), KEY.encode().hex().encode())
SPEC = f"""{HEAD}source: q.jsonl
tables: {{docs: {{files: "docs/*"}}}}
questions: |
  SELECT q AS question, a AS answer, [{{'file': f, 'text': t}}] AS contexts FROM source
"""
FILES = ["![a](evil.example).pdf", ".well-known.pdf", "-rf.pdf"]
JOBS = {"convert": "scratch", "evaluate": pair_key("scratch", "served"), "aggregate": None}


def answering(path, body):
    """An attack for an answer, a text without end, and a refusal that quotes the key."""
    number = int(body["id"])
    if number == 2:
        return 500, {"error": f"{EVIL} key {KEY} {quote(KEY, safe='')} {base64.b64encode(KEY.encode()).decode()}"}
    found = [{"document": EVIL, "text": EVIL, "page": 1}]
    return {"answer": (EVIL, LONG)[number], "contexts": found, "model": EVIL}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("untrusted")


@pytest.fixture(scope="module")
def events(folder, revisions_read_once):
    """The events of a conversion, an evaluation and an aggregation on an instance with its storage on disk."""
    root = folder / "workspace"
    (folder / "dagster").mkdir()
    copy_settings(root)
    rows = [{"q": f"{EVIL} {n}", "a": EVIL, "f": file, "t": EVIL} for n, file in enumerate(FILES)]
    rows += [{"q": LONG, "a": EVIL, "f": EVIL, "t": EVIL}]
    pdf = one_page(stream(shown("The light was lit in 1887.")))
    files = {f"docs/{name}": pdf for name in FILES} | {"q.jsonl": "\n".join(map(json.dumps, rows))}
    write_benchmark(root, SPEC, files)
    with (
        pytest.MonkeyPatch.context() as patch,
        json_server(answering) as server,
        dg.DagsterInstance.local_temp(str(folder / "dagster")) as instance,
    ):
        patch.setenv("SERVED_KEY", KEY)
        settings = {
            "endpoint": {"base_url": server.url, "api_key_env": "SERVED_KEY", "max_retries": 0},
            "path": "/ask",
            "body": {"id": "{query_id}", "q": "{question}"},
            "answer": "answer",
            "contexts": {"path": "contexts"},
            "model": "model",
        }
        served = {"kind": "http", "nightly": True, "settings": settings}
        Workspace(root).system_file("served").write_text(yaml.safe_dump(served))
        instance.add_dynamic_partitions(benchmarks.name, ["scratch"])
        instance.add_dynamic_partitions(systems.name, ["served"])
        records = []
        for job, partition in JOBS.items():
            result = defs.resolve_job_def(job).execute_in_process(
                instance=instance,
                partition_key=partition,
                resources={"workspace": WorkspaceResource(root=str(root))},
                raise_on_error=False,
            )
            assert result.success, [event.step_failure_data for event in result.get_step_failure_events()]
            records += instance.all_logs(result.run_id)
        assert KEY in server.headers[0]
    return [record.dagster_event for record in records if record.dagster_event]


MARKDOWN = MarkdownIt("commonmark", {"html": True})


def requested(markdown):
    """What a browser would request, follow or run in Markdown, but for pictures that are part of it."""
    tokens = [token for block in MARKDOWN.parse(markdown) for token in (block, *(block.children or ()))]
    active = [token for token in tokens if token.type in ("image", "link_open", "html_inline", "html_block")]
    return [token for token in active if not str(token.attrs.get("src", "")).startswith("data:image/")]


def of_checks(events):
    return [event.asset_check_evaluation_data for event in events if event.event_type_value == "ASSET_CHECK_EVALUATION"]


def values(events):
    materialized = [
        event.step_materialization_data.materialization.metadata
        for event in events
        if event.event_type_value == "ASSET_MATERIALIZATION"
    ]
    return [
        value for found in (*materialized, *(check.metadata for check in of_checks(events))) for value in found.values()
    ]


@pytest.mark.fault(43)
def test_text_of_others_is_plain_and_short_in_metadata(events):
    found = values(events)
    cells = [
        cell
        for value in found
        if isinstance(value, dg.TableMetadataValue)
        for record in value.records
        for cell in record.data.values()
    ]

    assert {type(value) for value in found} == {
        dg.FloatMetadataValue,
        dg.IntMetadataValue,
        dg.MarkdownMetadataValue,
        dg.PathMetadataValue,
        dg.TableMetadataValue,
        dg.TextMetadataValue,
    }
    assert any(str(cell).startswith(EVIL[:40]) for cell in cells)  # it is there, as text
    assert any(str(cell).startswith("WWWW") for cell in cells)
    assert max(len(cell) for cell in cells if isinstance(cell, str)) == MAX_CELL_CHARS
    for value in found:
        if isinstance(value, dg.TextMetadataValue):
            assert len(value.value) <= MAX_TEXT_CHARS
        if isinstance(value, dg.MarkdownMetadataValue):
            assert "evil.example" not in value.value
            assert requested(value.value) == []


@pytest.mark.fault(43)
def test_text_of_others_is_inert_in_descriptions_of_checks(events):
    descriptions = [check.description for check in of_checks(events)]

    assert any("evil.example" in description for description in descriptions)
    assert [description for description in descriptions if requested(description)] == []


@pytest.mark.fault(43)
@given(
    st.lists(
        st.sampled_from([*"[]()<>!\\`*_&;:#= \n\t", "a", "http://x", "<img src=x>", "![a](x)", "\n\n[a]: x\n"])
    ).map("".join)
)
def test_inert_text_requests_nothing(text):
    assert requested(f"Failed: 1 late. Which: {inert(text)}") == []


@pytest.mark.fault(22)
def test_odd_file_names_are_documents_like_others(events, folder):
    workspace = Workspace(folder / "workspace")
    [dataset] = workspace.evaluation_datasets.glob("scratch_*")

    assert sorted(path.name for path in workspace.benchmark("scratch").corpus.iterdir()) == sorted(FILES)
    for path in (dataset, workspace.benchmark("scratch").train_json):
        assert validate(path, corpus=workspace.benchmark("scratch").corpus) == []


@pytest.mark.fault(44)
def test_secret_that_a_server_quotes_is_in_no_byte_of_dagster_and_workspace(events, folder):
    written = [path for path in folder.rglob("*") if path.is_file()]

    assert any(path.suffix == ".db" for path in written)
    assert [path for path in written for form in FORMS if form in path.read_bytes()] == []


@pytest.mark.fault(72)
def test_no_value_is_pickled(events, folder):
    """Assets write files, and Dagster's IO manager, which pickles, is given nothing."""
    kinds = {event.event_type_value for event in events}

    assert "ASSET_MATERIALIZATION" in kinds
    assert kinds.isdisjoint({"HANDLED_OUTPUT", "LOADED_INPUT"})
    assert [path for path in folder.rglob("*") if path.is_file() and path.read_bytes()[:1] == b"\x80"] == []


@pytest.mark.fault(72)
def test_no_step_takes_a_value_that_would_be_unpickled():
    jobs = [job for job in defs.resolve_all_job_defs() if job.name != "__ASSET_JOB"]
    ops = {op.name: op for job in jobs for op in job.all_node_defs if isinstance(op, dg.OpDefinition)}

    assert {"corpus", "pin", "report"} <= ops.keys()
    assert [name for name, op in ops.items() if not all(one.dagster_type.is_nothing for one in op.input_defs)] == []
