"""A judge is opened by the settings of an evaluation, which are checked as they are read and hold no secret."""

import pydantic
import pytest

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.judges.llm import LlmSettings
from rag_eval_pipeline.judges.settings import JudgeSettings, judge_fingerprint, open_judge
from tests.judges.judge_server import honest, judge_server

GOOD = {"endpoint": {"base_url": "http://127.0.0.1:9/v1"}, "chat": {"model": "m"}}
BAD = {
    "no server": ({"chat": {"model": "m"}}, "endpoint"),
    "no model": ({**GOOD, "chat": {}}, "chat.model"),
    "a secret": ({**GOOD, "endpoint": {**GOOD["endpoint"], "api_key_env": "sk-1234"}}, "endpoint.api_key_env"),
    "an unknown rating": ({**GOOD, "ratings": ["nice"]}, "ratings.0"),
    "a rating twice": ({**GOOD, "ratings": ["groundedness", "groundedness"]}, "ratings"),
    "an unknown key": ({**GOOD, "model": "m"}, "model"),
    "no time": ({**GOOD, "repeats": 0}, "repeats"),
    "a fallback of 2": ({**GOOD, "fallback_scoring": 2}, "fallback_scoring"),
    "a scale beyond 1": (
        {**GOOD, "ratings": [{"name": "x", "version": "1", "prompts": ["?"], "scale": {0: 0, 1: 5}, "needs": ["answer"]}]},
        "ratings.0.scale",
    ),
    "compares what it does not need": (
        {**GOOD, "ratings": [{"name": "x", "version": "1", "prompts": ["?"], "scale": {0: 0, 1: 1}, "needs": ["answer"], "compares": ["answer", "gold"]}]},
        "ratings.0",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("value", "field"), BAD.values(), ids=BAD)
def test_bad_settings_of_a_model(value, field):
    with pytest.raises(pydantic.ValidationError) as error:
        LlmSettings.model_validate(value)

    assert ".".join(map(str, error.value.errors()[0]["loc"])) == field
    assert "sk-1234" not in str(error.value)


BAD_JUDGES = {
    "an unknown kind":      ({"kind": "oracle"},                            "kind"),
    "an unknown key":       ({"kind": "lexical", "model": "m"},             "model"),
    "another kind's":       ({"kind": "lexical", "settings": {"chat": {}}}, "settings.chat"),
    "settings that went":   ({"settings": {"support_recall": 0.7}},         "settings.support_recall"),
    "settings of nothing":  ({"kind": "none", "settings": {"x": 1}},        "settings.x"),
    "no server":            ({"kind": "openai"},                            "settings.endpoint"),
    "settings as a text":   ({"kind": "openai", "settings": "x"},           "settings"),
    "no budget":            ({"budget": {"requests": 0}},                   "budget.requests"),
}  # fmt: skip


@pytest.mark.parametrize(("value", "field"), BAD_JUDGES.values(), ids=BAD_JUDGES)
def test_bad_settings_of_a_judge(value, field):
    with pytest.raises(pydantic.ValidationError) as error:
        JudgeSettings.model_validate(value)

    assert ".".join(map(str, error.value.errors()[0]["loc"])) == field


def test_settings_survive_a_file():
    judge = JudgeSettings.model_validate(
        {"kind": "openai", "settings": {**GOOD, "ratings": ["answer_accuracy", "quality"]}}
    )

    assert JudgeSettings.model_validate_json(judge.model_dump_json()) == judge
    assert (judge.title, judge.judges_support, JudgeSettings().title) == ("openai m", True, "lexical")
    assert all(field.description for model in (JudgeSettings, LlmSettings) for field in model.model_fields.values())


CALLS = {
    #                              settings                                                                calls
    "verdicts":                    ({},                                                                     1),
    "labels":                      ({"claim_labels": True},                                                 2),
    "ratings of two prompts":      ({"ratings": ["answer_accuracy"]},                                       3),
    "dimensions in one prompt":    ({"ratings": ["quality"]},                                               2),
    "everything three times":      ({"ratings": ["answer_relevance"], "claim_labels": True, "repeats": 3},  9),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "calls"), CALLS.values(), ids=CALLS)
def test_calls_of_an_answer(settings, calls):
    assert JudgeSettings.model_validate({"kind": "openai", "settings": GOOD | settings}).calls_per_answer == calls
    assert JudgeSettings().calls_per_answer == 0


async def test_judges_that_ask_no_server_make_no_cache(tmp_path, case):
    none, lexical = JudgeSettings.model_validate({"kind": "none"}), JudgeSettings()

    async with open_judge(none, tmp_path / "cache") as judge:
        assert (judge, judge_fingerprint(none)) == (None, None)
    async with open_judge(lexical, tmp_path / "cache") as judge:
        judgement = await judge.judge(case)

    assert judgement.correctness.verdict == "correct"
    assert judge.fingerprint == judge_fingerprint(lexical)
    assert list(tmp_path.iterdir()) == []


async def test_a_model(tmp_path, case):
    async with judge_server(honest) as server:
        settings = JudgeSettings.model_validate(
            {"kind": "openai", "settings": {"endpoint": {"base_url": server.url}, "chat": {"model": "m"}}}
        )
        async with open_judge(settings, tmp_path / "cache") as judge:
            judgement = await judge.judge(case)

    assert judgement.status == "completed"
    assert judgement.correctness.verdict == "correct"
    assert [claim.citations for claim in judgement.claims] == [(0, 1), (2,)]
    assert [data["text"] for data in server.sections()[0]["claims"]] == [
        "The light was built in 1874 .",
        "It was red .",
    ]
    assert judge.fingerprint == judge_fingerprint(settings)


async def test_a_secret_that_is_not_set_names_its_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    value = {"endpoint": {"base_url": "http://127.0.0.1:9/v1", "api_key_env": "JUDGE_KEY"}, "chat": {"model": "m"}}

    with pytest.raises(ServiceError) as error:
        async with open_judge(JudgeSettings.model_validate({"kind": "openai", "settings": value}), tmp_path):
            pass

    assert error.value.code == "missing_secret"
    assert "JUDGE_KEY" in str(error.value)
