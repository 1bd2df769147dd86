"""What docs/verdicts.md says is what the code does: its words, its sentences, its settings."""

import re
from dataclasses import replace
from typing import get_args

import pydantic
import pytest
import yaml

from rag_eval_pipeline.metrics.claims import QualityThresholds
from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.significance import needed_units
from rag_eval_pipeline.metrics.verdicts import RULES, STANDING, VerdictKind, verdict
from rag_eval_pipeline.reporting.comparison import VerdictSettings
from tests.conftest import REPOSITORY
from tests.verdict_examples import DROP as EXAMPLE

PAGE = (REPOSITORY / "docs" / "verdicts.md").read_text()
BLOCK = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])

DROP = replace(EXAMPLE, metric="exact_match")
UNSURE = replace(
    DROP,
    estimate=-0.012,
    adjusted_interval=Interval(-0.046, 0.022),
    confidence_interval=Interval(-0.034, 0.010),
    p_corrected=0.9,
)
EXAMPLES = {
    "withheld": replace(DROP, coverage=0.9612),
    "no_verdict": replace(UNSURE, n_pairs=16, n_units=16, smallest_drop=11 / 16),
    "regressed": DROP,
    "improved": replace(
        DROP, estimate=0.031, adjusted_interval=Interval(0.006, 0.056), confidence_interval=Interval(0.016, 0.046)
    ),
    "equivalent": replace(UNSURE, estimate=0.001, confidence_interval=Interval(-0.008, 0.011)),
    "inconclusive": UNSURE,
}


@pytest.mark.parametrize(("kind", "evidence"), EXAMPLES.items(), ids=EXAMPLES)
def test_the_words_and_their_sentences(kind, evidence):
    found = verdict(evidence, confirmation="confirmed")

    assert found.kind == kind
    [row] = [line for line in PAGE.splitlines() if line.startswith(f"| **{kind.replace('_', ' ')}** |")]
    assert f'"{found.sentence}"' in row


def test_every_word_is_there_in_the_order_in_which_they_are_tried():
    rows = re.findall(r"^\| \*\*([a-z ]+)\*\* \|", PAGE, re.MULTILINE)

    assert rows == [kind.replace("_", " ") for kind in EXAMPLES]
    assert set(EXAMPLES) == set(get_args(VerdictKind))


def test_what_stands_behind_a_change_is_explained():
    assert [text for text in STANDING.values() if text.partition(" until")[0] not in PAGE] == []


def test_every_setting_is_named_with_its_default():
    assert set(BLOCK) == set(VerdictSettings.model_fields)
    assert set(BLOCK["quality_thresholds"]) == set(QualityThresholds.model_fields)
    assert VerdictSettings.model_validate(BLOCK) == VerdictSettings()


def test_the_bundled_settings_are_the_defaults():
    text = (REPOSITORY / "data" / "config" / "verdicts.config.yaml").read_text()

    assert VerdictSettings.model_validate(yaml.safe_load(text)) == VerdictSettings()


def test_every_setting_says_what_it_does():
    fields = (*VerdictSettings.model_fields.values(), *QualityThresholds.model_fields.values())

    assert all(isinstance(field, pydantic.fields.FieldInfo) and field.description for field in fields)


def test_the_numbers_of_the_procedure():
    assert (needed_units(12, alpha=RULES.alpha), needed_units(8, alpha=RULES.alpha)) == (11, 10)
    assert "11 with 12 metrics, 10 with 8" in PAGE
    assert f"{RULES.flips:,} times" in PAGE


def test_the_page_is_short():
    assert len(PAGE.splitlines()) <= 120
