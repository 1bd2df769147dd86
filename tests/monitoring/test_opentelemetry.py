"""A collector that follows `data/reports/otlp` receives each score once, also when a writer was killed."""

import json
import multiprocessing
import os
from collections import Counter

from rag_eval_pipeline.monitoring import opentelemetry
from rag_eval_pipeline.monitoring.history_tables import history_with_events


def update_and_be_killed(workspace):
    """Write the events until 20 lines of an evaluation are written."""
    lines = opentelemetry._lines

    def killed(*arguments):
        for number, line in enumerate(lines(*arguments)):
            if number == 20:
                os._exit(9)
            yield line

    opentelemetry._lines = killed
    history_with_events(workspace)


def values(attributes):
    return {one["key"]: next(iter(one["value"].values())) for one in attributes}


def test_collector_receives_each_score_once_also_after_a_writer_was_killed(evaluated):
    (evaluated.config / "alerts.config.yaml").write_text("otlp_files: true\n")
    collected = {}  # as a collector keeps places: what it has of a file it does not read again

    def collect():
        for path in (evaluated.reports / "otlp").glob("*.jsonl"):
            collected.setdefault(path.name, path.read_text())

    writer = multiprocessing.get_context("fork").Process(target=update_and_be_killed, args=(evaluated,))
    writer.start()
    writer.join()
    collect()
    assert (writer.exitcode, len(collected) < 4) == (9, True)
    for _ in range(2):
        history = history_with_events(evaluated)
        collect()

    told = Counter()
    for text in collected.values():
        for [logs] in (json.loads(line)["resourceLogs"] for line in text.splitlines()):
            about = values(logs["resource"]["attributes"])
            assert next(iter(about)) == "rag_eval.evaluation_id"  # a collector knows a file by its first kilobyte
            for record in logs["scopeLogs"][0]["logRecords"]:
                assert record["eventName"] == "gen_ai.evaluation.result"
                told[
                    about["service.name"], about["rag_eval.evaluation_id"], *values(record["attributes"]).values()
                ] += 1
    expected = {
        (system, header.evaluation_id, name, value, row["query_id"])
        for (_, system), headers in history.by_pair.items()
        for header in headers
        for row in json.loads(evaluated.results_file(header.evaluation_id).read_text())["query_results"]
        for name, value in {**row["individual_metrics"], "latency_ms": row["latency_ms"]}.items()
        if value is not None
    }
    assert (set(told), set(told.values())) == (expected, {1})
