"""The graph as text: a change of keys, dependencies, checks, jobs, sensors or schedules shows here."""

import dagster as dg
import pytest

from rag_eval_pipeline.definitions import defs

GRAPH = """
conversion:
  corpus(benchmarks) <- questions checks documents_as_on_the_web!, every_document_on_disk!, page_words_in_pdf
  corpus_text(benchmarks) <- corpus checks every_pdf_has_text
  evaluation_dataset(benchmarks) <- corpus_text, train_json checks dataset_validates!, gold_texts_located
  ground_truth(benchmarks) <- evaluation_dataset checks annotation_ids_are_unique, annotations_conserved, annotators_agree, documents_match_annotated_digests, every_cited_document_exists, overall_scores_are_means, quoted_texts_are_in_documents, scores_are_in_range, spans_are_disjoint, spans_are_in_bounds
  questions(benchmarks) checks counts_as_expected!, every_document_known!, rows_conserved!
  train_json(benchmarks) <- corpus_text, questions checks every_gold_document_on_disk!, no_context_lost!, questions_left!, rows_conserved!
evaluation:
  answer_scores(benchmark x system) <- responses
  citation_scores(benchmark x system) <- responses
  evaluation_results(benchmark x system) <- answer_scores, citation_scores, judge_scores, retrieval_scores
  judge_scores(benchmark x system) <- responses checks answers_were_judged
  responses(benchmark x system) <- evaluation_dataset, ground_truth checks answers_cover_the_dataset
  retrieval_scores(benchmark x system) <- responses checks retrieved_documents_known
aggregation:
  benchmark_files <- leaderboard
  leaderboard <- evaluation_results checks all_configs_valid, every_pair_is_evaluated, no_night_is_late, no_result_is_damaged
  regressions <- leaderboard checks nothing_has_regressed, quality_thresholds_are_met
  report <- leaderboard, regressions
  weekly_results <- regressions
"""

AUTOMATION = """
job aggregate: leaderboard, regressions, report
job convert: corpus, corpus_text, evaluation_dataset, ground_truth, questions, train_json
job convert_shard:
job evaluate: answer_scores, citation_scores, evaluation_results, judge_scores, responses, retrieval_scores
job pin_baseline:
job week: benchmark_files, weekly_results
sensor aggregation_sensor -> aggregate (RUNNING)
sensor confirmation_sensor -> evaluate (RUNNING)
sensor corpus_shards_sensor -> convert, convert_shard (RUNNING)
sensor lateness_sensor -> no run (RUNNING)
sensor run_failure_alerts -> any run (RUNNING)
sensor workspace_sensor -> convert, evaluate (RUNNING)
schedule nightly: 0 2 * * * UTC -> evaluate (RUNNING)
schedule recheck: 0 1 * * * UTC -> convert (RUNNING)
schedule weekly: 0 3 * * 1 UTC -> week (RUNNING)
"""


def partitions(definition: dg.PartitionsDefinition | None) -> str:
    if isinstance(definition, dg.MultiPartitionsDefinition):
        return f"({' x '.join(dimension.name for dimension in definition.partitions_defs)})"
    return f"({definition.name})" if isinstance(definition, dg.DynamicPartitionsDefinition) else ""


def described() -> str:
    lines = [""]
    assets = list(defs.assets or [])
    for group in ("conversion", "evaluation", "aggregation"):
        lines.append(f"{group}:")
        for asset in assets:
            assert isinstance(asset, dg.AssetsDefinition)
            if asset.group_names_by_key[asset.key] != group:
                continue
            line = f"  {asset.key.to_user_string()}{partitions(asset.partitions_def)}"
            if upstream := sorted(key.to_user_string() for key in asset.asset_deps[asset.key]):
                line += f" <- {', '.join(upstream)}"
            if checks := sorted(f"{spec.name}{'!' * spec.blocking}" for spec in asset.check_specs):
                line += f" checks {', '.join(checks)}"
            lines.append(line)
    return "\n".join([*lines, ""])


def test_graph_is_the_one_that_stands_here():
    assert described() == GRAPH


def test_every_check_of_a_partitioned_asset_knows_its_partition():
    specs = [spec for asset in defs.assets or [] if asset.partitions_def for spec in asset.check_specs]

    assert specs
    assert all(spec.partitions_def is not None for spec in specs)


@pytest.mark.fault(63)
def test_jobs_sensors_and_schedules_are_those_that_stand_here():
    names = ("aggregate", "convert", "convert_shard", "evaluate", "pin_baseline", "week")
    lines = [""]
    for name in names:
        keys = defs.resolve_job_def(name).asset_layer.selected_asset_keys
        lines.append(f"job {name}: {', '.join(sorted(key.to_user_string() for key in keys))}".rstrip())
    for sensor in sorted(defs.sensors or [], key=lambda sensor: sensor.name):
        is_of_any_run = isinstance(sensor, dg.RunStatusSensorDefinition)
        jobs = sorted(target.job_name for target in sensor.targets)
        targets = "any run" if is_of_any_run else ", ".join(jobs) or "no run"
        lines.append(f"sensor {sensor.name} -> {targets} ({sensor.default_status.value})")
    for schedule in defs.schedules or []:
        when = f"{schedule.cron_schedule} {schedule.execution_timezone}"
        lines.append(f"schedule {schedule.name}: {when} -> {schedule.job.name} ({schedule.default_status.value})")

    assert "\n".join([*lines, ""]) == AUTOMATION
