"""The history names each results file that is not what was published, reads each once, and is rebuilt when it is lost."""

import hashlib
import json
import logging
import multiprocessing
import shutil

import pytest
from typer.testing import CliRunner

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.monitoring import history as history_module
from rag_eval_pipeline.monitoring import history_tables
from rag_eval_pipeline.monitoring.history import (
    FILE,
    history_rows,
    published_results,
    read_header,
    read_history,
)
from rag_eval_pipeline.monitoring.history_tables import query_history, update_history
from rag_eval_pipeline.monitoring.leaderboard import write_leaderboard
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import publish_night, register

OBSERVATORY = "cairnmoor-observatory"  # 16 questions
NIGHTS = 4


@pytest.fixture(scope="module")
def _nights(tmp_path_factory):
    workspace = Workspace(tmp_path_factory.mktemp("nights"))
    register(workspace, ["b"], ["s"])
    for night in range(NIGHTS):
        publish_night(workspace, "b", "s", night, questions=3, skill=0.5, number=1)
    return workspace.root


@pytest.fixture
def nights(_nights, tmp_path):
    """Four nights of one pair that are in the history."""
    workspace = Workspace(tmp_path / "workspace")
    shutil.copytree(_nights, workspace.root)
    assert update_history(workspace).damaged == []
    return workspace


def results(workspace, night):
    return sorted(workspace.results.glob("eval_run_*"))[night]


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def flip(path):
    """Change one digit of a results file."""
    path.write_bytes(path.read_bytes().replace(b'"total_queries": 3', b'"total_queries": 7'))


def shown(workspace):
    return [header.summary["total_queries"] for header in read_history(workspace).by_pair["b", "s"]]


def codes(workspace, **options):
    """The results files that are named as damaged, with the code."""
    lines = read_history(workspace, **options).damaged
    names = [line.partition(".results.json")[0].rpartition("/")[2] for line in lines]
    return {name: line.partition("[")[2].partition("]")[0] for name, line in zip(names, lines, strict=True)}


def test_history_reads_each_file_once_and_a_changed_one_again(nights, monkeypatch):
    reads = []
    monkeypatch.setattr(
        history_module, "read_header", lambda path, data: [reads.append(path.name[:17]), read_header(path, data)][1]
    )
    history_rows(nights, verify=True)
    assert len(reads) == NIGHTS
    history_rows(nights)
    assert len(reads) == NIGHTS

    flip(results(nights, 1))

    assert (shown(nights), codes(nights)) == ([3, 7, 3, 3], {"eval_run_20261002_001": "changed_result"})
    assert reads[NIGHTS:] == ["eval_run_20261002"]


@pytest.mark.fault(68)
def test_history_names_a_changed_file_until_it_is_restored(nights):
    path = results(nights, 1)
    data = path.read_bytes()
    flip(path)
    flipped = hashlib.sha256(path.read_bytes()).hexdigest()[:12]

    [line] = update_history(nights).damaged  # the digest is kept
    assert f"sha256 {flipped}, not {hashlib.sha256(data).hexdigest()[:12]}" in line
    rows, damaged = history_rows(nights)
    assert (len(rows), damaged) == (NIGHTS, [line])

    path.write_bytes(data)
    assert (shown(nights), codes(nights)) == ([3] * NIGHTS, {})


@pytest.mark.fault(68)
def test_history_names_every_cut_of_a_file_and_a_folder_in_its_place(nights):
    path = results(nights, 0)
    whole = path.read_bytes()
    for size in range(0, len(whole), len(whole) // 20):
        path.write_bytes(whole[:size])
        # Of the last cut only the newline is gone.
        assert codes(nights)["eval_run_20261001_001"] in ("corrupt_result", "changed_result")

    path.unlink()
    path.mkdir()
    [line] = read_history(nights).damaged
    assert line.startswith(f"{path}: ")


@pytest.mark.fault(68)
def test_history_finds_a_bit_that_flipped_without_a_change_of_times(nights, monkeypatch):
    before = history_module._signatures(nights)
    flip(results(nights, 3))
    monkeypatch.setattr(history_module, "_signatures", lambda workspace: before)
    assert codes(nights) == {}

    assert codes(nights, verify=True) == codes(nights) == {"eval_run_20261004_001": "changed_result"}


def rows_of(workspace, sql):
    return query_history(workspace, sql)[0]


def test_history_takes_later_results_under_an_id_as_published_again(nights):
    path = results(nights, 1)
    before = rows_of(nights, "SELECT * FROM questions ORDER BY ALL")
    value = json.loads(path.read_text())
    value["query_results"][0]["latency_ms"] = 123.5
    path.write_text(json.dumps(value))
    assert len(update_history(nights).damaged) == 1
    assert rows_of(nights, "SELECT * FROM questions ORDER BY ALL") == before  # as published

    edit(path, timestamp="2099-01-01T00:00:00Z")

    assert (codes(nights), update_history(nights).damaged) == ({}, [])
    assert rows_of(nights, "SELECT 1 FROM questions WHERE metric = 'latency_ms' AND value = 123.5")
    edit(path, timestamp="2098-01-01T00:00:00Z")
    assert codes(nights) == {"eval_run_20261002_001": "changed_result"}


def test_history_remembers_the_digest_of_results_that_are_gone(nights):
    path = results(nights, 1)
    data = path.read_bytes()
    path.unlink()
    assert (shown(nights), codes(nights)) == ([3, 3, 3], {})

    path.write_bytes(data)
    flip(path)
    assert codes(nights) == {"eval_run_20261002_001": "changed_result"}

    path.unlink()
    read_history(nights)
    path.write_bytes(data)
    edit(path, timestamp="2026-10-02T01:00:00Z")  # another evaluation that was given the id, though an earlier one
    assert codes(nights) == {}


def test_history_forgets_what_could_never_be_read(nights):
    path = nights.results / "eval_run_20261009_001.results.json"
    path.write_text("{")
    assert codes(nights) == {"eval_run_20261009_001": "corrupt_result"}

    path.unlink()
    read_history(nights)
    shutil.copy(results(nights, 0), path)
    edit(path, evaluation_id="eval_run_20261009_001")

    assert (codes(nights), len(shown(nights))) == ({}, NIGHTS + 1)


DAMAGE = {
    "no parquet": lambda path: path.write_bytes(b"nothing of the kind" * 100),
    "a page overwritten": lambda path: path.write_bytes(
        path.read_bytes()[:100] + b"\xff" * 8 + path.read_bytes()[108:]
    ),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_history_is_rebuilt_without_its_file_and_logs_it(damage, nights, caplog):
    damage(nights.history / FILE)

    with caplog.at_level(logging.WARNING):
        assert shown(nights) == [3] * NIGHTS

    [message] = [record.getMessage() for record in caplog.records]
    assert "is rebuilt; earlier changes of results files cannot be detected" in message
    flip(results(nights, 0))
    assert codes(nights) == {"eval_run_20261001_001": "changed_result"}


def test_history_of_a_new_workspace_begins_silently(tmp_path, caplog):
    workspace = Workspace(tmp_path)
    register(workspace, ["b"], ["s"])
    assert read_history(workspace).by_pair == {}
    assert not workspace.history.exists()
    publish_night(workspace, "b", "s", 0, questions=3, skill=0.5, number=1)

    assert (shown(workspace), caplog.records) == ([3], [])


def test_history_is_read_where_nothing_can_be_written(nights, caplog):
    shutil.rmtree(nights.history)
    nights.history.write_text("a file in place of the folder")

    assert shown(nights) == [3] * NIGHTS
    assert "The history is not written" in caplog.text


def _publish_and_read(root, number):
    workspace = Workspace(root)
    publish_night(workspace, "b", "s", 0, questions=3, skill=0.5, number=number, with_responses=False)
    assert read_history(workspace).damaged == []


def test_history_loses_nothing_when_several_processes_publish(nights):
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_publish_and_read, args=(nights.root, number)) for number in (2, 3, 4, 5)]
    for child in children:
        child.start()
    for child in children:
        child.join()

    assert [child.exitcode for child in children] == [0] * 4
    days = [f"2026100{day}_001" for day in (2, 3, 4)]
    assert [row.evaluation_id[9:] for row in published_results(nights)] == [
        *(f"20261001_00{number}" for number in (1, 2, 3, 4, 5)), *days,
    ]  # fmt: skip


def test_history_orders_evaluations_by_their_times(nights):
    edit(results(nights, 3), timestamp="2026-10-02T04:30:00+04:00")  # half past midnight of the second day in UTC

    history = read_history(nights)

    headers = history.by_pair["b", "s"]
    assert [header.evaluation_id[15:17] for header in headers] == ["01", "04", "02", "03"]
    assert [header.evaluation_id[15:17] for header in headers[:-1][-2:]] == ["04", "02"]
    assert [header.evaluation_id for header in history.newest()] == ["eval_run_20261003_001"]


def test_history_leaves_out_benchmarks_and_systems_that_are_gone_and_files_of_several_evaluations(nights):
    for name in ("benchmark_weekly_20260914", "ab_test_a_vs_b_001"):
        (nights.results / f"{name}.results.json").write_text("{}")
    assert codes(nights) == {}
    shutil.rmtree(nights.benchmark("b").source)
    assert read_history(nights).by_pair == {}
    register(nights, ["b"], [])
    nights.system_file("s").unlink()
    assert read_history(nights).by_pair == {}


def test_history_has_the_retrieval_metrics_of_the_level_that_a_file_names(nights):
    path = results(nights, 0)
    value = json.loads(path.read_text())
    value["page_retrieval_metrics"]["hit@1"]["value"] = 0.75
    value["retrieval_metrics"]["hit@1"]["value"] = 0.25
    for level, expected in (("page", 0.75), ("document", 0.25)):
        header = read_header(path, json.dumps(value | {"retrieval_level": level}).encode())
        assert (header.metric("hit@1").value, header.metric("hit@7").reason) == (expected, "not_measured")
    for stated, expected in ((None, "no_latencies"), ("reused", "reused")):
        value["performance_metrics"] |= {"latency_stats": {"p50": None}, "latency_reason": stated}
        assert read_header(path, json.dumps(value).encode()).metric("latency_p50_ms").reason == expected


DAMAGED = {
    "limits are no numbers": ({"performance_metrics": {"latency_stats": {"p50": 1}, "latency_intervals": {"p50": "soon"}}}, "corrupt_result", "expected a results file"),
    "no zone": ({"timestamp": "2026-10-01T02:00:00"}, "corrupt_result", "without its zone"),
    "another evaluation": ({"evaluation_id": "eval_run_20261231_001"}, "corrupt_result", "eval_run_20261231_001"),
    "of a later release": ({"schema_version": "9.0"}, "newer_schema", "a later release wrote it"),
    "of no release": ({"schema_version": "new"}, "bad_version", "expected schema version"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "code", "phrase"), DAMAGED.values(), ids=DAMAGED)
def test_history_names_why_a_file_cannot_be_read(change, code, phrase, nights):
    path = results(nights, 0)
    edit(path, **change)

    [line] = read_history(nights).damaged
    assert line.startswith(str(path))
    assert (f"[{code}]" in line, phrase in line) == (True, True)


@pytest.mark.fault(68)
@pytest.mark.parametrize(("command", "exit_code"), [("leaderboard", 0), ("history", 2)], ids=str)
def test_commands_name_a_damaged_file_once_and_show_the_others(command, exit_code, nights):
    path = results(nights, 1)
    path.write_bytes(path.read_bytes()[:1000])

    done = CliRunner().invoke(app, [command, "--json", "--workspace", str(nights.root)])

    assert (done.exit_code, "eval_run_20261004_001" in done.stdout) == (exit_code, True)
    [line] = [line for line in done.stderr.splitlines() if "corrupt_result" in line]
    assert path.name in line


COUNT = "SELECT count(DISTINCT evaluation_id) FROM results"


def test_query_is_over_all_results_that_are_there_or_those_named(nights):
    def asked(sql, *names):
        done = CliRunner().invoke(app, ["history", *names, "--sql", sql, "--workspace", str(nights.root)])
        return done.exit_code, done.stdout.strip()

    before = int(asked(COUNT)[1])
    [pair, *_] = read_history(nights).by_pair
    register(nights, ["other"], [pair[1]])
    publish_night(nights, "other", pair[1], 9, questions=3, skill=0.5, number=1)

    assert asked(COUNT) == (0, str(before + 1))
    assert asked(COUNT, "other", pair[1]) == (0, "1")


def test_history_tables_have_a_row_for_each_metric_and_score(evaluated):
    name = read_history(evaluated).by_pair[OBSERVATORY, "embedded"][-1].evaluation_id
    assert update_history(evaluated).damaged == []
    published = EvaluationResults.read(evaluated.results_file(name))
    of_pair = f"evaluation_id = '{name}'"

    [metric] = rows_of(evaluated, f"SELECT * FROM results WHERE metric = 'f1' AND {of_pair}")
    scores = rows_of(evaluated, f"SELECT query_id, value FROM questions WHERE metric = 'f1' AND {of_pair}")
    names = {row["metric"] for row in rows_of(evaluated, "SELECT metric FROM results")}

    f1 = published.answer_quality_metrics.f1
    assert (metric["value"], metric["n_scored"]) == (f1.value, 16)
    assert (metric["low"], metric["high"]) == f1.confidence_interval
    [spans] = rows_of(evaluated, f"SELECT * FROM results WHERE metric = 'citation_jaccard' AND {of_pair}")
    header = read_history(evaluated).by_pair[OBSERVATORY, "embedded"][-1]
    shown, by_question = header.metric("citation_jaccard"), published.further_metrics["tolerance_jaccard"]
    assert (
        spans["n_scored"]
        == shown.n_scored
        == by_question.n_scored
        < published.citation_metrics.span_accuracy.true_spans
    )
    assert (spans["low"], spans["high"], spans["coverage"]) == (*shown.confidence_interval, by_question.coverage)
    assert len(scores) == 16
    assert {row["query_id"]: row["value"] for row in scores} == {
        row.query_id: row.individual_metrics["f1"] for row in published.query_results
    }
    assert {"page/hit@1", "abstention/recall", "citation_jaccard", "latency_p50_ms", "overall_coverage"} <= names


def test_history_tables_have_the_scores_of_questions_that_are_written_apart(nights, monkeypatch):
    whole = rows_of(nights, "SELECT * FROM questions ORDER BY ALL")
    monkeypatch.setattr(history_tables, "QUESTIONS_AT_ONCE", 2)
    shutil.rmtree(nights.history / "questions")

    update_history(nights)

    assert rows_of(nights, "SELECT * FROM questions ORDER BY ALL") == whole
    assert len({row["query_id"] for row in whole}) == 3


def test_history_tables_are_written_for_the_first_query_and_not_by_a_report(nights):
    for table in ("figures", "questions"):
        shutil.rmtree(nights.history / table)

    write_leaderboard(nights)
    assert not (nights.history / "questions").exists()

    assert rows_of(nights, "SELECT count(DISTINCT evaluation_id) AS n FROM questions") == [{"n": NIGHTS}]


def test_history_tables_that_were_lost_are_written_again(nights):
    for table in ("figures", "questions"):
        shutil.rmtree(nights.history / table)
    path = results(nights, 0)
    path.write_bytes(path.read_bytes()[:1000])

    assert len(update_history(nights).damaged) == 1

    counted = "SELECT count(DISTINCT results.evaluation_id) AS n FROM results JOIN questions USING (evaluation_id)"
    assert rows_of(nights, counted) == [{"n": NIGHTS - 1}]


def test_history_query_without_history_is_empty_and_a_bad_one_is_refused(tmp_path):
    assert rows_of(Workspace(tmp_path), "SELECT count(*) AS n FROM results, questions") == [{"n": 0}]
    with pytest.raises(InputError) as caught:
        query_history(Workspace(tmp_path), "SELECT nothing FROM nowhere")
    assert caught.value.code == "bad_query"
