"""A judge is opened by the settings of an evaluation, which say in one line what is wrong with them."""

import pytest

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.formats.model import Model
from rag_eval_pipeline.judges.opening import judge_fingerprint, open_judge
from rag_eval_pipeline.judges.settings import JudgeSettings, parse_judge
from tests.judges.openai.judge_server import honest, judge_server

OPENAI = {"kind": "openai", "settings": {"endpoint": {"base_url": "http://127.0.0.1:9/v1"}, "chat": {"model": "m"}}}
SECRET = {"endpoint": {"base_url": "http://127.0.0.1:9/v1", "api_key_env": "sk-12-34"}, "chat": {"model": "m"}}
BAD = {
    "a list":               ([],                                                  "judge"),
    "an unknown kind":      ({"kind": "oracle"},                                  "judge.kind"),
    "an unknown key":       ({"kind": "lexical", "model": "m"},                   "judge.model"),
    "another kind's":       ({"kind": "lexical", "settings": {"chat": {}}},       "judge.settings.chat"),
    "settings of nothing":  ({"kind": "none", "settings": {"x": 1}},              "judge.settings.x"),
    "no server":            ({"kind": "openai"},                                  "judge.settings.endpoint"),
    "settings as a text":   ({"kind": "openai", "settings": "x"},                 "judge.settings"),
    "a budget of nothing":  ({**OPENAI, "budget": {"requests": 0}},               "judge.budget.requests"),
    "a secret":             ({"kind": "openai", "settings": SECRET},              "judge.settings.endpoint.api_key_env"),
}  # fmt: skip


@pytest.mark.parametrize(("value", "field"), BAD.values(), ids=BAD)
def test_bad_settings(value, field):
    with pytest.raises(InputError) as error:
        parse_judge(value, "evaluation_defaults.config.yaml")

    assert (error.value.code, error.value.field) == ("bad_setting", field)
    assert "\n" not in str(error.value)
    assert "sk-12-34" not in str(error.value)


def test_settings_survive_a_file():
    class Whole(Model):
        judge: JudgeSettings = JudgeSettings()

    whole = Whole(judge=parse_judge({**OPENAI, "budget": {"usd": 2}}, "-"))

    assert Whole.model_validate_json(whole.model_dump_json()) == whole
    assert (Whole().judge.kind, whole.judge.title, whole.judge.budget.usd) == ("lexical", "openai m", 2)


async def test_no_judge(tmp_path):
    settings = parse_judge({"kind": "none"}, "-")

    async with open_judge(settings, tmp_path / "cache") as judge:
        assert judge is None
    assert judge_fingerprint(settings) is None
    assert list(tmp_path.iterdir()) == []


async def test_the_lexical_judge_by_default(tmp_path, case):
    settings = parse_judge(None, "-")

    async with open_judge(settings, tmp_path / "cache") as judge:
        judgement = await judge.judge(case)

    assert judgement.correctness.verdict == "correct"
    assert judge.fingerprint == judge_fingerprint(settings)
    assert list(tmp_path.iterdir()) == []


async def test_a_model_with_the_lexical_judge_beside_it(tmp_path, case):
    async with judge_server(honest) as server:
        settings = parse_judge(
            {"kind": "openai", "settings": {"endpoint": {"base_url": server.url}, "chat": {"model": "m"}}}, "-"
        )
        async with open_judge(settings, tmp_path / "cache") as judge:
            judgement = await judge.judge(case)

    assert judgement.status == "completed"
    assert judgement.correctness.verdict == "correct"
    # The lexical judge split the answer: each sentence with the citations that follow it.
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
        async with open_judge(parse_judge({"kind": "openai", "settings": value}, "-"), tmp_path):
            pass

    assert error.value.code == "missing_secret"
    assert "JUDGE_KEY" in str(error.value)
