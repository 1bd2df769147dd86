"""A setting that was removed is unknown to every settings file, which answers it with what replaces it."""

import runpy

import pydantic
import pytest

from rag_eval_pipeline.formats.model import known_keys, value_hint
from rag_eval_pipeline.formats.removed_settings import REMOVED
from tests.conftest import REPOSITORY

FILES = runpy.run_path(str(REPOSITORY / "tools" / "write_reference.py"))["FILES"]
SETTINGS = [name for name in REMOVED if not name.startswith("RAG_EVAL_")]  # the others are environment variables


@pytest.mark.parametrize("name", SETTINGS)
def test_removed_setting_is_refused_with_what_replaces_it(name):
    *parents, key = name.split(".")

    hints = set()
    for title, model in FILES.items():
        place = ["settings"] if title.startswith("`settings` of a system") else []
        inner = parents[len(place) :]
        if parents[: len(place)] != place or (inner and inner[0] not in known_keys(model, inner[:1])):
            continue
        assert key not in known_keys(model, (*inner, key))
        value = {key: None}
        for parent in reversed(inner):
            value = {parent: value}
        with pytest.raises(pydantic.ValidationError) as error:
            model.model_validate(value)
        faults = [{**one, "loc": (*place, *one["loc"])} for one in error.value.errors() if one["loc"][-1:] == (key,)]
        hints |= {value_hint(one, model) for one in faults}

    assert hints == {REMOVED[name]}
