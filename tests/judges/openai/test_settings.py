"""A judge's settings are checked as they are read, and hold no secret."""

import pydantic
import pytest

from rag_eval_pipeline.judges.openai.settings import OpenAiJudgeSettings

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
def test_bad_settings(value, field):
    with pytest.raises(pydantic.ValidationError) as error:
        OpenAiJudgeSettings.model_validate(value)

    assert ".".join(map(str, error.value.errors()[0]["loc"])) == field
    assert "sk-1234" not in str(error.value)


def test_ratings_by_name():
    settings = OpenAiJudgeSettings.model_validate({**GOOD, "ratings": ["answer_accuracy"]})

    assert (settings.ratings[0].scale, len(settings.ratings[0].prompts)) == ({0: 0.0, 2: 0.5, 4: 1.0}, 2)
    assert OpenAiJudgeSettings.model_validate(settings.model_dump()) == settings
    assert OpenAiJudgeSettings.model_validate_json(settings.model_dump_json()) == settings


@pytest.mark.parametrize("model", [OpenAiJudgeSettings])
def test_every_setting_is_described(model):
    assert all(field.description for field in model.model_fields.values())
