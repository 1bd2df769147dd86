"""Small benchmarks in the shapes of public ones, and what a careful person makes of each."""

from shapes import choices, open_domain, passages, tools  # noqa: F401 - they register their shapes
from shapes.facts import SHAPES  # noqa: F401
