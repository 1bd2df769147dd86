"""A judge is opened by the settings of an evaluation, which are validated as they are read and hold no secret."""

import pydantic
import pytest

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.judges.judge_settings import JudgeSettings, LlmSettings
from rag_eval_pipeline.judges.open_judge import judge_fingerprint, open_judge

GOOD = {"endpoint": {"base_url": "http://127.0.0.1:9/v1"}, "chat": {"model": "m"}}
BAD = {
    "no server": ({"chat": {"model": "m"}}, "endpoint"),
    "a secret": ({**GOOD, "endpoint": {**GOOD["endpoint"], "api_key_env": "sk-1234"}}, "endpoint.api_key_env"),
    "an unknown rating": ({**GOOD, "ratings": ["nice"]}, "ratings.0"),
    "a rating twice": ({**GOOD, "ratings": ["groundedness", "groundedness"]}, "ratings"),
    "an unknown key": ({**GOOD, "model": "m"}, "model"),
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
def test_llm_settings_are_refused(value, field):
    with pytest.raises(pydantic.ValidationError) as error:
        LlmSettings.model_validate(value)

    assert ".".join(map(str, error.value.errors()[0]["loc"])) == field
    assert "sk-1234" not in str(error.value)


BAD_JUDGES = {
    "an unknown kind":      ({"kind": "oracle"},                            "kind"),
    "another kind's":       ({"kind": "lexical", "settings": {"chat": {}}}, "settings.chat"),
    "no server":            ({"kind": "openai"},                            "settings.endpoint"),
}  # fmt: skip


@pytest.mark.parametrize(("value", "field"), BAD_JUDGES.values(), ids=BAD_JUDGES)
def test_judge_settings_are_refused(value, field):
    with pytest.raises(pydantic.ValidationError) as error:
        JudgeSettings.model_validate(value)

    assert ".".join(map(str, error.value.errors()[0]["loc"])) == field


def test_judge_settings_survive_a_file():
    judge = JudgeSettings.model_validate(
        {"kind": "openai", "settings": {**GOOD, "ratings": ["answer_accuracy", "quality"]}}
    )

    assert JudgeSettings.model_validate_json(judge.model_dump_json()) == judge
    assert (judge.title, judge.judges_support, JudgeSettings().title) == ("openai m", True, "lexical")
    assert all(field.description for model in (JudgeSettings, LlmSettings) for field in model.model_fields.values())


async def test_open_judge_makes_no_cache_without_a_server(tmp_path, case):
    none, lexical = JudgeSettings.model_validate({"kind": "none"}), JudgeSettings()

    async with open_judge(none, tmp_path / "cache") as judge:
        assert (judge, judge_fingerprint(none)) == (None, None)
    async with open_judge(lexical, tmp_path / "cache") as judge:
        judgement = await judge.judge(case)

    assert judgement.correctness.verdict == "correct"
    assert judge.fingerprint == judge_fingerprint(lexical)
    assert list(tmp_path.iterdir()) == []


async def test_open_judge_names_the_variable_of_a_missing_secret(tmp_path, monkeypatch):
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    value = {"endpoint": {"base_url": "http://127.0.0.1:9/v1", "api_key_env": "JUDGE_KEY"}, "chat": {"model": "m"}}

    with pytest.raises(ServiceError) as error:
        async with open_judge(JudgeSettings.model_validate({"kind": "openai", "settings": value}), tmp_path):
            pass

    assert error.value.code == "missing_secret"
    assert "JUDGE_KEY" in str(error.value)
