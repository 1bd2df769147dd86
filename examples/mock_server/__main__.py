"""`python -m examples.mock_server`."""

import typer

from examples.mock_server.server import serve

typer.run(serve)
