"""A loopback site."""

from collections.abc import Iterator

import pytest

from tests.web.site import Site, serve


@pytest.fixture
def site() -> Iterator[Site]:
    yield from serve()
