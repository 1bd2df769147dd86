"""Versions sort as Semantic Versioning 2.0 says, and ids give theirs away."""

import itertools
import random

import pytest

from rag_eval_pipeline.formats.versions import newest_versions, parse_version, split_version

# Semantic Versioning 2.0, section 11, and what sorting as text gets wrong.
ASCENDING = [
    "0.9.9",
    "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1",
    "1.0.0", "1.2.0", "1.9.0", "1.10.0", "2.0.0-0", "2.0.0", "2.1.0", "2.1.1", "10.0.0",
]  # fmt: skip
NONE = ["", "1", "1.0", "1.0.0.0", "v1.0.0", "01.0.0", "1.0.0-01", "1.0.0-", "1.0.0+", "1.0.0-a..b", " 1.0.0", "1.0.0\n", "١.0.0",
        "1.0.0-" + "a" * 200]  # fmt: skip


def test_ascending_versions_have_ascending_precedence():
    for older, newer in itertools.combinations(ASCENDING, 2):
        assert parse_version(older) < parse_version(newer)


@pytest.mark.parametrize("text", NONE)
def test_no_semantic_version(text):
    assert parse_version(text) is None


def test_the_newest_is_the_highest_and_not_the_last_as_text():
    shuffled = random.Random(1).sample(ASCENDING[:12], 12)

    assert newest_versions(shuffled) == ["1.10.0"]
    assert newest_versions(["1.0.0", "1.0.0-rc.1", "no version"]) == ["1.0.0"]
    assert newest_versions(["1.0.0+a", "0.1.0", "1.0.0+b"]) == ["1.0.0+a", "1.0.0+b"]
    assert newest_versions(["1", ""]) == []


SPLIT = {
    "personal_rag_eval_v1.0.0": ("personal_rag_eval", "1.0.0"),
    "a_v1.0.0-rc.1+b": ("a", "1.0.0-rc.1+b"),
    "a_v1.0.0_v2.0.0": ("a_v1.0.0", "2.0.0"),
    "a_1.0.0": ("a_1.0.0", None),
    "a_v1.0": ("a_v1.0", None),
    "_v1.0.0": ("_v1.0.0", None),
    "a": ("a", None),
}


@pytest.mark.parametrize(("name", "parts"), SPLIT.items())
def test_an_id_and_the_version_at_its_end(name, parts):
    assert split_version(name) == parts
