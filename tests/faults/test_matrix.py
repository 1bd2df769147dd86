"""Every row of docs/reference/faults.md is shown by a test."""

import pytest

from tests.conftest import REPOSITORY
from tests.faults.matrix import ROWS, marked_tests, page

KNOWN = [number for rows in ROWS.values() for number in rows]


@pytest.fixture(scope="module")
def marked():
    return marked_tests()


def test_every_row_has_a_test(marked):
    assert list(range(1, 73)) == KNOWN
    assert [number for number in KNOWN if number not in marked] == []


def test_every_mark_is_of_a_row(marked):
    assert {number: tests for number, tests in marked.items() if number not in KNOWN} == {}


def test_page_is_what_rows_and_marks_say():
    assert (REPOSITORY / "docs" / "reference" / "faults.md").read_text() == page(), "run `make reference`"
