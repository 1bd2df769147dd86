"""What is wrong with a row: the facts of its quarantine record."""

from rag_eval_pipeline.errors import excerpt
from rag_eval_pipeline.sources.decoded import BadRow


class RowFault(Exception):
    """A row that is no question: the facts of its quarantine record."""

    def __init__(self, code: str, field: str | None, expected: str, found: object = None) -> None:
        super().__init__(code)
        self.code, self.field, self.expected = code, field, expected
        self.excerpt = None if found is None else excerpt(found)


def bad_value(bad: BadRow, field: str) -> RowFault:
    """Return the fault of a value that could not be decoded, in the field in which it stood."""
    fault = RowFault(bad.code, field, bad.expected)
    fault.excerpt = bad.found  # an excerpt already
    return fault
