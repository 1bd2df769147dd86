"""What was measured beside the scores: whose memory, how many tokens, and by which limits a question was asked."""

from datetime import UTC, datetime

import pytest
import yaml

from rag_eval_pipeline.evaluation.asking import ask, sample_resources
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.results import metadata, performance
from rag_eval_pipeline.evaluation.runs import load_evaluation
from rag_eval_pipeline.systems.base import NO_USAGE, RagAnswer, Usage

NIGHT = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
ENDPOINT = {"base_url": "http://127.0.0.1:9", "total_seconds": 90, "attempt_seconds": 20, "max_retries": 5}
SERVED = {
    "http": {"kind": "http", "settings": {"endpoint": ENDPOINT, "body": {"q": "{question}"}, "answer": "text"}},
    "openai": {"kind": "openai", "settings": {"endpoint": ENDPOINT, "chat": {"model": "m"}}},
    "nvidia": {"kind": "nvidia", "settings": {"rag": ENDPOINT, "ingestor": {"base_url": "http://127.0.0.1:9"}}},
}


@pytest.fixture
def asked(workspace):
    pair = load_pair(workspace, "skarn-railway", "embedded")
    return load_evaluation(workspace, ask(workspace, pair, now=NIGHT).evaluation_id), pair


@pytest.mark.parametrize("kind", SERVED)
def test_the_limits_of_a_server_are_those_of_its_file(kind, workspace, asked):
    workspace.system_file("served").write_text(yaml.safe_dump(SERVED[kind]))
    evaluation, _ = asked
    pair = load_pair(workspace, "skarn-railway", "served")

    parameters = metadata(workspace, evaluation, pair).evaluation_parameters

    assert (parameters["timeout_seconds"], parameters["attempt_timeout_seconds"], parameters["max_retries"]) == (
        90, 20, 5,
    )  # fmt: skip
    assert performance(workspace, evaluation, pair, []).resource_usage_of == "evaluation"


def test_a_system_in_this_process_is_asked_once_within_the_settings_limit(workspace, asked):
    evaluation, pair = asked

    parameters = metadata(workspace, evaluation, pair).evaluation_parameters
    measured = performance(workspace, evaluation, pair, [])

    assert (parameters["timeout_seconds"], parameters["max_retries"]) == (30, 0)
    assert measured.resource_usage_of == "evaluation_and_system"
    assert measured.resource_usage["memory_mb"].mean > 10


def answer(usage):
    return RagAnswer("0", "ok", "x", False, (), (), 1.0, usage=usage)


USAGES = {
    "nobody counted tokens":     ([Usage(), Usage()],                           (None, None, None, 2.0, 2.0)),
    "one of two counted them":   ([Usage(30, 0.1, 1, 20, 10), Usage()],         (30.0, 20.0, 10.0, 2.0, 1.0)),
    "nothing was asked for":     ([NO_USAGE],                                   (0.0, 0.0, 0.0, 0.0, 0.0)),
}  # fmt: skip


@pytest.mark.parametrize(("usages", "expected"), USAGES.values(), ids=USAGES)
def test_tokens_that_nobody_counted_are_no_zero(usages, expected, workspace, asked):
    workspace.system_file("served").write_text(yaml.safe_dump(SERVED["openai"]))
    evaluation, _ = asked
    pair = load_pair(workspace, "skarn-railway", "served")

    usage = performance(workspace, evaluation, pair, [answer(one) for one in usages]).api_usage

    names = ("total_tokens", "prompt_tokens", "completion_tokens", "total_requests", "answers_without_tokens")
    assert tuple(usage[name] for name in names) == expected


def test_a_system_that_costs_nothing_uses_no_tokens(workspace, asked):
    evaluation, pair = asked

    assert performance(workspace, evaluation, pair, [answer(Usage())]).api_usage["total_tokens"] == 0


def test_memory_and_processor_time_have_a_sample_however_short_the_block():
    with sample_resources() as samples:
        sum(number * number for number in range(1_000_000))

    assert len(samples.memory_mb) == len(samples.cpu_percent) >= 1
    assert samples.memory_mb[0] > 10
    assert samples.cpu_percent[-1] > 0
