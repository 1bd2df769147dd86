"""JSON bodies: a request's in its documented shape, and answers."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import pydantic

from rag_eval_pipeline.loopback.wire import Connection, Request

Shape = TypeVar("Shape", bound=pydantic.BaseModel)


async def send_json(
    connection: Connection, value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> None:
    """A JSON answer."""
    await connection.send(status, msgspec.json.encode(value), headers=headers)


async def parsed(shape: type[Shape], request: Request, connection: Connection) -> Shape | None:
    """The body in its shape; None when a 422 has been sent."""
    try:
        return shape.model_validate_json(request.body)
    except pydantic.ValidationError as error:
        await send_json(connection, refusal(error), 422)
        return None


def refusal(error: pydantic.ValidationError) -> dict[str, Any]:
    """The body of a 422: what is wrong, without the values."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return {"detail": [dict(finding) for finding in found]}
