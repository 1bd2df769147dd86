"""Scratch benchmarks, as those of the converter's tests."""

from tests.conversion.conftest import benchmark

__all__ = ["benchmark"]
