"""A setting that was removed is unknown to every settings file, which answers it with what replaces it."""

import runpy

import pydantic
import pytest

from rag_eval_pipeline.formats.model import known_keys, value_hint
from rag_eval_pipeline.formats.removed_settings import REMOVED
from tests.conftest import REPOSITORY

MODELS = runpy.run_path(str(REPOSITORY / "tools" / "write_reference.py"))["FILES"].values()


@pytest.mark.parametrize("name", REMOVED)
def test_removed_setting_is_refused_with_what_replaces_it(name):
    *parents, key = name.split(".")
    value = {key: None}
    for parent in reversed(parents):
        value = {parent: value}

    hints = set()
    for model in MODELS:
        if parents and parents[0] not in known_keys(model, parents[:1]):
            continue
        assert key not in known_keys(model, (*parents, key))
        with pytest.raises(pydantic.ValidationError) as error:
            model.model_validate(value)
        hints |= {value_hint(one, model) for one in error.value.errors() if one["loc"][-1:] == (key,)}

    assert hints == {REMOVED[name]}
