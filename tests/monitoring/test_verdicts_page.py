"""docs/explanation/verdicts.md has the words, the sentences and the settings of the code."""

import re
from typing import get_args

import pytest
import yaml

from rag_eval_pipeline.metrics.verdict_rules import FIRST_LOOK, REFERENCE_RUNS, Budget, QualityThresholds, VerdictKind
from rag_eval_pipeline.metrics.verdicts import needed_units
from rag_eval_pipeline.monitoring.verdict_records import STANDING, Verdict
from rag_eval_pipeline.monitoring.verdict_settings import VerdictSettings
from tests.conftest import REPOSITORY
from tests.verdict_examples import DROP, RISE, SMALL, UNCLEAR, replace

PAGE = (REPOSITORY / "docs" / "explanation" / "verdicts.md").read_text()
BLOCK = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])

EXAMPLES = {
    "regressed": DROP,
    "improved": RISE,
    "changed": replace(DROP, fell=20, rose=18),
    "equivalent": SMALL,
    "inconclusive": UNCLEAR,
    "withheld": replace(DROP, n=190, n_missing=10, p_if_missing=2e-4, estimate_if_missing=-0.031),
    "no_verdict": replace(UNCLEAR, n=16, n_units=16, smallest_drop=4 / 16),
}


@pytest.mark.parametrize(("kind", "evidence"), EXAMPLES.items(), ids=EXAMPLES)
def test_verdicts_page_has_each_word_with_its_sentence(kind, evidence):
    found = Verdict.of(replace(evidence, metric="exact_match"), confirmation="confirmed")

    assert found.kind == kind
    [row] = [line for line in PAGE.splitlines() if line.startswith(f"| **{kind.replace('_', ' ')}** |")]
    assert f'"{found.sentence}"' in row


def test_verdicts_page_explains_all_words_confirmations_and_numbers():
    rows = re.findall(r"^\| \*\*([a-z ]+)\*\* \|", PAGE, re.MULTILINE)
    floors = [
        needed_units(12, level=Budget(0.5, pairs).level(2), reference=runs, runs=2)
        for pairs in (1, 30)
        for runs in (5, REFERENCE_RUNS)
    ]

    assert rows == [kind.replace("_", " ") for kind in EXAMPLES]
    assert set(EXAMPLES) == set(get_args(VerdictKind))
    assert [text for text in STANDING.values() if text.partition(" until")[0] not in PAGE] == []
    assert f"at most {FIRST_LOOK}" in PAGE
    assert f"{floors[0]} questions with one pair and 12 metrics, {floors[1]} once 20 runs are known" in PAGE
    assert f"{floors[2]} and {floors[3]} with 30 pairs" in PAGE


def test_verdicts_page_and_bundled_file_have_every_setting_with_its_default():
    bundled = yaml.safe_load((REPOSITORY / "data" / "config" / "verdicts.config.yaml").read_text())

    assert set(BLOCK) == set(VerdictSettings.model_fields)
    assert set(BLOCK["quality_thresholds"]) == set(QualityThresholds.model_fields)
    assert VerdictSettings.model_validate(BLOCK) == VerdictSettings.model_validate(bundled) == VerdictSettings()
