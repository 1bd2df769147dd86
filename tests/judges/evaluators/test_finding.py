"""Evaluators of one's own: by import path, and from packages that name them as entry points."""

import re
import sys

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.judges.evaluators.evaluator import Evaluator
from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.judges.evaluators.finding import BUILT_IN, find_evaluator
from rag_eval_pipeline.judges.evaluators.shared_judge import SharedJudge

NOBODY = SharedJudge(None)
CODE = """
from rag_eval_pipeline.judges.evaluators.evaluator import Evaluator

def polite(event):
    return "please" in event.answer

STRICT = Evaluator("strict", lambda event, options: 1.0, version="2.0.0")
NUMBER = 3

class rules:
    polite = staticmethod(polite)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package with evaluators, and the entry points of its metadata."""
    (tmp_path / "house_evaluators.py").write_text(CODE)
    info = tmp_path / "house_evaluators-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house-evaluators\nVersion: 1.0\n")
    points = ["polite = house_evaluators:polite", "strict = house_evaluators:STRICT", "gone = house_evaluators:gone"]
    (info / "entry_points.txt").write_text("[rag_eval_pipeline.evaluators]\n" + "\n".join(points) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("house_evaluators", None)


@pytest.mark.parametrize("name", ["polite", "house_evaluators:polite", "house_evaluators:rules.polite"])
async def test_a_function_is_an_evaluator_of_its_name(name, package, evaluated):
    found = find_evaluator(name, NOBODY)
    assert (found.name, found.version, found.scale) == ("polite", None, None)

    evaluation = await evaluated(name, Event("e", "?", "Sit, please."))
    assert (evaluation.evaluator_name, evaluation.score) == ("polite", True)


@pytest.mark.parametrize("name", ["strict", "house_evaluators:STRICT"])
def test_an_evaluator_is_taken_as_it_is(name, package):
    found = find_evaluator(name, NOBODY)

    assert isinstance(found, Evaluator)
    assert (found.name, found.version) == ("strict", "2.0.0")


BAD = {
    "an unknown name": ("nonsense", "unknown_evaluator"),
    "an unknown module": ("no_such_module_here:f", "bad_evaluator"),
    "an unknown function": ("house_evaluators:f", "bad_evaluator"),
    "something else": ("house_evaluators:NUMBER", "bad_evaluator"),
    "an entry point into nothing": ("gone", "bad_evaluator"),
}


@pytest.mark.parametrize(("name", "code"), BAD.values(), ids=BAD)
def test_what_is_none(name, code, package):
    with pytest.raises(InputError) as error:
        find_evaluator(name, NOBODY)

    assert error.value.code == code
    assert "\n" not in str(error.value)


def test_an_unknown_name_is_answered_with_the_known_ones(package):
    with pytest.raises(InputError, match="gone, length, polite, quality, relevance, strict, toxicity"):
        find_evaluator("nonsense", NOBODY)


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_evaluators_have_a_version_and_a_scale(name):
    found = find_evaluator(name, NOBODY)

    assert found.name == name
    assert re.fullmatch(r"\d+\.\d+\.\d+", found.version)
    assert found.scale is not None
