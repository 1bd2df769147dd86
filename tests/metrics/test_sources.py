"""Every test, interval, correction and effect size says where it comes from."""

import inspect

import pytest

from rag_eval_pipeline.metrics import (
    bootstrap,
    corrections,
    effects,
    equivalence,
    exact_permutation,
    intervals,
    paired_tests,
    power,
)

ROOMS = (bootstrap, corrections, effects, equivalence, exact_permutation, intervals, paired_tests, power)
# What is no method of the literature's: several at once, a comparison of numbers, arithmetic.
PLAIN = {"bootstrap_intervals", "is_inside", "whole_multiples"}
METHODS = {
    name: function
    for room in ROOMS
    for name, function in inspect.getmembers(room, inspect.isfunction)
    if function.__module__ == room.__name__ and not name.startswith("_") and name not in PLAIN
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_names_its_source(name):
    assert "Source: " in inspect.getdoc(METHODS[name])
