"""docs/explanation/verdicts.md has the words, the sentences and the settings of the code."""

import re
from typing import get_args

import pytest
import yaml

from rag_eval_pipeline.evaluation.quality_thresholds import QualityThresholds
from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.significance import needed_units
from rag_eval_pipeline.metrics.verdicts import RULES, VerdictKind
from rag_eval_pipeline.monitoring.comparison import VerdictSettings
from rag_eval_pipeline.monitoring.verdict_records import STANDING, Verdict
from tests.conftest import REPOSITORY
from tests.verdict_examples import DROP as EXAMPLE
from tests.verdict_examples import replace

PAGE = (REPOSITORY / "docs" / "explanation" / "verdicts.md").read_text()
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
    "no_verdict": replace(UNSURE, n=16, n_units=16, smallest_drop=11 / 16),
    "regressed": DROP,
    "improved": replace(
        DROP, estimate=0.031, adjusted_interval=Interval(0.006, 0.056), confidence_interval=Interval(0.016, 0.046)
    ),
    "equivalent": replace(UNSURE, estimate=0.001, confidence_interval=Interval(-0.008, 0.011)),
    "inconclusive": UNSURE,
}


@pytest.mark.parametrize(("kind", "evidence"), EXAMPLES.items(), ids=EXAMPLES)
def test_verdicts_page_has_each_word_with_its_sentence(kind, evidence):
    found = Verdict.of(evidence, confirmation="confirmed")

    assert found.kind == kind
    [row] = [line for line in PAGE.splitlines() if line.startswith(f"| **{kind.replace('_', ' ')}** |")]
    assert f'"{found.sentence}"' in row


def test_verdicts_page_explains_all_words_confirmations_and_numbers():
    rows = re.findall(r"^\| \*\*([a-z ]+)\*\* \|", PAGE, re.MULTILINE)

    assert rows == [kind.replace("_", " ") for kind in EXAMPLES]
    assert set(EXAMPLES) == set(get_args(VerdictKind))
    assert [text for text in STANDING.values() if text.partition(" until")[0] not in PAGE] == []
    assert (needed_units(12, alpha=RULES.alpha), needed_units(8, alpha=RULES.alpha)) == (11, 10)
    assert "11 with 12 metrics, 10 with 8" in PAGE
    assert f"{RULES.flips:,} times" in PAGE


def test_verdicts_page_and_bundled_file_have_every_setting_with_its_default():
    bundled = yaml.safe_load((REPOSITORY / "data" / "config" / "verdicts.config.yaml").read_text())

    assert set(BLOCK) == set(VerdictSettings.model_fields)
    assert set(BLOCK["quality_thresholds"]) == set(QualityThresholds.model_fields)
    assert VerdictSettings.model_validate(BLOCK) == VerdictSettings.model_validate(bundled) == VerdictSettings()
